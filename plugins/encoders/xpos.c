/* xpos -- rope, and pair k of queries grows by z_k^(p/decay), of keys by z_k^(-p/decay), z_k = (2k/dh + gamma) / (1 + gamma) <= 1:
 * products fade with the distance, the faster pairs more.  Keys to the right would grow instead, so models must be causal.
 * As in the authors' torchscale (XPOS: scale_base 512, gamma 0.4), which counts exponents from the middle of the sequence as well.
 * Refuses an odd head size, and more positions than a pair can grow over. */
#include <math.h>
#include "lab_plugin.h"

enum { GROWTH = 80 };                /* exp of it is a float, and of -80 not yet a denormal one */
struct xpos { double base, decay, gamma; };

static const struct lab_option options[] = {
    LAB_REAL(struct xpos, base, "10000", 1, 1e12, "the slowest pair turns nearly this many times slower than the first"),
    LAB_REAL(struct xpos, decay, "512", 1, 1e9, "positions over which pair k fades by z_k"),
    LAB_REAL(struct xpos, gamma, "0.4", 1e-3, 1e3, "the larger, the less the pairs fade"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    const struct xpos *x = self;
    double fade = log((1 + x->gamma) / x->gamma);        /* over `decay` positions, of the pair that fades most */
    if (d->d_head % 2)
        return lab_fail(err, "xpos turns pairs, so a head must be even, but model.d_model / model.heads = %d / %d = %d: change one",
                        d->d_model, d->n_head, d->d_head);
    if (d->max_len / 2 * fade / x->decay <= GROWTH) return 0;            /* from the middle of the longest sequence */
    return lab_fail(err, "over %d positions a pair of xpos grows by more than a number holds: set encoder.xpos.decay to at least %.0f, not %g",
                    d->max_len, ceil(d->max_len / 2 * fade / GROWTH), x->decay);
}

/* Cosines and sines [2,T,dh/2], times the growth. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self;
    return hook == LAB_H_QK ? (size_t)(c->Tq > c->Tk ? c->Tq : c->Tk) * c->dh * sizeof(lab_real) : 0;
}

/* Only differences of exponents reach a logit, so they count from `centre`, where neither growth is far from 1. */
static void fill(const struct xpos *x, const int32_t *pos, int T, int dh, int centre, int sign, lab_real *table)
{
    for (int k = 0; k < dh / 2; k++) {
        double speed = pow(x->base, -2.0 * k / dh), fade = log((2.0 * k / dh + x->gamma) / (1 + x->gamma)) / x->decay;
        for (int t = 0; t < T; t++) {
            double growth = exp(sign * (pos[t] - centre) * fade);
            table[t * (dh / 2) + k] = (lab_real)(growth * cos(pos[t] * speed));
            table[(T + t) * (dh / 2) + k] = (lab_real)(growth * sin(pos[t] * speed));
        }
    }
}

/* out (+)= the pairs of x [H,T,dh] turned forwards, direction 1, or back, -1; the growth is the same both ways. */
static void turn(const struct lab_call *c, int T, int direction, int add, const lab_real *table, const lab_real *x, lab_real *out)
{
    int pairs = T * c->dh / 2;
    for (int h = 0; h < c->H; h++, x += 2 * pairs, out += 2 * pairs)
        for (int n = 0; n < pairs; n++) {
            lab_real cosine = table[n], sine = (lab_real)direction * table[pairs + n], a = x[2 * n], b = x[2 * n + 1];
            out[2 * n] = (add ? out[2 * n] : 0) + a * cosine - b * sine;
            out[2 * n + 1] = (add ? out[2 * n + 1] : 0) + a * sine + b * cosine;
        }
}

static void turn_both(const struct xpos *x, const struct lab_call *c, int direction, int add, const lab_real *q, const lab_real *k,
                      lab_real *q_out, lab_real *k_out)
{
    for (int pass = 0; pass < 2; pass++) {                              /* queries, then keys: one table at a time */
        int T = pass ? c->Tk : c->Tq, stride = pass ? c->stride_k : c->stride_q;
        for (int b = 0; b < c->B; b++) {
            size_t at = (size_t)b * c->H * T * c->dh;
            int centre = c->pos_k[(size_t)b * c->stride_k + c->Tk / 2];
            if (b == 0 || stride || c->stride_k)
                fill(x, (pass ? c->pos_k : c->pos_q) + (size_t)b * stride, T, c->dh, centre, pass ? -1 : 1, c->scratch);
            turn(c, T, direction, add, c->scratch, (pass ? k : q) + at, (pass ? k_out : q_out) + at);
        }
    }
}
static void qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    turn_both(self, c, 1, 0, q, k, q_out, k_out);
}
/* q_out = z R q, so dq += z R^T dq_out. */
static void qk_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k,
                   const lab_real *dq_out, const lab_real *dk_out, lab_real *dq, lab_real *dk)
{
    (void)q, (void)k;
    turn_both(self, c, -1, 1, dq_out, dk_out, dq, dk);
}

static const struct lab_encoder xpos = { .size = sizeof xpos, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_CAUSAL_ONLY, .name = "xpos",
    .summary = "rope whose products fade with the distance",
    .cite = "Sun et al. 2023, A Length-Extrapolatable Transformer, arXiv 2212.10554",
    .self_size = sizeof(struct xpos), .options = options, .init = init, .scratch_size = scratch_size, .qk = qk, .qk_bwd = qk_bwd };
static const struct lab_encoder *const list[] = { &xpos, NULL };
LAB_PLUGIN(xpos, .version = "1", .license = "MIT", .encoders = list);
