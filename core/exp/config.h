/* config -- the complete, typed configuration of one run, and its identity.
 *
 * run_key is the SHA-256 of the canonical JSON: every effective option of the model,
 * the training, the task (with its version), the encoder and the positions (unless they are
 * sequential), sorted, floats in their shortest exact spelling.  [limits] and [experiment]
 * are not in it, and of [eval] nothing but what selects the weights that are kept, if anything
 * does (eval.select): the rest does not change what is trained.
 */
#ifndef LAB_EXP_CONFIG_H
#define LAB_EXP_CONFIG_H
#include "abi/lab_task.h"
#include "exp/conf.h"
#include "exp/positions.h"
#include "host/option.h"
#include "host/plugin.h"
#include "nn/model.h"
#include "nn/optim.h"

enum { SELECT_LAST, SELECT_BEST_VALID, SELECT_BEST_LONGER };     /* there is none for test data, and there must not be */
enum { LENGTH_UNIFORM, LENGTH_REVERSE_EXPONENTIAL, LENGTH_GROWING };
enum { LENGTH_PER_BATCH, LENGTH_PER_EXAMPLE };

struct train_options {
    struct option_range length;      /* drawn anew each step when lo < hi */
    int32_t length_law, per;         /* LENGTH_... */
    double  tau;
    int32_t grow_every;
    int32_t steps, batch;
    double  lr, beta1, beta2, eps, weight_decay, clip;
    int32_t warmup, schedule;        /* OPTIM_CONSTANT, OPTIM_COSINE, OPTIM_LINEAR */
    int32_t log_every;               /* steps a point of the loss curve averages over; not in run_key */
};
struct eval_options {                /* not in run_key, unless weights are selected by it */
    struct option_list lengths;
    int32_t sequences;               /* of the final evaluation, per length */
    int32_t free_sequences;          /* of these, continued by a causal model alone; 0 = none */
    int32_t every;                   /* steps between evaluations during training; 0 = none */
    int32_t every_sequences;         /* of those, per length */
    int32_t seed;                    /* of the evaluation data, one set for all runs */
    int32_t select;                  /* SELECT_...: which step's weights are kept and tested */
};
struct limits_options {              /* of one worker process; none of it is in run_key */
    double  checkpoint;              /* seconds between checkpoints; 0 = only when stopped */
    int32_t memory;                  /* MB of address space; 0 = no limit */
    double  time;                    /* seconds; 0 = no limit */
};
struct run_config {
    struct model_options  model;
    struct train_options  train;
    struct eval_options   eval;
    struct positions_options positions;
    struct limits_options limits;
    int64_t seed;                    /* 0 .. 2^31-1 */
    const struct lab_encoder *encoder; void *encoder_self; int encoder_ready;  /* ready: init done, fini owed */
    const struct lab_task *task;       void *task_self;    int task_ready;
    const struct plugin_file *encoder_file, *task_file;
    struct lab_task_info task_info;
    struct lab_dims dims;            /* n_layer.. filled; train_len, max_len in tape positions */
    char key[HASH_HEX];              /* identity of the run */
    char variant[HASH_HEX];          /* of everything but encoder (with its options), task and seed: pairs runs */
    char task_key[HASH_HEX];         /* of the task, its version and options: names data and ceilings */
    char *json;                      /* canonical */
    char *settings;                  /* the run as text, "[section]\nkey = value\n": config_build gives the same run back */
};

/* The tables of the host's sections, for `lab info` and for --help; that of [positions] stands in positions.h. */
extern const struct lab_option config_model_table[], config_train_table[], config_eval_table[], config_limits_table[];

/* One run from its entries: sections run (encoder, task, seed), model, train, eval, positions, limits, encoder.NAME, task.NAME.
 * Sections of encoders and tasks that this run does not use are checked and otherwise ignored.
 * Validates everything and calls both init functions.  On failure nothing is left to free. */
int  config_build(struct run_config *, const struct conf_entry *entry, size_t n, const struct registry *, struct lab_err *err);
void config_free(struct run_config *);
/* May an experiment file have the section of this entry, or of this heading? */
int  config_check_section(const struct conf_entry *, const struct registry *, struct lab_err *err);

/* Tokens on the tape for an example of this length. */
int  config_tape(const struct run_config *, int length);
/* Is this length past those of training?  Validation at such lengths is a split of its own. */
int  config_is_longer(const struct run_config *, int length);
/* Does an evaluation at this length have a say in which weights are kept? */
int  config_selects(const struct run_config *, int length);
/* Can the model of this run continue a prompt alone: does it predict the token after the last that it read? */
int  config_continues(const struct run_config *);
/* What the model of this run needs; batch sizes for training and evaluation. */
void config_model_setup(const struct run_config *, struct model_setup *out);
#endif
