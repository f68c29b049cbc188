/* kern_vec -- what the vectorised kernels are made of: vectors, exp and erf, sums across lanes, tiles of products, transpositions.
 *
 * Included by each kern*.c once; those are compiled once for each instruction set with -DKERN_ISA=name, and nothing in them chooses
 * at run time.  Vectors are GCC's; erf comes from libmvec (four ulp or better), and double precision's exp.
 *
 * W lanes to a vector.  Where a second, half as wide vector pays (AVX-512 on short rows), the same code is made for both by a macro
 * over the vector's type: suffix _v and _h.
 */
#ifndef LAB_NN_KERN_VEC_H
#define LAB_NN_KERN_VEC_H
#include <math.h>
#include <string.h>
#include "base/rng.h"
#include "nn/kern.h"
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
    typedef uint32_t U __attribute__((vector_size(sizeof(V))));                               \
    return (V)((U)p + ((U)shifted << 23));                                                    \
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

static inline void dropout_rows(real *x, const struct kern_dropout *o, uint32_t block, size_t n)
{
    uint32_t word[4][BLOCKS], threshold = (uint32_t)(o->p * 0x1p32);
    real scale = (real)(1 / (1 - o->p));
    for (size_t i = 0; i < n; block += BLOCKS) {
        philox_lanes(word, o, block);
        for (int l = 0; l < BLOCKS && i < n; l++)
            for (int w = 0; w < 4 && i < n; w++, i++) x[i] = word[w][l] < threshold ? 0 : x[i] * scale;
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

/* ---- what one file of kernels hands to another's table, of one instruction set ---- */

#define OF_ISA(f) PASTE(f, KERN_ISA)
void OF_ISA(kern_attn_fwd_)(real *out, long ldo, real *weights, const struct kern_attn *);
void OF_ISA(kern_attn_step_)(real *max, real *sum, real *acc, int first, const struct kern_attn *);
void OF_ISA(kern_attn_bwd_)(real *dq, real *dk, real *dv, real *dbias, const real *out, const real *dout, long ldo, const real *kept, const struct kern_attn *);
void OF_ISA(kern_relu_fwd_)(real *y, real *h, const real *bias, const real *wt, int m, int n, int f);
void OF_ISA(kern_relu_bwd_)(real *dx, int add, real *dh, real *dbias, const real *h, const real *w, int m, int n, int f);
void OF_ISA(kern_relu_dw_)(real *dw, const real *h, const real *y, int m, int n, int f);
#endif
