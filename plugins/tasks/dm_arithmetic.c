/* dm_arithmetic -- DeepMind's tasks modulo five: modular_arithmetic, modular_arithmetic_brackets and solve_equation.
 * See dm.h for the tape.  Digits are the tokens 0..4, signs follow.
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

/* ---- expressions with brackets ---- */

struct grammar { int signs, open; };             /* of + - *: 2 or 3; open, open + 1: the brackets */
static const struct grammar brackets = { 3, 8 }, equation = { 2, 7 };
enum { X = 9, EQUALS = 10 };                     /* of equations */
struct shape { int digits, negative; };          /* how many there are of each; a negative digit has a minus of its own */

static void put(int32_t *in, int at, int32_t token) { if (in) in[at] = token; }

/* Writes an expression of exactly len tokens and counts its shape; in NULL: draws and counts without writing. */
static void expression(struct lab_rng *r, int len, struct grammar g, int32_t *in, struct shape *s)
{
    if (len < 5) {                   /* d, -d, (d) or (-d) */
        int bracketed = len >= 3, negative = len % 2 == 0;
        if (bracketed) put(in, 0, g.open);
        if (negative) put(in, bracketed, MINUS);
        put(in, bracketed + negative, digit(r));
        if (bracketed) put(in, len - 1, g.open + 1);
        s->digits++, s->negative += negative;
        return;
    }
    int left = 1 + (int)lab_rng_below(r, (uint32_t)len - 4);
    put(in, 0, g.open);
    expression(r, left, g, in ? in + 1 : NULL, s);
    expression(r, len - 3 - left, g, in ? in + 2 + left : NULL, s);
    put(in, 1 + left, PLUS + (int32_t)lab_rng_below(r, (uint32_t)g.signs));
    put(in, len - 1, g.open + 1);
}

/* The value of the expression at *at, which moves behind it; x: what the hidden digit counts. */
static int value(struct grammar g, const int32_t **at, int x)
{
    int32_t token = *(*at)++;
    if (token == MINUS) return mod(-value(g, at, x));
    if (token != g.open) return token < MODULUS ? token : x;
    int left = value(g, at, x);
    int32_t sign = *(*at)++;
    if (sign == g.open + 1) return left;
    int right = value(g, at, x);
    ++*at;
    return mod(sign == PLUS ? left + right : sign == MINUS ? left - right : left * right);
}

/* A minus belongs to a digit where nothing stands before it that it could be subtracted from. */
static int is_negative(struct grammar g, const int32_t *in, int i)
{
    return in[i] == MINUS && (i == 0 || (in[i - 1] >= MODULUS && in[i - 1] != g.open + 1));
}
static int is_sign(struct grammar g, const int32_t *in, int i)
{
    return in[i] >= PLUS && in[i] < PLUS + g.signs && !is_negative(g, in, i);
}

/* Takes one of the tokens from first on, of which there are have[] each. */
static int32_t deal(struct lab_rng *r, int32_t first, int *have, int kinds)
{
    int left = 0, kind = 0;
    for (int i = 0; i < kinds; i++) left += have[i];
    for (int n = (int)lab_rng_below(r, (uint32_t)left); n >= have[kind]; kind++) n -= have[kind];
    have[kind]--;
    return first + kind;
}

/* How the expression nests is drawn anew until it takes the same tokens; after some tries it stays as it is, which is as
 * likely as any other.  Then digits and signs, which were drawn independently, are dealt again. */
