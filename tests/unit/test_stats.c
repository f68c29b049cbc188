/* test_stats -- against published tables and values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "answer/stats.h"
#include "base/rng.h"

static struct lab_err err;

static void near(double found, double expected, double within, const char *what)
{
    if (fabs(found - expected) <= within) return;
    fail_msg("%s: found %.12g, expected %.12g within %g", what, found, expected, within);
}

static void t_quantile_is_the_published_one(void **state)
{
    static const struct { double p, degrees, value; } row[] = {      /* R: qt(p, df), 7 digits; also in any t table to 3 */
        { 0.975, 1, 12.706205 },  { 0.975, 2, 4.302653 },    { 0.975, 3, 3.182446 },    { 0.975, 4, 2.776445 },
        { 0.975, 5, 2.570582 },   { 0.975, 9, 2.262157 },    { 0.975, 19, 2.093024 },   { 0.975, 30, 2.042272 },
        { 0.975, 100, 1.983972 }, { 0.975, 1000, 1.962339 }, { 0.975, INFINITY, 1.959964 },
        { 0.995, 2, 9.924843 },   { 0.95, 10, 1.812461 },    { 0.5, 7, 0 },             { 0.025, 4, -2.776445 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char what[64];
        snprintf(what, sizeof what, "t(%g, %g)", row[i].p, row[i].degrees);
        near(stats_t_quantile(row[i].p, row[i].degrees), row[i].value, 1e-6, what);
    }
}
static void t_quantile_closed_forms(void **state)
{
    (void)state;                     /* one degree is Cauchy: tan(pi (p - 1/2)); two: (2p - 1) sqrt(2 / (4p(1 - p))) */
    for (double p = 0.55; p < 0.9999; p += 0.01) {
        near(stats_t_quantile(p, 1), tan(M_PI * (p - 0.5)), 1e-9 * (1 + tan(M_PI * (p - 0.5))), "Cauchy");
        near(stats_t_quantile(p, 2), (2 * p - 1) * sqrt(2 / (4 * p * (1 - p))), 1e-9 * 20, "two degrees");
    }
}
static void t_quantile_of_nonsense_is_nan(void **state)
{
    (void)state;
    assert_true(isnan(stats_t_quantile(0, 3)) && isnan(stats_t_quantile(1, 3)) && isnan(stats_t_quantile(0.975, 0)));
    assert_true(isnan(stats_t_quantile(NAN, 3)));
}
static void moments(void **state)
{
    const double x[] = { 2, 4, 4, 4, 5, 5, 7, 9 };           /* sum of squared deviations 32 */
    (void)state;
    near(stats_mean(x, 8), 5, 0, "mean");
    near(stats_sd(x, 8), sqrt(32.0 / 7), 1e-15, "sample deviation");
    assert_true(isnan(stats_mean(x, 0)) && isnan(stats_sd(x, 1)) && isnan(stats_half_width(x, 1)));
}
static void half_width(void **state)
{
    const double two[] = { 0, 1 }, three[] = { 0.69, 0.70, 0.71 };
    (void)state;
    near(stats_half_width(two, 2), 12.706205 * 0.5, 1e-6, "two values: t * (1/sqrt 2) / sqrt 2");
    near(stats_half_width(three, 3), 4.302653 * 0.01 / sqrt(3), 1e-8, "three values");
    near(stats_half_width((const double[]){ 0.2, 0.2, 0.2 }, 3), 0, 0, "equal values, whose sum is rounded");
}
static void wilson(void **state)
{
    double lo, hi;
    (void)state;                     /* 81 of 263: Newcombe 1998, table I, method 3; 0 of 10: z^2 / (n + z^2) */
    stats_wilson(81, 263, &lo, &hi);
    near(lo, 0.2553, 5e-5, "81/263 low"), near(hi, 0.3662, 5e-5, "81/263 high");
    stats_wilson(15, 148, &lo, &hi);
    near(lo, 0.0624, 5e-5, "15/148 low"), near(hi, 0.1605, 5e-5, "15/148 high");
    stats_wilson(0, 10, &lo, &hi);
    near(lo, 0, 0, "0/10 low"), near(hi, 3.841459 / 13.841459, 1e-6, "0/10 high");
    stats_wilson(10, 10, &lo, &hi);
    near(lo, 10 / 13.841459, 1e-6, "10/10 low"), near(hi, 1, 1e-15, "10/10 high");
}

