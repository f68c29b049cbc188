/* Tests of the shipped tasks, as the .so files that users get: right answers, purity, uniform tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "abi/lab_task.h"
#include "host/option.h"

enum { LONG = 512 };
struct example { struct lab_example e; int32_t in[LONG], target[LONG], pos[LONG]; float weight[LONG]; };
struct fixture { const struct lab_task *task; void *self; struct lab_task_info info; };

static struct fixture load(const char *name, const char *key, const char *value)
{
    struct fixture f = { 0 };
    struct lab_err err;
    char path[256];
    snprintf(path, sizeof path, TEST_BUILD "/plugins/tasks/%s.so", name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s (build the plugins first: make lab)", dlerror());
    const struct lab_plugin *(*entry)(void) = (const struct lab_plugin *(*)(void))dlsym(handle, "lab_plugin_entry");
    f.task = entry()->tasks[0];
    f.self = calloc(1, f.task->self_size);
    f.info.size = sizeof f.info;
    assert_string_equal(f.task->name, name);
    assert_int_equal(option_defaults(f.task->options, f.self, NULL, &err), 0);
    if (key && option_set(option_find(f.task->options, key), f.self, value, &err) != 0) fail_msg("%s", err.msg);
    assert_int_equal(f.task->init(f.self, &f.info, &err), 0);
    return f;
}

static struct example *draw(const struct fixture *f, uint64_t seed, int split, int64_t n, int len)
{
    static struct example slot[4];
    static int next;
    struct example *x = &slot[next++ % 4];               /* the last four stay valid */
    struct lab_err err;
    memset(x, 0xa5, sizeof *x);
    x->e = (struct lab_example){ .in = x->in, .target = x->target, .weight = x->weight, .pos = x->pos };
    if (f->task->sample(f->self, seed, split, n, len, &x->e, &err) != 0) fail_msg("%s", err.msg);
    return x;
}

/* ---- right answers, by definitions of the test's own ---- */

static int ascending(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }
static void reversed(const int32_t *x, int32_t *y, int T) { for (int i = 0; i < T; i++) y[T - 1 - i] = x[i]; }
static void copied(const int32_t *x, int32_t *y, int T) { memcpy(y, x, (size_t)T * sizeof *x); }
static void sorted(const int32_t *x, int32_t *y, int T) { copied(x, y, T), qsort(y, (size_t)T, sizeof *y, ascending); }
static void moved(const int32_t *x, int32_t *y, int T, int by) { for (int i = 0; i < T; i++) y[((i + by) % T + T) % T] = x[i]; }
static void moved1(const int32_t *x, int32_t *y, int T) { moved(x, y, T, 1); }
static void moved3(const int32_t *x, int32_t *y, int T) { moved(x, y, T, 3); }
static void moved_back2(const int32_t *x, int32_t *y, int T) { moved(x, y, T, -2); }
static void moved_round(const int32_t *x, int32_t *y, int T) { moved(x, y, T, 1000); }

static const struct { const char *task, *key, *value; void (*answer)(const int32_t *, int32_t *, int); int vocab; } kind[] = {
    { "reverse", NULL, NULL, reversed, 10 }, { "reverse", "vocab", "2", reversed, 2 },
    { "copy", NULL, NULL, copied, 10 },      { "copy", "vocab", "1000", copied, 1000 },
    { "sort", NULL, NULL, sorted, 10 },      { "sort", "vocab", "1000", sorted, 1000 },
    { "shift", NULL, NULL, moved1, 10 },     { "shift", "by", "3", moved3, 10 },
    { "shift", "by", "-2", moved_back2, 10 }, { "shift", "by", "1000", moved_round, 10 } };
enum { N_KIND = sizeof kind / sizeof *kind };

