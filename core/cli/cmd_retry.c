/* cmd_retry -- lab retry [FILE.ini]: runs again what failed, and nothing else; what failed stays as evidence.
 *
 * Without a file it takes every experiment of the database that has failed runs, as its text was kept there.  One that was
 * run with --set cannot be made again from its text: then the file and its --set must be named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/table.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/run.h"
#include "exp/sweep.h"

struct keys { char (*key)[HASH_HEX]; size_t n, cap; };
struct kept { char *name, *path, *text, *sha256; };              /* an experiment as the database has it */
struct retry {
    const struct cmd *cmd;
    struct cli_many set, plugin;
    const char *db;
    int64_t jobs;
    int dry_run, quiet;
    struct store *store;
    struct registry registry;
    struct keys tried;               /* a run of several experiments is tried once */
    struct kept *kept; size_t n_kept, cap_kept;
    int code;                        /* the worst so far */
    int failed; struct lab_err err;  /* a row could not be kept */
};

static void worse(struct retry *r, int code)
{
    static const int order[] = { EXIT_DONE, EXIT_SOME_FAILED, EXIT_USAGE, EXIT_INTERRUPTED, EXIT_DATABASE, EXIT_SECOND_INTERRUPT };
    int now = 0, then = 0;
    for (int i = 0; i < (int)(sizeof order / sizeof *order); i++) {
        if (order[i] == r->code) now = i;
        if (order[i] == code) then = i;
    }
    if (then > now) r->code = code;
}

static int contains(const struct keys *k, const char *key)
{
    for (size_t i = 0; i < k->n; i++) if (!strcmp(k->key[i], key)) return 1;
    return 0;
}

static int add_key(struct keys *k, const char *key, struct lab_err *err)
{
    if (mem_grow(&k->key, &k->cap, k->n + 1, sizeof *k->key, err) != 0) return -1;
    snprintf(k->key[k->n++], HASH_HEX, "%s", key);
    return 0;
}

/* ---- what would be tried ---- */

struct listing { struct table table; const struct sweep *sweep; size_t n; };

static int is_of(const struct sweep *sweep, const char *key)
{
    for (size_t i = 0; i < sweep->n; i++) if (!strcmp(sweep->run[i].config.key, key)) return 1;
    return 0;
}

static int list_row(void *ctx, int n, const struct store_value *v)
{
    struct listing *l = ctx;
    if (l->sweep && !is_of(l->sweep, v[n - 1].text)) return 0;
    for (int i = 0; i < n - 1; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)v[i].integer);
        if (v[i].type == STORE_INTEGER) table_number(&l->table, number);
        else table_add(&l->table, v[i].type == STORE_TEXT ? v[i].text : NULL);
    }
    l->n++;
    return l->table.failed;
}

static int list(struct retry *r, const struct sweep *sweep)
{
    static const char *const header[] = { "task", "encoder", "seed", "axes", "attempts", "why it failed" };
    struct listing l = { .sweep = sweep };
    struct store_rows rows = { NULL, list_row, &l };
    struct str out = { 0 };
    table_init(&l.table, 6);
    for (int i = 0; i < 6; i++) table_add(&l.table, header[i]);
    int rc = store_query(r->store, "SELECT task, encoder, seed, label, attempts, reason, run_key FROM failures WHERE state IN ('failed', 'timeout')", NULL, 0, 0, &rows, &r->err);
    if (l.n) table_write(&l.table, TABLE_TEXT, &out);
    str_printf(&out, l.n ? "\n%zu run%s would be tried again\n" : "no run failed\n", l.n, l.n == 1 ? "" : "s");
    if (rc == 0) fputs(str_text(&out), stdout);
    str_free(&out);
    table_free(&l.table);
    return rc == 0 ? EXIT_DONE : cli_fail(r->cmd, EXIT_DATABASE, &r->err);
}

/* ---- trying ---- */

/* Which runs of a sweep have failed and were not tried yet?  Their number, or -1. */
static int mark_failed(struct retry *r, const struct sweep *sweep, unsigned char *only)
{
    int n = 0;
    for (size_t i = 0; i < sweep->n; i++) {
        const char *key = sweep->run[i].config.key;
        struct store_status status;
        if (store_run_status(r->store, key, &status, &r->err) != 0) return -1;
        if (status.state != STORE_FAILED || contains(&r->tried, key)) continue;
        if (add_key(&r->tried, key, &r->err) != 0) return -1;
        only[i] = 1;
        n++;
    }
    return n;
}

static void try_sweep(struct retry *r, const struct sweep *sweep)
{
    unsigned char *only = mem_alloc(sweep->n, &r->err);
    struct sched_options options = { .jobs = (int)r->jobs, .quiet = r->quiet, .only = only };
    int n = only ? mark_failed(r, sweep, only) : -1;
    if (n < 0) worse(r, cli_fail(r->cmd, EXIT_DATABASE, &r->err));
    if (n > 0) worse(r, run_sweep(r->cmd, r->store, sweep, &options));
    free(only);
}

