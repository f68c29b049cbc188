/* test_speed -- what long sequences, a worker, examples and continuing alone cost, in time and memory.  Slow and apart from `make test`: `make test-speed`.
 *
 * Times are the processor's, so another process on the machine hardly matters; each memory case has a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "exp/data.h"
#include "exp/sweep.h"
#include "nn/gemm.h"
#include "rig.h"

/* The model of experiments/extrapolate.ini; t5's buckets and rope's tables are the ones that grow, if any do. */
static const char ini[] =
    "[sweep]\nencoder = none, sinusoidal, t5, rope\ntask = reverse\nseed = 0\n"
    "[model]\nd_model = 64\nheads = 4\nlayers = 2\nd_ff = 256\n[train]\nbatch = 64\nlength = 8\n[eval]\nlengths = 8192\n";

struct world { struct conf conf; struct registry registry; struct sweep sweep; };

static int world_open(void **state)
{
    static struct world w;
    static const char *const plugins[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    struct lab_err err;
    gemm_one_thread();
    if (conf_read_text(&w.conf, "speed.ini", ini, strlen(ini), &err) != 0 || registry_load(&w.registry, plugins, 2, &err) != 0 ||
        sweep_build(&w.sweep, &w.conf, &w.registry, &err) != 0) fail_msg("%s", err.msg);
    *state = &w;
    return 0;
}
static int world_close(void **state)
{
    struct world *w = *state;
    sweep_free(&w->sweep);
    registry_free(&w->registry);
    conf_free(&w->conf);
    return 0;
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds to evaluate one sequence of this length: the best of a few. */
static double evaluate(const struct run_config *c, int length, int times)
{
    struct model model;
    struct data data;
    struct model_setup setup;
    struct lab_err err;
    double best = 1e9;
    config_model_setup(c, &setup);
    setup.train_batch = 0;
    if (data_init(&data, c, setup.infer_tokens, &err) != 0 || model_init(&model, &setup, &err) != 0) fail_msg("%s", err.msg);
    for (int i = 0; i < times; i++) {
        if (data_eval(&data, LAB_TEST, length, 0, 1, NULL, &err) != 0) fail_msg("%s", err.msg);
        double start = cpu_s();
        model_forward(&model, &data.batch, 0, 0);
        if (cpu_s() - start < best) best = cpu_s() - start;
    }
    model_release(&model);
    data_release(&data);
    return best;
}

static void twice_the_length_takes_at_most_four_times_as_long(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < w->sweep.n; i++) {
        const struct run_config *c = &w->sweep.run[i].config;
        double half = evaluate(c, 2048, 5), whole = evaluate(c, 4096, 5);
        print_message("%-12s %.3f s at 2048, %.3f s at 4096: %.2f times\n", c->encoder->name, half, whole, whole / half);
        if (whole > 4.2 * half)
            fail_msg("%s: length 4096 takes %.2f times as long as 2048, at most 4.2 expected", c->encoder->name, whole / half);
    }
}

/* Most memory that a child held while it did this, MB. */
static double child_mb(void (*work)(const struct run_config *), const struct run_config *c)
{
    struct rusage used;
    int status;
    pid_t pid = fork();
    if (pid == 0) work(c), _exit(0);
    assert_int_equal(wait4(pid, &status, 0, &used), pid);
    assert_int_equal(status, 0);
    return (double)used.ru_maxrss / 1024;
}

static void evaluate_8192(const struct run_config *c) { evaluate(c, 8192, 1); }

static void length_8192_is_evaluated_within_150_mb(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < w->sweep.n; i++) {
        const struct run_config *c = &w->sweep.run[i].config;
        double mb = child_mb(evaluate_8192, c);
        print_message("%-12s %.0f MB at 8192\n", c->encoder->name, mb);
        if (mb > 150) fail_msg("%s: length 8192 took %.0f MB, at most 150 expected", c->encoder->name, mb);
    }
}

static void run_lab(const struct run_config *c)
{
    (void)c;
    execl("/bin/sh", "sh", "-c", "d=$(mktemp -d) && " TEST_BUILD "/lab run experiments/extrapolate.ini --db $d/lab.db --jobs 2"
          " --set train.steps=50 --set eval.sequences=100 --set sweep.seed=0 >/dev/null 2>&1; rc=$?; rm -rf $d; exit $rc", (char *)NULL);
    _exit(127);
}

/* The most that any process of `lab run` held: the supervisor's and every worker's. */
static void a_worker_stays_below_100_mb(void **state)
{
    (void)state;
    double mb = child_mb(run_lab, NULL);
    print_message("lab run: %.0f MB in its largest process\n", mb);
    if (mb > 100) fail_msg("a process of lab run took %.0f MB, at most 100 expected", mb);
}

/* ---- making examples ---- */

