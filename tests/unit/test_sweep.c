/* test_sweep -- from a file to its runs: axes, their order, what is joined, and every way to be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/mem.h"
#include "base/str.h"
#include "exp/sweep.h"
#include "fake_plugins.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

struct planned { struct conf conf; struct sweep sweep; };

static int try_plan(struct planned *p, const char *text, const char *set, struct lab_err *err)
{
    *p = (struct planned){ 0 };
    if (conf_read_text(&p->conf, "some/f.ini", text, strlen(text), err) != 0) fail_msg("%s", err->msg);
    if ((!set || conf_override(&p->conf, set, err) == 0) && sweep_build(&p->sweep, &p->conf, fake_registry(), err) == 0) return 0;
    conf_free(&p->conf);
    assert_int_equal(fake_live, 0);
    return -1;
}

static void plan(struct planned *p, const char *text)
{
    struct lab_err err = { "" };
    if (try_plan(p, text, NULL, &err) != 0) fail_msg("refused: %s\n%s", err.msg, text);
}

static void release(struct planned *p)
{
    sweep_free(&p->sweep);
    conf_free(&p->conf);
    assert_int_equal(fake_live, 0);
}

/* ---- combinations ---- */

static void the_last_axis_turns_fastest(void **state)
{
    (void)state;
    static const struct { const char *encoder; int layers, seed; } expected[] = {
        { "rich", 1, 0 }, { "rich", 1, 1 }, { "rich", 1, 2 }, { "rich", 3, 0 }, { "rich", 3, 1 }, { "rich", 3, 2 },
        { "plain", 1, 0 }, { "plain", 1, 1 }, { "plain", 1, 2 }, { "plain", 3, 0 }, { "plain", 3, 1 }, { "plain", 3, 2 } };
    struct planned p;
    plan(&p, "[sweep]\nencoder = rich,plain\nmodel.layers =\t1 ,3\ntask = echo\nseed = 0..2\n");
    assert_int_equal(p.sweep.n, 12);
    assert_int_equal(p.sweep.n_combinations, 12);
    for (size_t i = 0; i < 12; i++) {
        const struct run_config *c = &p.sweep.run[i].config;
        assert_string_equal(c->encoder->name, expected[i].encoder);
        assert_string_equal(c->task->name, "echo");
        assert_int_equal(c->model.layers, expected[i].layers);
        assert_int_equal(c->seed, expected[i].seed);
        assert_string_equal(p.sweep.run[i].label, expected[i].layers == 1 ? "model.layers=1" : "model.layers=3");
    }
    release(&p);
}

static void ranges_and_single_numbers_mix(void **state)
{
    (void)state;
    static const int seed[] = { 7, 0, 1, 2, 3, 9 };
    struct planned p;
    plan(&p, "[sweep]\nencoder = plain\ntask = echo\nseed = 7, 0..3, 9..9\n");
    assert_int_equal(p.sweep.n, 6);
    for (size_t i = 0; i < 6; i++) assert_int_equal(p.sweep.run[i].config.seed, seed[i]);
    release(&p);
    plan(&p, "[sweep]\nencoder = plain\ntask = echo\ntrain.length = 8, 1..8\nmodel.layers = 1..3\n");   /* a length is itself a range */
    assert_int_equal(p.sweep.n, 6);
    assert_int_equal(p.sweep.run[5].config.train.length.lo, 1);
    assert_int_equal(p.sweep.run[5].config.train.length.hi, 8);
    assert_int_equal(p.sweep.run[5].config.model.layers, 3);
    release(&p);
}

