/* kern -- see kern.h.  Compiled once for each instruction set with -DKERN_ISA=name; nothing here
 * chooses at run time.  Vectors are GCC's; erf comes from libmvec (four ulp or better), and double precision's exp.
 *
 * W lanes to a vector.  Where a second, half as wide vector pays (AVX-512 on short rows), the same
 * code is made for both by including it through a macro over the vector's type.
 */
#include "nn/kern.h"
#include <math.h>
#include <string.h>
#include "base/rng.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef lab_real real;
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME_(a) #a
#define NAME(a) NAME_(a)

#if defined(__AVX512F__)
#define VB 64
#define HALF 1
#elif defined(__AVX2__)
#define VB 32
#define HALF 0
#else
#define VB 16
#define HALF 0
#endif
#ifdef LAB_REAL_DOUBLE
#if VB == 64
#define LANES 8
#elif VB == 32
#define LANES 4
#else
#define LANES 2
#endif
#elif VB == 64
#define LANES 16
#elif VB == 32
#define LANES 8
#else
#define LANES 4
#endif
#define W LANES
#define PAD (HALF ? W / 2 : W)       /* rows of transposed tiles are padded to this */
#define INLINE static inline __attribute__((always_inline))

#ifdef LAB_REAL_DOUBLE
typedef int64_t bits;
#else
typedef int32_t bits;
#endif
typedef real vec __attribute__((vector_size(VB)));
typedef bits mask __attribute__((vector_size(VB)));
typedef real vecu __attribute__((vector_size(VB), aligned(sizeof(real)), may_alias));
#if HALF
typedef real hvec __attribute__((vector_size(VB / 2)));
typedef bits hmask __attribute__((vector_size(VB / 2)));
typedef real hvecu __attribute__((vector_size(VB / 2), aligned(sizeof(real)), may_alias));
typedef hvec pvec;                   /* PAD lanes */
typedef hvecu pvecu;
typedef hmask pmask;
#else
typedef vec pvec;
typedef vecu pvecu;
typedef mask pmask;
#endif

INLINE vec load(const real *p) { return *(const vecu *)p; }
INLINE void store(real *p, vec x) { *(vecu *)p = x; }
/* ---- exp and erf of a vector ---- */

#if defined(__x86_64__)
#define MVEC(letter, lanes, f) PASTE(PASTE(_ZGV, letter), PASTE(N, PASTE(lanes, PASTE(v_, f))))
#ifdef LAB_REAL_DOUBLE
#define ERF erf
#else
#define ERF erff
#endif
#if VB == 64
#define OF_LIBMVEC(f) MVEC(e, LANES, f)
#elif VB == 32
#define OF_LIBMVEC(f) MVEC(d, LANES, f)
#else
#define OF_LIBMVEC(f) MVEC(b, LANES, f)
#endif
vec OF_LIBMVEC(ERF)(vec);
INLINE vec vec_erf(vec x) { return OF_LIBMVEC(ERF)(x); }
#else
INLINE vec vec_erf(vec x) { for (int i = 0; i < W; i++) x[i] = (real)erf(x[i]); return x; }
#endif

#define EXP_LOW ((real)-87)          /* exp up to here is nothing: exactly 0, and never a slow denormal */
#define MASKED  ((real)-1e30)        /* logit of a key that may not be seen; finite, so that no row makes nan */

#ifndef LAB_REAL_DOUBLE
/* exp(x) for -87 < x < 88: x = n log 2 + r, and exp(x) = 2^n exp(r) with |r| <= log(2) / 2; exp(r) = 1 + r + r^2 q(r), where q is the
 * polynomial of least relative error, 3e-9, so that rounding is what is left.  A call into a library for each vector, which saves all
 * registers, would take twice the time of attention's softmax.  n is rounded by adding 1.5 2^23, in whose last bits it then stands. */
#define RAW_EXP(suffix, V, M)                                                                 \
INLINE V raw_exp##suffix(V x)                                                                 \
{                                                                                             \
    V shifted = x * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;                    \
    V r = x - n * 0x1.63p-1f - n * -0x1.bd0106p-13f;         /* log 2 in two parts, n times the first of them exact */ \
    V q = 0x1.555492p-3f + r * (0x1.5558f2p-5f + r * (0x1.1239d4p-7f + r * 0x1.6a244cp-10f)); \
    V p = 1 + r * (1 + r * (0x1.fffffcp-2f + r * q));                                         \
    return (V)((M)p + ((M)shifted << 23));                                                    \
}
#elif defined(__x86_64__)
vec OF_LIBMVEC(exp)(vec);
INLINE vec libmvec_exp_v(vec x) { return OF_LIBMVEC(exp)(x); }
#if HALF
hvec MVEC(d, 4, exp)(hvec);
INLINE hvec libmvec_exp_h(hvec x) { return MVEC(d, 4, exp)(x); }
#endif
#define RAW_EXP(suffix, V, M) INLINE V raw_exp##suffix(V x) { return libmvec_exp##suffix(max##suffix((V){ 0 } + EXP_LOW, x)); }
#else
#define RAW_EXP(suffix, V, M) INLINE V raw_exp##suffix(V x) { for (int i = 0; i < W; i++) x[i] = exp(x[i]); return x; }
#endif

/* C has no ?: for vectors: a where a > b, else b; and exp(x) for x <= 88, of nan nan. */
#define VEC_BASICS(suffix, V, M)                                                              \
INLINE V max##suffix(V a, V b) { M m = a > b; return (V)((m & (M)a) | (~m & (M)b)); }         \
RAW_EXP(suffix, V, M)                                                                         \
INLINE V exp##suffix(V x) { return (V)(~(x <= EXP_LOW) & (M)raw_exp##suffix(x)); }

VEC_BASICS(_v, vec, mask)
#if HALF
VEC_BASICS(_h, hvec, hmask)
#endif

