/* dm_strings -- DeepMind's tasks on strings: even_pairs, parity, cycle_navigation, reverse_string, duplicate_string,
 * missing_duplicate, odds_first, bucket_sort and stack_manipulation.  See dm.h for the tape.
 */
#include "dm.h"

static int twice(int len) { return 2 * len; }

/* ---- independent symbols: every order of them is as likely ---- */

static void draw_2(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out) { (void)d, (void)out, dm_symbols(r, in, len, 2); }
static void draw_3(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out) { (void)d, (void)out, dm_symbols(r, in, len, 3); }
static void draw_5(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out) { (void)d, (void)out, dm_symbols(r, in, len, 5); }
static void any_order(const struct dm *d, struct lab_rng *r, int len, int32_t *in) { (void)d, dm_shuffle(r, in, len); }

static void even_pairs_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    (void)d;
    out[0] = 0;
    for (int i = 1; i < len; i++) out[0] ^= in[i] != in[i - 1];
}

static void parity_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    (void)d;
    out[0] = 0;
    for (int i = 0; i < len; i++) out[0] ^= in[i];
}

/* 0, 1, 2: a step back, none, a step forward, on a circle of five. */
static void cycle_navigation_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int place = 0;
    (void)d;
    for (int i = 0; i < len; i++) place = (place + in[i] + 4) % 5;
    out[0] = place;
}

static void reverse_string_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    (void)d;
    for (int i = 0; i < len; i++) out[i] = in[len - 1 - i];
}

static void duplicate_string_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    (void)d;
    for (int i = 0; i < len; i++) out[i] = out[len + i] = in[i];
}

enum { ODDS_CODE, ODDS_PAPER };
static const struct lab_option odds_first_options[] = {
    LAB_ENUM(struct dm, variant, "code", "code|paper", "which half comes first: the second, fourth ... symbols (code) or the first, third ..."),
    LAB_OPTIONS_END };

static void odds_first_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int first = d->variant == ODDS_CODE, at = 0;
    for (int i = first; i < len; i += 2) out[at++] = in[i];
    for (int i = !first; i < len; i += 2) out[at++] = in[i];
}

static void bucket_sort_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int count[5] = { 0 };
    (void)d;
    for (int i = 0; i < len; i++) count[in[i]]++;
    for (int symbol = 0, at = 0; symbol < 5; symbol++)
        for (int end = at + count[symbol]; at < end; at++) out[at] = symbol;
}

/* ---- missing_duplicate: w w with one symbol replaced by a hole; an odd length ends with padding; length 1 is a constant ---- */

enum { HOLE = 2, PAD = 3 };

/* in[0 .. half) is w: doubles it, and hides a symbol for which `wanted` (-1: any) stands. */
static int32_t double_and_hide(struct lab_rng *r, int len, int32_t *in, int32_t wanted)
{
    int half = len / 2, hole;
    for (int i = 0; i < half; i++) in[half + i] = in[i];
    if (len % 2) in[len - 1] = PAD;
    do hole = (int)lab_rng_below(r, (uint32_t)(2 * half));
    while (wanted >= 0 && in[hole] != wanted);
    int32_t hidden = in[hole];
    in[hole] = HOLE;
    return hidden;
}

static void missing_duplicate_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d, (void)out;
    if (len == 1) {
        in[0] = 1;
        return;
    }
    dm_symbols(r, in, len / 2, 2);
    double_and_hide(r, len, in, -1);
}

/* Where the hole is not, the hidden symbol still stands. */
static void missing_duplicate_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int half = len / 2;
    (void)d;
    out[0] = 1;
    for (int i = 0; i < 2 * half && len > 1; i++) if (in[i] == HOLE) out[0] = in[(i + half) % (2 * half)];
}

/* Ones come in pairs, so their number tells the hidden symbol and how many w has; w may then have any order, and the hole any place
 * where that symbol stands. */
