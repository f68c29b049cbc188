/* dm.h -- what DeepMind's fifteen tasks share (Deletang et al. 2023, Ruoss et al. 2023): the tape and its targets.
 *
 * The tape is the input, then one empty token (id = number of input symbols) for each output; the model answers at the
 * empty tokens and reads everything in both directions.  Trained on all outputs; where an answer ends with a terminator,
 * what follows it is not counted.  A task gives a struct dm_kind to DM_TASK and refuses nothing but lengths.
 * Example n is a pure function of (options, seed, split, n, length).
 */
#ifndef PLUGINS_TASKS_DM_H
#define PLUGINS_TASKS_DM_H
#include "lab_task.h"

enum { DM_LONGEST = 10000, DM_END = 2 };
#define DM_CITE "Ruoss et al. 2023, arXiv:2305.16843; Deletang et al. 2023, arXiv:2207.02098"

struct dm;
struct dm_kind {
    int32_t symbols, classes;        /* of the input, of an output */
    double  chance;                  /* as the papers count it: what follows the terminator aside */
    int   (*inputs)(int len), (*outputs)(int len);
    void  (*draw)(const struct dm *, struct lab_rng *, int len, int32_t *in, int32_t *out);
    int     terminated;              /* the answer ends with DM_END, then zeros */
    void  (*answer)(const struct dm *, int len, const int32_t *in, int32_t *out);    /* NULL: draw writes it, too */
    void  (*reorder)(const struct dm *, struct lab_rng *, int len, int32_t *in);     /* as LAB_TASK_REORDERS says; NULL: not offered */
};
struct dm { const struct dm_kind *kind; int32_t variant; };      /* variant: of those tasks that declare it */

static inline int dm_same(int len) { return len; }
static inline int dm_one(int len) { (void)len; return 1; }
static inline int dm_next(int len) { return len + 1; }

static inline void dm_symbols(struct lab_rng *r, int32_t *x, int n, uint32_t below)
{
    for (int i = 0; i < n; i++) x[i] = (int32_t)lab_rng_below(r, below);
}
/* Another order of n tokens: what independent symbols, or symbols of which one order is as likely as another, may turn into. */
static inline void dm_shuffle(struct lab_rng *r, int32_t *x, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)lab_rng_below(r, (uint32_t)i + 1);
        int32_t swapped = x[i];
        x[i] = x[j];
        x[j] = swapped;
    }
}
/* Terminator after n symbols of the answer, zeros up to `all`. */
static inline void dm_terminate(int32_t *out, int n, int all)
{
    for (int i = n; i < all; i++) out[i] = i == n ? DM_END : 0;
}

static inline int dm_init(struct dm *d, const struct dm_kind *kind, struct lab_task_info *info)
{
    d->kind = kind;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = kind->symbols + 1, .vocab_out = kind->classes, .min_len = 1,
                                    .max_len = DM_LONGEST, .max_slice = 1, .version = 1, .chance = kind->chance };
    return 0;
}

static int dm_tape(const void *self, int len)
{
    const struct dm_kind *kind = ((const struct dm *)self)->kind;
    return kind->inputs(len) + kind->outputs(len);
}

/* The high half of n goes where seeds below 2^32 leave zeros, so that no two examples share a stream. */
static int dm_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct dm_kind *kind = ((const struct dm *)self)->kind;
    if (len < 1 || len > DM_LONGEST) return lab_fail(err, "length %d is not in 1..%d", len, DM_LONGEST);
    struct lab_rng r = lab_rng_at(seed ^ ((uint64_t)n >> 32 << 32), (uint32_t)split, (uint32_t)n, (uint32_t)len);
    int inputs = kind->inputs(len), outputs = kind->outputs(len), counted = 1;
    int32_t *out = e->target + inputs;
    if (split == LAB_REORDER) kind->reorder(self, &r, len, e->in);
    else kind->draw(self, &r, len, e->in, out);
    if (kind->answer) kind->answer(self, len, e->in, out);
    for (int i = 0; i < inputs; i++) e->target[i] = -1;
    for (int i = 0; i < outputs; i++) {
        e->in[inputs + i] = kind->symbols;
        e->counted[inputs + i] = (uint8_t)counted;
        if (kind->terminated && out[i] == DM_END) counted = 0;
    }
    e->prompt = e->slice = 0;
    return 0;
}

/* order: LAB_TASK_REORDERS or 0, whether the kind has reorder. */
#define DM_TASK(id, text, table, order, ...) \
    static const struct dm_kind id##_kind = { __VA_ARGS__ }; \
    static int id##_init(void *self, struct lab_task_info *info, struct lab_err *err) \
    { (void)err; return dm_init(self, &id##_kind, info); } \
    static const struct lab_task id = { .size = sizeof id, .flags = order, .name = #id, .summary = text, .cite = DM_CITE, \
        .self_size = sizeof(struct dm), .options = table, .init = id##_init, .tape = dm_tape, .sample = dm_sample }
#endif
