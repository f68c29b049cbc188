/* dm_binary -- DeepMind's tasks on binary numbers of any size: binary_addition, binary_multiplication and compute_sqrt.
 * See dm.h for the tape.  Schoolbook arithmetic on one bit a token, lowest bit first, but for compute_sqrt: highest first.
 */
#include <math.h>
#include <string.h>
#include "dm.h"

enum { AND = 2 };                    /* the token between two numbers */

static int half(int len) { return (len + 1) / 2; }

/* Uniform on 1 .. 2^n - 1. */
static void positive(struct lab_rng *r, int32_t *bit, int n)
{
    for (int32_t any = 0; !any;) {
        dm_symbols(r, bit, n, 2);
        for (int i = 0; i < n; i++) any |= bit[i];
    }
}

/* Two numbers with a token between; or one, below 2^len - 1, if there is only room for that. */
static void draw_numbers(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d, (void)out;
    if (len <= 2) {
        int32_t x = (int32_t)lab_rng_below(r, (1u << len) - 1);
        for (int i = 0; i < len; i++) in[i] = x >> i & 1;
        return;
    }
    int a = 1 + (int)lab_rng_below(r, (uint32_t)len - 2);
    positive(r, in, a);
    in[a] = AND;
    positive(r, in + a + 1, len - 1 - a);
}

/* Bits of the first number. */
static int first_bits(int len, const int32_t *in)
{
    int a = 0;
    while (a < len && in[a] != AND) a++;
    return a;
}

static int is_positive(const int32_t *bit, int n) { while (n > 0 && !bit[n - 1]) n--; return n > 0; }

/* Two given numbers of a and b bits have a chance in proportion to 1 / ((1 - 2^-a) (1 - 2^-b)): a = 1 is the likeliest, and the other
 * places of the AND are taken in proportion to it. */
static void reorder_numbers(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    int a = first_bits(len, in);
    (void)d;
    if (a == len) {
        dm_shuffle(r, in, len);
        return;
    }
    for (int i = a; i + 1 < len; i++) in[i] = in[i + 1];
    for (double ratio;;) {
        a = 1 + (int)lab_rng_below(r, (uint32_t)len - 2);
        int b = len - 1 - a;
        dm_shuffle(r, in, len - 1);
        ratio = 0.5 * (1 - ldexp(1, 2 - len)) / ((1 - ldexp(1, -a)) * (1 - ldexp(1, -b)));
        if (is_positive(in, a) && is_positive(in + a, b) && lab_rng_unit(r) < ratio) break;
    }
    for (int i = len - 1; i > a; i--) in[i] = in[i - 1];
    in[a] = AND;
}

/* Carries in out[0..n), then cuts leading zeros, keeping one digit, and ends the answer. */
static void finish(int32_t *out, int n, int all)
{
    int32_t carry = 0;
    for (int i = 0; i < n; i++) {
        carry += out[i];
        out[i] = carry & 1;
        carry >>= 1;
    }
    while (n > 1 && !out[n - 1]) n--;
    dm_terminate(out, n, all);
}

static void binary_addition_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int a = first_bits(len, in), b = len - 1 - a;                    /* b < 0: there is one number */
    (void)d;
    for (int i = 0; i < len; i++) out[i] = (i < a ? in[i] : 0) + (i < b ? in[a + 1 + i] : 0);
    finish(out, len, len + 1);
}

/* Without room for two numbers the answer is fixed: nothing for one bit, 0 for two. */
static void binary_multiplication_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int a = first_bits(len, in), b = len - 1 - a;
    (void)d;
    for (int i = 0; i < len; i++) out[i] = 0;
    if (b < 0) {
        dm_terminate(out, len - 1, len);
        return;
    }
    for (int i = 0; i < a; i++)
        for (int j = 0; in[i] && j < b; j++) out[i + j] += in[a + 1 + j];
    finish(out, len - 1, len);
}

/* Bit b, from the lowest, of four times the first n bits of root (highest first), plus one. */
static int trial_bit(const int32_t *root, int n, int b)
{
    return b == 0 ? 1 : b == 1 || b - 2 >= n ? 0 : root[n - 1 - (b - 2)];
}

static void compute_sqrt_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out) { (void)d, (void)out, positive(r, in, len); }
static void compute_sqrt_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in) { (void)d, dm_shuffle(r, in, len); }

/* Digit by digit: bring down two bits, and take 4 root + 1 off the remainder if it fits. */
static void compute_sqrt_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    uint8_t rest[DM_LONGEST / 2 + 4] = { 0 };                    /* lowest bit first */
    (void)d;
    for (int i = 0, at = -(len % 2); i < half(len); i++, at += 2) {
        int width = i + 3;           /* the remainder is at most twice the root */
        memmove(rest + 2, rest, (size_t)width - 2);
        rest[1] = at < 0 ? 0 : (uint8_t)in[at];
        rest[0] = (uint8_t)in[at + 1];
        int b = width - 1;
        while (b > 0 && rest[b] == trial_bit(out, i, b)) b--;
        int fits = rest[b] >= trial_bit(out, i, b), borrow = 0;
        for (b = 0; fits && b < width; b++) {
            int difference = rest[b] - trial_bit(out, i, b) - borrow;
            borrow = difference < 0;
            rest[b] = difference & 1;
        }
        out[i] = fits;
    }
}

DM_TASK(binary_addition, "the sum of two binary numbers", NULL, LAB_TASK_REORDERS, 3, 3, 0.5, dm_same, dm_next, draw_numbers, 1,
        binary_addition_answer, reorder_numbers);
DM_TASK(binary_multiplication, "the product of two binary numbers", NULL, LAB_TASK_REORDERS, 3, 3, 0.5, dm_same, dm_same, draw_numbers, 1,
        binary_multiplication_answer, reorder_numbers);
DM_TASK(compute_sqrt, "the square root of a binary number, rounded down", NULL, LAB_TASK_REORDERS, 2, 2, 0.5, dm_same, half, compute_sqrt_draw, 0,
        compute_sqrt_answer, compute_sqrt_reorder);

static const struct lab_task *const list[] = { &binary_addition, &binary_multiplication, &compute_sqrt, NULL };
LAB_PLUGIN(dm_binary, .version = "1", .license = "MIT", .tasks = list);
