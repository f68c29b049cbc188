/* stats -- what may be said about a handful of seeds: intervals, paired tests, ranks over tasks.
 *
 * Student's t, not the bootstrap, for one mean: of three to five seeds a nominal 95 % bootstrap interval covers the
 * truth in about 75 to 85 % of cases, a t interval in 95 %.  Pairs are tested by flipping their signs, which assumes
 * nothing about how accuracies are distributed.  What is not defined (mean of none, deviation of one) is NaN, never 0.
 */
#ifndef LAB_ANSWER_STATS_H
#define LAB_ANSWER_STATS_H
#include <stdint.h>
#include "abi/lab_plugin.h"

/* ---- one sample: x [n] ---- */
double stats_mean(const double *x, int n);
double stats_sd(const double *x, int n);                     /* of a sample: n - 1 below */
double stats_median(double *x, int n);                       /* sorts x */
double stats_t_quantile(double p, double degrees);           /* 0 < p < 1; degrees > 0, INFINITY = normal */
double stats_half_width(const double *x, int n);             /* of the 95 % t interval of the mean */

/* 95 % interval of a rate: k right of n > 0 (Wilson 1927). */
void stats_wilson(double k, double n, double *lo, double *hi);

/* ---- pairs: d [n] differences at equal seeds ---- */
enum { STATS_EXACT = 20,             /* pairs up to which every choice of signs is counted */
       STATS_FLIPS = 100000,         /* choices drawn beyond */
       STATS_RESAMPLES = 10000,      /* of a bootstrap */
       STATS_SEED = 1 };             /* of all that is drawn: printed beside the result */
double stats_correlation(const double *x, const double *y, int n);       /* Pearson's; NaN if one of them does not vary */
/* Two-sided p of mean 0, by the share of sign choices whose |sum| is at least the one seen. */
double stats_sign_flip(const double *d, int n);
double stats_smallest_p(int n);      /* that n pairs can give */
int    stats_pairs_for(double p);    /* fewest pairs whose smallest p is below this */
/* Holm's adjustment of p [m] to adjusted [m]; NaN are no tests, and stay. */
int    stats_holm(const double *p, int m, double *adjusted, struct lab_err *err);
/* How often a run of b [n_b] is above one of a [n_a], ties half; and the same at equal seeds. */
double stats_improvement(const double *a, int n_a, const double *b, int n_b);
double stats_improvement_paired(const double *d, int n);

/* ---- over tasks: x of all tasks one after another, n [tasks] of each ---- */
struct stats_interval { double value, lo, hi; };
/* Mean of the middle half, with a 95 % percentile interval from resampling seeds within each task. */
int stats_iqm(const double *x, const int *n, int tasks, struct stats_interval *out, struct lab_err *err);

/* rank [k] of x [k]: 1 for the largest, ties averaged; NaN come last, as if they were the smallest. */
void stats_ranks(const double *x, int k, double *rank);
struct stats_friedman { double chi2, f, p; };                /* p: of F with k - 1 and (k - 1)(tasks - 1) degrees */
/* Do the mean ranks of k methods differ?  rank [tasks, k].  F as Iman and Davenport (1980). */
void   stats_friedman(const double *rank, int tasks, int k, struct stats_friedman *out);
double stats_nemenyi(int k, int tasks);                      /* critical difference of mean ranks at 0.05; NaN for k > 10 */
double stats_f_tail(double f, double d1, double d2);         /* P(F > f) */
#endif
