/* test_step -- a whole training step at the sizes that people train: every kernel path against every other.
 *
 * The tiny models of test_golden and test_gradients say that the mathematics is right; here the paths for wide
 * vectors, packed panels and chunks of sequences, which only larger sizes take, must give the same gradient.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "assert_near.h"
#include "base/rng.h"
#include "nn/kern.h"
#include "tiny_model.h"

struct shape { const char *name; int d, heads, d_ff, layers, B, T, norm, norm_type, activation, causal, padded; double dropout; };
static const struct shape shapes[] = {
    { "seed",    64, 4, 256, 2, 64,  8, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_RELU,   0, 0, 0 },
    { "dm",      64, 8, 256, 2, 20, 40, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_RELU,   0, 0, 0 },
    { "wide",   256, 8, 512, 1, 12, 64, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, 1, 0, 0 },
    { "tiles",   64, 4, 128, 1,  3, 150, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_GELU,   1, 0, 0 },
    { "odd",     36, 3,  50, 2, 17, 21, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   0, 1, 0 },
    { "relu",   128, 4, 192, 2,  9, 19, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_RELU,   1, 1, 0 },        /* two blocks of columns, three of places */
    { "dropped", 64, 4, 128, 1, 13, 24, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_RELU,   0, 0, 0.25 },
    { "dropout", 128, 4, 96, 1, 11, 33, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   0, 0, 0.25 },
};
static const char *const encoders[] = { "none", "learned", "t5", "rope", "every_hook" };
enum { VOCAB_IN = 11, VOCAB_OUT = 10, MOST = 2048 };
static const double limit = sizeof(lab_real) == 4 ? 2e-4 : 1e-11;

struct batch { int32_t token[MOST], target[MOST], pos[256]; uint8_t key_ok[MOST]; struct model_batch b; };

static void make_batch(struct batch *x, const struct shape *s)
{
    struct lab_rng r = lab_rng_at(7, 1, 2, 3);
    for (int i = 0; i < s->B * s->T; i++) {
        x->token[i] = (int32_t)lab_rng_below(&r, VOCAB_IN);
        x->key_ok[i] = !(s->padded && i % s->T >= s->T - 1 - i / s->T % 4);
        x->target[i] = x->key_ok[i] && i % 5 ? (int32_t)lab_rng_below(&r, VOCAB_OUT) : -1;
    }
    for (int t = 0; t < s->T; t++) x->pos[t] = t;
    x->b = (struct model_batch){ .B = s->B, .T = s->T, .token = x->token, .target = x->target, .pos = x->pos,
                                 .key_ok = s->padded ? x->key_ok : NULL };
}

static void start(struct tiny *tiny, const struct shape *s, const char *encoder)
{
    struct tiny_spec spec = { .encoder = encoder, .vocab_in = VOCAB_IN, .vocab_out = VOCAB_OUT, .B = s->B, .T = s->T, .max_pos = 256, .seed = 5,
                              .model = { .d_model = s->d, .heads = s->heads, .layers = s->layers, .d_ff = s->d_ff, .norm = s->norm,
                                         .norm_type = s->norm_type, .activation = s->activation, .causal = s->causal, .dropout = s->dropout } };
    if (!strcmp(encoder, "learned")) spec.option[0] = "max_len=256";
    tiny_open(tiny, &spec);
}

/* The gradient of all parameters, one after another, times `share`, added to out; returns the loss. */
static double add_gradient(double *out, struct model *m, const struct model_batch *b, double share)
{
    double loss = model_step(m, b, 3);
    for (int i = 0; i < m->n_param; i++)
        for (size_t k = 0; m->param[i].grad && k < m->param[i].size; k++) *out++ += share * (double)m->param[i].grad[k];
    return loss;
}

static void compare(const struct model *m, const char *what, const double *got, const double *expected)
{
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];
        double most = 0, worst = 0;
        for (size_t k = 0; p->grad && k < p->size; k++, got++, expected++) {
            most = fmax(most, fabs(*expected));
            worst = fmax(worst, fabs(*got - *expected));
        }
        if (!(worst <= limit * fmax(most, 1e-3))) fail_msg("%s: gradient of %s is off by %g, its largest is %g", what, p->name, worst, most);
    }
}

static double *room(const struct model *m)
{
    double *x = calloc(m->trained, sizeof *x);
    assert_non_null(x);
    return x;
}

