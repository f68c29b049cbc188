/* prompted.h -- what tasks for causal models share: a prompt, then the answer, then an end token that is never read. */
#ifndef PLUGINS_TASKS_PROMPTED_H
#define PLUGINS_TASKS_PROMPTED_H
#include "lab_task.h"

/* The high half of n goes where seeds below 2^32 leave zeros, so that no two examples share a stream. */
static inline struct lab_rng prompted_rng(uint64_t seed, int split, int64_t n, int len)
{
    return lab_rng_at(seed ^ ((uint64_t)n >> 32 << 32), (uint32_t)split, (uint32_t)n, (uint32_t)len);
}

/* in[0..prompt) and the answer in[prompt..prompt+n) are written: sets the targets, and pads up to the tape's end. */
static inline void prompted_finish(struct lab_example *e, int prompt, int n, int tape, int32_t end, int32_t pad)
{
    for (int t = prompt + n; t < tape; t++) e->in[t] = pad;
    for (int t = 0; t < tape; t++)
        e->target[t] = t < prompt - 1 || t > prompt - 1 + n ? -1 : t == prompt - 1 + n ? end : e->in[t + 1];
    e->prompt = prompt;
    e->slice = 0;
}

static inline void prompted_shuffle(struct lab_rng *r, int32_t *x, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)lab_rng_below(r, (uint32_t)i + 1);
        int32_t swapped = x[i];
        x[i] = x[j];
        x[j] = swapped;
    }
}
#endif
