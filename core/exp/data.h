/* data -- batches: examples of the task, laid out as the model reads them.
 *
 * Positions come from the run's source (positions.h), or from a task that writes its own.
 * Example n of a split depends on (task options, seed, split, n, length) alone; training step s
 * takes examples s*batch .. s*batch + batch-1 of the run's seed.  Where each has a length of its own
 * the longest comes first, and the others are padded: no key, no target, so that neither attention
 * nor loss nor score sees the padding.
 */
#ifndef LAB_EXP_DATA_H
#define LAB_EXP_DATA_H
#include "base/hash.h"
#include "exp/config.h"
#include "nn/model.h"

struct data {
    const struct run_config *config;
    struct model_batch batch;        /* of the last data_ call; points into the arrays below */
    int32_t *token, *target, *pos;   /* [tokens]; pos: one row shared by all, or one for each sequence */
    int32_t *length, *slice, *prompt;    /* [B] */
    float *weight;                   /* [tokens] */
    uint8_t *counted, *key_ok;       /* [tokens]; 0: not in any accuracy; 0: padding up to the longest sequence */
    int32_t capacity;                /* tokens */
    struct arena arena;
};

/* Room for batches of up to `tokens` tokens.  On failure nothing is left to release. */
int  data_init(struct data *, const struct run_config *, int tokens, struct lab_err *err);
void data_release(struct data *);
/* The training batch of a step, at the length drawn for it. */
int  data_train(struct data *, int64_t step, struct lab_err *err);
/* Examples first .. first+count-1 of the evaluation set of a split at a length; added to hash if not NULL. */
int  data_eval(struct data *, int split, int length, int64_t first, int count, struct hash *hash, struct lab_err *err);
#endif
