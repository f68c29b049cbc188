/* kern -- see kern.h.  Compiled once for each instruction set with -DKERN_ISA=name; nothing here
 * chooses at run time.  Vectors are GCC's; exp, erf and log come from libmvec (four ulp or better).
 *
 * W lanes to a vector.  Where a second, half as wide vector pays (AVX-512 on short rows), the same
 * code is made for both by including it through a macro over the vector's type.
 */
#include "nn/kern.h"
#include <math.h>
#include <string.h>
#include "base/rng.h"

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
#define W ((int)(VB / sizeof(real)))
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
#endif

INLINE vec load(const real *p) { return *(const vecu *)p; }
INLINE void store(real *p, vec x) { *(vecu *)p = x; }
/* Sum of the lanes: halves are folded onto each other. */
INLINE real lane_sum(vec x)
{
    union { vec v; real lane[W]; } u = { x };
    for (int half = W / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) u.lane[i] += u.lane[i + half];
    return u.lane[0];
}

/* ---- exp, erf and log of a vector ---- */

#if defined(__x86_64__)
#define MVEC(letter, lanes, f) PASTE(PASTE(_ZGV, letter), PASTE(N, PASTE(lanes, PASTE(v_, f))))
#ifdef LAB_REAL_DOUBLE
#define LANES_64 8
#define LANES_32 4
#define LANES_16 2
#define EXP exp
#define ERF erf
#define LOG log
#else
#define LANES_64 16
#define LANES_32 8
#define LANES_16 4
#define EXP expf
#define ERF erff
#define LOG logf
#endif
#if VB == 64
#define VEC_EXP MVEC(e, LANES_64, EXP)
#define VEC_ERF MVEC(e, LANES_64, ERF)
#define VEC_LOG MVEC(e, LANES_64, LOG)
hvec MVEC(d, LANES_32, EXP)(hvec);
INLINE hvec raw_exp_h(hvec x) { return MVEC(d, LANES_32, EXP)(x); }
#elif VB == 32
#define VEC_EXP MVEC(d, LANES_32, EXP)
#define VEC_ERF MVEC(d, LANES_32, ERF)
#define VEC_LOG MVEC(d, LANES_32, LOG)
#else
#define VEC_EXP MVEC(b, LANES_16, EXP)
#define VEC_ERF MVEC(b, LANES_16, ERF)
#define VEC_LOG MVEC(b, LANES_16, LOG)
#endif
vec VEC_EXP(vec);
vec VEC_ERF(vec);
vec VEC_LOG(vec);
INLINE vec raw_exp_v(vec x) { return VEC_EXP(x); }
INLINE vec vec_erf(vec x) { return VEC_ERF(x); }
INLINE vec vec_log(vec x) { return VEC_LOG(x); }
#else
INLINE vec raw_exp_v(vec x) { for (int i = 0; i < W; i++) x[i] = (real)exp(x[i]); return x; }
INLINE vec vec_erf(vec x) { for (int i = 0; i < W; i++) x[i] = (real)erf(x[i]); return x; }
INLINE vec vec_log(vec x) { for (int i = 0; i < W; i++) x[i] = (real)log(x[i]); return x; }
#endif

#define EXP_LOW ((real)-87)          /* exp below this is nothing: exactly 0 here, and never a slow denormal */
#define MASKED  ((real)-1e30)        /* logit of a key that may not be seen; finite, so that no row makes nan */

