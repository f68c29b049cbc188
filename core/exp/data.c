/* data -- see data.h. */
#include "exp/data.h"
#include "base/rng.h"

int data_init(struct data *d, const struct run_config *config, int tokens, struct lab_err *err)
{
    *d = (struct data){ .config = config, .capacity = tokens };
    for (int pass = 0; pass < 2; pass++) {           /* measure, then place */
        if (pass && arena_commit(&d->arena, err) != 0) return -1;
        int32_t **whole[] = { &d->token, &d->target, &d->pos, &d->slice };
        for (int i = 0; i < 4; i++) *whole[i] = arena_take(&d->arena, (size_t)tokens * sizeof(int32_t));
        d->weight = arena_take(&d->arena, (size_t)tokens * sizeof(float));
    }
    return 0;
}

void data_release(struct data *d) { arena_free(&d->arena); }

static int check_ids(const struct data *d, const int32_t *id, int n, int lo, int vocab, const char *what, struct lab_err *err)
{
    for (int i = 0; i < n; i++)
        if (id[i] < lo || id[i] >= vocab)
            return lab_fail(err, "task %s: %s %d at position %d is outside [%d,%d): the task is at fault", d->config->task->name, what,
                            (int)id[i], i, lo, vocab);
    return 0;
}

/* The ids of a batch, from the run's source; returns the stride of its rows. */
static int lay_positions(struct data *d, uint64_t seed, int split, int length, int T, int64_t first, int count)
{
    const struct positions_options *o = &d->config->positions, sequential = { .source = POSITIONS_SEQUENTIAL };
    int training = split == LAB_TRAIN, rows = positions_own(o, training) ? count : 1;
    uint32_t step = (uint32_t)(first / d->config->train.batch);
    for (int i = 0; i < rows; i++) {
        struct lab_rng r = training ? rng_stream(seed, RNG_POSITIONS, step, (uint32_t)i)
                                    : rng_stream(seed, RNG_POSITIONS, (uint32_t)length, (uint32_t)(first + i));
        positions_fill(training || o->eval ? o : &sequential, &r, T, d->pos + (size_t)i * T);
    }
    return rows > 1 ? T : 0;
}

static int fill(struct data *d, uint64_t seed, int split, int length, int64_t first, int count, struct lab_err *err)
{
    const struct run_config *c = d->config;
    int T = config_tape(c, length), own_positions = (c->task->flags & LAB_TASK_POSITIONS) != 0, stride = T;
    if ((int64_t)count * T > d->capacity)
        return lab_fail(err, "%d examples of length %d need %d tokens, room is for %d", count, length, count * T, (int)d->capacity);
    if (!own_positions) stride = lay_positions(d, seed, split, length, T, first, count);
    for (int i = 0; i < count; i++) {
        int at = i * T;
        struct lab_example e = { .in = d->token + at, .target = d->target + at, .weight = d->weight + at,
                                 .pos = own_positions ? d->pos + at : d->pos };
        for (int t = 0; t < T; t++) {
            e.weight[t] = 1;
            if (own_positions) e.pos[t] = t;
        }
        if (c->task->sample(c->task_self, seed, split, first + i, length, &e, err) != 0) return -1;
        if (check_ids(d, e.in, T, 0, c->task_info.vocab_in, "token", err) != 0 ||
            check_ids(d, e.target, T, -1, c->task_info.vocab_out, "target", err) != 0) return -1;
        d->slice[i] = e.slice;
    }
    d->batch = (struct model_batch){ .B = count, .T = T, .token = d->token, .target = d->target, .weight = d->weight, .pos = d->pos,
                                     .pos_stride = stride };
    return 0;
}

int data_train(struct data *d, int64_t step, struct lab_err *err)
{
    const struct train_options *t = &d->config->train;
    struct lab_rng r = rng_stream((uint64_t)d->config->seed, RNG_LENGTH, (uint32_t)step, 0);
    int length = t->length.lo + (int)lab_rng_below(&r, (uint32_t)(t->length.hi - t->length.lo + 1));
    return fill(d, (uint64_t)d->config->seed, LAB_TRAIN, length, step * t->batch, t->batch, err);
}

int data_eval(struct data *d, int split, int length, int64_t first, int count, struct hash *hash, struct lab_err *err)
{
    if (fill(d, (uint64_t)d->config->eval.seed, split, length, first, count, err) != 0) return -1;
    size_t n = (size_t)count * d->batch.T;
    if (hash) {
        hash_add(hash, d->token, n * sizeof *d->token);
        hash_add(hash, d->target, n * sizeof *d->target);
    }
    return 0;
}
