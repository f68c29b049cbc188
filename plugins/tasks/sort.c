/* sort -- the targets are the input in ascending order, by counting.
 * Example n is a pure function of (options, seed, split, n, length). */
#include "lab_task.h"

enum { LONGEST = 100000, MOST = 1000 };
struct sort { int32_t vocab; };

static const struct lab_option options[] = {
    LAB_INT(struct sort, vocab, "10", 2, MOST, "different tokens, drawn uniformly"),
    LAB_OPTIONS_END };

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    int vocab = ((const struct sort *)self)->vocab;
    (void)err;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = vocab, .vocab_out = vocab, .min_len = 1, .max_len = LONGEST,
                                    .max_slice = 1, .version = 1, .chance = 1.0 / vocab };
    return 0;
}

static int solve(const void *self, int len, struct lab_example *e)
{
    int count[MOST], vocab = ((const struct sort *)self)->vocab;
    for (int token = 0; token < vocab; token++) count[token] = 0;
    for (int i = 0; i < len; i++) {
        if (e->in[i] < 0 || e->in[i] >= vocab) return -1;
        count[e->in[i]]++;
    }
    for (int token = 0, i = 0; token < vocab; token++)
        for (int end = i + count[token]; i < end; i++) e->target[i] = token;
    return 0;
}

/* The high half of n goes where seeds below 2^32 leave zeros, so that no two examples share a stream. */
static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    if (len < 1 || len > LONGEST) return lab_fail(err, "sort: length %d is not in 1..%d", len, LONGEST);
    struct lab_rng r = lab_rng_at(seed ^ ((uint64_t)n >> 32 << 32), (uint32_t)split, (uint32_t)n, (uint32_t)len);
    uint32_t vocab = (uint32_t)((const struct sort *)self)->vocab;
    for (int i = 0; i < len; i++) e->in[i] = (int32_t)lab_rng_below(&r, vocab);
    e->prompt = e->slice = 0;
    return solve(self, len, e);
}

static const struct lab_task sort = { .size = sizeof sort, .flags = LAB_TASK_EXCHANGEABLE, .name = "sort",
    .summary = "the input in ascending order", .self_size = sizeof(struct sort), .options = options,
    .init = init, .sample = sample, .solve = solve };
static const struct lab_task *const list[] = { &sort, NULL };
LAB_PLUGIN(sort, .version = "1", .license = "MIT", .tasks = list);
