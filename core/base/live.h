/* live -- work in progress as lines of text: a line for each worker, its loss as a small curve, and how long all of it still takes.
 *
 * Knows widths and nothing of terminals but the locale: no escapes, no clocks, no colours.
 */
#ifndef LAB_BASE_LIVE_H
#define LAB_BASE_LIVE_H
#include "base/str.h"

enum { LIVE_POINTS = 48 };           /* recent points of a loss curve that are kept for the eyes */
struct live_worker {
    char name[160], note[64];        /* of its run; what else is to be said, the first to go where there is no room */
    int64_t step, steps;             /* reached, of how many */
    double loss[LIVE_POINTS]; int n_loss;    /* nat/token, the oldest first */
    double rate, left;               /* steps/s, 0: unknown; seconds to its end, < 0: unknown */
};
/* A further point; the oldest gives way. */
void live_loss(struct live_worker *, double loss);
/* One line each, in columns, ended by a line feed; none takes more than `width` columns. */
void live_lines(struct str *out, const struct live_worker *, int n, int width, int utf8);
/* The points in so many cells, low to high: blocks, or signs of more and more ink where there are none.  What is not finite is '!'. */
void live_curve(struct str *out, const double *loss, int n, int cells, int utf8);
/* Does the locale of the environment write UTF-8? */
int  live_is_utf8(void);

/* Seconds until n_desk workers that are busy for so long have done the queue too, each taking its next job when it is free.
 * Overwrites desk. */
double live_left(double *desk, int n_desk, const double *queue, size_t n);
#endif
