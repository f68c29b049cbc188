/* ceiling -- the best token accuracy that a model without positions can reach.
 *
 * Such a model sees its own token and which tokens there are, not where: its best
 * guess is the most likely target given these.  Estimated by sampling multisets and
 * orders through the task's own solve(), for tasks that declare LAB_TASK_EXCHANGEABLE.
 */
#ifndef LAB_EXP_CEILING_H
#define LAB_EXP_CEILING_H
#include "abi/lab_task.h"

struct ceiling { double value, error; int64_t samples; };   /* error: standard error; samples: multisets */

/* Stops when 1.96 * error < 0.0015.  -1: the task is not exchangeable, or refuses the length. */
int ceiling_compute(const struct lab_task *, const void *self, const struct lab_task_info *, int length,
                    struct ceiling *out, struct lab_err *err);
#endif
