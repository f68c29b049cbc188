/* test_facts -- what is known of the whole model without training it: symmetries, counts, equal starts, repeatability.
 *
 * The figures are those that the project set out to reproduce; nothing here is statistical.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "assert_near.h"
#include "tiny_model.h"
#include "base/rng.h"
#include "nn/optim.h"

enum { B = 2, T = 6, VOCAB = 10, D = 32 };
static const char *const encoders[] = { "none", "sinusoidal", "learned", "t5", "rope" };
#define ENCODERS (sizeof encoders / sizeof *encoders)

static const int32_t token[B * T]   = { 7, 2, 9, 7, 0, 4,  3, 3, 8, 1, 5, 6 };     /* 7 stands at 0 and at 3 */
static const int32_t target[B * T]  = { 4, 0, 7, 9, 2, 7,  6, 5, 1, 8, 3, 3 };
static const int32_t in_order[]     = { 0, 1, 2, 3, 4, 5 };
static const int32_t shuffle[T]     = { 3, 5, 0, 1, 4, 2 };

static struct model_batch batch_of(const int32_t *tokens)
{
    return (struct model_batch){ .B = B, .T = T, .token = tokens, .target = target, .pos = in_order };
}

static struct tiny_spec spec_of(const char *encoder)
{
    return (struct tiny_spec){ .encoder = encoder, .model = { .d_model = D, .heads = 4, .layers = 2, .d_ff = 64 },
                               .vocab_in = VOCAB, .vocab_out = VOCAB, .B = B, .T = T, .seed = 5 };
}

/* A model whose encoder parameters, if any, are far from zero. */
static void open_lively(struct tiny *tiny, const struct tiny_spec *spec)
{
    struct lab_rng r = lab_rng_at(1, 2, 3, 4);
    tiny_open(tiny, spec);
    for (int i = 0; i < tiny->model.n_param; i++) {
        struct model_param *p = &tiny->model.param[i];
        if (p->encoder_index >= 0)
            for (size_t k = 0; k < p->size; k++) p->value[k] = (lab_real)rng_normal(&r);
    }
}

static double distance(const lab_real *a, const lab_real *b, size_t n)     /* largest difference */
{
    double top = 0;
    for (size_t i = 0; i < n; i++) top = fmax(top, fabs((double)a[i] - (double)b[i]));
    return top;
}

/* Largest difference between the outputs of shuffled input and the shuffled outputs. */
static double order_seen(const char *encoder)
{
    struct tiny tiny;
    struct tiny_spec spec = spec_of(encoder);
    int32_t shuffled[B * T];
    lab_real plain[B * T * D];
    double top = 0;
    open_lively(&tiny, &spec);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) shuffled[b * T + t] = token[b * T + shuffle[t]];
    struct model_batch batch = batch_of(token);
    model_forward(&tiny.model, &batch, 0, 0);
    memcpy(plain, tiny.model.hidden, sizeof plain);
    batch = batch_of(shuffled);
    model_forward(&tiny.model, &batch, 0, 0);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            top = fmax(top, distance(tiny.model.hidden + (b * T + t) * D, plain + (b * T + shuffle[t]) * D, D));
    tiny_close(&tiny);
    return top;
}

static void only_an_encoder_lets_the_model_see_order(void **state)
{
    (void)state;
    assert_near_one("none, shuffled input against shuffled output", order_seen("none"), 0, sizeof(lab_real) == 4 ? 1e-6 : 1e-14);
    for (size_t i = 1; i < ENCODERS; i++) {
        double seen = order_seen(encoders[i]);
        if (!(seen > 1e-2)) fail_msg("%s: outputs differ by %g under shuffling, expected more than 1e-2", encoders[i], seen);
    }
}

