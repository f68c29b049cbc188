/* cmd_plan -- `lab plan FILE.ini`: the runs, what is done, parameters, expected time.  Starts nothing, writes nothing. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/table.h"
#include "cli/cmd.h"
#include "cli/plan.h"
#include "exp/cost.h"
#include "exp/frozen.h"
#include "run/sched.h"

enum { FULL_LIST = 40 };             /* longer plans are grouped by encoder, task and label */

struct row {                         /* one run, or a group of them */
    const struct sweep_run *run;
    size_t runs, done, to_train, to_evaluate, failed;
    size_t parameters;
    double seconds, longest;         /* still to spend on one core: all of them, the longest of them */
};

static void add_counts(struct row *to, const struct row *r)
{
    to->runs += r->runs, to->done += r->done, to->to_train += r->to_train, to->to_evaluate += r->to_evaluate, to->failed += r->failed;
    to->seconds += r->seconds;
    to->longest = fmax(to->longest, r->longest);
}

/* ---- how long a run takes ---- */

/* As long as runs of its kind took, if the database knows some. */
static double expect_seconds(const struct row *r, const struct option_list *lengths, double step_ms)
{
    const struct run_config *c = &r->run->config;
    struct cost cost = cost_of(c);
    if (!r->to_train && !r->to_evaluate) return 0;
    if (r->to_train) return step_ms > 0 ? cost.start + step_ms * c->train.steps / 1000 : cost_total(&cost, c);
    double seconds = cost.start;
    for (int i = 0; i < lengths->n; i++) seconds += cost_test(c, lengths->v[i]);
    return seconds;
}

/* ---- the rows ---- */

/* What a step of runs like this one took; runs that differ in their seeds alone follow each other, and are asked about once. */
static int step_ms_of(struct store *store, const struct run_config *c, double *ms, struct lab_err *err)
{
    static const struct run_config *last;
    static double last_ms;
    if (!last || last->encoder != c->encoder || last->task != c->task || strcmp(last->variant, c->variant)) {
        if (store_step_ms(store, c->task->name, c->encoder->name, c->variant, &last_ms, err) != 0) return -1;
        last = c;
    }
    *ms = last_ms;
    return 0;
}

static int examine(struct store *store, struct row *r, struct lab_err *err)
{
    const struct run_config *c = &r->run->config;
    struct store_status status = { .state = STORE_PENDING };
    struct option_list lengths;
    enum sched_need need;
    double step_ms = 0;
    if (sched_need(store, c, &need, &lengths, err) != 0) return -1;
    if (store && (store_run_status(store, c->key, &status, err) != 0 || step_ms_of(store, c, &step_ms, err) != 0)) return -1;
    r->done = need == SCHED_NOTHING;
    r->failed = status.state == STORE_FAILED;
    r->to_train = need == SCHED_TRAIN && !r->failed;
    r->to_evaluate = need == SCHED_EVALUATE;
    r->seconds = r->longest = expect_seconds(r, &lengths, step_ms);
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
        if (g < groups) add_counts(&row[g], &row[i]);
        else row[groups++] = row[i];
    }
    return groups;
}

/* ---- columns: what a row is in a table ---- */

enum { SINGLE = 1, GROUPED = 2, JSON = 4 };      /* the tables that show a column */