/* All lanes into the first: halves are folded onto each other. */
INLINE vec sum_v(vec a, vec b) { return a + b; }
#define FOLD_BY(f, x, ...) x = f(x, __builtin_shufflevector(x, x, __VA_ARGS__));
#if LANES == 16
#define FOLD(f, x)                                                                  \
    FOLD_BY(f, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)             \
    FOLD_BY(f, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)             \
    FOLD_BY(f, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)             \
    FOLD_BY(f, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif LANES == 8
#define FOLD(f, x)                                                                  \
    FOLD_BY(f, x, 4, 5, 6, 7, 0, 1, 2, 3) FOLD_BY(f, x, 2, 3, 0, 1, 6, 7, 4, 5) FOLD_BY(f, x, 1, 0, 3, 2, 5, 4, 7, 6)
#elif LANES == 4
#define FOLD(f, x) FOLD_BY(f, x, 2, 3, 0, 1) FOLD_BY(f, x, 1, 0, 3, 2)
#else
#define FOLD(f, x) FOLD_BY(f, x, 1, 0)
#endif
INLINE real lane_sum(vec x) { FOLD(sum_v, x) return x[0]; }
INLINE real lane_max(vec x) { FOLD(max_v, x) return x[0]; }

INLINE vec sigmoid(vec x)            /* 1 / (1 + exp(-x)); exp's argument kept in range */
{
    return 1 / (1 + exp_v(-max_v(x, (vec){ 0 } - (real)80)));
}

/* ---- embedding ---- */

static void embed_fwd(real *restrict x, const real *restrict table, const int32_t *token, real scale, const real *restrict pos, int T, int n, int d)
{
    for (int t = 0, i = 0; i < n; i++, t = t + 1 == T ? 0 : t + 1) {
        const real *row = table + (size_t)token[i] * d, *p = pos + (size_t)t * d;
        real *out = x + (size_t)i * d;
        if (pos) for (int c = 0; c < d; c++) out[c] = scale * row[c] + p[c];
        else for (int c = 0; c < d; c++) out[c] = scale * row[c];
    }
}

static void embed_bwd(real *restrict dtable, real *restrict dpos, const real *restrict dx, const int32_t *token, real scale, int T, int n, int d)
{
    for (int t = 0, i = 0; i < n; i++, t = t + 1 == T ? 0 : t + 1) {
        const real *g = dx + (size_t)i * d;
        real *row = dtable + (size_t)token[i] * d;
        for (int c = 0; c < d; c++) row[c] += scale * g[c];
        if (!dpos) continue;
        real *p = dpos + (size_t)t * d;
        for (int c = 0; c < d; c++) p[c] += g[c];
    }
}

/* ---- bias and column sums ---- */

static void add_bias(real *restrict x, const real *restrict bias, int n, int d)
{
    for (int i = 0; i < n; i++, x += d)
        for (int c = 0; c < d; c++) x[c] += bias[c];
}

/* Column sums of a block of rows stay in registers for 4 vectors of columns. */
static void column_sum(real *restrict out, const real *restrict x, int n, int d)
{
    int c = 0;
    for (; c + 4 * W <= d; c += 4 * W) {
        vec s[4] = { { 0 } };
        for (int i = 0; i < n; i++)
            for (int u = 0; u < 4; u++) s[u] += load(x + (size_t)i * d + c + u * W);
        for (int u = 0; u < 4; u++) store(out + c + u * W, load(out + c + u * W) + s[u]);
    }
    for (; c < d; c++) {
        real s = 0;
        for (int i = 0; i < n; i++) s += x[(size_t)i * d + c];
        out[c] += s;
    }
}

/* ---- dropout: element i is word i % 4 of Philox block i / 4 of the stream (RNG_DROPOUT, step, place) ---- */

#define BLOCKS 16                    /* of Philox, computed side by side */

INLINE void philox_lanes(uint32_t word[4][BLOCKS], const struct kern_dropout *o, uint32_t first_block)
{
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS], k0 = (uint32_t)o->seed, k1 = (uint32_t)(o->seed >> 32);
    for (int l = 0; l < BLOCKS; l++) c0[l] = first_block + (uint32_t)l, c1[l] = o->place, c2[l] = o->step, c3[l] = RNG_DROPOUT;
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < BLOCKS; l++) {
            uint64_t a = (uint64_t)0xD2511F53u * c0[l], b = (uint64_t)0xCD9E8D57u * c2[l];
            c0[l] = (uint32_t)(b >> 32) ^ c1[l] ^ k0;
            c2[l] = (uint32_t)(a >> 32) ^ c3[l] ^ k1;
            c1[l] = (uint32_t)b;
            c3[l] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(word[0], c0, sizeof c0), memcpy(word[1], c1, sizeof c1);
    memcpy(word[2], c2, sizeof c2), memcpy(word[3], c3, sizeof c3);
}

static void dropout_rows(real *x, const struct kern_dropout *o, uint32_t block, size_t n)
{
    uint32_t word[4][BLOCKS], threshold = (uint32_t)(o->p * 0x1p32);
    real scale = (real)(1 / (1 - o->p));
    for (size_t i = 0; i < n; block += BLOCKS) {
        philox_lanes(word, o, block);
        for (int l = 0; l < BLOCKS && i < n; l++)
            for (int w = 0; w < 4 && i < n; w++, i++) x[i] = word[w][l] < threshold ? 0 : x[i] * scale;
    }
}

static void dropout(real *x, const struct kern_dropout *o, size_t n) { dropout_rows(x, o, o->block, n); }

/* ---- normalisation ---- */

#define NORM_EPS ((real)1e-5)

/* One row of nv whole vectors, held in registers: nv is a constant wherever this is inlined. */
INLINE void norm_row(int nv, real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                     const real *w, const real *b, int type)
{
    vec r[16], s1 = { 0 }, s2 = { 0 }, mean = { 0 };
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) {
        r[u] = load(x + u * W);
        if (y) r[u] += load(y + u * W) + load(bias + u * W);
        if (sum) store(sum + u * W, r[u]);
        s1 += r[u];
    }
    if (type == KERN_LAYERNORM) mean += lane_sum(s1) / (real)(nv * W);
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) { r[u] -= mean; s2 += r[u] * r[u]; }
    real inverse = 1 / (real)sqrt(lane_sum(s2) / (real)(nv * W) + NORM_EPS);
    if (rstd) *rstd = inverse;
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) {
        vec h = r[u] * inverse, o = h * load(w + u * W);
        if (xhat) store(xhat + u * W, h);
        store(out + u * W, type == KERN_LAYERNORM ? o + load(b + u * W) : o);
    }
}

/* The same for any d, over memory. */
static void norm_row_any(real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                         const real *w, const real *b, int type, int d)
{
    real *r = sum ? sum : xhat ? xhat : out, total = 0, square = 0, mean = 0;
    for (int c = 0; c < d; c++) total += r[c] = y ? x[c] + y[c] + bias[c] : x[c];
    if (type == KERN_LAYERNORM) mean = total / (real)d;
    for (int c = 0; c < d; c++) square += (r[c] - mean) * (r[c] - mean);
    real inverse = 1 / (real)sqrt(square / (real)d + NORM_EPS);
    if (rstd) *rstd = inverse;
    for (int c = 0; c < d; c++) {
        real h = (r[c] - mean) * inverse;
        if (xhat) xhat[c] = h;
        out[c] = type == KERN_LAYERNORM ? h * w[c] + b[c] : h * w[c];
    }
}