static void median(void **state)
{
    (void)state;
    near(stats_median((double[]){ 3, 1, 2 }, 3), 2, 0, "odd"), near(stats_median((double[]){ 4, 1, 3, 2 }, 4), 2.5, 0, "even");
    assert_true(isnan(stats_median(NULL, 0)));
}

/* ---- pairs ---- */

static void correlation_of_anscombe(void **state)
{
    static const double x[] = { 10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5 };   /* Anscombe 1973, first set: r = 0.816 */
    static const double y[] = { 8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68 };
    (void)state;                     /* by hand: 55.01 / sqrt(110 * 41.2726909) */
    near(stats_correlation(x, y, 11), 55.01 / sqrt(110 * 41.27269091), 1e-9, "Anscombe");
    near(stats_correlation((double[]){ 1, 2, 3 }, (double[]){ 6, 4, 2 }, 3), -1, 1e-15, "a falling line");
    assert_true(isnan(stats_correlation((double[]){ 1, 2 }, (double[]){ 3, 3 }, 2)) && isnan(stats_correlation(x, y, 1)));
}

/* Darwin's 15 pairs of maize plants (eighths of an inch). Fisher 1935, section 21: of 32768 choices of signs 863 give
 * at least the sum of 314, so 1726 do in either direction. */
static const double darwin[] = { 49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48 };

static void sign_flip_is_fishers(void **state)
{
    double thirty[30] = { 0 };
    (void)state;
    near(stats_sign_flip(darwin, 15), 1726.0 / 32768, 1e-15, "Darwin");
    for (int i = 0; i < 15; i++) thirty[i] = darwin[i];      /* 15 zeros change no sum, but 30 pairs are drawn */
    near(stats_sign_flip(thirty, 30), 1726.0 / 32768, 4 * sqrt(0.0527 * 0.9473 / STATS_FLIPS), "Darwin and 15 zeros");
    near(stats_sign_flip(thirty, 20), 1726.0 / 32768, 1e-15, "Darwin and 5 zeros, all counted");
    assert_true(stats_sign_flip(thirty, 30) == stats_sign_flip(thirty, 30));
}
static void sign_flip_by_hand(void **state)
{
    (void)state;
    near(stats_sign_flip((double[]){ 1, 2, 3 }, 3), 2.0 / 8, 0, "+++ and ---");
    near(stats_sign_flip((double[]){ 1, 2, -0.5 }, 3), 4.0 / 8, 0, "|2.5| is reached by ++-, +++ and their opposites");
    near(stats_sign_flip((double[]){ 0.1, 0.2, -0.3 }, 3), 1, 0, "sum 0, but for rounding");
    near(stats_sign_flip((double[]){ 0, 0 }, 2), 1, 0, "no difference");
    near(stats_sign_flip((double[]){ 5 }, 1), 1, 0, "one pair tells nothing");
    near(stats_sign_flip((double[]){ 0.3, 0.1, 0.2, 0.1, 0.3, 0.2 }, 6), 0.03125, 0, "six of one sign");
    assert_true(isnan(stats_sign_flip(NULL, 0)));
}
static void smallest_p(void **state)
{
    (void)state;
    near(stats_smallest_p(3), 0.25, 0, "3"), near(stats_smallest_p(5), 0.0625, 0, "5"), near(stats_smallest_p(6), 0.03125, 0, "6");
    near(stats_smallest_p(21), 1.0 / 100001, 1e-18, "drawn");
    assert_int_equal(stats_pairs_for(0.1), 5);
    assert_int_equal(stats_pairs_for(0.05), 6);
    assert_int_equal(stats_pairs_for(0.0625), 6);            /* below, not at */
}
static void holm(void **state)
{
    static const double p[] = { 0.01, 0.04, NAN, 0.03, 0.005, 0.9 }, want[] = { 0.04, 0.09, NAN, 0.09, 0.025, 0.9 };
    double got[6];
    (void)state;                     /* by hand: .005*5, .01*4, .03*3, max(.09, .04*2), max(.09, .9) */
    assert_int_equal(stats_holm(p, 6, got, &err), 0);
    for (int i = 0; i < 6; i++)
        if (i == 2) assert_true(isnan(got[i]));
        else near(got[i], want[i], 1e-15, "Holm");
    assert_int_equal(stats_holm((double[]){ 0.7, 0.6 }, 2, got, &err), 0);
    near(got[0], 1, 0, "never above 1");
}
static void improvement(void **state)
{
    (void)state;                     /* pairs (a, b): 2>1 3>1 2=2 3>2: 3.5 of 4 */
    near(stats_improvement((double[]){ 1, 2 }, 2, (double[]){ 2, 3 }, 2), 0.875, 0, "unpaired");
    near(stats_improvement_paired((double[]){ 1, 0, -1, 2 }, 4), 0.625, 0, "paired");
    assert_true(isnan(stats_improvement(NULL, 0, NULL, 0)) && isnan(stats_improvement_paired(NULL, 0)));
}

