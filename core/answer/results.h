/* results -- the answer on screen: for each task a table of encoders by evaluation length.
 *
 * Shows a mean over seeds with its 95 % t interval, beside what guessing and what a model without positions can
 * reach.  Nothing is left out in silence: missing seeds are counted in their cell, failed runs are listed.
 */
#ifndef LAB_ANSWER_RESULTS_H
#define LAB_ANSWER_RESULTS_H
#include <stdio.h>
#include "answer/study.h"
#include "answer/table.h"

/* The sweep of the experiment file with this hash, NULL: the sweep entered last.
 * 0, -1 with a database or output error, or STUDY_NO_SWEEP: nothing printed, err says what to do. */
int results_print(struct store *, const char *ini_sha256, FILE *out, struct lab_err *err);
/* The same numbers as a JSON array, one object for each encoder and length. */
int results_json(struct store *, const char *ini_sha256, FILE *out, struct lab_err *err);
/* One row an arm and length, every digit.  0, or -1 and no table; the caller frees it. */
int results_rows(struct study *, struct table *out);
/* One panel, all its lengths side by side, with chance and ceiling.  0, or -1 and no table; the caller frees it. */
int results_table(struct study *, int panel, struct table *out);
#endif
