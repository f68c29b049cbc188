/* ceiling -- what a score is worth: the token accuracy that is possible without looking.
 *
 * order_blind: the best that a model without positions can reach.  It sees its own token and which tokens there are, not
 * where: its best guess is the most likely target given these.  Estimated by sampling multisets and orders, for tasks whose
 * every order is an example (LAB_TASK_EXCHANGEABLE) or that reorder an example themselves (LAB_TASK_REORDERS).
 * majority: the best that can be reached without reading the input at all: at each place the most frequent target there.
 */
#ifndef LAB_EXP_CEILING_H
#define LAB_EXP_CEILING_H
#include "abi/lab_task.h"

enum { CEILING_ORDER_BLIND, CEILING_MAJORITY, CEILING_KINDS };
extern const char *const ceiling_name[CEILING_KINDS];
struct ceiling { double value, error; int64_t samples; };   /* error: standard error; samples: multisets, or examples */

/* Can this kind be computed for this task, and does it bound such a model?  A causal one tells places apart by how much it sees. */
int ceiling_applies(int kind, const struct lab_task *, int causal);
/* -1: the task does not offer it, or refuses the length. */
int ceiling_compute(int kind, const struct lab_task *, const void *self, const struct lab_task_info *, int length,
                    struct ceiling *out, struct lab_err *err);
#endif
