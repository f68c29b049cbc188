/* test_golden -- the whole model against PyTorch: logits, loss, gradients and ten steps of AdamW.
 *
 * One test for each file in tests/golden, made by make_golden.py there.  In float they agree to 1e-5, in double to 1e-10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glob.h>
#include "assert_near.h"
#include "golden.h"
#include "tiny_model.h"
#include "exp/config.h"
#include "nn/optim.h"

#define FOLDER "tests/golden/"
static const double tolerance = sizeof(lab_real) == sizeof(double) ? 1e-10 : 1e-5;

static const char *const model_keys[] = { "heads", "causal", "norm", "norm_type", "activation", "tied", "embed_scale" };
static const struct lab_option optim_rows[] = {
    LAB_ENUM(struct optim_options, schedule, "constant", "constant|cosine", ""),
    LAB_INT(struct optim_options, warmup, "0", 0, 1000, ""),
    LAB_OPTIONS_END
};

/* A setting of the file, `PREFIX.KEY : word`, as an experiment file would have it. */
static void read_setting(const struct golden *g, const char *prefix, const struct lab_option *table, const char *key, void *into)
{
    struct lab_err err;
    if (option_set(option_find(table, key), into, golden_get(g, prefix, key)->text, &err)) fail_msg("%s%s: %s", prefix, key, err.msg);
}

/* A line of whole numbers, as the batch wants them; NULL if the file has none. */
static int32_t *read_integers(const struct golden *g, const char *name)
{
    const struct golden_line *line = golden_find(g, "", name);
    if (!line) return NULL;
    int32_t *out = calloc(line->n, sizeof *out);
    for (size_t i = 0; i < line->n; i++) out[i] = (int32_t)line->value[i];
    return out;
}

struct data { int32_t *token, *target, *pos; uint8_t *key_ok; float *weight; struct model_batch batch; };

static void read_data(struct data *data, const struct golden *start, const struct golden *g)
{
    const struct golden *holder = golden_find(g, "", "token") ? g : start;
    const struct golden_line *token = golden_get(holder, "", "token"), *pos = golden_get(g, "", "pos");
    const struct golden_line *key_ok = golden_find(g, "", "key_ok"), *weight = golden_find(g, "", "weight");
    *data = (struct data){ .token = read_integers(holder, "token"), .target = read_integers(g, "target"), .pos = read_integers(g, "pos") };
    if (key_ok) {
        data->key_ok = calloc(key_ok->n, 1);
        for (size_t i = 0; i < key_ok->n; i++) data->key_ok[i] = key_ok->value[i] != 0;
    }
    if (weight) {
        data->weight = calloc(weight->n, sizeof *data->weight);
        for (size_t i = 0; i < weight->n; i++) data->weight[i] = (float)weight->value[i];
    }
    data->batch = (struct model_batch){ .B = token->dim[0], .T = token->dim[1], .token = data->token, .target = data->target,
                                        .weight = data->weight, .pos = data->pos, .key_ok = data->key_ok,
                                        .pos_stride = pos->ndim == 2 ? token->dim[1] : 0 };
}

static void free_data(struct data *data)
{
    free(data->token), free(data->target), free(data->pos), free(data->key_ok), free(data->weight);
}

static void copy_weights(struct model *model, const struct golden *start, const struct golden *g)
{
    for (int i = 0; i < model->n_param; i++) {
        struct model_param *p = &model->param[i];
        const struct golden_line *own = golden_find(g, "start.", p->name), *line = own ? own : golden_get(start, "", p->name);
        assert_int_equal(p->ndim, line->ndim);
        for (int k = 0; k < p->ndim; k++) assert_int_equal(p->dim[k], line->dim[k]);
        assert_int_equal(p->size, line->n);
        for (size_t k = 0; k < p->size; k++) p->value[k] = (lab_real)line->value[k];
        /* The rule that make_golden.py follows: matrices and embeddings decay; biases, the encoders' too, and norms do not. */
        assert_int_equal(p->decay, p->ndim >= 2 && strncmp(p->name, "encoder.bias", strlen("encoder.bias")));
    }
}