/* One value of each key, other than its default, as an axis of its own: the one run must hold it. */
static void any_key_may_be_an_axis(void **state)
{
    (void)state;
    static const struct { const char *axis, *label; } all[] = {
        { "model.d_model = 32", "model.d_model=32" }, { "model.heads = 2", "model.heads=2" }, { "model.layers = 1", "model.layers=1" },
        { "model.d_ff = 8", "model.d_ff=8" }, { "model.norm = pre", "model.norm=pre" }, { "model.norm_type = rmsnorm", "model.norm_type=rmsnorm" },
        { "model.activation = swiglu", "model.activation=swiglu" }, { "model.causal = true", "model.causal=yes" }, { "model.tied = yes", "model.tied=yes" },
        { "model.dropout = .10", "model.dropout=0.1" }, { "model.embed_scale = one", "model.embed_scale=one" },
        { "model.embed_std = 1.0", "model.embed_std=1" }, { "train.length = 2..4", "train.length=2..4" }, { "train.steps = 010", "train.steps=10" },
        { "train.batch = 2", "train.batch=2" }, { "train.lr = 1e-4", "train.lr=0.0001" }, { "train.beta1 = 0.5", "train.beta1=0.5" },
        { "train.beta2 = 0.5", "train.beta2=0.5" }, { "train.eps = 1e-6", "train.eps=1e-06" }, { "train.weight_decay = 0.1", "train.weight_decay=0.1" },
        { "train.clip = 1", "train.clip=1" }, { "train.warmup = 5", "train.warmup=5" }, { "train.schedule = cosine", "train.schedule=cosine" },
        { "positions.source = random", "positions.source=random" },
        { "encoder.rich.size = 9", "encoder.rich.size=9" }, { "encoder.rich.rate = 2", "encoder.rich.rate=2" },
        { "encoder.rich.half = yes", "encoder.rich.half=yes" }, { "encoder.rich.kind = hard", "encoder.rich.kind=hard" },
        { "encoder.rich.label = 0..3 and so on", "encoder.rich.label=0..3 and so on" }, { "task.echo.vocab = 4", "task.echo.vocab=4" },
        { "task.echo.noise = 1", "task.echo.noise=1" }, { "task.echo.text = x y", "task.echo.text=x y" } };
    struct planned p;
    char text[256], plain[HASH_HEX];
    plan(&p, "[sweep]\nencoder = rich\ntask = echo\nseed = 0\n");
    memcpy(plain, p.sweep.run[0].config.key, sizeof plain);
    release(&p);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(text, sizeof text, "[sweep]\nencoder = rich\ntask = echo\nseed = 0\n%s\n", all[i].axis);
        plan(&p, text);
        assert_int_equal(p.sweep.n, 1);
        assert_string_equal(p.sweep.run[0].label, all[i].label);
        assert_string_not_equal(p.sweep.run[0].config.key, plain);
        release(&p);
    }
}

