/* test_lengths -- training batches: the law of their lengths, and padding that changes nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rig.h"

static void train(struct rig *r, int64_t step)
{
    struct lab_err err;
    if (data_train(&r->data, step, &err) != 0) fail_msg("%s", err.msg);
}

/* ---- laws ---- */

enum { LO = 3, HI = 10, N_LENGTH = HI - LO + 1 };

static void count_lengths(const char *settings, int64_t first, int steps, int count[N_LENGTH])
{
    struct rig r;
    rig_open(&r, "none", "reverse", "reverse", settings);
    memset(count, 0, N_LENGTH * sizeof *count);
    for (int64_t step = first; step < first + steps; step++) {
        train(&r, step);
        int drawn = r.config.train.per == LENGTH_PER_EXAMPLE ? r.data.batch.B : 1;
        for (int i = 0; i < r.data.batch.B; i++) {
            int length = r.data.length[i];
            if (length < LO || length > HI) fail_msg("length %d", length);
            if (drawn == 1) assert_int_equal(length, r.data.batch.T);
            if (i < drawn) count[length - LO]++;
        }
    }
    rig_close(&r);
}

static void expect_law(const char *what, const int count[N_LENGTH], const double p[N_LENGTH])
{
    double chi = 0, all = 0, sum = 0;
    for (int i = 0; i < N_LENGTH; i++) all += count[i], sum += p[i];
    for (int i = 0; i < N_LENGTH; i++) {
        double expected = all * p[i] / sum;
        if (expected == 0 && count[i]) fail_msg("%s: length %d", what, LO + i);
        if (expected > 0) chi += pow(count[i] - expected, 2) / expected;
    }
    if (!(chi < 24.3)) fail_msg("%s: chi-square %.1f over 7 degrees of freedom, expected below 24.3", what, chi);
}

static void laws_of_length(void **unused)
{
    (void)unused;
    int count[N_LENGTH];
    double uniform[N_LENGTH], falling[N_LENGTH], rising[N_LENGTH], grown[N_LENGTH];
    for (int i = 0; i < N_LENGTH; i++) {
        uniform[i] = 1;
        falling[i] = pow(0.7, LO + i);
        rising[i] = pow(1.5, LO + i);
        grown[i] = i < 4;
    }
    count_lengths("[train]\nlength = 3..10\nbatch = 2\n", 0, 4000, count);
    expect_law("uniform", count, uniform);
    count_lengths("[train]\nlength = 3..10\nper = example\nbatch = 4\n", 0, 1000, count);
    expect_law("uniform, per example", count, uniform);
    count_lengths("[train]\nlength = 3..10\nlength_law = reverse_exponential\ntau = 0.7\nbatch = 1\n", 0, 4000, count);
    expect_law("tau = 0.7", count, falling);
    count_lengths("[train]\nlength = 3..10\nlength_law = reverse_exponential\ntau = 1.5\nper = example\nbatch = 4\n", 0, 1000, count);
    expect_law("tau = 1.5", count, rising);
    /* a law so steep that the shortest length's chance is no number any more: the longest has half of it, its neighbour a quarter */
    struct rig r;
    int last[3] = { 0 };
    rig_open(&r, "none", "reverse", "reverse", "[train]\nlength = 1..1100\nlength_law = reverse_exponential\ntau = 2\nbatch = 1\n");
    for (int step = 0; step < 4000; step++) {
        train(&r, step);
        if (r.data.length[0] > 1097) last[1100 - r.data.length[0]]++;
    }
    for (int i = 0; i < 3; i++)
        if (fabs(last[i] - 4000 * pow(0.5, i + 1)) > 140) fail_msg("tau = 2: length %d came %d times of 4000", 1100 - i, last[i]);
    rig_close(&r);
    /* from step 3 * 1000 on the longest is LO + 3, until step 4000 */
    count_lengths("[train]\nlength = 3..10\nlength_law = growing\ngrow_every = 1000\nbatch = 1\n", 3000, 1000, count);
    expect_law("growing", count, grown);
    count_lengths("[train]\nlength = 3..10\nlength_law = growing\ngrow_every = 1000\nbatch = 1\n", 50000, 4000, count);
    expect_law("grown up", count, uniform);
    count_lengths("[train]\nlength = 3..10\nlength_law = growing\ngrow_every = 1000\nbatch = 1\n", 0, 1000, count);
    assert_int_equal(count[0], 1000);
}

