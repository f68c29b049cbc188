/* stats -- what the tables say about a handful of seeds: means, t intervals, Wilson intervals.
 *
 * Student's t, not the bootstrap: of three to five seeds a nominal 95 % bootstrap interval covers the truth in
 * about 75 to 85 % of cases, a t interval in 95 %.
 */
#ifndef LAB_ANSWER_STATS_H
#define LAB_ANSWER_STATS_H

/* x [n] everywhere.  What is not defined (mean of none, deviation of one) is NaN, never 0. */
double stats_mean(const double *x, int n);
double stats_sd(const double *x, int n);                     /* of a sample: n - 1 below */
double stats_t_quantile(double p, double degrees);           /* 0 < p < 1; degrees > 0, INFINITY = normal */
double stats_half_width(const double *x, int n);             /* of the 95 % t interval of the mean */

/* 95 % interval of a rate: k right of n > 0 (Wilson 1927). */
void stats_wilson(double k, double n, double *lo, double *hi);
#endif
