/* assert_near -- cmocka's missing assertion for arrays: fails with the worst element, both its values, and how many are off.
 *
 * An element is off when |got - want| > tolerance * scale; NaN is always off.  Include after <cmocka.h>.
 */
#ifndef LAB_TESTS_ASSERT_NEAR_H
#define LAB_TESTS_ASSERT_NEAR_H
#include <math.h>
#include <stddef.h>
#include "abi/lab_plugin.h"

static inline double near_largest(const lab_real *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) top = fmax(top, fabs((double)x[i]));
    return top;
}

/* got[i * stride] against want[i], i < n. */
static inline void near_check(const char *what, const lab_real *got, size_t stride, const double *want, size_t n, double limit,
                              const char *file, int line)
{
    size_t off = 0, worst = 0;
    double largest = -1;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i * stride] - want[i]);
        if (!(difference <= limit)) off++;
        if (!(difference <= largest)) worst = i, largest = difference;
        if (isnan(difference)) break;
    }
    if (!off) return;
    print_error("%s: %zu of %zu values are off by more than %.3g; worst [%zu]: got %.17g, expected %.17g (difference %.3g)\n",
                what, off, n, limit, worst * stride, (double)got[worst * stride], want[worst], largest);
    _fail(file, line);
}
#define assert_near(what, got, stride, want, n, limit) near_check(what, got, stride, want, n, limit, __FILE__, __LINE__)

static inline void near_check_one(const char *what, double got, double want, double limit, const char *file, int line)
{
    if (fabs(got - want) <= limit) return;
    print_error("%s: got %.17g, expected %.17g (difference %.3g, limit %.3g)\n", what, got, want, fabs(got - want), limit);
    _fail(file, line);
}
#define assert_near_one(what, got, want, limit) near_check_one(what, got, want, limit, __FILE__, __LINE__)
#endif
