/* kern -- the vectorised kernels of a training step, one table of them for each instruction set.
 *
 * kern.c, kern_attn.c and kern_relu.c are compiled once for each of generic, avx2 and avx512; kern_pick.c chooses at
 * run time (LAB_SIMD=generic|avx2|avx512 forces one).  Kernels write their outputs
 * first-argument-first, allocate nothing and touch nothing else.  Unless said otherwise
 * an output is overwritten and may not overlap an input; gradients of weights are added to.
 *
 * Matrices are row-major.  n rows (tokens), d or f columns.  Arrays must allow reads up
 * to 64 bytes past their end (every arena piece does).
 */
#ifndef LAB_NN_KERN_H
#define LAB_NN_KERN_H
#include <stddef.h>
#include "abi/lab_plugin.h"

enum { KERN_RELU, KERN_GELU, KERN_SWIGLU };      /* in the order of MODEL_RELU ... */
enum { KERN_LAYERNORM, KERN_RMSNORM };
enum { KERN_TILE = 64,                           /* queries and keys of an attention tile, at most */
       KERN_PANEL = 128 / sizeof(lab_real),      /* columns of a packed panel: two AVX-512 registers */
       KERN_SPARSE = 64 };

/* Which elements are dropped is a function of (seed, step, place, element): nothing is stored. */
struct kern_dropout {
    uint64_t seed;
    uint32_t step, place;
    uint32_t block;                  /* Philox block of the first element: four elements to a block */
    double   p;                      /* probability of dropping; survivors are scaled by 1/(1-p) */
};

struct kern_attn {                   /* one head of one sequence, one rectangle of queries x keys */
    int tq, tk, dh;                  /* at most KERN_TILE, KERN_TILE */
    const lab_real *q, *k, *v;       /* [tq,dh], [tk,dh], [tk,dh] with rows ldq, ldk, ldv apart */
    long ldq, ldk, ldv;
    const lab_real *bias;            /* [tk, KERN_TILE], transposed: key by query; NULL = none */
    const uint8_t *key_ok;           /* [tk], 0 = padding; NULL = none */
    int whole;                       /* attn_bwd: these are all the keys */
    int shift;                       /* query i sees key j iff j <= i + shift; tk = all */
    lab_real scale;
    struct kern_dropout drop;        /* on the attention weights; p = 0: none */
    uint32_t drop_ld;                /* drop.block is that of (key 0, query 0); blocks between keys */
    int add_q, add_kv;               /* attn_bwd: dq, or dk and dv, are added to rather than overwritten */
    lab_real *scratch;               /* kern_attn_scratch(dh) elements */
};

struct kern {
    const char *isa;

    /* x [n,d] = scale * table[token] (+ pos [T,d] for position n % T; pos NULL: none) */
    void (*embed_fwd)(lab_real *x, const lab_real *table, const int32_t *token, lab_real scale, const lab_real *pos, int T, int n, int d);
    /* dtable[token] += scale * dx, and dpos [T,d] += sum of dx over sequences; dpos may be NULL */
    void (*embed_bwd)(lab_real *dtable, lab_real *dpos, const lab_real *dx, const int32_t *token, lab_real scale, int T, int n, int d);

    void (*add_bias)(lab_real *x, const lab_real *bias, int n, int d);             /* x += bias, in place */
    void (*column_sum)(lab_real *out, const lab_real *x, int n, int d);            /* out [d] += */
    void (*dropout)(lab_real *x, const struct kern_dropout *, size_t n);           /* in place; its own backward */

    /* r = x + y + bias (y, bias NULL: r = x), kept in sum if not NULL (sum may be x);
     * xhat = (r - mean) * rstd, or r * rstd for RMSNorm; out = xhat * w + b (b unused by RMSNorm).
     * xhat and rstd may be NULL when no backward follows. */
    void (*norm_fwd)(lab_real *out, lab_real *xhat, lab_real *rstd, lab_real *sum, const lab_real *x, const lab_real *y,
                     const lab_real *bias, const lab_real *w, const lab_real *b, int type, int n, int d);
    /* dr = gradient through the norm, plus carry (NULL: none; may be dr); dw, db [d] +=;
     * dr_sum [d] += column sum of dr, the gradient of the bias that went into r (NULL: not wanted) */
    void (*norm_bwd)(lab_real *dr, lab_real *dw, lab_real *db, lab_real *dr_sum, const lab_real *dout, const lab_real *carry,
                     const lab_real *xhat, const lab_real *rstd, const lab_real *w, int type, int n, int d);

    /* pre += bias in place, out [n,f] = activation(pre).  pre is [n,f], for SwiGLU [n,2f]: gate, value.
     * ReLU: out may be pre. */
    void (*act_fwd)(lab_real *out, lab_real *pre, const lab_real *bias, int type, int n, int f);
    /* dpre, and dbias +=, from dout; act is pre (GELU, SwiGLU) or out (ReLU).  dpre may be dout except for SwiGLU. */
    void (*act_bwd)(lab_real *dpre, lab_real *dbias, const lab_real *dout, const lab_real *act, int type, int n, int f);

