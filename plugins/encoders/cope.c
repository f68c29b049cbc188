/* cope -- positions counted by content: p_ij is the sum of the gates sigmoid(s_it) over the keys t = j .. i, at most positions - 1,
 * and q_i's products with the trained vectors of the whole positions around p_ij, interpolated, are added to logit ij.
 * Counting runs from each query back to the key, so models must be causal.  The ids of positions play no part.
 * As in the listing of the paper's appendix: the gates see the scaled logits, and what is added is not scaled.  The authors'
 * repository (facebookresearch/RAM) also divides what is added by the root of the head size, unless told not to. */
#include <string.h>
#include <tgmath.h>                  /* exp in lab_real */
#include "lab_plugin.h"

struct cope { int32_t positions; };

static const struct lab_option options[] = {
    LAB_INT(struct cope, positions, "64", 2, 100000, "vectors; farther keys share the last one"),
    LAB_OPTIONS_END };

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    if (i > 0) return 0;
    *out = (struct lab_param){ .name = "table", .ndim = 2, .dim = { ((const struct cope *)self)->positions, d->d_head },
                               .init = LAB_INIT_ZERO, .flags = LAB_P_PER_LAYER };
    return 1;
}

/* Products of queries and vectors, or their gradients: [B,H,Tq,positions] each. */
static size_t products(const void *self, const struct lab_call *c)
{
    return (size_t)c->B * c->H * c->Tq * (size_t)((const struct cope *)self)->positions;
}
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    return hook == LAB_H_LOGITS ? 2 * products(self, c) * sizeof(lab_real) : 0;
}
/* Gates and counts [B,H,Tq,2,Tk]. */
static size_t save_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self;
    return hook == LAB_H_LOGITS ? 2 * (size_t)c->B * c->H * c->Tq * c->Tk * sizeof(lab_real) : 0;
}

static int seen_by(const struct lab_call *c, int i) { return i + 1 + c->Tk - c->Tq; }

/* For query i of sequence b: the gates and counts of the keys it sees; returns how many. */
static int count(const struct lab_call *c, int b, int i, const lab_real *s, lab_real *gate, lab_real *position)
{
    const uint8_t *ok = c->key_ok ? c->key_ok + (size_t)b * c->Tk : NULL;
    int seen = seen_by(c, i);
    lab_real sum = 0;
    for (int j = 0; j < seen; j++) gate[j] = ok && !ok[j] ? 0 : 1 / (1 + exp(-s[j]));
    for (int j = seen - 1; j >= 0; j--) position[j] = sum += gate[j];
    return seen;
}

static void multiply(const void *self, const struct lab_call *c, const lab_real *q, lab_real *z)
{
    int P = ((const struct cope *)self)->positions;
    c->host->gemm(c->host->ctx, 0, 1, c->B * c->H * c->Tq, P, c->dh, 1, q, c->dh, c->p[0], c->dh, 0, z, P);
}

static void logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)k;
    int last = ((const struct cope *)self)->positions - 1, rows = c->H * c->Tq;
    lab_real *z = c->scratch, *gate = c->save;
    multiply(self, c, q, z);
    for (int row = 0; row < c->B * rows; row++, z += last + 1, s += c->Tk, out += c->Tk, gate += 2 * c->Tk) {
        lab_real *position = gate + c->Tk;
        int seen = count(c, row / rows, row % c->Tq, s, gate, position);
        for (int j = 0; j < seen; j++) {
            lab_real p = position[j] < last ? position[j] : (lab_real)last;
            int below = (int)p < last ? (int)p : last - 1;             /* p = last: all weight on the upper one */
            out[j] += z[below] + (p - (lab_real)below) * (z[below + 1] - z[below]);
        }
    }
}

/* dp_ij = dout (z[above] - z[below]), 0 where the count is past the last vector; a gate t is in the counts of all j <= t. */
static void logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                       const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)k, (void)dk, (void)s;
    int P = ((const struct cope *)self)->positions, last = P - 1, rows = c->H * c->Tq;
    lab_real *z = c->scratch, *all = z + products(self, c), *dz = all;
    const lab_real *gate = c->save;
    multiply(self, c, q, z);
    memset(all, 0, products(self, c) * sizeof *all);
    for (int row = 0; row < c->B * rows; row++, z += P, dz += P, dout += c->Tk, ds += c->Tk, gate += 2 * c->Tk) {
        const lab_real *position = gate + c->Tk;
        int seen = seen_by(c, row % c->Tq);
        lab_real dgate = 0;
        for (int j = 0; j < seen; j++) {
            int inside = position[j] < last, below = inside ? (int)position[j] : last - 1;
            lab_real weight = inside ? position[j] - (lab_real)below : 1;
            dz[below] += (1 - weight) * dout[j];
            dz[below + 1] += weight * dout[j];
            if (inside) dgate += dout[j] * (z[below + 1] - z[below]);
            ds[j] += dgate * gate[j] * (1 - gate[j]);
        }
    }
    c->host->gemm(c->host->ctx, 0, 0, c->B * rows, c->dh, P, 1, all, P, c->p[0], c->dh, 1, dq, c->dh);
    c->host->gemm(c->host->ctx, 1, 0, P, c->dh, c->B * rows, 1, all, P, q, c->dh, 1, c->g[0], c->dh);
}

static const struct lab_encoder cope = { .size = sizeof cope, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_CAUSAL_ONLY, .name = "cope",
    .summary = "positions that count the keys which a query's gates let through",
    .cite = "Golovneva et al. 2024, Contextual Position Encoding: Learning to Count What's Important, arXiv 2405.18719",
    .self_size = sizeof(struct cope), .options = options, .param = param, .save_size = save_size, .scratch_size = scratch_size,
    .logits = logits, .logits_bwd = logits_bwd };
static const struct lab_encoder *const list[] = { &cope, NULL };
LAB_PLUGIN(cope, .version = "1", .license = "MIT", .encoders = list);
