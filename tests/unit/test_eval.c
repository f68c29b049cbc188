/* test_eval -- counts that leave out what is not counted, slices, and free running against writing token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "exp/eval.h"
#include "fake_plugins.h"
#include "nn/optim.h"

struct rig { struct registry registry; struct conf conf; struct run_config config; struct data data; struct model model; };

static void rig_init(struct rig *r, const char *encoder, const char *task_file, const char *task, const char *settings)
{
    char encoder_path[256], task_path[256], text[2048];
    struct lab_err err;
    struct model_setup setup;
    snprintf(encoder_path, sizeof encoder_path, TEST_BUILD "/plugins/encoders/%s.so", encoder);
    snprintf(task_path, sizeof task_path, TEST_BUILD "/plugins/tasks/%s.so", task_file);
    const char *file[] = { encoder_path, task_path };
    int n = snprintf(text, sizeof text, "[run]\nencoder = %s\ntask = %s\nseed = 3\n%s", encoder, task, settings);
    memset(r, 0, sizeof *r);
    if (registry_load_files(&r->registry, file, 2, &err) != 0 || conf_read_text(&r->conf, "test", text, (size_t)n, &err) != 0 ||
        config_build(&r->config, r->conf.entry, r->conf.n, &r->registry, &err) != 0) fail_msg("%s", err.msg);
    config_model_setup(&r->config, &setup);
    if (data_init(&r->data, &r->config, setup.infer_tokens + setup.train_batch * setup.train_len, &err) != 0 ||
        model_init(&r->model, &setup, &err) != 0) fail_msg("%s", err.msg);
}

static void rig_release(struct rig *r)
{
    model_release(&r->model);
    data_release(&r->data);
    config_free(&r->config);
    conf_free(&r->conf);
    registry_free(&r->registry);
}

static void learn(struct rig *r, int steps)
{
    struct lab_err err;
    struct optim_options o = { .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .steps = steps };
    for (int i = 0; i < steps; i++) {
        if (data_train(&r->data, i, &err) != 0) fail_msg("%s", err.msg);
        model_step(&r->model, &r->data.batch, (uint32_t)i);
        optim_step(&r->model, &o, i);
    }
}

struct seen { struct record eval, slice[64]; int slices; };
static int keep(void *ctx, const struct record *r)
{
    struct seen *s = ctx;
    if (r->type == RECORD_EVAL) s->eval = *r;
    if (r->type == RECORD_EVAL_SLICE && s->slices < 64) s->slice[s->slices++] = *r;
    return 0;
}

static struct seen evaluate(struct rig *r, int length, int n, int free_running)
{
    struct seen seen = { .slices = 0 };
    struct record_sink sink = { keep, &seen };
    struct lab_err err;
    struct eval_request q = { LAB_TEST, length, n, 7, 0, free_running };
    if (eval_run(&r->model, &r->data, &q, &sink, NULL, NULL, &err) != 0) fail_msg("%s", err.msg);
    assert_string_equal(seen.eval.split, free_running ? "free" : "test");
    assert_int_equal(seen.eval.n, n);
    return seen;
}

/* ---- what is not counted ---- */

/* A model that always says 0 scores exactly the zeros of the counted targets; its loss is over all trained targets. */
static void uncounted_targets_are_trained_on_only(void **unused)
{
    (void)unused;
    enum { LENGTH = 12, N = 40 };
    struct rig r;
    rig_init(&r, "none", "dm_binary", "binary_addition", "[train]\nlength = 12\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n");
    struct model_param *weight = NULL, *bias = NULL;
    for (int i = 0; i < r.model.n_param; i++) {
        if (!strcmp(r.model.param[i].name, "head.weight")) weight = &r.model.param[i];
        if (!strcmp(r.model.param[i].name, "head.bias")) bias = &r.model.param[i];
    }
    assert_non_null(weight);
    assert_non_null(bias);
    memset(weight->value, 0, weight->size * sizeof *weight->value);
    bias->value[0] = 2, bias->value[1] = 0, bias->value[2] = 1;
    struct seen seen = evaluate(&r, LENGTH, N, 0);
    int64_t counted = 0, zeros = 0, trained = 0;
    double loss = 0, all = exp(2) + 1 + exp(1);
    for (int i = 0; i < N; i++) {
        struct lab_err err;
        if (data_eval(&r.data, LAB_TEST, LENGTH, i, 1, NULL, &err) != 0) fail_msg("%s", err.msg);
        const int32_t *y = r.data.target + LENGTH;
        int end = 0;
        for (int t = 0; t < LENGTH + 1; t++, trained++) {
            loss += log(all) - (double)bias->value[y[t]];
            counted += !end, zeros += !end && y[t] == 0;
            end |= y[t] == 2;
        }
    }
    assert_int_equal(seen.eval.n_tok, counted);
    assert_int_equal(seen.eval.n_tok_ok, zeros);
    assert_int_equal(seen.eval.n_exact, 0);              /* the terminator is counted, and never said */
    assert_true(counted < trained);
    if (fabs(seen.eval.value - loss / (double)trained) > 1e-5) fail_msg("loss %g, expected %g", seen.eval.value, loss / (double)trained);
    rig_release(&r);
}