    /* The whole row of keys in one tile (tk <= KERN_TILE): out [tq,dh] rows ldo apart; weights [tk+1,kern_attn_ld(tq)]:
     * exponentials, key by query, and one over their sums, which attn_bwd wants; may be NULL. */
    void (*attn_fwd)(lab_real *out, long ldo, lab_real *weights, const struct kern_attn *);
    /* One tile of several: max [tq], sum [tq], acc [tq,dh] are the running softmax; start with first = 1. */
    void (*attn_step)(lab_real *max, lab_real *sum, lab_real *acc, int first, const struct kern_attn *);
    /* dq, dk, dv (rows ldq, ldk, ldv apart, as the inputs'), dbias [tk, KERN_TILE] += if not NULL.
     * kept: weights of attn_fwd where the tile is whole, else [tq] the logarithm of each row's sum of exponentials. */
    void (*attn_bwd)(lab_real *dq, lab_real *dk, lab_real *dv, lab_real *dbias, const lab_real *out, const lab_real *dout, long ldo,
                     const lab_real *kept, const struct kern_attn *);

    void (*scale)(lab_real *x, lab_real factor, size_t n);                         /* in place */
    /* Softmax of each row of s [n,t] in place over the first t of ld columns. */
    void (*softmax_rows)(lab_real *s, int n, int t, long ld);
    /* ds = p * (dp - sum p dp) by row, in place of dp */
    void (*softmax_rows_bwd)(lab_real *dp, const lab_real *p, int n, int t, long ld);

    /* Sum over rows of weight * cross-entropy, nat; target -1: skipped.  dlogits (may be logits) = grad_scale * its gradient;
     * NULL: loss alone.  weight NULL: 1. */
    double (*xent)(lab_real *dlogits, const lab_real *logits, const int32_t *target, const float *weight, double grad_scale, int n, int V);

    /* Where ours beats OpenBLAS (NULL elsewhere):  c [m,n] (+)= a [m,k] b [k,n].  a's elements are am apart by row and ak by
     * column; b comes in panels of KERN_PANEL columns, `panel` elements apart, rows ldb apart; c's rows are ldc apart. */
    void (*product)(int m, int n, int k, const lab_real *a, long am, long ak, const lab_real *b, long ldb, long panel,
                    lab_real *c, long ldc, int add);
    /* w [out,in] transposed into such panels, each [in, KERN_PANEL], the last one padded with zeros. */
    void (*pack)(lab_real *packed, const lab_real *w, int out, int in);

    /* The products around a ReLU, which pass over its zeros (NULL: none of this instruction set); n and f are multiples of KERN_SPARSE.
     * h [m,f] = max(h + bias, 0), in place; y [m,n] = h wt, of wt [f,n] */
    void (*relu_fwd)(lab_real *y, lab_real *h, const lab_real *bias, const lab_real *wt, int m, int n, int f);
    /* dh [m,f] = 0 where h is, in place; dbias += its column sums; dx [m,n] (+)= dh w, of w [f,n] */
    void (*relu_bwd)(lab_real *dx, int add, lab_real *dh, lab_real *dbias, const lab_real *h, const lab_real *w, int m, int n, int f);
    /* dw [f,n] += h^T y, of h [m,f], y [m,n] */
    void (*relu_dw)(lab_real *dw, const lab_real *h, const lab_real *y, int m, int n, int f);
    void (*transpose)(lab_real *out, const lab_real *x, int rows, int cols);       /* out [cols,rows], x [rows,cols] */

    double (*sum_squares)(const lab_real *x, size_t n);
    /* One AdamW update of n weights: g is scaled by grad_scale, c1 = 1 - beta1^t, c2 = 1 - beta2^t. */
    void (*adamw)(lab_real *w, lab_real *m, lab_real *v, const lab_real *g, size_t n, double grad_scale, double lr, double beta1,
                  double beta2, double eps, double decay, double c1, double c2);
};

/* Elements of kern_attn.scratch. */
static inline size_t kern_attn_scratch(int dh) { return (size_t)(3 * KERN_TILE + 3 * dh + 4) * KERN_TILE; }
/* Elements between keys in a tile of weights: as many whole cache lines as its queries fill. */
static inline int kern_attn_ld(int tq) { return (tq + 15) / 16 * 16; }

extern const struct kern kern_generic, kern_avx2, kern_avx512;

/* The table in use.  -1: LAB_SIMD names what this CPU or this build does not have. */
int kern_pick(const struct kern **out, struct lab_err *err);
/* All that this machine can run, NULL-terminated; tests go through them. */
const struct kern *const *kern_all(void);
const char *kern_isa(void);          /* name of the table in use, "?" if LAB_SIMD is wrong */
#endif
