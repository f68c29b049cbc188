/* transformer_xl -- logits scale [(q_i + u) . k_j + (q_i + v) . W R(i - j)]: R is a sinusoidal code of the distance, W and the
 * two biases are trained, in each layer its own.  i - j has its sign, so that both directions are told apart.
 * Refuses an odd d_model: the code of a distance is sines, then cosines. */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

enum { U, V, W };
struct xl {
    lab_real *code;                  /* [max_pos,d]: R of 0, 1, 2 ... */
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
    x->code = malloc((size_t)dims->max_pos * d * sizeof *x->code);
    if (!x->code) return lab_fail(err, "out of memory for positions up to %d", dims->max_pos - 1);
    for (int n = 0; n < dims->max_pos; n++)
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

/* ---- (q + u) . k, of which the host adds q . k ---- */

/* Column j of a head's logits [Tq,Tk] += scale u . k_j. */
static void add_content(const struct lab_call *c, int h, const lab_real *k, lab_real *out)
{
    const lab_real *u = c->p[U] + h * c->dh;
    for (int j = 0; j < c->Tk; j++, k += c->dh) {
        lab_real content = 0;
        for (int e = 0; e < c->dh; e++) content += u[e] * k[e];
        for (int i = 0; i < c->Tq; i++) out[i * c->Tk + j] += c->scale * content;
    }
}
static void add_content_bwd(const struct lab_call *c, int h, const lab_real *k, const lab_real *dout, lab_real *dk)
{
    const lab_real *u = c->p[U] + h * c->dh;
    lab_real *du = c->g[U] + h * c->dh;
    for (int j = 0; j < c->Tk; j++, k += c->dh, dk += c->dh) {
        lab_real sum = 0;
        for (int i = 0; i < c->Tq; i++) sum += dout[i * c->Tk + j];
        for (int e = 0; e < c->dh; e++) du[e] += c->scale * sum * k[e], dk[e] += c->scale * sum * u[e];
    }
}

/* shifted [Tq,dh] = q + v */
static void shift(const struct lab_call *c, int h, const lab_real *q, lab_real *shifted)
{
    for (int i = 0; i < c->Tq * c->dh; i++) shifted[i] = q[i] + c->p[V][h * c->dh + i % c->dh];
}
static void shift_bwd(const struct lab_call *c, int h, const lab_real *dshifted, lab_real *dq)
{
    for (int i = 0; i < c->Tq * c->dh; i++) dq[i] += dshifted[i], c->g[V][h * c->dh + i % c->dh] += dshifted[i];
}

/* ---- (q + v) . W R(i - j) ----
 * With sin(a - b) and cos(a - b) written out, it is W^T (q + v), turned by the query's position, times the code of the key's
 * position: a product for all keys at once, whatever the positions are. */

struct turned {                      /* in scratch, for one sequence */
    const int32_t *pos_q;
    lab_real *key;                   /* codes: forwards [d,Tk], backwards [Tk,d], as the products want them */
    lab_real *query;                 /* [Tq,d] of a head, turned, or its gradient */
    lab_real *shifted;               /* [Tq,dh] */
};

static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self;
    return hook == LAB_H_LOGITS ? ((size_t)(c->Tk + c->Tq) * c->d + (size_t)c->Tq * c->dh) * sizeof(lab_real) : 0;
}

static struct turned code_keys(const struct xl *x, const struct lab_call *c, int b, int forwards)
{
    struct turned w = { .pos_q = c->pos_q + (size_t)b * c->stride_q, .key = c->scratch };
    const int32_t *pos_k = c->pos_k + (size_t)b * c->stride_k;
    w.query = w.key + (size_t)c->Tk * c->d, w.shifted = w.query + (size_t)c->Tq * c->d;
    int by_key = forwards ? 1 : c->d, by_code = forwards ? c->Tk : 1;
    for (int j = 0; j < c->Tk; j++)
        for (int k = 0; k < c->d; k++) w.key[j * by_key + k * by_code] = x->code[(size_t)pos_k[j] * c->d + k];
    return w;
}

