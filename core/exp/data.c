/* data -- see data.h. */
#include "exp/data.h"
#include <math.h>
#include "base/rng.h"

int data_init(struct data *d, const struct run_config *config, int tokens, struct lab_err *err)
{
    *d = (struct data){ .config = config, .capacity = tokens };
    for (int pass = 0; pass < 2; pass++) {           /* measure, then place */
        if (pass && arena_commit(&d->arena, err) != 0) return -1;
        int32_t **whole[] = { &d->token, &d->target, &d->pos, &d->length, &d->slice, &d->prompt };
        for (int i = 0; i < 6; i++) *whole[i] = arena_take(&d->arena, (size_t)tokens * sizeof(int32_t));
        d->weight = arena_take(&d->arena, (size_t)tokens * sizeof(float));
        d->counted = arena_take(&d->arena, (size_t)tokens);
        d->key_ok = arena_take(&d->arena, (size_t)tokens);
    }
    return 0;
}

void data_release(struct data *d) { arena_free(&d->arena); }

static int check_ids(const struct data *d, const int32_t *id, int n, int lo, int end, const char *what, struct lab_err *err)
{
    for (int i = 0; i < n; i++)
        if (id[i] < lo || id[i] >= end)
            return lab_fail(err, "task %s: %s %d at place %d is outside [%d,%d): the task is at fault", d->config->task->name, what,
                            (int)id[i], i, lo, end);
    return 0;
}

/* The ids of a batch of width T from the run's source, each row by its own length, and 0 where it is padded; returns the stride
 * of the rows.  Rows of equal length in a batch of one draw have equal ids. */
static int lay_positions(struct data *d, uint64_t seed, int split, int64_t first, int count, int T, int mixed)
{
    static const struct positions_options sequential = { .source = POSITIONS_SEQUENTIAL };
    int training = split == LAB_TRAIN;
    const struct positions_options *o = training || d->config->positions.eval ? &d->config->positions : &sequential;
    int own = positions_own(o, training), rows = own || (mixed && o->source != POSITIONS_SEQUENTIAL) ? count : 1;
    uint32_t step = (uint32_t)(first / d->config->train.batch);
    for (int i = 0; i < rows; i++) {
        int tape = rows > 1 ? config_tape(d->config, d->length[i]) : T;
        struct lab_rng r = training ? rng_stream(seed, RNG_POSITIONS, step, (uint32_t)(own ? i : 0))
                                    : rng_stream(seed, RNG_POSITIONS, (uint32_t)d->length[i], (uint32_t)(first + i));
        int32_t *row = d->pos + (size_t)i * T;
        positions_fill(o, &r, tape, row);
        for (int t = tape; t < T; t++) row[t] = 0;
    }
    return rows > 1 ? T : 0;
}

/* Row i of a batch of width T: example n at d->length[i], then padding. */
static int fill_row(struct data *d, uint64_t seed, int split, int64_t n, int i, int T, struct lab_err *err)
{
    const struct run_config *c = d->config;
    int at = i * T, tape = config_tape(c, d->length[i]), own_positions = (c->task->flags & LAB_TASK_POSITIONS) != 0;
    struct lab_example e = { .in = d->token + at, .target = d->target + at, .weight = d->weight + at, .counted = d->counted + at,
                             .pos = own_positions ? d->pos + at : d->pos };
    for (int t = 0; t < T; t++) {
        e.weight[t] = 1;
        e.counted[t] = 1;
        d->key_ok[at + t] = t < tape;
        if (own_positions) e.pos[t] = t < tape ? t : 0;
        if (t >= tape) e.in[t] = 0, e.target[t] = -1;
    }
    if (c->task->sample(c->task_self, seed, split, n, d->length[i], &e, err) != 0) return -1;
    if (check_ids(d, e.in, T, 0, c->task_info.vocab_in, "token", err) != 0 ||
        check_ids(d, e.target, T, -1, c->task_info.vocab_out, "target", err) != 0 ||
        (own_positions && check_ids(d, e.pos, T, 0, c->dims.max_pos, "position", err) != 0)) return -1;
    if (e.slice < 0 || e.slice >= c->task_info.max_slice || e.prompt < 0 || e.prompt > tape)
        return lab_fail(err, "task %s: slice %d of %d, a prompt of %d of %d tokens: the task is at fault", c->task->name, (int)e.slice,
                        (int)c->task_info.max_slice, (int)e.prompt, tape);
    d->slice[i] = e.slice;
    d->prompt[i] = e.prompt;
    return 0;
}

