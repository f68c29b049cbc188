/* lacoco -- the eight algorithmic tasks of Huang et al. 2025 for causal models: <bos> x <sep> y <eos>, scored on y <eos>.
 *
 * The length is that of x.  Token ids are the task's symbols, then bos, sep, eos, pad.  lacoco_addition has "a+b=" for x
 * and no sep.  Lengths start at 1 (the paper's parity also knows 0); lacoco_bin_majority_interleave takes the multiple of
 * three that is not above the length.  Example n is a pure function of (options, seed, split, n, length).
 */
#include "prompted.h"

enum { LONGEST = 5000, MOST_SYMBOLS = 1000, LETTERS = 26, STREAMS = 3 };

struct lacoco;
struct kind {
    int symbols;                     /* 0: the option's */
    int min_len;
    int (*input)(int len), (*answer)(int len);   /* tokens of x; of y at most */
    int (*draw)(const struct lacoco *, struct lab_rng *, int len, int32_t *x, int32_t *y);   /* returns the tokens of y */
    int bare;                        /* no sep after x */
};
struct lacoco { const struct kind *kind; int32_t symbols; };

static const struct lab_option distinct[] = {
    LAB_INT(struct lacoco, symbols, "150", 1, MOST_SYMBOLS, "different symbols; x holds each at most once, so it is no longer than this"),
    LAB_OPTIONS_END };

static int same(int len) { return len; }
static int one(int len) { (void)len; return 1; }
static int streams(int len) { (void)len; return STREAMS; }
static int third(int len) { return len / STREAMS * STREAMS; }
static int sum_bits(int len) { return len - 2; }                 /* of the longer operand, len - 3, and a carry */

/* n bits with a number of ones that is uniform on 0..n, in random order; returns that number. */
static int counted_bits(struct lab_rng *r, int32_t *x, int n)
{
    int ones = (int)lab_rng_below(r, (uint32_t)n + 1);
    for (int i = 0; i < n; i++) x[i] = i < ones;
    prompted_shuffle(r, x, n);
    return ones;
}

/* The same without a tie; returns the bit that is in the majority. */
static int majority_bits(struct lab_rng *r, int32_t *x, int n)
{
    int ones;
    do ones = counted_bits(r, x, n);
    while (2 * ones == n);
    return 2 * ones > n;
}

static int bin_majority(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    (void)l;
    y[0] = majority_bits(r, x, len);
    return 1;
}

static int bin_majority_interleave(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    int32_t stream[LONGEST];
    int n = len / STREAMS;
    (void)l;
    for (int s = 0; s < STREAMS; s++) {
        y[s] = majority_bits(r, stream, n);
        for (int i = 0; i < n; i++) x[STREAMS * i + s] = stream[i];
    }
    return STREAMS;
}

/* The only letter that is as frequent as the most frequent one, or -1. */
static int unique_mode(const int count[LETTERS])
{
    int best = 0, tied = 0;
    for (int a = 1; a < LETTERS; a++) {
        if (count[a] > count[best]) best = a, tied = 0;
        else if (count[a] == count[best]) tied = 1;
    }
    return tied ? -1 : best;
}

static int majority(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    (void)l;
    do {
        int count[LETTERS] = { 0 };
        for (int i = 0; i < len; i++) count[x[i] = (int32_t)lab_rng_below(r, LETTERS)]++;
        y[0] = unique_mode(count);
    } while (y[0] < 0);
    return 1;
}

/* x: different symbols in random order. */
static void draw_distinct(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x)
{
    int32_t all[MOST_SYMBOLS];
    for (int i = 0; i < l->symbols; i++) all[i] = i;
    for (int i = 0; i < len; i++) {
        int j = i + (int)lab_rng_below(r, (uint32_t)(l->symbols - i));
        x[i] = all[j];
        all[j] = all[i];
    }
}

static int unique_copy(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    draw_distinct(l, r, len, x);
    for (int i = 0; i < len; i++) y[i] = x[i];
    return len;
}

static int sort(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    char there[MOST_SYMBOLS] = { 0 };
    draw_distinct(l, r, len, x);
    for (int i = 0; i < len; i++) there[x[i]] = 1;
    for (int symbol = 0, at = 0; symbol < l->symbols; symbol++) if (there[symbol]) y[at++] = symbol;
    return len;
}

static int repeat_copy(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    (void)l;
    for (int i = 0; i < len; i++) y[i] = x[i] = (int32_t)lab_rng_below(r, 2);
    return len;
}

static int parity(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    enum { EVEN = 2 };               /* then odd */
    (void)l;
    y[0] = EVEN + counted_bits(r, x, len) % 2;
    return 1;
}

