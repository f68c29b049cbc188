/* ceiling -- see ceiling.h.
 *
 * Order-blind: for each multiset that the task draws, counts which targets fall on which own token over many orders, in four
 * folds of orders.  A fold is scored with the guesses that the other three would make: choosing and scoring on the same
 * orders would count luck as skill.  (For that reason, too, every multiset has orders of its own.)
 * Majority: some examples choose the guess of each place, others score it.
 * Both sum right and counted tokens over samples; the value is their quotient, its standard error that of a ratio.
 */
#include "exp/ceiling.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/rng.h"

enum { SEED = 0,                     /* a ceiling belongs to the task, not to a run */
       FOLDS = 4,
       SAMPLES_LEAST = 256,          /* multisets; with fewer the standard error itself is a guess */
       ORDERS_A_TOKEN = 32,          /* enough to tell the best guess from the second: with 16 the result is low by 0.001 */
       ORDERS_LEAST = 16, ORDERS_MOST = 768,
       ORDERS_ONE_TARGET = 8,        /* times as many orders where a tape has a single target to learn from */
       TOKENS_MOST = 1 << 16,        /* in all orders of a multiset: long sequences need fewer */
       CHOOSE = 4096,                /* examples that choose the guesses of the majority ... */
       SCORE = 1 << 16,              /* ... and those that score them, at most; of long tapes no more than fit into */
       MAJORITY_TOKENS = 1 << 23,    /* these tokens */
       WAYS_MOST = 1 << 26,          /* orders of the places from one random word: of so many one word in 64 is drawn again, at most */
       WORD_PLACES = 12,             /* 11! < 2^26 < 12! */
       PLACES_MOST = 1 << 22 };      /* places times targets: with more of them all places have one guess */
#define HALF_WIDTH 0.0015            /* of the 95 % interval, wanted below 0.002 ... */
#define HALF_WIDTH_ONE_TARGET 0.003  /* ... where a tape has more than one target: else multisets differ too much from each other */

const char *const ceiling_name[CEILING_KINDS] = { "order_blind", "majority" };

struct work {
    const struct lab_task *task;
    const void *self;
    int length, tape, vocab_in, vocab_out, orders;
    double half_width;               /* at which the estimate is good enough */
    struct lab_example example;      /* [tape] each */
    int32_t *row;                    /* [vocab_in] row of an own token in count, from 1; 0: has none yet */
    int32_t *owner;                  /* [rows] the token of a row */
    uint32_t *count;                 /* [row][vocab_out][FOLDS], or [place][vocab_out] */
    int rows;                        /* own tokens in this multiset that had a target */
    int32_t *guess;                  /* [place] */
    int places;                      /* the tape's, or 1 */
    struct arena arena;
};

static int clamp(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }

static int work_init(struct work *w, int kind, struct lab_err *err)
{
    size_t tape = (size_t)w->tape, rows = (size_t)clamp(w->tape, 0, w->vocab_in) + 1;
    w->places = (int64_t)w->tape * w->vocab_out <= PLACES_MOST ? w->tape : 1;
    for (int pass = 0; pass < 2; pass++) {               /* measure, then place */
        if (pass && arena_commit(&w->arena, err) != 0) return -1;
        w->example.in = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.target = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.weight = arena_take(&w->arena, tape * sizeof(float));
        w->example.pos = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.counted = arena_take(&w->arena, tape);
        w->row = arena_take(&w->arena, (size_t)w->vocab_in * sizeof *w->row);
        w->owner = arena_take(&w->arena, rows * sizeof *w->owner);
        w->guess = arena_take(&w->arena, (size_t)w->places * sizeof *w->guess);
        w->count = arena_take(&w->arena, (kind == CEILING_ORDER_BLIND ? rows * FOLDS : (size_t)w->places) * (size_t)w->vocab_out * sizeof *w->count);
    }
    return 0;
}

/* Example n of the test data, or the one that is there in another order. */
static int draw(struct work *w, int split, int64_t n, struct lab_err *err)
{
    struct lab_example *e = &w->example;
    for (int t = 0; t < w->tape; t++) e->weight[t] = 1, e->pos[t] = t, e->counted[t] = 1;
    if (w->task->sample(w->self, SEED, split, n, w->length, e, err) != 0) return -1;
    for (int t = 0; t < w->tape; t++) {
        if (e->in[t] < 0 || e->in[t] >= w->vocab_in)
            return lab_fail(err, "task %s: token %d is outside [0,%d): the task is at fault", w->task->name, e->in[t], w->vocab_in);
        if (e->target[t] >= w->vocab_out)
            return lab_fail(err, "task %s: target %d is outside [0,%d): the task is at fault", w->task->name, e->target[t], w->vocab_out);
    }
    return 0;
}

