/* Tests of the order-blind ceiling, against enumeration, the closed form and the product's facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "exp/ceiling.h"
#include "host/option.h"

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
    if (ceiling_compute(CEILING_ORDER_BLIND, task, &self, &info, length, &c, &err) != 0) fail_msg("%s", err.msg);
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

/* ---- tasks that reorder their examples, against all of their inputs with their chances ---- */

enum { MOST_BUCKETS = 4096, CLASSES = 5 };
struct bucket { uint64_t tokens; double of[CLASSES]; };      /* of a multiset: how often each target, weighted */
static struct bucket bucket[MOST_BUCKETS];
static int buckets;

/* An input and its answer, with its chance: what an order-blind model can tell apart is how often each token (below 12) occurs. */
static void enter(double weight, const int *in, int n, const int *answer, int answers)
{
    uint64_t key = 0;
    int b = 0;
    for (int i = 0; i < n; i++) key += UINT64_C(1) << (5 * in[i]);
    while (b < buckets && bucket[b].tokens != key) b++;
    if (b == buckets) assert_true(buckets++ < MOST_BUCKETS), bucket[b] = (struct bucket){ .tokens = key };
    for (int i = 0; i < answers; i++) bucket[b].of[answer[i]] += weight;
}

/* The best single answer for each multiset, over all answers. */
static double best_of_buckets(void)
{
    double right = 0, all = 0;
    for (int b = 0; b < buckets; b++) {
        double most = 0;
        for (int y = 0; y < CLASSES; y++) all += bucket[b].of[y], most = fmax(most, bucket[b].of[y]);
        right += most;
    }
    buckets = 0;
    return right / all;
}

static double exact_even_pairs(int n)
{
    for (int x = 0; x < 1 << n; x++) {
        int in[16], odd = 0;
        for (int i = 0; i < n; i++) in[i] = x >> i & 1, odd ^= i && in[i] != in[i - 1];
        enter(1, in, n, &odd, 1);
    }
    return best_of_buckets();
}

static double exact_modular(int n)
{
    long all = 1;
    for (int i = 0; i < n; i++) all *= i % 2 ? 3 : 5;
    for (long x = 0; x < all; x++) {
        int in[16], value, products[16], k = 0, signs[16] = { 1 };
        long rest = x;
        for (int i = 0; i < n; i++) in[i] = i % 2 ? 5 + (int)(rest % 3) : (int)(rest % 5), rest /= i % 2 ? 3 : 5;
        products[0] = in[0];
        for (int i = 1; i < n; i += 2) {
            if (in[i] == 7) products[k] *= in[i + 1];
            else products[++k] = in[i + 1], signs[k] = in[i] == 5 ? 1 : -1;
        }
        value = 0;
        for (int i = 0; i <= k; i++) value += signs[i] * products[i];
        value = ((value % 5) + 5) % 5;
        enter(1, in, n, &value, 1);
    }
    return best_of_buckets();
}

/* All pairs of numbers for each place of the AND; the answer's digits, lowest first, and its end (2). */
static double exact_addition(int n)
{
    for (int a = 1; a <= n - 2; a++)
        for (int x = 1; x < 1 << a; x++)
            for (int y = 1, b = n - 1 - a; y < 1 << b; y++) {
                int in[16], answer[17], k = 0, sum = x + y;
                for (int i = 0; i < a; i++) in[i] = x >> i & 1;
                in[a] = 2;
                for (int i = 0; i < b; i++) in[a + 1 + i] = y >> i & 1;
                for (; sum; sum >>= 1) answer[k++] = sum & 1;
                answer[k++] = 2;
                enter(1.0 / ((1 << a) - 1) / ((1 << b) - 1), in, n, answer, k);
            }
    return best_of_buckets();
}

