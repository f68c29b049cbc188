/* Tests of the order-blind ceiling, against enumeration, the closed form and the product's facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "exp/ceiling.h"

static const struct lab_task *load(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, TEST_BUILD "/plugins/tasks/%s.so", name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s (build the plugins first: make lab)", dlerror());
    const struct lab_plugin *(*entry)(void) = (const struct lab_plugin *(*)(void))dlsym(handle, "lab_plugin_entry");
    return entry()->tasks[0];
}

/* The shipped tasks keep vocab first in their options, shift then by. */
struct options { int32_t vocab, by; };

static double ceiling_of(const char *name, int vocab, int length)
{
    const struct lab_task *task = load(name);
    struct options self = { vocab, 1 };
    struct lab_task_info info = { .size = sizeof info };
    struct ceiling c;
    struct lab_err err;
    assert_int_equal(task->init(&self, &info, &err), 0);
    if (ceiling_compute(task, &self, &info, length, &c, &err) != 0) fail_msg("%s", err.msg);
    assert_true(1.96 * c.error < 0.002);
    assert_true(c.samples >= 256);
    return c.value;
}

static void assert_near(double found, double expected, double tolerance, const char *what, int length)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s at length %d: %.5f, expected %.5f within %g", what, length, found, expected, tolerance);
}

/* ---- independent answers ---- */

/* For a multiset with count[], where the target is a uniformly random other token: a token a (chosen with probability
 * count/T) is best guessed to go with the most frequent of the others. */
static double other_token(const int *count, int vocab, int T)
{
    double sum = 0;
    for (int a = 0; a < vocab; a++) {
        int most = 0;
        for (int y = 0; y < vocab; y++) most = count[y] - (y == a) > most ? count[y] - (y == a) : most;
        sum += (double)count[a] / T * most / (T - 1);
    }
    return sum;
}
/* The target is any token of the multiset, whatever the own token: what a place in sorted order holds. */
static double any_token(const int *count, int vocab, int T)
{
    int most = 0;
    for (int y = 0; y < vocab; y++) most = count[y] > most ? count[y] : most;
    return (double)most / T;
}

/* Exact mean over all vocab^T equally likely inputs. */
static double enumerate(double (*value)(const int *, int, int), int vocab, int T)
{
    long inputs = lround(pow(vocab, T));
    double sum = 0;
    for (long x = 0; x < inputs; x++) {
        int count[16] = { 0 };
        for (long rest = x, t = 0; t < T; t++, rest /= vocab) count[rest % vocab]++;
        sum += value(count, vocab, T);
    }
    return sum / (double)inputs;
}
/* The same by sampling, with a generator of the test's own. */
static double sample(double (*value)(const int *, int, int), int vocab, int T)
{
    enum { N = 100000 };
    uint64_t state = 88172645463325252u;
    double sum = 0;
    for (int n = 0; n < N; n++) {
        int count[16] = { 0 };
        for (int t = 0; t < T; t++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            count[(state >> 33) % (unsigned)vocab]++;
        }
        sum += value(count, vocab, T);
    }
    return sum / N;
}

/* ---- tests ---- */

static void enumeration_of_all_inputs(void **unused)
{
    (void)unused;
    double four = enumerate(other_token, 10, 4);
    assert_near(four, 0.43, 0.0005, "the closed form itself", 4);
    assert_near(ceiling_of("reverse", 10, 4), four, 0.0025, "reverse", 4);
    assert_near(ceiling_of("shift", 10, 4), four, 0.0025, "shift", 4);
    assert_near(ceiling_of("sort", 10, 4), enumerate(any_token, 10, 4), 0.0025, "sort", 4);
    assert_near(ceiling_of("reverse", 2, 6), enumerate(other_token, 2, 6), 0.0025, "reverse, vocabulary 2", 6);
    assert_near(ceiling_of("shift", 3, 5), enumerate(other_token, 3, 5), 0.0025, "shift, vocabulary 3", 5);
}

