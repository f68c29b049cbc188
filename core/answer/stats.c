/* stats -- see stats.h. */
#include "answer/stats.h"
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "base/rng.h"

double stats_mean(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / n : NAN;
}

double stats_sd(const double *x, int n)
{
    double mean = stats_mean(x, n), sum = 0;
    int equal = 1;                                           /* exactly 0 then, although their mean may be rounded */
    for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean), equal &= x[i] == x[0];
    return n < 2 ? NAN : equal ? 0 : sqrt(sum / (n - 1));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stats_median(double *x, int n)
{
    if (n < 1) return NAN;
    qsort(x, (size_t)n, sizeof *x, ascending);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* ---- distributions ---- */

/* The continued fraction of the incomplete beta function by Lentz's method; converges fast for x < (a+1)/(a+b+2)
 * (Abramowitz & Stegun 26.5.8). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;                              /* keeps a denominator off 0 */
    double c = 1, d = 1 - (a + b) * x / (a + 1), value;
    if (fabs(d) < tiny) d = tiny;
    value = d = 1 / d;
    for (int m = 1; m < 10000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int half = 0; half < 2; half++) {
            double term = half ? odd : even;
            d = 1 + term * d, c = 1 + term / c;
            if (fabs(d) < tiny) d = tiny;
            if (fabs(c) < tiny) c = tiny;
            d = 1 / d;
            value *= c * d;
        }
        if (fabs(c * d - 1) < 1e-16) break;
    }
    return value;
}

/* I_x(a, b), the share of Beta(a, b) below x; y = 1 - x is passed so that it keeps its digits near x = 1. */
static double incomplete_beta(double a, double b, double x, double y)
{
    if (x <= 0 || y <= 0) return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

/* P(T > t) for t >= 0. */
static double t_tail(double t, double degrees)
{
    if (isinf(degrees)) return erfc(t * M_SQRT1_2) / 2;
    double x = degrees / (degrees + t * t), y = t * t / (degrees + t * t);
    return incomplete_beta(degrees / 2, 0.5, x, y) / 2;
}

double stats_t_quantile(double p, double degrees)
{
    if (!(p > 0 && p < 1 && degrees > 0)) return NAN;
    double tail = p < 0.5 ? p : 1 - p, lo = 0, hi = 1;
    while (t_tail(hi, degrees) > tail && hi < 1e300) lo = hi, hi *= 2;
    for (int i = 0; i < 200 && lo < hi; i++) {               /* bisection: 60 steps reach the last bit */
        double middle = lo + (hi - lo) / 2;
        if (middle == lo || middle == hi) break;
        if (t_tail(middle, degrees) > tail) lo = middle;
        else hi = middle;
    }
    return p < 0.5 ? -hi : hi;
}

double stats_half_width(const double *x, int n)
{
    return n > 1 ? stats_t_quantile(0.975, n - 1) * stats_sd(x, n) / sqrt(n) : NAN;
}

void stats_wilson(double k, double n, double *lo, double *hi)
{
    double z = stats_t_quantile(0.975, INFINITY), p = k / n, scale = 1 + z * z / n;
    double centre = (p + z * z / (2 * n)) / scale;
    double half = z / scale * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    *lo = k > 0 ? centre - half : 0;
    *hi = k < n ? centre + half : 1;
}

/* ---- pairs ---- */

double stats_correlation(const double *x, const double *y, int n)
{
    double mean_x = stats_mean(x, n), mean_y = stats_mean(y, n), xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xx += dx * dx, yy += dy * dy, xy += dx * dy;
    }
    return n > 1 && xx > 0 && yy > 0 ? fmax(-1, fmin(1, xy / sqrt(xx * yy))) : NAN;
}

/* Every choice of signs, one flip apart from the last (Gray code).  The last sign stays: a choice and its opposite
 * have the same |sum|. */
static double flip_all(const double *d, int n, double bound)
{
    double sum = 0;
    uint32_t hits = 0, choices = 1u << (n - 1), negative = 0;
    for (int i = 0; i < n; i++) sum += d[i];
    for (uint32_t i = 1; ; i++) {
        hits += fabs(sum) >= bound;
        if (i == choices) return (double)hits / choices;
        int bit = __builtin_ctz(i);
        negative ^= 1u << bit;
        sum += negative >> bit & 1 ? -2 * d[bit] : 2 * d[bit];
    }
}

