/* stats -- see stats.h. */
#include "answer/stats.h"
#include <math.h>

double stats_mean(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / n : NAN;
}

double stats_sd(const double *x, int n)
{
    double mean = stats_mean(x, n), sum = 0;
    for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : NAN;
}

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