static int is_counted(const struct work *w, int t) { return w->example.target[t] >= 0 && w->example.counted[t]; }

/* ---- right and counted tokens over samples ---- */

struct sums { double right, scored, right2, scored2, both; int64_t n; };

static void add(struct sums *s, double right, double scored)
{
    s->right += right, s->scored += scored, s->n++;
    s->right2 += right * right, s->scored2 += scored * scored, s->both += right * scored;
}

/* Its error: of the mean of right - value * scored, whose own mean is 0, over the mean of scored. */
static struct ceiling quotient(const struct sums *s)
{
    double value = s->scored > 0 ? s->right / s->scored : 0, n = (double)s->n;
    double squares = s->right2 - 2 * value * s->both + value * value * s->scored2;
    double error = s->n > 1 && s->scored > 0 ? sqrt(fmax(0, squares) / (n - 1) / n) / (s->scored / n) : 1;
    return (struct ceiling){ .value = value, .error = error, .samples = s->n };
}

static int is_exact(const struct work *w, const struct ceiling *c) { return 1.96 * c->error < w->half_width; }

static int nothing_scored(const struct work *w, struct lab_err *err)
{
    return lab_fail(err, "task %s scores no token in %d examples of length %d: the task is at fault", w->task->name, SAMPLES_LEAST, w->length);
}

/* ---- order-blind ---- */

/* Any order of n tokens, each as likely.  A random word gives as many places as its bits are good for: each multiplication
 * takes one from the top, and too small a rest would favour some orders (Brackett-Rozinsky and Lemire 2024, batched ranged
 * random integers). */
static void shuffle(int32_t *token, int n, struct lab_rng *r)
{
    while (n > 1) {
        uint32_t ways = (uint32_t)n, places = 1;
        while ((uint32_t)n - places > 1 && ways < WAYS_MOST / (uint32_t)n) ways *= (uint32_t)n - places++;
        uint32_t place[WORD_PLACES], rest;
        do {
            rest = lab_rng_u32(r);
            for (uint32_t i = 0; i < places; i++) {
                uint64_t product = (uint64_t)rest * ((uint32_t)n - i);
                place[i] = (uint32_t)(product >> 32), rest = (uint32_t)product;
            }
        } while (rest < ways && rest < -ways % ways);
        for (uint32_t i = 0; i < places; i++) {
            int32_t *last = &token[--n], swapped = *last;
            *last = token[place[i]];
            token[place[i]] = swapped;
        }
    }
}

static void clear_rows(struct work *w)
{
    for (int row = 1; row <= w->rows; row++) w->row[w->owner[row]] = 0;
    memset(w->count, 0, (size_t)(w->rows + 1) * (size_t)w->vocab_out * FOLDS * sizeof *w->count);
    w->rows = 0;
}

static int row_of(struct work *w, int32_t token)
{
    if (!w->row[token]) w->row[token] = ++w->rows, w->owner[w->rows] = token;
    return w->row[token];
}

static int reorder(struct work *w, int64_t n, struct lab_rng *r, struct lab_err *err)
{
    if (w->task->flags & LAB_TASK_REORDERS) return draw(w, LAB_REORDER, n, err);
    shuffle(w->example.in, w->tape, r);
    if (w->task->solve(w->self, w->length, &w->example) != 0)
        return lab_fail(err, "task %s cannot solve an order of its own tokens at length %d", w->task->name, w->length);
    for (int t = 0; t < w->tape; t++)
        if (w->example.target[t] >= w->vocab_out)
            return lab_fail(err, "task %s: target %d is outside [0,%d): the task is at fault", w->task->name, w->example.target[t], w->vocab_out);
    return 0;
}

/* Multiset k in many orders. */
static int count_orders(struct work *w, int64_t k, struct lab_err *err)
{
    struct lab_rng r = rng_stream(SEED, RNG_CEILING, (uint32_t)k, (uint32_t)w->length);
    clear_rows(w);
    if (draw(w, LAB_TEST, k, err) != 0) return -1;
    for (int order = 0; order < w->orders; order++) {
        uint32_t *fold = w->count + order % FOLDS;
        if (reorder(w, k * w->orders + order, &r, err) != 0) return -1;
        for (int t = 0; t < w->tape; t++)
            if (is_counted(w, t)) fold[((size_t)row_of(w, w->example.in[t]) * w->vocab_out + w->example.target[t]) * FOLDS]++;
    }
    return 0;
}