static void norm_fwd(real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                     const real *w, const real *b, int type, int n, int d)
{
#define ROW(nv) norm_row(nv, out, xhat, rstd, sum, x, y, bias, w, b, type)
    for (int i = 0; i < n; i++) {
        if (d == 4 * W) ROW(4);
        else if (d == 8 * W) ROW(8);
        else if (d == 16 * W) ROW(16);
        else norm_row_any(out, xhat, rstd, sum, x, y, bias, w, b, type, d);
        x += d, out += d;
        if (y) y += d;
        if (xhat) xhat += d;
        if (rstd) rstd++;
        if (sum) sum += d;
    }
#undef ROW
}

/* out = xhat w + b, xhat = (r - mean) rstd:  dr = rstd (g - mean(g) - xhat mean(g xhat)) with g = dout w;
 * RMSNorm has no mean, so no mean(g). */
struct norm_grads { real *dw, *db, *dr_sum; };       /* db, dr_sum NULL: not wanted */

/* n rows of nv whole vectors; the weights' gradients stay in registers: nv is a constant wherever this is inlined. */
INLINE void norm_bwd_rows(int nv, real *dr, const struct norm_grads *g, const real *dout, const real *carry, const real *xhat,
                          const real *rstd, const real *w, int type, int n)
{
    vec dw[8], db[8], sum[8];
    _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) dw[u] = db[u] = sum[u] = (vec){ 0 };
    for (int i = 0; i < n; i++, dr += nv * W, dout += nv * W, xhat += nv * W, carry = carry ? carry + nv * W : carry) {
        vec s1 = { 0 }, s2 = { 0 }, go[8], h[8], m1 = { 0 };
        _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
            vec o = load(dout + u * W);
            h[u] = load(xhat + u * W), go[u] = o * load(w + u * W);
            s1 += go[u], s2 += go[u] * h[u];
            db[u] += o, dw[u] += o * h[u];
        }
        if (type == KERN_LAYERNORM) m1 += lane_sum(s1) / (real)(nv * W);
        real m2 = lane_sum(s2) / (real)(nv * W);
        _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
            vec r = rstd[i] * (go[u] - m1 - h[u] * m2);
            if (carry) r += load(carry + u * W);
            sum[u] += r;
            store(dr + u * W, r);
        }
    }
    _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
        store(g->dw + u * W, load(g->dw + u * W) + dw[u]);
        if (g->db) store(g->db + u * W, load(g->db + u * W) + db[u]);
        if (g->dr_sum) store(g->dr_sum + u * W, load(g->dr_sum + u * W) + sum[u]);
    }
}

static void norm_bwd(real *dr, real *restrict dw, real *restrict db, real *restrict dr_sum, const real *dout, const real *carry,
                     const real *xhat, const real *rstd, const real *w, int type, int n, int d)
{
    struct norm_grads g = { dw, db, dr_sum };
    if (d == 4 * W) { norm_bwd_rows(4, dr, &g, dout, carry, xhat, rstd, w, type, n); return; }
    if (d == 8 * W) { norm_bwd_rows(8, dr, &g, dout, carry, xhat, rstd, w, type, n); return; }
    for (int i = 0; i < n; i++, dr += d, dout += d, xhat += d, carry = carry ? carry + d : carry) {
        vec s1 = { 0 }, s2 = { 0 };
        int c = 0;
        for (; c + W <= d; c += W) {
            vec o = load(dout + c), h = load(xhat + c), g = o * load(w + c);
            s1 += g;
            s2 += g * h;
            store(dw + c, load(dw + c) + o * h);
            if (db) store(db + c, load(db + c) + o);
        }
        real total = lane_sum(s1), dot = lane_sum(s2);
        for (; c < d; c++) {
            real g = dout[c] * w[c];
            total += g;
            dot += g * xhat[c];
            dw[c] += dout[c] * xhat[c];
            if (db) db[c] += dout[c];
        }
        real m1 = type == KERN_LAYERNORM ? total / d : 0, m2 = dot / d, s = rstd[i];
        if (carry) for (c = 0; c < d; c++) dr[c] = carry[c] + s * (dout[c] * w[c] - m1 - xhat[c] * m2);
        else for (c = 0; c < d; c++) dr[c] = s * (dout[c] * w[c] - m1 - xhat[c] * m2);
        if (dr_sum) for (c = 0; c < d; c++) dr_sum[c] += dr[c];
    }
}

/* ---- activations ---- */

#define SQRT_HALF ((real)0.70710678118654752440)
#define INV_SQRT_2PI ((real)0.39894228040143267794)

INLINE vec gelu(vec x) { return (real)0.5 * x * (1 + vec_erf(x * SQRT_HALF)); }
INLINE vec gelu_slope(vec x)         /* Phi(x) + x phi(x) */
{
    return (real)0.5 * (1 + vec_erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * exp_v((real)-0.5 * x * x);
}

/* The first n lanes of p: loaded, others `rest`; stored, others untouched. */
#if VB == 64 && !defined(LAB_REAL_DOUBLE)
INLINE __mmask16 first_lanes(int n) { return (__mmask16)(n >= W ? 0xffff : (1 << n) - 1); }
INLINE vec load_or(const real *p, int n, real rest) { return (vec)_mm512_mask_loadu_ps((__m512)((vec){ 0 } + rest), first_lanes(n), p); }
INLINE void store_some(real *p, vec x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)x); }
#else
INLINE vec load_or(const real *p, int n, real rest)
{
    vec x = (vec){ 0 } + rest;
    if (n >= W) return load(p);
    for (int l = 0; l < n; l++) x[l] = p[l];
    return x;
}
INLINE void store_some(real *p, vec x, int n)
{
    if (n >= W) { store(p, x); return; }
    for (int l = 0; l < n; l++) p[l] = x[l];
}
#endif
INLINE mask lane_numbers(void)
{
    mask lane;
    for (int l = 0; l < W; l++) lane[l] = l;
    return lane;
}
INLINE pmask pad_lanes(void)
{
    pmask lane;
    for (int l = 0; l < PAD; l++) lane[l] = l;
    return lane;
}
INLINE vec load_some(const real *p, int n) { return load_or(p, n, 0); }

static void act_fwd(real *out, real *pre, const real *bias, int type, int n, int f)
{
    int wide = type == KERN_SWIGLU ? 2 * f : f;
    for (int i = 0; i < n; i++, out += f, pre += wide) {
        if (type == KERN_RELU) {
            for (int c = 0; c < f; c++) { real x = pre[c] + bias[c]; out[c] = x > 0 ? x : 0; }
            continue;
        }
        for (int c = 0; c < wide; c++) pre[c] += bias[c];
        for (int c = 0; c < f; c += W) {
            vec x = load_some(pre + c, f - c);
            store_some(out + c, type == KERN_GELU ? gelu(x) : x * sigmoid(x) * load_some(pre + f + c, f - c), f - c);
        }
    }
}