/* ---- over tasks ---- */

static void iqm_by_hand(void **state)
{
    static const double x[] = { 9, 1, 2, 3, 4, 5, 6, 100 };  /* sorted 1 2 [3 4 5 6] 9 100 */
    struct stats_interval i;
    (void)state;
    assert_int_equal(stats_iqm(x, (int[]){ 5, 3 }, 2, &i, &err), 0);
    near(i.value, 4.5, 1e-15, "middle half of eight");
    assert_true(i.lo < 4.5 && 4.5 < i.hi);
    assert_int_equal(stats_iqm(x, (int[]){ 5 }, 1, &i, &err), 0);
    near(i.value, 3, 1e-15, "of five, one is cut at each end: 2 3 4");
    /* tasks of one seed each: nothing to resample, so no width, wherever the tasks lie */
    assert_int_equal(stats_iqm((double[]){ 0.1, 0.5, 0.9 }, (int[]){ 1, 1, 1 }, 3, &i, &err), 0);
    near(i.lo, i.value, 1e-15, "low"), near(i.hi, i.value, 1e-15, "high");
    assert_int_equal(stats_iqm(NULL, (int[]){ 0 }, 1, &i, &err), 0);
    assert_true(isnan(i.value) && isnan(i.lo));
    /* one task, two seeds 0 and 1: a resample is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4 */
    assert_int_equal(stats_iqm((double[]){ 0, 1 }, (int[]){ 2 }, 1, &i, &err), 0);
    near(i.lo, 0, 0, "0 has a quarter of the resamples"), near(i.hi, 1, 0, "1 too");
}
static void ranks_average_ties(void **state)
{
    static const double x[] = { 0.5, 0.9, NAN, 0.9, 0.1, NAN }, want[] = { 3, 1.5, 5.5, 1.5, 4, 5.5 };
    double rank[6];
    (void)state;
    stats_ranks(x, 6, rank);
    for (int i = 0; i < 6; i++) near(rank[i], want[i], 0, "rank");
}

/* Demsar 2006, table 6: ranks of four variants of C4.5 on 14 data sets. He gives mean ranks 3.143 2.000 2.893 1.964,
 * chi2 = 9.28 (without a correction for ties), F = 3.69 from it, and a critical difference of 1.25. */
static const double demsar[14][4] = {
    { 4, 3, 2, 1 }, { 1, 2, 3, 4 }, { 4, 1, 2, 3 }, { 4, 1, 3, 2 }, { 4, 2, 3, 1 }, { 1, 2.5, 4, 2.5 }, { 3, 2, 4, 1 },
    { 2.5, 2.5, 4, 1 }, { 4, 3, 2, 1 }, { 2.5, 2.5, 2.5, 2.5 }, { 4, 2.5, 1, 2.5 }, { 3, 2, 4, 1 }, { 4, 1, 2, 3 }, { 3, 1, 4, 2 } };