static void answers(void **unused)
{
    (void)unused;
    int32_t expected[LONG];
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].task, kind[k].key, kind[k].value);
        for (int len = 1; len <= 40; len++)
            for (int n = 0; n < 20; n++) {
                const struct example *x = draw(&f, 5, LAB_TRAIN, n, len);
                kind[k].answer(x->in, expected, len);
                for (int i = 0; i < len; i++)
                    if (x->target[i] != expected[i])
                        fail_msg("%s, length %d, example %d: target[%d] = %d, expected %d", kind[k].task, len, n, i, x->target[i],
                                 expected[i]);
            }
        free(f.self);
    }
}

static void answers_by_hand(void **unused)
{
    (void)unused;
    static const int32_t in[5] = { 3, 1, 4, 1, 5 };
    static const struct { const char *task, *key, *value; int32_t target[5]; } hand[] = {
        { "reverse", NULL, NULL, { 5, 1, 4, 1, 3 } }, { "copy", NULL, NULL, { 3, 1, 4, 1, 5 } },
        { "shift", NULL, NULL, { 5, 3, 1, 4, 1 } },   { "shift", "by", "-1", { 1, 4, 1, 5, 3 } },
        { "sort", NULL, NULL, { 1, 1, 3, 4, 5 } } };
    for (size_t k = 0; k < sizeof hand / sizeof *hand; k++) {
        struct fixture f = load(hand[k].task, hand[k].key, hand[k].value);
        struct example x = { 0 };
        x.e = (struct lab_example){ .in = x.in, .target = x.target, .weight = x.weight, .pos = x.pos };
        memcpy(x.in, in, sizeof in);
        assert_int_equal(f.task->solve(f.self, 5, &x.e), 0);
        assert_memory_equal(x.target, hand[k].target, sizeof in);
        assert_memory_equal(x.in, in, sizeof in);
        free(f.self);
    }
}

/* ---- what the host relies on ---- */

static void information(void **unused)
{
    (void)unused;
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].task, kind[k].key, kind[k].value);
        assert_int_equal(f.info.vocab_in, kind[k].vocab);
        assert_int_equal(f.info.vocab_out, kind[k].vocab);
        assert_int_equal(f.info.version, 1);
        assert_int_equal(f.info.min_len, 1);
        assert_int_equal(f.info.max_len, 100000);
        assert_true(f.info.chance == 1.0 / kind[k].vocab);
        assert_int_equal(f.task->flags, LAB_TASK_EXCHANGEABLE);
        assert_non_null(f.task->solve);
        free(f.self);
    }
}

/* An example is what its arguments say, whatever was drawn before it; it writes nothing past its length. */
static void purity(void **unused)
{
    (void)unused;
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].task, kind[k].key, kind[k].value);
        struct example first = *draw(&f, 1, LAB_TEST, 17, 9);
        for (int64_t n = 40; n >= 0; n--) draw(&f, 1, LAB_TEST, n, 1 + (int)n);
        const struct example *again = draw(&f, 1, LAB_TEST, 17, 9);
        assert_memory_equal(again->in, first.in, sizeof first.in);
        assert_memory_equal(again->target, first.target, sizeof first.target);
        assert_int_equal((uint32_t)first.in[9], 0xa5a5a5a5u);
        assert_int_equal((uint32_t)first.target[9], 0xa5a5a5a5u);
        assert_int_equal(first.e.slice, 0);
        assert_int_equal(first.e.prompt, 0);
        free(f.self);
    }
}

/* The stream is the one that lab_task.h names: one word a token. */
static void the_named_stream(void **unused)
{
    (void)unused;
    struct fixture f = load("reverse", NULL, NULL);
    struct lab_rng r = lab_rng_at(7, LAB_VALID, 123, 12);
    const struct example *x = draw(&f, 7, LAB_VALID, 123, 12);
    for (int i = 0; i < 12; i++) assert_int_equal(x->in[i], lab_rng_below(&r, 10));
    free(f.self);
}

