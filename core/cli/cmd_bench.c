/* cmd_bench -- `lab bench [FILE.ini]`: what a training step costs, beside its matrix products alone.
 *
 * Without a file it measures three models that stand for the field.  Trains from scratch; no database is touched.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/table.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "exp/bench.h"
#include "exp/sweep.h"
#include "nn/gemm.h"
#include "nn/kern.h"

#define BUILT_IN(d_model, heads, d_ff, layers, batch, length)                                                                   \
    "[experiment]\nquestion = How fast is a step?\n[sweep]\nencoder = none\ntask = reverse\nseed = 0\n"                           \
    "[model]\nd_model = " #d_model "\nheads = " #heads "\nd_ff = " #d_ff "\nlayers = " #layers "\n"                                \
    "[train]\nbatch = " #batch "\nlength = " #length "\n[eval]\nlengths = " #length "\n"
#define ALL_ENCODERS "sweep.encoder=none,sinusoidal,learned,t5,rope"

static const struct built_in { const char *name, *text; } built_in[] = {
    { "seed", BUILT_IN(64, 4, 256, 2, 64, 8) },
    { "dm", BUILT_IN(64, 8, 256, 5, 128, 40) },
    { "wide", BUILT_IN(256, 8, 1024, 4, 32, 64) },
};
enum { N_BUILT_IN = sizeof built_in / sizeof *built_in };

static const struct { enum times_part part; const char *name, *column; } part[] = {
    { TIMES_GEMM, "gemm", "gemm_ms" }, { TIMES_ATTENTION, "attention", "attention_ms" }, { TIMES_NORM, "norm", "norm_ms" },
    { TIMES_ACTIVATION, "activation", "activation_ms" }, { TIMES_LOSS, "loss", "loss_ms" },
    { TIMES_OPTIMISER, "optimiser", "optimiser_ms" }, { TIMES_DATA, "data", "data_ms" }, { TIMES_HOOKS, "hooks", "hooks_ms" }, { TIMES_REST, "rest", "rest_ms" },
};
enum { N_PART = sizeof part / sizeof *part };

struct line { const char *model, *label; };          /* beside each bench_row: where it comes from */
struct bench {
    struct registry registry;
    struct conf conf[N_BUILT_IN]; int n_conf;
    struct sweep sweep[N_BUILT_IN]; int n_sweep;
    struct bench_row *row; struct line *line; size_t n, cap_row, cap_line;
    double peak;                     /* GFLOP/s */
};
struct wish { struct cli_many set, plugin; int64_t seconds; int json, all_encoders; const char *path; };

/* ---- what is measured: each model with each encoder, once ---- */

static int known(const struct bench *b, const struct run_config *c)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->row[i].config->encoder == c->encoder && bench_same_model(b->row[i].config, c)) return 1;
    return 0;
}

static int add_rows(struct bench *b, const struct sweep *s, const char *model, struct lab_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct run_config *c = &s->run[i].config;
        if (known(b, c)) continue;
        if (mem_grow(&b->row, &b->cap_row, b->n + 1, sizeof *b->row, err) != 0 ||
            mem_grow(&b->line, &b->cap_line, b->n + 1, sizeof *b->line, err) != 0) return -1;
        b->row[b->n] = (struct bench_row){ .config = c };
        b->line[b->n++] = (struct line){ model, s->run[i].label };
    }
    return 0;
}

static void find_baselines(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        b->row[i].baseline = -1;
        for (size_t k = 0; k < b->n; k++) {
            const struct run_config *c = b->row[k].config;
            if (!strcmp(c->encoder->name, "none") && bench_same_model(b->row[i].config, c)) b->row[i].baseline = (int)k;
        }
    }
}

static int override(struct conf *conf, const struct wish *wish, struct lab_err *err)
{
    if (wish->all_encoders && conf_override(conf, ALL_ENCODERS, err) != 0) return -1;
    for (int i = 0; i < wish->set.n; i++) if (conf_override(conf, wish->set.value[i], err) != 0) return -1;
    return 0;
}

static int read_models(struct bench *b, const struct wish *wish, struct lab_err *err)
{
    const char *slash = wish->path ? strrchr(wish->path, '/') : NULL;
    for (int i = 0; i < (wish->path ? 1 : N_BUILT_IN); i++) {
        struct conf *conf = &b->conf[i];
        const char *name = !wish->path ? built_in[i].name : slash ? slash + 1 : wish->path, *text = built_in[i].text;
        if ((wish->path ? conf_read(conf, wish->path, err) : conf_read_text(conf, name, text, strlen(text), err)) != 0) return -1;
        b->n_conf++;
        if (override(conf, wish, err) != 0 || sweep_build(&b->sweep[i], conf, &b->registry, err) != 0) return -1;
        b->n_sweep++;
        if (add_rows(b, &b->sweep[i], name, err) != 0) return -1;
    }
    find_baselines(b);
    return 0;
}

static void bench_release(struct bench *b)
{
    for (int i = 0; i < b->n_sweep; i++) sweep_free(&b->sweep[i]);
    for (int i = 0; i < b->n_conf; i++) conf_free(&b->conf[i]);
    free(b->row);
    free(b->line);
}

/* ---- output ---- */

static void add_number(struct table *t, const char *format, double x)
{
    char text[64];
    snprintf(text, sizeof text, format, x);
    table_number(t, isnan(x) ? NULL : text);
}

static void add_model(struct table *t, const struct bench *b, size_t i)
{
    struct str text = { 0 };
    str_printf(&text, "%s%s%s", b->line[i].model, *b->line[i].label ? " " : "", b->line[i].label);
    table_add(t, str_text(&text));
    table_add(t, b->row[i].config->encoder->name);
    t->failed |= text.failed;
    str_free(&text);
}

