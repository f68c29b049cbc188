/* test_counts -- counts and loss of a model whose answers are known: its head is a bias alone, so it says the same everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "exp/eval.h"
#include "fake_plugins.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)
enum { V = 10, LENGTH = 6, GUESS = V - 1 };

/* ---- a task that scores odd positions only, weighs them, and fails on demand ---- */

static int64_t fails_at = -1;
static int score_right = 1;                          /* what its score() says of a right sequence */

static int half_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    if (n == fails_at) return lab_fail(err, "no example %d", (int)n);
    fake_sample(self, seed, split, n, len, e, err);
    for (int t = 0; t < len; t++) {
        e->weight[t] = (float)(5 + t);
        if (t % 2 == 0) e->target[t] = -1;
    }
    return 0;
}
static int first_right(const void *self, int len, const struct lab_example *e, const int32_t *guess)
{
    (void)self;
    for (int t = 0; t < len; t++) assert_int_equal(e->pos[t], t);
    return e->target[1] == guess[1] ? score_right : 0;
}
static struct lab_task half, scored;

/* ---- a model that says GUESS; the probability of v is (v + 1) / 55 ---- */

struct fixture { struct conf conf; struct run_config config; struct model model; struct data data; };
#define PROBABILITY(v) (((v) + 1) / 55.0)

static void open_fixture(struct fixture *f, const struct lab_task *task, int infer_tokens)
{
    static const char text[] = "[run]\nencoder = plain\ntask = echo\n[model]\nd_model = 8\nheads = 2\nlayers = 1\nd_ff = 8\n[train]\nlength = 6\n";
    struct model_setup setup;
    half = scored = *task;
    half.sample = scored.sample = half_sample;
    scored.score = first_right;
    OK(conf_read_text(&f->conf, "f.ini", text, sizeof text - 1, &err));
    OK(config_build(&f->config, f->conf.entry, f->conf.n, fake_registry(), &err));
    config_model_setup(&f->config, &setup);
    setup.train_batch = 0;
    setup.infer_tokens = infer_tokens;
    OK(model_init(&f->model, &setup, &err));
    OK(data_init(&f->data, &f->config, infer_tokens, &err));
    for (int i = 0; i < f->model.n_param; i++) {
        struct model_param *p = &f->model.param[i];
        for (size_t k = 0; k < p->size; k++) {
            if (!strcmp(p->name, "head.weight")) p->value[k] = 0;
            if (!strcmp(p->name, "head.bias")) p->value[k] = (lab_real)log(PROBABILITY(k));
        }
    }
}

static void close_fixture(struct fixture *f)
{
    data_release(&f->data);
    model_release(&f->model);
    config_free(&f->config);
    conf_free(&f->conf);
    assert_int_equal(fake_live, 0);
}

/* ---- what is emitted ---- */

struct taken { struct record record[32]; int n, refuse_at; unsigned char sum[32]; };     /* sum: of the frames' SHA-256, big-endian */
static int take(void *ctx, const struct record *r)
{
    struct taken *t = ctx;
    unsigned char frame[RECORD_FRAME_MAX];
    if (t->n == t->refuse_at) return -1;
    uint8_t digest[32];
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, frame, record_encode(r, frame));
    SHA256Final(digest, &sha);
    for (int i = 31, carry = 0; i >= 0; i--) {
        carry += t->sum[i] + digest[i];
        t->sum[i] = (unsigned char)carry;
        carry >>= 8;
    }
    t->record[t->n++] = *r;
    return 0;
}

/* Evaluates; the hash of the results must be the sum over the frames that were taken. */
static int evaluate(struct fixture *f, const struct eval_request *q, struct taken *t, struct lab_err *err)
{
    struct record_sink sink = { take, t };
    char told[HASH_HEX] = "";
    *t = (struct taken){ .refuse_at = -1 };
    int rc = eval_run(&f->model, &f->data, q, &sink, told, NULL, err);
    char sum[HASH_HEX];
    for (int i = 0; i < 32; i++) sprintf(sum + 2 * i, "%02x", t->sum[i]);
    assert_string_equal(told, t->n ? sum : "");
    return rc;
}

/* The same from the examples alone. */
struct truth { int64_t exact, first, tokens, right, scored[LENGTH], correct[LENGTH]; double loss; char sha256[HASH_HEX]; };

static struct truth truth_of(const struct fixture *f, int split, int64_t n)
{
    struct truth t = { 0 };
    struct hash hash;
    struct lab_err err;
    hash_init(&hash);
    for (int64_t i = 0; i < n; i++) {
        int32_t in[LENGTH], target[LENGTH], pos[LENGTH], all = 1;
        float weight[LENGTH];
        struct lab_example e = { .in = in, .target = target, .weight = weight, .pos = pos };
        f->config.task->sample(f->config.task_self, 1, split, i, LENGTH, &e, &err);
        for (int p = 0; p < LENGTH; p++) {
            if (target[p] < 0) continue;
            t.scored[p]++, t.tokens++;
            t.correct[p] += target[p] == GUESS, t.right += target[p] == GUESS;
            all &= target[p] == GUESS;
            t.loss -= log(PROBABILITY(target[p]));
        }
        t.exact += all;
        t.first += target[1] == GUESS;
        hash_add(&hash, in, sizeof in);
        hash_add(&hash, target, sizeof target);
    }
    t.loss /= (double)t.tokens;
    hash_end(&hash, t.sha256);
    return t;
}

