/* dm_arithmetic -- DeepMind's tasks modulo five: modular_arithmetic, modular_arithmetic_brackets and solve_equation.
 * See dm.h for the tape.  Digits are the tokens 0..4, signs follow.  Expressions with brackets are not reordered: which of their
 * orders are expressions, and how likely each is, hangs on how they nest.
 */
#include "dm.h"

enum { MODULUS = 5, PLUS = 5, MINUS = 6, TIMES = 7 };

static int odd(int len) { return len % 2 ? len : len - 1; }
static int mod(int x) { return (x % MODULUS + MODULUS) % MODULUS; }
static int32_t digit(struct lab_rng *r) { return (int32_t)lab_rng_below(r, MODULUS); }

/* Digits at even places, signs between. */
static void modular_arithmetic_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d, (void)out;
    for (int i = 0; i < odd(len); i++) in[i] = i % 2 ? PLUS + (int32_t)lab_rng_below(r, 3) : digit(r);
}

/* * binds tighter than + and -. */
static void modular_arithmetic_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int sum = 0, term = 1, sign = 1;
    (void)d;
    for (int i = 0; i < odd(len); i++) {
        if (i % 2 == 0) {
            term = mod(term * in[i]);
        } else if (in[i] != TIMES) {
            sum = mod(sum + sign * term);
            sign = in[i] == PLUS ? 1 : -1;
            term = 1;
        }
    }
    out[0] = mod(sum + sign * term);
}

/* Digits among digits, signs among signs. */
static void modular_arithmetic_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    (void)d;
    for (int i = odd(len) - 1; i > 1; i--) {
        int j = i % 2 + 2 * (int)lab_rng_below(r, (uint32_t)(i / 2) + 1);
        int32_t swapped = in[i];
        in[i] = in[j];
        in[j] = swapped;
    }
}

/* Writes an expression of exactly len tokens and returns its value.  signs: 2 or 3 of + - *; open, open + 1: the brackets. */
static int expression(struct lab_rng *r, int len, int signs, int open, int32_t *in)
{
    if (len < 5) {                   /* d, -d, (d) or (-d) */
        int bracketed = len >= 3, negative = len % 2 == 0, at = 0;
        int32_t d = digit(r);
        if (bracketed) in[at++] = open;
        if (negative) in[at++] = MINUS;
        in[at++] = d;
        if (bracketed) in[at++] = open + 1;
        return negative ? mod(-d) : d;
    }
    int left_len = 1 + (int)lab_rng_below(r, (uint32_t)len - 4);
    int left = expression(r, left_len, signs, open, in + 1);
    int right = expression(r, len - 3 - left_len, signs, open, in + 2 + left_len);
    int32_t sign = PLUS + (int32_t)lab_rng_below(r, (uint32_t)signs);
    in[0] = open;
    in[1 + left_len] = sign;
    in[len - 1] = open + 1;
    return mod(sign == PLUS ? left + right : sign == MINUS ? left - right : left * right);
}

static void modular_arithmetic_brackets_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    enum { OPEN = 8 };
    (void)d;
    out[0] = expression(r, len, 3, OPEN, in);
}

/* An expression with + and -, one digit of it hidden behind x, = and its value.  Too short for one: zeros. */
static void solve_equation_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    enum { OPEN = 7, X = 9, EQUALS = 10 };
    int n = len - 2;
    (void)d;
    if (n < 1) {
        for (int i = 0; i < len; i++) in[i] = 0;
        out[0] = 0;
        return;
    }
    int value = expression(r, n, 2, OPEN, in), hidden = (int)lab_rng_below(r, (uint32_t)n);
    while (in[hidden] >= MODULUS) hidden = (hidden + 1) % n;
    out[0] = in[hidden];
    in[hidden] = X;
    in[n] = EQUALS;
    in[n + 1] = value;
}

DM_TASK(modular_arithmetic, "the value of a sum of products modulo five", NULL, LAB_TASK_REORDERS, 9, 5, 0.2, odd, dm_one,
        modular_arithmetic_draw, 0, modular_arithmetic_answer, modular_arithmetic_reorder);
DM_TASK(modular_arithmetic_brackets, "the value of a nested expression modulo five", NULL, 0, 11, 5, 0.2, dm_same, dm_one,
        modular_arithmetic_brackets_draw, 0, NULL, NULL);
DM_TASK(solve_equation, "the digit that is hidden in an equation modulo five", NULL, 0, 11, 5, 0.2, dm_same, dm_one, solve_equation_draw, 0, NULL,
        NULL);

static const struct lab_task *const list[] = { &modular_arithmetic, &modular_arithmetic_brackets, &solve_equation, NULL };
LAB_PLUGIN(dm_arithmetic, .version = "1", .license = "MIT", .tasks = list);
