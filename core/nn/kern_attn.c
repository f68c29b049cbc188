/* kern_attn -- attention over one tile of queries and keys: see kern.h and kern_vec.h.
 *
 * A query is a lane: scores are kept as s [key][query], queries and outputs as x [coordinate][query], so neither the softmax over
 * keys nor the products over keys need a sum across lanes.  Rows are LD apart, a constant of each copy of these functions, so that
 * addresses cost nothing.  The exponentials are not divided by their sum: the outputs are, and in the backward pass their gradients.
 */
#include "nn/kern_vec.h"

#define GROUP (VB == 64 ? 16 : 8)    /* coordinates of a head at a time: as many registers as there are to spare */

enum { LARGEST, WEIGHTED };          /* what dots collects over keys: the largest s, or the sum of kept s */

/* The keys that queries before `end` may see: all, or with a causal mask the first so many. */
INLINE int keys_before(const struct kern_attn *a, int end) { return end + a->shift < a->tk ? end + a->shift : a->tk; }

#define COLUMNS(suffix, V, VU)                                                                                                \
/* s_j (+)= sum over c < n of x_c y_j[c], j < keys, for one block of queries; n, LD and collect are constants.  On the way,   \
 * the next sequence's y are sent for, and the same place of the next head's kept weights. */                                 \
INLINE V dots_group##suffix(int n, int LD, int collect, real *s, int add, const real *x, const real *y, long ldy, int keys,   \
                            int tk, const real *kept)                                                                         \
{                                                                                                                             \
    V xv[GROUP], collected = (V){ 0 } + (collect == LARGEST ? 10 * MASKED : 0);                                               \
    _Pragma("GCC unroll 16") for (int c = 0; c < n; c++) xv[c] = *(const VU *)(x + c * LD);                                   \
    for (int j = 0; j < keys; j++, s += LD, y += ldy, kept += LD) {                                                           \
        V t = xv[0] * y[0];                                                                                                   \
        if (add) t += *(VU *)s;                                                                                               \
        _Pragma("GCC unroll 16") for (int c = 1; c < n; c++) t += xv[c] * y[c];                                               \
        *(VU *)s = t;                                                                                                         \
        __builtin_prefetch(y + (long)tk * ldy, 0, 2);                                                                         \
        __builtin_prefetch(kept + (tk + 1) * LD, collect == LARGEST);                                                         \
        collected = collect == LARGEST ? max##suffix(collected, t) : collected + *(const VU *)kept * t;                       \
    }                                                                                                                         \
    return collected;                                                                                                         \
}                                                                                                                             \
INLINE V dots##suffix(int LD, int collect, real *s, int add, const real *x, const real *y, long ldy, int keys,                \
                      const struct kern_attn *a, const real *kept)                                                            \
{                                                                                                                             \
    V collected = { 0 };                                                                                                      \
    int c = 0, tk = a->tk, dh = a->dh;                                                                                        \
    for (; c + GROUP <= dh; c += GROUP, add = 1)                                                                              \
        collected = dots_group##suffix(GROUP, LD, collect, s, add, x + c * LD, y + c, ldy, keys, tk, kept);                   \
    for (; c + 8 <= dh; c += 8, add = 1)                                                                                      \
        collected = dots_group##suffix(8, LD, collect, s, add, x + c * LD, y + c, ldy, keys, tk, kept);                       \
    for (; c < dh; c++, add = 1)                                                                                              \
        collected = dots_group##suffix(1, LD, collect, s, add, x + c * LD, y + c, ldy, keys, tk, kept);                       \
    return collected;                                                                                                         \
}                                                                                                                             \
/* s = exp(s - largest) for the keys that are seen, 0 for the others; returns the sum over keys. */                           \
INLINE V exp_columns##suffix(int LD, real *s, int keys, int tk, V largest)                                                    \
{                                                                                                                             \
    V sum = { 0 };                                                                                                            \
    for (int j = 0; j < keys; j++, s += LD) {                                                                                 \
        V e = exp##suffix(*(VU *)s - largest);                                                                                \
        *(VU *)s = e;                                                                                                         \
        sum += e;                                                                                                             \
    }                                                                                                                         \
    for (int j = keys; j < tk; j++, s += LD) *(VU *)s = (V){ 0 };                                                             \
    return sum;                                                                                                               \
}                                                                                                                             \
/* Scores of the block of queries from i become exponentials; their largest logit and their sum. */                           \
INLINE void exp_block##suffix(int LD, int i, real *s, int prepared, const real *qt, const struct kern_attn *a, real *max, real *sum)\
{                                                                                                                             \
    int keys = keys_before(a, i + (int)(sizeof(V) / sizeof(real)));                                                           \
    V largest = dots##suffix(LD, LARGEST, s, prepared, qt, a->k, a->ldk, keys, a, s);                                         \
    *(VU *)max = largest;                                                                                                     \
    *(VU *)sum = exp_columns##suffix(LD, s, keys, a->tk, largest);                                                            \
}                                                                                                                             \
/* The same from what the forward pass has kept: p = exp(s - lse). */                                                         \
INLINE void again_block##suffix(int LD, int i, real *s, int prepared, const real *qt, const struct kern_attn *a, const real *lse)\
{                                                                                                                             \
    int keys = keys_before(a, i + (int)(sizeof(V) / sizeof(real)));                                                           \
    dots##suffix(LD, LARGEST, s, prepared, qt, a->k, a->ldk, keys, a, s);                                                     \
    exp_columns##suffix(LD, s, keys, a->tk, *(const VU *)lse);                                                                \
}                                                                                                                             \
INLINE void dp_block##suffix(int LD, int i, real *dp, const real *gt, const real *p, const struct kern_attn *a, real *delta)  \
{                                                                                                                             \
    int keys = keys_before(a, i + (int)(sizeof(V) / sizeof(real)));                                                           \
    *(VU *)delta = dots##suffix(LD, WEIGHTED, dp, 0, gt, a->v, a->ldv, keys, a, p);                                           \
    for (int j = keys; j < a->tk; j++) *(VU *)(dp + j * LD) = (V){ 0 };                                                       \
}                                                                                                                             \
/* out_c = factor times the sum over keys of s_j y_j[c], for n coordinates of nb blocks of queries side by side; n, nb and LD \
 * are constants.  p: s is dP; it becomes scale dS first, dS = P (dP - delta), and dbias += dS.  On the way, the next         \
 * sequence's y are sent for. */                                                                                              \
