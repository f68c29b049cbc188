/* test_bench -- the floor of a step: exactly the products of the model's linear layers, and nothing more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "exp/bench.h"
#include "tiny_model.h"

static const struct model_options shapes[] = {
    { .d_model = 64, .heads = 4, .layers = 2, .d_ff = 256, .activation = MODEL_RELU },
    { .d_model = 48, .heads = 3, .layers = 1, .d_ff = 80, .activation = MODEL_SWIGLU, .norm = MODEL_PRE_NORM },
    { .d_model = 32, .heads = 2, .layers = 5, .d_ff = 64, .activation = MODEL_GELU, .tied = 1 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, B = 3, T = 7, VOCAB = 11 };

static void open_model(struct tiny *tiny, struct model_setup *setup, const struct model_options *o)
{
    struct tiny_spec spec = { .encoder = "none", .model = *o, .vocab_in = VOCAB, .vocab_out = VOCAB, .B = B, .T = T };
    tiny_open(tiny, &spec);
    *setup = tiny->model.setup;
}

/* A linear layer costs 2 operations a weight and token forward, and twice that backward; the model knows its weights. */
static double expected_flops(const struct model *m)
{
    double weights = 0;
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];
        int embedding = !strcmp(p->name, "embedding.weight");
        if (p->ndim == 2 && (!embedding || m->setup.options.tied)) weights += (double)p->size;
    }
    return 6.0 * B * T * weights;
}

static void the_floor_has_the_operations_of_the_linear_layers(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        struct tiny tiny;
        struct model_setup setup;
        open_model(&tiny, &setup, &shapes[i]);
        struct bench_product list[3 * (4 * 5 + 1)];
        int n = bench_products(&setup, B * T, list);
        double found = 0;
        for (int k = 0; k < n; k++) found += 2.0 * list[k].m * list[k].n * list[k].k;
        assert_int_equal(n, 3 * (4 * shapes[i].layers + 1));
        double expected = expected_flops(&tiny.model);
        if (found != expected) fail_msg("shape %d: %.0f operations, expected %.0f", i, found, expected);
        tiny_close(&tiny);
    }
}

/* Forward layer by layer; backward from the head down, each layer's weight gradient before its input gradient. */
static void the_floor_keeps_the_order_of_the_step(void **state)
{
    (void)state;
    struct tiny tiny;
    struct model_setup setup;
    struct bench_product p[27];
    open_model(&tiny, &setup, &shapes[0]);
    assert_int_equal(bench_products(&setup, B * T, p), 27);
    const int first[3] = { B * T, 3 * 64, 64 }, head[3] = { B * T, VOCAB, 64 };
    const int head_dw[3] = { VOCAB, 64, B * T }, last_dx[3] = { B * T, 64, 3 * 64 };
    const struct { int at; const int *size; } expected[] = { { 0, first }, { 8, head }, { 9, head_dw }, { 26, last_dx } };
    for (int i = 0; i < 4; i++) {
        const struct bench_product *q = &p[expected[i].at];
        assert_int_equal(q->m, expected[i].size[0]);
        assert_int_equal(q->n, expected[i].size[1]);
        assert_int_equal(q->k, expected[i].size[2]);
    }
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_has_the_operations_of_the_linear_layers),
        cmocka_unit_test(the_floor_keeps_the_order_of_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
