/* rope -- turns pairs of coordinates of queries and keys by p w_k, w_k = base^(-2k/rotated), at position p, so that their
 * product depends on the distance alone.  Values are never turned.  scaling slows the turning, so that positions past the
 * training length turn no farther than it did: all pairs alike (linear), the slow ones more (ntk; ntk_dynamic: only in sequences
 * that are longer, by how much they are), or only those that never turned once in training (yarn).
 * Refuses an odd head size, a fraction of the head in which there is no pair, and yarn with base 1. */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

enum { INTERLEAVED, HALF };
enum { NONE, LINEAR, NTK, NTK_DYNAMIC, YARN };
enum { ANGLES_MOST = 1 << 12 };      /* kept: 128 positions of a head of 64, 1024 of one of 8; a plan has thousands of instances */
struct angle { lab_real cosine, sine; };         /* times what yarn adds to lengths */
struct rope {
    double base, fraction, factor;
    int32_t pairs, scaling, original;
    /* set by init: */
    int32_t rotated;                 /* coordinates of a head, even */
    int32_t trained;                 /* original, or this run's training length */
    double low, high;                /* yarn: pairs before low turn as ever, those after high factor times slower */
    int32_t reach;                   /* positions with an angle */
    struct angle *angle;             /* [rotated / 2, reach], in sequences that span no more than training's */
};

static const struct lab_option options[] = {
    LAB_ENUM(struct rope, pairs, "interleaved", "interleaved|half", "coordinates 2k and 2k+1 are a pair, or k and k + half"),
    LAB_REAL(struct rope, base, "10000", 1, 1e12, "the slowest pair turns nearly this many times slower than the first"),
    LAB_REAL(struct rope, fraction, "1", 0, 1, "part of each head that is turned, down to an even number of coordinates"),
    LAB_ENUM(struct rope, scaling, "none", "none|linear|ntk|ntk_dynamic|yarn", "how turning slows for positions past the training length"),
    LAB_REAL(struct rope, factor, "1", 1, 1e6, "of scaling: how many times longer sequences are to become"),
    LAB_INT(struct rope, original, "0", 0, 1000000, "training length that scaling starts from; 0: this run's"),
    LAB_OPTIONS_END };

/* The pair that turns `turns` times within the training length, as a real number (YaRN, equation 20's d(beta)). */
static double pair_turning(const struct rope *r, double turns)
{
    return r->rotated * log(r->trained / (2 * M_PI * turns)) / (2 * log(r->base));
}

/* Radians a position of pair k, in a sequence that spans so many positions. */
static double speed(const struct rope *r, int k, int span)
{
    double longer = r->factor, w = pow(r->base, -2.0 * k / r->rotated), slow;
    switch (r->scaling) {
    case LINEAR: return w / r->factor;
    case NTK_DYNAMIC: longer = span > r->trained ? r->factor * span / r->trained - (r->factor - 1) : 1; /* fall through */
    case NTK: return k ? w * pow(longer, -2.0 * k / (r->rotated - 2)) : w;       /* base times longer^(rotated / (rotated - 2)) */
    case YARN: slow = fmin(fmax((k - r->low) / (r->high - r->low), 0), 1); return w / r->factor * slow + w * (1 - slow);
    default: return w;
    }
}
/* Yarn sharpens the softmax: queries and keys are longer by this. */
static double length_of(const struct rope *r) { return r->scaling == YARN ? 0.1 * log(r->factor) + 1 : 1; }

static struct angle angle_at(const struct rope *r, int position, double speed)
{
    double length = length_of(r);
    return (struct angle){ (lab_real)(length * cos(position * speed)), (lab_real)(length * sin(position * speed)) };
}

/* The angles that nearly all calls need: a sine takes longer than turning a head by it. */
static int fill_angles(struct rope *r, struct lab_err *err)
{
    r->angle = malloc((size_t)(r->rotated / 2) * r->reach * sizeof *r->angle);
    if (!r->angle && r->reach) return lab_fail(err, "out of memory for %d positions", r->reach);
    for (int k = 0; k < r->rotated / 2; k++) {
        double w = speed(r, k, r->trained);
        for (int p = 0; p < r->reach; p++) r->angle[(size_t)k * r->reach + p] = angle_at(r, p, w);
    }
    return 0;
}

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    struct rope *r = self;
    if (d->d_head % 2)
        return lab_fail(err, "rope turns pairs, so a head must be even, but model.d_model / model.heads = %d / %d = %d: change one",
                        d->d_model, d->n_head, d->d_head);
    r->rotated = 2 * (int)(r->fraction * d->d_head / 2 + 1e-9);       /* 1e-9: 0.7 * 20 is 14 */
    if (r->rotated == 0)
        return lab_fail(err, "encoder.rope.fraction = %g of a head of %d (model.d_model / model.heads) holds no pair to turn: "
                        "set at least %g", r->fraction, d->d_head, 2.0 / d->d_head);
    r->trained = r->original ? r->original : d->train_len;
    r->reach = ANGLES_MOST / (r->rotated / 2);
    if (r->reach > d->max_pos) r->reach = d->max_pos;
    if (r->scaling != YARN) return fill_angles(r, err);
    if (r->base == 1)
        return lab_fail(err, "encoder.rope.scaling = yarn tells fast pairs from slow ones, but with encoder.rope.base = 1 all turn alike: "
                        "set a larger base");
    r->low = fmax(floor(pair_turning(r, 32)), 0);
    r->high = fmin(ceil(pair_turning(r, 1)), r->rotated - 1);
    if (r->low == r->high) r->high += 0.001;
    return fill_angles(r, err);
}
static void fini(void *self) { free(((struct rope *)self)->angle); }