INLINE void mix_group##suffix(int nb, int n, int LD, real *out, real *s, const real *y, long ldy, int keys, int tk,           \
                              const real *factor, const real *p, const real *delta, real *dbias, real scale)                  \
{                                                                                                                             \
    enum { L = sizeof(V) / sizeof(real) };                                                                                    \
    V acc[2][GROUP] = { { { 0 } } };                                                                                          \
    for (int j = 0; j < keys; j++, s += LD, y += ldy) {                                                                       \
        V w[2];                                                                                                               \
        __builtin_prefetch(y + (long)tk * ldy, 0, 2);                                                                         \
        _Pragma("GCC unroll 2") for (int b = 0; b < nb; b++) {                                                                \
            w[b] = *(VU *)(s + b * L);                                                                                        \
            if (!p) continue;                                                                                                 \
            w[b] = *(const VU *)(p + j * LD + b * L) * (w[b] - *(const VU *)(delta + b * L));                                 \
            if (dbias) *(VU *)(dbias + j * KERN_TILE + b * L) += w[b];                                                        \
            w[b] *= scale;                                                                                                    \
            *(VU *)(s + b * L) = w[b];                                                                                        \
        }                                                                                                                     \
        _Pragma("GCC unroll 16") for (int c = 0; c < n; c++)                                                                  \
            _Pragma("GCC unroll 2") for (int b = 0; b < nb; b++) acc[b][c] += w[b] * y[c];                                    \
    }                                                                                                                         \
    _Pragma("GCC unroll 16") for (int c = 0; c < n; c++)                                                                      \
        _Pragma("GCC unroll 2") for (int b = 0; b < nb; b++)                                                                  \
            *(VU *)(out + c * LD + b * L) = factor ? acc[b][c] * *(const VU *)(factor + b * L) : acc[b][c];                   \
}                                                                                                                             \
INLINE void mix##suffix(int nb, int LD, int i, real *out, real *s, const real *y, long ldy, const struct kern_attn *a,        \
                        const real *factor, const real *p, const real *delta, real *dbias)                                    \
{                                                                                                                             \
    int c = 0, tk = a->tk, dh = a->dh, keys = keys_before(a, i + nb * (int)(sizeof(V) / sizeof(real)));                       \
    for (; nb == 1 && c + GROUP <= dh; c += GROUP, p = NULL)                                                                  \
        mix_group##suffix(nb, GROUP, LD, out + c * LD, s, y + c, ldy, keys, tk, factor, p, delta, dbias, a->scale);           \
    for (; c + 8 <= dh; c += 8, p = NULL)                                                                                     \
        mix_group##suffix(nb, 8, LD, out + c * LD, s, y + c, ldy, keys, tk, factor, p, delta, dbias, a->scale);               \
    for (; c < dh; c++, p = NULL)                                                                                             \
        mix_group##suffix(nb, 1, LD, out + c * LD, s, y + c, ldy, keys, tk, factor, p, delta, dbias, a->scale);               \
}                                                                                                                             \
INLINE void mix_block##suffix(int nb, int LD, int i, real *out, real *s, const struct kern_attn *a, const real *factor)       \
{                                                                                                                             \
    mix##suffix(nb, LD, i, out, s, a->v, a->ldv, a, factor, NULL, NULL, NULL);                                                \
}                                                                                                                             \
INLINE void slope_block##suffix(int nb, int LD, int i, real *dq, real *dp, const struct kern_attn *a, const real *p,          \
                                const real *delta, real *dbias)                                                               \
{                                                                                                                             \
    mix##suffix(nb, LD, i, dq, dp, a->k, a->ldk, a, NULL, p, delta, dbias);                                                   \
}                                                                                                                             \
/* x_c *= factor, for rows c < n */                                                                                           \
INLINE void scale_block##suffix(int LD, real *x, int n, const real *factor)                                                   \
{                                                                                                                             \
    for (int c = 0; c < n; c++) *(VU *)(x + c * LD) *= *(const VU *)factor;                                                   \
}                                                                                                                             \
/* out = sum over c < n of x_c y_c */                                                                                         \
INLINE void dot_block##suffix(int LD, real *out, const real *x, const real *y, int n)                                         \
{                                                                                                                             \
    V sum = { 0 };                                                                                                            \
    for (int c = 0; c < n; c++) sum += *(const VU *)(x + c * LD) * *(const VU *)(y + c * LD);                                 \
    *(VU *)out = sum;                                                                                                         \
}

