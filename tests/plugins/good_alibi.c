/* good_alibi -- a sound encoder with options and a parameter: a penalty on the logits in proportion to distance.
 * Head h of H subtracts 2^(-span * (h+1) / H) for each position between query and key (Press et al. 2022). */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

struct alibi {
    int32_t learned;
    double span;
};
static const struct lab_option options[] = {
    LAB_BOOL(struct alibi, learned, "no", "train the slopes instead of keeping them"),
    LAB_REAL(struct alibi, span, "8", 1, 64, "the last head's slope is 2^-span"),
    LAB_OPTIONS_END };

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    const struct alibi *a = self;
    if (i != 0) return 0;
    *out = (struct lab_param){ .name = "slope", .ndim = 1, .dim = { d->n_head }, .init = LAB_INIT_CUSTOM,
                               .flags = LAB_P_NO_DECAY | (a->learned ? 0 : LAB_P_FROZEN) };
    return 1;
}

static void param_init(const void *self, const struct lab_dims *d, int i, int layer, uint64_t seed, lab_real *w)
{
    const struct alibi *a = self;
    (void)i, (void)layer, (void)seed;
    for (int h = 0; h < d->n_head; h++) w[h] = (lab_real)exp2(-a->span * (h + 1) / d->n_head);
}

static int distance(const struct lab_call *c, int query, int key) { return abs(c->pos_q[query] - c->pos_k[key]); }

/* b[h,i,j] -= slope[h] * |i - j| */
static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    const lab_real *slope = c->p[0];
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ -= slope[h] * (lab_real)distance(c, i, j);
}

/* dslope[h] -= sum over i,j of db[h,i,j] * |i - j| */
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    lab_real *slope = c->g[0];
    (void)self;
    for (int h = 0; slope && h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) slope[h] -= *db++ * (lab_real)distance(c, i, j);
}

static const struct lab_encoder alibi = {
    .size = sizeof alibi,
    .flags = LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT,
    .name = "good_alibi",
    .summary = "a penalty on the logits in proportion to distance",
    .cite = "Press, Smith, Lewis (2022), Train Short, Test Long: Attention with Linear Biases",
    .self_size = sizeof(struct alibi),
    .options = options,
    .param = param,
    .param_init = param_init,
    .bias = bias,
    .bias_bwd = bias_bwd,
};
static const struct lab_encoder *const encoders[] = { &alibi, NULL };
LAB_PLUGIN(good_alibi, .version = "1", .license = "MIT", .encoders = encoders);