static void every_argument_matters(void **unused)
{
    (void)unused;
    enum { T = 40 };
    struct fixture f = load("copy", NULL, NULL);
    static const struct { uint64_t seed; int split; int64_t n; int len; const char *what; } other[] = {
        { 2, LAB_TRAIN, 3, T, "seed" },  { 1, LAB_VALID, 3, T, "split" }, { 1, LAB_TEST, 3, T, "split" },
        { 1, LAB_TRAIN, 4, T, "n" },     { 1, LAB_TRAIN, 3, T + 1, "length" },
        { 1, LAB_TRAIN, 3 + (1ll << 32), T, "the high half of n" }, { 1, LAB_TRAIN, 3 + (1ll << 62), T, "the highest bits of n" } };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct example base = *draw(&f, 1, LAB_TRAIN, 3, T);
        if (!memcmp(base.in, draw(&f, other[i].seed, other[i].split, other[i].n, other[i].len)->in, T * sizeof(int32_t)))
            fail_msg("another %s gave the same example", other[i].what);
    }
    free(f.self);
}

/* Chi-square over tokens, by position and over pairs of neighbours; 99.9 % points, fixed data: no flicker. */
static void uniform_tokens(void **unused)
{
    (void)unused;
    enum { N = 20000, T = 8, V = 10 };
    static int by_position[T][V], pair[V][V];
    for (int k = 0; k < N_KIND; k++) {
        if (kind[k].vocab != V) continue;
        struct fixture f = load(kind[k].task, kind[k].key, kind[k].value);
        memset(by_position, 0, sizeof by_position);
        memset(pair, 0, sizeof pair);
        for (int n = 0; n < N; n++) {
            const struct example *x = draw(&f, 0, LAB_TRAIN, n, T);
            for (int i = 0; i < T; i++) {
                if (x->in[i] < 0 || x->in[i] >= V) fail_msg("token %d", x->in[i]);
                by_position[i][x->in[i]]++;
                if (i) pair[x->in[i - 1]][x->in[i]]++;
            }
        }
        double expected = N / (double)V, expected_pair = N * (T - 1.0) / (V * V), chi = 0, chi_pair = 0;
        for (int i = 0; i < T; i++)
            for (int v = 0; v < V; v++) chi += pow(by_position[i][v] - expected, 2) / expected;
        for (int a = 0; a < V; a++)
            for (int b = 0; b < V; b++) chi_pair += pow(pair[a][b] - expected_pair, 2) / expected_pair;
        if (chi > 114.8) fail_msg("%s: chi-square %.1f over 72 degrees of freedom, expected below 114.8", kind[k].task, chi);
        if (chi < 39) fail_msg("%s: chi-square %.1f is too good to be random", kind[k].task, chi);
        if (chi_pair > 148.2) fail_msg("%s: pairs: chi-square %.1f over 99, expected below 148.2", kind[k].task, chi_pair);
        free(f.self);
    }
}

static void refusals(void **unused)
{
    (void)unused;
    struct lab_err err;
    struct example x = { 0 };
    x.e = (struct lab_example){ .in = x.in, .target = x.target, .weight = x.weight, .pos = x.pos };
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].task, kind[k].key, kind[k].value);
        char expected[64];
        snprintf(expected, sizeof expected, "%s: length 0 is not in 1..100000", kind[k].task);
        assert_int_equal(f.task->sample(f.self, 0, LAB_TRAIN, 0, 0, &x.e, &err), -1);
        assert_string_equal(err.msg, expected);
        assert_int_equal(f.task->sample(f.self, 0, LAB_TRAIN, 0, 100001, &x.e, &err), -1);
        assert_int_not_equal(option_set(option_find(f.task->options, "vocab"), f.self, "1", &err), 0);
        free(f.self);
    }
    struct fixture f = load("sort", NULL, NULL);
    x.in[1] = 10;
    assert_int_equal(f.task->solve(f.self, 3, &x.e), -1);
    x.in[1] = -1;
    assert_int_equal(f.task->solve(f.self, 3, &x.e), -1);
    free(f.self);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(answers), cmocka_unit_test(answers_by_hand), cmocka_unit_test(information), cmocka_unit_test(purity),
        cmocka_unit_test(the_named_stream), cmocka_unit_test(every_argument_matters), cmocka_unit_test(uniform_tokens),
        cmocka_unit_test(refusals) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
