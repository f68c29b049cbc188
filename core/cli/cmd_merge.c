/* cmd_merge -- lab merge: takes over into one database what others hold, or all shards of a plan.
 *
 * What is refused is named, and the rest is merged all the same.  Two different results for one run are both kept, shown
 * with their environments, and make the exit code 4.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/str.h"
#include "base/whole.h"
#include "cli/cmd.h"
#include "cli/run.h"
#include "exp/frozen.h"
#include "run/task.h"
#include "store/aside.h"
#include "store/merge.h"

struct merging {
    const struct cmd *cmd;
    const char *db;                  /* where it goes */
    struct store *out;               /* that database, or a copy of it on this machine's disk */
    int64_t merged, known, refused, attempts, conflicts;
    struct lab_err err;
};

/* ---- what is merged ---- */

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void told(void *ctx, const char *path, const struct merge_result *r, const char *refusal)
{
    struct merging *m = ctx;
    (void)path;
    if (refusal) m->refused++, fprintf(stderr, "lab merge: %s; left out\n", refusal);
    else m->merged += !r->known, m->known += r->known, m->attempts += r->attempts;
}

/* 0, or -1 when the database that is written to failed. */
static int merge_files(struct merging *m, char *const *path, size_t n)
{
    return merge_databases(m->out, path, n, &(struct merge_listener){ told, m }, &m->err);
}

/* All of a plan is entered, so that what is missing shows.  Where its plugins are not, its shards have to do. */
static void enter_plan(struct merging *m, const char *folder)
{
    struct frozen plan;
    struct lab_err why;
    if (frozen_read(&plan, folder, &why) != 0) {
        fprintf(stderr, "lab merge: %s; only what its shards tell is merged\n", why.msg);
        return;
    }
    if (sched_enter(m->out, &plan.sweep, &why) != 0) fprintf(stderr, "lab merge: %s\n", why.msg);
    frozen_release(&plan);
}

/* Weights lie beside a database, in a plan beside its shards.  One file may bear both names. */
static void bring_weights(struct merging *m, const char *folder)
{
    struct str from = { 0 }, to = { 0 };
    struct lab_err why;
    const char *db = m->db, *slash = strrchr(db, '/');
    int n = slash ? (int)(slash - db) + 1 : 0, failed = 0;
    str_printf(&to, "%.*sweights", n, db);
    if (!to.failed) mkdir(to.text, 0777);
    str_printf(&from, "%s/weights", folder);
    DIR *d = from.failed ? NULL : opendir(from.text);
    for (struct dirent *e; d && !failed && (e = readdir(d)); ) {
        if (*e->d_name == '.') continue;
        str_clear(&from);
        str_clear(&to);
        str_printf(&from, "%s/weights/%s", folder, e->d_name);
        str_printf(&to, "%.*sweights/%s", n, db, e->d_name);
        failed = from.failed || to.failed || (link(from.text, to.text) != 0 && errno != EEXIST && whole_copy(from.text, to.text, &why) != 0);
    }
    if (failed) fprintf(stderr, "lab merge: weights were not all brought over, so a new evaluation may train anew: %s\n", why.msg);
    if (d) closedir(d);
    str_free(&from);
    str_free(&to);
}

static int merge_plan(struct merging *m, const char *folder)
{
    struct task_shards shards;
    if (task_shards_read(&shards, folder, &m->err) != 0) return m->refused++, fprintf(stderr, "lab merge: %s; left out\n", m->err.msg), 0;
    enter_plan(m, folder);
    int rc = merge_files(m, shards.path, shards.n);
    task_shards_free(&shards);
    if (rc == 0) bring_weights(m, folder);
    return rc;
}

/* ---- two results for one run ---- */

static int tell_difference(void *ctx, int n, const struct store_value *v)
{
    (void)ctx, (void)n;
    if (v[3].integer) fprintf(stderr, "  %-14s %s\n", v[0].text, v[1].text);
    else fprintf(stderr, "  %-14s %s  |  %s\n", v[0].text, v[1].text, v[2].text);
    return 0;
}

enum { CONFLICT_TEXTS = 12 };       /* the columns of merge_conflicts */
struct conflict { char *text[CONFLICT_TEXTS]; };
struct conflicts { struct conflict *item; size_t n, cap; struct lab_err *err; };

static int keep_conflict(void *ctx, int n, const struct store_value *v)
{
    struct conflicts *c = ctx;
    if (mem_grow(&c->item, &c->cap, c->n + 1, sizeof *c->item, c->err) != 0) return 1;
    struct conflict *new = &c->item[c->n++];
    *new = (struct conflict){ { NULL } };
    for (int i = 0; i < n && i < CONFLICT_TEXTS; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)v[i].integer);
        if (!(new->text[i] = mem_strdup(v[i].type == STORE_TEXT ? v[i].text : number, c->err))) return 1;
    }
    return 0;
}

/* What differs first; then what a reader wants to know anyway. */
static int tell_conflict(struct merging *m, const struct conflict *c)
{
    static const char sql[] =
        "SELECT x.key, x.value, y.value, x.value IS y.value FROM json_each(?1) x LEFT JOIN json_each(?2) y ON y.key = x.key"
        " WHERE x.value IS NOT y.value OR x.key IN ('cpu', 'blas', 'simd', 'commit', 'compiler') ORDER BY x.value IS y.value, x.key";
    const char *env[] = { c->text[7], c->text[11] };
    struct store_rows rows = { NULL, tell_difference, m };
    fprintf(stderr, "lab merge: %s %s seed %s (run %.12s) has two DIFFERENT results:\n  shown          attempt %.8s on %s, ended %s\n"
            "  superseded     attempt %.8s on %s, ended %s\n", c->text[1], c->text[2], c->text[3], c->text[0], c->text[4], c->text[5], c->text[6],
            c->text[8], c->text[9], c->text[10]);
    if (!strcmp(env[0], env[1])) fprintf(stderr, "  both in the same environment: a plugin or a machine is at fault; see `lab check`\n");
    return store_query(m->out, sql, env, 2, 0, &rows, &m->err);
}