/* A number of n bits, highest first: the first is 1 unless it is the only one. */
static void number(struct lab_rng *r, int32_t *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = i == 0 && n > 1 ? 1 : (int32_t)lab_rng_below(r, 2);
}

static int addition(const struct lacoco *l, struct lab_rng *r, int len, int32_t *x, int32_t *y)
{
    enum { PLUS = 2, EQUALS = 3 };
    int a = 1 + (int)lab_rng_below(r, (uint32_t)len - 3), b = len - 2 - a, n = (a > b ? a : b) + 1, carry = 0, zeros = 0;
    (void)l;
    number(r, x, a);
    x[a] = PLUS;
    number(r, x + a + 1, b);
    x[len - 1] = EQUALS;
    for (int i = 0; i < n; i++) {    /* from the lowest bit */
        carry += (i < a ? x[a - 1 - i] : 0) + (i < b ? x[a + b - i] : 0);
        y[n - 1 - i] = carry & 1;
        carry >>= 1;
    }
    while (zeros < n - 1 && !y[zeros]) zeros++;
    for (int i = 0; i < n - zeros; i++) y[i] = y[i + zeros];
    return n - zeros;
}

/* ---- the common part ---- */

static int prompt_of(const struct kind *kind, int len) { return 1 + kind->input(len) + !kind->bare; }

static int tape(const void *self, int len)
{
    const struct kind *kind = ((const struct lacoco *)self)->kind;
    return prompt_of(kind, len) + kind->answer(len);
}

static int init(struct lacoco *l, const struct kind *kind, struct lab_task_info *info)
{
    int max_len = kind->symbols ? LONGEST : l->symbols;
    if (kind->symbols) l->symbols = kind->symbols;
    l->kind = kind;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = l->symbols + 4, .vocab_out = l->symbols + 4, .min_len = kind->min_len,
                                    .max_len = max_len, .max_slice = 1, .version = 1, .chance = 1.0 / l->symbols };
    return 0;
}

static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct lacoco *l = self;
    int longest = l->kind->symbols ? LONGEST : l->symbols, bos = l->symbols, prompt = prompt_of(l->kind, len);
    if (len < l->kind->min_len || len > longest) return lab_fail(err, "length %d is not in %d..%d", len, l->kind->min_len, longest);
    struct lab_rng r = prompted_rng(seed, split, n, len);
    e->in[0] = bos;
    if (!l->kind->bare) e->in[prompt - 1] = bos + 1;
    int answer = l->kind->draw(l, &r, len, e->in + 1, e->in + prompt);
    prompted_finish(e, prompt, answer, tape(self, len), bos + 2, bos + 3);
    return 0;
}

#define TASK(id, text, table, ...) \
    static const struct kind id##_kind = { __VA_ARGS__ }; \
    static int id##_init(void *self, struct lab_task_info *info, struct lab_err *err) \
    { (void)err; return init(self, &id##_kind, info); } \
    static const struct lab_task id##_task = { .size = sizeof id##_task, .flags = LAB_TASK_CAUSAL, .name = "lacoco_" #id, .summary = text, \
        .cite = "Huang et al. 2025, arXiv:2410.02140", .self_size = sizeof(struct lacoco), .options = table, .init = id##_init, \
        .tape = tape, .sample = sample }
TASK(bin_majority, "which bit is more frequent", NULL, 2, 1, same, one, bin_majority, 0);
TASK(bin_majority_interleave, "the same for three strings of bits, one bit of each in turn", NULL, 2, STREAMS, third, streams, bin_majority_interleave, 0);
TASK(majority, "which of 26 letters is the most frequent", NULL, LETTERS, 1, same, one, majority, 0);
TASK(unique_copy, "different symbols, copied", distinct, 0, 1, same, same, unique_copy, 0);
TASK(repeat_copy, "two symbols that repeat, copied", NULL, 2, 1, same, same, repeat_copy, 0);
TASK(sort, "different symbols in ascending order", distinct, 0, 1, same, same, sort, 0);
TASK(parity, "is the number of ones, uniform on 0..length, even or odd", NULL, 4, 1, same, one, parity, 0);
TASK(addition, "the sum of two binary numbers, highest bit first", NULL, 4, 4, same, sum_bits, addition, 1);

static const struct lab_task *const list[] = { &bin_majority_task, &bin_majority_interleave_task, &majority_task, &unique_copy_task,
    &repeat_copy_task, &sort_task, &parity_task, &addition_task, NULL };
LAB_PLUGIN(lacoco, .version = "1", .license = "MIT", .tasks = list);