static void slices_add_up(void **unused)
{
    (void)unused;
    struct rig r;
    rig_init(&r, "none", "mqar", "mqar", "[train]\nlength = 32\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n[task.mqar]\nvocab = 64\npairs = 2\npairs_most = 5\n");
    struct seen seen = evaluate(&r, 32, 300, 0);
    int64_t n = 0, exact = 0, tokens = 0, right = 0;
    assert_int_equal(seen.slices, 4);
    for (int i = 0; i < 4; i++) {
        const struct record *s = &seen.slice[i];
        assert_int_equal(s->position, 2 + i);
        assert_int_equal(s->n_tok, s->n * (2 + i));      /* as many queries as pairs */
        n += s->n, exact += s->n_exact, tokens += s->n_tok, right += s->n_tok_ok;
    }
    assert_int_equal(n, seen.eval.n);
    assert_int_equal(exact, seen.eval.n_exact);
    assert_int_equal(tokens, seen.eval.n_tok);
    assert_int_equal(right, seen.eval.n_tok_ok);
    rig_release(&r);
    rig_init(&r, "none", "reverse", "reverse", "[train]\nlength = 4\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n");
    assert_int_equal(evaluate(&r, 4, 10, 0).slices, 0);  /* one slice is none */
    rig_release(&r);
}

/* ---- free running ---- */

/* Token by token: the model reads the first t tokens, its guess becomes the next. */
static void write_by_token(struct rig *r, int length, int n, int64_t *exact, int64_t *right)
{
    struct lab_err err;
    *exact = *right = 0;
    for (int i = 0; i < n; i++) {
        if (data_eval(&r->data, LAB_TEST, length, i, 1, NULL, &err) != 0) fail_msg("%s", err.msg);
        int T = r->data.batch.T, V = r->model.setup.vocab_out, all = 1;
        for (int t = r->data.prompt[0] - 1; t < T; t++) {
            if (r->data.target[t] < 0) continue;
            struct model_batch prefix = { .B = 1, .T = t + 1, .token = r->data.token, .pos = r->data.batch.pos };
            model_forward(&r->model, &prefix, 0, 0);
            int guess = 0;
            for (int v = 1; v < V; v++) if (r->model.logits[(size_t)t * V + v] > r->model.logits[(size_t)t * V + guess]) guess = v;
            *right += guess == r->data.target[t];
            all &= guess == r->data.target[t];
            if (t + 1 < T) r->data.token[t + 1] = guess;
        }
        *exact += all;
    }
}

/* Models that know nothing, something and nearly everything, with each encoder and with positions of the task's own. */
static void free_running_is_greedy_decoding(void **unused)
{
    (void)unused;
    static const struct { const char *encoder, *file, *task, *more; int length, steps; } kind[] = {
        { "none", "lacoco", "lacoco_sort", "[task.lacoco_sort]\nsymbols = 12\n", 9, 0 },
        { "sinusoidal", "lacoco", "lacoco_unique_copy", "[task.lacoco_unique_copy]\nsymbols = 12\n", 8, 150 },
        { "learned", "lacoco", "lacoco_addition", "", 10, 100 },
        { "t5", "mcgill", "mcgill_copy", "[task.mcgill_copy]\nvariant = rdc\nsymbols = 5\n", 6, 100 },
        { "rope", "mcgill", "mcgill_reverse", "[task.mcgill_reverse]\nvariant = mcrv\nsymbols = 5\n", 5, 60 },
        { "rope", "addition", "mcgill_addition", "", 3, 60 },
        { "sinusoidal", "addition", "coupled_addition", "[task.coupled_addition]\nmax_position = 20\n", 3, 60 } };
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        struct rig r;
        char settings[512];
        int64_t exact, right;
        snprintf(settings, sizeof settings, "[train]\nlength = 4..%d\nbatch = 16\n[model]\ncausal = yes\nd_model = 32\nd_ff = 64\n%s", kind[k].length, kind[k].more);
        if (!strcmp(kind[k].file, "addition")) snprintf(settings, sizeof settings, "[train]\nlength = 1..%d\nbatch = 16\n[model]\ncausal = yes\nd_model = 32\nd_ff = 64\n%s", kind[k].length, kind[k].more);
        rig_init(&r, kind[k].encoder, kind[k].file, kind[k].task, settings);
        assert_true(config_continues(&r.config));
        learn(&r, kind[k].steps);
        struct seen alone = evaluate(&r, kind[k].length, 30, 1), forced = evaluate(&r, kind[k].length, 30, 0);
        write_by_token(&r, kind[k].length, 30, &exact, &right);
        if (alone.eval.n_exact != exact || alone.eval.n_tok_ok != right)
            fail_msg("%s: %d sequences and %d tokens right, by token %d and %d", kind[k].task, (int)alone.eval.n_exact, (int)alone.eval.n_tok_ok, (int)exact, (int)right);
        assert_int_equal(alone.eval.n_tok, forced.eval.n_tok);
        assert_int_equal(alone.eval.n_exact, forced.eval.n_exact);       /* an answer without a mistake is the same answer */
        assert_string_equal(alone.eval.sha256, forced.eval.sha256);      /* of the data as drawn */
        rig_release(&r);
    }
}

