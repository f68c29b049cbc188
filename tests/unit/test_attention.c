/* test_attention -- the attention weights that the engine shows: a distribution over the keys that may be seen, the same as
 * computed anew from the model's weights by the formulas of the papers, and nothing else changed by looking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "assert_near.h"
#include "tiny_model.h"
#include "base/rng.h"

enum { B = 2, H = 4, D = 32, DH = D / H, LAYERS = 2, VOCAB = 10, LONG = 70 };        /* LONG: more than one tile */

static int32_t token[B * LONG], in_order[LONG];
static const int32_t target[B * LONG];

static void open_with(struct tiny *tiny, const char *encoder, int T, int causal)
{
    struct lab_rng r = lab_rng_at(3, 1, 4, 1);
    for (int i = 0; i < B * LONG; i++) token[i] = (int32_t)lab_rng_below(&r, VOCAB), in_order[i % LONG] = i % LONG;
    tiny_open(tiny, &(struct tiny_spec){ .encoder = encoder, .model = { .d_model = D, .heads = H, .layers = LAYERS, .d_ff = 64, .causal = causal },
                                         .option = { strcmp(encoder, "learned") ? NULL : "max_len=70" },
                                         .vocab_in = VOCAB, .vocab_out = VOCAB, .B = B, .T = T, .seed = 5 });
    for (int i = 0; i < tiny->model.n_param; i++) {
        struct model_param *p = &tiny->model.param[i];
        for (size_t k = 0; k < p->size && p->encoder_index >= 0; k++) p->value[k] = (lab_real)(0.5 * rng_normal(&r));
    }
}

static struct model_batch batch_of(int T) { return (struct model_batch){ .B = B, .T = T, .token = token, .target = target, .pos = in_order }; }

/* ---- what holds for every encoder ---- */

static void check_rows(const char *what, const lab_real *weights, int T, int causal, const uint8_t *key_ok)
{
    for (int row = 0; row < LAYERS * B * H * T; row++) {
        const lab_real *w = weights + (size_t)row * T;
        double sum = 0;
        int i = row % T, b = row / T / H % B;
        for (int j = 0; j < T; j++) {
            int hidden = (causal && j > i) || (key_ok && !key_ok[b * T + j]);
            sum += (double)w[j];
            if (hidden ? w[j] != 0 : w[j] < -1e-6 || w[j] > 1 + 1e-6)
                fail_msg("%s, row %d: weight %d is %g%s", what, row, j, (double)w[j], hidden ? ", but that key is hidden" : "");
        }
        if (fabs(sum - 1) > 2e-5) fail_msg("%s, row %d: weights sum to %.7f", what, row, sum);
    }
}

static void each_query_shares_one_among_the_keys_it_may_see(void **state)
{
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "rope", "alibi", "t5", "shaw", "transformer_xl", "cope", "forget", "every_hook" };
    static const int length[] = { 1, 6, 8, 9, LONG };        /* below, at and above the size of a head */
    (void)state;
    for (size_t e = 0; e < sizeof encoder / sizeof *encoder; e++)
        for (size_t t = 0; t < sizeof length / sizeof *length; t++)
            for (int kind = 0; kind < 3; kind++) {           /* bidirectional, causal, bidirectional with padding */
                int T = length[t], causal = kind == 1 || !strcmp(encoder[e], "cope") || !strcmp(encoder[e], "forget");
                struct tiny tiny;
                uint8_t key_ok[B * LONG];
                for (int i = 0; i < B * T; i++) key_ok[i] = i % T == 0 || i % T < T - i / T - 1;
                open_with(&tiny, encoder[e], T, causal);
                lab_real *weights = calloc((size_t)LAYERS * B * H * T * T, sizeof *weights);
                struct model_batch batch = batch_of(T);
                if (kind == 2) batch.key_ok = key_ok;
                tiny.model.attention = weights;
                model_forward(&tiny.model, &batch, 0, 0);
                check_rows(encoder[e], weights, T, causal, kind == 2 ? key_ok : NULL);
                free(weights);
                tiny_close(&tiny);
            }
}

static void looking_changes_no_bit(void **state)
{
    static const char *const encoder[] = { "rope", "t5", "shaw" };
    (void)state;
    for (int e = 0; e < 3; e++) {
        struct tiny tiny;
        lab_real plain[B * 9 * VOCAB], weights[LAYERS * B * H * 9 * 9];
        struct model_batch batch = batch_of(9);
        open_with(&tiny, encoder[e], 9, 0);
        model_forward(&tiny.model, &batch, 0, 0);
        memcpy(plain, tiny.model.logits, sizeof plain);
        tiny.model.attention = weights;
        model_forward(&tiny.model, &batch, 0, 0);
        assert_memory_equal(plain, tiny.model.logits, sizeof plain);
        weights[0] = -7;
        model_forward(&tiny.model, &batch, 1, 0);            /* training leaves it alone */
        assert_true(weights[0] == -7);
        tiny_close(&tiny);
    }
}

