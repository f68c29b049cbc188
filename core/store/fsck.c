/* fsck -- see fsck.h. */
#include "store/fsck.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/str.h"
#include "store/db.h"
#include "store/files.h"
#include "store/spill.h"

enum { SHOWN = 10 };                 /* findings of one check; the others are counted */
static const char recover[] = "restore a backup, or save what can be read: sqlite3 DATABASE .recover | sqlite3 NEW.db";

struct fsck {
    struct store *store;
    int repair;
    const struct fsck_listener *listener;
    struct lab_err *err;
    const char *check;               /* the one at work ... */
    int found, failed;               /* ... and what it found; failed: the database did, err says how */
};

__attribute__((format(printf, 4, 5)))
static void tell(struct fsck *f, enum fsck_level level, const char *advice, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (level != FSCK_OK && f->found++ >= SHOWN) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->listener->tell(f->listener->ctx, &(struct fsck_finding){ level, f->check, text, advice });
}

/* Each row of a statement to take. */
static void for_rows(struct fsck *f, const char *sql, void (*take)(struct fsck *, sqlite3_stmt *))
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(f->store->db, sql, -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        take(f, st);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE) f->failed = 1, db_fail(f->store, f->err);
    sqlite3_finalize(st);
}

static const char *text_at(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

static int run_sql(struct fsck *f, const char *sql)
{
    if (sqlite3_exec(f->store->db, sql, NULL, NULL, NULL) == SQLITE_OK) return 0;
    f->failed = 1;
    return db_fail(f->store, f->err);
}

/* ---- pages: does SQLite understand every byte of the file? ---- */

static void take_page(struct fsck *f, sqlite3_stmt *st)
{
    if (strcmp(text_at(st, 0), "ok")) tell(f, FSCK_BAD, recover, "%s", text_at(st, 0));
}

/* Indexes can be made again from their tables: damage in them alone is no loss. */
static int only_indexes(struct fsck *f)
{
    sqlite3_stmt *st = NULL;
    int some = 0, other = 0;
    int rc = sqlite3_prepare_v2(f->store->db, "PRAGMA integrity_check(1000)", -1, &st, NULL);
    while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        const char *text = text_at(st, 0);
        int index = strstr(text, "missing from index") || strstr(text, "entries in index") || strstr(text, "non-unique entry in index");
        if (index) some++;
        else if (strcmp(text, "ok")) other++;
    }
    sqlite3_finalize(st);
    return some && !other;
}

static void check_pages(struct fsck *f)
{
    if (f->repair && only_indexes(f) && sqlite3_exec(f->store->db, "REINDEX", NULL, NULL, NULL) == SQLITE_OK)
        tell(f, FSCK_MENDED, NULL, "indexes did not fit their tables: made again from them");
    for_rows(f, "PRAGMA integrity_check(100)", take_page);
}

/* ---- references: does every row find the rows it refers to? ---- */

static void take_reference(struct fsck *f, sqlite3_stmt *st)
{
    tell(f, FSCK_BAD, "restore a backup: part of this database was deleted by another program",
         "%s of %s refer to rows of %s that are not there", text_at(st, 2),
         text_at(st, 0), text_at(st, 1));
}

static void check_references(struct fsck *f)
{
    for_rows(f, "SELECT \"table\", parent, count(*) || ' rows' FROM pragma_foreign_key_check GROUP BY 1, 2", take_reference);
}

/* ---- definitions: are tables, indexes and views those of this lab? ---- */

struct object { char *type, *name, *sql; };
struct schema { struct object *item; size_t n, cap; };

static void schema_release(struct schema *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->item[i].type), free(s->item[i].name), free(s->item[i].sql);
    free(s->item);
}