static void print_steps(const struct bench *b, struct str *out)
{
    static const char *const header[] = { "model", "encoder", "step ms", "floor ms", "in chunks", "step/floor", "to none",
                                          "tokens/s", "GFLOP/s" };
    struct table t;
    table_init(&t, 9);
    for (int i = 0; i < 9; i++) table_add(&t, header[i]);
    for (size_t i = 0; i < b->n; i++) {
        const struct bench_row *r = &b->row[i];
        add_model(&t, b, i);
        add_number(&t, "%.3f", r->step_ms);
        add_number(&t, "%.3f", r->floor_ms);
        add_number(&t, "%.3f", r->floor_chunked_ms);
        add_number(&t, "%.3f", r->ratio);
        add_number(&t, "%.3f", r->to_baseline);
        add_number(&t, "%.0f", 1000 * r->tokens / r->step_ms);
        add_number(&t, "%.1f", 1e-6 * r->flops / r->step_ms);
    }
    table_write(&t, TABLE_TEXT, out);
    out->failed |= t.failed;
    table_free(&t);
}

static void print_parts(const struct bench *b, struct str *out)
{
    struct table t;
    str_add(out, "\nmilliseconds of a step by part:\n");
    table_init(&t, 2 + N_PART);
    table_add(&t, "model");
    table_add(&t, "encoder");
    for (int k = 0; k < N_PART; k++) table_add(&t, part[k].name);
    for (size_t i = 0; i < b->n; i++) {
        add_model(&t, b, i);
        for (int k = 0; k < N_PART; k++) add_number(&t, "%.3f", b->row[i].part_ms[part[k].part]);
    }
    table_write(&t, TABLE_TEXT, out);
    out->failed |= t.failed;
    table_free(&t);
}

static void print_text(const struct bench *b, struct str *out)
{
    print_steps(b, out);
    print_parts(b, out);
    str_printf(out, "\none core: peak %.1f GFLOP/s, kernels %s, %s\n"
                    "floor: the linear layers' products alone, the whole batch at once; GFLOP/s: theirs, in the time of a step\n"
                    "a ReLU is made inside its products, which pass over its zeros: a step can be below its floor\n",
               b->peak, kern_isa(), gemm_library());
}

static void print_json(const struct bench *b, struct str *out)
{
    static const char *const text[] = { "model", "label", "encoder", "isa", "blas" };
    static const char *const number[] = { "step_ms", "floor_ms", "floor_chunked_ms", "ratio", "ratio_to_none",
                                          "tokens_per_s", "gflops", "peak_gflops", "samples" };
    enum { N_TEXT = sizeof text / sizeof *text, N_NUMBER = sizeof number / sizeof *number };
    struct table t;
    table_init(&t, N_TEXT + N_NUMBER + N_PART);
    for (int i = 0; i < N_TEXT; i++) table_add(&t, text[i]);
    for (int i = 0; i < N_NUMBER; i++) table_add(&t, number[i]);
    for (int i = 0; i < N_PART; i++) table_add(&t, part[i].column);
    for (size_t i = 0; i < b->n; i++) {
        const struct bench_row *r = &b->row[i];
        const char *const words[N_TEXT] = { b->line[i].model, b->line[i].label, r->config->encoder->name, kern_isa(), gemm_library() };
        const double values[N_NUMBER] = { r->step_ms, r->floor_ms, r->floor_chunked_ms, r->ratio, r->to_baseline,
                                          1000 * r->tokens / r->step_ms, 1e-6 * r->flops / r->step_ms, b->peak, r->samples };
        for (int k = 0; k < N_TEXT; k++) table_add(&t, words[k]);
        for (int k = 0; k < N_NUMBER; k++) add_number(&t, "%.6g", values[k]);
        for (int k = 0; k < N_PART; k++) add_number(&t, "%.6g", r->part_ms[part[k].part]);
    }
    table_write(&t, TABLE_JSON, out);
    out->failed |= t.failed;
    table_free(&t);
}

static int print(const struct bench *b, int json, struct lab_err *err)
{
    struct str out = { 0 };
    (json ? print_json : print_text)(b, &out);
    int failed = out.failed;
    fputs(str_text(&out), stdout);
    str_free(&out);
    return failed ? lab_fail(err, "out of memory while writing the table") : 0;
}

int cmd_bench(const struct cmd *cmd, int argc, char **argv)
{
    struct wish wish = { .seconds = 5 };
    const struct cli_option option[] = {
        { "--all-encoders", 0, CLI_FLAG, NULL, "each model with none, sinusoidal, learned, t5 and rope", &wish.all_encoders },
        { "--seconds", 0, CLI_INT, "N", "for each model and encoder (default 5)", &wish.seconds },
        CLI_SET(&wish.set), CLI_JSON(&wish.json), CLI_PLUGIN(&wish.plugin), CLI_END };
    struct bench b = { .n = 0 };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed != 0) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc > 2) return lab_fail(&err, "one experiment file at most"), cli_fail(cmd, EXIT_USAGE, &err);
    wish.path = argc == 2 ? argv[1] : NULL;
    if (cli_registry(&b.registry, &wish.plugin, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int failed = read_models(&b, &wish, &err) != 0 || bench_run(b.row, (int)b.n, (double)wish.seconds, &b.peak, &err) != 0 ||
                 print(&b, wish.json, &err) != 0;
    bench_release(&b);
    registry_free(&b.registry);
    return failed ? cli_fail(cmd, EXIT_USAGE, &err) : EXIT_DONE;
}