COLUMNS(_v, vec, vecu)
#if HALF
COLUMNS(_h, hvec, hvecu)
#endif

/* Calls f_v on blocks of W queries from i, and f_h on a last half block; BY_TWO on two blocks side by side while there are. */
#if HALF
#define BY_COLUMNS(width, f, ...) do { int i = 0;          \
        for (; i + W <= (width); i += W) f##_v(__VA_ARGS__); \
        if (i < (width)) f##_h(__VA_ARGS__); } while (0)
#define BY_TWO(width, f, ...) do { int i = 0;              \
        for (; i + 2 * W <= (width); i += 2 * W) f##_v(2, __VA_ARGS__); \
        for (; i + W <= (width); i += W) f##_v(1, __VA_ARGS__); \
        if (i < (width)) f##_h(1, __VA_ARGS__); } while (0)
#else
#define BY_COLUMNS(width, f, ...) do { for (int i = 0; i < (width); i += W) f##_v(__VA_ARGS__); } while (0)
#define BY_TWO(width, f, ...) BY_COLUMNS(width, f, 1, __VA_ARGS__)
#endif

INLINE int padded(int t) { return (t + PAD - 1) / PAD * PAD; }

/* out [cols][LD] = scale * x [rows][ldx] transposed, rows padded with zeros */
INLINE void transpose(int LD, real *restrict out, const real *restrict x, long ldx, int rows, int cols, real scale)
{
    transpose_plain(out, LD, x, ldx, rows, cols, scale);
    for (int c = 0; c < cols && rows < padded(rows); c++)
        for (int r = rows; r < padded(rows); r++) out[c * LD + r] = 0;
}

/* What scores begin with, where that is not 0: the bias, and no chance for a key that may not be seen. Returns whether it is so. */
INLINE int prepare(int LD, real *s, const struct kern_attn *a)
{
    int width = padded(a->tq);
    if (!a->bias && !a->key_ok && a->shift >= a->tk - 1) return 0;
    for (int j = 0; j < a->tk; j++, s += LD) {
        int hidden = a->key_ok && !a->key_ok[j] ? width : j - a->shift;      /* queries before this one may not see it */
        for (int i = 0; i < width; i += PAD) {
            pvec x = { 0 };
            if (a->bias) x = *(const pvecu *)(a->bias + j * KERN_TILE + i);
            if (hidden > i) {
                pmask before = pad_lanes() < (bits)(hidden - i);
                x = (pvec)((before & (pmask)((pvec){ 0 } + MASKED)) | (~before & (pmask)x));
            }
            *(pvecu *)(s + i) = x;
        }
    }
    return 1;
}

