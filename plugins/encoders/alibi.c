/* alibi -- takes slope * distance from each logit, one slope for each head, from steep to flat.  side says what tells left
 * from right in a bidirectional model: nothing (symmetric), half a position less for keys on the left (offset), or half of the
 * heads for each side, the other side closed (split).
 * Refuses to split an odd number of heads, or those of a causal model: half of them would see nothing. */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

enum { SYMMETRIC, OFFSET, SPLIT };
struct alibi { int32_t side, learned; };

static const struct lab_option options[] = {
    LAB_ENUM(struct alibi, side, "symmetric", "symmetric|offset|split", "how left and right differ; causal models: symmetric is the paper's"),
    LAB_BOOL(struct alibi, learned, "no", "slopes are trained from the published ones on"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    const struct alibi *a = self;
    if (a->side != SPLIT) return 0;
    if (d->causal)
        return lab_fail(err, "encoder.alibi.side = split gives half of the heads to the right, where a causal model sees nothing: "
                        "set symmetric or offset");
    if (d->n_head % 2)
        return lab_fail(err, "encoder.alibi.side = split needs an even model.heads, half for each side, but it is %d: set %d",
                        d->n_head, d->n_head + 1);
    return 0;
}

/* Of head h of H: 2^(-8/n), 2^(-16/n) ... for n, the largest power of two in H; then every other one of those of 2 n. */
static double published(int h, int H)
{
    int n = 1;
    while (2 * n <= H) n *= 2;
    return h < n ? exp2(-8.0 * (h + 1) / n) : exp2(-8.0 * (2 * (h - n) + 1) / (2 * n));
}
static double start_of(const struct alibi *a, int h, int H)            /* split: the sides take turns, with equal slopes */
{
    return a->side == SPLIT ? published(h / 2, H / 2) : published(h, H);
}

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    const struct alibi *a = self;
    if (i > 0 || !a->learned) return 0;
    *out = (struct lab_param){ .name = "slope", .ndim = 1, .dim = { d->n_head }, .init = LAB_INIT_CUSTOM, .flags = LAB_P_NO_DECAY };
    return 1;
}
static void param_init(const void *self, const struct lab_dims *d, int i, int layer, uint64_t seed, lab_real *w)
{
    (void)i, (void)layer, (void)seed;
    for (int h = 0; h < d->n_head; h++) w[h] = (lab_real)start_of(self, h, d->n_head);
}

/* What the slope multiplies.  A closed side must vanish in the softmax, so its steps count as if very many. */
static lab_real distance(const struct alibi *a, int ahead)             /* key - query */
{
    return (lab_real)(abs(ahead) - (a->side == OFFSET && ahead < 0 ? 0.5 : 0));
}
static int closed(const struct alibi *a, int h, int ahead) { return a->side == SPLIT && (h % 2 ? ahead < 0 : ahead > 0); }

static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    const struct alibi *a = self;
    for (int h = 0; h < c->H; h++) {
        lab_real slope = a->learned ? c->p[0][h] : (lab_real)start_of(a, h, c->H);
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++, b++) {
                int ahead = c->pos_k[j] - c->pos_q[i];
                *b -= closed(a, h, ahead) ? (lab_real)1e9 : slope * distance(a, ahead);
            }
    }
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    const struct alibi *a = self;
    for (int h = 0; h < c->H && a->learned; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++, db++) {
                int ahead = c->pos_k[j] - c->pos_q[i];
                if (!closed(a, h, ahead)) c->g[0][h] -= *db * distance(a, ahead);
            }
}

static const struct lab_encoder alibi = { .size = sizeof alibi, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT,
    .name = "alibi", .summary = "a penalty that grows with the distance, steep in some heads, flat in others",
    .cite = "Press et al. 2022, Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation, "
            "arXiv 2108.12409; offset: Ruoss et al. 2023, Randomized Positional Encodings Boost Length Generalization of "
            "Transformers, arXiv 2305.16843",
    .self_size = sizeof(struct alibi), .options = options, .init = init, .param = param, .param_init = param_init,
    .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &alibi, NULL };
LAB_PLUGIN(alibi, .version = "1", .license = "MIT", .encoders = list);