static int schema_read(struct schema *s, struct store *store, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(store->db, "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name", -1, &st, NULL), ok = 1;
    while (rc == SQLITE_OK && ok && sqlite3_step(st) == SQLITE_ROW) {
        ok = mem_grow(&s->item, &s->cap, s->n + 1, sizeof *s->item, err) == 0;
        if (!ok) break;
        struct object *o = &s->item[s->n++];
        o->type = mem_strdup(text_at(st, 0), err);
        o->name = mem_strdup(text_at(st, 1), err);
        o->sql = mem_strdup(text_at(st, 2), err);
        ok = o->type && o->name && o->sql;
    }
    sqlite3_finalize(st);
    return rc != SQLITE_OK ? db_fail(store, err) : ok ? 0 : -1;
}

static const struct object *schema_find(const struct schema *s, const struct object *wanted)
{
    for (size_t i = 0; i < s->n; i++) if (!strcmp(s->item[i].type, wanted->type) && !strcmp(s->item[i].name, wanted->name)) return &s->item[i];
    return NULL;
}

/* What a new database would have, made in memory. */
static int schema_expected(struct schema *s, struct lab_err *err)
{
    struct store memory = { .path = (char *)"a new database" };
    int rc = sqlite3_open(":memory:", &memory.db) == SQLITE_OK ? db_make_tables(&memory, err) : db_fail(&memory, err);
    if (rc == 0) rc = schema_read(s, &memory, err);
    sqlite3_close(memory.db);
    return rc;
}

static void judge_object(struct fsck *f, const struct object *want, const struct object *have, int *views)
{
    int view = !strcmp(want->type, "view"), index = !strcmp(want->type, "index");
    if (have && !strcmp(have->sql, want->sql)) return;
    if (view) { ++*views; return; }
    if (index && !have && f->repair && run_sql(f, want->sql) == 0) tell(f, FSCK_MENDED, NULL, "index %s was missing: made again", want->name);
    else if (index && !have) tell(f, FSCK_BAD, "`lab fsck --repair` makes it again", "index %s is missing", want->name);
    else tell(f, FSCK_BAD, "use the lab that made this database, or choose another with --db", "%s %s %s", want->type, want->name,
              have ? "is not this lab's" : "is missing");
}

static void check_definitions(struct fsck *f)
{
    struct schema want = { 0 }, have = { 0 };
    int views = 0, made = f->store->views_made;
    if (made && f->repair) tell(f, FSCK_MENDED, NULL, "%d view%s missing or not this lab's: made again", made, made == 1 ? " was" : "s were");
    if (schema_expected(&want, f->err) != 0 || schema_read(&have, f->store, f->err) != 0) f->failed = 1;
    for (size_t i = 0; !f->failed && i < want.n; i++) judge_object(f, &want.item[i], schema_find(&have, &want.item[i]), &views);
    if (views) tell(f, FSCK_BAD, "`lab fsck --repair` makes them again, and so does the next `lab run`",
                    "%d view%s missing or not this lab's", views, views == 1 ? " is" : "s are");
    schema_release(&want);
    schema_release(&have);
}

/* ---- attempts: is everybody there who says so, is everything there that was said? ---- */

static void take_running(struct fsck *f, sqlite3_stmt *st)
{
    struct store_status now;
    if (store_run_status(f->store, text_at(st, 0), &now, f->err) != 0) f->failed = 1;
    else if (now.state == STORE_INTERRUPTED)
        tell(f, FSCK_NOTE, "the next `lab run` goes on with it, and so marks it lost; `lab fsck --repair` marks it now",
             "run %.16s says that it is running, but %s", text_at(st, 0), now.reason);
}

static void take_unevaluated(struct fsck *f, sqlite3_stmt *st)
{
    tell(f, FSCK_NOTE, "`lab run` with its experiment file evaluates the kept weights",
         "run %.16s (%s %s seed %s) is done, but was never evaluated", text_at(st, 0), text_at(st, 1),
         text_at(st, 2), text_at(st, 3));
}

/* Equal runs in equal circumstances end in equal weights, whatever was evaluated. */
static void take_unequal(struct fsck *f, sqlite3_stmt *st)
{
    tell(f, FSCK_BAD, "look at both (table attempt); `lab check` tells whether the plugins keep their promise to be repeatable",
         "run %.16s was trained to %s different weights in the same circumstances", text_at(st, 0), text_at(st, 1));
}