/* C has no ?: for vectors: a where a > b, else b; and exp(x) for x <= 88. */
#define VEC_BASICS(suffix, V, M)                                                              \
INLINE V max##suffix(V a, V b) { M m = a > b; return (V)((m & (M)a) | (~m & (M)b)); }         \
INLINE V exp##suffix(V x)                                                                     \
{                                                                                             \
    V low = (V){ 0 } + EXP_LOW;                                                               \
    return (V)((x > low) & (M)raw_exp##suffix(max##suffix(x, low)));                          \
}

VEC_BASICS(_v, vec, mask)
#if HALF
VEC_BASICS(_h, hvec, hmask)
#endif

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

#define LANES 16                     /* Philox blocks computed side by side */

INLINE void philox_lanes(uint32_t word[4][LANES], const struct kern_dropout *o, uint32_t first_block)
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES], k0 = (uint32_t)o->seed, k1 = (uint32_t)(o->seed >> 32);
    for (int l = 0; l < LANES; l++) c0[l] = first_block + (uint32_t)l, c1[l] = o->place, c2[l] = o->step, c3[l] = RNG_DROPOUT;
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < LANES; l++) {
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
    uint32_t word[4][LANES], threshold = (uint32_t)(o->p * 0x1p32);
    real scale = (real)(1 / (1 - o->p));
    for (size_t i = 0; i < n; block += LANES) {
        philox_lanes(word, o, block);
        for (int l = 0; l < LANES && i < n; l++)
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
static void norm_bwd(real *dr, real *restrict dw, real *restrict db, real *restrict dr_sum, const real *dout, const real *carry,
                     const real *xhat, const real *rstd, const real *w, int type, int n, int d)
{
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

INLINE vec load_some(const real *p, int n)           /* the first n lanes, others 0 */
{
    vec x = { 0 };
    if (n >= W) return load(p);
    for (int l = 0; l < n; l++) x[l] = p[l];
    return x;
}
INLINE void store_some(real *p, vec x, int n)
{
    if (n >= W) { store(p, x); return; }
    for (int l = 0; l < n; l++) p[l] = x[l];
}

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

/* ---- small products for attention ----
 * c [m,n] (+)= a [m,k] b [k,n]; a's elements are am apart by row and ak by column, so a transposed a costs
 * nothing; b and c are row-major.  mr x nv vectors of c stay in registers. */

#define SMALL_TILE(suffix, V, VU, L)                                                                                  \
INLINE void tile##suffix(int mr, int nv, const real *a, long am, long ak, const real *b, long ldb, real *c, long ldc, \
                         int n, int k, int add)                                                                       \
{                                                                                                                     \
    V acc[8][2];                                                                                                      \
    _Pragma("GCC unroll 8") for (int i = 0; i < mr; i++)                                                              \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) acc[i][j] = (V){ 0 };                                    \
    for (int p = 0; p < k; p++, a += ak, b += ldb) {                                                                  \
        V bv[2];                                                                                                      \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) bv[j] = *(const VU *)(b + j * L);                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < mr; i++)                                                          \
            _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) acc[i][j] += a[i * am] * bv[j];                      \
    }                                                                                                                 \
    _Pragma("GCC unroll 8") for (int i = 0; i < mr; i++, c += ldc)                                                    \
        _Pragma("GCC unroll 2") for (int j = 0; j < nv; j++) {                                                        \
            real *out = c + j * L;                                                                                    \
            int left = n - j * L;                                                                                     \
            if (left >= L) { V x = acc[i][j]; if (add) x += *(VU *)out; *(VU *)out = x; }                                    \
            else for (int l = 0; l < left; l++) out[l] = add ? out[l] + acc[i][j][l] : acc[i][j][l];                  \
        }                                                                                                             \
}                                                                                                                     \
INLINE void panel##suffix(int nv, int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb,      \
                          real *c, long ldc, int add)                                                                 \
{                                                                                                                     \
    int i = 0;                                                                                                        \
    for (; i + 8 <= m; i += 8) tile##suffix(8, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);          \
    for (; i + 4 <= m; i += 4) tile##suffix(4, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);          \
    for (; i < m; i++) tile##suffix(1, nv, a + i * am, am, ak, b, ldb, c + i * ldc, ldc, n, k, add);                  \
}

SMALL_TILE(_v, vec, vecu, W)
#if HALF
SMALL_TILE(_h, hvec, hvecu, (W / 2))
#endif

#if VB == 64
/* The same by panels of two vectors of b's columns, `panel` elements apart (2 W: b is plain row-major). */
static void product(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, long panel, real *c, long ldc, int add)
{
    for (int j = 0; j < n; j += 2 * W, b += panel, c += 2 * W) {
        int left = n - j;
        if (left > W) panel_v(2, m, left, k, a, am, ak, b, ldb, c, ldc, add);
#if HALF
        else if (left <= W / 2) panel_h(1, m, left, k, a, am, ak, b, ldb, c, ldc, add);
#endif
        else panel_v(1, m, left, k, a, am, ak, b, ldb, c, ldc, add);
    }
}

static void small_gemm(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, real *c, long ldc, int add)
{
    product(m, n, k, a, am, ak, b, ldb, 2 * W, c, ldc, add);
}
#else
static void small_gemm(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, real *c, long ldc, int add)
{
    for (int j = 0; j < n; j += W) panel_v(1, m, n - j, k, a, am, ak, b + j, ldb, c + j, ldc, add);     /* 16 registers: one vector wide */
}
#endif

/* ---- transposing ---- */