/* (a, b) becomes (b sin - a cos, a sin + b cos), at each speed; symmetric, so its gradient takes the same way. */
static void turn(const struct xl *x, const struct lab_call *c, const struct turned *w)
{
    int half = c->d / 2;
    for (int i = 0; i < c->Tq; i++) {
        const lab_real *sine = x->code + (size_t)w->pos_q[i] * c->d, *cosine = sine + half;
        lab_real *restrict a = w->query + (size_t)i * c->d, *restrict b = a + half;
        for (int k = 0; k < half; k++) {
            lab_real first = b[k] * sine[k] - a[k] * cosine[k];
            b[k] = a[k] * sine[k] + b[k] * cosine[k];
            a[k] = first;
        }
    }
}

static void turned_fwd(const struct xl *x, const struct lab_call *c, const struct turned *w, int h, const lab_real *q, lab_real *out)
{
    shift(c, h, q, w->shifted);
    c->host->gemm(c->host->ctx, 0, 0, c->Tq, c->d, c->dh, 1, w->shifted, c->dh, c->p[W] + (size_t)h * c->dh * c->d, c->d, 0, w->query, c->d);
    turn(x, c, w);
    c->host->gemm(c->host->ctx, 0, 0, c->Tq, c->Tk, c->d, c->scale, w->query, c->d, w->key, c->Tk, 1, out, c->Tk);
}
static void turned_bwd(const struct xl *x, const struct lab_call *c, const struct turned *w, int h, const lab_real *q, const lab_real *dout,
                       lab_real *dq)
{
    size_t rows = (size_t)h * c->dh * c->d;      /* of W, this head's */
    c->host->gemm(c->host->ctx, 0, 0, c->Tq, c->d, c->Tk, c->scale, dout, c->Tk, w->key, c->d, 0, w->query, c->d);
    turn(x, c, w);
    shift(c, h, q, w->shifted);
    c->host->gemm(c->host->ctx, 1, 0, c->dh, c->d, c->Tq, 1, w->shifted, c->dh, w->query, c->d, 1, c->g[W] + rows, c->d);
    c->host->gemm(c->host->ctx, 0, 1, c->Tq, c->dh, c->d, 1, w->query, c->d, c->p[W] + rows, c->d, 0, w->shifted, c->dh);
    shift_bwd(c, h, w->shifted, dq);
}

/* ---- the hooks ---- */

static int is_new(const struct lab_call *c, int b) { return b == 0 || c->stride_q || c->stride_k; }

static void logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)s;
    struct turned w;
    for (int b = 0; b < c->B; b++) {
        if (is_new(c, b)) w = code_keys(self, c, b, 1);
        for (int h = 0; h < c->H; h++, q += c->Tq * c->dh, k += c->Tk * c->dh, out += c->Tq * c->Tk) {
            add_content(c, h, k, out);
            turned_fwd(self, c, &w, h, q, out);
        }
    }
}
static void logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                       const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)s, (void)ds;
    struct turned w;
    for (int b = 0; b < c->B; b++) {
        if (is_new(c, b)) w = code_keys(self, c, b, 0);
        for (int h = 0; h < c->H; h++, dout += c->Tq * c->Tk) {
            add_content_bwd(c, h, k, dout, dk);
            turned_bwd(self, c, &w, h, q, dout, dq);
            q += c->Tq * c->dh, dq += c->Tq * c->dh, k += c->Tk * c->dh, dk += c->Tk * c->dh;
        }
    }
}

static const struct lab_encoder transformer_xl = { .size = sizeof transformer_xl, .flags = LAB_E_SHIFT_INVARIANT,
    .name = "transformer_xl", .summary = "logits from projected sinusoids of the distance, and two trained biases",
    .cite = "Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, arXiv 1901.02860",
    .self_size = sizeof(struct xl), .options = options, .init = init, .fini = fini, .param = param, .scratch_size = scratch_size,
    .logits = logits, .logits_bwd = logits_bwd };
static const struct lab_encoder *const list[] = { &transformer_xl, NULL };
LAB_PLUGIN(transformer_xl, .version = "1", .license = "MIT", .encoders = list);