static void one_token_at_two_positions_is_told_apart_by_an_encoder_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++) {
        struct tiny tiny;
        struct tiny_spec spec = spec_of(encoders[i]);
        open_lively(&tiny, &spec);
        struct model_batch batch = batch_of(token);
        model_forward(&tiny.model, &batch, 0, 0);
        double apart = distance(tiny.model.hidden, tiny.model.hidden + 3 * D, D);
        if (i == 0 ? apart > 1e-6 : apart < 1e-3) fail_msg("%s: token 7 at positions 0 and 3 differs by %g", encoders[i], apart);
        tiny_close(&tiny);
    }
}

static size_t count_of(const struct tiny_spec *spec)
{
    struct tiny tiny;
    struct model_setup setup;
    struct lab_err err;
    size_t trained = 0;
    tiny_setup(&tiny, spec, &setup);
    if (model_count(&setup, &trained, &err)) fail_msg("%s", err.msg);
    tiny_close_encoder(&tiny);
    return trained;
}

/* Trained scalars of the stack, from the shapes of nn.TransformerEncoderLayer. */
static size_t stack_size(size_t layers, size_t d, size_t d_ff)
{
    return layers * ((3 * d * d + 3 * d) + (d * d + d) + (d_ff * d + d_ff) + (d * d_ff + d) + 4 * d);
}

static void encoders_add_the_parameters_that_they_say(void **state)
{
    (void)state;
    struct tiny_spec spec = spec_of("none");
    size_t none = count_of(&spec);
    assert_int_equal(none, stack_size(2, D, 64) + 2 * VOCAB * D + VOCAB);
    spec.encoder = "sinusoidal";
    assert_int_equal(count_of(&spec), none);
    spec.encoder = "rope";
    assert_int_equal(count_of(&spec), none);
    spec.encoder = "learned", spec.option[0] = "max_len=512";
    assert_int_equal(count_of(&spec), none + 16384);                 /* 512 x 32 */
    spec.encoder = "t5", spec.option[0] = "buckets=32";
    assert_int_equal(count_of(&spec), none + 32 * 4);                /* one table for all layers */
}

static void tying_halves_embedding_and_head(void **state)
{
    (void)state;
    struct tiny_spec spec = { .encoder = "none", .model = { .d_model = 64, .heads = 4, .layers = 1, .d_ff = 64 },
                              .vocab_in = 1000, .vocab_out = 1000, .B = 1, .T = 4, .seed = 1 };
    size_t stack = stack_size(1, 64, 64);
    for (int tied = 0; tied <= 1; tied++) {
        struct tiny tiny;
        spec.model.tied = tied;
        assert_int_equal(count_of(&spec), stack + (tied ? 64000 : 128000 + 1000));
        tiny_open(&tiny, &spec);
        assert_int_equal(tiny.model.trained, stack + (tied ? 64000 : 128000 + 1000));
        assert_int_equal(tiny.model.frozen, 0);
        assert_int_equal(tiny_param(&tiny.model, "embedding.weight")->size, 64000);
        assert_int_equal(!tiny_param(&tiny.model, "head.weight"), tied);
        assert_int_equal(!tiny_param(&tiny.model, "head.bias"), tied);
        tiny_close(&tiny);
    }
}

static void take_step(struct model *model, const struct model_batch *batch, int step)
{
    const struct optim_options optim = { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1 };
    model_forward(model, batch, 1, (uint32_t)step);
    model_backward(model, batch);
    optim_step(model, &optim, step);
}

/* A tied head reads the very weights that embed: logits are hidden . embedding, before a step and after it. */
static void a_step_changes_embedding_and_tied_head_alike(void **state)
{
    (void)state;
    struct tiny tiny;
    struct tiny_spec spec = spec_of("sinusoidal");
    spec.model.tied = 1;
    tiny_open(&tiny, &spec);
    struct model_batch batch = batch_of(token);
    const lab_real *embedding = tiny_param(&tiny.model, "embedding.weight")->value;
    lab_real before[VOCAB * D];
    memcpy(before, embedding, sizeof before);
    for (int step = 0; step < 2; step++) {
        double expected[B * T * VOCAB] = { 0 };
        model_forward(&tiny.model, &batch, 0, 0);
        for (int n = 0; n < B * T; n++)
            for (int v = 0; v < VOCAB; v++)
                for (int i = 0; i < D; i++)
                    expected[n * VOCAB + v] += (double)tiny.model.hidden[n * D + i] * (double)embedding[v * D + i];
        assert_near("tied logits", tiny.model.logits, 1, expected, B * T * VOCAB, 1e-5);
        take_step(&tiny.model, &batch, step);
    }
    assert_true(distance(before, embedding, VOCAB * D) > 1e-3);
    tiny_close(&tiny);
}

