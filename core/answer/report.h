/* report -- an experiment as one page of HTML: the answer in words first, then everything it rests on.
 *
 * Self-contained: no script, no network, no picture but its own.  The same database gives the same bytes: no time of
 * writing and no path is in it.
 */
#ifndef LAB_ANSWER_REPORT_H
#define LAB_ANSWER_REPORT_H
#include "answer/compare.h"

/* baseline NULL: the first encoder of the file.  0, -1, or COMPARE_REFUSED with the reason in the study's err. */
int report_write(struct study *, const char *baseline, struct str *out);
#endif
