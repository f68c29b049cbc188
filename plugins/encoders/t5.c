/* t5 -- adds to each logit a trained number for its head and the bucket of its distance: near distances have a bucket
 * each, farther ones share buckets that widen with the logarithm, all past max_distance the last.  One table for all layers.
 * Refuses buckets that cannot be halved by side, too few of them, and a max_distance that the exact ones already cover. */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

struct t5 {
    uint16_t *bucket;                /* [2 max_distance + 1]: of key - query, from -max_distance on */
    int32_t buckets, max_distance;
};

static const struct lab_option options[] = {
    LAB_INT(struct t5, buckets, "32", 2, 4096, "of distances; a bidirectional model has half of them for each side"),
    LAB_INT(struct t5, max_distance, "128", 1, 1000000, "from here on all distances share the last bucket"),
    LAB_OPTIONS_END };

/* Bucket of a key `ahead` positions to the right of its query; `side` buckets for keys on one side, half of them exact. */
static int bucket_of(int ahead, int side, int max_distance, int causal)
{
    int first = ahead > 0 && !causal ? side : 0, exact = side / 2;
    int n = ahead > 0 && causal ? 0 : abs(ahead);
    if (n < exact) return first + n;
    int far = exact + (int)(log((double)n / exact) / log((double)max_distance / exact) * (side - exact));
    return first + (far < side ? far : side - 1);
}

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    struct t5 *t = self;
    int side = d->causal ? t->buckets : t->buckets / 2, reach = t->max_distance;
    if (!d->causal && t->buckets % 2)
        return lab_fail(err, "a bidirectional model needs an even encoder.t5.buckets, half for each side, but it is %d: set %d",
                        t->buckets, t->buckets + 1);
    if (side < 2)
        return lab_fail(err, "encoder.t5.buckets = %d is too few: a bidirectional model needs at least 4", t->buckets);
    if (reach <= side / 2)
        return lab_fail(err, "encoder.t5.max_distance = %d must be above %d, the distances that have a bucket each with "
                        "encoder.t5.buckets = %d: raise the first or lower the second", reach, side / 2, t->buckets);
    t->bucket = malloc((2 * (size_t)reach + 1) * sizeof *t->bucket);
    if (!t->bucket) return lab_fail(err, "out of memory for encoder.t5.max_distance = %d", reach);
    for (int ahead = -reach; ahead <= reach; ahead++) t->bucket[ahead + reach] = (uint16_t)bucket_of(ahead, side, reach, d->causal);
    return 0;
}
static void fini(void *self) { free(((struct t5 *)self)->bucket); }

/* The start of T5's authors: as small as an embedding's, and no 1/sqrt(dh) anywhere near the bias. */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    if (i > 0) return 0;
    *out = (struct lab_param){ .name = "bias", .ndim = 2, .dim = { ((const struct t5 *)self)->buckets, d->n_head },
                               .init = LAB_INIT_NORMAL, .b = 1 / sqrt(d->d_model), .flags = LAB_P_NO_DECAY };
    return 1;
}

static inline int lookup(const struct t5 *t, int ahead)
{
    int reach = t->max_distance;
    return t->bucket[reach + (ahead < -reach ? -reach : ahead > reach ? reach : ahead)];
}
static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += c->p[0][lookup(self, c->pos_k[j] - c->pos_q[i]) * c->H + h];
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[0][lookup(self, c->pos_k[j] - c->pos_q[i]) * c->H + h] += *db++;
}

static const struct lab_encoder t5 = { .size = sizeof t5, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT, .name = "t5",
    .summary = "a trained bias for each head and bucket of distances",
    .cite = "Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, "
            "arXiv 1910.10683",
    .self_size = sizeof(struct t5), .options = options, .init = init, .fini = fini, .param = param,
    .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &t5, NULL };
LAB_PLUGIN(t5, .version = "1", .license = "MIT", .encoders = list);