/* out = s, dropped; s itself where nothing is dropped */
INLINE real *drop_weights(int LD, real *out, real *s, const struct kern_attn *a)
{
    if (!(a->drop.p > 0)) return s;
    for (int j = 0; j < a->tk; j++) {
        if (out != s) memcpy(out + j * LD, s + j * LD, (size_t)a->tq * sizeof *s);
        dropout_rows(out + j * LD, &a->drop, a->drop.block + (uint32_t)j * a->drop_ld, (size_t)a->tq);
    }
    return out;
}

/* c [tk,dh] (+)= s b over queries, for those keys that they may see, once for each distance between rows of s */
#define PRODUCTS(LD)                                                                                                        \
static void over_queries_##LD(const struct kern_attn *a, const real *s, const real *b, long ldb, real *c, long ldc)         \
{                                                                                                                           \
    for (int j = 0; j < a->tk; j += 16) {                                                                                   \
        int keys = a->tk - j < 16 ? a->tk - j : 16, hidden = j > a->shift ? j - a->shift : 0, first = hidden < a->tq ? hidden : a->tq; \
        SMALL(keys, a->dh, a->tq - first, s + j * LD + first, LD, 1, b + first * ldb, ldb, c + j * ldc, ldc, a->add_kv);    \
    }                                                                                                                       \
}
PRODUCTS(16) PRODUCTS(32) PRODUCTS(48) PRODUCTS(64)
_Static_assert(KERN_TILE == 64, "kern_attn_ld() gives one of these, at most KERN_TILE");
#define OVER_QUERIES (LD == 16 ? over_queries_16 : LD == 32 ? over_queries_32 : LD == 48 ? over_queries_48 : over_queries_64)
/* Calls f with LD, a constant, for this many queries. */
#define WITH_LD(tq, f, ...) do switch (kern_attn_ld(tq)) { \
        case 16: f(16, __VA_ARGS__); break;                \
        case 32: f(32, __VA_ARGS__); break;                \
        case 48: f(48, __VA_ARGS__); break;                \
        default: f(KERN_TILE, __VA_ARGS__); } while (0)

struct attn_scratch { real *s, *dp, *dropped, *t, *gt, *rows, *row[4]; };
static struct attn_scratch scratch_of(const struct kern_attn *a)
{
    struct attn_scratch r = { .s = a->scratch };
    r.dp = r.s + KERN_TILE * KERN_TILE, r.dropped = r.dp + KERN_TILE * KERN_TILE, r.t = r.dropped + KERN_TILE * KERN_TILE;
    r.gt = r.t + a->dh * KERN_TILE, r.rows = r.gt + a->dh * KERN_TILE, r.row[0] = r.rows + a->dh * KERN_TILE;
    for (int i = 1; i < 4; i++) r.row[i] = r.row[i - 1] + KERN_TILE;
    return r;
}

/* out [tq,dh] rows ldo apart (+)= x [dh][LD] transposed */
INLINE void to_rows(int LD, real *out, long ldo, const real *x, const struct kern_attn *a, int add, real *rows)
{
    if (!add) { transpose_plain(out, ldo, x, LD, a->dh, a->tq, 1); return; }
    transpose_plain(rows, a->dh, x, LD, a->dh, a->tq, 1);
    for (int i = 0; i < a->tq; i++)
        for (int c = 0; c < a->dh; c++) out[i * ldo + c] += rows[i * a->dh + c];
}

INLINE void fwd(int LD, real *out, long ldo, real *weights, const struct kern_attn *a)
{
    struct attn_scratch r = scratch_of(a);
    real *s = weights ? weights : r.s, *largest = r.row[0], *inverse = weights ? weights + a->tk * LD : r.row[1];
    int width = padded(a->tq), prepared = prepare(LD, s, a);
    transpose(LD, r.t, a->q, a->ldq, a->tq, a->dh, a->scale);
    BY_COLUMNS(width, exp_block, LD, i, s + i, prepared, r.t + i, a, largest + i, inverse + i);
    for (int i = 0; i < width; i++) inverse[i] = 1 / inverse[i];
    s = drop_weights(LD, r.dropped, s, a);
    BY_TWO(width, mix_block, LD, i, r.t + i, s + i, a, inverse + i);
    to_rows(LD, out, ldo, r.t, a, 0, NULL);
}
void OF_ISA(kern_attn_fwd_)(real *out, long ldo, real *weights, const struct kern_attn *a)
{
    WITH_LD(a->tq, fwd, out, ldo, weights, a);
}

