/* record -- what a worker tells the supervisor, as checksummed frames on a pipe.
 *
 * Frame: u32 magic, u32 payload bytes, u32 CRC-32 of the payload, payload.  Little-endian.
 * The reader trusts nothing: a torn, over-long or altered frame is an error of that worker.
 */
#ifndef LAB_EXP_RECORD_H
#define LAB_EXP_RECORD_H
#include <stddef.h>
#include <stdint.h>
#include "abi/lab_plugin.h"
#include "base/hash.h"

enum record_type {
    RECORD_START = 1,                /* the run's key, as the worker computed it */
    RECORD_PROGRESS,                 /* step, of how many, last loss: for the eyes only */
    RECORD_METRIC,                   /* one point of a curve */
    RECORD_EVAL,                     /* one evaluation at one length */
    RECORD_EVAL_POSITION,            /* the same by output position */
    RECORD_EVAL_SLICE,               /* the same by slice: what the task groups its examples by */
    RECORD_UNTRAINED,                /* rows of an encoder parameter that no gradient ever reached */
    RECORD_ARTIFACT,                 /* a file that was written */
    RECORD_CEILING,                  /* of a task at a length: order-blind, or of the majority */
    RECORD_CHECKPOINT,               /* step: training can go on from there, and everything due until then was told before */
    RECORD_SELECTED,                 /* step: whose weights were kept; value: the accuracy that chose them */
    RECORD_DONE,                     /* the end, with the result's hash */
    RECORD_STOPPED,                  /* interrupted cleanly */
    RECORD_FAILED                    /* reason */
};
struct record {
    enum record_type type;
    char    name[64];                /* METRIC name · UNTRAINED parameter · ARTIFACT kind · CEILING kind */
    char    split[16];               /* EVAL*: valid, longer, test, free */
    char    text[512];               /* FAILED reason · STOPPED why there is no checkpoint · DONE why no weights were kept · ARTIFACT path */
    char    sha256[HASH_HEX];        /* START key · EVAL data · ARTIFACT content · DONE result */
    int64_t step, steps;             /* steps: PROGRESS total */
    /* EVAL: position = seed of its data · EVAL_SLICE: the slice · UNTRAINED: length = rows of the parameter, position = first row */
    int64_t length, position;
    int64_t n, n_exact;              /* sequences, whole ones right · UNTRAINED n = rows in this range · CEILING samples */
    int64_t n_tok, n_tok_ok;         /* scored tokens, right ones · ARTIFACT n_tok = bytes */
    double  value;                   /* METRIC value · EVAL loss nat/token · CEILING · PROGRESS loss */
    double  error;                   /* CEILING standard error */
    int64_t active_ns;               /* DONE: monotonic time spent */
};
#define RECORD_FRAME_MAX 1024        /* bytes of the largest frame */

/* Encodes into out (at least RECORD_FRAME_MAX bytes); returns the bytes. */
size_t record_encode(const struct record *, unsigned char *out);
/* Decodes the first frame of n bytes: bytes used, 0 = incomplete, -1 = not a frame (err says why). */
long   record_decode(struct record *, const unsigned char *in, size_t n, struct lab_err *err);

/* Adds a record to the hash of a result: the sum, modulo 2^256, of the SHA-256 of each.  "" is 0.  It knows no order, so that it
 * can be kept in a checkpoint as it stands, and made again from the rows of a database in whatever order they come. */
void record_sum(char sum[HASH_HEX], const struct record *);

/* Where records go while a run computes; -1 ends the run. */
struct record_sink { int (*emit)(void *ctx, const struct record *); void *ctx; };
static inline int record_emit(const struct record_sink *s, const struct record *r) { return s->emit(s->ctx, r); }
#endif
