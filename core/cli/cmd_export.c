/* cmd_export -- lab export [FILE.ini]: an experiment's numbers for other programs and for papers, under stable column names.
 *
 * No Parquet: Debian has no C library that writes it, and whoever needs it has a program that reads the database itself.
 */
#include <stdio.h>
#include <string.h>
#include "answer/fetch.h"
#include "answer/results.h"
#include "cli/cmd.h"

/* What may be exported: the answer, or the rows of a view. */
static const char *const view[] = { "answer", "results", "by_length", "by_seed", "by_position", "by_slice", "free_running", "past_training",
    "past_training_by_slice", "paired", "curves", "runs", "failures", "diverged", "leaks" };
enum { ANSWER };
static const struct { const char *name; enum table_format format; } format[] = {
    { "csv", TABLE_CSV }, { "json", TABLE_JSON }, { "markdown", TABLE_MARKDOWN }, { "latex", TABLE_LATEX } };
enum { N_VIEW = sizeof view / sizeof *view, N_FORMAT = sizeof format / sizeof *format };

static int unknown(const char *option, const char *name, const char *const *list, struct lab_err *err)
{
    struct str all = { 0 };
    const char *near = str_nearest(name, list);
    for (int i = 0; list[i]; i++) str_printf(&all, "%s%s", i ? ", " : "", list[i]);
    lab_fail(err, "%s is '%s'%s%s%s; known: %s", option, name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "", str_text(&all));
    str_free(&all);
    return -1;
}

static int find_view(const char *name, struct lab_err *err)
{
    const char *list[N_VIEW + 1] = { NULL };
    for (int i = 0; i < N_VIEW; i++) {
        if (!strcmp(view[i], name)) return i;
        list[i] = view[i];
    }
    return unknown("--view", name, list, err);
}

static int find_format(const char *name, struct lab_err *err)
{
    const char *list[N_FORMAT + 1] = { NULL };
    for (int i = 0; i < N_FORMAT; i++) {
        if (!strcmp(format[i].name, name)) return i;
        list[i] = format[i].name;
    }
    if (!strcmp(name, "parquet"))
        return lab_fail(err, "no parquet: no library of Debian writes it from C; DuckDB makes it of the CSV: "
                        "COPY (FROM 'FILE.csv') TO 'FILE.parquet'");
    return unknown("--format", name, list, err);
}

/* For a page of text: one table for each task, as `lab results` prints it. */
static int write_panels(struct study *s, enum table_format how, struct str *out)
{
    for (int panel = 0; panel < (int)s->n_panel; panel++) {
        struct table t;
        int run = s->panel[panel].run;
        if (results_table(s, panel, &t) != 0) return -1;
        str_printf(out, "%s%s%s, trained at length %s: token accuracy\n%s", panel ? "\n" : "", how == TABLE_LATEX ? "% " : "",
                   study_text(s, run, STUDY_TASK), study_text(s, run, STUDY_TRAIN), how == TABLE_LATEX ? "" : "\n");
        table_write(&t, how, out);
        table_free(&t);
    }
    return 0;
}

/* The store was narrowed to the experiment. */
static int take_view(struct study *s, int which, struct table *t)
{
    char sql[64];
    if (which == ANSWER) return results_rows(s, t);
    snprintf(sql, sizeof sql, "SELECT * FROM %s", view[which]);
    return fetch_table(s->store, sql, NULL, 0, 0, t, s->err);
}

static int write_view(struct study *s, int which, enum table_format how, struct str *out)
{
    struct table t;
    if (which == ANSWER && (how == TABLE_LATEX || how == TABLE_MARKDOWN)) return write_panels(s, how, out);
    if (take_view(s, which, &t) != 0) return -1;
    table_write(&t, how, out);
    table_free(&t);
    return out->failed ? lab_fail(s->err, "out of memory: the table is too large") : 0;
}

int cmd_export(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_study source = { .db = CLI_DEFAULT_DB };
    const char *view_name = "answer", *format_name = "csv", *path = NULL;
    int code, which, how;
    const struct cli_option option[] = {
        { "--view", 0, CLI_TEXT, "VIEW", "answer (default), or a view of results/README.md such as results", &view_name },
        { "--format", 0, CLI_TEXT, "FORMAT", "csv (default), json, markdown or latex", &format_name },
        { "--output", 'o', CLI_TEXT, "FILE", "write to this file (default: standard output)", &path },
        CLI_DB(&source.db), CLI_SET(&source.set), CLI_END };
    struct lab_err err;
    struct str out = { 0 };
    if ((code = cli_parse(cmd, option, &argc, argv)) != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if ((which = find_view(view_name, &err)) < 0 || (how = find_format(format_name, &err)) < 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if ((code = cli_study_open(cmd, &source, argc, argv)) == EXIT_DONE) {
        if (write_view(&source.study, which, format[how].format, &out) != 0) code = cli_fail(cmd, EXIT_DATABASE, &source.err);
        else if (cli_write(path, &out, &err) != 0) code = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    }
    str_free(&out);
    cli_study_close(&source);
    return code;
}
