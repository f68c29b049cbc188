/* study -- an experiment as the database holds it: its runs, grouped into what is compared.
 *
 * A panel is one table: a task with its options, and a training length.  An arm is one row of it: an encoder with the
 * values of the other axes.  A point is one run at one length.  Loads once and changes nothing; a run that failed or
 * was never started is as much part of it as one that is done.
 */
#ifndef LAB_ANSWER_STUDY_H
#define LAB_ANSWER_STUDY_H
#include "base/str.h"
#include "store/store.h"

enum { STUDY_NO_SWEEP = 1 };         /* what study_load and all that call it return when there is nothing to show */
#define STUDY_SOLVED 0.95            /* token accuracy from which a run counts as having learned the task */
#define STUDY_LEAK_MARGIN 0.02       /* above the ceiling: four standard errors of 1000 sequences of 8 tokens */
#define STUDY_DEFAULT_DB "results/lab.db"    /* what lab opens without --db */

enum study_text { STUDY_TASK, STUDY_TASK_KEY, STUDY_TRAIN, STUDY_ENCODER, STUDY_LABEL, STUDY_STATUS, STUDY_REASON, STUDY_LOG,
                  STUDY_VARIANT, STUDY_BUDGET, STUDY_CODE, STUDY_MACHINE, STUDY_SELECTION, STUDY_N_TEXT };
struct study_run {
    char *text[STUDY_N_TEXT];        /* never NULL; budget, code, machine: what was spent, what ran and on what, for people */
    int64_t ordinal, seed, parameters, selected_step;        /* selected_step: whose weights were tested, 0 = the last */
    double chance, step_ms, train_loss;      /* NaN: not known */
    int causal, diverged, arm;       /* diverged: some number of its last attempt was not finite */
};
struct study_arm { int run, panel, planned; };               /* run: the first of it; planned: seeds */
struct study_panel { int run, planned; };                    /* planned: most seeds of an arm */
struct study_point {
    int panel, arm, run, data;       /* data: number of the evaluation data set; equal only if the data are */
    int64_t length, n;               /* n: sequences */
    double token, sequence, loss;    /* loss: NaN where it was not finite */
};
struct study {
    struct store *store;
    char id[24];                     /* the sweep's in the database */
    char *name, *question, *ini_sha256, *ini_text;
    struct study_run *run;     size_t n_run, cap_run;
    struct study_arm *arm;     size_t n_arm, cap_arm;
    struct study_panel *panel; size_t n_panel, cap_panel;
    struct study_point *point; size_t n_point, cap_point;    /* by panel, length, arm, run */
    char **data;               size_t n_data, cap_data;      /* SHA-256 of the evaluation data sets */
    size_t cursor;                   /* while loading */
    double *sample;                  /* room for one value of each run */
    int failed;                      /* a row could not be kept: err says why */
    struct lab_err *err;
};

/* The sweep of the experiment file with this hash, NULL: the sweep entered last.
 * 0, -1, or STUDY_NO_SWEEP with what to do in err; whatever it says, study_release follows.  err must outlive the study. */
int  study_load(struct study *, struct store *, const char *ini_sha256, struct lab_err *err);
void study_release(struct study *);

/* A SELECT with ?1 = the sweep's id, row by row; the row function returns nonzero to stop, and sets failed for an error. */
int study_query(struct study *, const char *sql, int (*row)(void *, int, const struct store_value *), void *ctx);

const char *study_text(const struct study *, int run, enum study_text);
double study_real(const struct store_value *);               /* NaN if it is no number */

/* One cell: the points of an arm at a length. */
struct study_cell { const struct study_point *point; int n; double mean, half_width, min, max, sequence; int solved; };
struct study_cell study_cell(const struct study *, int panel, int arm, int64_t length);

/* The lengths that any run of the panel was evaluated at, ascending; NULL out of memory.  The caller frees it. */
int64_t *study_lengths(const struct study *, int panel, int *n);
int64_t study_longest(const struct study *, int panel);      /* seen in training */
int  study_seen(const struct study *, int panel, int64_t length);
int  study_labels_differ(const struct study *, int panel);
void study_arm_name(const struct study *, int arm, struct str *out);     /* replaces what is in out */
/* Order-blind ceiling; NaN: not known, or no bound on these models. */
int  study_ceiling(const struct study *, int panel, int64_t length, double *value);
/* What the most frequent target of each place gets right; NaN: not known. */
int  study_majority(const struct study *, int panel, int64_t length, double *value);

/* What chose the weights that were tested, and of which steps they are; "" if they are the last. */
void study_write_selection(const struct study *, int panel, struct str *out);

int  study_is_failure(const struct study_run *);
void study_write_failures(const struct study *, struct str *out);        /* what did not succeed, and why; "" if nothing */
#endif
