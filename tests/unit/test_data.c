/* test_data -- training batches: the law of their lengths, and padding that changes nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "exp/data.h"
#include "fake_plugins.h"

struct rig { struct registry registry; struct conf conf; struct run_config config; struct data data; };

static void rig_init(struct rig *r, const char *encoder, const char *task_file, const char *task, const char *settings)
{
    char encoder_path[256], task_path[256], text[2048];
    struct lab_err err;
    snprintf(encoder_path, sizeof encoder_path, TEST_BUILD "/plugins/encoders/%s.so", encoder);
    snprintf(task_path, sizeof task_path, TEST_BUILD "/plugins/tasks/%s.so", task_file);
    const char *file[] = { encoder_path, task_path };
    int n = snprintf(text, sizeof text, "[run]\nencoder = %s\ntask = %s\nseed = 3\n%s", encoder, task, settings);
    *r = (struct rig){ .registry = { 0 } };
    if (registry_load_files(&r->registry, file, 2, &err) != 0 || conf_read_text(&r->conf, "test", text, (size_t)n, &err) != 0 ||
        config_build(&r->config, r->conf.entry, r->conf.n, &r->registry, &err) != 0 ||
        data_init(&r->data, &r->config, r->config.train.batch * r->config.dims.max_len, &err) != 0) fail_msg("%s", err.msg);
}

static void rig_release(struct rig *r)
{
    data_release(&r->data);
    config_free(&r->config);
    conf_free(&r->conf);
    registry_free(&r->registry);
}

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
    rig_init(&r, "none", "reverse", "reverse", settings);
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
    rig_release(&r);
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
        rig_init(&r, encoder[k / 2], "lacoco", "lacoco_unique_copy", "[train]\nlength = 1..30\nper = example\nbatch = 6\n"
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
        rig_release(&r);
    }
}

/* What is padded has no key and no target; what is not is the example itself. */
static void padding_is_neither_trained_nor_scored(void **unused)
{
    (void)unused;
    struct rig r;
    int padded = 0;
    struct lab_err err;
    rig_init(&r, "none", "reverse", "reverse", "[train]\nlength = 1..9\nper = example\nbatch = 16\n");
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
    rig_release(&r);
}

/* The loss and the gradient of a padded batch are those of its sequences, weighted by their numbers of targets. */
static void padding_is_outside_the_loss(void **unused)
{
    (void)unused;
    struct rig r;
    rig_init(&r, "rope", "reverse", "reverse", "[train]\nlength = 1..9\nper = example\nbatch = 8\n[model]\nd_model = 32\n");
    struct model m = model_of(&r);
    double sum = 0;
    int targets = 0, T;
    train(&r, 2);
    struct model_batch b = r.data.batch;
    double whole = model_step(&m, &b, 0);
    lab_real gradient = m.param[0].grad[5], expected = 0;
    for (int i = 0; i < b.B; i++) {
        T = r.data.length[i];
        struct model_batch alone = { .B = 1, .T = T, .token = b.token + i * b.T, .target = b.target + i * b.T, .pos = b.pos };
        sum += model_step(&m, &alone, 0) * T;
        expected += m.param[0].grad[5] * (lab_real)T;
        targets += T;
    }
    if (fabs(whole - sum / targets) > 1e-5) fail_msg("loss %g, expected %g", whole, sum / targets);
    if (fabs((double)gradient - (double)expected / targets) > 1e-5) fail_msg("gradient %g, expected %g", (double)gradient, (double)expected / targets);
    model_release(&m);
    rig_release(&r);
}

/* Positions that the task writes reach the model row by row, and a larger range of ids reaches the encoder. */
static void positions_of_the_task(void **unused)
{
    (void)unused;
    struct rig r;
    rig_init(&r, "sinusoidal", "addition", "coupled_addition", "[train]\nlength = 1..6\nper = example\nbatch = 8\n[model]\ncausal = yes\n[task.coupled_addition]\nmax_position = 60\n");
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
    rig_release(&r);
}

/* ---- which examples, and a task at fault: with vtables of the test's own ---- */

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

/* A configuration put together by hand: data reads no more of it than this. */
static struct run_config config_of(const struct lab_task *task, void *self, int lo, int hi, int batch)
{
    return (struct run_config){ .task = task, .task_self = self, .task_info = { .vocab_in = 10, .vocab_out = 10, .max_slice = 100 }, .seed = 5,
                                .train = { .length = { lo, hi }, .batch = batch, .grow_every = 1 }, .eval = { .seed = 77 }, .dims = { .max_pos = 64 } };
}

static const struct lab_task *echo(void) { return &fake_task[0]; }

