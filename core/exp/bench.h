/* bench -- how long a training step takes, beside the shortest time it could take.
 *
 * The floor of a step is its linear layers' matrix products alone, through the same BLAS: forward, input gradients
 * and weight gradients, in the step's order.  Attention's own products are not in it.
 * Everything is measured in one process and by turns, on the processor's clock, so that what else runs on the machine
 * hurts all alike; ratios are medians over samples.  Trains from scratch, keeps nothing, writes nothing.
 */
#ifndef LAB_EXP_BENCH_H
#define LAB_EXP_BENCH_H
#include "exp/config.h"
#include "nn/times.h"

struct bench_row {                   /* one model with one encoder */
    const struct run_config *config; /* its longest training length is measured; must outlive the row */
    int baseline;                    /* row of the same model with encoder none, -1: not there */
    int samples;
    double tokens, flops;            /* of a step: tokens, and operations of the linear layers */
    double step_ms;
    double floor_ms;                 /* the whole batch in one product a layer */
    double floor_chunked_ms;         /* in the chunks that the model really multiplies */
    double ratio;                    /* step to floor */
    double to_baseline;              /* step to that of the baseline, NAN without one */
    double part_ms[TIMES_PARTS];     /* of step_ms */
};

/* Do two runs cost the same a step but for their encoders?  Seeds and learning rates do not matter. */
int bench_same_model(const struct run_config *, const struct run_config *);
/* Measures all rows by turns for about seconds each, at least three rounds; peak: of one core, GFLOP/s. */
int bench_run(struct bench_row *, int n, double seconds, double *peak_gflops, struct lab_err *err);

/* ---- the floor, for its test ---- */
struct bench_product {               /* c [m,n] = op(a) op(b) + beta c, as gemm */
    int ta, tb, m, n, k;
    lab_real beta;
    const lab_real *a, *b;
    lab_real *c;
};
/* The products of a step on this many tokens, 3 * (4 * layers + 1) of them, in order; without places in memory. */
int bench_products(const struct model_setup *, int tokens, struct bench_product *out);
#endif