/* A table [2,T,dh] for queries and one for keys: see fill. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self, (void)hook;
    return 2 * (size_t)(c->Tq + c->Tk) * c->dh * sizeof(lab_real);
}

/* Positions that a sequence spans, from the first to the last: its keys', without padding; each query stands at one of them. */
static int span_of(const struct lab_call *c, int b)
{
    const int32_t *pos = c->pos_k + (size_t)b * c->stride_k;
    const uint8_t *ok = c->key_ok ? c->key_ok + (size_t)b * c->Tk : NULL;
    int lo = INT32_MAX, hi = -1;
    for (int t = 0; t < c->Tk; t++) {
        if (ok && !ok[t]) continue;
        if (pos[t] < lo) lo = pos[t];
        if (pos[t] > hi) hi = pos[t];
    }
    return hi < 0 ? 0 : hi - lo + 1;
}

/* Cosines [T,dh], then sines, such that turned_i = x_i cosine_i + x_partner sine_i: both of a pair have their own entries,
 * the sign is in the sine, and an unturned coordinate has 1 and 0, so that turning interleaved pairs is one long loop. */
static void fill(const struct rope *r, const int32_t *pos, int T, int dh, int span, int direction, lab_real *table)
{
    lab_real *cosine = table, *sine = table + (size_t)T * dh;
    int step = r->pairs == HALF ? 1 : 2, apart = r->pairs == HALF ? r->rotated / 2 : 1, slower = r->scaling == NTK_DYNAMIC && span > r->trained;
    for (int i = 0; i < T * dh; i++) cosine[i] = 1, sine[i] = 0;
    for (int k = 0; k < r->rotated / 2; k++) {
        const struct angle *known = r->angle + (size_t)k * r->reach;
        double w = speed(r, k, span);
        for (int t = 0; t < T; t++) {
            struct angle at = slower || pos[t] >= r->reach ? angle_at(r, pos[t], w) : known[pos[t]];
            int a = t * dh + k * step, b = a + apart;
            cosine[a] = cosine[b] = at.cosine;
            sine[a] = -(sine[b] = (lab_real)direction * at.sine);
        }
    }
}

/* One head, n = T dh numbers, in blocks of `half` first partners, `half` second ones, and what is not turned; add: to out,
 * not over it.  Inlined with its constants, the interleaved case vectorises as well as the other. */
static inline void turn(int n, int block, int half, int add, const lab_real *restrict cosine, const lab_real *restrict sine,
                        const lab_real *restrict x, lab_real *restrict out)
{
    for (int start = 0; start < n; start += block) {
        for (int i = start, j = start + half; i < start + half; i++, j++) {
            lab_real a = x[i] * cosine[i] + x[j] * sine[i], b = x[j] * cosine[j] + x[i] * sine[j];
            out[i] = add ? out[i] + a : a;
            out[j] = add ? out[j] + b : b;
        }
        for (int i = start + 2 * half; i < start + block; i++) out[i] = add ? out[i] + x[i] : x[i];
    }
}

/* All heads of sequence b of one tensor [B,H,T,dh]. */
static void turn_heads(const struct rope *r, const struct lab_call *c, int b, int T, int add, const lab_real *table,
                       const lab_real *x, lab_real *out)
{
    int n = T * c->dh;
    for (size_t at = (size_t)b * c->H * n, end = at + (size_t)c->H * n; at < end; at += n)
        if (r->pairs == HALF) turn(n, c->dh, r->rotated / 2, add, table, table + n, x + at, out + at);
        else turn(n, 2, 1, add, table, table + n, x + at, out + at);
}

static void turn_both(const struct rope *r, const struct lab_call *c, int direction, int add, const lab_real *q, const lab_real *k,
                      lab_real *q_out, lab_real *k_out)
{
    int alike = c->pos_q == c->pos_k && c->stride_q == c->stride_k && c->Tq == c->Tk;    /* self-attention: one table for both */
    lab_real *table_q = c->scratch, *table_k = alike ? table_q : table_q + 2 * (size_t)c->Tq * c->dh;
    for (int b = 0; b < c->B; b++) {
        int new_row = b == 0 || c->stride_q || c->stride_k, span = r->scaling == NTK_DYNAMIC && new_row ? span_of(c, b) : 0;
        if (new_row) fill(r, c->pos_q + (size_t)b * c->stride_q, c->Tq, c->dh, span, direction, table_q);
        if (new_row && !alike) fill(r, c->pos_k + (size_t)b * c->stride_k, c->Tk, c->dh, span, direction, table_k);
        turn_heads(r, c, b, c->Tq, add, table_q, q, q_out);
        turn_heads(r, c, b, c->Tk, add, table_k, k, k_out);
    }
}
static void qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    turn_both(self, c, 1, 0, q, k, q_out, k_out);
}
/* q_out = m R q, R a rotation and m a number, so dq += m R^T dq_out: turn back. */
static void qk_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k,
                   const lab_real *dq_out, const lab_real *dk_out, lab_real *dq, lab_real *dk)
{
    (void)q, (void)k;
    turn_both(self, c, -1, 1, dq_out, dk_out, dq, dk);
}

static const struct lab_encoder rope = { .size = sizeof rope, .flags = LAB_E_SHIFT_INVARIANT, .name = "rope",
    .summary = "queries and keys turned by their positions",
    .cite = "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv 2104.09864; scaling: "
            "Chen et al. 2023, arXiv 2306.15595 (linear), Peng et al. 2023, YaRN, arXiv 2309.00071 (ntk, yarn)",
    .self_size = sizeof(struct rope), .options = options, .init = init, .fini = fini, .scratch_size = scratch_size,
    .qk = qk, .qk_bwd = qk_bwd };
static const struct lab_encoder *const list[] = { &rope, NULL };
LAB_PLUGIN(rope, .version = "1", .license = "MIT", .encoders = list);
