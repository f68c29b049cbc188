/* test_field -- what the field's encoders must have in common with each other: at their neutral values they are `none`, or the
 * encoder that they extend, and their biases follow published numbers.  Gradients and PyTorch's values are tested elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "assert_near.h"
#include "tiny_model.h"

enum { B = 2, T = 9, D = 8, HEADS = 2, VOCAB = 5, N = B * T * VOCAB };
static const double same = sizeof(lab_real) == sizeof(double) ? 1e-11 : 2e-5;

struct kind { const char *name, *option[TINY_OPTIONS]; };

/* Logits of a model with equal shared weights; parameters of the encoder whose name starts with `put` become `value`. */
static void logits_at(const int32_t *pos, const struct kind *kind, int causal, const char *put, double value, double *out)
{
    int32_t token[B * T];
    struct tiny tiny;
    struct tiny_spec spec = { .encoder = kind->name, .model = { .d_model = D, .heads = HEADS, .layers = 2, .d_ff = 12, .causal = causal },
                              .vocab_in = VOCAB, .vocab_out = VOCAB, .B = B, .T = T, .max_pos = 33, .seed = 3 };
    memcpy(spec.option, kind->option, sizeof spec.option);
    tiny_open(&tiny, &spec);
    for (int i = 0; i < B * T; i++) token[i] = (i * i + i / 4) % VOCAB;
    for (int i = 0; i < tiny.model.n_param; i++) {
        struct model_param *p = &tiny.model.param[i];
        if (put && !strncmp(p->name, put, strlen(put)))
            for (size_t k = 0; k < p->size; k++) p->value[k] = (lab_real)value;
    }
    const struct model_batch batch = { .B = B, .T = T, .token = token, .target = token, .pos = pos };
    model_forward(&tiny.model, &batch, 0, 0);
    for (int i = 0; i < N; i++) out[i] = (double)tiny.model.logits[i];
    tiny_close(&tiny);
}

static void logits_of(const struct kind *kind, int causal, const char *put, double value, double *out)
{
    static const int32_t gaps[T] = { 0, 1, 2, 3, 7, 8, 30, 31, 32 };
    logits_at(gaps, kind, causal, put, value, out);
}

static void neutral_values_leave_the_plainer_encoder(void **state)
{
    (void)state;
    static const struct { struct kind kind; const char *put; double value; int causal; struct kind plain; } pair[] = {
        { { "alibi", { "learned=yes" } }, "encoder.slope", 0, 0, { "none", { NULL } } },
        { { "alibi", { "learned=yes", "side=offset" } }, "encoder.slope", 0, 1, { "none", { NULL } } },
        { { "shaw", { NULL } }, "encoder.", 0, 0, { "none", { NULL } } },
        { { "shaw", { "values=no" } }, "encoder.", 0, 1, { "none", { NULL } } },
        { { "transformer_xl", { NULL } }, "encoder.", 0, 0, { "none", { NULL } } },
        { { "swin", { NULL } }, "encoder.", 0, 0, { "none", { NULL } } },
        { { "swin", { NULL } }, "encoder.", 3, 0, { "none", { NULL } } },              /* a constant: softmax ignores it */
        { { "fire", { NULL } }, "encoder.weight2", 0, 0, { "none", { NULL } } },
        { { "cope", { NULL } }, NULL, 0, 1, { "none", { NULL } } },                    /* its table starts at zero */
        { { "fourier", { NULL } }, "encoder.scale", 0, 0, { "none", { NULL } } },
        { { "fourier", { NULL } }, NULL, 0, 0, { "sinusoidal", { NULL } } },
        { { "fourier", { "speeds=no", "scaled=no" } }, NULL, 0, 1, { "sinusoidal", { NULL } } },
        { { "xpos", { "decay=1e9", "gamma=1000" } }, NULL, 0, 1, { "rope", { NULL } } },
        { { "rope", { "scaling=linear", "factor=1" } }, NULL, 0, 0, { "rope", { NULL } } },
        { { "rope", { "scaling=ntk", "factor=1" } }, NULL, 0, 0, { "rope", { NULL } } },
        { { "rope", { "scaling=ntk_dynamic", "factor=4", "original=33" } }, NULL, 0, 0, { "rope", { NULL } } },   /* no longer */
        { { "rope", { "scaling=yarn", "factor=1" } }, NULL, 0, 1, { "rope", { NULL } } },
        { { "alibi", { "learned=yes" } }, NULL, 0, 1, { "alibi", { NULL } } },         /* learned slopes start at the published ones */
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        double plain[N], got[N], largest = 0;
        char what[128];
        logits_of(&pair[i].plain, pair[i].causal, NULL, 0, plain);
        logits_of(&pair[i].kind, pair[i].causal, pair[i].put, pair[i].value, got);
        for (int k = 0; k < N; k++) largest = fmax(largest, fabs(got[k] - plain[k]));
        snprintf(what, sizeof what, "row %zu: %s against %s, largest difference", i, pair[i].kind.name, pair[i].plain.name);
        assert_near_one(what, largest, 0, same);
    }
}