static void assert_evaluation(const struct record *r, const struct truth *t, const char *split, int64_t exact)
{
    assert_int_equal(r->type, RECORD_EVAL);
    assert_string_equal(r->split, split);
    assert_int_equal(r->length, LENGTH);
    assert_int_equal(r->n_exact, exact);
    assert_int_equal(r->n_tok, t->tokens);
    assert_int_equal(r->n_tok_ok, t->right);
    assert_string_equal(r->sha256, t->sha256);
    if (fabs(r->value - t->loss) > 1e-5 * t->loss) fail_msg("loss %.9g, expected %.9g", r->value, t->loss);
}

/* 1000 sequences in batches of 85, of 1 and of all: the same counts; a weight in training is none here. */
static void counts_and_loss_are_those_of_the_examples(void **state)
{
    (void)state;
    static const int room[] = { 512, LENGTH, 1000 * LENGTH };
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        struct taken t;
        open_fixture(&f, &fake_task[0], room[i % 3]);
        if (i >= 3) f.config.task = &half;
        struct truth expected = truth_of(&f, LAB_TEST, 1000);
        OK(evaluate(&f, &(struct eval_request){ LAB_TEST, LENGTH, 1000, 20, 0, 0 }, &t, &err));
        assert_int_equal(t.n, 1);
        assert_int_equal(expected.tokens, i < 3 ? 6000 : 3000);
        assert_true(expected.right > 200);
        assert_evaluation(&t.record[0], &expected, "test", expected.exact);
        assert_int_equal(t.record[0].n, 1000);
        assert_int_equal(t.record[0].step, 20);
        close_fixture(&f);
    }
}

static void positions_that_are_scored_are_reported(void **state)
{
    (void)state;
    struct fixture f;
    struct taken t;
    open_fixture(&f, &fake_task[0], 512);
    f.config.task = &half;
    struct truth expected = truth_of(&f, LAB_VALID, 300);
    OK(evaluate(&f, &(struct eval_request){ LAB_VALID, LENGTH, 300, 7, 1, 0 }, &t, &err));
    assert_int_equal(t.n, 1 + LENGTH / 2);
    assert_evaluation(&t.record[0], &expected, "valid", expected.exact);
    for (int i = 1; i < t.n; i++) {
        const struct record *r = &t.record[i];
        assert_int_equal(r->type, RECORD_EVAL_POSITION);
        assert_string_equal(r->split, "valid");
        assert_int_equal(r->step, 7);
        assert_int_equal(r->length, LENGTH);
        assert_int_equal(r->position, 2 * i - 1);
        assert_int_equal(r->n_tok, 300);
        assert_int_equal(r->n_tok_ok, expected.correct[2 * i - 1]);
    }
    close_fixture(&f);
}

/* Only 1 is a right sequence. */
static void a_task_may_score_whole_sequences_itself(void **state)
{
    (void)state;
    for (score_right = 1; score_right <= 2; score_right++) {
        struct fixture f;
        struct taken t;
        open_fixture(&f, &fake_task[0], 512);
        f.config.task = &scored;
        struct truth expected = truth_of(&f, LAB_TEST, 200);
        assert_true(expected.first > 5 && expected.first != expected.exact);
        OK(evaluate(&f, &(struct eval_request){ LAB_TEST, LENGTH, 200, 0, 0, 0 }, &t, &err));
        assert_evaluation(&t.record[0], &expected, "test", score_right == 1 ? expected.first : 0);
        close_fixture(&f);
    }
}

static void it_ends_early_when_told_to(void **state)
{
    (void)state;
    struct fixture f;
    struct taken t = { .refuse_at = 0 };
    struct record_sink sink = { take, &t };
    struct eval_request q = { LAB_TEST, LENGTH, 200, 0, 1, 0 };
    struct lab_err err = { "" };
    volatile sig_atomic_t stop = 1;
    open_fixture(&f, &fake_task[0], 512);
    assert_int_equal(eval_run(&f.model, &f.data, &q, &sink, NULL, NULL, &err), 1);
    assert_int_equal(t.n, 0);
    t.refuse_at = 3;                                 /* among the positions */
    assert_int_equal(eval_run(&f.model, &f.data, &q, &sink, NULL, NULL, &err), 1);
    assert_int_equal(t.n, 3);
    t = (struct taken){ .refuse_at = -1 };
    assert_int_equal(eval_run(&f.model, &f.data, &q, &sink, NULL, &stop, &err), 1);
    assert_int_equal(t.n, 0);
    close_fixture(&f);
}

static void what_fails_is_told_and_nothing_is_emitted(void **state)
{
    (void)state;
    struct fixture f;
    struct taken t;
    struct eval_request q = { LAB_TEST, LENGTH, 200, 0, 1, 0 };
    struct lab_err err = { "" };
    open_fixture(&f, &fake_task[0], 512);
    for (long n = 1; n <= 3; n++) {
        mem_fail_at(n);
        assert_int_equal(evaluate(&f, &q, &t, &err), -1);
        mem_fail_at(0);
        assert_non_null(strstr(err.msg, "out of memory"));
        assert_int_equal(t.n, 0);
    }
    f.config.task = &half;
    fails_at = 150;
    assert_int_equal(evaluate(&f, &q, &t, &err), -1);
    fails_at = -1;
    assert_string_equal(err.msg, "no example 150");
    assert_int_equal(t.n, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_loss_are_those_of_the_examples),
        cmocka_unit_test(positions_that_are_scored_are_reported),
        cmocka_unit_test(a_task_may_score_whole_sequences_itself),
        cmocka_unit_test(it_ends_early_when_told_to),
        cmocka_unit_test(what_fails_is_told_and_nothing_is_emitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