static void friedman_is_demsars(void **state)
{
    struct stats_friedman f;
    double correction = 1 - 78.0 / 840;                      /* ties: 2 2 2 4, so 6 + 6 + 6 + 60 over 14 * 4 * 15 */
    (void)state;
    stats_friedman(demsar[0], 14, 4, &f);
    near(f.chi2 * correction, 9.28, 0.005, "chi2 without the correction");
    near(13 * 9.28 / (14 * 3 - 9.28), 3.69, 0.005, "his F");
    near(f.f, 13 * f.chi2 / (14 * 3 - f.chi2), 1e-12, "F");
    near(stats_f_tail(2.85, 3, 39), 0.05, 0.0005, "his critical value of F(3, 39)");
    assert_true(f.p < stats_f_tail(3.69, 3, 39) && stats_f_tail(3.69, 3, 39) < 0.05);
    near(stats_nemenyi(4, 14), 1.25, 0.005, "critical difference");
    assert_true(isnan(stats_nemenyi(1, 5)) && isnan(stats_nemenyi(11, 5)));
}
static void friedman_at_its_ends(void **state)
{
    struct stats_friedman f;
    (void)state;
    stats_friedman((double[]){ 1, 2, 3, 1, 2, 3 }, 2, 3, &f);
    near(f.chi2, 4, 1e-12, "agreement: N (k - 1)");
    assert_true(isinf(f.f) && f.p == 0);
    stats_friedman((double[]){ 1, 2, 2, 1 }, 2, 2, &f);
    near(f.chi2, 0, 1e-12, "disagreement"), near(f.p, 1, 1e-12, "its p");
    stats_friedman((double[]){ 1.5, 1.5, 1.5, 1.5 }, 2, 2, &f);
    assert_true(isnan(f.chi2) && isnan(f.p));
    stats_friedman((double[]){ 1, 2 }, 1, 2, &f);
    assert_true(isnan(f.chi2));
}
static void f_tail_closed_forms(void **state)
{
    (void)state;                     /* two degrees above: (1 + 2F/d)^(-d/2); one: Student's t, both tails */
    for (double f = 0.1; f < 20; f *= 1.7) {
        near(stats_f_tail(f, 2, 10), pow(1 + 2 * f / 10, -5), 1e-12, "F(2, 10)");
        near(stats_f_tail(f, 1, 1), 1 - 2 / M_PI * atan(sqrt(f)), 1e-12, "F(1, 1)");
    }
}

/* ---- do they keep their word?  Simulated, with fixed seeds ---- */

enum { REPEATS = 10000 };
static struct lab_rng rng;
static void normals(double *x, int n) { for (int i = 0; i < n; i++) x[i] = rng_normal(&rng); }

static void t_intervals_cover(void **state)
{
    static const int seeds[] = { 3, 5, 10, 20 };
    (void)state;
    rng = rng_stream(7, RNG_RESAMPLE, 0, 0);
    for (int s = 0; s < 4; s++) {
        int covered = 0, n = seeds[s];
        double x[20];
        for (int r = 0; r < REPEATS; r++) {
            normals(x, n);
            covered += fabs(stats_mean(x, n)) <= stats_half_width(x, n);
        }
        near(covered * 100.0 / REPEATS, 95, 1.5, "coverage of the t interval, %");
    }
}
static void wilson_intervals_cover(void **state)
{
    int covered = 0;
    (void)state;                     /* 1000 tokens, true rate drawn from 0.02 to 0.98 */
    rng = rng_stream(8, RNG_RESAMPLE, 0, 0);
    for (int r = 0; r < REPEATS / 5; r++) {
        double rate = 0.02 + 0.96 * lab_rng_unit(&rng), lo, hi;
        int k = 0;
        for (int i = 0; i < 1000; i++) k += lab_rng_unit(&rng) < rate;
        stats_wilson(k, 1000, &lo, &hi);
        covered += lo <= rate && rate <= hi;
    }
    near(covered * 500.0 / REPEATS, 95, 1.5, "coverage of Wilson's interval, %");
}

/* Skewed and correlated runs with the same mean: differences are symmetric under the null. */
static double skewed(void) { double z = rng_normal(&rng); return z * z; }

