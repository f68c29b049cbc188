/* cost -- see cost.h. */
#include "exp/cost.h"

/* Of a training step, fitted to the measured steps of 57 models from 16 to 128 wide, 1 to 4 layers deep, at lengths from 4 to
 * 256 (AVX-512, one core): 6 % off on average.  Forward, backward and optimiser; in nanoseconds. */
static const double
    LINEAR = 0.0112,                 /* per operation of the linear layers: 6 for each weight and token */
    ATTENTION = 0.0172,              /* per operation of attention's own products */
    HEAD = 50,                       /* per token, head and layer: what is small in attention */
    HIDDEN = 1.13,                   /* per token, unit of the feed-forward part and layer */
    DROPPED = 23,                    /* per activation that dropout may drop */
    WEIGHT = 0.35,                   /* per weight: the optimiser */
    STEP = 23000,
    START = 30e6,                    /* a process and its plugins */
    GENERAL = 4.5,                   /* times ATTENTION and HEAD, for encoders with hooks on logits or values */
    FORWARD = 1.0 / 3;               /* of forward and backward */

static double weights(const struct run_config *c)
{
    const struct model_options *m = &c->model;
    double d = m->d_model, wide = m->activation == MODEL_SWIGLU ? 3 : 2;
    return m->layers * d * (4 * d + wide * m->d_ff) + d * c->task_info.vocab_out;
}

/* Forward and backward over B sequences of T tokens, without dropout, ns. */
static double pass(const struct run_config *c, double B, double T)
{
    const struct model_options *m = &c->model;
    double attention = B * T * m->layers * (12 * T * m->d_model * ATTENTION + m->heads * HEAD);
    if (c->encoder->logits || c->encoder->value) attention *= GENERAL;
    return 6 * B * T * weights(c) * LINEAR + attention + B * T * m->layers * (double)m->d_ff * HIDDEN;
}

/* It takes embeddings, attention weights and both branches. */
static double dropout(const struct run_config *c, double B, double T)
{
    const struct model_options *m = &c->model;
    double each = m->d_model + m->layers * (2.0 * m->d_model + m->heads * T);
    return m->dropout > 0 ? B * T * each * DROPPED : 0;
}

static double evaluation(const struct run_config *c, int length, double sequences)
{
    return pass(c, sequences, config_tape(c, length)) * FORWARD / 1e9;
}

static double mean_tape(const struct run_config *c)
{
    if (c->train.per == LENGTH_PER_EXAMPLE) return config_tape(c, c->train.length.hi);
    return (config_tape(c, c->train.length.lo) + config_tape(c, c->train.length.hi)) / 2.0;
}

double cost_test(const struct run_config *c, int length)
{
    enum { PASSES = 3 };             /* a model that continues alone: see eval.c */
    double free = config_continues(c) ? PASSES * (double)c->eval.free_sequences : 0;
    return evaluation(c, length, c->eval.sequences + free);
}

struct cost cost_of(const struct run_config *c)
{
    double B = c->train.batch, T = mean_tape(c);
    struct cost cost = { .start = START / 1e9, .step = (pass(c, B, T) + dropout(c, B, T) + weights(c) * WEIGHT + STEP) / 1e9 };
    for (int i = 0; i < c->eval.lengths.n; i++) {
        cost.valid += evaluation(c, c->eval.lengths.v[i], c->eval.every_sequences);
        cost.test += cost_test(c, c->eval.lengths.v[i]);
    }
    return cost;
}

double cost_steps(const struct cost *cost, const struct run_config *c, double from, double to)
{
    double evaluations = c->eval.every > 0 ? (int64_t)to / c->eval.every - (int64_t)from / c->eval.every : 0;
    return (to - from) * cost->step + evaluations * cost->valid;
}

double cost_total(const struct cost *cost, const struct run_config *c)
{
    return cost->start + cost_steps(cost, c, 0, c->train.steps) + cost->test;
}
