/* test_experiments -- the experiment files that lab ships, planned with the real plugins: they ask what they say they ask.
 *
 * Parameter counts come from the shapes of nn.TransformerEncoder, not from model_count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "exp/paper.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

struct planned { struct registry registry; struct conf conf; struct sweep sweep; };

static void plan(struct planned *p, const char *path, const char *set)
{
    static const char *const folder[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    *p = (struct planned){ 0 };
    OK(registry_load(&p->registry, folder, 2, &err));
    OK(conf_read(&p->conf, path, &err));
    if (set) OK(conf_override(&p->conf, set, &err));
    OK(sweep_build(&p->sweep, &p->conf, &p->registry, &err));
}

static void release(struct planned *p)
{
    sweep_free(&p->sweep);
    conf_free(&p->conf);
    registry_free(&p->registry);
}

/* What the two files have in common. */
static void assert_common(const struct run_config *c)
{
    assert_int_equal(c->model.d_model, 64);
    assert_int_equal(c->model.heads, 4);
    assert_int_equal(c->model.layers, 2);
    assert_int_equal(c->model.d_ff, 256);
    assert_int_equal(c->model.norm, MODEL_POST_NORM);
    assert_int_equal(c->model.activation, MODEL_RELU);
    assert_int_equal(c->model.causal, 0);
    assert_int_equal(c->train.steps, 2000);
    assert_int_equal(c->train.batch, 64);
    assert_true(c->train.lr == 1e-3);
    assert_int_equal(c->train.length.lo, 8);
    assert_int_equal(c->train.length.hi, 8);
    assert_int_equal(c->task_info.vocab_in, 10);
}

static void assert_lengths(const struct run_config *c, int n, const int *length)
{
    assert_int_equal(c->eval.lengths.n, n);
    for (int i = 0; i < n; i++) assert_int_equal(c->eval.lengths.v[i], length[i]);
    assert_int_equal(c->dims.train_len, 8);
    assert_int_equal(c->dims.max_len, length[n - 1]);
}

static void extrapolate_is_five_encoders_two_tasks_three_seeds(void **state)
{
    (void)state;
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "t5", "rope" }, *const task[] = { "reverse", "shift" };
    static const int length[] = { 8, 12, 16, 24, 32 };
    struct planned p;
    plan(&p, "experiments/extrapolate.ini", NULL);
    assert_string_equal(p.sweep.name, "extrapolate");
    assert_true(strlen(p.sweep.question) > 10);
    assert_int_equal(p.sweep.n, 30);
    for (int i = 0; i < 30; i++) {
        const struct sweep_run *r = &p.sweep.run[i];
        assert_string_equal(r->config.encoder->name, encoder[i / 6]);
        assert_string_equal(r->config.task->name, task[i / 3 % 2]);
        assert_int_equal(r->config.seed, i % 3);
        assert_string_equal(r->label, "");
        assert_string_equal(r->config.variant, p.sweep.run[0].config.variant);        /* all are paired */
        assert_common(&r->config);
        assert_lengths(&r->config, 5, length);
        for (int k = 0; k < i; k++) assert_string_not_equal(r->config.key, p.sweep.run[k].config.key);
    }
    release(&p);
}

static void seed_reverse_is_the_lesson_and_the_trap(void **state)
{
    (void)state;
    static const char *const encoder[] = { "none", "sinusoidal", "learned" };
    static const int length[] = { 8, 12 };
    struct planned p;
    plan(&p, "experiments/seed_reverse.ini", NULL);
    assert_string_equal(p.sweep.name, "seed_reverse");
    assert_int_equal(p.sweep.n, 18);
    for (int i = 0; i < 18; i++) {
        const struct sweep_run *r = &p.sweep.run[i];
        assert_string_equal(r->config.encoder->name, encoder[i / 6]);
        assert_string_equal(r->config.task->name, "reverse");
        assert_int_equal(r->config.seed, i / 2 % 3);
        assert_true(r->config.model.embed_std == i % 2);
        assert_string_equal(r->label, i % 2 ? "model.embed_std=1" : "model.embed_std=0");
        assert_string_equal(r->config.variant, p.sweep.run[i % 2].config.variant);
        assert_common(&r->config);
        assert_lengths(&r->config, 2, length);
    }
    assert_string_not_equal(p.sweep.run[0].config.variant, p.sweep.run[1].config.variant);
    release(&p);
}

