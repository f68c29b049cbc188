/* dm_strings -- DeepMind's tasks on strings: even_pairs, parity, cycle_navigation, reverse_string, duplicate_string,
 * missing_duplicate, odds_first, bucket_sort and stack_manipulation.  See dm.h for the tape.
 */
#include "dm.h"

static int twice(int len) { return 2 * len; }

static void even_pairs_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d;
    dm_symbols(r, in, len, 2);
    out[0] = 0;
    for (int i = 1; i < len; i++) out[0] ^= in[i] != in[i - 1];
}

static void parity_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d;
    dm_symbols(r, in, len, 2);
    out[0] = 0;
    for (int i = 0; i < len; i++) out[0] ^= in[i];
}

/* 0, 1, 2: a step back, none, a step forward, on a circle of five. */
static void cycle_navigation_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    int place = 0;
    (void)d;
    dm_symbols(r, in, len, 3);
    for (int i = 0; i < len; i++) place = (place + in[i] + 4) % 5;
    out[0] = place;
}

static void reverse_string_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d;
    dm_symbols(r, in, len, 2);
    for (int i = 0; i < len; i++) out[i] = in[len - 1 - i];
}

static void duplicate_string_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    (void)d;
    dm_symbols(r, in, len, 2);
    for (int i = 0; i < len; i++) out[i] = out[len + i] = in[i];
}

/* w w with one symbol replaced by a hole; an odd length ends with padding; length 1 is a constant. */
static void missing_duplicate_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    enum { HOLE = 2, PAD = 3 };
    int half = len / 2;
    (void)d;
    if (len == 1) {
        in[0] = out[0] = 1;
        return;
    }
    dm_symbols(r, in, half, 2);
    for (int i = 0; i < half; i++) in[half + i] = in[i];
    if (len % 2) in[len - 1] = PAD;
    int hole = (int)lab_rng_below(r, (uint32_t)(2 * half));
    out[0] = in[hole];
    in[hole] = HOLE;
}

enum { ODDS_CODE, ODDS_PAPER };
static const struct lab_option odds_first_options[] = {
    LAB_ENUM(struct dm, variant, "code", "code|paper", "which half comes first: the second, fourth ... symbols (code) or the first, third ..."),
    LAB_OPTIONS_END };

static void odds_first_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    int first = d->variant == ODDS_CODE, at = 0;
    dm_symbols(r, in, len, 2);
    for (int i = first; i < len; i += 2) out[at++] = in[i];
    for (int i = !first; i < len; i += 2) out[at++] = in[i];
}

static void bucket_sort_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    int count[5] = { 0 };
    (void)d;
    dm_symbols(r, in, len, 5);
    for (int i = 0; i < len; i++) count[in[i]]++;
    for (int symbol = 0, at = 0; symbol < 5; symbol++)
        for (int end = at + count[symbol]; at < end; at++) out[at] = symbol;
}

/* A stack, bottom first, then actions on it; the answer is what is left, top first.  out holds the stack meanwhile. */
static void stack_manipulation_draw(const struct dm *d, struct lab_rng *r, int len, int32_t *in, int32_t *out)
{
    enum { POP = 2, PUSH = 3 };      /* PUSH + bit */
    int n = len == 1 ? 1 : 1 + (int)lab_rng_below(r, (uint32_t)len - 1), height = n;
    (void)d;
    dm_symbols(r, in, n, 2);
    for (int i = 0; i < n; i++) out[i] = in[i];
    for (int i = n; i < len; i++) {
        in[i] = POP + (int32_t)lab_rng_below(r, 3);
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

DM_TASK(even_pairs, "is the number of unequal neighbours odd?", NULL, 2, 2, 0.5, dm_same, dm_one, even_pairs_draw, 0);
DM_TASK(parity, "is the number of ones odd?", NULL, 2, 2, 0.5, dm_same, dm_one, parity_draw, 0);
DM_TASK(cycle_navigation, "the place on a circle of five after steps of -1, 0, +1", NULL, 3, 5, 0.2, dm_same, dm_one, cycle_navigation_draw, 0);
DM_TASK(reverse_string, "the bits, last one first", NULL, 2, 2, 0.5, dm_same, dm_same, reverse_string_draw, 0);
DM_TASK(duplicate_string, "the bits, twice", NULL, 2, 2, 0.5, dm_same, twice, duplicate_string_draw, 0);
DM_TASK(missing_duplicate, "the bit that is hidden in a string written twice", NULL, 4, 2, 0.5, dm_same, dm_one, missing_duplicate_draw, 0);
DM_TASK(odds_first, "every second bit, then the others", odds_first_options, 2, 2, 0.5, dm_same, dm_same, odds_first_draw, 0);
DM_TASK(bucket_sort, "five symbols in ascending order", NULL, 5, 5, 0.2, dm_same, dm_same, bucket_sort_draw, 0);
DM_TASK(stack_manipulation, "a stack after pops and pushes, top first", NULL, 5, 3, 0.5, dm_same, dm_next, stack_manipulation_draw, 1);

static const struct lab_task *const list[] = { &even_pairs, &parity, &cycle_navigation, &reverse_string, &duplicate_string,
    &missing_duplicate, &odds_first, &bucket_sort, &stack_manipulation, NULL };
LAB_PLUGIN(dm_strings, .version = "1", .license = "MIT", .tasks = list);