static void assert_examples(const struct data *d, uint64_t seed, int split, int length, int64_t first)
{
    int32_t in[64], target[64], pos[64];
    float weight[64];
    struct lab_err err;
    for (int i = 0; i < d->batch.B; i++) {
        struct lab_example e = { .in = in, .target = target, .weight = weight, .pos = pos };
        assert_int_equal(fake_sample(d->config->task_self, seed, split, first + i, length, &e, &err), 0);
        assert_memory_equal(d->batch.token + i * length, in, (size_t)length * sizeof *in);
        assert_memory_equal(d->batch.target + i * length, target, (size_t)length * sizeof *target);
    }
}

static void step_s_takes_the_examples_after_those_before(void **state)
{
    (void)state;
    struct fake_task self = { .vocab = 10 };
    struct run_config c = config_of(echo(), &self, 6, 6, 4);
    struct data d;
    OK(data_init(&d, &c, 24, &err));
    static const int64_t step[] = { 0, 1, 999, (int64_t)1 << 33, 0 };
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        OK(data_train(&d, step[i], &err));
        assert_int_equal(d.batch.B, 4);
        assert_int_equal(d.batch.T, 6);
        assert_int_equal(d.batch.pos_stride, 0);
        assert_null(d.batch.key_ok);
        assert_examples(&d, 5, LAB_TRAIN, 6, step[i] * 4);
        for (int t = 0; t < 6; t++) assert_int_equal(d.batch.pos[t], t);
        for (int t = 0; t < 24; t++) assert_true(d.batch.weight[t] == 1);
    }
    data_release(&d);
}

/* 2000 draws from 3..7: each of the five comes up 400 times, give or take 5 standard deviations of sqrt(2000 * 0.2 * 0.8) = 17.9. */
static void a_length_is_drawn_for_each_step(void **state)
{
    (void)state;
    struct fake_task self = { .vocab = 10 };
    struct run_config c = config_of(echo(), &self, 3, 7, 2), other = c;
    struct data d, e;
    int count[8] = { 0 }, differs = 0;
    other.seed = 6;
    OK(data_init(&d, &c, 14, &err));
    OK(data_init(&e, &other, 14, &err));
    for (int64_t s = 0; s < 2000; s++) {
        OK(data_train(&d, s, &err));
        OK(data_train(&e, s, &err));
        assert_true(d.batch.T >= 3 && d.batch.T <= 7);
        count[d.batch.T]++;
        differs += d.batch.T != e.batch.T;
        if (s < 20) assert_examples(&d, 5, LAB_TRAIN, d.batch.T, s * 2);
    }
    for (int length = 3; length <= 7; length++) assert_true(abs(count[length] - 400) < 90);
    assert_true(differs > 1000);                     /* another seed, other lengths: 1600 expected */
    data_release(&d);
    data_release(&e);
}

static void the_evaluation_set_is_the_same_in_any_batches(void **state)
{
    (void)state;
    struct fake_task self = { .vocab = 10 };
    struct run_config c = config_of(echo(), &self, 6, 6, 4);
    struct data d;
    struct hash hash;
    char whole[HASH_HEX], pieces[HASH_HEX], valid[HASH_HEX];
    static const int piece[] = { 1, 4, 2, 3 };
    OK(data_init(&d, &c, 60, &err));
    hash_init(&hash);
    OK(data_eval(&d, LAB_TEST, 6, 0, 10, &hash, &err));
    hash_end(&hash, whole);
    assert_examples(&d, 77, LAB_TEST, 6, 0);
    hash_init(&hash);
    for (int i = 0, first = 0; i < 4; first += piece[i++]) {
        OK(data_eval(&d, LAB_TEST, 6, first, piece[i], &hash, &err));
        assert_examples(&d, 77, LAB_TEST, 6, first);
    }
    hash_end(&hash, pieces);
    assert_string_equal(pieces, whole);
    hash_init(&hash);
    OK(data_eval(&d, LAB_VALID, 6, 0, 10, &hash, &err));
    hash_end(&hash, valid);
    assert_string_not_equal(valid, whole);
    c.seed = 1234;                                   /* of the run: the evaluation does not depend on it */
    OK(data_eval(&d, LAB_TEST, 6, 0, 10, NULL, &err));
    assert_examples(&d, 77, LAB_TEST, 6, 0);
    data_release(&d);
}

/* ---- what a task may write, and may not ---- */

static int wrong;                                    /* which fault the task below has */
enum { NONE, TOKEN_LOW, TOKEN_HIGH, TARGET_LOW, TARGET_HIGH, POSITION_LOW, POSITION_HIGH, SLICE, PROMPT, REFUSES };
static int positioned_tape(const void *self, int len) { (void)self; return len + 2; }
static int positioned_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    (void)self, (void)seed, (void)split;
    int T = len + 2;
    for (int t = 0; t < T; t++) {
        assert_true(e->weight[t] == 1);              /* preset, also after an example that changed them */
        assert_int_equal(e->pos[t], t);
        e->in[t] = t % 10, e->target[t] = t < len ? -1 : t % 10, e->weight[t] = (float)(t + 2), e->pos[t] = (int32_t)(40 + n - t);
    }
    e->slice = (int32_t)n * 3;
    if (wrong == TOKEN_LOW) e->in[3] = -1;
    if (wrong == TOKEN_HIGH) e->in[3] = 10;
    if (wrong == TARGET_LOW) e->target[3] = -2;
    if (wrong == TARGET_HIGH) e->target[3] = 10;
    if (wrong == POSITION_LOW) e->pos[3] = -1;
    if (wrong == POSITION_HIGH) e->pos[3] = 64;
    if (wrong == SLICE) e->slice = 100;
    if (wrong == PROMPT) e->prompt = T + 1;
    return wrong == REFUSES ? lab_fail(err, "no example %d", (int)n) : 0;
}
static const struct lab_task positioned = { .size = sizeof positioned, .name = "positioned", .flags = LAB_TASK_POSITIONS, .tape = positioned_tape,
                                            .sample = positioned_sample };

