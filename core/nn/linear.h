/* linear -- y = x w^T and its gradients, for one weight matrix [out,in].
 *
 * By the kernels' own product where it beats OpenBLAS on the matrices of small models (AVX-512: by 10 to
 * 15 %, which OpenBLAS spends on copying), else, or with LAB_GEMM=openblas, through OpenBLAS.
 */
#ifndef LAB_NN_LINEAR_H
#define LAB_NN_LINEAR_H
#include "nn/kern.h"

struct linear {
    int out, in;
    lab_real *w, *dw;                /* [out,in]; dw NULL: never trained */
    int own;                         /* multiplied by the kernels, not by OpenBLAS */
    lab_real *packed;                /* w transposed into panels, for linear_fwd; NULL: not wanted */
};

/* Does LAB_GEMM ask for OpenBLAS alone?  Does this kernel table multiply by itself, and may it?  1 or 0. */
int linear_blas(void);
int linear_check(struct lab_err *err);           /* -1: LAB_GEMM asks for something else */
int linear_own(const struct kern *);
/* Elements that packed needs. */
size_t linear_packed_size(int out, int in);
/* To be called when w has changed. */
void linear_pack(const struct kern *, struct linear *);

/* y [N,out] = x [N,in] w^T */
void linear_fwd(const struct kern *, lab_real *y, const lab_real *x, const struct linear *, int N);
/* dw += dy^T x; dx [N,in] = dy [N,out] w, added when add is nonzero (dx may then not be dy); and both. */
void linear_dw(const struct kern *, const lab_real *dy, const lab_real *x, const struct linear *, int N);
void linear_dx(const struct kern *, lab_real *dx, int add, const lab_real *dy, const struct linear *, int N);
void linear_bwd(const struct kern *, lab_real *dx, int add, const lab_real *dy, const lab_real *x, const struct linear *, int N);
#endif
