/* test_stats -- against published tables and values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "answer/stats.h"

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
    near(stats_half_width((const double[]){ 0.5, 0.5, 0.5 }, 3), 0, 0, "equal values");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_quantile_is_the_published_one), cmocka_unit_test(t_quantile_closed_forms),
        cmocka_unit_test(t_quantile_of_nonsense_is_nan), cmocka_unit_test(moments), cmocka_unit_test(half_width),
        cmocka_unit_test(wilson),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
