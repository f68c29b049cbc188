/* cmd_query -- `lab query`: one SELECT, typed or saved, as a table.
 *
 * What is typed asks the whole database, what is saved the experiment entered last, as the other commands do: of all
 * experiments together the answers would be long, and seldom what was meant.  --experiment and --all say otherwise.
 * Saved queries are files NAME.sql whose first line is the question they answer.  They are looked
 * for beside the database, in results/queries, where lab was built and where it is installed; the first of a name counts.
 * A name is looked up in that list and never becomes part of a path.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/fetch.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"

enum { QUERY_MAX = 1 << 20 };        /* bytes of a saved query */

/* ---- the saved queries ---- */

struct saved { char *name, *path; };
struct library { struct saved *item; size_t n, cap; };

static int by_name(const void *a, const void *b) { return strcmp(((const struct saved *)a)->name, ((const struct saved *)b)->name); }

static const struct saved *find(const struct library *lib, const char *name)
{
    for (size_t i = 0; i < lib->n; i++) if (!strcmp(lib->item[i].name, name)) return &lib->item[i];
    return NULL;
}

static int add_file(struct library *lib, const char *folder, const char *file, struct lab_err *err)
{
    size_t length = strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789_");
    char name[256];
    struct str path = { 0 };
    if (!length || length >= sizeof name || strcmp(file + length, ".sql")) return 0;
    snprintf(name, sizeof name, "%.*s", (int)length, file);
    if (find(lib, name)) return 0;
    if (mem_grow(&lib->item, &lib->cap, lib->n + 1, sizeof *lib->item, err) != 0) return -1;
    str_printf(&path, "%s/%s", folder, file);
    struct saved *s = &lib->item[lib->n++];
    s->path = path.text;             /* now the library's */
    s->name = mem_strdup(name, err);
    if (path.failed) lab_fail(err, "out of memory: could not list %s", folder);
    return s->name && !path.failed ? 0 : -1;
}

static int add_folder(struct library *lib, const char *folder, struct lab_err *err)
{
    DIR *dir = opendir(folder);
    int rc = 0;
    if (!dir) return 0;              /* none of the folders has to be there */
    for (struct dirent *e; rc == 0 && (e = readdir(dir)); ) rc = add_file(lib, folder, e->d_name, err);
    closedir(dir);
    return rc;
}

/* The folder `queries` as seen from a file: beside it, or further up. */
static int add_folder_from(struct library *lib, const char *file, const char *queries, struct lab_err *err)
{
    struct str folder = { 0 };
    const char *slash = strrchr(file, '/');
    str_printf(&folder, "%.*s%s", slash ? (int)(slash - file + 1) : 0, file, queries);
    int rc = folder.failed ? lab_fail(err, "out of memory: could not list saved queries") : add_folder(lib, folder.text, err);
    str_free(&folder);
    return rc;
}

static int library_read(struct library *lib, const char *db, struct lab_err *err)
{
    char program[4096] = "";
    int rc = add_folder_from(lib, db, "queries", err);
    if (rc == 0) rc = add_folder(lib, "results/queries", err);
    if (rc == 0 && readlink("/proc/self/exe", program, sizeof program - 1) > 0) {    /* build/<flavour>/lab, or bin/lab */
        rc = add_folder_from(lib, program, "../../results/queries", err);
        if (rc == 0) rc = add_folder_from(lib, program, "../share/lab/queries", err);
    }
    if (rc == 0) rc = add_folder(lib, LAB_DATA_DIR "/queries", err);
    if (lib->n) qsort(lib->item, lib->n, sizeof *lib->item, by_name);
    return rc;
}

static void library_free(struct library *lib)
{
    for (size_t i = 0; i < lib->n; i++) free(lib->item[i].name), free(lib->item[i].path);
    free(lib->item);
}

static int read_file(struct str *out, const char *path, struct lab_err *err)
{
    char buffer[4096];
    FILE *f = fopen(path, "re");
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    for (size_t n; out->len <= QUERY_MAX && (n = fread(buffer, 1, sizeof buffer, f)) > 0; ) str_addn(out, buffer, n);
    int failed = ferror(f) || out->failed;
    fclose(f);
    if (failed) return lab_fail(err, "%s: cannot be read", path);
    if (out->len > QUERY_MAX) return lab_fail(err, "%s: is too long for a query (limit is %d bytes)", path, QUERY_MAX);
    return 0;
}

static int unknown_name(const struct library *lib, const char *name, struct lab_err *err)
{
    const char *near = NULL, **names = mem_alloc((lib->n + 1) * sizeof *names, err);
    if (!names) return -1;
    for (size_t i = 0; i < lib->n; i++) names[i] = lib->item[i].name;
    near = str_nearest(name, names);
    free(names);
    if (near) return lab_fail(err, "no saved query '%s': did you mean '@%s'?", name, near);
    return lab_fail(err, "no saved query '%s'; `lab query` alone lists them", name);
}

/* ---- output ---- */

