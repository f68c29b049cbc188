/* old_plugin -- an encoder and a task as they were written for ABI 1.0, compiled with the headers of 1.0 that lie here.
 * Every later minor version of lab must load it and find nothing wrong with it.  These three files never change. */
#include <stdlib.h>
#include "lab_plugin.h"
#include "lab_task.h"

struct self { double start; int32_t vocab, squared, power; const char *note; };
static const struct lab_option encoder_options[] = {
    LAB_REAL(struct self, start, "0.5", 0, 10, "slope of every head before training"),
    LAB_BOOL(struct self, squared, "no", "the square of the distance"),
    LAB_ENUM(struct self, power, "one", "one|half", "part of it that is taken"),
    LAB_STR(struct self, note, "", "for people"),
    LAB_OPTIONS_END };
static const struct lab_option task_options[] = {
    LAB_INT(struct self, vocab, "10", 2, 1000, "different tokens, drawn uniformly"), LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)self;
    return d->d_head > 1000 ? lab_fail(err, "a head of %d is too large: raise model.heads", d->d_head) : 0;
}
static void fini(void *self) { (void)self; }
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    static const char *const name[] = { "slope", "gain" };
    if (i > 1) return 0;
    *out = (struct lab_param){ .name = name[i], .ndim = 1, .dim = { d->n_head }, .init = i ? LAB_INIT_CUSTOM : LAB_INIT_CONST,
                               .a = ((const struct self *)self)->start, .flags = LAB_P_NO_DECAY | (i ? LAB_P_FROZEN : 0) };
    return 1;
}
static void param_init(const void *self, const struct lab_dims *d, int i, int layer, uint64_t seed, lab_real *w)
{
    (void)self, (void)i, (void)layer, (void)seed;
    for (int h = 0; h < d->n_head; h++) w[h] = 1;
}
static size_t one_number(const void *self, const struct lab_call *c, int hook)
{
    (void)self, (void)c, (void)hook;
    return sizeof(lab_real);
}
static lab_real farness(const struct self *s, const struct lab_call *c, int h, int i, int j)
{
    lab_real far = (lab_real)abs(c->pos_q[i] - c->pos_k[j]);
    return c->p[1][h] * (s->squared ? far * far : far) * (s->power ? (lab_real)0.5 : 1);
}
static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    lab_real *slope = c->scratch;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *slope = c->p[0][h], *b++ -= *slope * farness(self, c, h, i, j);
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[0][h] -= *db++ * farness(self, c, h, i, j);
}

static int task_init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    int vocab = ((const struct self *)self)->vocab;
    (void)err;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = vocab, .vocab_out = vocab, .min_len = 1, .max_len = 1000,
                                    .max_slice = 1, .version = 1, .chance = 1.0 / vocab };
    return 0;
}
static int solve(const void *self, int len, struct lab_example *e)
{
    (void)self;
    for (int i = 0; i < len; i++) e->target[i] = e->in[len - 1 - i];
    return 0;
}
static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    struct lab_rng r = lab_rng_at(seed, (uint32_t)split, (uint32_t)n, (uint32_t)len);
    (void)err;
    for (int i = 0; i < len; i++) e->in[i] = (int32_t)lab_rng_below(&r, (uint32_t)((const struct self *)self)->vocab);
    return solve(self, len, e);
}

static const struct lab_encoder old_encoder = { .size = sizeof old_encoder, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT,
    .name = "old_encoder", .summary = "a plugin of ABI 1.0", .self_size = sizeof(struct self), .options = encoder_options, .init = init,
    .fini = fini, .param = param, .param_init = param_init, .scratch_size = one_number, .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_task old_task = { .size = sizeof old_task, .flags = LAB_TASK_EXCHANGEABLE, .name = "old_task",
    .summary = "a plugin of ABI 1.0", .self_size = sizeof(struct self), .options = task_options, .init = task_init, .sample = sample,
    .solve = solve };
static const struct lab_encoder *const encoders[] = { &old_encoder, NULL };
static const struct lab_task *const tasks[] = { &old_task, NULL };
LAB_PLUGIN(old_plugin, .version = "1", .license = "MIT", .encoders = encoders, .tasks = tasks);
