/* optim -- AdamW with clipping by global norm, and learning-rate schedules. */
#ifndef LAB_NN_OPTIM_H
#define LAB_NN_OPTIM_H
#include "nn/model.h"

enum { OPTIM_CONSTANT, OPTIM_COSINE, OPTIM_LINEAR };
struct optim_options {
    double lr, beta1, beta2, eps, weight_decay;
    double clip;                     /* largest global norm of the gradient; 0 = no clipping */
    int32_t warmup;                  /* steps of linear warm-up */
    int32_t schedule, steps;         /* constant, or down to 0 over `steps`: along a cosine or a line */
};
/* Learning rate of step 0, 1, ... */
double optim_lr(const struct optim_options *, int64_t step);
/* One update (Loshchilov & Hutter 2019, as torch.optim.AdamW) with step counted from 0.
 * Returns the gradient's norm before clipping; weights are left alone if it is not finite. */
double optim_step(struct model *, const struct optim_options *, int64_t step);
#endif