static void number(struct str *out, size_t x) { str_printf(out, "%zu", x); }
static void encoder(struct str *out, const struct row *r) { str_add(out, r->run->config.encoder->name); }
static void task(struct str *out, const struct row *r) { str_add(out, r->run->config.task->name); }
static void seed(struct str *out, const struct row *r) { number(out, (size_t)r->run->config.seed); }
static void label(struct str *out, const struct row *r) { str_add(out, r->run->label); }
static void parameters(struct str *out, const struct row *r) { number(out, r->parameters); }
static void runs(struct str *out, const struct row *r) { number(out, r->runs); }
static void done(struct str *out, const struct row *r) { number(out, r->done); }
static void to_train(struct str *out, const struct row *r) { number(out, r->to_train); }
static void to_evaluate(struct str *out, const struct row *r) { number(out, r->to_evaluate); }
static void failed(struct str *out, const struct row *r) { number(out, r->failed); }
static void state(struct str *out, const struct row *r)
{
    str_add(out, r->failed ? "failed" : r->done ? "done" : r->to_evaluate ? "evaluate" : "train");
}
static void expected_s(struct str *out, const struct row *r) { str_printf(out, "%.3f", r->seconds); }
static void short_key(struct str *out, const struct row *r) { str_printf(out, "%.12s", r->run->config.key); }
static void whole_key(struct str *out, const struct row *r) { str_add(out, r->run->config.key); }

static const struct column {
    const char *name;
    int tables, is_number;
    void (*print)(struct str *, const struct row *);
} column[] = {
    { "encoder", SINGLE | GROUPED | JSON, 0, encoder },
    { "task", SINGLE | GROUPED | JSON, 0, task },
    { "seed", SINGLE | JSON, 1, seed },
    { "label", SINGLE | GROUPED | JSON, 0, label },
    { "parameters", SINGLE | GROUPED | JSON, 1, parameters },
    { "runs", GROUPED, 1, runs },
    { "done", GROUPED, 1, done },
    { "train", GROUPED, 1, to_train },
    { "evaluate", GROUPED, 1, to_evaluate },
    { "failed", GROUPED, 1, failed },
    { "state", SINGLE | JSON, 0, state },
    { "expected_s", JSON, 1, expected_s },
    { "run_key", SINGLE, 0, short_key },
    { "run_key", JSON, 0, whole_key },
};
enum { N_COLUMN = sizeof column / sizeof *column };

/* People need no column of labels where none has one. */
static int is_shown(const struct column *c, int which, const struct row *row, size_t n)
{
    size_t i = 0;
    if (!(c->tables & which)) return 0;
    if (c->print != label || which == JSON) return 1;
    while (i < n && !*row[i].run->label) i++;
    return i < n;
}

static void print_rows(const struct row *row, size_t n, int which, struct str *out)
{
    const struct column *shown[N_COLUMN];
    struct str cell = { 0 };
    struct table t;
    int width = 0;
    for (int k = 0; k < N_COLUMN; k++) if (is_shown(&column[k], which, row, n)) shown[width++] = &column[k];
    table_init(&t, width);
    for (int k = 0; k < width; k++) table_add(&t, shown[k]->name);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < width; k++) {
            str_clear(&cell);
            shown[k]->print(&cell, &row[i]);
            (shown[k]->is_number ? table_number : table_add)(&t, str_text(&cell));
        }
    table_write(&t, which == JSON ? TABLE_JSON : TABLE_TEXT, out);
    out->failed |= cell.failed | t.failed;
    str_free(&cell);
    table_free(&t);
}

/* ---- below the table ---- */

static void print_time(struct str *out, double seconds)
{
    if (seconds < 100) str_printf(out, "%.0f s", fmax(seconds, 1));
    else if (seconds < 6000) str_printf(out, "%.0f min", seconds / 60);
    else str_printf(out, "%.1f h", seconds / 3600);
}

static void print_summary(const struct sweep *s, const struct row *row, size_t n, struct str *out)
{
    struct row all = { 0 };
    for (size_t i = 0; i < n; i++) add_counts(&all, &row[i]);
    int cores = sched_cores();
    str_add(out, "\n");
    table_show(out, s->name);
    str_printf(out, ": %zu run%s, %zu done, %zu to train", all.runs, all.runs == 1 ? "" : "s", all.done, all.to_train);
    if (all.to_evaluate) str_printf(out, ", %zu to evaluate from kept weights", all.to_evaluate);
    if (all.failed) str_printf(out, ", %zu failed before (`lab retry` runs them again)", all.failed);
    if (s->n_combinations > s->n) str_printf(out, "; %zu of %zu combinations repeat another", s->n_combinations - s->n, s->n_combinations);
    if (all.to_train + all.to_evaluate) {
        str_add(out, "\nexpected time: ");
        print_time(out, fmax(all.seconds / cores, all.longest));
        str_printf(out, " on %d core%s", cores, cores == 1 ? "" : "s");
    }
    str_add(out, "\n");
}