static void positions_weights_and_slices_are_the_tasks(void **state)
{
    (void)state;
    struct run_config c = config_of(&positioned, NULL, 4, 4, 3);
    struct data d;
    wrong = NONE;
    OK(data_init(&d, &c, 18, &err));
    for (int64_t s = 0; s < 2; s++) {
        OK(data_train(&d, s, &err));
        assert_int_equal(d.batch.T, 6);
        assert_int_equal(d.batch.pos_stride, 6);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(d.slice[i], 3 * (3 * s + i));
            for (int t = 0; t < 6; t++) {
                assert_int_equal(d.batch.pos[6 * i + t], 40 + 3 * s + i - t);
                assert_int_equal(d.batch.target[6 * i + t], t < 4 ? -1 : t);
                assert_true(d.batch.weight[6 * i + t] == (float)(t + 2));
            }
        }
    }
    data_release(&d);
}

static void a_task_at_fault_is_told_so(void **state)
{
    (void)state;
    static const char *const message[] = { [TOKEN_LOW] = "task positioned: token -1 at position 3 is outside [0,10): the task is at fault",
        [TOKEN_HIGH] = "token 10 at position 3 is outside [0,10)", [TARGET_LOW] = "target -2 at position 3 is outside [-1,10)",
        [TARGET_HIGH] = "target 10 at position 3 is outside [-1,10)", [POSITION_LOW] = "position id -1 at position 3 is outside [0,64)",
        [POSITION_HIGH] = "position id 64 at position 3 is outside [0,64)", [SLICE] = "slice 100 of 100", [PROMPT] = "a prompt of 7 of 6 tokens",
        [REFUSES] = "no example 0" };
    struct run_config c = config_of(&positioned, NULL, 4, 4, 3);
    struct data d;
    OK(data_init(&d, &c, 18, &err));
    for (wrong = TOKEN_LOW; wrong <= REFUSES; wrong++) {
        struct lab_err err = { "" };
        assert_int_equal(data_train(&d, 0, &err), -1);
        if (!strstr(err.msg, message[wrong])) fail_msg("found %s, expected %s", err.msg, message[wrong]);
    }
    data_release(&d);
}

static void more_than_there_is_room_for_is_refused(void **state)
{
    (void)state;
    struct fake_task self = { .vocab = 10 };
    struct run_config c = config_of(echo(), &self, 6, 6, 4);
    struct data d;
    struct lab_err err = { "" };
    OK(data_init(&d, &c, 24, &err));
    OK(data_eval(&d, LAB_TEST, 6, 0, 4, NULL, &err));
    assert_int_equal(data_eval(&d, LAB_TEST, 6, 0, 5, NULL, &err), -1);
    assert_string_equal(err.msg, "5 examples of 6 tokens need 30, room is for 24");
    assert_int_equal(data_eval(&d, LAB_TEST, 100000, 0, 100000, NULL, &err), -1);
    assert_string_equal(err.msg, "100000 examples are more than the 24 tokens there is room for");
    assert_int_equal(data_eval(&d, LAB_TEST, 2000000000, 0, 24, NULL, &err), -1);
    assert_string_equal(err.msg, "24 examples of 2000000000 tokens need 48000000000, room is for 24");
    data_release(&d);
    mem_fail_at(1);
    assert_int_equal(data_init(&d, &c, 24, &err), -1);
    mem_fail_at(0);
    assert_non_null(strstr(err.msg, "out of memory"));
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(laws_of_length), cmocka_unit_test(padding_changes_no_valid_output), cmocka_unit_test(padding_is_neither_trained_nor_scored),
        cmocka_unit_test(padding_is_outside_the_loss), cmocka_unit_test(positions_of_the_task),
        cmocka_unit_test(step_s_takes_the_examples_after_those_before),
        cmocka_unit_test(a_length_is_drawn_for_each_step),
        cmocka_unit_test(the_evaluation_set_is_the_same_in_any_batches),
        cmocka_unit_test(positions_weights_and_slices_are_the_tasks),
        cmocka_unit_test(a_task_at_fault_is_told_so),
        cmocka_unit_test(more_than_there_is_room_for_is_refused) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