static void check_attempts(struct fsck *f)
{
    int lost = f->store->marked_lost;
    if (f->repair && lost) tell(f, FSCK_MENDED, NULL, "%d attempt%s said to be running, but the process was gone: marked as lost",
                                lost, lost == 1 ? "" : "s");
    for_rows(f, "SELECT r.run_key FROM attempt a JOIN run r USING(run_id) WHERE a.status = 'running'", take_running);
    for_rows(f, "SELECT r.run_key, r.task, r.encoder, r.seed FROM attempt a JOIN run r USING(run_id) WHERE a.status = 'done' AND NOT EXISTS"
                " (SELECT 1 FROM eval e WHERE e.attempt_id = a.attempt_id AND e.split = 'test' AND e.step = a.last_step)", take_unevaluated);
    for_rows(f, "SELECT r.run_key, count(DISTINCT w.sha256) FROM artifact w JOIN attempt a USING(attempt_id) JOIN run r USING(run_id)"
                " WHERE w.kind = 'weights' GROUP BY a.run_id, a.env_id HAVING count(DISTINCT w.sha256) > 1", take_unequal);
}

/* ---- results: do the rows still say what the worker said? ---- */

/* Withdrawn it is trained again, to the bits that it had; its rows stay, as evidence. */
static void take_result(struct fsck *f, sqlite3_stmt *st)
{
    char sum[HASH_HEX];
    int64_t attempt_id = sqlite3_column_int64(st, 0);
    const char *key = text_at(st, 2);
    if (db_result(f->store, attempt_id, sum, f->err) != 0) f->failed = 1;
    else if (!strcmp(sum, text_at(st, 1))) return;
    else if (!f->repair)
        tell(f, FSCK_BAD, "`lab fsck --repair` withdraws it, and the next `lab run` trains it again",
             "the result of run %.16s was changed after it was entered: its rows do not fit its hash", key);
    else if (store_supersede(f->store, attempt_id, f->err) != 0) f->failed = 1;
    else tell(f, FSCK_MENDED, "the next `lab run` trains it again", "the result of run %.16s did not fit its hash: withdrawn", key);
}

static void check_results(struct fsck *f)
{
    for_rows(f, "SELECT a.attempt_id, a.result_sha256, r.run_key FROM attempt a JOIN run r USING(run_id)"
                " WHERE a.status = 'done' AND length(a.result_sha256) = 64 ORDER BY r.run_key || ''", take_result);     /* sorted first: a row may change its attempt */
}

/* ---- weights: are the files those that were written? ---- */

static void put_aside(struct fsck *f, const char *path, const char *what)
{
    struct str aside = { 0 };
    str_printf(&aside, "%s.damaged", path);
    if (!f->repair) tell(f, FSCK_BAD, "`lab fsck --repair` puts it aside; its results stay, and are trained again only if a new length is asked for", "%s %s", path, what);
    else if (!aside.failed && rename(path, aside.text) == 0) tell(f, FSCK_MENDED, NULL, "%s %s: put aside as %s", path, what, aside.text);
    else tell(f, FSCK_BAD, "make its folder writable", "%s %s, and cannot be put aside", path, what);
    str_free(&aside);
}

static void compare_weights(struct fsck *f, const char *path, const char *key, int64_t bytes, const char *sha256)
{
    char found[HASH_HEX], what[160];
    struct lab_err why;
    struct stat st;
    if (stat(path, &st) != 0) {
        tell(f, FSCK_NOTE, "its results stay; asking for a new length trains it again", "the weights of run %.16s are not there (%s)", key, path);
        return;
    }
    snprintf(what, sizeof what, "has %lld bytes, but %" PRId64 " were written", (long long)st.st_size, bytes);
    if (st.st_size != bytes) put_aside(f, path, what);
    else if (hash_file(path, found, &why) != 0) tell(f, FSCK_BAD, "make it readable", "%s", why.msg);
    else if (strcmp(found, sha256)) put_aside(f, path, "does not hold what was written: its SHA-256 differs");
}

