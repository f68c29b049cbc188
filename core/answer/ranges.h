/* ranges -- scores over ranges of lengths, as papers report them: the mean over the lengths past training where these
 * are many, and what the file's [paper] section holds the experiment against, with a verdict.
 */
#ifndef LAB_ANSWER_RANGES_H
#define LAB_ANSWER_RANGES_H
#include "base/str.h"
#include "store/store.h"

/* Appends both tables, or nothing.  ini_sha256 NULL: of the sweep entered last. */
int ranges_write(struct store *, const char *ini_sha256, struct str *out, struct lab_err *err);

/* The same for programs, row by row: an arm over a range, or a published order.  What is not there is NaN, or "" in a text. */
struct ranges_row {
    const char *task, *encoder, *label;      /* of an order: "", "order" and the order */
    int64_t lo, hi;                          /* lengths */
    int seeds;                               /* runs; 0 = none is done */
    double mean, half_width, min, max;       /* token accuracy over seeds, each the mean over the lengths */
    double sequence;                         /* whole sequences, mean over seeds */
    double score, paper, band;               /* what is held against the paper, by its metric and rule; the published value; what passes */
    const char *verdict;
};
struct ranges_taker { int (*take)(void *ctx, const struct ranges_row *); void *ctx; };   /* nonzero stops */
int ranges_each(struct store *, const char *ini_sha256, const struct ranges_taker *, struct lab_err *err);
#endif