static double exact_stack(int n)
{
    for (int s = 1; s < n; s++) {
        long all = 1;
        for (int i = 0; i < n; i++) all *= i < s ? 2 : 3;
        for (long x = 0; x < all; x++) {
            int in[16], stack[16], answer[17], height = 0, k = 0;
            long rest = x;
            for (int i = 0; i < n; i++) {
                in[i] = i < s ? (int)(rest % 2) : 2 + (int)(rest % 3), rest /= i < s ? 2 : 3;
                if (in[i] < 2) stack[height++] = in[i];
                else if (in[i] > 2) stack[height++] = in[i] - 3;
                else height -= height > 0;
            }
            while (height) answer[k++] = stack[--height];
            answer[k++] = 2;
            enter(1.0 / all, in, n, answer, k);
        }
    }
    return best_of_buckets();
}

/* All expressions of n tokens with their values and chances, the shorter ones before them. */
enum { LONGEST_TEXT = 10, MOST_TEXTS = 8192 };
static struct text { int in[LONGEST_TEXT], value; double weight; } text[LONGEST_TEXT + 1][MOST_TEXTS];
static int texts[LONGEST_TEXT + 1];

static void join(int n, const struct text *l, int left, const struct text *r, int right, int sign, double chance, int open)
{
    struct text *t = &text[n][texts[n]++];
    assert_true(texts[n] <= MOST_TEXTS);
    t->in[0] = open, t->in[1 + left] = 5 + sign, t->in[n - 1] = open + 1;
    for (int i = 0; i < left; i++) t->in[1 + i] = l->in[i];
    for (int i = 0; i < right; i++) t->in[2 + left + i] = r->in[i];
    t->value = ((sign == 0 ? l->value + r->value : sign == 1 ? l->value - r->value : l->value * r->value) % 5 + 5) % 5;
    t->weight = l->weight * r->weight * chance;
}
static void write_texts(int n, int signs, int open)
{
    memset(texts, 0, sizeof texts);
    for (int d = 0; d < 5; d++) {
        text[1][texts[1]++] = (struct text){ { d }, d, 0.2 };
        text[2][texts[2]++] = (struct text){ { 6, d }, (5 - d) % 5, 0.2 };
        text[3][texts[3]++] = (struct text){ { open, d, open + 1 }, d, 0.2 };
        text[4][texts[4]++] = (struct text){ { open, 6, d, open + 1 }, (5 - d) % 5, 0.2 };
    }
    for (int all = 5; all <= n; all++)
        for (int left = 1, splits = all - 4; left <= splits; left++)
            for (int l = 0; l < texts[left]; l++)
                for (int r = 0, right = all - 3 - left; r < texts[right]; r++)
                    for (int sign = 0; sign < signs; sign++)
                        join(all, &text[left][l], left, &text[right][r], right, sign, 1.0 / splits / signs, open);
}

static double exact_brackets(int n)
{
    write_texts(n, 3, 8);
    for (int i = 0; i < texts[n]; i++) enter(text[n][i].weight, text[n][i].in, n, &text[n][i].value, 1);
    return best_of_buckets();
}
/* Each place is drawn as often as the next; the digit there or to its right, or else the first, becomes x (9). */
static double exact_equation(int length)
{
    int n = length - 2;
    write_texts(n, 2, 7);
    for (int i = 0; i < texts[n]; i++)
        for (int place = 0; place < n; place++) {
            int in[LONGEST_TEXT + 2], hidden = place;
            while (text[n][i].in[hidden] > 4) hidden = (hidden + 1) % n;
            memcpy(in, text[n][i].in, sizeof text[n][i].in);
            in[hidden] = 9, in[n] = 10, in[n + 1] = text[n][i].value;
            enter(text[n][i].weight / n, in, length, &text[n][i].in[hidden], 1);
        }
    return best_of_buckets();
}