/* Both encoders' options are swept, and each sees its own alone. */
static void equal_runs_are_joined(void **state)
{
    (void)state;
    struct planned p;
    plan(&p, "[sweep]\nencoder = plain, rich\ntask = echo\nseed = 0..1\nencoder.rich.size = 8, 9\ntrain.lr = 1e-3, 0.001, 0.002\n");
    assert_int_equal(p.sweep.n_combinations, 24);
    assert_int_equal(p.sweep.n, 2 * 2 + 2 * 2 * 2);          /* plain: seeds x rates; rich: seeds x sizes x rates */
    for (size_t i = 0; i < p.sweep.n; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(p.sweep.run[i].config.key, p.sweep.run[k].config.key);
    assert_string_equal(p.sweep.run[0].label, "train.lr=0.001");
    assert_string_equal(p.sweep.run[1].label, "train.lr=0.002");
    assert_string_equal(p.sweep.run[4].label, "encoder.rich.size=8, train.lr=0.001");
    release(&p);
}

/* ---- the order of the axes ---- */

static int by_label_and_key(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* "label key" of every run, sorted, in one text. */
static void fingerprint(struct str *out, const struct sweep *s)
{
    char **line = calloc(s->n, sizeof *line);
    for (size_t i = 0; i < s->n; i++) assert_true(asprintf(&line[i], "%s %s\n", s->run[i].label, s->run[i].config.key) > 0);
    qsort(line, s->n, sizeof *line, by_label_and_key);
    for (size_t i = 0; i < s->n; i++) str_add(out, line[i]), free(line[i]);
    free(line);
}

/* All 120 orders of five axes, which include one of an encoder that only half of the runs have. */
static void any_order_of_axes_gives_the_same_runs(void **state)
{
    (void)state;
    static const char *const axis[] = { "encoder = plain, rich", "task = echo, small", "seed = 0..1", "model.layers = 2, 1", "encoder.rich.kind = soft, hard" };
    struct str expected = { 0 };
    for (int k = 0; k < 120; k++) {
        struct str text = { 0 }, found = { 0 };
        struct planned p;
        int left[] = { 0, 1, 2, 3, 4 }, code = k;
        str_add(&text, "[sweep]\n");
        for (int n = 5; n > 0; code /= n, n--) {
            int at = code % n;
            str_printf(&text, "%s\n", axis[left[at]]);
            left[at] = left[n - 1];
        }
        plan(&p, text.text);
        assert_int_equal(p.sweep.n, 8 + 16);
        fingerprint(k ? &found : &expected, &p.sweep);
        if (k) assert_string_equal(str_text(&found), str_text(&expected));
        release(&p);
        str_free(&text);
        str_free(&found);
    }
    assert_non_null(strstr(expected.text, "encoder.rich.kind=hard, model.layers=1 "));
    str_free(&expected);
}

/* ---- what a sweep holds on to ---- */

static void texts_from_axes_stay_valid(void **state)
{
    (void)state;
    struct planned p;
    plan(&p, "[sweep]\nencoder = rich, needy\ntask = echo\nseed = 0..99\nencoder.rich.label = a, b b\nencoder.needy.path = /x, /y\n[task.echo]\ntext = kept\n");
    assert_int_equal(p.sweep.n, 400);
    for (size_t i = 0; i < p.sweep.n; i++) {
        const struct run_config *c = &p.sweep.run[i].config;
        const struct fake_task *task = c->task_self;
        assert_string_equal(task->text, "kept");
        if (!strcmp(c->encoder->name, "rich")) {
            const struct fake_rich *r = c->encoder_self;
            assert_string_equal(p.sweep.run[i].label + strlen("encoder.rich.label="), r->label);
        } else {
            const struct fake_needy *r = c->encoder_self;
            assert_string_equal(p.sweep.run[i].label + strlen("encoder.needy.path="), r->path);
        }
    }
    release(&p);
}

static void a_file_names_its_experiment(void **state)
{
    (void)state;
    struct planned p;
    plan(&p, "[experiment]\nname = n\nquestion = why?\n[sweep]\nencoder = plain\ntask = echo\n");
    assert_string_equal(p.sweep.name, "n");
    assert_string_equal(p.sweep.question, "why?");
    assert_int_equal(p.sweep.n, 1);
    assert_int_equal(p.sweep.run[0].config.seed, 0);
    assert_string_equal(p.sweep.run[0].label, "");
    release(&p);
    plan(&p, "[sweep]\nencoder = plain\ntask = echo\n");
    assert_string_equal(p.sweep.name, "f.ini");
    assert_string_equal(p.sweep.question, "");
    release(&p);
}

/* What kills a process is left to the workers: their runs fail one by one, and say of what. */
static void a_task_that_crashes_is_not_ours_to_judge(void **state)
{
    (void)state;
    struct planned p;
    plan(&p, "[sweep]\nencoder = plain\ntask = crash, echo, loud\n");
    assert_int_equal(p.sweep.n, 3);
    release(&p);
}

/* ---- what is refused ---- */

#define AXES "[sweep]\nencoder = plain\ntask = echo\n"               /* the next line is 4 */
static const struct { const char *text, *set, *message; } refused[] = {
    { "", NULL, "some/f.ini: [sweep] has no encoder; list at least one, as in `encoder = none, rope`" },
    { "[sweep]\nencoder = plain\n", NULL, "some/f.ini: [sweep] has no task; list at least one, as in `task = reverse`" },
    { "[run]\nencoder = plain\n", NULL, "some/f.ini:2: unknown section [run]: encoder, task and seed stand in [sweep]" },
    { "[Sweep]\nencoder = plain\ntask = echo\n", NULL, "some/f.ini:2: unknown section [Sweep]: did you mean [sweep]?; known: experiment, sweep" },
    { AXES, "run.seed=1", "--set: unknown section [run]" },
    { AXES "[modle]\n", NULL, "some/f.ini:4: unknown section [modle]: did you mean [model]?" },
    { AXES "[zzzzz] ; nothing\n[train]\nsteps = 5\n", NULL, "some/f.ini:4: unknown section [zzzzz]; known: experiment, sweep" },
    { AXES "[run]\n", NULL, "some/f.ini:4: unknown section [run]: encoder, task and seed stand in [sweep]" },
    { AXES "[encoder.ritch]\n", NULL, "some/f.ini:4: section [encoder.ritch]: unknown encoder 'ritch': did you mean 'rich'?" },
    { "[sweep]\nencoder = plain, plan\ntask = echo\n", NULL, "some/f.ini:2: unknown encoder 'plan': did you mean 'plain'?" },
    { "[sweep]\nencoder = plain\ntask = ehco\n", NULL, "some/f.ini:3: unknown task 'ehco': did you mean 'echo'?" },
    { "[sweep]\nencoder =\ntask = echo\n", NULL, "some/f.ini:2: encoder has no value; list at least one" },
    { "[sweep]\nencoder = plain,,rich\ntask = echo\n", NULL, "some/f.ini:2: encoder = plain,,rich: an item of the list is empty" },
    { "[sweep]\nencoder = plain,\ntask = echo\n", NULL, "some/f.ini:2: encoder = plain,: an item of the list is empty" },
    { "[sweep]\nencoder = , plain\ntask = echo\n", NULL, "some/f.ini:2: encoder = , plain: an item of the list is empty" },
    { "[sweep]\nencoder = plain, rich, plain\ntask = echo\n", NULL, "some/f.ini:2: encoder lists plain twice; leave one out" },
    { AXES "seed = 0..3, 2\n", NULL, "some/f.ini:4: seed lists 2 twice; leave one out" },
    { AXES "seed = 0..\n", NULL, "some/f.ini:4: seed = 0..: a range is written low..high, as in 0..2" },
    { AXES "seed = ..3\n", NULL, "some/f.ini:4: seed = ..3: a range is written low..high" },
    { AXES "seed = 0...3\n", NULL, "some/f.ini:4: seed = 0...3: a range is written low..high" },
    { AXES "seed = 0..2..4\n", NULL, "some/f.ini:4: seed = 0..2..4: a range is written low..high" },
    { AXES "seed = 00000000000000000000000000000000000000000x..7\n", NULL, "some/f.ini:4: seed = 00000000000000000000000000000000000000000x..7: a range is" },
    { AXES "seed = 5..2\n", NULL, "some/f.ini:4: seed = 5..2: the range runs backwards; write 2..5" },
    { AXES "seed = 0..100000\n", NULL, "some/f.ini:4: seed = 0..100000 has too many values (the limit is 100000)" },
    { AXES "seed = 0..60000, 70000..130000\n", NULL, "some/f.ini:4: seed has too many values (the limit is 100000)" },
    { AXES "seed = -1..1\n", NULL, "some/f.ini:4: seed = '-1': expected a whole number, 0..2147483647" },
    { AXES "seed = 1.5\n", NULL, "some/f.ini:4: seed = '1.5': expected a whole number" },
    { AXES "seed = 0..999\nmodel.layers = 1..101\n", NULL, "some/f.ini: [sweep] has more than 100000 combinations" },
    { AXES "model.layers = 1, 0\n", NULL, "some/f.ini:4: layers = '0': expected a whole number, 1..1000" },
    { AXES "model.layers = 1, two\n", NULL, "some/f.ini:4: layers = 'two': expected a whole number" },
    { AXES "train.lr = 1e-3x\n", NULL, "some/f.ini:4: lr = '1e-3x': expected a number" },
    { AXES "train.lr = 0..1\n", NULL, "some/f.ini:4: lr = '0..1': expected a number" },
    { AXES "seeds = 1\n", NULL, "some/f.ini:4: unknown axis 'seeds': did you mean 'seed'?" },
    { AXES "layers = 1\n", NULL, "some/f.ini:4: unknown axis 'layers'; an axis is encoder, task, seed, or section.key, as in model.layers" },
    { AXES "model.layer = 1\n", NULL, "some/f.ini:4: unknown axis 'model.layer': did you mean 'model.layers'?" },
    { AXES "modle.layers = 1\n", NULL, "some/f.ini:4: 'modle.layers' is not an axis; an axis is encoder, task, seed, or a key of" },
    { AXES "eval.lengths = 8\n", NULL, "some/f.ini:4: 'eval.lengths' is not an axis" },
    { AXES "experiment.name = 8\n", NULL, "some/f.ini:4: 'experiment.name' is not an axis" },
    { AXES "train.log_every = 8\n", NULL, "some/f.ini:4: 'train.log_every' is not an axis" },
    { AXES "run.seed = 8\n", NULL, "some/f.ini:4: 'run.seed' is not an axis" },
    { AXES "encoder.rich = 8\n", NULL, "some/f.ini:4: 'encoder.rich' is not an axis" },
    { AXES "encoder.ritch.size = 8\n", NULL, "some/f.ini:4: axis encoder.ritch.size: unknown encoder 'ritch': did you mean 'rich'?" },
    { AXES "encoder.rich.sizes = 8\n", NULL, "some/f.ini:4: unknown axis 'encoder.rich.sizes': did you mean 'encoder.rich.size'?" },
    { AXES "task.echo.zzzzzz = 8\n", NULL, "some/f.ini:4: 'task.echo.zzzzzz' is not an axis" },
    { AXES "model.layers = 1, 2\n[model]\nlayers = 2\n", NULL, "some/f.ini:4: model.layers is swept here and set on line 6 of some/f.ini; remove" },
    { AXES "model.layers = 1, 2\n", "model.layers=2", "--set: model.layers is an axis of the experiment; set sweep.model.layers instead" },
    { AXES "[model]\nlayers = 2\n", "sweep.model.layers=1,2", "--set: model.layers is swept here and set on line 5 of some/f.ini; remove" },
    { AXES, "sweep.model.layers=1,,2", "--set: model.layers = 1,,2: an item of the list is empty" },
    { AXES "[experiment]\nnme = 2\n", NULL, "some/f.ini:5: unknown key 'nme' in [experiment]: did you mean 'name'?; it has name and question" },
    { AXES "[experiment]\nzzzzz = 2\n", NULL, "some/f.ini:5: unknown key 'zzzzz' in [experiment]; it has name and question" },
    { "[sweep]\nencoder = plain\ntask = echo, loud\n[eval]\nlengths = 8, 9\n", NULL,
      "some/f.ini:3: task loud: token 10 at place 8 is outside [0,10): the task is at fault" },
    /* the fault of one combination stops them all */
    { "[sweep]\nencoder = plain, rich\ntask = echo\nseed = 0..9\n[eval]\nlengths = 16, 801\n", NULL, "some/f.ini:2: encoder rich: size 8 is for 800 positions" },
};

static void each_fault_is_named_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct planned p;
        struct lab_err err = { "" };
        if (try_plan(&p, refused[i].text, refused[i].set, &err) == 0) fail_msg("accepted:\n%s", refused[i].text);
        if (strncmp(err.msg, refused[i].message, strlen(refused[i].message))) fail_msg("found    %s\nexpected %s", err.msg, refused[i].message);
        if (strchr(err.msg, '\n')) fail_msg("more than one line: %s", err.msg);
    }
}

