/* transformer_xl -- logits scale [(q_i + u) . k_j + (q_i + v) . W R(i - j)]: R is a sinusoidal code of the distance, W and the
 * two biases are trained, in each layer its own.  i - j has its sign, so that both directions are told apart.
 * Refuses an odd d_model: the code of a distance is sines, then cosines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "lab_plugin.h"

enum { U, V, W };
struct xl {
    lab_real *code;                  /* [max_pos,d]: R of 0, 1, 2 ...; the sines of -n are the negative ones */
    int32_t reach;                   /* max_pos */
    double base;
};

static const struct lab_option options[] = {
    LAB_REAL(struct xl, base, "10000", 1, 1e12, "the slowest sine turns nearly this many times slower than the first"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *dims, struct lab_err *err)
{
    struct xl *x = self;
    int d = dims->d_model, half = d / 2;
    if (d % 2)
        return lab_fail(err, "transformer_xl needs an even model.d_model, a sine and a cosine for each speed, but it is %d: set %d", d, d + 1);
    x->reach = dims->max_pos;
    x->code = malloc((size_t)x->reach * d * sizeof *x->code);
    if (!x->code) return lab_fail(err, "out of memory for distances up to %d", x->reach - 1);
    for (int n = 0; n < x->reach; n++)
        for (int k = 0; k < half; k++) {
            double angle = n * pow(x->base, -2.0 * k / d);
            x->code[(size_t)n * d + k] = (lab_real)sin(angle);
            x->code[(size_t)n * d + half + k] = (lab_real)cos(angle);
        }
    return 0;
}
static void fini(void *self) { free(((struct xl *)self)->code); }

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    (void)self;
    const struct lab_param all[] = {
        [U] = { "bias_content", 2, { d->n_head, d->d_head }, LAB_INIT_NORMAL, 0, 0.02, LAB_P_PER_LAYER | LAB_P_NO_DECAY },
        [V] = { "bias_position", 2, { d->n_head, d->d_head }, LAB_INIT_NORMAL, 0, 0.02, LAB_P_PER_LAYER | LAB_P_NO_DECAY },
        [W] = { "projection", 2, { d->d_model, d->d_model }, LAB_INIT_NORMAL, 0, 0.02, LAB_P_PER_LAYER } };
    if (i > W) return 0;
    *out = all[i];
    return 1;
}

/* ---- the distances of a sequence, each once ---- */

struct work {                        /* in scratch, for one sequence */
    int n;                           /* different distances */
    lab_real *code, *rho, *drho;     /* [n,d]: R, W R as [n,H,dh], its gradient */
    lab_real *shifted;               /* [Tq,dh]: q + v of a head */
    lab_real *product;               /* [Tq,n] of a head */
    int32_t *which;                  /* [Tq,Tk] into the distances */
    int32_t *slot;                   /* [2 reach - 1]: of each distance from 1 - reach on, -1: none */
};

static int most_distances(const struct xl *x, const struct lab_call *c)
{
    long pairs = (long)c->Tq * c->Tk, all = 2L * x->reach - 1;
    return (int)(pairs < all ? pairs : all);
}
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    const struct xl *x = self;
    size_t n = (size_t)most_distances(x, c), T = (size_t)c->Tq;
    if (hook != LAB_H_LOGITS) return 0;
    return (3 * n * c->d + T * c->dh + T * n) * sizeof(lab_real) + (T * c->Tk + 2 * (size_t)x->reach) * sizeof(int32_t);
}

/* Fills code, rho and which for sequence b. */
static struct work prepare(const struct xl *x, const struct lab_call *c, int b)
{
    struct work w = { .code = c->scratch };
    size_t most = (size_t)most_distances(x, c) * c->d, T = (size_t)c->Tq;
    w.rho = w.code + most, w.drho = w.rho + most, w.shifted = w.drho + most, w.product = w.shifted + T * c->dh;
    w.which = (int32_t *)(w.product + T * most_distances(x, c)), w.slot = w.which + T * c->Tk;
    const int32_t *pos_q = c->pos_q + (size_t)b * c->stride_q, *pos_k = c->pos_k + (size_t)b * c->stride_k;
    memset(w.slot, 0xff, (2 * (size_t)x->reach - 1) * sizeof *w.slot);
    for (int i = 0; i < c->Tq; i++)
        for (int j = 0; j < c->Tk; j++) {
            int distance = pos_q[i] - pos_k[j], *slot = &w.slot[distance + x->reach - 1];
            if (*slot < 0) {
                lab_real *code = w.code + (size_t)w.n * c->d;
                memcpy(code, x->code + (size_t)abs(distance) * c->d, (size_t)c->d * sizeof *code);
                for (int k = 0; distance < 0 && k < c->d / 2; k++) code[k] = -code[k];
                *slot = w.n++;
            }
            w.which[i * c->Tk + j] = *slot;
        }
    c->host->gemm(c->host->ctx, 0, 1, w.n, c->d, c->d, 1, w.code, c->d, c->p[W], c->d, 0, w.rho, c->d);
    return w;
}

