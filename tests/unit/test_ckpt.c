/* test_ckpt -- weights on disk: what comes back, what is refused; and files for PyTorch to read.
 *
 * Leaves NAME.safetensors and NAME.json (tokens, positions, lab's logits) of each model in build/<flavour>/torch.
 * tests/golden/load_weights.py, run by hand, loads the first into nn.TransformerEncoder and must find the second.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "exp/ckpt.h"
#include "exp/config.h"

#define FOLDER TEST_BUILD "/torch"
enum { B = 2, T = 6 };

#define OVERRIDES 9
static const struct { const char *name, *override[OVERRIDES]; } models[] = {
    { "none",       { "run.encoder=none" } },
    { "sinusoidal", { "run.encoder=sinusoidal" } },
    { "learned",    { "run.encoder=learned" } },
    { "t5",         { "run.encoder=t5" } },
    { "rope",       { "run.encoder=rope" } },
    { "causal",     { "run.encoder=t5", "model.causal=yes", "model.norm=pre", "model.activation=gelu" } },
    { "modern",     { "run.encoder=rope", "model.causal=yes", "model.norm=pre", "model.norm_type=rmsnorm", "model.activation=swiglu",
                      "model.tied=yes", "model.embed_scale=one", "encoder.rope.pairs=half", "encoder.rope.fraction=0.5" } },
};
#define MODELS (sizeof models / sizeof *models)

/* ---- a run's configuration, its model, and what the model says ---- */

struct run { struct registry registry; struct conf conf; struct run_config config; struct model model; };

#define OK(call) do { struct lab_err err; if ((call) != 0) fail_msg("%s", err.msg); } while (0)

/* Weights start from `seed`, the configuration stays the same. */
static void open_run(struct run *run, size_t which, uint64_t seed)
{
    static const char base[] = "[run]\ntask = reverse\nseed = 0\n[model]\nd_model = 16\nheads = 2\nlayers = 2\nd_ff = 32\n[train]\nlength = 6\nbatch = 2\n";
    static const char *const tasks = TEST_BUILD "/plugins/tasks/reverse.so";
    char encoder[128];
    snprintf(encoder, sizeof encoder, TEST_BUILD "/plugins/encoders/%s.so", strchr(models[which].override[0], '=') + 1);
    struct model_setup setup;
    *run = (struct run){ 0 };
    OK(registry_load_files(&run->registry, (const char *const[]){ encoder, tasks }, 2, &err));
    OK(conf_read_text(&run->conf, "run.ini", base, strlen(base), &err));
    for (int i = 0; i < OVERRIDES && models[which].override[i]; i++) OK(conf_override(&run->conf, models[which].override[i], &err));
    OK(config_build(&run->config, run->conf.entry, run->conf.n, &run->registry, &err));
    config_model_setup(&run->config, &setup);
    setup.seed = seed;
    OK(model_init(&run->model, &setup, &err));
}

static void close_run(struct run *run)
{
    model_release(&run->model);
    config_free(&run->config);
    conf_free(&run->conf);
    registry_free(&run->registry);
}

static const int32_t token[B * T] = { 3, 1, 4, 1, 5, 9,  2, 6, 5, 3, 5, 8 }, pos[T] = { 0, 1, 2, 3, 4, 5 };

static const lab_real *logits_of(struct run *run)
{
    const struct model_batch batch = { .B = B, .T = T, .token = token, .pos = pos };
    model_forward(&run->model, &batch, 0, 0);
    return run->model.logits;
}

static void weights_path(char out[256], const char *name)
{
    mkdir(FOLDER, 0777);
    snprintf(out, 256, FOLDER "/%s.safetensors", name);
}

static void write_weights(struct run *run, const char *path)
{
    char sha256[HASH_HEX], found[HASH_HEX];
    int64_t bytes;
    struct stat st;
    OK(ckpt_write(path, &run->model, run->config.json, sha256, &bytes, &err));
    OK(hash_file(path, found, &err));
    assert_string_equal(sha256, found);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(bytes, st.st_size);
}

/* ---- what comes back ---- */

static void print_row(FILE *f, const char *key, const int32_t *x, int rows)
{
    fprintf(f, "\"%s\": [", key);
    for (int b = 0; b < rows; b++)
        for (int t = 0; t < T; t++) fprintf(f, "%s%d%s", t ? ", " : b ? ", [" : "[", x[b * T + t], t == T - 1 ? "]" : "");
    fprintf(f, "],\n ");
}

static void print_logits(const char *name, const lab_real *logits, int V)
{
    char path[256];
    snprintf(path, sizeof path, FOLDER "/%s.json", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{");
    print_row(f, "token", token, B);
    print_row(f, "pos", pos, 1);
    fprintf(f, "\"logits\": [");
    for (int i = 0; i < B * T * V; i++) fprintf(f, "%s%.17g", i ? ", " : "", (double)logits[i]);
    fprintf(f, "]}\n");
    assert_int_equal(fclose(f), 0);
}

static void weights_come_back_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        struct run written, read;
        char path[256];
        weights_path(path, models[i].name);
        open_run(&written, i, 1);
        open_run(&read, i, 2);
        size_t n = (size_t)B * T * written.model.setup.vocab_out * sizeof(lab_real);
        write_weights(&written, path);
        assert_memory_not_equal(logits_of(&written), logits_of(&read), n);
        OK(ckpt_read(path, &read.model, read.config.json, &err));
        assert_memory_equal(logits_of(&written), logits_of(&read), n);
        print_logits(models[i].name, logits_of(&written), written.model.setup.vocab_out);
        close_run(&written);
        close_run(&read);
    }
}

/* ---- what is refused ---- */

static void expect_refusal(struct run *run, const char *path, const char *config, const char *reason)
{
    struct lab_err err = { "" };
    assert_int_equal(ckpt_read(path, &run->model, config, &err), -1);
    if (!strstr(err.msg, reason)) fail_msg("refused with `%s`, expected `%s`", err.msg, reason);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    struct run run, other;
    struct stat st;
    char path[256];
    weights_path(path, "refused");
    open_run(&run, 0, 1);
    open_run(&other, 1, 1);
    unlink(path);
    expect_refusal(&run, path, run.config.json, "cannot be read");
    write_weights(&run, path);
    expect_refusal(&other, path, other.config.json, "does not hold the weights of this run");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    expect_refusal(&run, path, run.config.json, "ends inside head.bias");
    assert_int_equal(truncate(path, 4), 0);
    expect_refusal(&run, path, run.config.json, "does not hold the weights of this run");
    write_weights(&run, path);
    assert_int_equal(truncate(path, st.st_size + 1), 0);
    expect_refusal(&run, path, run.config.json, "has bytes after the last tensor");
    unlink(path);
    close_run(&run);
    close_run(&other);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct run run;
    struct lab_err err = { "" };
    char sha256[HASH_HEX];
    int64_t bytes;
    open_run(&run, 0, 1);
    assert_int_equal(ckpt_write(FOLDER "/no/such/w.safetensors", &run.model, run.config.json, sha256, &bytes, &err), -1);
    assert_non_null(strstr(err.msg, FOLDER "/no/such/w.safetensors"));
    assert_non_null(strstr(err.msg, "No such file"));
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_come_back_bit_for_bit),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