static int print(const struct cmd *cmd, const struct table *t, enum table_format format)
{
    struct str text = { 0 };
    struct lab_err err;
    if (format == TABLE_TEXT) table_text(t, (size_t)cli_terminal(), &text);
    else table_write(t, format, &text);
    int failed = t->failed || text.failed;
    if (failed) lab_fail(&err, "out of memory: the answer is too large; ask for less (WHERE, LIMIT)");
    else if (fwrite(str_text(&text), 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        failed = 1, lab_fail(&err, "the answer cannot be written: %s", strerror(errno));
    str_free(&text);
    return failed ? cli_fail(cmd, EXIT_SOME_FAILED, &err) : EXIT_DONE;
}

/* ---- the command ---- */

static int list(const struct cmd *cmd, const struct library *lib, enum table_format format)
{
    struct table t;
    struct lab_err err;
    struct str text = { 0 };
    table_init(&t, 2);
    table_add(&t, "query");
    table_add(&t, "question");
    for (size_t i = 0; i < lib->n; i++) {
        char name[258];
        snprintf(name, sizeof name, "@%s", lib->item[i].name);
        table_add(&t, name);
        str_clear(&text);
        if (read_file(&text, lib->item[i].path, &err) == 0 && text.len) text.text[strcspn(text.text, "\r\n")] = '\0';
        const char *line = str_text(&text);
        table_add(&t, line + strspn(line, "- "));
    }
    int rc = print(cmd, &t, format);
    str_free(&text);
    table_free(&t);
    return rc;
}

/* What is asked of: everything, or one experiment; ini_sha256 NULL: the one entered last. */
struct scope { int narrow; const char *ini_sha256; };

static int tell_scope(void *ctx, int n, const struct store_value *v)
{
    struct str name = { 0 };
    (void)ctx, (void)n;
    table_show(&name, v[0].type == STORE_TEXT ? v[0].text : "");
    if (v[1].integer > 1) fprintf(stderr,
                                  "lab query: of the experiment %s, entered last of %lld; --experiment FILE.ini asks of another, --all of all\n",
                                  str_text(&name), (long long)v[1].integer);
    str_free(&name);
    return 0;
}

/* Whoever did not say what to ask of is told, where there was a choice. */
static int narrow(const struct cmd *cmd, struct store *store, const struct scope *scope)
{
    struct store_rows rows = { .row = tell_scope };
    struct lab_err err;
    int found;
    if (!scope->narrow) return EXIT_DONE;
    if (store_scope(store, scope->ini_sha256, &found, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    if (!scope->ini_sha256 && store_query(store, "SELECT name, (SELECT count(*) FROM main.sweep) FROM sweep", NULL, 0, 0, &rows, &err) != 0)
        return cli_fail(cmd, EXIT_DATABASE, &err);
    if (found || !scope->ini_sha256) return EXIT_DONE;       /* without any experiment the answer is empty anyway */
    lab_fail(&err, "%s: this experiment file, as it stands now, was never run here; `lab run` runs it", store_path(store));
    return cli_fail(cmd, EXIT_USAGE, &err);
}

struct question { const char *db, *sql; char **args; int n_args; int64_t seconds; struct scope scope; enum table_format format; };

static int ask(const struct cmd *cmd, const struct question *q)
{
    struct lab_err err;
    struct store *store;
    struct table table;
    if (store_open(&store, q->db, STORE_READ, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    int code = narrow(cmd, store, &q->scope), rc = 0;
    if (code == EXIT_DONE) rc = fetch_table(store, q->sql, (const char *const *)q->args, q->n_args, (double)q->seconds, &table, &err);
    store_close(store);
    if (code != EXIT_DONE) return code;
    if (rc != 0) return cli_fail(cmd, rc == -1 ? EXIT_DATABASE : EXIT_USAGE, &err);
    code = print(cmd, &table, q->format);
    table_free(&table);
    return code;
}

/* A saved query's text, or the typed one as it is. */
static int find_sql(const struct library *lib, const char *wanted, struct str *sql, struct lab_err *err)
{
    if (*wanted != '@') return str_add(sql, wanted), 0;
    const struct saved *saved = find(lib, wanted + 1);
    return saved ? read_file(sql, saved->path, err) : unknown_name(lib, wanted + 1, err);
}

int cmd_query(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB, *experiment = NULL;
    struct cli_many set = { .n = 0 };
    int json = 0, csv = 0, md = 0, all = 0, code = EXIT_USAGE;
    int64_t seconds = 60;
    const struct cli_option option[] = {
        { "--experiment", 0, CLI_TEXT, "FILE.ini", "ask of this experiment alone (@NAME: default the one entered last)", &experiment },
        { "--all", 0, CLI_FLAG, NULL, "@NAME: ask of all experiments in the database", &all },
        CLI_SET(&set), CLI_DB(&db), CLI_JSON(&json),
        { "--csv", 0, CLI_FLAG, NULL, "print CSV", &csv },
        { "--md", 0, CLI_FLAG, NULL, "print a Markdown table", &md },
        { "--timeout", 0, CLI_INT, "SECONDS", "give up after this time (default 60; 0 = never)", &seconds },
        CLI_END };
    struct library lib = { 0 };
    struct conf conf = { 0 };
    struct str sql = { 0 };
    struct lab_err err = { "" };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed != 0) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    const char *wanted = argc > 1 ? argv[1] : NULL;
    enum table_format format = json ? TABLE_JSON : csv ? TABLE_CSV : md ? TABLE_MARKDOWN : TABLE_TEXT;
    if (json + csv + md > 1) lab_fail(&err, "--json, --csv and --md: choose one");
    else if (all && experiment) lab_fail(&err, "--all and --experiment: choose one");
    else if (set.n && !experiment) lab_fail(&err, "--set changes an experiment file; name the file with --experiment");
    else if (experiment) cli_conf(&conf, experiment, &set, &err);
    if (*err.msg) return cli_fail(cmd, EXIT_USAGE, &err);

    if (library_read(&lib, db, &err) != 0) {
        code = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    } else if (!wanted) {
        code = list(cmd, &lib, format);
    } else if (find_sql(&lib, wanted, &sql, &err) != 0) {
        cli_fail(cmd, code, &err);
    } else {
        struct scope scope = { !all && (experiment || *wanted == '@'), experiment ? conf.sha256 : NULL };
        code = ask(cmd, &(struct question){ db, str_text(&sql), argv + 2, argc - 2, seconds, scope, format });
    }
    str_free(&sql);
    conf_free(&conf);
    library_free(&lib);
    return code;
}