/* Attempts wrote them by a path of their time; they lie beside the database. */
static void take_weights(struct fsck *f, sqlite3_stmt *st)
{
    struct str path = { 0 };
    const char *db = store_path(f->store), *slash = strrchr(db, '/');
    str_addn(&path, db, slash ? (size_t)(slash - db) + 1 : 0);
    str_printf(&path, "%s/%.16s.safetensors", files_folder[FILES_WEIGHTS], text_at(st, 0));
    if (path.failed) f->failed = 1, lab_fail(f->err, "%s: out of memory", db);
    else compare_weights(f, path.text, text_at(st, 0), sqlite3_column_int64(st, 1), text_at(st, 2));
    str_free(&path);
}

static void check_weights(struct fsck *f)
{
    for_rows(f, "SELECT r.run_key, w.bytes, w.sha256 FROM artifact w JOIN attempt a USING(attempt_id) JOIN run r USING(run_id)"
                " WHERE w.kind = 'weights' AND a.status = 'done' ORDER BY r.run_key", take_weights);
}

/* ---- files that nobody needs ---- */

static void check_files(struct fsck *f)
{
    struct files files;
    int64_t n = 0, bytes = 0;
    if (files_read(&files, f->store, f->err) != 0) { f->failed = 1; return; }
    for (size_t i = 0; i < files.n; i++)
        if (files.item[i].owner == FILES_OF_NOBODY) n++, bytes += files.item[i].bytes;
    if (*files.unread) tell(f, FSCK_NOTE, "what its runs need is not known: move it away, then look again", "%s", files.unread);
    if (n) tell(f, FSCK_NOTE, "`lab gc` removes them; `lab gc --dry-run` tells which",
                "%" PRId64 " files of %.1f MB are of no run here", n, (double)bytes / 1e6);
    files_release(&files);
}

/* ---- results that waited while the database could not be written: opened to repair, it has entered what it could ---- */

static void check_waiting(struct fsck *f)
{
    struct spill_count count;
    if (spill_enter(f->store, 0, &count, f->err) != 0) f->failed = 1;
    else if (count.waiting)
        tell(f, FSCK_NOTE, "the next `lab run` enters what is of this database, and so does `lab fsck --repair`; delete what cannot be entered",
             "%d result%s wait%s outside the database: %s", count.waiting, count.waiting == 1 ? "" : "s", count.waiting == 1 ? "s" : "", count.why);
}

static const struct { const char *name, *sound; void (*run)(struct fsck *); } check[] = {
    { "pages", "every page and index is sound", check_pages },
    { "references", "every row finds what it refers to", check_references },
    { "definitions", "tables, indexes and views are those of this lab", check_definitions },
    { "attempts", "whoever says so is running, what is done was evaluated", check_attempts },
    { "results", "every result fits its hash", check_results },
    { "weights", "every file is what was written", check_weights },
    { "waiting", "no result waits outside the database", check_waiting },
    { "files", "every file beside the database is of a run", check_files } };

int fsck_run(struct store *store, int repair, const struct fsck_listener *listener, struct lab_err *err)
{
    struct fsck f = { .store = store, .repair = repair, .listener = listener, .err = err };
    for (size_t i = 0; i < sizeof check / sizeof *check && !f.failed; i++) {
        f.check = check[i].name;
        f.found = 0;
        check[i].run(&f);
        if (f.failed && (sqlite3_errcode(store->db) & 0xff) == SQLITE_CORRUPT) {     /* the others may still find their pages sound */
            f.failed = 0;
            tell(&f, FSCK_BAD, recover, "%s", err->msg);
        }
        if (f.failed) break;
        if (!f.found) tell(&f, FSCK_OK, NULL, "%s", check[i].sound);
        if (f.found > SHOWN) listener->tell(listener->ctx, &(struct fsck_finding){ FSCK_NOTE, f.check, "and more like these", NULL });
    }
    return f.failed ? -1 : 0;
}
