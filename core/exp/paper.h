/* paper -- what an experiment is held against: the section [paper] of its file.
 *
 *   source = where the numbers stand          metric = token | sequence      seeds = mean | median | max
 *   rope.51-100 = 0.99, 0.02                  the published value over these lengths, and the band around it that passes
 *   sort.rope.51-100 = 0.99, 0.02             the same for one of several tasks
 *   order.9-16 = none > t5 > rope             a published order, best first
 * The value of a range is the mean over the lengths in it that are evaluated.  Changes no run.
 */
#ifndef LAB_EXP_PAPER_H
#define LAB_EXP_PAPER_H
#include "exp/sweep.h"

enum { PAPER_TOKEN, PAPER_SEQUENCE };
enum { PAPER_MEAN, PAPER_MEDIAN, PAPER_MAX };
enum { PAPER_NAME = 64, PAPER_ORDER = 8 };

struct paper_cell {
    const struct conf_entry *entry;
    char task[PAPER_NAME];           /* "": every task */
    int  n;                          /* encoders: 1 with a value and a band, more in an order */
    char encoder[PAPER_ORDER][PAPER_NAME];
    int32_t lo, hi;                  /* lengths */
    double value, band;
};
struct paper { const char *source; int32_t metric, seeds; struct paper_cell *cell; size_t n, cap; };

/* n is 0 without such a section.  Texts belong to conf.  On failure nothing is left to free. */
int  paper_read(struct paper *, const struct conf *, struct lab_err *err);
/* Does the sweep run what each cell speaks of, at some length of its range? */
int  paper_check(const struct paper *, const struct sweep *, struct lab_err *err);
void paper_free(struct paper *);
#endif