static void missing_duplicate_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    int half = len / 2, ones = 0;
    (void)d;
    if (len == 1) return;
    for (int i = 0; i < 2 * half; i++) ones += in[i] == 1;
    int32_t hidden = ones % 2;
    for (int i = 0; i < half; i++) in[i] = i < (ones + hidden) / 2;
    dm_shuffle(r, in, half);
    double_and_hide(r, len, in, hidden);
}

/* ---- stack_manipulation: a stack, bottom first, then actions on it; the answer is what is left, top first ---- */

enum { POP = 2, PUSH = 3 };          /* PUSH + bit */

static int stack_size(int len, const int32_t *in)
{
    int n = 0;
    while (n < len && in[n] < POP) n++;
    return n;
}

static void stack_manipulation_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    int n = len == 1 ? 1 : 1 + (int)lab_rng_below(r, (uint32_t)len - 1);
    (void)d, (void)out;
    dm_symbols(r, in, n, 2);
    for (int i = n; i < len; i++) in[i] = POP + (int32_t)lab_rng_below(r, 3);
}

/* out holds the stack meanwhile. */
static void stack_manipulation_answer(const struct dm *d, int len, const int32_t *in, int32_t *out)
{
    int n = stack_size(len, in), height = n;
    (void)d;
    for (int i = 0; i < n; i++) out[i] = in[i];
    for (int i = n; i < len; i++) {
        if (in[i] >= PUSH) out[height++] = in[i] - PUSH;
        else if (height > 0) height--;
    }
    for (int i = 0, j = height - 1; i < j; i++, j--) {
        int32_t top = out[j];
        out[j] = out[i];
        out[i] = top;
    }
    dm_terminate(out, height, len + 1);
}

static void stack_manipulation_reorder(const struct dm *d, struct lab_rng *r, int len, int32_t *in)
{
    int n = stack_size(len, in);
    (void)d;
    dm_shuffle(r, in, n);
    dm_shuffle(r, in + n, len - n);
}

/* ---- the tasks ---- */

#define STRINGS(id, text, table, symbols, classes, chance, outputs) \
    DM_TASK(id, text, table, LAB_TASK_REORDERS, symbols, classes, chance, dm_same, outputs, draw_##symbols, 0, id##_answer, any_order)
STRINGS(even_pairs, "is the number of unequal neighbours odd?", NULL, 2, 2, 0.5, dm_one);
STRINGS(parity, "is the number of ones odd?", NULL, 2, 2, 0.5, dm_one);
STRINGS(cycle_navigation, "the place on a circle of five after steps of -1, 0, +1", NULL, 3, 5, 0.2, dm_one);
STRINGS(reverse_string, "the bits, last one first", NULL, 2, 2, 0.5, dm_same);
STRINGS(duplicate_string, "the bits, twice", NULL, 2, 2, 0.5, twice);
STRINGS(odds_first, "every second bit, then the others", odds_first_options, 2, 2, 0.5, dm_same);
STRINGS(bucket_sort, "five symbols in ascending order", NULL, 5, 5, 0.2, dm_same);
DM_TASK(missing_duplicate, "the bit that is hidden in a string written twice", NULL, LAB_TASK_REORDERS, 4, 2, 0.5, dm_same, dm_one,
        missing_duplicate_draw, 0, missing_duplicate_answer, missing_duplicate_reorder);
DM_TASK(stack_manipulation, "a stack after pops and pushes, top first", NULL, LAB_TASK_REORDERS, 5, 3, 0.5, dm_same, dm_next,
        stack_manipulation_draw, 1, stack_manipulation_answer, stack_manipulation_reorder);

static const struct lab_task *const list[] = { &even_pairs, &parity, &cycle_navigation, &reverse_string, &duplicate_string,
    &missing_duplicate, &odds_first, &bucket_sort, &stack_manipulation, NULL };
LAB_PLUGIN(dm_strings, .version = "1", .license = "MIT", .tasks = list);