/* The counted tokens, and those that the best guesses get right. */
static void score(const struct work *w, struct sums *sums)
{
    uint64_t right = 0, scored = 0;
    for (int row = 1; row <= w->rows; row++) {
        const uint32_t *count = w->count + (size_t)row * w->vocab_out * FOLDS, *guess[FOLDS] = { count, count, count, count };
        uint32_t most[FOLDS] = { 0 };                    /* of a target in the other folds */
        for (int y = 0; y < w->vocab_out; y++, count += FOLDS) {
            uint32_t all = count[0] + count[1] + count[2] + count[3];
            scored += all;
            for (int f = 0; f < FOLDS; f++)
                if (all - count[f] > most[f]) most[f] = all - count[f], guess[f] = count;
        }
        for (int f = 0; f < FOLDS; f++) right += guess[f][f];
    }
    add(sums, (double)right / w->orders, (double)scored / w->orders);
}

/* Longer tapes need fewer orders, and one with a single answer more. */
static int plan_orders(struct work *w, struct lab_err *err)
{
    int most = clamp(TOKENS_MOST / w->tape, ORDERS_LEAST, ORDERS_MOST), targets = 0;
    w->orders = w->tape < most / ORDERS_A_TOKEN ? w->tape * ORDERS_A_TOKEN : most;
    if (draw(w, LAB_TEST, 0, err) != 0) return -1;
    for (int t = 0; t < w->tape; t++) targets += is_counted(w, t);
    if (targets == 1 && w->tape > 1) w->orders *= ORDERS_ONE_TARGET, w->half_width = HALF_WIDTH_ONE_TARGET;
    return 0;
}

static int order_blind(struct work *w, struct ceiling *out, struct lab_err *err)
{
    struct sums sums = { .n = 0 };
    if (plan_orders(w, err) != 0) return -1;
    do {
        if (count_orders(w, sums.n, err) != 0) return -1;
        score(w, &sums);
        *out = quotient(&sums);
    } while (sums.n < SAMPLES_LEAST || (sums.scored > 0 && !is_exact(w, out)));
    return sums.scored > 0 ? 0 : nothing_scored(w, err);
}

/* ---- majority ---- */

static int place_of(const struct work *w, int t) { return w->places > 1 ? t : 0; }

static int majority(struct work *w, struct ceiling *out, struct lab_err *err)
{
    struct sums sums = { .n = 0 };
    int fit = clamp(MAJORITY_TOKENS / w->tape, SAMPLES_LEAST, SCORE), choose = fit < CHOOSE ? fit : CHOOSE;
    for (int n = 0; n < choose; n++) {
        if (draw(w, LAB_TEST, n, err) != 0) return -1;
        for (int t = 0; t < w->tape; t++)
            if (is_counted(w, t)) w->count[(size_t)place_of(w, t) * w->vocab_out + w->example.target[t]]++;
    }
    for (int p = 0; p < w->places; p++) {
        const uint32_t *count = w->count + (size_t)p * w->vocab_out;
        for (int y = 1; y < w->vocab_out; y++) if (count[y] > count[w->guess[p]]) w->guess[p] = y;
    }
    do {
        int right = 0, scored = 0;
        if (draw(w, LAB_TEST, choose + sums.n, err) != 0) return -1;
        for (int t = 0; t < w->tape; t++)
            if (is_counted(w, t)) scored++, right += w->example.target[t] == w->guess[place_of(w, t)];
        add(&sums, right, scored);
        if (sums.n % SAMPLES_LEAST == 0) *out = quotient(&sums);
    } while (sums.n % SAMPLES_LEAST || (sums.n < fit && !is_exact(w, out)));
    return sums.scored > 0 ? 0 : nothing_scored(w, err);
}

/* ---- both ---- */

static int is_offered(const struct lab_task *task, int kind)
{
    return kind == CEILING_MAJORITY || task->flags & LAB_TASK_REORDERS || (task->flags & LAB_TASK_EXCHANGEABLE && task->solve);
}

int ceiling_applies(int kind, const struct lab_task *task, int causal)
{
    return is_offered(task, kind) && (kind == CEILING_MAJORITY || !causal);
}

int ceiling_compute(int kind, const struct lab_task *task, const void *self, const struct lab_task_info *info, int length,
                    struct ceiling *out, struct lab_err *err)
{
    if (!is_offered(task, kind))
        return lab_fail(err, "task %s has no order-blind ceiling: the order of its input tokens is not free", task->name);
    if (length < info->min_len || length > info->max_len)
        return lab_fail(err, "task %s takes lengths %d to %d, not %d", task->name, info->min_len, info->max_len, length);
    struct work w = { .task = task, .self = self, .length = length, .tape = task->tape ? task->tape(self, length) : length,
                      .vocab_in = info->vocab_in, .vocab_out = info->vocab_out, .half_width = HALF_WIDTH };
    if (w.tape < 1)
        return lab_fail(err, "task %s: a tape of %d tokens at length %d: the task is at fault", task->name, w.tape, length);
    int status = work_init(&w, kind, err) == 0 ? (kind == CEILING_MAJORITY ? majority : order_blind)(&w, out, err) : -1;
    arena_free(&w.arena);
    return status;
}
