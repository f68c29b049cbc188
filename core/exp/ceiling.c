/* ceiling -- see ceiling.h.
 *
 * For each multiset that the task draws, counts which targets fall on which own token over many random orders, in four
 * folds of orders.  A fold is scored with the guesses that the other three would make: choosing and scoring on the same
 * orders would count luck as skill.  (For that reason, too, every multiset has orders of its own.)  The mean over
 * multisets and its standard error follow.
 */
#include "exp/ceiling.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/rng.h"

enum { SEED = 0,                     /* a ceiling belongs to the task, not to a run */
       FOLDS = 4,
       MULTISETS_LEAST = 256,        /* with fewer the standard error itself is a guess */
       ORDERS_A_TOKEN = 32,          /* enough to tell the best guess from the second: with 16 the result is low by 0.001 */
       ORDERS_LEAST = 16, ORDERS_MOST = 768,
       TOKENS_MOST = 1 << 16 };      /* in all orders of a multiset: long sequences need fewer */
#define HALF_WIDTH 0.0015            /* of the 95 % interval, wanted below 0.002 */

struct work {
    const struct lab_task *task;
    const void *self;
    int length, tape, vocab_in, vocab_out, orders;
    struct lab_example example;      /* [tape] each */
    int32_t *row;                    /* [vocab_in] row of an own token in count, from 1; 0: not in this multiset */
    uint32_t *count;                 /* [row][vocab_out][FOLDS] */
    int rows;                        /* different tokens in this multiset */
    struct arena arena;
};

static int clamp(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }

static int work_init(struct work *w, struct lab_err *err)
{
    size_t tape = (size_t)w->tape, rows = (size_t)clamp(w->tape, 0, w->vocab_in) + 1;
    for (int pass = 0; pass < 2; pass++) {               /* measure, then place */
        if (pass && arena_commit(&w->arena, err) != 0) return -1;
        w->example.in = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.target = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.weight = arena_take(&w->arena, tape * sizeof(float));
        w->example.pos = arena_take(&w->arena, tape * sizeof(int32_t));
        w->example.counted = arena_take(&w->arena, tape);
        w->row = arena_take(&w->arena, (size_t)w->vocab_in * sizeof *w->row);
        w->count = arena_take(&w->arena, rows * (size_t)w->vocab_out * FOLDS * sizeof *w->count);
    }
    for (int t = 0; t < w->tape; t++) w->example.weight[t] = 1, w->example.pos[t] = t, w->example.counted[t] = 1;
    return 0;
}

/* Draws multiset k and gives each of its different tokens a row of zeros. */
static int draw(struct work *w, int64_t k, struct lab_err *err)
{
    for (int t = 0; k > 0 && t < w->tape; t++) w->row[w->example.in[t]] = 0;
    memset(w->count, 0, (size_t)(w->rows + 1) * (size_t)w->vocab_out * FOLDS * sizeof *w->count);
    w->rows = 0;
    if (w->task->sample(w->self, SEED, LAB_TEST, k, w->length, &w->example, err) != 0) return -1;
    for (int t = 0; t < w->tape; t++) {
        int token = w->example.in[t];
        if (token < 0 || token >= w->vocab_in)
            return lab_fail(err, "task %s: token %d is outside [0,%d): the task is at fault", w->task->name, token, w->vocab_in);
        if (!w->row[token]) w->row[token] = ++w->rows;
    }
    return 0;
}

static void shuffle(int32_t *token, int n, struct lab_rng *r)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)lab_rng_below(r, (uint32_t)i + 1);
        int32_t swapped = token[i];
        token[i] = token[j];
        token[j] = swapped;
    }
}

static int count_orders(struct work *w, int64_t k, struct lab_err *err)
{
    struct lab_rng r = rng_stream(SEED, RNG_CEILING, (uint32_t)k, (uint32_t)w->length);
    const int32_t *in = w->example.in, *target = w->example.target;
    for (int order = 0; order < w->orders; order++) {
        uint32_t *fold = w->count + order % FOLDS;
        shuffle(w->example.in, w->tape, &r);
        if (w->task->solve(w->self, w->length, &w->example) != 0)
            return lab_fail(err, "task %s cannot solve an order of its own tokens at length %d", w->task->name, w->length);
        for (int t = 0; t < w->tape; t++) {
            if (target[t] >= w->vocab_out)
                return lab_fail(err, "task %s: target %d is outside [0,%d): the task is at fault", w->task->name, target[t],
                                w->vocab_out);
            if (target[t] >= 0) fold[((size_t)w->row[in[t]] * w->vocab_out + target[t]) * FOLDS]++;
        }
    }
    return 0;
}

/* Part of the scored tokens that the best guesses get right. */
static double score(const struct work *w)
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
    return scored ? (double)right / (double)scored : 0;
}

static int estimate(struct work *w, struct ceiling *out, struct lab_err *err)
{
    double sum = 0, squares = 0, error = 0;
    int64_t n = 0;
    while (n < MULTISETS_LEAST || 1.96 * error >= HALF_WIDTH) {
        if (draw(w, n, err) != 0 || count_orders(w, n, err) != 0) return -1;
        double value = score(w);
        sum += value, squares += value * value, n++;
        error = n > 1 ? sqrt(fmax(0, squares - sum * sum / (double)n) / (double)(n - 1) / (double)n) : 1;
    }
    *out = (struct ceiling){ .value = sum / (double)n, .error = error, .samples = n };
    return 0;
}

int ceiling_compute(const struct lab_task *task, const void *self, const struct lab_task_info *info, int length,
                    struct ceiling *out, struct lab_err *err)
{
    if (!(task->flags & LAB_TASK_EXCHANGEABLE) || !task->solve)
        return lab_fail(err, "task %s has no order-blind ceiling: the order of its input tokens is not free", task->name);
    if (length < info->min_len || length > info->max_len)
        return lab_fail(err, "task %s takes lengths %d to %d, not %d", task->name, info->min_len, info->max_len, length);
    struct work w = { .task = task, .self = self, .length = length, .tape = task->tape ? task->tape(self, length) : length,
                      .vocab_in = info->vocab_in, .vocab_out = info->vocab_out };
    if (w.tape < 1)
        return lab_fail(err, "task %s: a tape of %d tokens at length %d: the task is at fault", task->name, w.tape, length);
    int most = clamp(TOKENS_MOST / w.tape, ORDERS_LEAST, ORDERS_MOST);
    w.orders = w.tape < most / ORDERS_A_TOKEN ? w.tape * ORDERS_A_TOKEN : most;
    int status = work_init(&w, err) == 0 ? estimate(&w, out, err) : -1;
    arena_free(&w.arena);
    return status;
}