/* One head of one sequence: q [Tq,dh], k [Tk,dh], out and dout [Tq,Tk]. */
static void head_fwd(const struct lab_call *c, const struct work *w, int h, const lab_real *q, const lab_real *k, lab_real *out)
{
    const lab_real *u = c->p[U] + h * c->dh, *v = c->p[V] + h * c->dh;
    for (int i = 0; i < c->Tq * c->dh; i++) w->shifted[i] = q[i] + v[i % c->dh];
    c->host->gemm(c->host->ctx, 0, 1, c->Tq, w->n, c->dh, c->scale, w->shifted, c->dh, w->rho + h * c->dh, c->d, 0, w->product, w->n);
    for (int j = 0; j < c->Tk; j++, k += c->dh) {
        lab_real content = 0;
        for (int e = 0; e < c->dh; e++) content += u[e] * k[e];
        for (int i = 0; i < c->Tq; i++)
            out[i * c->Tk + j] += c->scale * content + w->product[i * w->n + w->which[i * c->Tk + j]];
    }
}
static void head_bwd(const struct lab_call *c, const struct work *w, int h, const lab_real *q, const lab_real *k, const lab_real *dout,
                     lab_real *dq, lab_real *dk)
{
    const lab_real *u = c->p[U] + h * c->dh, *v = c->p[V] + h * c->dh;
    lab_real *du = c->g[U] + h * c->dh, *dv = c->g[V] + h * c->dh;
    for (int i = 0; i < c->Tq * c->dh; i++) w->shifted[i] = q[i] + v[i % c->dh];
    memset(w->product, 0, (size_t)c->Tq * w->n * sizeof *w->product);
    for (int j = 0; j < c->Tk; j++, k += c->dh, dk += c->dh) {
        lab_real sum = 0;
        for (int i = 0; i < c->Tq; i++) {
            sum += dout[i * c->Tk + j];
            w->product[i * w->n + w->which[i * c->Tk + j]] += dout[i * c->Tk + j];
        }
        for (int e = 0; e < c->dh; e++) du[e] += c->scale * sum * k[e], dk[e] += c->scale * sum * u[e];
    }
    c->host->gemm(c->host->ctx, 1, 0, w->n, c->dh, c->Tq, c->scale, w->product, w->n, w->shifted, c->dh, 1, w->drho + h * c->dh, c->d);
    c->host->gemm(c->host->ctx, 0, 0, c->Tq, c->dh, w->n, c->scale, w->product, w->n, w->rho + h * c->dh, c->d, 0, w->shifted, c->dh);
    for (int i = 0; i < c->Tq * c->dh; i++) dq[i] += w->shifted[i], dv[i % c->dh] += w->shifted[i];
}

static void logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)s;
    struct work w = { 0 };
    for (int b = 0, plane = 0; b < c->B; b++) {
        if (b == 0 || c->stride_q || c->stride_k) w = prepare(self, c, b);
        for (int h = 0; h < c->H; h++, plane++)
            head_fwd(c, &w, h, q + (size_t)plane * c->Tq * c->dh, k + (size_t)plane * c->Tk * c->dh, out + (size_t)plane * c->Tq * c->Tk);
    }
}
static void logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                       const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)s, (void)ds;
    struct work w = { 0 };
    int own = c->stride_q || c->stride_k;
    for (int b = 0, plane = 0; b < c->B; b++) {
        if (b == 0 || own) {
            w = prepare(self, c, b);
            memset(w.drho, 0, (size_t)w.n * c->d * sizeof *w.drho);
        }
        for (int h = 0; h < c->H; h++, plane++) {
            size_t at_q = (size_t)plane * c->Tq * c->dh, at_k = (size_t)plane * c->Tk * c->dh;
            head_bwd(c, &w, h, q + at_q, k + at_k, dout + (size_t)plane * c->Tq * c->Tk, dq + at_q, dk + at_k);
        }
        if (b == c->B - 1 || own)    /* rho = code W^T, so dW += drho^T code */
            c->host->gemm(c->host->ctx, 1, 0, c->d, c->d, w.n, 1, w.drho, c->d, w.code, c->d, 1, c->g[W], c->d);
    }
}

static const struct lab_encoder transformer_xl = { .size = sizeof transformer_xl, .flags = LAB_E_SHIFT_INVARIANT,
    .name = "transformer_xl", .summary = "logits from projected sinusoids of the distance, and two trained biases",
    .cite = "Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, arXiv 1901.02860",
    .self_size = sizeof(struct xl), .options = options, .init = init, .fini = fini, .param = param, .scratch_size = scratch_size,
    .logits = logits, .logits_bwd = logits_bwd };
static const struct lab_encoder *const list[] = { &transformer_xl, NULL };
LAB_PLUGIN(transformer_xl, .version = "1", .license = "MIT", .encoders = list);
