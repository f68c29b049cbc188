/* good_task -- a sound task with an option: every target is the sum of its input and `add`, modulo `vocab`. */
#include "lab_task.h"

struct shifted { int32_t vocab, add; };
static const struct lab_option options[] = {
    LAB_INT(struct shifted, vocab, "10", 2, 1000, "token ids are 0 .. vocab-1"),
    LAB_INT(struct shifted, add, "1", 0, 999, "what is added to each token"),
    LAB_OPTIONS_END };

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    const struct shifted *s = self;
    if (s->add >= s->vocab) return lab_fail(err, "add is %d, but tokens end at %d; lower add or raise vocab", s->add, s->vocab - 1);
    info->vocab_in = info->vocab_out = s->vocab;
    info->min_len = 1, info->max_len = 4096, info->max_slice = 1, info->version = 1;
    info->chance = 1.0 / s->vocab;
    return 0;
}

static int solve(const void *self, int len, struct lab_example *e)
{
    const struct shifted *s = self;
    for (int t = 0; t < len; t++) e->target[t] = (e->in[t] + s->add) % s->vocab;
    return 0;
}

static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct shifted *s = self;
    struct lab_rng rng = lab_rng_at(seed, (uint32_t)split, (uint32_t)n, (uint32_t)len);
    (void)err;
    for (int t = 0; t < len; t++) e->in[t] = (int32_t)lab_rng_below(&rng, (uint32_t)s->vocab);
    return solve(self, len, e);
}

static const struct lab_task add = { .size = sizeof add, .flags = LAB_TASK_EXCHANGEABLE, .name = "good_task",
    .summary = "add a number to every token", .self_size = sizeof(struct shifted), .options = options, .init = init,
    .sample = sample, .solve = solve };
static const struct lab_task *const tasks[] = { &add, NULL };
LAB_PLUGIN(good_task, .version = "1", .license = "MIT", .tasks = tasks);