static int count_parameters(const struct sweep *s, struct row *row, struct lab_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        struct model_setup setup;
        row[i] = (struct row){ .run = &s->run[i], .runs = 1 };
        config_model_setup(&s->run[i].config, &setup);
        if (model_count(&setup, &row[i].parameters, err) != 0) return -1;
    }
    return 0;
}

/* A database that does not exist yet has no runs in it. */
static int examine_all(const char *db, struct row *row, size_t n, struct lab_err *err)
{
    struct store *store = NULL;
    size_t i = 0;
    if ((access(db, F_OK) == 0 || errno != ENOENT) && store_open(&store, db, STORE_READ, err) != 0) return -1;
    while (i < n && examine(store, &row[i], err) == 0) i++;
    store_close(store);
    return i == n ? 0 : -1;
}

static int print_plan(const struct sweep *s, const char *db, int json, struct lab_err *err)
{
    struct str out = { 0 };
    int code = EXIT_USAGE, which = json ? JSON : s->n > FULL_LIST ? GROUPED : SINGLE;
    struct row *row = mem_alloc(s->n * sizeof *row, err);
    if (!row || count_parameters(s, row, err) != 0) goto out;
    code = EXIT_DATABASE;
    if (examine_all(db, row, s->n, err) != 0) goto out;
    size_t n = which == GROUPED ? group(row, s->n) : s->n;
    print_rows(row, n, which, &out);
    if (!json) print_summary(s, row, n, &out);
    code = out.failed ? EXIT_USAGE : EXIT_DONE;
    if (out.failed) lab_fail(err, "out of memory for the plan");
    else fputs(str_text(&out), stdout);
out:
    str_free(&out);
    free(row);
    return code;
}

int plan_show(const struct cmd *cmd, const struct sweep *s, const char *db, int json)
{
    struct lab_err err;
    int code = print_plan(s, db, json, &err);
    return code == EXIT_DONE ? code : cli_fail(cmd, code, &err);
}

/* For other machines; says how to go on. */
static int freeze(const struct cmd *cmd, const struct sweep *sweep, const char *folder, const struct cli_many *plugin)
{
    struct lab_err err;
    if (frozen_write(folder, sweep, plugin->value, plugin->n, 1, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    printf("%s: %zu runs are frozen; on N machines that see this folder: lab work %s --task 0/N, 1/N, ...; then lab merge results/lab.db %s\n", folder,
           sweep->n, folder, folder);
    return EXIT_DONE;
}

int cmd_plan(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB, *folder = NULL;
    struct cli_many set = { 0 }, plugin = { 0 };
    int json = 0, code = EXIT_USAGE;
    struct cli_option options[] = { CLI_DB(&db), CLI_JSON(&json), CLI_SET(&set), CLI_PLUGIN(&plugin),
        { "--freeze", 0, CLI_TEXT, "FOLDER", "keep the plan in a folder, for `lab work` on other machines", &folder }, CLI_END };
    struct lab_err err;
    struct conf conf;
    struct registry registry;
    struct sweep sweep;
    int parsed = cli_parse(cmd, options, &argc, argv);
    if (parsed != 0) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) return lab_fail(&err, "expected one experiment file, found %d; see `lab plan --help`", argc - 1), cli_fail(cmd, EXIT_USAGE, &err);
    if (cli_conf(&conf, argv[1], &set, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if (cli_registry(&registry, &plugin, &err) != 0) goto no_registry;
    if (sweep_build(&sweep, &conf, &registry, &err) != 0) goto no_sweep;
    code = folder ? freeze(cmd, &sweep, folder, &plugin) : plan_show(cmd, &sweep, db, json);
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