/* ---- the first layer, computed anew ---- */

struct by_hand { const char *encoder; int causal; const struct model *model; };

static const lab_real *values_of(const struct model *m, const char *name)
{
    for (int i = 0; i < m->n_param; i++) if (!strcmp(m->param[i].name, name)) return m->param[i].value;
    fail_msg("no parameter %s", name);
    return NULL;
}

static double speed(int k, int d) { return pow(10000, -2.0 * k / d); }

/* One row of in_proj: query (part 0) or key (part 1) c of head h at position p. */
static double project(const struct by_hand *x, int tok, int p, int part, int h, int c)
{
    const lab_real *embedding = values_of(x->model, "embedding.weight"), *w = values_of(x->model, "layers.0.self_attn.in_proj_weight");
    const lab_real *bias = values_of(x->model, "layers.0.self_attn.in_proj_bias");
    int row = part * D + h * DH + c;
    double sum = (double)bias[row];
    for (int i = 0; i < D; i++) {
        double at = (double)embedding[tok * D + i] * sqrt(D);
        if (!strcmp(x->encoder, "sinusoidal")) at += i % 2 ? cos(p * speed(i / 2, D)) : sin(p * speed(i / 2, D));
        if (!strcmp(x->encoder, "learned")) at += (double)values_of(x->model, "encoder.table")[p * D + i];
        sum += (double)w[row * D + i] * at;
    }
    return sum;
}

static void vector(const struct by_hand *x, int tok, int p, int part, int h, double out[DH])
{
    for (int c = 0; c < DH; c++) out[c] = project(x, tok, p, part, h, c);
    for (int k = 0; k < DH / 2 && !strcmp(x->encoder, "rope"); k++) {
        double a = out[2 * k], b = out[2 * k + 1], angle = p * speed(k, DH);
        out[2 * k] = a * cos(angle) - b * sin(angle), out[2 * k + 1] = a * sin(angle) + b * cos(angle);
    }
}

static double added(const struct by_hand *x, int h, int ahead)               /* ahead: key - query, below 8 */
{
    if (!strcmp(x->encoder, "alibi")) return -pow(2, -8.0 * (h + 1) / H) * abs(ahead);
    if (strcmp(x->encoder, "t5")) return 0;
    int bucket = abs(ahead) + (ahead > 0 && !x->causal ? 16 : 0);            /* distances below 8 have a bucket each */
    return (double)values_of(x->model, "encoder.bias")[bucket * H + h];
}

static void weights_by_hand(const struct by_hand *x, int T, double *out)     /* [B,H,T,T] */
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < T; i++, out += T) {
                double q[DH], k[DH], sum = 0;
                vector(x, token[b * T + i], i, 0, h, q);
                for (int j = 0; j < T; j++) {
                    double s = 0;
                    vector(x, token[b * T + j], j, 1, h, k);
                    for (int c = 0; c < DH; c++) s += q[c] * k[c] / sqrt(DH);
                    out[j] = x->causal && j > i ? 0 : exp(s + added(x, h, j - i));
                    sum += out[j];
                }
                for (int j = 0; j < T; j++) out[j] /= sum;
            }
}

static void weights_are_those_of_the_formulas(void **state)
{
    enum { T = 7 };
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "rope", "alibi", "t5" };
    (void)state;
    for (size_t e = 0; e < sizeof encoder / sizeof *encoder; e++)
        for (int causal = 0; causal <= 1; causal++) {
            struct tiny tiny;
            lab_real weights[LAYERS * B * H * T * T];
            double expected[B * H * T * T];
            struct model_batch batch = batch_of(T);
            open_with(&tiny, encoder[e], T, causal);
            tiny.model.attention = weights;
            model_forward(&tiny.model, &batch, 0, 0);
            weights_by_hand(&(struct by_hand){ encoder[e], causal, &tiny.model }, T, expected);
            assert_near(encoder[e], weights, 1, expected, B * H * T * T, sizeof(lab_real) == 4 ? 2e-5 : 1e-9);
            tiny_close(&tiny);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_query_shares_one_among_the_keys_it_may_see),
        cmocka_unit_test(looking_changes_no_bit),
        cmocka_unit_test(weights_are_those_of_the_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