static void expression_reorder(struct lab_rng *r, int len, struct grammar g, int32_t *in)
{
    enum { TRIES = 2 };                  /* or a long expression would cost a hundred times as much as reading it */
    int digits[MODULUS] = { 0 }, signs[3] = { 0 };
    struct shape shape = { 0, 0 };
    for (int i = 0; i < len; i++) {
        if (in[i] < MODULUS) digits[in[i]]++, shape.digits++;
        if (is_sign(g, in, i)) signs[in[i] - PLUS]++;
        shape.negative += is_negative(g, in, i);
    }
    for (int try = 0; try < TRIES; try++) {
        struct lab_rng before = *r;
        struct shape drawn = { 0, 0 };
        expression(r, len, g, NULL, &drawn);
        if (drawn.digits != shape.digits || drawn.negative != shape.negative) continue;
        expression(&before, len, g, in, &drawn);
        break;
    }
    for (int i = 0; i < len; i++) {
        if (in[i] < MODULUS) in[i] = deal(r, 0, digits, MODULUS);
        else if (is_sign(g, in, i)) in[i] = deal(r, PLUS, signs, g.signs);
    }
}

static void modular_arithmetic_brackets_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    struct shape shape = { 0, 0 };
    (void)d, (void)out;
    expression(r, len, brackets, in, &shape);
}
static void modular_arithmetic_brackets_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    (void)d, (void)len;
    out[0] = value(brackets, &in, 0);
}
static void modular_arithmetic_brackets_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    (void)d;
    expression_reorder(r, len, brackets, in);
}

/* A place is drawn, and the digit there or next to the right, or else the first. */
static int hide(struct lab_rng *r, int n, const int32_t *in)
{
    int hidden = (int)lab_rng_below(r, (uint32_t)n);
    while (in[hidden] >= MODULUS) hidden = (hidden + 1) % n;
    return hidden;
}

/* An expression with + and -, one digit of it hidden behind x, = and its value.  Too short for one: zeros. */
static void solve_equation_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    int n = len - 2;
    const int32_t *at = in;
    struct shape shape = { 0, 0 };
    (void)d, (void)out;
    for (int i = n < 1 ? 0 : n; i < len; i++) in[i] = 0;
    if (n < 1) return;
    expression(r, n, equation, in, &shape);
    in[n] = EQUALS;
    in[n + 1] = value(equation, &at, 0);
    in[hide(r, n, in)] = X;
}
/* The value is v0 or v1 with 0 or 1 for x: they differ by 1 or -1. */
static void solve_equation_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    const int32_t *at[2] = { in, in };
    (void)d;
    out[0] = 0;
    if (len < 3) return;
    int v0 = value(equation, &at[0], 0), v1 = value(equation, &at[1], 1);
    out[0] = mod((in[len - 1] - v0) * (v1 - v0));
}
/* The value is a digit among digits: whichever stands there, one hidden digit makes the equation right. */
static void solve_equation_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    int n = len - 2;
    (void)d;
    if (n < 1) return;
    for (int i = 0; i < n; i++) if (in[i] == X) in[i] = in[n + 1];
    expression_reorder(r, n, equation, in);
    int hidden = hide(r, n, in);
    in[n + 1] = in[hidden];
    in[hidden] = X;
}

DM_TASK(modular_arithmetic, "the value of a sum of products modulo five", NULL, LAB_TASK_REORDERS, 9, 5, 0.2, odd, dm_one,
        modular_arithmetic_draw, 0, modular_arithmetic_answer, modular_arithmetic_reorder);
DM_TASK(modular_arithmetic_brackets, "the value of a nested expression modulo five", NULL, LAB_TASK_REORDERS, 11, 5, 0.2, dm_same, dm_one,
        modular_arithmetic_brackets_draw, 0, modular_arithmetic_brackets_answer, modular_arithmetic_brackets_reorder);
DM_TASK(solve_equation, "the digit that is hidden in an equation modulo five", NULL, LAB_TASK_REORDERS, 11, 5, 0.2, dm_same, dm_one,
        solve_equation_draw, 0, solve_equation_answer, solve_equation_reorder);

static const struct lab_task *const list[] = { &modular_arithmetic, &modular_arithmetic_brackets, &solve_equation, NULL };
LAB_PLUGIN(dm_arithmetic, .version = "1", .license = "MIT", .tasks = list);