static void build_and_try(struct retry *r, const struct conf *conf)
{
    struct sweep sweep;
    if (sweep_build(&sweep, conf, &r->registry, &r->err) != 0) { worse(r, cli_fail(r->cmd, EXIT_USAGE, &r->err)); return; }
    if (r->dry_run) worse(r, list(r, &sweep));
    else try_sweep(r, &sweep);
    sweep_free(&sweep);
}

/* ---- all experiments of the database ---- */

static int keep(void *ctx, int n, const struct store_value *v)
{
    struct retry *r = ctx;
    (void)n;
    r->failed = 1;
    if (mem_grow(&r->kept, &r->cap_kept, r->n_kept + 1, sizeof *r->kept, &r->err) != 0) return 1;
    struct kept *k = &r->kept[r->n_kept++];
    char **const field[] = { &k->name, &k->path, &k->text, &k->sha256 };
    *k = (struct kept){ 0 };
    for (int i = 0; i < 4; i++) if (!(*field[i] = mem_strdup(v[i].text, &r->err))) return 1;
    return r->failed = 0;
}

static void try_kept(struct retry *r, const struct kept *k)
{
    struct conf conf;
    if (conf_read_text(&conf, k->path, k->text, strlen(k->text), &r->err) != 0) { worse(r, cli_fail(r->cmd, EXIT_USAGE, &r->err)); return; }
    if (!strcmp(conf.sha256, k->sha256)) build_and_try(r, &conf);
    else {
        lab_fail(&r->err, "%s: failed runs of it were made with --set; name it with the same: lab retry FILE.ini --set ...", k->path);
        worse(r, cli_fail(r->cmd, EXIT_SOME_FAILED, &r->err));
    }
    conf_free(&conf);
}

static void try_all(struct retry *r)
{
    static const char sql[] = "SELECT name, ini_path, ini_text, ini_sha256 FROM sweep WHERE sweep_id IN (SELECT c.sweep_id FROM failures f JOIN run r USING(run_key)"
                              " JOIN sweep_cell c USING(run_id) WHERE f.state IN ('failed', 'timeout')) ORDER BY sweep_id DESC";
    struct store_rows rows = { NULL, keep, r };
    if (store_query(r->store, sql, NULL, 0, 0, &rows, &r->err) != 0 || r->failed) { worse(r, cli_fail(r->cmd, EXIT_DATABASE, &r->err)); return; }
    for (size_t i = 0; i < r->n_kept; i++) {
        if (r->code == EXIT_INTERRUPTED || r->code == EXIT_SECOND_INTERRUPT || r->code == EXIT_DATABASE) break;
        try_kept(r, &r->kept[i]);
    }
}

static void release(struct retry *r)
{
    for (size_t i = 0; i < r->n_kept; i++) {
        char *const field[] = { r->kept[i].name, r->kept[i].path, r->kept[i].text, r->kept[i].sha256 };
        for (int f = 0; f < 4; f++) free(field[f]);
    }
    free(r->kept);
    free(r->tried.key);
}

/* ---- the command ---- */

static int open_database(struct retry *r)
{
    if (!r->dry_run && access(r->db, F_OK) == 0) return run_open(r->cmd, &r->store, r->db);
    return store_open(&r->store, r->db, STORE_READ, &r->err) == 0 ? EXIT_DONE : cli_fail(r->cmd, EXIT_DATABASE, &r->err);
}

static int retry(struct retry *r, const struct conf *conf)
{
    int code = open_database(r);
    if (code != EXIT_DONE) return code;
    if (conf) build_and_try(r, conf);
    else if (r->dry_run) r->code = list(r, NULL);
    else try_all(r);
    if (r->code == EXIT_DONE && !r->dry_run && !r->tried.n) puts("no run failed");
    store_close(r->store);
    return r->code;
}

int cmd_retry(const struct cmd *cmd, int argc, char **argv)
{
    struct retry r = { .cmd = cmd, .db = CLI_DEFAULT_DB, .code = EXIT_DONE };
    const struct cli_option option[] = {
        { "--dry-run", 0, CLI_FLAG, NULL, "list what would be tried again and start nothing", &r.dry_run },
        { "--jobs", 'j', CLI_INT, "N", "runs at once (default: the number of cores)", &r.jobs },
        CLI_DB(&r.db), CLI_SET(&r.set), CLI_PLUGIN(&r.plugin),
        { "--quiet", 'q', CLI_FLAG, NULL, "no progress on stderr; failures are still named", &r.quiet }, CLI_END };
    struct conf conf = { 0 };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    *r.err.msg = '\0';
    if (r.jobs > SCHED_MAX_JOBS) lab_fail(&r.err, "--jobs is %lld (limit is %d)", (long long)r.jobs, SCHED_MAX_JOBS);
    else cli_conf_if_named(&conf, argc, argv, &r.set, &r.err);
    if (*r.err.msg) return cli_fail(cmd, EXIT_USAGE, &r.err);
    int code = EXIT_USAGE;
    if (cli_registry(&r.registry, &r.plugin, &r.err) != 0) cli_fail(cmd, code, &r.err);
    else {
        code = retry(&r, argc == 2 ? &conf : NULL);
        registry_free(&r.registry);
    }
    conf_free(&conf);
    release(&r);
    return code;
}