/* Gates that see nothing keep the same share at every token, half at b = 0: alibi's penalty of the distance, with slope ln 2. */
static void forget_with_constant_gates_is_alibi(void **state)
{
    (void)state;
    static const int32_t pos[T] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    double forget[N], alibi[N];
    logits_at(pos, &(struct kind){ "forget", { NULL } }, 1, "encoder.weight", 0, forget);
    logits_at(pos, &(struct kind){ "alibi", { "learned=yes" } }, 1, "encoder.slope", 0.69314718055994531, alibi);
    for (int i = 0; i < N; i++) assert_near_one("logit", forget[i], alibi[i], same);
}

/* That the comparison above can fail: the same encoders away from their neutral values. */
static void other_values_make_a_difference(void **state)
{
    (void)state;
    static const struct { struct kind kind; int causal; struct kind plain; } pair[] = {
        { { "alibi", { NULL } }, 0, { "none", { NULL } } }, { { "alibi", { "side=offset" } }, 0, { "alibi", { NULL } } },
        { { "alibi", { "side=split" } }, 0, { "alibi", { NULL } } }, { { "shaw", { NULL } }, 0, { "none", { NULL } } },
        { { "shaw", { "values=no" } }, 0, { "shaw", { NULL } } }, { { "shaw", { "clip=1" } }, 0, { "shaw", { NULL } } },
        { { "transformer_xl", { NULL } }, 0, { "none", { NULL } } }, { { "swin", { NULL } }, 0, { "none", { NULL } } },
        { { "kerple", { NULL } }, 0, { "none", { NULL } } }, { { "kerple", { "form=power" } }, 0, { "kerple", { NULL } } },
        { { "fire", { NULL } }, 0, { "none", { NULL } } }, { { "fire", { "length=2" } }, 0, { "fire", { NULL } } },
        { { "sandwich", { NULL } }, 0, { "none", { NULL } } }, { { "xpos", { NULL } }, 1, { "rope", { NULL } } },
        { { "rope", { "scaling=linear", "factor=2" } }, 0, { "rope", { NULL } } },
        { { "rope", { "scaling=ntk", "factor=2" } }, 0, { "rope", { NULL } } },
        { { "rope", { "scaling=ntk_dynamic", "factor=2", "original=9" } }, 0, { "rope", { NULL } } },
        { { "rope", { "scaling=yarn", "factor=2" } }, 0, { "rope", { NULL } } },
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        double plain[N], got[N], largest = 0;
        logits_of(&pair[i].plain, pair[i].causal, NULL, 0, plain);
        logits_of(&pair[i].kind, pair[i].causal, NULL, 0, got);
        for (int k = 0; k < N; k++) largest = fmax(largest, fabs(got[k] - plain[k]));
        if (largest < 1e-4) fail_msg("row %zu: %s gives what %s gives", i, pair[i].kind.name, pair[i].plain.name);
    }
}

/* ---- biases by their published numbers ---- */

