/* compare -- is one encoder better than another, and could that be luck?
 *
 * Arms are compared with a baseline at equal seeds, which had equal data and equal initial weights.  Refused unless
 * asked for: pairs that differ in evaluation data, training budget or code.  Nothing is left out in silence: missing,
 * failed and diverged runs are counted, and what so few seeds cannot show is said.
 */
#ifndef LAB_ANSWER_COMPARE_H
#define LAB_ANSWER_COMPARE_H
#include "answer/stats.h"
#include "answer/study.h"
#include "answer/table.h"

enum { COMPARE_REFUSED = 2 };        /* beside 0 and -1: what was asked cannot be answered, err says why */
struct compare_options {             /* NULL: the first arm of the file; every task; lengths past training; token accuracy */
    const char *baseline, *task, *lengths, *metric;
    int allow_mixed;
};
struct compare_cell {                /* an arm over the chosen lengths; accuracies from 0 to 1, loss in nat/token */
    int n, failed, diverged, solved; /* runs; n: with a value at every chosen length */
    double mean, half_width, min, max;
    double seen, l50;                /* mean at the lengths of training; median over seeds of the longest with half right */
};
struct compare_pair {                /* an arm against its baseline at equal seeds */
    int arm, base, n, dropped;       /* dropped: seeds that only one of them has */
    double difference, half_width, r, p, p_holm;             /* difference: arm - baseline */
    double better, improvement;      /* share of pairs, and of all cross pairs, in which the arm is better; ties half */
};
struct compare_panel { int panel, n_length, all; int64_t *length; };     /* all: nothing is past training, so every length */
struct compare_row {                 /* an arm over the tasks of a group */
    int arm;                         /* its first */
    double rank, mrr, difference, p, p_holm, improvement;
    struct stats_interval iqm;
};
struct compare_group {               /* tasks trained at the same length */
    int first, tasks;                /* index of its first panel in compare.panel */
    struct compare_row *row; int n_row, dropped;             /* dropped: arms that some task lacks */
    struct stats_friedman friedman;
    double critical;                 /* difference of mean ranks */
};
struct compare {
    struct study *study;
    struct compare_options options;
    int metric, lower;               /* lower: small is good */
    int *order, *arm_start;          /* runs by arm and seed; an arm's begin at order[arm_start[arm]] */
    double *score, *seen, *l50;      /* of each run; NaN if it has none */
    uint64_t *data;                  /* names the evaluation data of each run at the chosen lengths */
    struct compare_cell *cell;       /* of each arm */
    struct compare_panel *panel; int n_panel;
    struct compare_pair *pair;   int n_pair;
    struct compare_group *group; int n_group;
    int mixed_data, mixed_budget, mixed_code;                /* pairs that were allowed all the same */
    int mixed_machine, machine_run, machine_base;            /* pairs computed on two kinds of machine; one of them */
    double *work;                    /* room for values of all runs, four times */
    struct lab_err *err;
};
/* 0, -1 or COMPARE_REFUSED; whatever it says, compare_release follows.  The study must outlive it. */
int  compare_build(struct compare *, struct study *, const struct compare_options *);
void compare_release(struct compare *);

void compare_write(const struct compare *, struct str *out);             /* tables of at most 100 columns */
void compare_json(const struct compare *, struct str *out);

/* The tables of compare_write one by one; whole: names are not shortened.  compare_pairs returns whether there are any. */
void compare_cells(const struct compare *, const struct compare_panel *, int whole, struct table *);
int  compare_pairs(const struct compare *, const struct compare_panel *, int whole, struct table *);
void compare_rows(const struct compare *, const struct compare_group *, int whole, struct table *);
/* Any two arms at equal seeds; p is not adjusted.  0, -1 or COMPARE_REFUSED. */
int  compare_two(struct compare *, int arm, int base, struct compare_pair *out);

extern const char *const compare_metrics[];                  /* ends in NULL */
const char *compare_metric_name(const struct compare *);     /* in words */
void compare_lengths(const struct compare_panel *, struct str *out);     /* appends "length 12" or "mean over lengths 12, 16" */
void compare_p(double p, char text[16]);                     /* "0.250", "0.0625", "1e-05"; "-" for none */
#endif