#if VB == 64 && !defined(LAB_REAL_DOUBLE)
/* Blocks of S lanes off the diagonal change places between rows i and i + S of N: with S = N/2 ... 1 a transposition of N x N. */
#define SWAP(N, S, ...) _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (!(i & S)) {                  \
        vec a = r[i], b = r[i + S];                                                                           \
        r[i] = __builtin_shufflevector(a, b, __VA_ARGS__);                                                    \
        r[i + S] = __builtin_shufflevector(a, b, SWAP_HIGH_##S); }
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
/* 16 rows of 8 columns: rows i and i + 8 share a register, whose halves are transposed side by side. */
INLINE void transpose_16x8(real *out, long ldo, const real *x, long ldx, real scale)
{
    vec r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
        r[i] = __builtin_shufflevector(*(const hvecu *)(x + i * ldx), *(const hvecu *)(x + (i + 8) * ldx),
                                       0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) * scale;
    SWAPS_BELOW_8(8)
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) store(out + i * ldo, r[i]);
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
#endif

/* out [cols][ldo] = scale * x [rows][ldx] transposed */
INLINE void transpose_plain(real *restrict out, long ldo, const real *restrict x, long ldx, int rows, int cols, real scale)
{
    int r = 0;
#if VB == 64 && !defined(LAB_REAL_DOUBLE)
    for (; r + 8 <= rows; r += r + 16 <= rows ? 16 : 8) {
        int c = 0, high = r + 16 <= rows ? 16 : 8;
        for (; c + 16 <= cols; c += 16) {
            if (high == 16) transpose_16x16(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
            else transpose_8x16(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale);
        }
        if (high == 16 && c + 8 <= cols) transpose_16x8(out + c * ldo + r, ldo, x + r * ldx + c, ldx, scale), c += 8;
        for (; c < cols; c++) for (int i = r; i < r + high; i++) out[c * ldo + i] = x[i * ldx + c] * scale;
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

/* ---- attention ----
 * Scores are kept transposed, s [key][query], rows KERN_TILE apart: a query is a lane, so the softmax over
 * keys needs no sum across lanes. */

#define LD KERN_TILE
#define COLUMNS(suffix, V, VU)                                                                                   \
/* max over keys; s = exp(s - max); sum over keys */                                                                   \
INLINE void softmax_columns##suffix(real *s, int tk, real *max_out, real *sum_out)                                     \
{                                                                                                                      \
    V m = *(VU *)s, sum = { 0 };                                                                                       \
    for (int j = 1; j < tk; j++) m = max##suffix(m, *(VU *)(s + j * LD));                                     \
    for (int j = 0; j < tk; j++) { V e = exp##suffix(*(VU *)(s + j * LD) - m); *(VU *)(s + j * LD) = e; sum += e; }           \
    *(VU *)max_out = m;                                                                                                \
    *(VU *)sum_out = sum;                                                                                              \
}                                                                                                                      \
/* p = exp(s - lse) */                                                                                                 \
INLINE void exp_columns##suffix(real *s, int tk, const real *lse)                                                      \
{                                                                                                                      \
    V l = *(const VU *)lse;                                                                                            \
    for (int j = 0; j < tk; j++) *(VU *)(s + j * LD) = exp##suffix(*(VU *)(s + j * LD) - l);                                  \
}

COLUMNS(_v, vec, vecu)
#if HALF
COLUMNS(_h, hvec, hvecu)
#endif

/* Calls f_v on blocks of W lanes and f_h on a last half block. */
#if HALF
#define BY_COLUMNS(width, call_v, call_h) do { int i = 0; for (; i + W <= (width); i += W) call_v; if (i < (width)) call_h; } while (0)
#else
#define BY_COLUMNS(width, call_v, call_h) do { for (int i = 0; i < (width); i += W) call_v; } while (0)
#endif

INLINE int padded(int t) { return (t + PAD - 1) / PAD * PAD; }

/* out [cols][LD] = scale * x [rows][ldx] transposed, rows padded with zeros */
static void transpose(real *restrict out, const real *restrict x, long ldx, int rows, int cols, real scale)
{
    transpose_plain(out, LD, x, ldx, rows, cols, scale);
    for (int c = 0; c < cols && rows < padded(rows); c++)
        for (int r = rows; r < padded(rows); r++) out[c * LD + r] = 0;
}

/* s [tk][tq] = k (scale q)^T + bias, masked; qt receives the transposed queries. */
static void scores(real *s, real *qt, const struct kern_attn *a)
{
    int width = padded(a->tq);
    transpose(qt, a->q, a->ldq, a->tq, a->dh, a->scale);
    small_gemm(a->tk, width, a->dh, a->k, a->ldk, 1, qt, LD, s, LD, 0);
    if (a->bias)
        for (int j = 0; j < a->tk; j++)
            for (int i = 0; i < width; i++) s[j * LD + i] += a->bias[j * LD + i];
    for (int j = a->shift + 1 > 0 ? a->shift + 1 : 0; j < a->tk; j++)      /* queries before j - shift may not see key j */
        for (int i = 0; i < j - a->shift && i < width; i++) s[j * LD + i] = MASKED;
    if (a->key_ok)
        for (int j = 0; j < a->tk; j++)
            if (!a->key_ok[j]) for (int i = 0; i < width; i++) s[j * LD + i] = MASKED;
}

static void drop_weights(real *s, const struct kern_attn *a)
{
    if (a->drop.p > 0)
        for (int j = 0; j < a->tk; j++) dropout_rows(s + j * LD, &a->drop, a->drop.block + (uint32_t)j * a->drop_ld, (size_t)a->tq);
}

/* x [rows][cols], rows ldx apart: row i times factor[i] */
INLINE void scale_rows(real *x, long ldx, int rows, int cols, const real *factor)
{
    for (int i = 0; i < rows; i++, x += ldx) {
        int c = 0;
#if HALF
        for (; c + W / 2 <= cols; c += W / 2) *(hvecu *)(x + c) *= factor[i];
#else
        for (; c + W <= cols; c += W) store(x + c, load(x + c) * factor[i]);
#endif
        for (; c < cols; c++) x[c] *= factor[i];
    }
}

static void attn_fwd(real *out, long ldo, real *lse, const struct kern_attn *a)
{
    real *s = a->scratch, *qt = s + KERN_TILE * LD, *max = qt + a->dh * LD, *sum = max + LD, *inverse = sum + LD;
    int width = padded(a->tq);
    scores(s, qt, a);
    BY_COLUMNS(width, softmax_columns_v(s + i, a->tk, max + i, sum + i), softmax_columns_h(s + i, a->tk, max + i, sum + i));
    for (int i = width; i % W; i++) sum[i] = 1;      /* lanes of the last vector that are no queries: the logarithm of 0 is slow */
    for (int i = 0; i < width; i += W) {
        vec total = load(sum + i);
        store(inverse + i, 1 / total);
        store(max + i, load(max + i) + vec_log(total));
    }
    if (lse) memcpy(lse, max, (size_t)a->tq * sizeof *lse);
    drop_weights(s, a);
    small_gemm(a->tq, a->dh, a->tk, s, 1, LD, a->v, a->ldv, out, ldo, 0);
    scale_rows(out, ldo, a->tq, a->dh, inverse);     /* the weights' denominators: dh products a query instead of tk */
}

static void attn_step(real *max, real *sum, real *acc, int first, const struct kern_attn *a)
{
    real *s = a->scratch, *qt = s + KERN_TILE * LD, *tile_max = qt + a->dh * LD, *tile_sum = tile_max + LD;
    scores(s, qt, a);
    BY_COLUMNS(padded(a->tq), softmax_columns_v(s + i, a->tk, tile_max + i, tile_sum + i), softmax_columns_h(s + i, a->tk, tile_max + i, tile_sum + i));
    for (int i = 0; i < a->tq; i++) {
        real before = first ? MASKED : max[i], now = before > tile_max[i] ? before : tile_max[i];
        real keep = first ? 0 : (real)exp(before - now), gain = (real)exp(tile_max[i] - now);
        max[i] = now;
        sum[i] = (first ? 0 : sum[i] * keep) + tile_sum[i] * gain;
        for (int j = 0; j < a->tk; j++) s[j * LD + i] *= gain;
        for (int c = 0; c < a->dh; c++) acc[i * a->dh + c] = first ? 0 : acc[i * a->dh + c] * keep;
    }
    drop_weights(s, a);
    small_gemm(a->tq, a->dh, a->tk, s, 1, LD, a->v, a->ldv, acc, a->dh, 1);
}

/* D by its two definitions: over all keys, D_i = sum_j P_ij dP_ij, a sum down the columns of these tiles; or dO_i . O_i. */
INLINE void weighted_sum(real *delta, const real *p, const real *dp, int tk, int width)
{
    memset(delta, 0, (size_t)width * sizeof *delta);
    for (int j = 0; j < tk; j++)
        for (int i = 0; i < width; i++) delta[i] += p[j * LD + i] * dp[j * LD + i];
}
INLINE void row_dots(real *delta, const real *x, const real *y, long ld, int rows, int cols)
{
    for (int i = 0; i < rows; i++) {
        real sum = 0;
        for (int c = 0; c < cols; c++) sum += x[i * ld + c] * y[i * ld + c];
        delta[i] = sum;
    }
}

/* With P = softmax(S), O = P V:  dV = P^T dO;  dP = dO V^T;  dS = P (dP - D), D_i = dO_i . O_i;
 * dQ = scale dS K;  dK = dS^T (scale Q).  Under dropout P in O and dP carry the mask m:  D is unchanged. */
static void attn_bwd(real *dq, real *dk, real *dv, real *dbias, const real *out, const real *dout, long ldo, const real *lse,
                     const struct kern_attn *a)
{
    real *p = a->scratch, *dp = p + KERN_TILE * LD, *qt = dp + KERN_TILE * LD, *gt = qt + a->dh * LD, *delta = gt + a->dh * LD, *lse_pad = delta + LD;
    int tq = a->tq, tk = a->tk, dh = a->dh, width = padded(tq);
    scores(p, qt, a);
    memset(lse_pad, 0, LD * sizeof *lse_pad);
    memcpy(lse_pad, lse, (size_t)tq * sizeof *lse);
    BY_COLUMNS(width, exp_columns_v(p + i, tk, lse_pad + i), exp_columns_h(p + i, tk, lse_pad + i));
    transpose(gt, dout, ldo, tq, dh, 1);
    small_gemm(tk, width, dh, a->v, a->ldv, 1, gt, LD, dp, LD, 0);
    if (a->drop.p > 0) {
        real *dropped = gt;          /* the transposed dO has served; P m is needed for dV before dP takes the mask */
        for (int j = 0; j < tk; j++) {
            memcpy(dropped, p + j * LD, (size_t)tq * sizeof *p);
            dropout_rows(dropped, &a->drop, a->drop.block + (uint32_t)j * a->drop_ld, (size_t)tq);
            small_gemm(1, dh, tq, dropped, 0, 1, dout, ldo, dv + j * a->ldv, a->ldv, a->add_kv);
        }
        drop_weights(dp, a);
    } else small_gemm(tk, dh, tq, p, LD, 1, dout, ldo, dv, a->ldv, a->add_kv);
    if (a->whole) weighted_sum(delta, p, dp, tk, width);
    else row_dots(delta, dout, out, ldo, tq, dh);
    for (int j = 0; j < tk; j++)
        for (int i = 0; i < width; i++) {
            real ds = p[j * LD + i] * (dp[j * LD + i] - delta[i]);
            if (dbias) dbias[j * LD + i] += ds;
            dp[j * LD + i] = ds * a->scale;
        }
    small_gemm(tq, dh, tk, dp, 1, LD, a->k, a->ldk, dq, a->ldq, a->add_q);
    small_gemm(tk, dh, tq, dp, LD, 1, a->q, a->ldq, dk, a->ldk, a->add_kv);
}

/* ---- the general path's softmax, by rows ---- */

static void softmax_rows(real *s, int n, int t, long ld)
{
    for (int i = 0; i < n; i++, s += ld) {
        real m = s[0], sum = 0;
        for (int j = 1; j < t; j++) m = s[j] > m ? s[j] : m;
        for (int j = 0; j < t; j += W) store_some(s + j, exp_v(load_some(s + j, t - j) - m), t - j);
        for (int j = 0; j < t; j++) sum += s[j];
        for (int j = 0; j < t; j++) s[j] /= sum;
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
    double loss = 0;
    for (int i = 0; i < n; i++, logits += V, dlogits = dlogits ? dlogits + V : dlogits) {
        if (target[i] < 0) {
            if (dlogits) memset(dlogits, 0, (size_t)V * sizeof *dlogits);
            continue;
        }
        real m = logits[0], at_target = logits[target[i]], w = weight ? (real)weight[i] : 1;
        for (int c = 1; c < V; c++) m = logits[c] > m ? logits[c] : m;
        vec s = { 0 };
        for (int c = 0; c < V; c += W) {
            int left = V - c;
            vec e = exp_v((left >= W ? load(logits + c) : load_some(logits + c, left)) - m);
            for (int l = left; l < W; l++) e[l] = 0;
            s += e;
            if (dlogits) store_some(dlogits + c, e, left);
        }
        real sum = lane_sum(s), g = (real)grad_scale * w;
        loss += (double)w * (log((double)sum) + (double)m - (double)at_target);
        if (!dlogits) continue;
        for (int c = 0; c < V; c++) dlogits[c] *= g / sum;
        dlogits[target[i]] -= g;
    }
    return loss;
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
    .attn_step = attn_step, .attn_bwd = attn_bwd, .softmax_rows = softmax_rows, .softmax_rows_bwd = softmax_rows_bwd, .xent = xent,
#if VB == 64
    .product = product, .pack = pack,
#endif
    .sum_squares = sum_squares, .adamw = adamw };