/* All weights after a few steps with dropout, the host's own first.  The caller frees them. */
static lab_real *weights_after(const char *encoder, uint64_t seed, int steps, size_t *n)
{
    struct tiny tiny;
    struct tiny_spec spec = spec_of(encoder);
    spec.seed = seed;
    spec.model.dropout = 0.1;
    tiny_open(&tiny, &spec);
    struct model_batch batch = batch_of(token);
    for (int step = 0; step < steps; step++) take_step(&tiny.model, &batch, step);
    lab_real *all = calloc(tiny.model.trained, sizeof *all);
    *n = 0;
    for (int own = 1; own >= 0; own--)
        for (int i = 0; i < tiny.model.n_param; i++) {
            const struct model_param *p = &tiny.model.param[i];
            if ((p->encoder_index < 0) != own) continue;
            memcpy(all + *n, p->value, p->size * sizeof *all);
            *n += p->size;
        }
    assert_int_equal(*n, tiny.model.trained);
    tiny_close(&tiny);
    return all;
}

static void a_seed_gives_the_same_bits_each_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++) {
        size_t n, m;
        lab_real *once = weights_after(encoders[i], 3, 5, &n), *again = weights_after(encoders[i], 3, 5, &m);
        lab_real *other = weights_after(encoders[i], 4, 5, &m);
        assert_memory_equal(once, again, n * sizeof *once);
        assert_true(distance(once, other, n) > 1e-2);
        free(once), free(again), free(other);
    }
}

/* So that encoders can be compared in pairs: parameters of an encoder shift nobody else's start. */
static void all_encoders_start_from_the_same_shared_weights(void **state)
{
    (void)state;
    size_t shared, n;
    lab_real *none = weights_after("none", 9, 0, &shared);
    for (size_t i = 1; i < ENCODERS; i++) {
        lab_real *other = weights_after(encoders[i], 9, 0, &n);
        assert_true(n >= shared);
        assert_memory_equal(none, other, shared * sizeof *none);
        free(other);
    }
    free(none);
}

/* A bias of zero, a table of zeros and a rotation by nothing leave the model without positions as it is. */
static void idle_encoders_equal_none(void **state)
{
    (void)state;
    static const int32_t zero[T] = { 0 };
    double expected[B * T * VOCAB];
    for (size_t i = 0; i < ENCODERS; i++) {
        struct tiny tiny;
        struct tiny_spec spec = spec_of(encoders[i]);
        if (!strcmp(spec.encoder, "sinusoidal")) continue;           /* it has no idle state: cos 0 = 1 */
        tiny_open(&tiny, &spec);
        for (int k = 0; k < tiny.model.n_param; k++) {
            struct model_param *p = &tiny.model.param[k];
            if (p->encoder_index >= 0) memset(p->value, 0, p->size * sizeof *p->value);
        }
        struct model_batch batch = batch_of(token);
        if (!strcmp(spec.encoder, "rope")) batch.pos = zero;
        model_forward(&tiny.model, &batch, 0, 0);
        if (i == 0)
            for (int k = 0; k < B * T * VOCAB; k++) expected[k] = tiny.model.logits[k];
        assert_near(spec.encoder, tiny.model.logits, 1, expected, B * T * VOCAB, 1e-6);
        tiny_close(&tiny);
    }
}