static void the_facts(void **unused)
{
    static const struct { int length; double value; } fact[] = {
        { 4, 0.429 }, { 8, 0.317 }, { 12, 0.266 }, { 16, 0.241 }, { 24, 0.212 }, { 32, 0.196 } };
    (void)unused;
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++) {
        double exact = sample(other_token, 10, fact[i].length);
        assert_near(exact, fact[i].value, 0.002, "the closed form", fact[i].length);
        const char *task = i % 2 ? "reverse" : "shift";      /* one formula for both; each takes half of the time */
        double found = ceiling_of(task, 10, fact[i].length);
        assert_near(found, fact[i].value, 0.003, task, fact[i].length);
        assert_near(found, exact, 0.0025, task, fact[i].length);
    }
}

static void the_token_alone_is_enough(void **unused)
{
    (void)unused;
    assert_near(ceiling_of("copy", 10, 8), 1, 0, "copy", 8);
    assert_near(ceiling_of("reverse", 10, 1), 1, 0, "reverse", 1);
    assert_near(ceiling_of("reverse", 10, 2), 1, 0, "reverse: the other token is known", 2);
}

/* An odd length has a middle token that reverse leaves in place: own token with probability 1/T. */
static void the_middle_of_an_odd_length(void **unused)
{
    (void)unused;
    double sum = 0;
    enum { T = 3, V = 4 };
    for (int x = 0; x < V * V * V; x++) {
        int token[T] = { x % V, x / V % V, x / V / V }, count[V] = { 0 };
        for (int t = 0; t < T; t++) count[token[t]]++;
        for (int a = 0; a < V; a++) {
            double most = 0;
            for (int y = 0; y < V; y++) {
                double p = (a == y) / 3.0 + 2 / 3.0 * (count[y] - (y == a)) / 2;
                most = p > most ? p : most;
            }
            sum += (double)count[a] / T * most / (V * V * V);
        }
    }
    assert_near(ceiling_of("reverse", V, T), sum, 0.0025, "reverse", T);
}

static void same_again(void **unused)
{
    (void)unused;
    assert_near(ceiling_of("shift", 3, 4), ceiling_of("shift", 3, 4), 0, "a second time", 4);
}

static int unsolvable(const void *self, int len, struct lab_example *e) { return (void)self, (void)len, (void)e, -1; }
static int too_large(const void *self, int len, struct lab_example *e) { return (void)self, e->target[len - 1] = 10, 0; }
static int empty_tape(const void *self, int len) { return (void)self, (void)len, 0; }

static void refusals(void **unused)
{
    (void)unused;
    struct options self = { 10, 1 };
    struct lab_task task = *load("reverse");
    struct lab_task_info info = { .size = sizeof info };
    struct ceiling c;
    struct lab_err err;
    assert_int_equal(task.init(&self, &info, &err), 0);
    assert_int_equal(ceiling_compute(&task, &self, &info, 0, &c, &err), -1);
    assert_string_equal(err.msg, "task reverse takes lengths 1 to 100000, not 0");
    task.solve = unsolvable;
    assert_int_equal(ceiling_compute(&task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "cannot solve"));
    task.solve = too_large;
    assert_int_equal(ceiling_compute(&task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "target 10 is outside [0,10)"));
    task.tape = empty_tape;
    assert_int_equal(ceiling_compute(&task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "a tape of 0 tokens"));
    task.flags = 0;
    assert_int_equal(ceiling_compute(&task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "no order-blind ceiling"));
}

static void out_of_memory(void **unused)
{
    (void)unused;
    struct options self = { 10, 1 };
    const struct lab_task *task = load("reverse");
    struct lab_task_info info = { .size = sizeof info };
    struct ceiling c;
    struct lab_err err;
    assert_int_equal(task->init(&self, &info, &err), 0);
    mem_fail_at(1);
    assert_int_equal(ceiling_compute(task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "out of memory"));
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(enumeration_of_all_inputs), cmocka_unit_test(the_facts), cmocka_unit_test(the_token_alone_is_enough),
        cmocka_unit_test(the_middle_of_an_odd_length), cmocka_unit_test(same_again), cmocka_unit_test(refusals),
        cmocka_unit_test(out_of_memory) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