static void sign_flips_rarely_err(void **state)
{
    static const int pairs[] = { 5, 6, 8, 12 };
    (void)state;
    rng = rng_stream(9, RNG_RESAMPLE, 0, 0);
    for (int s = 0; s < 4; s++) {
        int errors = 0;
        double d[12];
        for (int r = 0; r < REPEATS; r++) {
            for (int i = 0; i < pairs[s]; i++) d[i] = skewed() - skewed();
            errors += stats_sign_flip(d, pairs[s]) <= 0.05;
        }
        if (errors > 0.05 * REPEATS) fail_msg("%d pairs: %d of %d null differences called real", pairs[s], errors, REPEATS);
        if (pairs[s] == 5) assert_int_equal(errors, 0);      /* 1/16 is the smallest p */
        if (pairs[s] > 5 && errors < 0.02 * REPEATS) fail_msg("%d pairs: only %d of %d: too shy", pairs[s], errors, REPEATS);
    }
}
static void drawn_flips_rarely_err(void **state)
{
    int errors = 0, repeats = 300;
    double d[40];
    (void)state;
    rng = rng_stream(10, RNG_RESAMPLE, 0, 0);
    for (int r = 0; r < repeats; r++) {
        for (int i = 0; i < 40; i++) d[i] = skewed() - skewed();
        errors += stats_sign_flip(d, 40) <= 0.05;
    }
    if (errors > 0.05 * repeats) fail_msg("%d of %d null differences called real", errors, repeats);
    assert_true(errors > 0);
}
static void holm_keeps_the_family(void **state)
{
    int errors = 0;
    (void)state;                     /* four comparisons, all null: any p below 0.05 after Holm is an error */
    rng = rng_stream(11, RNG_RESAMPLE, 0, 0);
    for (int r = 0; r < REPEATS / 5; r++) {
        double p[4], adjusted[4], d[9];
        for (int m = 0; m < 4; m++) normals(d, 9), p[m] = stats_sign_flip(d, 9);
        assert_int_equal(stats_holm(p, 4, adjusted, &err), 0);
        errors += adjusted[0] <= 0.05 || adjusted[1] <= 0.05 || adjusted[2] <= 0.05 || adjusted[3] <= 0.05;
    }
    if (errors > 0.05 * REPEATS / 5) fail_msg("%d of %d families", errors, REPEATS / 5);
}
static void friedman_rarely_errs(void **state)
{
    int errors = 0, far = 0;
    (void)state;                     /* 5 equal methods on 12 tasks; nominal, so within 1.5 % of 5 */
    rng = rng_stream(12, RNG_RESAMPLE, 0, 0);
    for (int r = 0; r < REPEATS; r++) {
        double x[5], rank[12][5], mean[5] = { 0 }, lo = 9, hi = 0;
        struct stats_friedman f;
        for (int task = 0; task < 12; task++) {
            normals(x, 5), stats_ranks(x, 5, rank[task]);
            for (int j = 0; j < 5; j++) mean[j] += rank[task][j] / 12;
        }
        for (int j = 0; j < 5; j++) lo = fmin(lo, mean[j]), hi = fmax(hi, mean[j]);
        stats_friedman(rank[0], 12, 5, &f);
        errors += f.p <= 0.05;
        far += hi - lo >= stats_nemenyi(5, 12);
    }
    near(errors * 100.0 / REPEATS, 5, 1.5, "null tasks that Friedman's test rejects, %");
    if (far > 0.05 * REPEATS) fail_msg("Nemenyi: %d of %d", far, REPEATS);
}
/* Known to fall short at few seeds: .91 to .94 at ten seeds of eight tasks in published simulations. */
static void iqm_intervals_cover_as_known(void **state)
{
    int covered = 0, repeats = 300, n[8];
    double x[80];
    (void)state;
    rng = rng_stream(13, RNG_RESAMPLE, 0, 0);
    for (int task = 0; task < 8; task++) n[task] = 10;
    for (int r = 0; r < repeats; r++) {
        struct stats_interval i;
        normals(x, 80);
        assert_int_equal(stats_iqm(x, n, 8, &i, &err), 0);
        covered += i.lo <= 0 && 0 <= i.hi;
    }
    near(covered * 100.0 / repeats, 93, 4, "coverage of the IQM's bootstrap, %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_quantile_is_the_published_one), cmocka_unit_test(t_quantile_closed_forms),
        cmocka_unit_test(t_quantile_of_nonsense_is_nan), cmocka_unit_test(moments), cmocka_unit_test(half_width),
        cmocka_unit_test(wilson), cmocka_unit_test(median),
        cmocka_unit_test(correlation_of_anscombe), cmocka_unit_test(sign_flip_is_fishers), cmocka_unit_test(sign_flip_by_hand),
        cmocka_unit_test(smallest_p), cmocka_unit_test(holm), cmocka_unit_test(improvement), cmocka_unit_test(iqm_by_hand),
        cmocka_unit_test(ranks_average_ties), cmocka_unit_test(friedman_is_demsars), cmocka_unit_test(friedman_at_its_ends),
        cmocka_unit_test(f_tail_closed_forms), cmocka_unit_test(t_intervals_cover), cmocka_unit_test(wilson_intervals_cover),
        cmocka_unit_test(sign_flips_rarely_err), cmocka_unit_test(drawn_flips_rarely_err), cmocka_unit_test(holm_keeps_the_family),
        cmocka_unit_test(friedman_rarely_errs), cmocka_unit_test(iqm_intervals_cover_as_known),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
