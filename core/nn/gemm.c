/* gemm -- see gemm.h. */
#include "nn/gemm.h"
#include <cblas.h>
#include <stdio.h>
#include <string.h>

void gemm(int ta, int tb, int m, int n, int k, lab_real alpha, const lab_real *a, int lda,
          const lab_real *b, int ldb, lab_real beta, lab_real *c, int ldc)
{
#ifdef LAB_REAL_DOUBLE
    cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k,
                alpha, a, lda, b, ldb, beta, c, ldc);
#else
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k,
                alpha, a, lda, b, ldb, beta, c, ldc);
#endif
}

void gemm_one_thread(void) { openblas_set_num_threads(1); }

const char *gemm_library(void)
{
    static char text[128];
    char config[128];
    snprintf(config, sizeof config, "%s", openblas_get_config());
    char *second = strchr(config, ' ');
    if (second && (second = strchr(second + 1, ' '))) *second = '\0';      /* "OpenBLAS 0.3.21" and no build options */
    snprintf(text, sizeof text, "%.60s %.60s", config, openblas_get_corename());
    return text;
}
