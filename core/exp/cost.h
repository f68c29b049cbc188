/* cost -- what a run costs, in seconds of a core on which its coefficients were measured, before anything of it was timed.
 *
 * Another machine takes longer or shorter, nearly all runs alike: what matters is the ratio of one run to another, and
 * whoever has timed some of them knows the factor.
 */
#ifndef LAB_EXP_COST_H
#define LAB_EXP_COST_H
#include "exp/config.h"

struct cost {
    double start;                    /* a process, its plugins, the start of its weights */
    double step;                     /* of training */
    double valid;                    /* an evaluation during training, all its lengths */
    double test;                     /* the final one */
};
struct cost cost_of(const struct run_config *);
/* So many steps from `from` on, with the evaluations among them. */
double cost_steps(const struct cost *, const struct run_config *, double from, double to);
double cost_total(const struct cost *, const struct run_config *);
/* The final evaluation at one length. */
double cost_test(const struct run_config *, int length);
#endif