/* ---- padding ---- */

static struct model model_of(const struct rig *r)
{
    struct model m;
    struct model_setup setup;
    struct lab_err err;
    config_model_setup(&r->config, &setup);
    if (model_init(&m, &setup, &err) != 0) fail_msg("%s", err.msg);
    return m;
}

/* The logits of sequence i alone, at its own length, against those in the padded batch. */
static void expect_same_logits(struct rig *r, struct model *m, int i, const lab_real *padded)
{
    const struct model_batch *b = &r->data.batch;
    int T = config_tape(&r->config, r->data.length[i]), V = m->setup.vocab_out;
    struct model_batch alone = { .B = 1, .T = T, .token = b->token + (size_t)i * b->T, .target = b->target + (size_t)i * b->T,
                                 .pos = b->pos + (size_t)i * b->pos_stride };
    model_forward(m, &alone, 0, 0);
    for (int k = 0; k < T * V; k++) {
        double difference = fabs((double)(m->logits[k] - padded[(size_t)i * b->T * V + k]));
        if (difference > 2e-5) fail_msg("%s, sequence %d of length %d in a batch of %d: logit %d differs by %g", r->config.encoder->name, i, T, b->T, k, difference);
    }
}

static void padding_changes_no_valid_output(void **unused)
{
    (void)unused;
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "t5", "rope" };
    for (int k = 0; k < 10; k++) {
        struct rig r;
        rig_open(&r, encoder[k / 2], "lacoco", "lacoco_unique_copy", "[train]\nlength = 1..30\nper = example\nbatch = 6\n"
                 "[model]\ncausal = yes\nd_model = 32\n[task.lacoco_unique_copy]\nsymbols = 40\n");
        r.config.model.causal = k % 2;       /* the task is for causal models, but what padding does is the same question for both */
        r.config.dims.causal = k % 2;
        struct model m = model_of(&r);
        train(&r, 1);
        const struct model_batch *b = &r.data.batch;
        size_t n = (size_t)b->B * b->T * m.setup.vocab_out;
        assert_non_null(b->key_ok);
        lab_real *padded = malloc(n * sizeof *padded);
        model_forward(&m, b, 0, 0);
        memcpy(padded, m.logits, n * sizeof *padded);
        for (int i = 0; i < b->B; i++) expect_same_logits(&r, &m, i, padded);
        for (int t = 0; t < b->B * b->T; t++) if (!b->key_ok[t]) r.data.token[t] = 17;      /* whatever stands there */
        model_forward(&m, b, 0, 0);
        for (int t = 0; t < b->B * b->T; t++) {
            if (!b->key_ok[t]) continue;
            assert_memory_equal(m.logits + (size_t)t * m.setup.vocab_out, padded + (size_t)t * m.setup.vocab_out, (size_t)m.setup.vocab_out * sizeof *padded);
        }
        free(padded);
        model_release(&m);
        rig_close(&r);
    }
}

/* What is padded has no key and no target; what is not is the example itself. */
static void padding_is_neither_trained_nor_scored(void **unused)
{
    (void)unused;
    struct rig r;
    int padded = 0;
    struct lab_err err;
    rig_open(&r, "none", "reverse", "reverse", "[train]\nlength = 1..9\nper = example\nbatch = 16\n");
    for (int step = 0; step < 20; step++) {
        train(&r, step);
        const struct model_batch *b = &r.data.batch;
        for (int i = 0; i < b->B; i++) {
            int32_t in[9], target[9], pos[9];
            float weight[9];
            uint8_t counted[9];
            struct lab_example e = { .in = in, .target = target, .weight = weight, .pos = pos, .counted = counted };
            int length = r.data.length[i];
            assert_int_equal(r.config.task->sample(r.config.task_self, 3, LAB_TRAIN, (int64_t)step * 16 + i, length, &e, &err), 0);
            assert_memory_equal(b->token + i * b->T, in, (size_t)length * sizeof *in);
            assert_memory_equal(b->target + i * b->T, target, (size_t)length * sizeof *target);
            for (int t = 0; t < b->T; t++) {
                if (b->key_ok) assert_int_equal(b->key_ok[i * b->T + t], t < length);
                if (t < length) continue;
                assert_int_equal(b->target[i * b->T + t], -1);
                padded++;
            }
        }
    }
    assert_true(padded > 100);
    rig_close(&r);
}

