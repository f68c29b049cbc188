/* shaw -- a trained vector for each relative position, clipped to -clip .. clip, is added to the keys inside the logits, and
 * another to the values inside the sum over keys.  Heads share them; layers do not. */
#include <math.h>
#include <string.h>
#include "lab_plugin.h"

enum { KEY, VALUE };
struct shaw { int32_t clip, values; };

static const struct lab_option options[] = {
    LAB_INT(struct shaw, clip, "16", 1, 100000, "farther keys share the vector of this distance on their side"),
    LAB_BOOL(struct shaw, values, "yes", "with the vectors that are added to values, or with those of the keys alone"),
    LAB_OPTIONS_END };

static int rows_of(const void *self) { return 2 * ((const struct shaw *)self)->clip + 1; }

/* Glorot's uniform start: the paper's code, tensor2tensor, names no start for these tables, and transformer_base sets the default
 * uniform_unit_scaling, a variance of 1 / mean(rows, columns). */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    static const char *const name[] = { [KEY] = "key", [VALUE] = "value" };
    if (i > ((const struct shaw *)self)->values) return 0;
    double bound = sqrt(6.0 / (rows_of(self) + d->d_head));
    *out = (struct lab_param){ .name = name[i], .ndim = 2, .dim = { rows_of(self), d->d_head }, .init = LAB_INIT_UNIFORM,
                               .a = -bound, .b = bound, .flags = LAB_P_PER_LAYER };
    return 1;
}

/* Of each query's row [2 clip + 1]: its products with the vectors, or its weights summed by relative position. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    if (hook != LAB_H_LOGITS && hook != LAB_H_VALUE) return 0;
    return (size_t)c->B * c->H * c->Tq * (size_t)rows_of(self) * sizeof(lab_real) + (size_t)c->Tq * c->Tk * sizeof(int32_t);
}
static lab_real *by_position(const struct lab_call *c) { return c->scratch; }
static int32_t *row_numbers(const void *self, const struct lab_call *c)
{
    return (int32_t *)(by_position(c) + (size_t)c->B * c->H * c->Tq * (size_t)rows_of(self));
}

/* Row of each pair's vector, [Tq,Tk], for sequence b. */
static void find_rows(const struct shaw *s, const struct lab_call *c, int b, int32_t *row)
{
    const int32_t *pos_q = c->pos_q + (size_t)b * c->stride_q, *pos_k = c->pos_k + (size_t)b * c->stride_k;
    for (int i = 0; i < c->Tq; i++)
        for (int j = 0; j < c->Tk; j++) {
            int r = pos_k[j] - pos_q[i];
            *row++ = (r < -s->clip ? -s->clip : r > s->clip ? s->clip : r) + s->clip;
        }
}

/* big_ij += small_i,row(i,j), or the other way round; big [B,H,Tq,Tk], small [B,H,Tq,2 clip + 1] in scratch. */
static inline void exchange(const void *self, const struct lab_call *c, int spread, const lab_real *in, lab_real *out)
{
    int rows = rows_of(self);
    int32_t *all = row_numbers(self, c);
    for (int b = 0; b < c->B; b++) {
        if (b == 0 || c->stride_q || c->stride_k) find_rows(self, c, b, all);
        for (int h = 0; h < c->H; h++) {
            const int32_t *row = all;
            for (int i = 0; i < c->Tq; i++, row += c->Tk, in += spread ? rows : c->Tk, out += spread ? c->Tk : rows)
                for (int j = 0; j < c->Tk; j++)
                    if (spread) out[j] += in[row[j]];
                    else out[row[j]] += in[j];
        }
    }
}
static void spread(const void *self, const struct lab_call *c, lab_real *big) { exchange(self, c, 1, by_position(c), big); }
static void collect(const void *self, const struct lab_call *c, const lab_real *big)
{
    memset(by_position(c), 0, (size_t)c->B * c->H * c->Tq * (size_t)rows_of(self) * sizeof(lab_real));
    exchange(self, c, 0, big, by_position(c));
}

/* c (+)= a op(b) over all queries at once: a and c have B H Tq rows. */
static void product(const struct lab_call *c, int transposed, int n, int k, lab_real alpha, const lab_real *a, const lab_real *b,
                    lab_real beta, lab_real *out)
{
    c->host->gemm(c->host->ctx, 0, transposed, c->B * c->H * c->Tq, n, k, alpha, a, k, b, transposed ? k : n, beta, out, n);
}
/* g [rows,dh] += alpha * (scratch)^T x */
static void vectors_bwd(const void *self, const struct lab_call *c, int which, lab_real alpha, const lab_real *x)
{
    int rows = rows_of(self);
    c->host->gemm(c->host->ctx, 1, 0, rows, c->dh, c->B * c->H * c->Tq, alpha, by_position(c), rows, x, c->dh, 1, c->g[which], c->dh);
}

/* logits_ij += scale q_i . key_r */
static void logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)k, (void)s;
    product(c, 1, rows_of(self), c->dh, c->scale, q, c->p[KEY], 0, by_position(c));
    spread(self, c, out);
}
static void logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                       const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)k, (void)s, (void)dk, (void)ds;
    collect(self, c, dout);
    product(c, 0, c->dh, rows_of(self), c->scale, by_position(c), c->p[KEY], 1, dq);
    vectors_bwd(self, c, KEY, c->scale, q);
}

/* out_i += sum_j att_ij value_r */
static void value(const void *self, const struct lab_call *c, const lab_real *att, lab_real *out)
{
    if (!((const struct shaw *)self)->values) return;
    collect(self, c, att);
    product(c, 0, c->dh, rows_of(self), 1, by_position(c), c->p[VALUE], 1, out);
}
static void value_bwd(const void *self, const struct lab_call *c, const lab_real *att, const lab_real *dout, lab_real *datt)
{
    if (!((const struct shaw *)self)->values) return;
    collect(self, c, att);
    vectors_bwd(self, c, VALUE, 1, dout);
    product(c, 1, rows_of(self), c->dh, 1, dout, c->p[VALUE], 0, by_position(c));
    spread(self, c, datt);
}

static const struct lab_encoder shaw = { .size = sizeof shaw, .flags = LAB_E_SHIFT_INVARIANT, .name = "shaw",
    .summary = "trained vectors for clipped relative positions, added to keys and values",
    .cite = "Shaw et al. 2018, Self-Attention with Relative Position Representations, arXiv 1803.02155",
    .self_size = sizeof(struct shaw), .options = options, .param = param, .scratch_size = scratch_size,
    .logits = logits, .logits_bwd = logits_bwd, .value = value, .value_bwd = value_bwd };
static const struct lab_encoder *const list[] = { &shaw, NULL };
LAB_PLUGIN(shaw, .version = "1", .license = "MIT", .encoders = list);
