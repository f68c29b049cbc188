/* eval -- how well a model does at one length: exact counts, by sequence, by token, by position, by slice.
 *
 * In training on data of its own, in two splits: valid, at lengths up to the longest trained, and longer, past it; at the end
 * on the test data.  Teacher-forced, where every token before is the right one; or free-running (split "free", on the data of the test):
 * from the prompt on, the model reads what it wrote itself, its likeliest token each time.
 */
#ifndef LAB_EXP_EVAL_H
#define LAB_EXP_EVAL_H
#include <signal.h>
#include "exp/data.h"
#include "exp/record.h"

struct eval_request {
    int split, length;
    int64_t sequences, step;
    int by_position;                 /* EVAL_POSITION records too */
    int free_running;
};
/* Evaluates without dropout and emits EVAL (then EVAL_SLICE, EVAL_POSITION).  1: the sink refused or *stop was set. */
int eval_run(struct model *, struct data *, const struct eval_request *, const struct record_sink *, char *result,
             const volatile sig_atomic_t *stop, struct lab_err *err);
/* Emits a record and adds it to the hash of the results so far (record_sum; may be NULL). */
int eval_emit(const struct record_sink *, char *result, const struct record *);
#endif
