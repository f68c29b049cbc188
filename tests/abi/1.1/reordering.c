/* reordering -- a task as it was written for ABI 1.1, which brought LAB_TASK_REORDERS: the sum of the digits before a mark, which
 * stays last in every order.  Compiled with the headers of 1.1 that lie here.  These three files never change. */
#include "lab_plugin.h"
#include "lab_task.h"

enum { DIGITS = 5, MARK = DIGITS };

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    (void)self, (void)err;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = DIGITS + 1, .vocab_out = DIGITS, .min_len = 1, .max_len = 1000,
                                    .max_slice = 1, .version = 1, .chance = 1.0 / DIGITS };
    return 0;
}
static int tape(const void *self, int len) { (void)self; return len + 1; }

static void reorder(struct lab_rng *r, int32_t *in, int len)
{
    for (int i = len - 1; i > 0; i--) {
        int j = (int)lab_rng_below(r, (uint32_t)i + 1);
        int32_t swapped = in[i];
        in[i] = in[j], in[j] = swapped;
    }
}
static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    struct lab_rng r = lab_rng_at(seed, (uint32_t)split, (uint32_t)n, (uint32_t)len);
    int sum = 0;
    (void)self, (void)err;
    if (split == LAB_REORDER) reorder(&r, e->in, len);
    else for (int i = 0; i < len; i++) e->in[i] = (int32_t)lab_rng_below(&r, DIGITS);
    for (int i = 0; i < len; i++) sum += e->in[i], e->target[i] = -1;
    e->in[len] = MARK, e->target[len] = sum % DIGITS;
    return 0;
}

static const struct lab_task reordering = { .size = sizeof reordering, .flags = LAB_TASK_REORDERS, .name = "reordering",
    .summary = "the sum of digits, said at the mark behind them", .cite = "written for the test", .init = init, .tape = tape, .sample = sample };
static const struct lab_task *const tasks[] = { &reordering, NULL };
LAB_PLUGIN(reordering, .version = "1", .license = "MIT", .tasks = tasks);
