/* test_eval -- counts that leave out what is not counted, slices, and free running against writing token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rig.h"

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
    rig_open(&r, "none", "dm_binary", "binary_addition", "[train]\nlength = 12\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n");
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
    rig_close(&r);
}

static void slices_add_up(void **unused)
{
    (void)unused;
    struct rig r;
    rig_open(&r, "none", "mqar", "mqar", "[train]\nlength = 32\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n[task.mqar]\nvocab = 64\npairs = 2\npairs_most = 5\n");
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
    rig_close(&r);
    rig_open(&r, "none", "reverse", "reverse", "[train]\nlength = 4\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n");
    assert_int_equal(evaluate(&r, 4, 10, 0).slices, 0);  /* one slice is none */
    rig_close(&r);
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
        rig_open(&r, kind[k].encoder, kind[k].file, kind[k].task, settings);
        assert_true(config_continues(&r.config));
        rig_learn(&r, kind[k].steps, 3e-3);
        struct seen alone = evaluate(&r, kind[k].length, 30, 1), forced = evaluate(&r, kind[k].length, 30, 0);
        write_by_token(&r, kind[k].length, 30, &exact, &right);
        if (alone.eval.n_exact != exact || alone.eval.n_tok_ok != right)
            fail_msg("%s: %d sequences and %d tokens right, by token %d and %d", kind[k].task, (int)alone.eval.n_exact, (int)alone.eval.n_tok_ok, (int)exact, (int)right);
        assert_int_equal(alone.eval.n_tok, forced.eval.n_tok);
        assert_int_equal(alone.eval.n_exact, forced.eval.n_exact);       /* an answer without a mistake is the same answer */
        assert_string_equal(alone.eval.sha256, forced.eval.sha256);      /* of the data as drawn */
        rig_close(&r);
    }
}

/* As it can be done without keeping anything: whole forwards until no guess changes. */
static void write_by_forward(struct rig *r, int length, int n)
{
    struct lab_err err;
    if (data_eval(&r->data, LAB_TEST, length, 0, n, NULL, &err) != 0) fail_msg("%s", err.msg);
    const struct model_batch *b = &r->data.batch;
    int V = r->model.setup.vocab_out;
    for (int changed = 1; changed; ) {
        changed = 0;
        model_forward(&r->model, b, 0, 0);
        for (int i = 0; i < b->B; i++)
            for (int t = r->data.prompt[i] - 1; t + 1 < b->T; t++) {
                const lab_real *logits = r->model.logits + ((size_t)i * b->T + t) * V;
                int32_t guess = 0, *next = r->data.token + (size_t)i * b->T + t + 1;
                if (r->data.target[(size_t)i * b->T + t] < 0) continue;
                for (int v = 1; v < V; v++) if (logits[v] > logits[guess]) guess = v;
                changed |= *next != guess;
                *next = guess;
            }
    }
}

/* The same tokens, and the same logits wherever the model answers, as whole forwards give. */
static void check_decoding(const char *encoder, const char *file, const char *task, int length, int steps, const char *settings)
{
    static int32_t token[1024];
    static lab_real logits[1024 * 64];
    struct rig r;
    rig_open(&r, encoder, file, task, settings);
    rig_learn(&r, steps, 3e-3);
    int T = config_tape(&r.config, length), n = r.model.setup.infer_tokens / T, N = n * T, V = r.model.setup.vocab_out;   /* one batch */
    assert_true(n > 3 && N <= 1024 && V <= 64);
    write_by_forward(&r, length, n);
    memcpy(token, r.data.token, (size_t)N * sizeof *token);
    memcpy(logits, r.model.logits, (size_t)N * V * sizeof *logits);
    struct seen alone = evaluate(&r, length, n, 1);        /* leaves its tokens and logits behind */
    for (int i = 0; i < N; i++) {
        if (r.data.token[i] != token[i]) fail_msg("%s, %s: token %d of sequence %d is %d, expected %d", encoder, task, i % T, i / T, (int)r.data.token[i], (int)token[i]);
        for (int v = 0; v < V && r.data.target[i] >= 0; v++)
            if (fabs((double)(r.model.logits[(size_t)i * V + v] - logits[(size_t)i * V + v])) > 2e-4)
                fail_msg("%s, %s: logit %d at %d of sequence %d is %g, expected %g\n%s", encoder, task, v, i % T, i / T, (double)r.model.logits[(size_t)i * V + v], (double)logits[(size_t)i * V + v], settings);
    }
    if (steps < 50) assert_true(alone.eval.n_exact < n);   /* there were mistakes to go on from */
    rig_close(&r);
}