/* b [heads,tq,tk] of an encoder without parameters. */
static void bias_of(const struct kind *kind, int heads, int causal, const int32_t *pos_q, int tq, const int32_t *pos_k, int tk, lab_real *b)
{
    struct lab_err err;
    const struct lab_encoder *e = tiny_encoder(kind->name);
    struct lab_dims dims = { .size = sizeof dims, .n_layer = 1, .n_head = heads, .d_model = 8 * heads, .d_head = 8, .train_len = 8,
                             .max_len = 64, .max_pos = 64, .causal = causal };
    void *self = calloc(1, e->self_size);
    assert_int_equal(option_defaults(e->options, self, NULL, &err), 0);
    for (int i = 0; i < TINY_OPTIONS && kind->option[i]; i++) {
        const char *equals = strchr(kind->option[i], '=');
        char key[32];
        snprintf(key, sizeof key, "%.*s", (int)(equals - kind->option[i]), kind->option[i]);
        tiny_option(e, self, key, equals + 1);
    }
    if (e->init && e->init(self, &dims, &err)) fail_msg("%s", err.msg);
    const struct lab_call c = { .size = sizeof c, .B = 1, .H = heads, .Tq = tq, .Tk = tk, .dh = 8, .d = 8 * heads, .pos_q = pos_q, .pos_k = pos_k };
    memset(b, 0, (size_t)heads * tq * tk * sizeof *b);
    e->bias(self, &c, b);
    if (e->fini) e->fini(self);
    free(self);
}

/* Whatever training makes of kerple's two numbers, they stay in the authors' range: scale and rate at least 0.01, the power at
 * most 2, too, and so the bias falls with the distance; it starts inside. */
static void kerple_stays_in_its_range(void **state)
{
    (void)state;
    static const double raw[] = { -7, -2.5, -1.99, 0, 1.99, 2.5, 7 };
    static const int32_t pos[4] = { 0, 1, 2, 30 };
    const struct lab_encoder *e = tiny_encoder("kerple");
    struct lab_dims dims = { .size = sizeof dims, .n_layer = 1, .n_head = 1, .d_model = 8, .d_head = 8, .max_len = 64, .max_pos = 64 };
    for (int form = 0; form < 2; form++)
        for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
            lab_real number[2] = { (lab_real)raw[i], (lab_real)raw[i] }, b[16] = { 0 };
            const lab_real *p[2] = { &number[0], &number[1] };
            void *self = calloc(1, e->self_size);
            struct lab_err err;
            struct lab_param param;
            assert_int_equal(option_defaults(e->options, self, NULL, &err), 0);
            tiny_option(e, self, "form", form ? "power" : "log");
            assert_int_equal(e->init(self, &dims, &err), 0);
            struct lab_call c = { .size = sizeof c, .B = 1, .H = 1, .Tq = 4, .Tk = 4, .dh = 8, .d = 8, .pos_q = pos, .pos_k = pos, .p = p };
            c.scratch = malloc(e->scratch_size(self, &c, LAB_H_BIAS));
            e->bias(self, &c, b);
            double near = -(double)b[1], far = -(double)b[2], farther = -(double)b[3];
            assert_near_one("at distance 0", (double)b[0], 0, 0);
            assert_true(near > (form ? 0.0099 : 0.01 * log(1.0099)) && far > near && farther > far && isfinite(farther));
            if (form) assert_true(log2(far / near) > 0.0099 && log2(far / near) < 2.0001);
            for (int n = 0; e->param(self, &dims, n, &param); n++)
                assert_true(param.init == LAB_INIT_UNIFORM && param.a >= 0 && param.b <= 2 - 0.01 + 1e-9);
            free(c.scratch), free(self);
        }
}

