/* eval -- how well a model does at one length: exact counts, by sequence, by token, by position. */
#ifndef LAB_EXP_EVAL_H
#define LAB_EXP_EVAL_H
#include <signal.h>
#include "exp/data.h"
#include "exp/record.h"

struct eval_request {
    int split, length;
    int64_t sequences, step;
    int by_position;                 /* EVAL_POSITION records too */
};
/* Evaluates without dropout and emits EVAL (then EVAL_POSITION).  1: the sink refused or *stop was set. */
int eval_run(struct model *, struct data *, const struct eval_request *, const struct record_sink *, char result[HASH_HEX],
             const volatile sig_atomic_t *stop, struct lab_err *err);
/* Emits a record and chains it to the hash of the results so far ("" at the start): new = SHA-256(old, frame), so that the
 * hash can be kept in a checkpoint as it stands. */
int eval_emit(const struct record_sink *, char result[HASH_HEX], const struct record *);
#endif