static void compare(const char *name, const lab_real *got, const struct golden_line *line, double scale)
{
    assert_near(name, got, line->stride, line->value, line->n, tolerance * scale);
}

static double largest_of(const struct golden_line *line)
{
    double largest = 0;
    for (size_t k = 0; k < line->n; k++) largest = fmax(largest, fabs(line->value[k]));
    return largest;
}

/* Each tensor's gradient to the tolerance of its largest number, or of a tenth of the largest of all where it is smaller: it is a
 * sum of numbers of that size, and zero for a bias that all keys share. */
static void compare_gradients(struct model *model, const struct golden *g)
{
    int expected = 0;
    double top = 0;
    for (size_t i = 0; i < g->n; i++)
        if (!strncmp(g->line[i].name, "grad.", 5)) expected++, top = fmax(top, largest_of(&g->line[i]));
    assert_int_equal(model->n_param, expected);
    for (int i = 0; i < model->n_param; i++) {
        struct model_param *p = &model->param[i];
        const struct golden_line *line = golden_get(g, "grad.", p->name);
        compare(line->name, p->grad, line, fmax(largest_of(line), top / 10));
    }
}

/* Softmax ignores what all keys share, so the bias of a key that is not turned has gradient zero but for rounding, which Adam turns
 * into steps: those biases say nothing, and are put to their exact value before the comparison. */
static void settle_idle_bias(struct model *model, const struct golden *start, const struct golden *g)
{
    size_t d = (size_t)model->setup.options.d_model, head = d / (size_t)model->setup.options.heads;
    const struct golden_line *fraction = golden_find(g, "option.", "fraction");
    const char *encoder = golden_get(g, "", "encoder")->text;
    size_t turned = fraction ? (size_t)(strtod(fraction->text, NULL) * (double)head) : 0;
    if (!strcmp(encoder, "xpos") || !strcmp(encoder, "cope") || !strcmp(encoder, "forget")) turned = head;     /* whose gates see all of a key */
    for (int i = 0; i < model->n_param; i++) {
        struct model_param *p = &model->param[i];
        if (strstr(p->name, "in_proj_bias"))
            for (size_t k = d; k < 2 * d; k++)
                if (k % head >= turned) p->value[k] = (lab_real)golden_get(start, "", p->name)->value[k];
        if (strstr(p->name, "encoder.bias2"))                                        /* fire's last bias: likewise the same for all keys */
            for (size_t k = 0; k < p->size; k++) p->value[k] = (lab_real)golden_get(g, "start.", p->name)->value[k];
    }
}

static void train(struct model *model, const struct model_batch *batch, const struct optim_options *optim, const struct golden *g)
{
    const struct golden_line *losses = golden_get(g, "", "losses"), *norms = golden_get(g, "", "norms");
    for (size_t step = 0; step <= norms->n; step++) {
        char what[64];
        snprintf(what, sizeof what, "loss after %zu steps", step);
        assert_near_one(what, model_step(model, batch, (uint32_t)step), losses->value[step], tolerance * fmax(1, losses->value[step]));
        if (step == norms->n) break;
        snprintf(what, sizeof what, "norm of gradient %zu", step);
        assert_near_one(what, optim_step(model, optim, (int64_t)step), norms->value[step], 3 * tolerance * norms->value[step]);
    }
}