/* Every encoder, sequences longer than those of training and than a tile, positions that are given, drawn, or spread out. */
static void every_encoder_decodes_with_what_it_knows(void **unused)
{
    (void)unused;
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "fourier", "rope", "xpos", "transformer_xl", "shaw", "swin", "t5", "alibi",
                                           "kerple", "fire", "sandwich", "cope", "forget" };
    static const char *const positions[] = { "", "[positions]\nsource = random\nmax = 120\n", "[positions]\nsource = offset\nmax = 120\n",
                                             "[positions]\nsource = scaled\nmax = 120\n" };
    static const struct { const char *model; int length, steps; } kind[] = {
        { "d_model = 16\nheads = 2\nlayers = 2\nd_ff = 16\n", 22, 12 },
        { "d_model = 16\nheads = 4\nlayers = 1\nd_ff = 24\nnorm = pre\nactivation = swiglu\nnorm_type = rmsnorm\n", 24, 80 } };
    char settings[1024];
    for (size_t e = 0; e < sizeof encoder / sizeof *encoder; e++)
        for (size_t p = 0; p < 4; p++)
            for (size_t k = 0; k < 2; k++) {
                snprintf(settings, sizeof settings, "[train]\nlength = 2..6\nbatch = 16\n[eval]\nlengths = %d\n[model]\ncausal = yes\n%s%s%s[task.mcgill_reverse]\nsymbols = 5\n",
                         kind[k].length, kind[k].model, positions[p], strcmp(encoder[e], "learned") ? "" : "[encoder.learned]\nmax_len = 130\n");
                check_decoding(encoder[e], "mcgill", "mcgill_reverse", kind[k].length, kind[k].steps, settings);
            }
    /* Past a tile of 64, where the bias comes in pieces. */
    for (size_t e = 0; e < sizeof encoder / sizeof *encoder; e++) {
        snprintf(settings, sizeof settings, "[train]\nlength = 2..6\nbatch = 16\n[eval]\nlengths = 48\n[model]\ncausal = yes\nd_model = 16\nheads = 2\nd_ff = 16\n%s[task.mcgill_copy]\nsymbols = 5\n",
                 strcmp(encoder[e], "learned") ? "" : "[encoder.learned]\nmax_len = 130\n");
        check_decoding(encoder[e], "mcgill", "mcgill_copy", 48, 10, settings);
    }
    /* What the hook makes of a key depends on all positions of the sequence. */
    static const char *const scaling[] = { "linear\nfactor = 4", "ntk\nfactor = 4", "ntk_dynamic\nfactor = 2", "yarn\nfactor = 4" };
    for (size_t s = 0; s < 4; s++)
        for (size_t p = 0; p < 2; p++) {
            snprintf(settings, sizeof settings, "[train]\nlength = 2..6\nbatch = 16\n[eval]\nlengths = 22\n[model]\ncausal = yes\nd_model = 16\nheads = 2\nd_ff = 16\n%s[encoder.rope]\nscaling = %s\n[task.mcgill_reverse]\nsymbols = 5\n", positions[p], scaling[s]);
            check_decoding("rope", "mcgill", "mcgill_reverse", 22, 10, settings);
        }
    check_decoding("rope", "addition", "coupled_addition", 9, 10, "[train]\nlength = 1..3\nbatch = 16\n[eval]\nlengths = 9\n[model]\ncausal = yes\nd_model = 16\nheads = 2\nd_ff = 16\n[task.coupled_addition]\nmax_position = 20\n");
}

static void without_a_mistake_both_are_equal(void **unused)
{
    (void)unused;
    struct rig r;
    rig_open(&r, "rope", "mcgill", "mcgill_copy", "[train]\nlength = 1..4\nbatch = 32\n[model]\ncausal = yes\nd_model = 32\nd_ff = 64\n[task.mcgill_copy]\nvariant = rsc\nsymbols = 4\n");
    rig_learn(&r, 300, 3e-3);
    for (int length = 1; length <= 4; length++) {
        struct seen alone = evaluate(&r, length, 50, 1), forced = evaluate(&r, length, 50, 0);
        assert_int_equal(forced.eval.n_exact, 50);
        assert_int_equal(alone.eval.n_exact, 50);
        assert_int_equal(alone.eval.n_tok_ok, forced.eval.n_tok_ok);
        if (alone.eval.value != forced.eval.value) fail_msg("loss %.9g alone, %.9g forced", alone.eval.value, forced.eval.value);
    }
    rig_close(&r);
}

static void only_causal_tasks_continue(void **unused)
{
    (void)unused;
    struct rig r;
    rig_open(&r, "none", "mqar", "mqar", "[train]\nlength = 32\n[model]\ncausal = yes\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\n[task.mqar]\nvocab = 64\n");
    assert_false(config_continues(&r.config));           /* its targets are not the tokens that follow */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(uncounted_targets_are_trained_on_only), cmocka_unit_test(slices_add_up), cmocka_unit_test(free_running_is_greedy_decoding),
        cmocka_unit_test(every_encoder_decodes_with_what_it_knows),
        cmocka_unit_test(without_a_mistake_both_are_equal), cmocka_unit_test(only_causal_tasks_continue) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