static int no_room(const struct data *d, int count, int T, struct lab_err *err)
{
    return lab_fail(err, "%d examples of %d tokens need %lld, room is for %d", count, T, (long long)count * T, (int)d->capacity);
}

/* A batch of examples first .. first+count-1 at the lengths in d->length. */
static int fill(struct data *d, uint64_t seed, int split, int64_t first, int count, struct lab_err *err)
{
    const struct run_config *c = d->config;
    int T = 0, shortest = INT32_MAX, own_positions = (c->task->flags & LAB_TASK_POSITIONS) != 0;
    for (int i = 0; i < count; i++) {
        int tape = config_tape(c, d->length[i]);
        if (tape > T) T = tape;
        if (tape < shortest) shortest = tape;
    }
    if ((int64_t)count * T > d->capacity) return no_room(d, count, T, err);
    int stride = own_positions ? T : lay_positions(d, seed, split, first, count, T, shortest < T);
    for (int i = 0; i < count; i++) if (fill_row(d, seed, split, first + i, i, T, err) != 0) return -1;
    d->batch = (struct model_batch){ .B = count, .T = T, .token = d->token, .target = d->target, .weight = d->weight, .pos = d->pos,
                                     .pos_stride = stride, .key_ok = shortest < T ? d->key_ok : NULL };
    return 0;
}

static int between(struct lab_rng *r, int lo, int hi) { return lo + (int)lab_rng_below(r, (uint32_t)(hi - lo + 1)); }

/* lo .. hi with a chance in proportion to tau^length. */
static int exponential(struct lab_rng *r, int lo, int hi, double tau)
{
    double all = 0, ratio = tau > 1 ? 1 / tau : tau, weight = 1;         /* from the likeliest on: what underflows is of no account */
    for (int n = hi - lo; n >= 0; n--, weight *= ratio) all += weight;
    double rest = lab_rng_unit(r) * all;
    int n = 0;
    for (weight = 1; n < hi - lo && (rest -= weight) >= 0; n++) weight *= ratio;
    return tau > 1 ? hi - n : lo + n;
}

/* The length of sequence `index` of a step, from 1; index 0: of all of them. */
static int draw_length(const struct run_config *c, int64_t step, int index)
{
    const struct train_options *t = &c->train;
    struct lab_rng r = rng_stream((uint64_t)c->seed, RNG_LENGTH, (uint32_t)step, (uint32_t)index);
    int lo = t->length.lo, hi = t->length.hi;
    int64_t grown = lo + step / t->grow_every;
    switch (t->length_law) {
    case LENGTH_REVERSE_EXPONENTIAL: return exponential(&r, lo, hi, t->tau);
    case LENGTH_GROWING: return between(&r, lo, grown < hi ? (int)grown : hi);
    }
    return between(&r, lo, hi);
}

/* The longest first: neighbours then have little padding to compute together. */
static void draw_lengths(struct data *d, int64_t step)
{
    for (int i = 0, at; i < d->config->train.batch; i++) {
        int length = draw_length(d->config, step, i + 1);
        for (at = i; at > 0 && d->length[at - 1] < length; at--) d->length[at] = d->length[at - 1];
        d->length[at] = length;
    }
}

int data_train(struct data *d, int64_t step, struct lab_err *err)
{
    const struct train_options *t = &d->config->train;
    if (t->per == LENGTH_PER_EXAMPLE) draw_lengths(d, step);
    else for (int i = 0; i < t->batch; i++) d->length[i] = i ? d->length[0] : draw_length(d->config, step, 0);
    return fill(d, (uint64_t)d->config->seed, LAB_TRAIN, step * t->batch, t->batch, err);
}

int data_eval(struct data *d, int split, int length, int64_t first, int count, struct hash *hash, struct lab_err *err)
{
    int tape = config_tape(d->config, length);
    if ((int64_t)count * tape > d->capacity) return no_room(d, count, tape, err);
    for (int i = 0; i < count; i++) d->length[i] = length;
    if (fill(d, (uint64_t)d->config->eval.seed, split, first, count, err) != 0) return -1;
    size_t T = (size_t)d->batch.T;
    for (size_t i = 0; hash && i < (size_t)count; i++) {             /* one by one: the same data has one hash in any batches */
        hash_add(hash, d->token + i * T, T * sizeof *d->token);
        hash_add(hash, d->target + i * T, T * sizeof *d->target);
    }
    return 0;
}