static void act_bwd(real *dpre, real *dbias, const real *dout, const real *act, int type, int n, int f)
{
    int wide = type == KERN_SWIGLU ? 2 * f : f;
    for (int i = 0; i < n; i++, dout += f, dpre += wide, act += wide) {
        if (type == KERN_RELU)
            for (int c = 0; c < f; c++) dpre[c] = act[c] > 0 ? dout[c] : 0;
        else for (int c = 0; c < f; c += W) {
            vec g = load_some(dout + c, f - c), x = load_some(act + c, f - c);
            if (type == KERN_GELU) { store_some(dpre + c, g * gelu_slope(x), f - c); continue; }
            vec value = load_some(act + f + c, f - c), s = sigmoid(x);
            store_some(dpre + c, g * value * s * (1 + x * (1 - s)), f - c);     /* silu' = s (1 + x (1 - s)) */
            store_some(dpre + f + c, g * x * s, f - c);
        }
        for (int c = 0; c < wide; c++) dbias[c] += dpre[c];
    }
}

/* ---- products ----
 * c [m,n] (+)= a [m,k] b [k,n]; a's elements are am apart by row and ak by column, so a transposed a costs
 * nothing; b and c are row-major.  mr x nv vectors of c stay in registers. */

#define SMALL_TILE(suffix, V, VU, L)                                                                                  \
INLINE void tile##suffix(int mr, int nv, const real *a, long am, long ak, const real *b, long ldb, real *c, long ldc, \
                         int n, int k, int add)                                                                       \
{                                                                                                                     \
    V acc[16][2];                                                                                                     \
    _Pragma("GCC unroll 16") for (int i = 0; i < mr; i++)                                                             \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) {                                                        \
            acc[i][j] = (V){ 0 };                                                                                     \
            __builtin_prefetch(c + i * ldc + j * L, 1);          /* often far away, and not needed before the end */      \
        }                                                                                                             \
    for (int p = 0; p < k; p++, a += ak, b += ldb) {                                                                  \
        V bv[2];                                                                                                      \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) bv[j] = *(const VU *)(b + j * L);                        \
        _Pragma("GCC unroll 16") for (int i = 0; i < mr; i++)                                                         \
            _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) acc[i][j] += a[i * am] * bv[j];                      \
    }                                                                                                                 \
    _Pragma("GCC unroll 16") for (int i = 0; i < mr; i++, c += ldc)                                                   \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) {                                                        \
            real *out = c + j * L;                                                                                    \
            int left = n - j * L;                                                                                     \
            if (left >= L) { V x = acc[i][j]; if (add) x += *(VU *)out; *(VU *)out = x; }                                    \
            else {                               /* through an array of its own: indexed, acc would live in memory instead of registers */ \
                real part[L];                                                                                         \
                *(VU *)part = acc[i][j];                                                                              \
                for (int l = 0; l < left; l++) out[l] = add ? out[l] + part[l] : part[l];                             \
            }                                                                                                         \
        }                                                                                                             \
}                                                                                                                     \
INLINE void panel##suffix(int nv, int tall, int m, int n, int k, const real *a, long am, long ak, const real *b,      \
                          long ldb, real *c, long ldc, int add)                                                       \
{                                                                                                                     \
    int i = 0;                                                                                                        \
    for (; tall && i + 16 <= m; i += 16)                                                                              \
        tile##suffix(16, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);                                \
    for (; i + 8 <= m; i += 8) tile##suffix(8, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);          \
    for (; i + 4 <= m; i += 4) tile##suffix(4, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);          \
    for (; i < m; i++) tile##suffix(1, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);                  \
}

SMALL_TILE(_v, vec, vecu, W)
#if HALF
SMALL_TILE(_h, hvec, hvecu, (W / 2))
#endif

#if VB == 64
/* The same by panels of two vectors of b's columns, `panel` elements apart (2 W: b is plain row-major).  tall: a's strides are
 * constants, so 16 rows need no registers for their addresses, and hide the latency where one vector alone is wide. */
INLINE void panels(int tall, int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, long panel, real *c, long ldc, int add)
{
    for (int j = 0; j < n; j += 2 * W, b += panel, c += 2 * W) {
        int left = n - j;
        if (left > W) panel_v(2, 0, m, left, k, a, am, ak, b, ldb, c, ldc, add);
        else if (left <= W / 2) panel_h(1, tall, m, left, k, a, am, ak, b, ldb, c, ldc, add);
        else panel_v(1, tall, m, left, k, a, am, ak, b, ldb, c, ldc, add);
    }
}
static void product(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, long panel, real *c, long ldc, int add)
{
    panels(0, m, n, k, a, am, ak, b, ldb, panel, c, ldc, add);
}
#define SMALL(m, n, k, a, am, ak, b, ldb, c, ldc, add) panels(1, m, n, k, a, am, ak, b, ldb, 2 * W, c, ldc, add)
#else
INLINE void small_panels(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, real *c, long ldc, int add)
{
    for (int j = 0; j < n; j += W) panel_v(1, 0, m, n - j, k, a, am, ak, b + j, ldb, c + j, ldc, add);     /* 16 registers: one vector wide */
}
#define SMALL small_panels
#endif

/* ---- transposing ---- */

