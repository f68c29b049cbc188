/* kern_relu -- the products around a ReLU: see kern.h and kern_vec.h.
 *
 * Half of what it returns is 0, and so is half of the gradient behind it.  Those places are passed over; of finite
 * numbers the sums are the same.
 * A row of the result takes eight registers, for 64 places of a row of a at a time, and asks for those rows of b that meet a place
 * which is not 0: a block of b, 64 x WIDE, stays in the first cache for all rows of a.  Where half of a is 0 this takes .7 of the
 * dense product's time at the peak, the ReLU included; where nothing is, 1.3.
 */
#include "nn/kern_vec.h"

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

void OF_ISA(kern_relu_fwd_)(real *y, real *h, const real *bias, const real *wt, int m, int n, int f)
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

void OF_ISA(kern_relu_bwd_)(real *dx, int add, real *dh, real *dbias, const real *h, const real *w, int m, int n, int f)
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
void OF_ISA(kern_relu_dw_)(real *dw, const real *h, const real *y, int m, int n, int f)
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

#endif
