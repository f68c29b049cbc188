/* cmd_plan -- `lab plan FILE.ini`: the runs, what is done, parameters, expected time.  Starts nothing, writes nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/table.h"
#include "cli/cmd.h"
#include "cli/plan.h"
#include "run/sched.h"

enum { FULL_LIST = 40 };             /* longer plans are grouped by encoder, task and axes */

struct row {                         /* one run, or a group of them */
    const struct sweep_run *run;
    size_t runs, done, to_train, to_evaluate, failed;
    size_t parameters;
    double seconds;                  /* still to spend on one core */
};

/* Where no run was timed: floating-point operations of training at a rate that small models reach. */
static double guess_seconds(const struct run_config *c, size_t parameters)
{
    const double rate = 60e9;        /* of one core; a measured step replaces it as soon as there is one */
    double tokens = (double)c->train.batch * c->dims.train_len;
    double attention = 14.0 * c->dims.train_len * c->model.d_model * c->model.layers;
    double embeddings = (double)c->task_info.vocab_in * c->model.d_model;
    return c->train.steps * tokens * (6.0 * fmax((double)parameters - embeddings, 0) + attention) / rate;
}

static int examine(struct store *store, const struct sweep_run *run, struct row *out, struct lab_err *err)
{
    const struct run_config *c = &run->config;
    struct model_setup setup;
    struct store_status status = { .state = STORE_PENDING };
    struct option_list lengths;
    enum sched_need need;
    double step_ms = 0;
    *out = (struct row){ .run = run, .runs = 1 };
    config_model_setup(c, &setup);
    if (model_count(&setup, &out->parameters, err) != 0 || sched_need(store, c, &need, &lengths, err) != 0) return -1;
    if (store && (store_run_status(store, c->key, &status, err) != 0 || store_step_ms(store, c->variant, &step_ms, err) != 0)) return -1;
    out->done = need == SCHED_NOTHING;
    out->failed = status.state == STORE_FAILED;
    out->to_train = need == SCHED_TRAIN && !out->failed;
    out->to_evaluate = need == SCHED_EVALUATE;
    if (out->to_train) out->seconds = step_ms > 0 ? step_ms * c->train.steps / 1000 : guess_seconds(c, out->parameters);
    return 0;
}

static int same_group(const struct row *a, const struct row *b)
{
    return a->run->config.encoder == b->run->config.encoder && a->run->config.task == b->run->config.task && !strcmp(a->run->label, b->run->label);
}

/* Runs of one encoder, task and label become one row; their order is that of their first run. */
static size_t group(struct row *row, size_t n)
{
    size_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        size_t g = 0;
        while (g < groups && !same_group(&row[g], &row[i])) g++;
        if (g == groups) { row[groups++] = row[i]; continue; }
        row[g].runs++;
        row[g].done += row[i].done, row[g].to_train += row[i].to_train, row[g].to_evaluate += row[i].to_evaluate;
        row[g].failed += row[i].failed, row[g].seconds += row[i].seconds;
    }
    return groups;
}

static void add_number(struct table *t, double x, const char *format)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    table_number(t, text);
}

static const char *state_of(const struct row *r)
{
    return r->failed ? "failed before" : r->done ? "done" : r->to_evaluate ? "evaluate" : "train";
}

static void print_rows(const struct row *row, size_t n, int grouped, int json, struct str *out)
{
    static const char *const single[] = { "encoder", "task", "seed", "axes", "parameters", "state", "run_key" };
    static const char *const several[] = { "encoder", "task", "axes", "parameters", "runs", "done", "to train", "to evaluate", "failed" };
    struct table t;
    table_init(&t, grouped ? 9 : 7);
    for (int i = 0; i < (grouped ? 9 : 7); i++) table_add(&t, grouped ? several[i] : single[i]);
    for (size_t i = 0; i < n; i++) {
        const struct run_config *c = &row[i].run->config;
        char key[17];
        snprintf(key, sizeof key, "%.16s", c->key);
        table_add(&t, c->encoder->name);
        table_add(&t, c->task->name);
        if (!grouped) add_number(&t, (double)c->seed, "%.0f");
        table_add(&t, row[i].run->label);
        add_number(&t, (double)row[i].parameters, "%.0f");
        if (grouped) {
            size_t count[] = { row[i].runs, row[i].done, row[i].to_train, row[i].to_evaluate, row[i].failed };
            for (int k = 0; k < 5; k++) add_number(&t, (double)count[k], "%.0f");
        } else table_add(&t, state_of(&row[i])), table_add(&t, key);
    }
    table_write(&t, json ? TABLE_JSON : TABLE_TEXT, out);
    table_free(&t);
}