static void without_a_mistake_both_are_equal(void **unused)
{
    (void)unused;
    struct rig r;
    rig_init(&r, "rope", "mcgill", "mcgill_copy", "[train]\nlength = 1..4\nbatch = 32\n[model]\ncausal = yes\nd_model = 32\nd_ff = 64\n[task.mcgill_copy]\nvariant = rsc\nsymbols = 4\n");
    learn(&r, 300);
    for (int length = 1; length <= 4; length++) {
        struct seen alone = evaluate(&r, length, 50, 1), forced = evaluate(&r, length, 50, 0);
        assert_int_equal(forced.eval.n_exact, 50);
        assert_int_equal(alone.eval.n_exact, 50);
        assert_int_equal(alone.eval.n_tok_ok, forced.eval.n_tok_ok);
        if (alone.eval.value != forced.eval.value) fail_msg("loss %.9g alone, %.9g forced", alone.eval.value, forced.eval.value);
    }
    rig_release(&r);
}

static void only_causal_tasks_continue(void **unused)
{
    (void)unused;
    struct rig r;
    rig_init(&r, "none", "mqar", "mqar", "[train]\nlength = 32\n[model]\ncausal = yes\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n[task.mqar]\nvocab = 64\n");
    assert_false(config_continues(&r.config));           /* its targets are not the tokens that follow */
    rig_release(&r);
}

/* ==== counts and loss of a model whose answers are known: its head is a bias alone, so it says the same everywhere ==== */

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)
enum { LENGTH = 6, GUESS = 9 };

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

struct taken { struct record record[32]; int n, refuse_at; struct hash hash; };
static int take(void *ctx, const struct record *r)
{
    struct taken *t = ctx;
    unsigned char frame[RECORD_FRAME_MAX];
    if (t->n == t->refuse_at) return -1;
    hash_add(&t->hash, frame, record_encode(r, frame));
    t->record[t->n++] = *r;
    return 0;
}

/* Evaluates; the hash of the results must be that of the frames that were taken. */
static int take_evaluation(struct fixture *f, const struct eval_request *q, struct taken *t, struct lab_err *err)
{
    struct record_sink sink = { take, t };
    struct hash result;
    char told[HASH_HEX], found[HASH_HEX];
    *t = (struct taken){ .refuse_at = -1 };
    hash_init(&t->hash);
    hash_init(&result);
    int rc = eval_run(&f->model, &f->data, q, &sink, &result, NULL, err);
    hash_end(&result, told);
    hash_end(&t->hash, found);
    assert_string_equal(told, found);
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
        uint8_t counted[LENGTH];
        struct lab_example e = { .counted = counted, .in = in, .target = target, .weight = weight, .pos = pos };
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
        OK(take_evaluation(&f, &(struct eval_request){ LAB_TEST, LENGTH, 1000, 20, 0, 0 }, &t, &err));
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
    OK(take_evaluation(&f, &(struct eval_request){ LAB_VALID, LENGTH, 300, 7, 1, 0 }, &t, &err));
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
        OK(take_evaluation(&f, &(struct eval_request){ LAB_TEST, LENGTH, 200, 0, 0, 0 }, &t, &err));
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
    hash_init(&t.hash);
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
    for (long n = 1; n <= 4; n++) {
        mem_fail_at(n);
        assert_int_equal(take_evaluation(&f, &q, &t, &err), -1);
        mem_fail_at(0);
        assert_non_null(strstr(err.msg, "out of memory"));
        assert_int_equal(t.n, 0);
    }
    f.config.task = &half;
    fails_at = 150;
    assert_int_equal(take_evaluation(&f, &q, &t, &err), -1);
    fails_at = -1;
    assert_string_equal(err.msg, "no example 150");
    assert_int_equal(t.n, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(uncounted_targets_are_trained_on_only), cmocka_unit_test(slices_add_up), cmocka_unit_test(free_running_is_greedy_decoding),
        cmocka_unit_test(without_a_mistake_both_are_equal), cmocka_unit_test(only_causal_tasks_continue),
        cmocka_unit_test(counts_and_loss_are_those_of_the_examples),
        cmocka_unit_test(positions_that_are_scored_are_reported),
        cmocka_unit_test(a_task_may_score_whole_sequences_itself),
        cmocka_unit_test(it_ends_early_when_told_to),
        cmocka_unit_test(what_fails_is_told_and_nothing_is_emitted) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