/* Relative encoders see distances alone. */
static void shifted_positions_change_nothing_for_relative_encoders(void **state)
{
    (void)state;
    static const int32_t shifted[T] = { 100, 101, 102, 103, 104, 105 };
    for (size_t i = 0; i < ENCODERS; i++) {
        struct tiny tiny;
        struct tiny_spec spec = spec_of(encoders[i]);
        spec.max_pos = 106;
        spec.option[0] = strcmp(spec.encoder, "learned") ? NULL : "max_len=106";
        open_lively(&tiny, &spec);
        lab_real plain[B * T * VOCAB];
        struct model_batch batch = batch_of(token);
        model_forward(&tiny.model, &batch, 0, 0);
        memcpy(plain, tiny.model.logits, sizeof plain);
        batch.pos = shifted;
        model_forward(&tiny.model, &batch, 0, 0);
        double moved = distance(plain, tiny.model.logits, B * T * VOCAB);
        int relative = !(tiny.encoder->embed);
        if (relative ? moved > 2e-5 : moved < 1e-2) fail_msg("%s: logits move by %g when positions shift by 100", spec.encoder, moved);
        tiny_close(&tiny);
    }
}

/* What a causal model says of a prefix does not depend on how much follows. */
static void a_causal_model_reads_a_prefix_as_it_reads_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++) {
        struct tiny tiny;
        struct tiny_spec spec = spec_of(encoders[i]);
        spec.model.causal = 1;
        open_lively(&tiny, &spec);
        double whole[T * VOCAB];
        struct model_batch batch = batch_of(token);
        model_forward(&tiny.model, &batch, 0, 0);
        for (int k = 0; k < T * VOCAB; k++) whole[k] = tiny.model.logits[k];
        batch.B = 1;
        for (batch.T = 1; batch.T < T; batch.T++) {
            model_forward(&tiny.model, &batch, 0, 0);
            assert_near(spec.encoder, tiny.model.logits, 1, whole, (size_t)batch.T * VOCAB, 1e-5);
        }
        tiny_close(&tiny);
    }
}

static void dropout_depends_on_the_step_and_only_in_training(void **state)
{
    (void)state;
    struct tiny tiny;
    struct tiny_spec spec = spec_of("sinusoidal");
    struct model_batch batch = batch_of(token);
    lab_real logits[4][B * T * VOCAB];
    spec.model.dropout = 0.2;
    tiny_open(&tiny, &spec);
    static const struct { int train; uint32_t step; } call[] = { { 1, 0 }, { 1, 1 }, { 1, 0 }, { 0, 0 } };
    for (int i = 0; i < 4; i++) {
        model_forward(&tiny.model, &batch, call[i].train, call[i].step);
        memcpy(logits[i], tiny.model.logits, sizeof logits[i]);
    }
    assert_true(distance(logits[0], logits[1], B * T * VOCAB) > 1e-2);
    assert_memory_equal(logits[0], logits[2], sizeof logits[0]);
    assert_true(distance(logits[0], logits[3], B * T * VOCAB) > 1e-2);
    tiny_close(&tiny);

    spec.model.dropout = 0;                      /* the same weights, never dropped: what inference must give */
    tiny_open(&tiny, &spec);
    model_forward(&tiny.model, &batch, 1, 0);
    assert_true(distance(logits[3], tiny.model.logits, B * T * VOCAB) < 1e-5);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_encoder_lets_the_model_see_order),
        cmocka_unit_test(one_token_at_two_positions_is_told_apart_by_an_encoder_alone),
        cmocka_unit_test(encoders_add_the_parameters_that_they_say),
        cmocka_unit_test(tying_halves_embedding_and_head),
        cmocka_unit_test(a_step_changes_embedding_and_tied_head_alike),
        cmocka_unit_test(a_seed_gives_the_same_bits_each_time),
        cmocka_unit_test(all_encoders_start_from_the_same_shared_weights),
        cmocka_unit_test(idle_encoders_equal_none),
        cmocka_unit_test(shifted_positions_change_nothing_for_relative_encoders),
        cmocka_unit_test(a_causal_model_reads_a_prefix_as_it_reads_the_whole),
        cmocka_unit_test(dropout_depends_on_the_step_and_only_in_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