/* Drawn choices.  Eight signs at a time: byte [groups, 256] holds the sum for each choice of eight. */
static double flip_some(const double *d, int n, double bound)
{
    enum { GROUP = 8, CHOICES = 1 << GROUP };
    struct lab_err ignored;
    struct lab_rng rng = rng_stream(STATS_SEED, RNG_RESAMPLE, (uint32_t)n, 0);
    int groups = (n + GROUP - 1) / GROUP, hits = 0;
    double *byte = mem_alloc((size_t)groups * CHOICES * sizeof *byte, &ignored);
    if (!byte) return NAN;
    for (int g = 0; g < groups; g++)
        for (int choice = 0; choice < CHOICES; choice++)
            for (int i = 0; i < GROUP && g * GROUP + i < n; i++)
                byte[g * CHOICES + choice] += choice >> i & 1 ? -d[g * GROUP + i] : d[g * GROUP + i];
    for (int b = 0; b < STATS_FLIPS; b++) {
        double sum = 0;
        uint32_t word = 0;
        for (int g = 0; g < groups; g++, word >>= GROUP) {
            if (g % 4 == 0) word = lab_rng_u32(&rng);
            sum += byte[g * CHOICES + (word & (CHOICES - 1))];
        }
        hits += fabs(sum) >= bound;
    }
    free(byte);
    return (hits + 1.0) / (STATS_FLIPS + 1.0);
}

double stats_sign_flip(const double *d, int n)
{
    double sum = 0, size = 0;
    if (n < 1) return NAN;
    for (int i = 0; i < n; i++) sum += d[i], size += fabs(d[i]);
    double bound = fabs(sum) - 1e-12 * size;                 /* equal sums may differ in their last bits */
    return n <= STATS_EXACT ? flip_all(d, n, bound) : flip_some(d, n, bound);
}

double stats_smallest_p(int n)
{
    if (n < 1) return NAN;
    return n <= STATS_EXACT ? ldexp(1, 1 - n) : 1.0 / (STATS_FLIPS + 1.0);
}

int stats_pairs_for(double p)
{
    int n = 1;
    while (n <= STATS_EXACT && !(stats_smallest_p(n) < p)) n++;
    return n;
}

/* ---- several comparisons ---- */

struct indexed { double value; int index; };
static int by_value(const void *a, const void *b)
{
    const struct indexed *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

int stats_holm(const double *p, int m, double *adjusted, struct lab_err *err)
{
    struct indexed *order = mem_alloc((size_t)m * sizeof *order, err);
    int tests = 0;
    double largest = 0;
    if (!order) return -1;
    for (int i = 0; i < m; i++) {
        adjusted[i] = NAN;
        if (!isnan(p[i])) order[tests++] = (struct indexed){ p[i], i };
    }
    qsort(order, (size_t)tests, sizeof *order, by_value);
    for (int i = 0; i < tests; i++) {
        largest = fmax(largest, fmin(1, (tests - i) * order[i].value));
        adjusted[order[i].index] = largest;
    }
    free(order);
    return 0;
}

double stats_improvement(const double *a, int n_a, const double *b, int n_b)
{
    double wins = 0;
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++) wins += b[j] > a[i] ? 1 : b[j] == a[i] ? 0.5 : 0;
    return n_a > 0 && n_b > 0 ? wins / n_a / n_b : NAN;
}

double stats_improvement_paired(const double *d, int n)
{
    double wins = 0;
    for (int i = 0; i < n; i++) wins += d[i] > 0 ? 1 : d[i] == 0 ? 0.5 : 0;
    return n > 0 ? wins / n : NAN;
}

/* ---- over tasks ---- */

/* Mean of sorted values without a quarter at each end; value i stands there times[i] times, total in all. */
static double middle_half(const struct indexed *sorted, const int *times, int n, int total)
{
    int cut = total / 4, seen = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        int from = seen > cut ? seen : cut, to = seen + times[i] < total - cut ? seen + times[i] : total - cut;
        if (to > from) sum += (to - from) * sorted[i].value;
        seen += times[i];
    }
    return sum / (total - 2 * cut);
}