/* The lesson's runs without the trap are runs of extrapolate: whoever did one file has part of the other. */
static void the_two_files_share_their_runs(void **state)
{
    (void)state;
    struct planned a, b;
    int shared = 0;
    plan(&a, "experiments/extrapolate.ini", NULL);
    plan(&b, "experiments/seed_reverse.ini", NULL);
    for (size_t i = 0; i < a.sweep.n; i++)
        for (size_t k = 0; k < b.sweep.n; k++) shared += !strcmp(a.sweep.run[i].config.key, b.sweep.run[k].config.key);
    assert_int_equal(shared, 9);
    release(&a);
    release(&b);
}

static void parameters_are_those_of_the_shapes(void **state)
{
    (void)state;
    enum { d = 64, ff = 256, V = 10, attention = 3 * d * d + 3 * d + d * d + d, feed = ff * d + ff + d * ff + d, norms = 4 * d };
    const size_t host = V * d + 2 * (attention + feed + norms) + d * V + V;
    const struct { const char *encoder; size_t own; } row[] = {
        { "none", 0 }, { "sinusoidal", 0 }, { "learned", 64 * d }, { "t5", 32 * 4 }, { "rope", 0 } };
    struct planned p;
    plan(&p, "experiments/extrapolate.ini", "sweep.seed=0");
    assert_int_equal(p.sweep.n, 10);
    for (size_t i = 0; i < p.sweep.n; i++) {
        struct model_setup setup;
        size_t trained;
        config_model_setup(&p.sweep.run[i].config, &setup);
        OK(model_count(&setup, &trained, &err));
        assert_string_equal(p.sweep.run[i].config.encoder->name, row[i / 2].encoder);
        assert_int_equal(trained, host + row[i / 2].own);
    }
    release(&p);
}

/* Nothing but the mask differs, and nothing knows positions. */
static void causal_none_is_the_mask_alone(void **state)
{
    (void)state;
    struct planned p;
    plan(&p, "experiments/causal_none.ini", NULL);
    assert_int_equal(p.sweep.n, 6);
    for (size_t i = 0; i < p.sweep.n; i++) {
        const struct run_config *c = &p.sweep.run[i].config;
        assert_string_equal(c->encoder->name, "none");
        assert_string_equal(c->task->name, "reverse_string");
        assert_int_equal(c->positions.source, POSITIONS_SEQUENTIAL);
        assert_int_equal(c->model.causal, i % 2 == 0);
        assert_int_equal(c->train.length.hi, 6);
        assert_int_equal(config_tape(c, 6), 12);
        assert_int_equal(c->seed, (int)i / 2);
    }
    release(&p);
}

/* Every preset plans, opens with its question and says its time; what it claims of a paper is checked by the plan. */
static void presets_of_papers(void **state)
{
    (void)state;
    static const struct { const char *name; size_t runs, cells; } preset[] = {
        { "dm_example", 48, 0 }, { "lacoco_bin_majority", 9, 3 }, { "lacoco_sort", 3, 3 }, { "lacoco_unique_copy", 3, 3 },
        { "mcgill_addition", 15, 1 }, { "mcgill_copy", 15, 1 }, { "mqar", 9, 2 } };
    for (size_t i = 0; i < sizeof preset / sizeof *preset; i++) {
        char path[128];
        struct planned p;
        struct paper paper;
        snprintf(path, sizeof path, "experiments/papers/%s.ini", preset[i].name);
        plan(&p, path, NULL);
        if (p.sweep.n != preset[i].runs) fail_msg("%s: %zu runs, expected %zu", path, p.sweep.n, preset[i].runs);
        assert_string_equal(p.sweep.name, preset[i].name);
        OK(paper_read(&paper, &p.conf, &err));
        if (paper.n != preset[i].cells) fail_msg("%s: %zu values of the paper, expected %zu", path, (size_t)paper.n, preset[i].cells);
        paper_free(&paper);
        static const char *const said[] = { ", and why: ", "; Differences from the paper:", "; Time: about " };
        for (int k = 0; k < 3; k++) if (!strstr(p.conf.text, said[k])) fail_msg("%s does not say '%s'", path, said[k]);
        release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extrapolate_is_five_encoders_two_tasks_three_seeds),
        cmocka_unit_test(seed_reverse_is_the_lesson_and_the_trap),
        cmocka_unit_test(the_two_files_share_their_runs),
        cmocka_unit_test(parameters_are_those_of_the_shapes),
        cmocka_unit_test(causal_none_is_the_mask_alone),
        cmocka_unit_test(presets_of_papers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