enum { TASK_BATCH = 8 };
/* Share of a training step of the default model that its examples take: the best of a few, side by side. */
static double task_share(const struct registry *registry, const char *task, int causal, int length)
{
    char settings[512];
    struct rig r = { .registry.n_file = 0 };
    struct lab_err err;
    double making = 1e9, step = 1e9;
    snprintf(settings, sizeof settings, "[run]\nencoder = none\ntask = %s\n[model]\ncausal = %s\n[train]\nlength = %d\nbatch = %d\n", task,
             causal ? "yes" : "no", length, TASK_BATCH);
    rig_init(&r, registry, settings);
    for (int i = 0; i < 7; i++) {
        double start = cpu_s();
        if (data_train(&r.data, i, &err) != 0) fail_msg("%s", err.msg);
        making = fmin(making, cpu_s() - start);
        start = cpu_s();
        model_step(&r.model, &r.data.batch, (uint32_t)i);
        step = fmin(step, cpu_s() - start);
    }
    rig_release(&r);
    print_message("%-32s at %4d: %8.1f us an example, %5.2f %% of a step\n", task, length, 1e6 * making / TASK_BATCH, 100 * making / step);
    return making / step;
}

static void examples_take_under_2_percent_of_a_step(void **state)
{
    struct world *w = *state;
    int slow = 0;
    for (size_t i = 0; i < w->registry.n_entry; i++) {
        const struct plugin_entry *e = &w->registry.entry[i];
        static const int wanted[] = { 40, 500 };
        if (e->kind != PLUGIN_TASK) continue;
        for (int k = 0; k < 2; k++) {
            struct lab_task_info info = { .size = sizeof info };
            struct lab_err err;
            void *self = calloc(1, e->task->self_size + 1);
            if (option_defaults(e->task->options, self, NULL, &err) != 0 || e->task->init(self, &info, &err) != 0) fail_msg("%s", err.msg);
            int length = wanted[k] < info.min_len ? info.min_len : wanted[k] > info.max_len ? info.max_len : wanted[k];
            slow += task_share(&w->registry, e->name, (e->task->flags & LAB_TASK_CAUSAL) != 0, length) >= 0.02;
            if (e->task->fini) e->task->fini(self);
            free(self);
        }
    }
    if (slow) fail_msg("%d times the examples take 2 %% of a step or more", slow);
}

/* ---- continuing alone ---- */

static int ignore(void *ctx, const struct record *r) { (void)ctx, (void)r; return 0; }

/* Whole forwards until no guess changes: what needs neither keys nor values of before. */
static void continue_by_forward(struct rig *r, int length, int n)
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
                for (int v = 1; v < V; v++) if (logits[v] > logits[guess]) guess = v;
                changed |= *next != guess;
                *next = guess;
            }
    }
}

static void keys_and_values_are_worth_keeping(void **state)
{
    struct world *w = *state;
    static const char *const encoder[] = { "none", "rope", "xpos", "t5", "cope" };
    static const int steps[] = { 0, 150 };
    for (int i = 0; i < 10; i++) {
        char settings[512];
        struct rig r = { .registry.n_file = 0 };
        struct lab_err err;
        double kept = 1e9, whole = 1e9;
        enum { LENGTH = 60 };
        snprintf(settings, sizeof settings, "[run]\nencoder = %s\ntask = mcgill_copy\n[model]\ncausal = yes\n[train]\nlength = 1..10\n[eval]\nlengths = %d\n", encoder[i / 2], LENGTH);
        rig_init(&r, &w->registry, settings);
        rig_learn(&r, steps[i % 2], 1e-3);
        int n = r.model.setup.infer_tokens / config_tape(&r.config, LENGTH);
        for (int k = 0; k < 3; k++) {
            struct record_sink sink = { ignore, NULL };
            struct eval_request q = { LAB_TEST, LENGTH, n, 1, 0, 1 };
            double start = cpu_s();
            if (eval_run(&r.model, &r.data, &q, &sink, NULL, NULL, &err) != 0) fail_msg("%s", err.msg);
            kept = fmin(kept, cpu_s() - start);
            start = cpu_s();
            continue_by_forward(&r, LENGTH, n);
            whole = fmin(whole, cpu_s() - start);
        }
        print_message("%-12s after %3d steps, %d sequences of %d alone: %.1f ms, %.1f ms by whole forwards: %.1f times\n", encoder[i / 2], steps[i % 2], n, LENGTH,
                      1e3 * kept, 1e3 * whole, whole / kept);
        if (kept > whole) fail_msg("%s: %.1f ms with keys and values kept, %.1f ms without", encoder[i / 2], 1e3 * kept, 1e3 * whole);
        rig_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_length_takes_at_most_four_times_as_long),
        cmocka_unit_test(length_8192_is_evaluated_within_150_mb),
        cmocka_unit_test(a_worker_stays_below_100_mb),
        cmocka_unit_test(examples_take_under_2_percent_of_a_step),
        cmocka_unit_test(keys_and_values_are_worth_keeping),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}