/* Between the two nearest of sorted x [n], in proportion. */
static double percentile(const double *x, int n, double share)
{
    double at = share * (n - 1);
    int i = (int)at;
    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

/* Values are sorted once; a resample only counts how often each was drawn. */
static void resample(const struct indexed *sorted, const int *rank, int *times, const int *n, int tasks, int total, double *out)
{
    struct lab_rng rng = rng_stream(STATS_SEED, RNG_RESAMPLE, (uint32_t)total, 1);
    for (int b = 0; b < STATS_RESAMPLES; b++) {
        for (int i = 0; i < total; i++) times[i] = 0;
        for (int task = 0, first = 0; task < tasks; first += n[task++])
            for (int i = 0; i < n[task]; i++) times[rank[first + (int)lab_rng_below(&rng, (uint32_t)n[task])]]++;
        out[b] = middle_half(sorted, times, total, total);
    }
    qsort(out, STATS_RESAMPLES, sizeof *out, ascending);
}

int stats_iqm(const double *x, const int *n, int tasks, struct stats_interval *out, struct lab_err *err)
{
    int total = 0, rc = -1;
    for (int task = 0; task < tasks; task++) total += n[task];
    *out = (struct stats_interval){ NAN, NAN, NAN };
    if (total == 0) return 0;
    struct indexed *sorted = mem_alloc((size_t)total * sizeof *sorted, err);
    int *rank = mem_alloc((size_t)total * sizeof *rank, err), *times = mem_alloc((size_t)total * sizeof *times, err);
    double *draw = mem_alloc(STATS_RESAMPLES * sizeof *draw, err);
    if (!sorted || !rank || !times || !draw) goto done;
    for (int i = 0; i < total; i++) sorted[i] = (struct indexed){ x[i], i }, times[i] = 1;
    qsort(sorted, (size_t)total, sizeof *sorted, by_value);
    for (int i = 0; i < total; i++) rank[sorted[i].index] = i;
    out->value = middle_half(sorted, times, total, total);
    resample(sorted, rank, times, n, tasks, total, draw);
    out->lo = percentile(draw, STATS_RESAMPLES, 0.025);
    out->hi = percentile(draw, STATS_RESAMPLES, 0.975);
    rc = 0;
done:
    free(sorted), free(rank), free(times), free(draw);
    return rc;
}

void stats_ranks(const double *x, int k, double *rank)
{
    for (int i = 0; i < k; i++) {
        int above = 0, equal = 0;
        for (int j = 0; j < k; j++) {
            above += isnan(x[i]) ? !isnan(x[j]) : x[j] > x[i];
            equal += isnan(x[i]) ? isnan(x[j]) : x[j] == x[i];
        }
        rank[i] = above + (equal + 1) / 2.0;
    }
}

double stats_f_tail(double f, double d1, double d2)
{
    if (isnan(f)) return NAN;
    if (isinf(f)) return 0;
    return incomplete_beta(d2 / 2, d1 / 2, d2 / (d2 + d1 * f), d1 * f / (d2 + d1 * f));
}

/* Sum of t^3 - t over the groups of t equal ranks in one row: each of the t members adds t^2 - 1. */
static double tie_term(const double *rank, int k)
{
    double sum = 0;
    for (int i = 0; i < k; i++) {
        int equal = 0;
        for (int j = 0; j < k; j++) equal += rank[j] == rank[i];
        sum += (double)equal * equal - 1;
    }
    return sum;
}

void stats_friedman(const double *rank, int tasks, int k, struct stats_friedman *out)
{
    double squares = 0, ties = 0, N = tasks;
    *out = (struct stats_friedman){ NAN, NAN, NAN };
    if (tasks < 2 || k < 2) return;
    for (int j = 0; j < k; j++) {
        double mean = 0;
        for (int i = 0; i < tasks; i++) mean += rank[i * k + j] / N;
        squares += mean * mean;
    }
    for (int i = 0; i < tasks; i++) ties += tie_term(rank + i * k, k);
    double correction = 1 - ties / (N * k * ((double)k * k - 1)), largest = N * (k - 1);
    if (correction <= 0) return;                             /* every task a tie of all */
    out->chi2 = 12 * N / (k * (k + 1.0)) * (squares - k * (k + 1.0) * (k + 1.0) / 4) / correction;
    if (out->chi2 > largest * (1 - 1e-12)) out->chi2 = largest;          /* all tasks agree: F is infinite */
    out->f = out->chi2 < largest ? (N - 1) * out->chi2 / (largest - out->chi2) : INFINITY;
    out->p = stats_f_tail(out->f, k - 1, (k - 1) * (N - 1));
}

double stats_nemenyi(int k, int tasks)
{
    /* studentised range at 0.05 over sqrt 2, for k = 2..10 (Demsar 2006, table 5) */
    static const double q[] = { 1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164 };
    return k >= 2 && k <= 10 && tasks > 0 ? q[k - 2] * sqrt(k * (k + 1) / (6.0 * tasks)) : NAN;
}