static void one_gradient_on_every_path(void **state)
{
    const struct shape *s = *state;
    static struct batch x;
    make_batch(&x, s);
    for (size_t e = 0; e < sizeof encoders / sizeof *encoders; e++) {
        double *expected = NULL, loss = 0;
        for (const struct kern *const *k = kern_all(); *k; k++)
            for (int blas = 0; blas < 2; blas++) {
                struct tiny tiny;
                char what[128];
                setenv("LAB_SIMD", (*k)->isa, 1);
                if (blas) setenv("LAB_GEMM", "openblas", 1);
                else unsetenv("LAB_GEMM");
                start(&tiny, s, encoders[e]);
                double *got = room(&tiny.model), l = add_gradient(got, &tiny.model, &x.b, 1);
                snprintf(what, sizeof what, "%s %s, %s%s against %s", s->name, encoders[e], (*k)->isa, blas ? " openblas" : "", kern_all()[0]->isa);
                if (!expected) expected = got, loss = l;
                else {
                    compare(&tiny.model, what, got, expected);
                    if (fabs(l - loss) > limit) fail_msg("%s: loss %.9g, expected %.9g", what, l, loss);
                    free(got);
                }
                tiny_close(&tiny);
            }
        free(expected);
    }
    unsetenv("LAB_SIMD");
    unsetenv("LAB_GEMM");
}

/* A step over chunks is the mean over its sequences, each weighing what it scores. */
static void a_step_is_the_sum_of_its_sequences(void **state)
{
    const struct shape *s = *state;
    static struct batch x;
    make_batch(&x, s);
    double scored = 0;
    for (int i = 0; i < s->B * s->T; i++) scored += x.target[i] >= 0;
    for (size_t e = 0; e < sizeof encoders / sizeof *encoders; e++) {
        struct tiny tiny;
        char what[96];
        snprintf(what, sizeof what, "%s %s by sequence", s->name, encoders[e]);
        start(&tiny, s, encoders[e]);
        double *whole = room(&tiny.model), *sum = room(&tiny.model);
        add_gradient(whole, &tiny.model, &x.b, 1);
        for (int b = 0; b < s->B; b++) {
            struct model_batch one = x.b;
            double here = 0;
            one.B = 1, one.first = b, one.token += b * s->T, one.target += b * s->T;
            if (one.key_ok) one.key_ok += b * s->T;
            for (int t = 0; t < s->T; t++) here += one.target[t] >= 0;
            add_gradient(sum, &tiny.model, &one, here / scored);
        }
        compare(&tiny.model, what, whole, sum);
        free(whole);
        free(sum);
        tiny_close(&tiny);
    }
}

/* exp(x) of each kernel, as the quotient of a softmax over 0 and x: to the last bits, 0 where it is next to nothing, and nan stays nan. */
static void exponentials_are_right_to_the_last_bits(void **state)
{
    enum { N = 200000 };
    const double most = sizeof(lab_real) == 4 ? 3e-7 : 2e-15;
    static lab_real row[64];
    (void)state;
    for (const struct kern *const *k = kern_all(); *k; k++) {
        for (int i = 0; i <= N; i++) {
            lab_real x = (lab_real)(-86.9 * i / N);
            row[0] = 0, row[1] = x;
            (*k)->softmax_rows(row, 1, 2, 64);
            double got = (double)row[1] / (double)row[0], expected = exp((double)x);
            if (!(fabs(got / expected - 1) <= most)) fail_msg("%s: exp(%.9g) is %.9g, expected %.9g", (*k)->isa, (double)x, got, expected);
        }
        static const lab_real nothing[] = { -87, -1000, (lab_real)-1e30, -INFINITY };
        for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
            row[0] = 0, row[1] = nothing[i];
            (*k)->softmax_rows(row, 1, 2, 64);
            assert_true(row[0] == 1 && row[1] == 0);
        }
        row[0] = 0, row[1] = NAN;
        (*k)->softmax_rows(row, 1, 2, 64);
        assert_true(isnan(row[1]));
    }
}

int main(void)
{
    enum { N = sizeof shapes / sizeof *shapes };
    struct CMUnitTest test[2 * N + 1] = { [2 * N] = cmocka_unit_test(exponentials_are_right_to_the_last_bits) };
    for (int i = 0; i < N; i++) {
        test[2 * i] = (struct CMUnitTest){ "one gradient on every path", one_gradient_on_every_path, NULL, NULL, (void *)&shapes[i] };
        test[2 * i + 1] = (struct CMUnitTest){ "a step is the sum of its sequences", a_step_is_the_sum_of_its_sequences, NULL, NULL, (void *)&shapes[i] };
    }
    return _cmocka_run_group_tests("step", test, 2 * N + 1, NULL, NULL);
}