/* A key is known by its two copies, its value is one of the tokens of the upper half: K of them and half of the noise, more or less. */
static double expected_mqar(int L, int K)
{
    int noise = L - 3 * K;
    double sum = 0;
    for (int upper = 0; upper <= noise; upper++) sum += exp(lgamma(noise + 1) - lgamma(upper + 1) - lgamma(noise - upper + 1)) / exp2(noise) / (K + upper);
    return sum;
}

static struct ceiling any_ceiling(int kind, const char *plugin, const char *name, int length)
{
    char path[256];
    struct lab_task_info info = { .size = sizeof info };
    struct ceiling c;
    struct lab_err err;
    const struct lab_task *task = NULL;
    snprintf(path, sizeof path, TEST_BUILD "/plugins/tasks/%s.so", plugin);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s", dlerror());
    const struct lab_plugin *(*entry)(void) = (const struct lab_plugin *(*)(void))dlsym(handle, "lab_plugin_entry");
    for (const struct lab_task *const *t = entry()->tasks; *t; t++) if (!strcmp((*t)->name, name)) task = *t;
    void *self = calloc(1, task->self_size + 1);
    assert_int_equal(option_defaults(task->options, self, NULL, &err), 0);
    assert_int_equal(task->init(self, &info, &err), 0);
    if (ceiling_compute(kind, task, self, &info, length, &c, &err) != 0) fail_msg("%s: %s", name, err.msg);
    free(self);
    return c;
}

static void reordered_tasks(void **unused)
{
    (void)unused;
    const struct { const char *plugin, *task; int length; double exact, tolerance; } with[] = {
        { "dm_strings", "even_pairs", 6, exact_even_pairs(6), 0.006 },
        { "dm_strings", "parity", 7, 1, 0 }, { "dm_strings", "cycle_navigation", 7, 1, 0 }, { "dm_strings", "missing_duplicate", 8, 1, 0 },
        { "dm_strings", "missing_duplicate", 11, 1, 0 }, { "dm_strings", "missing_duplicate", 1, 1, 0 },
        { "dm_strings", "reverse_string", 8, 0.5 + 0.5 * 70 / 256, 0.003 }, { "dm_strings", "odds_first", 8, 0.5 + 0.5 * 70 / 256, 0.003 },
        { "dm_strings", "bucket_sort", 4, enumerate(any_token, 5, 4), 0.003 },
        { "dm_strings", "stack_manipulation", 5, exact_stack(5), 0.004 },
        { "dm_arithmetic", "modular_arithmetic", 5, exact_modular(5), 0.006 },
        { "dm_arithmetic", "modular_arithmetic_brackets", 2, 1, 0 },
        { "dm_arithmetic", "modular_arithmetic_brackets", 10, exact_brackets(10), 0.006 },      /* expressions in expressions */
        { "dm_arithmetic", "solve_equation", 2, 1, 0 }, { "dm_arithmetic", "solve_equation", 12, exact_equation(12), 0.006 },
        { "dm_binary", "binary_addition", 6, exact_addition(6), 0.004 }, { "dm_binary", "binary_addition", 9, exact_addition(9), 0.004 },
        { "mqar", "mqar", 16, expected_mqar(16, 4), 0.004 }, { "mqar", "mqar", 32, expected_mqar(32, 4), 0.003 } };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct ceiling c = any_ceiling(CEILING_ORDER_BLIND, with[i].plugin, with[i].task, with[i].length);
        assert_near(c.value, with[i].exact, with[i].tolerance, with[i].task, with[i].length);
    }
}

/* Expected value of the most likely symbol at each place of five sorted symbols. */
static double sorted_majority(int T)
{
    long inputs = lround(pow(5, T));
    double right = 0;
    for (int place = 0; place < T; place++) {
        long of[5] = { 0 }, most = 0;
        for (long x = 0; x < inputs; x++) {
            int count[5] = { 0 }, symbol = 0;
            for (long rest = x, t = 0; t < T; t++, rest /= 5) count[rest % 5]++;
            for (int left = place; left >= count[symbol]; symbol++) left -= count[symbol];
            of[symbol]++;
        }
        for (int y = 0; y < 5; y++) most = of[y] > most ? of[y] : most;
        right += (double)most / (double)inputs;
    }
    return right / T;
}

