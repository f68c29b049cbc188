/* gemm -- matrix products, through OpenBLAS on one thread; the only file that knows CBLAS. */
#ifndef LAB_NN_GEMM_H
#define LAB_NN_GEMM_H
#include "abi/lab_plugin.h"

/* c [m,n] = alpha * op(a) op(b) + beta * c, all row-major; op transposes when ta, tb is nonzero. */
void gemm(int ta, int tb, int m, int n, int k, lab_real alpha, const lab_real *a, int lda,
          const lab_real *b, int ldb, lab_real beta, lab_real *c, int ldc);

/* Workers are told by their environment; a command that multiplies in its own process calls this first. */
void gemm_one_thread(void);

/* The library's version and the kernels it chose for this CPU, e.g. "OpenBLAS 0.3.21 Zen". */
const char *gemm_library(void);
#endif