#if LANES >= 8
/* Blocks of S lanes off the diagonal change places between rows i and i + S of N: with S = N/2 ... 1 a transposition of N x N. */
#define SWAP(N, S, ...) _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (!(i & S)) {                  \
        vec a = r[i], b = r[i + S];                                                                           \
        r[i] = __builtin_shufflevector(a, b, __VA_ARGS__);                                                    \
        r[i + S] = __builtin_shufflevector(a, b, SWAP_HIGH_##S); }
#endif
#if LANES == 16
#define SWAP_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define SWAP_HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define SWAP_HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define SWAP_HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define SWAPS_BELOW_8(N)                                                                                      \
    SWAP(N, 4, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)                                      \
    SWAP(N, 2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)                                      \
    SWAP(N, 1, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)

INLINE void transpose_16x16(real *out, long ldo, const real *x, long ldx, real scale)
{
    vec r[16];
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) r[i] = load(x + i * ldx) * scale;
    SWAP(16, 8, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
    SWAPS_BELOW_8(16)
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) store(out + i * ldo, r[i]);
}
/* rows (16 or 8) of 8 columns: rows i and i + 8 share a register, whose halves are transposed side by side. */
INLINE void transpose_by_8(int rows, real *out, long ldo, const real *x, long ldx, real scale)
{
    vec r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
        r[i] = __builtin_shufflevector(*(const hvecu *)(x + i * ldx), *(const hvecu *)(x + (i + rows - 8) * ldx),
                                       0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) * scale;
    SWAPS_BELOW_8(8)
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
        if (rows == 16) store(out + i * ldo, r[i]);
        else *(hvecu *)(out + i * ldo) = __builtin_shufflevector(r[i], r[i], 0, 1, 2, 3, 4, 5, 6, 7);
    }
}
/* 8 rows of 16 columns: the halves become columns i and i + 8. */
INLINE void transpose_8x16(real *out, long ldo, const real *x, long ldx, real scale)
{
    vec r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) r[i] = load(x + i * ldx) * scale;
    SWAPS_BELOW_8(8)
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
        *(hvecu *)(out + i * ldo) = __builtin_shufflevector(r[i], r[i], 0, 1, 2, 3, 4, 5, 6, 7);
        *(hvecu *)(out + (i + 8) * ldo) = __builtin_shufflevector(r[i], r[i], 8, 9, 10, 11, 12, 13, 14, 15);
    }
}
#elif LANES == 8
#define SWAP_HIGH_4 4, 5, 6, 7, 12, 13, 14, 15
#define SWAP_HIGH_2 2, 3, 10, 11, 6, 7, 14, 15
#define SWAP_HIGH_1 1, 9, 3, 11, 5, 13, 7, 15
INLINE void transpose_8x8(real *out, long ldo, const real *x, long ldx, real scale)
{
    vec r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) r[i] = load(x + i * ldx) * scale;
    SWAP(8, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    SWAP(8, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    SWAP(8, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) store(out + i * ldo, r[i]);
}
#endif

/* out [cols][ldo] = scale * x [rows][ldx] transposed */
INLINE void transpose_plain(real *restrict out, long ldo, const real *restrict x, long ldx, int rows, int cols, real scale)
{
    int r = 0;
#if LANES == 16
    for (; r + 8 <= rows; r += r + 16 <= rows ? 16 : 8) {
        int c = 0, high = r + 16 <= rows ? 16 : 8;
        for (; c + 16 <= cols; c += 16) {
            if (high == 16) transpose_16x16(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
            else transpose_8x16(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
        }
        for (; c + 8 <= cols; c += 8) {
            if (high == 16) transpose_by_8(16, out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
            else transpose_by_8(8, out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
        }
        for (; c < cols; c++) for (int i = r; i < r + high; i++) out[c * ldo + i] = x[i * ldx + c] * scale;
    }
#elif LANES == 8
    for (; r + 8 <= rows; r += 8) {
        int c = 0;
        for (; c + 8 <= cols; c += 8) transpose_8x8(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
        for (; c < cols; c++) for (int i = r; i < r + 8; i++) out[c * ldo + i] = x[i * ldx + c] * scale;
    }
#endif
    for (; r < rows; r++)
        for (int c = 0; c < cols; c++) out[c * ldo + r] = x[r * ldx + c] * scale;
}

#if VB == 64
static void pack(real *packed, const real *w, int out, int in)
{
    for (int first = 0; first < out; first += KERN_PANEL, packed += (long)in * KERN_PANEL) {
        int rows = out - first < KERN_PANEL ? out - first : KERN_PANEL;
        transpose_plain(packed, KERN_PANEL, w + (long)first * in, in, rows, in, 1);
        for (int c = 0; c < in && rows < KERN_PANEL; c++) memset(packed + (long)c * KERN_PANEL + rows, 0, (size_t)(KERN_PANEL - rows) * sizeof *packed);
    }
}
#endif

/* ---- the products around a ReLU ----
 * Half of what it returns is 0, and so is half of the gradient behind it.  Those places are passed over; the sums are the same.
 * A row of the result takes eight registers, for 64 places of a row of a at a time, and asks for those rows of b that meet a place
 * which is not 0: a block of b, 64 x WIDE, stays in the first cache for all rows of a.  Where half of a is 0 this takes .7 of the
 * dense product's time at the peak, the ReLU included; where nothing is, 1.3. */

#ifdef __AVX2__
enum { PLACES = 64,                  /* a word of bits */
       WIDE = 8 * PAD,               /* columns of the result at a time; two loads of half a register cost less than one of a whole */
       STRIP = 16 };                 /* rows of a that are made before they are used: what was just stored is slow to read in pieces */
_Static_assert(KERN_SPARSE % PLACES == 0 && KERN_SPARSE % WIDE == 0, "whole words of places, whole rows of registers");

INLINE uint64_t set_lanes(vec x)     /* bit l: lane l is not 0 */
{
#if VB == 64 && defined(LAB_REAL_DOUBLE)
    return _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
#elif VB == 64
    return _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
#elif defined(LAB_REAL_DOUBLE)
    return (uint64_t)_mm256_movemask_pd((__m256d)(x != 0));
#else
    return (uint64_t)_mm256_movemask_ps((__m256)(x != 0));
#endif
}

/* c (+)= sum over the places p of a[p] block_p */
INLINE void sparse_row(real *c, int add, const real *a, uint64_t places, const real *block)
{
    pvec acc[8];
    _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) {
        acc[u] = (pvec){ 0 };
        if (add) acc[u] = *(const pvecu *)(c + u * PAD);
    }
    for (; places; places &= places - 1) {
        long p = __builtin_ctzll(places);
        _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) acc[u] += a[p] * *(const pvec *)(block + p * WIDE + u * PAD);
    }
    _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) *(pvecu *)(c + u * PAD) = acc[u];
}
/* Rows of b, ldb apart, one after another. */
INLINE void copy_block(real *restrict block, const real *restrict b, long ldb, int rows)
{
    for (int p = 0; p < rows; p++)
        _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) *(pvec *)(block + p * WIDE + u * PAD) = *(const pvecu *)(b + p * ldb + u * PAD);
}

/* Places p to p + 64 of a strip of rows of x [m,f], as bits.  RELU: x = max(x + bias, 0) first; MASK: x = 0 where h is, first, and
 * sum += it. */
enum { READ, RELU, MASK };
INLINE void strip(int how, uint64_t *places, real *x, const real *bias, const real *h, vec *sum, int rows, int f)
{
    for (int r = 0; r < rows; r++, x += f, h += f) {
        places[r] = 0;
        _Pragma("GCC unroll 16") for (int u = 0; u < PLACES; u += W) {
            vec v = load(x + u);
            if (how == RELU) v += load(bias + u), v = (vec)((v > 0) & (mask)v);
            if (how == MASK) v = (vec)((load(h + u) > 0) & (mask)v), sum[u / W] += v;
            if (how != READ) store(x + u, v);
            places[r] |= set_lanes(v) << u;
        }
    }
}

static void relu_fwd(real *y, real *h, const real *bias, const real *wt, int m, int n, int f)
{
    real block[PLACES * WIDE] __attribute__((aligned(64)));
    uint64_t places[STRIP];
    for (int j = 0; j < n; j += WIDE)
        for (int p = 0; p < f; p += PLACES) {
            copy_block(block, wt + (long)p * n + j, n, PLACES);
            for (int i = 0; i < m; i += STRIP) {
                int rows = m - i < STRIP ? m - i : STRIP;
                real *x = h + (long)i * f + p;
                if (j == 0) strip(RELU, places, x, bias + p, x, NULL, rows, f);
                else strip(READ, places, x, NULL, x, NULL, rows, f);
                for (int r = 0; r < rows; r++) sparse_row(y + (long)(i + r) * n + j, p > 0, x + (long)r * f, places[r], block);
            }
        }
}

static void relu_bwd(real *dx, int add, real *dh, real *dbias, const real *h, const real *w, int m, int n, int f)
{
    real block[PLACES * WIDE] __attribute__((aligned(64)));
    uint64_t places[STRIP];
    for (int j = 0; j < n; j += WIDE)
        for (int p = 0; p < f; p += PLACES) {
            vec sum[PLACES / W] = { { 0 } };
            copy_block(block, w + (long)p * n + j, n, PLACES);
            for (int i = 0; i < m; i += STRIP) {
                int rows = m - i < STRIP ? m - i : STRIP;
                real *x = dh + (long)i * f + p;
                if (j == 0) strip(MASK, places, x, NULL, h + (long)i * f + p, sum, rows, f);
                else strip(READ, places, x, NULL, x, NULL, rows, f);
                for (int r = 0; r < rows; r++) sparse_row(dx + (long)(i + r) * n + j, add || p > 0, x + (long)r * f, places[r], block);
            }
            for (int u = 0; u < PLACES && j == 0; u += W) store(dbias + p + u, load(dbias + p + u) + sum[u / W]);
        }
}

/* A column of h is a row of its transpose, whose places are rows of y. */
static void relu_dw(real *dw, const real *h, const real *y, int m, int n, int f)
{
    enum { UNITS = 32 };
    real t[UNITS * PLACES] __attribute__((aligned(64))) = { 0 }, block[PLACES * WIDE] __attribute__((aligned(64)));
    uint64_t places[UNITS];
    for (int i = 0; i < m; i += PLACES) {
        int rows = m - i < PLACES ? m - i : PLACES;
        uint64_t here = rows < PLACES ? ((uint64_t)1 << rows) - 1 : ~(uint64_t)0;
        for (int j = 0; j < n; j += WIDE) {
            copy_block(block, y + (long)i * n + j, n, rows);
            for (int p = 0; p < f; p += UNITS) {
                transpose_plain(t, PLACES, h + (long)i * f + p, f, rows, UNITS, 1);
                strip(READ, places, t, NULL, t, NULL, UNITS, PLACES);
                for (int u = 0; u < UNITS; u++) sparse_row(dw + (long)(p + u) * n + j, 1, t + u * PLACES, places[u] & here, block);
            }
        }
    }
}

static void transpose_whole(real *out, const real *x, int rows, int cols) { transpose_plain(out, rows, x, cols, rows, cols, 1); }
#endif

/* ---- attention ----
 * A query is a lane: scores are kept as s [key][query], queries and outputs as x [coordinate][query], so neither the softmax over
 * keys nor the products over keys need a sum across lanes.  Rows are LD apart, a constant of each copy of these functions, so that
 * addresses cost nothing.  The exponentials are not divided by their sum: the outputs are, and in the backward pass their gradients. */

#define GROUP (VB == 64 ? 16 : 8)    /* coordinates of a head at a time: as many registers as there are to spare */

enum { LARGEST, WEIGHTED };          /* what dots collects over keys: the largest s, or the sum of kept s */

#define COLUMNS(suffix, V, VU)                                                                                                \
/* s_j (+)= sum over c < n of x_c y_j[c] for one block of queries; n, LD and collect are constants.  On the way, the next      \
 * sequence's y are sent for, and the same place of the next head's kept weights. */                                          \
INLINE V dots_group##suffix(int n, int LD, int collect, real *s, int add, const real *x, const real *y, long ldy, int tk,     \
                            const real *kept)                                                                                 \
{                                                                                                                             \
    V xv[GROUP], collected = (V){ 0 } + (collect == LARGEST ? 10 * MASKED : 0);                                               \
    _Pragma("GCC unroll 16") for (int c = 0; c < n; c++) xv[c] = *(const VU *)(x + c * LD);                                   \
    for (int j = 0; j < tk; j++, s += LD, y += ldy, kept += LD) {                                                             \
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
INLINE V dots##suffix(int LD, int collect, real *s, int add, const real *x, const real *y, long ldy, int tk, int dh,          \
                      const real *kept)                                                                                       \
{                                                                                                                             \
    V collected = { 0 };                                                                                                      \
    int c = 0;                                                                                                                \
    for (; c + GROUP <= dh; c += GROUP, add = 1)                                                                              \
        collected = dots_group##suffix(GROUP, LD, collect, s, add, x + c * LD, y + c, ldy, tk, kept);                         \
    for (; c + 8 <= dh; c += 8, add = 1)                                                                                      \
        collected = dots_group##suffix(8, LD, collect, s, add, x + c * LD, y + c, ldy, tk, kept);                             \
    for (; c < dh; c++, add = 1)                                                                                              \
        collected = dots_group##suffix(1, LD, collect, s, add, x + c * LD, y + c, ldy, tk, kept);                             \
    return collected;                                                                                                         \
}                                                                                                                             \
/* s = exp(s - largest); returns the sum over keys. */                                                                        \
INLINE V exp_columns##suffix(int LD, real *s, int tk, V largest)                                                              \
{                                                                                                                             \
    V sum = { 0 };                                                                                                            \
    for (int j = 0; j < tk; j++, s += LD) {                                                                                   \
        V e = exp##suffix(*(VU *)s - largest);                                                                                \
        *(VU *)s = e;                                                                                                         \
        sum += e;                                                                                                             \
    }                                                                                                                         \
    return sum;                                                                                                               \
}                                                                                                                             \
/* Scores of a block become exponentials; their largest logit and their sum. */                                               \
INLINE void exp_block##suffix(int LD, real *s, int prepared, const real *qt, const struct kern_attn *a, real *max, real *sum) \
{                                                                                                                             \
    V largest = dots##suffix(LD, LARGEST, s, prepared, qt, a->k, a->ldk, a->tk, a->dh, s);                                             \
    *(VU *)max = largest;                                                                                                     \
    *(VU *)sum = exp_columns##suffix(LD, s, a->tk, largest);                                                                  \
}                                                                                                                             \
/* The same from what the forward pass has kept: p = exp(s - lse). */                                                         \
INLINE void again_block##suffix(int LD, real *s, int prepared, const real *qt, const struct kern_attn *a, const real *lse)    \
{                                                                                                                             \
    dots##suffix(LD, LARGEST, s, prepared, qt, a->k, a->ldk, a->tk, a->dh, s);                                                \
    exp_columns##suffix(LD, s, a->tk, *(const VU *)lse);                                                                      \
}                                                                                                                             \
INLINE void dp_block##suffix(int LD, real *dp, const real *gt, const real *p, const struct kern_attn *a, real *delta)         \
{                                                                                                                             \
    *(VU *)delta = dots##suffix(LD, WEIGHTED, dp, 0, gt, a->v, a->ldv, a->tk, a->dh, p);                                      \
}                                                                                                                             \
/* out_c = factor times the sum over keys of s_j y_j[c], for n coordinates of nb blocks of queries side by side; n, nb and LD  \
 * are constants.  p: s is dP; it becomes scale dS first, dS = P (dP - delta), and dbias += dS.  On the way, the next         \
 * sequence's y are sent for. */                                                                                              \
INLINE void mix_group##suffix(int nb, int n, int LD, real *out, real *s, const real *y, long ldy, int tk, const real *factor, \
                              const real *p, const real *delta, real *dbias, real scale)                                      \
{                                                                                                                             \
    enum { L = sizeof(V) / sizeof(real) };                                                                                    \
    V acc[2][GROUP] = { { { 0 } } };                                                                                              \
    for (int j = 0; j < tk; j++, s += LD, y += ldy) {                                                                         \
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
INLINE void mix_block##suffix(int nb, int LD, real *out, real *s, const struct kern_attn *a, const real *factor)              \
{                                                                                                                             \
    int c = 0;                                                                                                                \
    for (; nb == 1 && c + GROUP <= a->dh; c += GROUP)                                                                         \
        mix_group##suffix(nb, GROUP, LD, out + c * LD, s, a->v + c, a->ldv, a->tk, factor, NULL, NULL, NULL, 1);              \
    for (; c + 8 <= a->dh; c += 8) mix_group##suffix(nb, 8, LD, out + c * LD, s, a->v + c, a->ldv, a->tk, factor, NULL, NULL, NULL, 1); \
    for (; c < a->dh; c++) mix_group##suffix(nb, 1, LD, out + c * LD, s, a->v + c, a->ldv, a->tk, factor, NULL, NULL, NULL, 1); \
}                                                                                                                             \
INLINE void slope_block##suffix(int nb, int LD, real *dq, real *dp, const struct kern_attn *a, const real *p,                 \
                                const real *delta, real *dbias)                                                               \
{                                                                                                                             \
    int c = 0;                                                                                                                \
    for (; nb == 1 && c + GROUP <= a->dh; c += GROUP, p = NULL)                                                               \
        mix_group##suffix(nb, GROUP, LD, dq + c * LD, dp, a->k + c, a->ldk, a->tk, NULL, p, delta, dbias, a->scale);          \
    for (; c + 8 <= a->dh; c += 8, p = NULL)                                                                                  \
        mix_group##suffix(nb, 8, LD, dq + c * LD, dp, a->k + c, a->ldk, a->tk, NULL, p, delta, dbias, a->scale);              \
    for (; c < a->dh; c++, p = NULL)                                                                                          \
        mix_group##suffix(nb, 1, LD, dq + c * LD, dp, a->k + c, a->ldk, a->tk, NULL, p, delta, dbias, a->scale);              \
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

/* c [m,n] (+)= s b over k queries, once for each distance between rows of s */
#define PRODUCTS(LD)                                                                                                   \
static void over_queries_##LD(int m, int n, int k, const real *s, const real *b, long ldb, real *c, long ldc, int add) \
{                                                                                                                      \
    SMALL(m, n, k, s, LD, 1, b, ldb, c, ldc, add);                                                                     \
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
    BY_COLUMNS(width, exp_block, LD, s + i, prepared, r.t + i, a, largest + i, inverse + i);
    for (int i = 0; i < width; i++) inverse[i] = 1 / inverse[i];
    s = drop_weights(LD, r.dropped, s, a);
    BY_TWO(width, mix_block, LD, r.t + i, s + i, a, inverse + i);
    to_rows(LD, out, ldo, r.t, a, 0, NULL);
}
static void attn_fwd(real *out, long ldo, real *weights, const struct kern_attn *a)
{
    WITH_LD(a->tq, fwd, out, ldo, weights, a);
}

static void attn_step(real *max, real *sum, real *acc, int first, const struct kern_attn *a)
{
    enum { LD = KERN_TILE };
    struct attn_scratch r = scratch_of(a);
    real *tile_max = r.row[0], *tile_sum = r.row[1], *keep = r.row[2], *gain = r.row[3];
    int width = padded(a->tq), prepared = prepare(LD, r.s, a);
    transpose(LD, r.t, a->q, a->ldq, a->tq, a->dh, a->scale);
    BY_COLUMNS(width, exp_block, LD, r.s + i, prepared, r.t + i, a, tile_max + i, tile_sum + i);
    for (int i = 0; i < a->tq; i++) {
        real before = first ? MASKED : max[i], now = before > tile_max[i] ? before : tile_max[i];
        keep[i] = first ? 0 : (real)exp(before - now), gain[i] = (real)exp(tile_max[i] - now);
        max[i] = now;
        sum[i] = (first ? 0 : sum[i] * keep[i]) + tile_sum[i] * gain[i];
        for (int c = 0; c < a->dh; c++) acc[i * a->dh + c] = first ? 0 : acc[i * a->dh + c] * keep[i];
    }
    for (int i = a->tq; i < width; i++) gain[i] = 0;
    drop_weights(LD, r.s, r.s, a);
    BY_TWO(width, mix_block, LD, r.t + i, r.s + i, a, gain + i);
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
        BY_COLUMNS(width, again_block, LD, r.s + i, prepared, r.t + i, a, lse + i);
        p = r.s;
    }
    BY_COLUMNS(width, dp_block, LD, r.dp + i, r.gt + i, p + i, a, delta + i);
    if (a->whole && !(a->drop.p > 0)) BY_COLUMNS(width, scale_block, LD, delta + i, 1, inverse + i);
    else {
        transpose(LD, r.t, out, ldo, tq, dh, 1);
        BY_COLUMNS(width, dot_block, LD, delta + i, r.gt + i, r.t + i, dh);
    }
    OVER_QUERIES(tk, dh, tq, drop_weights(LD, r.dropped, p, a), g, ldg, dv, a->ldv, a->add_kv);
    drop_weights(LD, r.dp, r.dp, a);
    BY_TWO(width, slope_block, LD, r.t + i, r.dp + i, a, p + i, delta + i, dbias ? dbias + i : NULL);
    to_rows(LD, dq, a->ldq, r.t, a, a->add_q, r.rows);
    OVER_QUERIES(tk, dh, tq, r.dp, a->q, a->ldq, dk, a->ldk, a->add_kv);
}
static void attn_bwd(real *dq, real *dk, real *dv, real *dbias, const real *out, const real *dout, long ldo, const real *kept,
                     const struct kern_attn *a)
{
    WITH_LD(a->tq, bwd, dq, dk, dv, dbias, out, dout, ldo, kept, a);
}

/* ---- the general path's softmax, by rows ---- */

static void scale(real *restrict x, real factor, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

static void softmax_rows(real *s, int n, int t, long ld)
{
    int whole = t / W * W, left = t - whole;
    for (int i = 0; i < n; i++, s += ld) {
        vec m = left ? load_or(s + whole, left, 2 * MASKED) : load(s), sum = { 0 };
        for (int j = 0; j < whole; j += W) m = max_v(m, load(s + j));
        real most = lane_max(m);
        for (int j = 0; j < whole; j += W) {
            vec e = exp_v(load(s + j) - most);
            store(s + j, e);
            sum += e;
        }
        vec e = left ? exp_v(load_or(s + whole, left, 2 * MASKED) - most) : (vec){ 0 };
        real inverse = 1 / lane_sum(sum + e);
        for (int j = 0; j < whole; j += W) store(s + j, load(s + j) * inverse);
        store_some(s + whole, e * inverse, left);
    }
}

static void softmax_rows_bwd(real *dp, const real *p, int n, int t, long ld)
{
    for (int i = 0; i < n; i++, dp += ld, p += ld) {
        real dot = 0;
        for (int j = 0; j < t; j++) dot += p[j] * dp[j];
        for (int j = 0; j < t; j++) dp[j] = p[j] * (dp[j] - dot);
    }
}

/* ---- loss ---- */

static double xent(real *dlogits, const real *logits, const int32_t *target, const float *weight, double grad_scale, int n, int V)
{
    double loss = 0, sums = 1;       /* a logarithm costs half a row: one is taken of the product of a few rows' sums */
    for (int i = 0; i < n; i++, logits += V, dlogits = dlogits ? dlogits + V : dlogits) {
        if (target[i] < 0) {
            if (dlogits) memset(dlogits, 0, (size_t)V * sizeof *dlogits);
            continue;
        }
        real at_target = logits[target[i]], w = weight ? (real)weight[i] : 1;
        vec most = (vec){ 0 } + 10 * MASKED, s = { 0 }, e = { 0 };
        for (int c = 0; c < V; c += W) most = max_v(most, load_or(logits + c, V - c, 10 * MASKED));
        real m = lane_max(most);
        for (int c = 0; c < V; c += W) {
            e = exp_v(load_or(logits + c, V - c, 10 * MASKED) - m);
            if (dlogits && V > W) store_some(dlogits + c, e, V - c);
            s += e;
        }
        real sum = lane_sum(s), g = (real)grad_scale * w;
        loss += (double)w * ((double)m - (double)at_target);
        if (w != 1) loss += (double)w * log((double)sum);
        else if ((sums *= (double)sum) > 1e100) loss += log(sums), sums = 1;
        if (!dlogits) continue;
        for (int c = 0; c < V; c += W) {
            if (V > W) e = load_some(dlogits + c, V - c);
            mask here = lane_numbers() == (bits)(target[i] - c);
            store_some(dlogits + c, e * (g / sum) - (vec)(here & (mask)((vec){ 0 } + g)), V - c);
        }
    }
    return loss + log(sums);
}

/* ---- optimiser ---- */

static double sum_squares(const real *x, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i += 4096) {           /* single precision within a block, double between blocks */
        size_t end = i + 4096 < n ? i + 4096 : n, j = i;
        vec s = { 0 };
        for (; j + W <= end; j += W) s += load(x + j) * load(x + j);
        total += (double)lane_sum(s);
        for (; j < end; j++) total += (double)x[j] * (double)x[j];
    }
    return total;
}

static void adamw(real *restrict w, real *restrict m, real *restrict v, const real *restrict g, size_t n, double grad_scale, double lr,
                  double beta1, double beta2, double eps, double decay, double c1, double c2)
{
    real scale = (real)grad_scale, b1 = (real)beta1, a1 = (real)(1 - beta1), b2 = (real)beta2, a2 = (real)(1 - beta2), shrink = (real)(1 - lr * decay);
    real step = (real)(lr / c1), inverse_root_c2 = (real)(1 / sqrt(c2)), e = (real)eps;
    for (size_t i = 0; i < n; i++) {
        real gi = g[i] * scale, mi = b1 * m[i] + a1 * gi, vi = b2 * v[i] + a2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
#ifdef LAB_REAL_DOUBLE
        w[i] = w[i] * shrink - step * mi / (sqrt(vi) * inverse_root_c2 + e);
#else
        w[i] = w[i] * shrink - step * mi / (sqrtf(vi) * inverse_root_c2 + e);
#endif
    }
}

const struct kern PASTE(kern_, KERN_ISA) = {
    .isa = NAME(KERN_ISA), .embed_fwd = embed_fwd, .embed_bwd = embed_bwd, .add_bias = add_bias, .column_sum = column_sum,
    .dropout = dropout, .norm_fwd = norm_fwd, .norm_bwd = norm_bwd, .act_fwd = act_fwd, .act_bwd = act_bwd, .attn_fwd = attn_fwd,
    .attn_step = attn_step, .attn_bwd = attn_bwd, .scale = scale, .softmax_rows = softmax_rows, .softmax_rows_bwd = softmax_rows_bwd, .xent = xent,
#if VB == 64
    .product = product, .pack = pack,
#endif
#if VB >= 32
    .relu_fwd = relu_fwd, .relu_bwd = relu_bwd, .relu_dw = relu_dw, .transpose = transpose_whole,
#endif
    .sum_squares = sum_squares, .adamw = adamw };