static void majorities(void **unused)
{
    (void)unused;
    const struct { const char *plugin, *task; int length; double exact, tolerance; } with[] = {
        { "dm_strings", "bucket_sort", 5, sorted_majority(5), 0.004 }, { "dm_strings", "parity", 9, 0.5, 0.008 }, { "reverse", "reverse", 8, 0.1, 0.003 },
        { "sort", "sort", 1, 0.1, 0.006 }, { "lacoco", "lacoco_unique_copy", 5, (1 + 5 / 150.0) / 6, 0.003 } };   /* the end is always there */
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct ceiling c = any_ceiling(CEILING_MAJORITY, with[i].plugin, with[i].task, with[i].length);
        assert_near(c.value, with[i].exact, with[i].tolerance, with[i].task, with[i].length);
    }
}

static void what_applies_to_what(void **unused)
{
    (void)unused;
    const struct lab_task none = { .flags = LAB_TASK_CAUSAL }, reorders = { .flags = LAB_TASK_REORDERS }, *reverse = load("reverse");
    assert_false(ceiling_applies(CEILING_ORDER_BLIND, &none, 0));
    assert_true(ceiling_applies(CEILING_ORDER_BLIND, &reorders, 0));
    assert_true(ceiling_applies(CEILING_ORDER_BLIND, reverse, 0));
    assert_false(ceiling_applies(CEILING_ORDER_BLIND, reverse, 1));          /* a mask tells places apart */
    assert_true(ceiling_applies(CEILING_MAJORITY, &none, 1));
}

static void same_again(void **unused)
{
    (void)unused;
    assert_near(ceiling_of("shift", 3, 4), ceiling_of("shift", 3, 4), 0, "a second time", 4);
}

static int unsolvable(const void *self, int len, struct lab_example *e) { return (void)self, (void)len, (void)e, -1; }
static int too_large(const void *self, int len, struct lab_example *e) { return (void)self, e->target[len - 1] = 10, 0; }
static int scores_nothing(const void *self, int len, struct lab_example *e)
{
    for (int t = 0; t < len; t++) e->target[t] = -1;
    return (void)self, 0;
}
static int samples_nothing(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    for (int t = 0; t < len; t++) e->in[t] = t % 10;
    return (void)seed, (void)split, (void)n, (void)err, scores_nothing(self, len, e);
}
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
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 0, &c, &err), -1);
    assert_string_equal(err.msg, "task reverse takes lengths 1 to 100000, not 0");
    task.solve = unsolvable;
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "cannot solve"));
    task.solve = too_large;
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "target 10 is outside [0,10)"));
    task.solve = scores_nothing;                                 /* and no search without an end */
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "scores no token in 256 examples of length 8"));
    task.sample = samples_nothing;
    assert_int_equal(ceiling_compute(CEILING_MAJORITY, &task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "scores no token in 256 examples of length 8"));
    task.tape = empty_tape;
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "a tape of 0 tokens"));
    task.flags = 0;
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, &task, &self, &info, 8, &c, &err), -1);
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
    assert_int_equal(ceiling_compute(CEILING_ORDER_BLIND, task, &self, &info, 8, &c, &err), -1);
    assert_non_null(strstr(err.msg, "out of memory"));
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(enumeration_of_all_inputs), cmocka_unit_test(the_facts), cmocka_unit_test(the_token_alone_is_enough),
        cmocka_unit_test(the_middle_of_an_odd_length),
        cmocka_unit_test(reordered_tasks), cmocka_unit_test(majorities), cmocka_unit_test(what_applies_to_what), cmocka_unit_test(same_again), cmocka_unit_test(refusals),
        cmocka_unit_test(out_of_memory) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
