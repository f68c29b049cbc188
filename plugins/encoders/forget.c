/* forget -- a decay that depends on the tokens: from logit ij is taken what the tokens t = j+1 .. i forget, the sum of -log f_t.
 * A head's gate is f_t = sigmoid(w . k_t + b), w and b trained.  The paper's gate sees the layer's input, which hooks are not
 * given; a key is a linear function of it, so this gate is the paper's but for what the head's keys leave out.
 * Tokens are counted, whatever their positions, and only up to the query's own: models must be causal. */
#include <math.h>
#include <string.h>
#include "lab_plugin.h"

enum { WEIGHT, BIAS };
struct forget { double start; };

static const struct lab_option options[] = {
    LAB_REAL(struct forget, start, "0", -20, 20, "of the gates' b: at 0 each token keeps half of what was, at 4 98 %"),
    LAB_OPTIONS_END };

/* The weights start as small as the authors start theirs. */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    if (i > BIAS) return 0;
    if (i == WEIGHT) *out = (struct lab_param){ .name = "weight", .ndim = 2, .dim = { d->n_head, d->d_head }, .init = LAB_INIT_NORMAL, .b = 0.02 };
    else *out = (struct lab_param){ .name = "bias", .ndim = 1, .dim = { d->n_head }, .init = LAB_INIT_CONST,
                                    .a = ((const struct forget *)self)->start, .flags = LAB_P_NO_DECAY };
    out->flags |= LAB_P_PER_LAYER;
    return 1;
}

/* Of one head of one sequence: what the tokens 0 .. t keep, as a logarithm [Tk], and the gradients of that [Tk]. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self;
    return hook == LAB_H_LOGITS ? 2 * (size_t)c->Tk * sizeof(double) : 0;
}

static int is_padding(const struct lab_call *c, int b, int t) { return c->key_ok && !c->key_ok[(size_t)b * c->Tk + t]; }
static double gate_logit(const struct lab_call *c, int h, const lab_real *k)
{
    double a = (double)c->p[BIAS][h];
    for (int i = 0; i < c->dh; i++) a += (double)(c->p[WEIGHT][h * c->dh + i] * k[i]);
    return a;
}
static double log_sigmoid(double a) { return a < 0 ? a - log1p(exp(a)) : -log1p(exp(-a)); }

/* kept_t = log f_0 + .. + log f_t; padding forgets nothing.  k [Tk,dh] */
static void add_up(const struct lab_call *c, int b, int h, const lab_real *k, double *kept)
{
    double sum = 0;
    for (int t = 0; t < c->Tk; t++, k += c->dh) kept[t] = sum += is_padding(c, b, t) ? 0 : log_sigmoid(gate_logit(c, h, k));
}

/* logit_ij += kept_i - kept_j */
static void logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)self, (void)q, (void)s;
    double *kept = c->scratch;
    for (int head = 0; head < c->B * c->H; head++, k += (size_t)c->Tk * c->dh) {
        add_up(c, head / c->H, head % c->H, k, kept);
        for (int i = 0; i < c->Tq; i++, out += c->Tk) {
            int own = i + c->Tk - c->Tq;
            for (int j = 0; j <= own; j++) out[j] += (lab_real)(kept[own] - kept[j]);
        }
    }
}

/* d log f_t is the sum of dkept from t on, and the logarithm of a sigmoid has the slope sigmoid(-a). */
static void gates_bwd(const struct lab_call *c, int b, int h, const double *dkept, const lab_real *k, lab_real *dk)
{
    double sum = 0;
    for (int t = c->Tk - 1; t >= 0; t--) {
        sum += dkept[t];
        if (is_padding(c, b, t)) continue;
        lab_real da = (lab_real)(sum / (1 + exp(gate_logit(c, h, k + t * c->dh))));
        for (int i = 0; i < c->dh; i++) {
            dk[t * c->dh + i] += da * c->p[WEIGHT][h * c->dh + i];
            c->g[WEIGHT][h * c->dh + i] += da * k[t * c->dh + i];
        }
        c->g[BIAS][h] += da;
    }
}
static void logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                       const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)self, (void)q, (void)s, (void)dq, (void)ds;
    double *dkept = (double *)c->scratch + c->Tk;
    for (int head = 0; head < c->B * c->H; head++, k += (size_t)c->Tk * c->dh, dk += (size_t)c->Tk * c->dh) {
        memset(dkept, 0, (size_t)c->Tk * sizeof *dkept);
        for (int i = 0; i < c->Tq; i++, dout += c->Tk) {
            int own = i + c->Tk - c->Tq;
            for (int j = 0; j < own; j++) dkept[own] += (double)dout[j], dkept[j] -= (double)dout[j];
        }
        gates_bwd(c, head / c->H, head % c->H, dkept, k, dk);
    }
}

static const struct lab_encoder forget = { .size = sizeof forget, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_CAUSAL_ONLY, .name = "forget",
    .summary = "a decay over the tokens between, each with a gate of its own",
    .cite = "Lin et al. 2025, Forgetting Transformer: Softmax Attention with a Forget Gate, arXiv 2503.02130",
    .self_size = sizeof(struct forget), .options = options, .param = param, .scratch_size = scratch_size,
    .logits = logits, .logits_bwd = logits_bwd };
static const struct lab_encoder *const list[] = { &forget, NULL };
LAB_PLUGIN(forget, .version = "1", .license = "MIT", .encoders = list);