static int tell_conflicts(struct merging *m)
{
    struct conflicts c = { .err = &m->err };
    struct store_rows rows = { NULL, keep_conflict, &c };
    m->err.msg[0] = '\0';
    int rc = store_query(m->out, merge_conflicts, NULL, 0, 0, &rows, &m->err);
    if (*m->err.msg) rc = -1;        /* also when a row could not be kept */
    for (size_t i = 0; rc == 0 && i < c.n; i++) rc = tell_conflict(m, &c.item[i]);
    m->conflicts = (int64_t)c.n;
    for (size_t i = 0; i < c.n; i++) for (int k = 0; k < CONFLICT_TEXTS; k++) free(c.item[i].text[k]);
    free(c.item);
    return rc;
}

/* ---- the command ---- */

static void print_json(const struct merging *m)
{
    printf("{\"merged\": %lld, \"known\": %lld, \"refused\": %lld, \"attempts\": %lld, \"conflicts\": %lld}\n", (long long)m->merged,
           (long long)m->known,
           (long long)m->refused, (long long)m->attempts, (long long)m->conflicts);
}

static void print_summary(const struct merging *m)
{
    printf("%s: %lld database%s merged, %lld attempt%s added", m->db, (long long)m->merged, m->merged == 1 ? "" : "s", (long long)m->attempts,
           m->attempts == 1 ? "" : "s");
    if (m->known) printf("; %lld known already", (long long)m->known);
    if (m->refused) printf("; %lld refused", (long long)m->refused);
    if (m->conflicts) printf("; %lld different result%s", (long long)m->conflicts, m->conflicts == 1 ? "" : "s");
    printf("\n");
}

static int print_end(const struct merging *m, int json)
{
    if (json) print_json(m);
    else print_summary(m);
    return m->conflicts ? EXIT_CONFLICT : m->refused ? EXIT_DATABASE : EXIT_DONE;
}

static int merge_all(struct merging *m, struct aside *aside, int n, char **path, int json)
{
    int rc = 0;
    for (int i = 0, files; i < n && rc == 0; i += files ? files : 1) {
        for (files = 0; i + files < n && !is_folder(path[i + files]); ) files++;
        rc = files ? merge_files(m, path + i, (size_t)files) : merge_plan(m, path[i]);
    }
    if (rc == 0) rc = tell_conflicts(m);
    if (rc == 0 && aside) rc = aside_put_back(aside, m->out, &m->err);
    return rc == 0 ? print_end(m, json) : cli_fail(m->cmd, EXIT_DATABASE, &m->err);
}

/* Would all of it be refused?  Then no database is made for it. */
static int is_hopeless(struct merging *m, int n, char **path)
{
    struct str why = { 0 };
    int hope = 0;
    for (int i = 0; i < n && !hope; i++) {
        hope = is_folder(path[i]) || merge_judge(path[i], &m->err) == 0;
        if (!hope) str_printf(&why, "lab merge: %s; left out\n", m->err.msg);
    }
    if (!hope) m->refused = n, fputs(str_text(&why), stderr);
    str_free(&why);
    return !hope;
}

/* In place, or, where SQLite must not write, in a copy that is put back. */
static int open_and_merge(struct merging *m, int n, char **path, int json)
{
    struct aside aside = { .lock = -1 };
    char network[32], folder[WHOLE_PATH] = ".";
    const char *slash = strrchr(m->db, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - m->db) + 1, m->db);
    if (access(folder, F_OK) != 0 && whole_folder(folder, &m->err) != 0) return cli_fail(m->cmd, EXIT_DATABASE, &m->err);
    store_network(folder, network);
    if (*network && aside_open(&aside, m->db, &m->err) != 0) return cli_fail(m->cmd, EXIT_DATABASE, &m->err);
    int code = run_open(m->cmd, &m->out, *network ? aside.copy : m->db);
    if (code == EXIT_DONE && !*network) m->db = store_path(m->out);          /* weights go beside it, links followed */
    if (code == EXIT_DONE) code = merge_all(m, *network ? &aside : NULL, n, path, json);
    store_close(m->out);
    aside_close(&aside);
    return code;
}

int cmd_merge(const struct cmd *cmd, int argc, char **argv)
{
    struct merging m = { .cmd = cmd };
    int json = 0;
    const struct cli_option option[] = { CLI_JSON(&json), CLI_END };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc < 3) lab_fail(&m.err, "expected a database to merge into, then databases or plans; see `lab merge --help`");
    for (int i = 2; i < argc && !*m.err.msg; i++) {
        struct frozen_head head;
        if (access(argv[i], F_OK) != 0) lab_fail(&m.err, "%s: %s", argv[i], strerror(errno));
        else if (is_folder(argv[i]) && frozen_head_read(&head, argv[i], &m.err) == 0) frozen_head_release(&head);
    }
    if (*m.err.msg) return cli_fail(cmd, EXIT_USAGE, &m.err);
    m.db = argv[1];
    if (access(m.db, F_OK) != 0 && is_hopeless(&m, argc - 2, argv + 2)) return print_end(&m, json);
    return open_and_merge(&m, argc - 2, argv + 2, json);
}