static void agrees_with_pytorch(void **state)
{
    struct golden start = { 0 }, g = { 0 };
    golden_read(&start, FOLDER "weights.txt");
    golden_read(&g, *state);
    const struct golden_line *embedding = golden_get(&start, "", "embedding.weight"), *logits = golden_get(&g, "", "logits");
    struct tiny_spec spec = { .encoder = golden_get(&g, "", "encoder")->text,
                              .model = { .d_model = embedding->dim[1], .heads = 2, .layers = 2,
                                         .d_ff = golden_get(&start, "", "layers.0.linear2.weight")->dim[1] },
                              .vocab_in = embedding->dim[0], .vocab_out = logits->dim[2],
                              .B = logits->dim[0], .T = logits->dim[1], .max_pos = 0, .seed = 1 };
    for (size_t i = 0; i < sizeof model_keys / sizeof *model_keys; i++)
        if (golden_find(&g, "model.", model_keys[i])) read_setting(&g, "model.", config_model_table, model_keys[i], &spec.model);
    char option[TINY_OPTIONS][64];
    int n_option = 0;
    for (size_t i = 0; i < g.n; i++)
        if (!strncmp(g.line[i].name, "option.", 7)) {
            snprintf(option[n_option], sizeof option[0], "%s=%s", g.line[i].name + 7, g.line[i].text);
            spec.option[n_option] = option[n_option];
            n_option++;
        }
    struct data data;
    read_data(&data, &start, &g);
    for (size_t i = 0; i < golden_get(&g, "", "pos")->n; i++) spec.max_pos = data.pos[i] >= spec.max_pos ? data.pos[i] + 1 : spec.max_pos;

    struct tiny tiny;
    tiny_open(&tiny, &spec);
    struct model *model = &tiny.model;
    copy_weights(model, &start, &g);
    double loss = golden_get(&g, "", "losses")->value[0];
    model_forward(model, &data.batch, 0, 0);
    compare("logits of inference", model->logits, logits, 1);
    assert_near_one("loss of inference", model_loss(model, &data.batch), loss, tolerance * fmax(1, loss));
    model_forward(model, &data.batch, 1, 0);
    compare("logits of training", model->logits, logits, 1);
    assert_near_one("loss", model_loss(model, &data.batch), loss, tolerance * fmax(1, loss));
    model_backward(model, &data.batch);
    compare_gradients(model, &g);

    struct optim_options optim = { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1, .steps = 10 };
    read_setting(&g, "optim.", optim_rows, "schedule", &optim);
    read_setting(&g, "optim.", optim_rows, "warmup", &optim);
    train(model, &data.batch, &optim, &g);
    settle_idle_bias(model, &start, &g);
    for (int i = 0; i < model->n_param; i++) {
        const struct golden_line *line = golden_get(&g, "end.", model->param[i].name);
        compare(line->name, model->param[i].value, line, 1);
    }
    tiny_close(&tiny);
    free_data(&data);
    golden_free(&g);
    golden_free(&start);
}

/* A folder that lost its files must not pass. */
static void every_core_case_is_there(void **state)
{
    (void)state;
    static const char *const encoders[] = { "none", "sinusoidal", "learned", "t5", "rope" };
    for (size_t i = 0; i < 10; i++) {
        char path[128];
        struct golden g = { 0 };
        snprintf(path, sizeof path, FOLDER "%s-%s.txt", encoders[i / 2], i % 2 ? "causal" : "bidirectional");
        golden_read(&g, path);
        assert_string_equal(golden_get(&g, "", "encoder")->text, encoders[i / 2]);
        assert_string_equal(golden_get(&g, "model.", "causal")->text, i % 2 ? "yes" : "no");
        golden_free(&g);
    }
}

int main(void)
{
    glob_t files;
    if (glob(FOLDER "*.txt", 0, NULL, &files)) files.gl_pathc = 0;
    struct CMUnitTest *tests = calloc(files.gl_pathc + 1, sizeof *tests);
    size_t n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_core_case_is_there);
    for (size_t i = 0; i < files.gl_pathc; i++)
        if (!strstr(files.gl_pathv[i], "weights.txt"))
            tests[n++] = (struct CMUnitTest){ .name = files.gl_pathv[i], .test_func = agrees_with_pytorch, .initial_state = files.gl_pathv[i] };
    int failed = _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
    free(tests);
    globfree(&files);
    return failed;
}
