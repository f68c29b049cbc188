/* linear -- see linear.h. */
#include "nn/linear.h"
#include <stdlib.h>
#include <string.h>
#include "nn/gemm.h"
#include "nn/times.h"

int linear_blas(void)
{
    const char *wanted = getenv("LAB_GEMM");
    return wanted && !strcmp(wanted, "openblas");
}

int linear_check(struct lab_err *err)
{
    const char *wanted = getenv("LAB_GEMM");
    if (!wanted || !*wanted || linear_blas()) return 0;
    return lab_fail(err, "LAB_GEMM=%s: use openblas, or unset it", wanted);
}

int linear_own(const struct kern *k) { return k->product && !linear_blas(); }

size_t linear_packed_size(int out, int in) { return (size_t)((out + KERN_PANEL - 1) / KERN_PANEL) * KERN_PANEL * (size_t)in; }

void linear_pack(const struct kern *k, struct linear *l)
{
    if (l->packed) TIMED(TIMES_GEMM, k->pack(l->packed, l->w, l->out, l->in));
}

void linear_fwd(const struct kern *k, lab_real *y, const lab_real *x, const struct linear *l, int N)
{
    enum times_part before = times_to(TIMES_GEMM);
    if (l->own) k->product(N, l->out, l->in, x, l->in, 1, l->packed, KERN_PANEL, (long)l->in * KERN_PANEL, y, l->out, 0);
    else gemm(0, 1, N, l->out, l->in, 1, x, l->in, l->w, l->in, 0, y, l->out);
    times_to(before);
}

void linear_dw(const struct kern *k, const lab_real *dy, const lab_real *x, const struct linear *l, int N)
{
    enum times_part before = times_to(TIMES_GEMM);
    if (l->own) k->product(l->out, l->in, N, dy, 1, l->out, x, l->in, KERN_PANEL, l->dw, l->in, 1);
    else gemm(1, 0, l->out, l->in, N, 1, dy, l->out, x, l->in, 1, l->dw, l->in);
    times_to(before);
}

void linear_dx(const struct kern *k, lab_real *dx, int add, const lab_real *dy, const struct linear *l, int N)
{
    enum times_part before = times_to(TIMES_GEMM);
    if (l->own) k->product(N, l->in, l->out, dy, l->out, 1, l->w, l->in, KERN_PANEL, dx, l->in, add);
    else gemm(0, 0, N, l->in, l->out, 1, dy, l->out, l->w, l->in, (lab_real)add, dx, l->in);
    times_to(before);
}

void linear_bwd(const struct kern *k, lab_real *dx, int add, const lab_real *dy, const lab_real *x, const struct linear *l, int N)
{
    linear_dw(k, dy, x, l, N);
    linear_dx(k, dx, add, dy, l, N);
}