static void print_time(struct str *out, double seconds)
{
    if (seconds < 100) str_printf(out, "%.0f s", fmax(seconds, 1));
    else if (seconds < 6000) str_printf(out, "%.0f min", seconds / 60);
    else str_printf(out, "%.1f h", seconds / 3600);
}

static void print_summary(const struct sweep *s, const struct row *row, size_t n, struct str *out)
{
    struct row all = { 0 };
    for (size_t i = 0; i < n; i++) {
        all.runs += row[i].runs, all.done += row[i].done, all.to_train += row[i].to_train, all.to_evaluate += row[i].to_evaluate;
        all.failed += row[i].failed, all.seconds += row[i].seconds;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    str_printf(out, "\n%s: %zu run%s, %zu done, %zu to train", s->name, all.runs, all.runs == 1 ? "" : "s", all.done, all.to_train);
    if (all.to_evaluate) str_printf(out, ", %zu to evaluate at new lengths", all.to_evaluate);
    if (all.failed) str_printf(out, ", %zu failed before (`lab retry` runs them again)", all.failed);
    if (s->n_combinations > s->n) str_printf(out, "; %zu combinations came to the same runs", s->n_combinations - s->n);
    if (all.to_train) {
        str_add(out, "\nexpected time: ");
        print_time(out, all.seconds / (cores > 0 ? (double)cores : 1));
        str_printf(out, " on %ld core%s", cores, cores == 1 ? "" : "s");
    }
    str_add(out, "\n");
}

static int print_plan(const struct sweep *s, const char *db, int json, struct lab_err *err)
{
    struct store *store = NULL;
    struct str out = { 0 };
    int code = EXIT_DATABASE;
    struct row *row = mem_alloc(s->n * sizeof *row, err);
    if (!row) return EXIT_USAGE;
    if (access(db, F_OK) == 0 && store_open(&store, db, STORE_READ, err) != 0) goto out;
    for (size_t i = 0; i < s->n; i++) if (examine(store, &s->run[i], &row[i], err) != 0) goto out;
    int grouped = !json && s->n > FULL_LIST;
    size_t n = grouped ? group(row, s->n) : s->n;
    print_rows(row, n, grouped, json, &out);
    if (!json) print_summary(s, row, n, &out);
    fputs(str_text(&out), stdout);
    code = EXIT_DONE;
out:
    str_free(&out);
    free(row);
    if (store) store_close(store);
    return code;
}

int plan_show(const struct cmd *cmd, const struct sweep *s, const char *db, int json)
{
    struct lab_err err;
    int code = print_plan(s, db, json, &err);
    return code == EXIT_DONE ? code : cli_fail(cmd, code, &err);
}

int cmd_plan(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB;
    struct cli_many set = { 0 }, plugin = { 0 };
    int json = 0, code = EXIT_USAGE;
    struct cli_option options[] = { CLI_DB(&db), CLI_JSON(&json), CLI_SET(&set), CLI_PLUGIN(&plugin), CLI_END };
    struct lab_err err;
    struct conf conf;
    struct registry registry;
    struct sweep sweep;
    int parsed = cli_parse(cmd, options, &argc, argv);
    if (parsed != 0) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) return lab_fail(&err, "expected one experiment file; see `lab plan --help`"), cli_fail(cmd, EXIT_USAGE, &err);
    if (cli_conf(&conf, argv[1], &set, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if (cli_registry(&registry, &plugin, &err) != 0) goto no_registry;
    if (sweep_build(&sweep, &conf, &registry, &err) != 0) goto no_sweep;
    code = plan_show(cmd, &sweep, db, json);
    sweep_free(&sweep);
    registry_free(&registry);
    conf_free(&conf);
    return code;
no_sweep:
    registry_free(&registry);
no_registry:
    conf_free(&conf);
    return cli_fail(cmd, EXIT_USAGE, &err);
}
