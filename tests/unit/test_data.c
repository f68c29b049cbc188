/* test_data -- batches: which examples they hold, how these lie in memory, and what a task at fault is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "exp/data.h"
#include "fake_plugins.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

/* A configuration put together by hand: data reads no more of it than this. */
static struct run_config config_of(const struct lab_task *task, void *self, int lo, int hi, int batch)
{
    return (struct run_config){ .task = task, .task_self = self, .task_info = { .vocab_in = 10, .vocab_out = 10, .max_slice = 64 }, .seed = 5,
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
enum { NONE, TOKEN_LOW, TOKEN_HIGH, TARGET_LOW, TARGET_HIGH, POSITION_LOW, POSITION_HIGH, REFUSES };
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
    static const char *const message[] = { [TOKEN_LOW] = "task positioned: token -1 at place 3 is outside [0,10): the task is at fault",
        [TOKEN_HIGH] = "token 10 at place 3 is outside [0,10)", [TARGET_LOW] = "target -2 at place 3 is outside [-1,10)",
        [TARGET_HIGH] = "target 10 at place 3 is outside [-1,10)", [POSITION_LOW] = "position -1 at place 3 is outside [0,64)",
        [POSITION_HIGH] = "position 64 at place 3 is outside [0,64)", [REFUSES] = "no example 0" };
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
    assert_non_null(strstr(err.msg, "need 10000000000, room"));
    data_release(&d);
    mem_fail_at(1);
    assert_int_equal(data_init(&d, &c, 24, &err), -1);
    mem_fail_at(0);
    assert_non_null(strstr(err.msg, "out of memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_s_takes_the_examples_after_those_before),
        cmocka_unit_test(a_length_is_drawn_for_each_step),
        cmocka_unit_test(the_evaluation_set_is_the_same_in_any_batches),
        cmocka_unit_test(positions_weights_and_slices_are_the_tasks),
        cmocka_unit_test(a_task_at_fault_is_told_so),
        cmocka_unit_test(more_than_there_is_room_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