/* The loss and the gradient of a padded batch are those of its sequences, weighted by their numbers of targets. */
static void check_padded(const char *encoder, const char *lengths)
{
    char settings[128];
    struct rig r;
    snprintf(settings, sizeof settings, "[train]\nlength = %s\nper = example\nbatch = 8\n[model]\nd_model = 32\n", lengths);
    rig_open(&r, encoder, "reverse", "reverse", settings);
    struct model *m = &r.model;
    double sum = 0;
    int targets = 0, last = m->n_param - 1, T;
    train(&r, 2);
    struct model_batch b = r.data.batch;
    double whole = model_step(m, &b, 0);
    lab_real gradient[2] = { m->param[0].grad[5], m->param[last].grad[0] }, expected[2] = { 0, 0 };
    for (int i = 0; i < b.B; i++) {
        T = r.data.length[i];
        if (i && T > r.data.length[i - 1]) fail_msg("%s: %d tokens after %d", encoder, T, (int)r.data.length[i - 1]);
        struct model_batch alone = { .B = 1, .T = T, .token = b.token + i * b.T, .target = b.target + i * b.T, .pos = b.pos };
        sum += model_step(m, &alone, 0) * T;
        expected[0] += m->param[0].grad[5] * (lab_real)T, expected[1] += m->param[last].grad[0] * (lab_real)T;
        targets += T;
    }
    if (fabs(whole - sum / targets) > 1e-5) fail_msg("%s: loss %g, expected %g", encoder, whole, sum / targets);
    for (int i = 0; i < 2; i++)
        if (fabs((double)gradient[i] - (double)expected[i] / targets) > 1e-5)
            fail_msg("%s: gradient %g, expected %g", encoder, (double)gradient[i], (double)expected[i] / targets);
    rig_close(&r);
}
/* One bias serves sequences of several lengths; 60 to 70 tokens are more than one tile, or not, in the same batch. */
static void padding_is_outside_the_loss(void **unused)
{
    static const char *const encoder[] = { "rope", "t5", "fourier", "shaw" }, *const lengths[] = { "1..9", "3..40", "60..70" };
    (void)unused;
    for (size_t e = 0; e < sizeof encoder / sizeof *encoder; e++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) check_padded(encoder[e], lengths[l]);
}

/* Positions that the task writes reach the model row by row, and a larger range of ids reaches the encoder. */
static void positions_of_the_task(void **unused)
{
    (void)unused;
    struct rig r;
    rig_open(&r, "sinusoidal", "addition", "coupled_addition", "[train]\nlength = 1..6\nper = example\nbatch = 8\n[model]\ncausal = yes\n[task.coupled_addition]\nmax_position = 60\n");
    assert_int_equal(r.config.dims.max_pos, 61);
    train(&r, 0);
    assert_int_equal(r.data.batch.pos_stride, r.data.batch.T);
    for (int i = 0; i < 8; i++) {
        const int32_t *pos = r.data.batch.pos + i * r.data.batch.T;
        int n = r.data.length[i];
        assert_int_equal(pos[0], 0);
        assert_int_equal(pos[n], pos[2 * n + 1]);            /* units of both operands */
        assert_int_equal(pos[n], pos[2 * n + 3]);            /* and of the answer */
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(laws_of_length), cmocka_unit_test(padding_changes_no_valid_output), cmocka_unit_test(padding_is_neither_trained_nor_scored),
        cmocka_unit_test(padding_is_outside_the_loss), cmocka_unit_test(positions_of_the_task) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