/* Slopes of the paper for 4 and 8 heads, and of its code in between. */
static void alibi_slopes_are_the_published_ones(void **state)
{
    (void)state;
    static const struct { int heads; double slope[12]; } known[] = {
        { 1, { 0.00390625 } }, { 4, { .25, .0625, .015625, .00390625 } }, { 6, { .25, .0625, .015625, .00390625, .5, .125 } },
        { 8, { .5, .25, .125, .0625, .03125, .015625, .0078125, .00390625 } },
        { 12, { .5, .25, .125, .0625, .03125, .015625, .0078125, .00390625, .70710678118654752, .35355339059327376, .17677669529663688,
                .08838834764831844 } } };
    const int32_t query[1] = { 10 }, key[3] = { 10, 9, 7 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int h = 0; h < known[i].heads; h++) {
            lab_real b[12 * 3];
            bias_of(&(struct kind){ "alibi", { NULL } }, known[i].heads, 1, query, 1, key, 3, b);
            for (int j = 0; j < 3; j++) assert_near_one("bias", (double)b[h * 3 + j], -known[i].slope[h] * (10 - key[j]), 3e-7);
        }
}

static void causal_alibi_is_a_ramp_over_keys_up_to_a_shift_of_rows(void **state)
{
    (void)state;
    const int32_t pos[6] = { 0, 1, 4, 9, 10, 30 };
    lab_real b[4 * 36];
    bias_of(&(struct kind){ "alibi", { NULL } }, 4, 1, pos, 6, pos, 6, b);
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j <= i; j++) {
                double slope = exp2(-2.0 * (h + 1)), shift = (double)b[(h * 6 + i) * 6] - slope * pos[0];
                assert_near_one("bias less its row's shift", (double)b[(h * 6 + i) * 6 + j] - shift, slope * pos[j], 1e-5);
            }
}

static void alibi_sides(void **state)
{
    (void)state;
    const int32_t query[1] = { 10 }, key[3] = { 8, 10, 12 };           /* left, here, right */
    lab_real b[4 * 3];
    bias_of(&(struct kind){ "alibi", { "side=offset" } }, 4, 0, query, 1, key, 3, b);
    assert_near_one("left", (double)b[0], -.25 * 1.5, 1e-7);            /* DM: the published bias plus half a slope */
    assert_near_one("here", (double)b[1], 0, 1e-7);
    assert_near_one("right", (double)b[2], -.25 * 2, 1e-7);
    bias_of(&(struct kind){ "alibi", { "side=split" } }, 4, 0, query, 1, key, 3, b);
    for (int h = 0; h < 4; h++) {
        double slope = h < 2 ? 0.0625 : 0.00390625;                    /* of two heads a side: 2^-4, 2^-8 */
        assert_near_one("own side", (double)b[h * 3 + (h % 2 ? 2 : 0)], -slope * 2, 1e-7);
        assert_true((double)b[h * 3 + (h % 2 ? 0 : 2)] < -1e8);
        assert_near_one("here", (double)b[h * 3 + 1], 0, 1e-7);
    }
}

/* At distance 0 every cosine is 1; at distance 1 with four dimensions they are cos 0.01 and cos 0.0001; head h of 8 is divided by h. */
static void sandwich_is_a_sum_of_cosines(void **state)
{
    (void)state;
    const int32_t query[1] = { 20 }, key[3] = { 20, 19, 21 };
    const double one = 0.99995000041666526 + 0.99999999500000003;
    lab_real b[8 * 3];
    bias_of(&(struct kind){ "sandwich", { "dims=4" } }, 8, 0, query, 1, key, 3, b);
    for (int h = 1; h <= 8; h++) {
        assert_near_one("distance 0", (double)b[(h - 1) * 3], 2.0 / h, 3e-7);
        assert_near_one("distance 1", (double)b[(h - 1) * 3 + 1], one / h, 3e-7);
        assert_near_one("distance -1", (double)b[(h - 1) * 3 + 2], one / h, 3e-7);
    }
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(neutral_values_leave_the_plainer_encoder), cmocka_unit_test(other_values_make_a_difference),
        cmocka_unit_test(forget_with_constant_gates_is_alibi),
        cmocka_unit_test(kerple_stays_in_its_range), cmocka_unit_test(alibi_slopes_are_the_published_ones), cmocka_unit_test(causal_alibi_is_a_ramp_over_keys_up_to_a_shift_of_rows),
        cmocka_unit_test(alibi_sides), cmocka_unit_test(sandwich_is_a_sum_of_cosines) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