static void too_many_axes_are_refused(void **state)
{
    (void)state;
    struct str text = { 0 };
    struct planned p;
    struct lab_err err = { "" };
    static const struct { const char *section; const struct lab_option *table; } part[] = {
        { "model", config_model_table }, { "train", config_train_table }, { "encoder.rich", fake_rich_options }, { "encoder.needy", fake_needy_options },
        { "task.echo", fake_task_options }, { "task.next", fake_task_options }, { "task.small", fake_task_options }, { "task.translate", fake_task_options },
        { "task.twice", fake_task_options }, { "task.silent", fake_task_options }, { "task.backward", fake_task_options } };
    int n = 2;
    str_add(&text, "[sweep]\nencoder = plain\ntask = echo\n");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (const struct lab_option *row = part[i].table; row->name && strcmp(row->name, "log_every"); row++, n++)
            str_printf(&text, "%s.%s = %s\n", part[i].section, row->name, row->def && *row->def ? row->def : "x");
    assert_int_equal(n, 64);
    plan(&p, text.text);
    assert_int_equal(p.sweep.n, 1);
    release(&p);
    str_add(&text, "task.endless.vocab = 10\n");
    assert_int_equal(try_plan(&p, text.text, NULL, &err), -1);
    assert_non_null(strstr(err.msg, "too many axes; the limit is 64"));
    str_free(&text);
}

