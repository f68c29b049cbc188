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
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* ---- the file itself, by the description of the format at huggingface.co/docs/safetensors ---- */

static unsigned char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *bytes = calloc(1, 1 << 20);
    *n = fread(bytes, 1, 1 << 20, f);
    assert_true(*n > 0 && *n < 1 << 20);
    fclose(f);
    return bytes;
}

/* The bytes that the header gives to a tensor. */
static const unsigned char *tensor(const unsigned char *file, const struct model_param *p, size_t *n)
{
    char key[128], dtype[64], shape[64] = "";
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | file[i];
    assert_int_equal((8 + header) % 8, 0);
    char *json = strndup((const char *)file + 8, header);
    snprintf(key, sizeof key, "\"%s\":{", p->name);
    char *at = strstr(json, key), *offsets;
    if (!at) fail_msg("no %s in %s", p->name, json);
    snprintf(dtype, sizeof dtype, "\"dtype\":\"F%zu\"", 8 * sizeof(lab_real));
    for (int k = 0; k < p->ndim; k++) snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", k ? "," : "\"shape\":[", (int)p->dim[k]);
    *strchr(at + 1, '}') = '\0';
    assert_non_null(strstr(at, dtype));
    assert_non_null(strstr(at, shape));
    assert_non_null(offsets = strstr(at, "\"data_offsets\":["));
    unsigned long from, to;
    assert_int_equal(sscanf(offsets, "\"data_offsets\":[%lu,%lu]", &from, &to), 2);
    free(json);
    *n = to - from;
    return file + 8 + header + from;
}

static void each_tensor_lies_where_the_header_says(void **state)
{
    (void)state;
    struct run run;
    char path[256];
    size_t n, total = 0, bytes;
    weights_path(path, "format");
    open_run(&run, 6, 1);
    write_weights(&run, path);
    unsigned char *file = slurp(path, &n), *last = NULL;
    for (int i = 0; i < run.model.n_param; i++) {
        const struct model_param *p = &run.model.param[i];
        const unsigned char *at = tensor(file, p, &bytes);
        assert_int_equal(bytes, p->size * sizeof(lab_real));
        assert_memory_equal(at, p->value, bytes);
        if (last) assert_ptr_equal(at, last);                        /* no holes */
        last = (unsigned char *)at + bytes;
        total += bytes;
    }
    assert_ptr_equal(last, file + n);
    assert_true(total > 0);
    free(file);
    unlink(path);
    close_run(&run);
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

static void a_header_with_any_other_byte_is_refused(void **state)
{
    (void)state;
    struct run run;
    char path[256];
    size_t n, data;
    weights_path(path, "header");
    open_run(&run, 2, 1);
    write_weights(&run, path);
    unsigned char *file = slurp(path, &n);
    const unsigned char *first = tensor(file, &run.model.param[0], &data);
    for (size_t i = 0; i < (size_t)(first - file); i++) {
        FILE *f = fopen(path, "r+b");
        assert_int_equal(fseek(f, (long)i, SEEK_SET), 0);
        fputc(file[i] ^ 1, f);
        fclose(f);
        expect_refusal(&run, path, run.config.json, "does not hold the weights of this run");
        f = fopen(path, "r+b");
        assert_int_equal(fseek(f, (long)i, SEEK_SET), 0);
        fputc(file[i], f);
        fclose(f);
    }
    OK(ckpt_read(path, &run.model, run.config.json, &err));
    free(file);
    unlink(path);
    close_run(&run);
}

/* ---- whole or not at all ---- */

static int files_in_folder(const char *prefix)
{
    DIR *d = opendir(FOLDER);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)); ) n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

/* In a child: files may grow to `limit` bytes.  0 when the write failed with the system's words. */
static int write_within(const struct run *run, const char *path, rlim_t limit)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        struct lab_err err = { "" };
        char sha256[HASH_HEX];
        int64_t bytes;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, limit });
        int rc = ckpt_write(path, &run->model, run->config.json, sha256, &bytes, &err);
        _exit(rc == 0 ? 1 : strstr(err.msg, "cannot be written: File too large") ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_write_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    struct run old, new;
    struct stat st;
    char path[256], before[HASH_HEX], after[HASH_HEX];
    weights_path(path, "replaced");
    open_run(&old, 0, 1);
    open_run(&new, 0, 2);
    write_weights(&old, path);
    assert_int_equal(stat(path, &st), 0);
    OK(hash_file(path, before, &err));
    const rlim_t limit[] = { 0, 100, 4096, (rlim_t)st.st_size - 1 };
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        assert_int_equal(write_within(&new, path, limit[i]), 0);
        OK(hash_file(path, after, &err));
        assert_string_equal(after, before);
        assert_int_equal(files_in_folder("replaced"), 1);            /* no temporary file is left */
    }
    assert_int_equal(write_within(&new, path, (rlim_t)st.st_size), 1);
    OK(hash_file(path, after, &err));
    assert_string_not_equal(after, before);
    assert_int_equal(files_in_folder("replaced"), 1);
    unlink(path);
    close_run(&old);
    close_run(&new);
}

static void a_folder_in_the_way_stays(void **state)
{
    (void)state;
    struct run run;
    struct lab_err err = { "" };
    char path[256], sha256[HASH_HEX];
    int64_t bytes;
    weights_path(path, "in_the_way");
    open_run(&run, 0, 1);
    mkdir(path, 0777);
    assert_int_equal(ckpt_write(path, &run.model, run.config.json, sha256, &bytes, &err), -1);
    assert_non_null(strstr(err.msg, "cannot be written: Is a directory"));
    assert_int_equal(files_in_folder("in_the_way"), 1);
    expect_refusal(&run, path, run.config.json, "does not hold the weights of this run");
    assert_int_equal(rmdir(path), 0);
    close_run(&run);
}

static void lost_memory_is_said_and_leaves_no_file(void **state)
{
    (void)state;
    struct run run;
    char path[256], sha256[HASH_HEX];
    int64_t bytes;
    weights_path(path, "memory");
    open_run(&run, 0, 1);
    for (int reading = 0; reading < 2; reading++) {
        long n = 1;
        for (int rc = -1; rc != 0; n++) {
            struct lab_err err = { "" };
            mem_fail_at(n);
            rc = reading ? ckpt_read(path, &run.model, run.config.json, &err) : ckpt_write(path, &run.model, run.config.json, sha256, &bytes, &err);
            mem_fail_at(0);
            if (rc != 0 && !strstr(err.msg, "memory")) fail_msg("allocation %ld: '%s'", n, err.msg);
            if (!reading) assert_int_equal(files_in_folder("memory"), rc == 0);
        }
        assert_true(n > 3);
    }
    unlink(path);
    close_run(&run);
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
        cmocka_unit_test(each_tensor_lies_where_the_header_says),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_header_with_any_other_byte_is_refused),
        cmocka_unit_test(a_write_that_fails_leaves_the_old_file),
        cmocka_unit_test(a_folder_in_the_way_stays),
        cmocka_unit_test(lost_memory_is_said_and_leaves_no_file),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
