/* test_cost -- what runs are said to cost, beside what their steps really take on the processor's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "exp/bench.h"
#include "exp/cost.h"
#include "exp/sweep.h"

static struct registry registry;
static struct conf conf;
static struct sweep sweep;
static struct lab_err err;

static int open_registry(void **state)
{
    const char *folder = TEST_BUILD "/plugins";
    (void)state;
    return registry_load(&registry, &folder, 1, &err);
}

static int close_registry(void **state)
{
    (void)state;
    registry_free(&registry);
    return 0;
}

static void open_sweep(const char *text)
{
    if (conf_read_text(&conf, "f.ini", text, strlen(text), &err) != 0 || sweep_build(&sweep, &conf, &registry, &err) != 0) fail_msg("%s", err.msg);
}

static void close_sweep(void)
{
    sweep_free(&sweep);
    conf_free(&conf);
}

/* Only ratios matter: the machine's factor is taken out. */
static void steps_cost_what_they_take(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();                                                              /* it slows some things down more than others */
#endif
    if (sizeof(lab_real) != sizeof(float)) skip();                       /* fitted to what runs train in */
    open_sweep("[sweep]\nencoder = none, rope, shaw\ntask = shift\nmodel.layers = 1, 3\ntrain.length = 4, 32\n[train]\nbatch = 32\n[model]\nd_model = 48\n");
    struct bench_row row[12];
    double factor[12], mean = 0, square = 0, peak;
    assert_int_equal(sweep.n, 12);
    for (int i = 0; i < 12; i++) row[i] = (struct bench_row){ .config = &sweep.run[i].config, .baseline = -1 };
    if (bench_run(row, 12, 0.1, &peak, &err) != 0) fail_msg("%s", err.msg);
    for (int i = 0; i < 12; i++) mean += factor[i] = log(row[i].step_ms / 1000 / cost_of(row[i].config).step);
    for (int i = 0; i < 12; i++) factor[i] = exp(factor[i] - mean / 12), square += (factor[i] - 1) * (factor[i] - 1) / 12;
    for (int i = 0; i < 12; i++)
        if (factor[i] > 1.6 || factor[i] < 1 / 1.6) fail_msg("%s %s: %.3f ms a step are %.2f of what it costs", row[i].config->encoder->name,
                                                             sweep.run[i].label, row[i].step_ms, factor[i]);
    if (sqrt(square) > 0.3) fail_msg("off by %.0f %% on average", 100 * sqrt(square));
    print_message("             what steps cost is off by %.0f %% on average\n", 100 * sqrt(square));
    close_sweep();
}

static struct cost only_cost(const char *text, const struct run_config **config)
{
    open_sweep(text);
    assert_int_equal(sweep.n, 1);
    *config = &sweep.run[0].config;
    return cost_of(*config);
}

#define RUN(train, eval) "[sweep]\nencoder = rope\ntask = shift\n[train]\n" train "\n[eval]\n" eval "\n"

static void a_run_is_its_steps_and_its_evaluations(void **state)
{
    (void)state;
    const struct run_config *c;
    struct cost cost = only_cost(RUN("steps = 1000", "every = 300\nlengths = 8, 16\nevery_sequences = 100\nsequences = 400"), &c);
    assert_true(fabs(cost_steps(&cost, c, 0, 1000) - (1000 * cost.step + 3 * cost.valid)) < 1e-9);
    assert_true(fabs(cost_steps(&cost, c, 300, 600) - (300 * cost.step + cost.valid)) < 1e-9);
    assert_true(fabs(cost_total(&cost, c) - (cost.start + 1000 * cost.step + 3 * cost.valid + cost.test)) < 1e-9);
    assert_true(fabs(cost.test / cost.valid - 4) < 1e-9);                /* four times as many sequences */
    assert_true(fabs(cost_test(c, 8) + cost_test(c, 16) - cost.test) < 1e-9);
    assert_true(cost_test(c, 16) > 2 * cost_test(c, 8));                 /* twice the tokens, and attention grows faster */
    close_sweep();
    cost = only_cost(RUN("steps = 10", "every = 0"), &c);
    assert_true(fabs(cost_steps(&cost, c, 0, 10) - 10 * cost.step) < 1e-9);
    close_sweep();
}

static void lengths_that_vary_cost_their_mean(void **state)
{
    (void)state;
    const struct run_config *c;
    double varied = only_cost(RUN("length = 4..12", ""), &c).step;
    close_sweep();
    double middle = only_cost(RUN("length = 8", ""), &c).step;
    close_sweep();
    double padded = only_cost(RUN("length = 4..12\nper = example", ""), &c).step;
    close_sweep();
    double longest = only_cost(RUN("length = 12", ""), &c).step;
    close_sweep();
    assert_true(varied == middle && padded == longest && longest > middle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_cost_what_they_take), cmocka_unit_test(a_run_is_its_steps_and_its_evaluations),
        cmocka_unit_test(lengths_that_vary_cost_their_mean),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