/* ---- size, and memory ---- */

static double plan_seconds(const char *seeds, size_t n)
{
    char text[128];
    struct planned p;
    snprintf(text, sizeof text, "[sweep]\nencoder = plain, rich\ntask = echo\nseed = %s\nmodel.layers = 1..5\n", seeds);
    clock_t begun = clock();         /* of the processor: other programs are not to blame */
    plan(&p, text);
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    assert_int_equal(p.sweep.n, n);
    release(&p);
    printf("%zu runs in %.3f s\n", n, seconds);
    return seconds;
}

/* What checks every access, a sanitizer's build or the valgrind of run_unit.sh, may take longer. */
static void a_thousand_runs_are_planned_at_once(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    const double patience = 20;
#else
    const double patience = getenv("UNDER") ? 20 : 1;
#endif
    assert_true(plan_seconds("0..99", 1000) < 0.3 * patience);
    assert_true(plan_seconds("0..999", 10000) < 1 * patience);
}

static void lost_memory_loses_nothing_else(void **state)
{
    (void)state;
    static const char text[] = "[sweep]\nencoder = plain, rich\ntask = echo\nseed = 0..6\nencoder.rich.label = a, b\ntrain.lr = 1e-3, 1e-4\n";
    struct conf conf;
    struct sweep sweep;
    long n = 1;
    OK(conf_read_text(&conf, "f.ini", text, strlen(text), &err));
    for (int rc = -1; rc != 0; n++) {
        struct lab_err err = { "" };
        mem_fail_at(n);
        rc = sweep_build(&sweep, &conf, fake_registry(), &err);
        mem_fail_at(0);
        if (rc == 0) sweep_free(&sweep);
        else if (!strstr(err.msg, "memory")) fail_msg("allocation %ld: '%s'", n, err.msg);
        assert_int_equal(fake_live, 0);
    }
    assert_true(n > 100);
    conf_free(&conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_axis_turns_fastest),
        cmocka_unit_test(ranges_and_single_numbers_mix),
        cmocka_unit_test(any_key_may_be_an_axis),
        cmocka_unit_test(equal_runs_are_joined),
        cmocka_unit_test(any_order_of_axes_gives_the_same_runs),
        cmocka_unit_test(texts_from_axes_stay_valid),
        cmocka_unit_test(a_file_names_its_experiment),
        cmocka_unit_test(a_task_that_crashes_is_not_ours_to_judge),
        cmocka_unit_test(each_fault_is_named_with_its_line),
        cmocka_unit_test(too_many_axes_are_refused),
        cmocka_unit_test(a_thousand_runs_are_planned_at_once),
        cmocka_unit_test(lost_memory_loses_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
