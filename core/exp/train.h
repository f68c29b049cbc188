/* train -- one run from its configuration to its records: training, evaluation, weights.
 *
 * The weights that it writes and tests are the last, or those that eval.select chose by an evaluation during training.
 * Emits records and writes the weights file and checkpoints; knows nothing of processes or databases.
 * Going on from a checkpoint gives the same weights, curve, evaluations and result hash as never having
 * stopped, and tells only what is due after it.
 */
#ifndef LAB_EXP_TRAIN_H
#define LAB_EXP_TRAIN_H
#include <signal.h>
#include "exp/config.h"
#include "exp/record.h"

struct train_job {
    const struct run_config *config;
    const char *weights;             /* safetensors: written by training, read by evaluation */
    const char *checkpoint;          /* base of the paths of checkpoints (ckpt_path); NULL or "" = none are written */
    int resume;                      /* the slot to go on from, -1 = start anew ... */
    int64_t from_step;               /* ... and the step that it must stand at */
    const char *attempt;             /* whose checkpoints they are */
    const struct record_sink *sink;
    const volatile sig_atomic_t *stop;   /* nonzero: finish the step, save a checkpoint, return TRAIN_STOPPED; may be NULL */
};
enum train_status { TRAIN_DONE, TRAIN_STOPPED, TRAIN_FAILED };   /* err: FAILED why, STOPPED why there is no checkpoint, or "" */

/* Trains, then evaluates at config->eval.lengths (split test) and emits DONE. */
enum train_status train_run(const struct train_job *, struct lab_err *err);
/* Evaluates kept weights at config->eval.lengths (split test), step = train.steps, and emits DONE. */
enum train_status train_evaluate(const struct train_job *, struct lab_err *err);
#endif