void OF_ISA(kern_attn_step_)(real *max, real *sum, real *acc, int first, const struct kern_attn *a)
{
    enum { LD = KERN_TILE };
    struct attn_scratch r = scratch_of(a);
    real *tile_max = r.row[0], *tile_sum = r.row[1], *keep = r.row[2], *gain = r.row[3];
    int width = padded(a->tq), prepared = prepare(LD, r.s, a);
    transpose(LD, r.t, a->q, a->ldq, a->tq, a->dh, a->scale);
    BY_COLUMNS(width, exp_block, LD, i, r.s + i, prepared, r.t + i, a, tile_max + i, tile_sum + i);
    for (int i = 0; i < a->tq; i++) {
        real before = first ? MASKED : max[i], now = before > tile_max[i] ? before : tile_max[i];
        keep[i] = first ? 0 : (real)exp(before - now), gain[i] = (real)exp(tile_max[i] - now);
        max[i] = now;
        sum[i] = (first ? 0 : sum[i] * keep[i]) + tile_sum[i] * gain[i];
        for (int c = 0; c < a->dh; c++) acc[i * a->dh + c] = first ? 0 : acc[i * a->dh + c] * keep[i];
    }
    for (int i = a->tq; i < width; i++) gain[i] = 0;
    drop_weights(LD, r.s, r.s, a);
    BY_TWO(width, mix_block, LD, i, r.t + i, r.s + i, a, gain + i);
    to_rows(LD, acc, a->dh, r.t, a, 1, r.rows);
}

/* With E = exp(S - largest), n = 1 / sum_j E, P = n E, O = P V and G = n dO, by row:  dV = E^T G;  n dP = G V^T;
 * dS = P (dP - D) = E (n dP - n D), D_i = sum_j P_ij dP_ij;  dQ = scale dS K;  dK = scale dS^T Q.
 * Of a tile of several keys P itself is computed again, and n is 1.  There, and under dropout, whose mask O and dP carry,
 * D_i is dO_i . O_i; elsewhere the sum is better, because what rounding did to dP then cancels. */
INLINE void bwd(int LD, real *dq, real *dk, real *dv, real *dbias, const real *out, const real *dout, long ldo, const real *kept,
                const struct kern_attn *a)
{
    struct attn_scratch r = scratch_of(a);
    int tq = a->tq, tk = a->tk, dh = a->dh, width = padded(tq);
    real *p = (real *)kept, *delta = r.row[0], *lse = r.row[1];      /* kept is only read: nothing is dropped in place */
    const real *g = dout, *inverse = a->whole ? kept + tk * LD : NULL;
    long ldg = ldo;
    transpose(LD, r.gt, dout, ldo, tq, dh, 1);
    if (a->whole) {
        BY_COLUMNS(width, scale_block, LD, r.gt + i, dh, inverse + i);
        transpose_plain(r.rows, dh, r.gt, LD, dh, tq, 1);
        g = r.rows, ldg = dh;
    } else {
        int prepared = prepare(LD, r.s, a);
        transpose(LD, r.t, a->q, a->ldq, tq, dh, a->scale);
        memset(lse, 0, KERN_TILE * sizeof *lse);
        memcpy(lse, kept, (size_t)tq * sizeof *lse);
        BY_COLUMNS(width, again_block, LD, i, r.s + i, prepared, r.t + i, a, lse + i);
        p = r.s;
    }
    BY_COLUMNS(width, dp_block, LD, i, r.dp + i, r.gt + i, p + i, a, delta + i);
    if (a->whole && !(a->drop.p > 0)) BY_COLUMNS(width, scale_block, LD, delta + i, 1, inverse + i);
    else {
        transpose(LD, r.t, out, ldo, tq, dh, 1);
        BY_COLUMNS(width, dot_block, LD, delta + i, r.gt + i, r.t + i, dh);
    }
    OVER_QUERIES(a, drop_weights(LD, r.dropped, p, a), g, ldg, dv, a->ldv);
    drop_weights(LD, r.dp, r.dp, a);
    BY_TWO(width, slope_block, LD, i, r.t + i, r.dp + i, a, p + i, delta + i, dbias ? dbias + i : NULL);
    to_rows(LD, dq, a->ldq, r.t, a, a->add_q, r.rows);
    OVER_QUERIES(a, r.dp, a->q, a->ldq, dk, a->ldk);
}
void OF_ISA(kern_attn_bwd_)(real *dq, real *dk, real *dv, real *dbias, const real *out, const real *dout, long ldo, const real *kept,
                     const struct kern_attn *a)
{
    WITH_LD(a->tq, bwd, dq, dk, dv, dbias, out, dout, ldo, kept, a);
}
