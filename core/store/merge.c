/* merge -- see merge.h.
 *
 * Of each database is looked first whose it is, and at every page, by a thread that is one database ahead, and its definitions must be ours.
 * So its rows obey the constraints of our tables, and are not held against them a second time: that would double the time.
 * The other database is attached as `s`, read-only.  What a table has in columns is asked of the schema, so that a column,
 * or a table of what an attempt measured (it has a column attempt_id), is merged without a word here.
 */
#include "store/merge.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/str.h"
#include "store/db.h"

enum { REFUSED = 1 };
enum merge_how { MERGE_ALL, MERGE_WANTED };
struct merge {
    struct store *store;
    const char *path;                /* of the other one */
    struct lab_err *err;
};

/* ---- failures: whose are they? ---- */

static int fail(const struct merge *m)
{
    static const int ours[] = { SQLITE_FULL, SQLITE_READONLY, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR, SQLITE_NOMEM, SQLITE_INTERRUPT };
    int code = sqlite3_errcode(m->store->db) & 0xff;
    const char *why = sqlite3_errmsg(m->store->db);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) if (code == ours[i]) return db_fail(m->store, m->err);
    if (code == SQLITE_CONSTRAINT && strstr(why, "sweep_cell"))
        lab_fail(m->err, "%s: its plan of an experiment is not the one in %s: the same file gave other runs there", m->path, m->store->path);
    else if (code == SQLITE_CANTOPEN) lab_fail(m->err, "%s: cannot be opened", m->path);
    else if (code == SQLITE_NOTADB) lab_fail(m->err, "%s: is not a database", m->path);
    else if (code == SQLITE_CORRUPT) lab_fail(m->err, "%s: is damaged (%s)", m->path, why);
    else lab_fail(m->err, "%s: cannot be merged (%s)", m->path, why);
    return REFUSED;
}

static int run(const struct merge *m, const char *sql)
{
    return sqlite3_exec(m->store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(m);
}

static int run_str(const struct merge *m, struct str *sql)
{
    int rc = sql->failed ? lab_fail(m->err, "out of memory for a merge") : run(m, str_text(sql));
    str_free(sql);
    return rc;
}

/* The first value of the first row as text ("" if there is none), with up to two texts for ?1 and ?2. */
static int ask(const struct merge *m, const char *sql, const char *a, const char *b, char *out, size_t size)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(m->store->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK && a) rc = sqlite3_bind_text(st, 1, a, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && b) rc = sqlite3_bind_text(st, 2, b, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (out) snprintf(out, size, "%s", text ? text : "");
    int failed = rc != SQLITE_ROW && rc != SQLITE_DONE ? fail(m) : 0;
    sqlite3_finalize(st);
    return failed;
}

static int ask_integer(const struct merge *m, const char *sql, int64_t *out)
{
    char text[32];
    int rc = ask(m, sql, NULL, NULL, text, sizeof text);
    if (rc == 0 && !str_to_int(text, INT64_MIN, INT64_MAX, out)) *out = 0;
    return rc;
}

/* ---- the other database ---- */

static int has_wal(const char *path)
{
    struct str wal = { 0 };
    struct stat st;
    str_printf(&wal, "%s-wal", path);
    int has = !wal.failed && stat(wal.text, &st) == 0 && st.st_size > 0;
    str_free(&wal);
    return has;
}

/* A published file never changes, so it needs no lock and nothing beside it; one that is in use is shared. */
static void uri_of(struct str *uri, const char *path)
{
    str_add(uri, *path == '/' ? "file://" : "file:./");
    for (const char *p = path; *p; p++) {
        if (strchr("%?#", *p)) str_printf(uri, "%%%02x", (unsigned char)*p);
        else str_addn(uri, p, 1);
    }
    str_add(uri, has_wal(path) ? "?mode=ro" : "?mode=ro&immutable=1");
}

static int attach(const struct merge *m)
{
    struct str uri = { 0 };
    uri_of(&uri, m->path);
    int rc = uri.failed ? lab_fail(m->err, "out of memory for a merge") : ask(m, "ATTACH ?1 AS s", uri.text, NULL, NULL, 0);
    str_free(&uri);
    return rc;
}

/* Of a handle that has the other database as its own. */
static int check_whose(const struct merge *m)
{
    int64_t application, version;
    int rc;
    if ((rc = ask_integer(m, "PRAGMA application_id", &application)) != 0 || (rc = ask_integer(m, "PRAGMA user_version", &version)) != 0) return rc;
    if (application != DB_APPLICATION) return lab_fail(m->err, "%s: is not a results database of lab", m->path), REFUSED;
    if (version > DB_SCHEMA)
        return lab_fail(m->err, "%s: was written by a newer lab (schema %" PRId64 ", this one reads %d)", m->path, version, DB_SCHEMA), REFUSED;
    if (version < DB_SCHEMA)
        return lab_fail(m->err, "%s: was written by an earlier lab (schema %" PRId64 ", this one reads %d); bring a copy up with `lab fsck --repair --db`",
                        m->path, version, DB_SCHEMA), REFUSED;
    return 0;
}

/* The bytes of one definition: what integrity_check found to be obeyed there is then obeyed here. */
static int check_definitions(const struct merge *m)
{
    char name[100];
    int rc = ask(m, "SELECT t.type || ' ' || t.name FROM main.sqlite_schema t LEFT JOIN s.sqlite_schema x ON x.type = t.type AND x.name = t.name"
                    " WHERE t.type = 'table' AND t.sql IS NOT x.sql LIMIT 1", NULL, NULL, name, sizeof name);
    if (rc != 0 || !*name) return rc;
    return lab_fail(m->err, "%s: its %s is not this lab's", m->path, name), REFUSED;
}

/* The tables of this handle's own: what is wanted, what was touched, and what is being taken over. */
static int make_temporary(const struct merge *m)
{
    return run(m, "PRAGMA temp_store = MEMORY;"
                  "CREATE TEMP TABLE IF NOT EXISTS wanted(run_key TEXT PRIMARY KEY) WITHOUT ROWID;"
                  "CREATE TEMP TABLE IF NOT EXISTS touched(run_id INTEGER PRIMARY KEY);"
                  "CREATE TEMP TABLE IF NOT EXISTS taken(old INTEGER PRIMARY KEY, uuid TEXT UNIQUE, run_id, env_id, new, rival, wins);"
                  "CREATE TEMP TABLE IF NOT EXISTS further(old, new);"
                  "CREATE TEMP TABLE IF NOT EXISTS pair(shown, second, same)");
}

/* ---- looking whose it is, and at every page, in a thread ---- */

/* constrained: it was seen that rows obey the constraints of their tables. */
struct look { const char *path; pthread_t thread; int threaded, looked, constrained, rc; char sha256[HASH_HEX]; struct lab_err err; };

/* SQLite knows no constraints of what it cannot write, so a copy in memory is looked at.  0: too large for that, or changes wait beside it. */
static int open_copy(struct look *l, sqlite3 **db)
{
    enum { LARGEST = 1 << 28 };
    struct stat st;
    FILE *f = has_wal(l->path) ? NULL : fopen(l->path, "rbe");
    unsigned char *bytes = f && fstat(fileno(f), &st) == 0 && st.st_size > 20 && st.st_size <= LARGEST ? sqlite3_malloc64((sqlite3_uint64)st.st_size) : NULL;
    int whole = bytes && fread(bytes, 1, (size_t)st.st_size, f) == (size_t)st.st_size;
    if (f) fclose(f);
    if (!whole) return sqlite3_free(bytes), 0;
    hash_bytes(bytes, (size_t)st.st_size, l->sha256);
    bytes[18] = bytes[19] = 1;       /* a journal mode that memory has: not WAL */
    return sqlite3_open(":memory:", db) == SQLITE_OK &&
           sqlite3_deserialize(*db, "main", bytes, st.st_size, st.st_size, SQLITE_DESERIALIZE_FREEONCLOSE) == SQLITE_OK;
}

/* Of the file, and of the changes that wait beside it: with the file alone, a database in use would look as it did when last merged. */
static int hash_both(struct look *l)
{
    struct str wal = { 0 };
    char both[2 * HASH_HEX] = "";
    if (hash_file(l->path, l->sha256, &l->err) != 0) return -1;
    if (!has_wal(l->path)) return 0;
    str_printf(&wal, "%s-wal", l->path);
    int rc = wal.failed ? lab_fail(&l->err, "out of memory for a merge") : hash_file(wal.text, both + strlen(l->sha256), &l->err);
    str_free(&wal);
    memcpy(both, l->sha256, strlen(l->sha256));
    if (rc == 0) hash_bytes(both, strlen(both), l->sha256);
    return rc;
}

static int open_itself(struct look *l, sqlite3 **db)
{
    struct str uri = { 0 };
    uri_of(&uri, l->path);
    sqlite3_close(*db);
    *db = NULL;
    if (hash_both(l) != 0) return str_free(&uri), -1;
    int rc = uri.failed ? SQLITE_NOMEM : sqlite3_open_v2(uri.text, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    str_free(&uri);
    return rc == SQLITE_OK ? 0 : lab_fail(&l->err, "%s: cannot be opened", l->path);
}

static void *look(void *ctx)
{
    struct look *l = ctx;
    struct store other = { .path = (char *)l->path };
    struct merge m = { &other, l->path, &l->err };
    char text[200] = "";
    l->rc = REFUSED;
    l->constrained = open_copy(l, &other.db);
    if (!l->constrained && open_itself(l, &other.db) != 0) {}
    else if (check_whose(&m) != 0) {}
    else if (ask(&m, "PRAGMA integrity_check(1)", NULL, NULL, text, sizeof text) != 0) {}
    else if (strcmp(text, "ok")) text[strcspn(text, "\n")] = '\0', lab_fail(&l->err, "%s: is damaged (%s)", l->path, text);
    else l->rc = 0;
    sqlite3_close(other.db);
    return NULL;
}

int merge_judge(const char *path, struct lab_err *err)
{
    struct look l = { .path = path };
    look(&l);
    if (l.rc != 0) *err = l.err;
    return l.rc;
}

/* Not at the database that is merged into: to open and close its file here would undo the locks that this process has on it. */
static void look_begin(struct look *l, const char *path, const struct store *into)
{
    struct stat st, own;
    *l = (struct look){ .path = path };
    if (stat(path, &st) == 0 && stat(into->path, &own) == 0 && own.st_ino == st.st_ino && own.st_dev == st.st_dev) {
        l->rc = REFUSED, l->looked = 1;
        lab_fail(&l->err, "%s: is the database that is merged into", path);
    } else {
        l->threaded = pthread_create(&l->thread, NULL, look, l) == 0;
    }
}

static void look_end(struct look *l)
{
    if (l->threaded) pthread_join(l->thread, NULL);
    else if (!l->looked) look(l);
}

/* ---- both together ---- */

/* Does work with the other database attached as s, after a look at it. */
static int with_attached(struct store *store, const struct look *look, int (*work)(const struct merge *, void *), void *ctx, struct lab_err *err)
{
    struct merge m = { store, look->path, err };
    if (look->rc != 0) return *err = look->err, look->rc;
    int rc = make_temporary(&m);
    if (rc == 0) rc = attach(&m);
    if (rc != 0) return rc;
    rc = check_definitions(&m);
    if (rc == 0) rc = work(&m, ctx);
    sqlite3_exec(store->db, "DETACH s", NULL, NULL, NULL);
    return rc;
}

/* ---- columns ---- */

/* For each column of a table, in order. */
static int each_column(const struct merge *m, const char *table, void (*take)(struct str *, const char *column), struct str *out)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(m->store->db, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &st, NULL), n = 0;
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC);
    while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        size_t before = out->len;
        if (n++) str_add(out, ", ");
        size_t comma = out->len;
        take(out, (const char *)sqlite3_column_text(st, 0));
        if (out->len == comma && !out->failed) out->len = before, out->text[before] = '\0', n--;     /* nothing taken */
    }
    sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : fail(m);
}

static void name_of(struct str *out, const char *column) { str_printf(out, "\"%s\"", column); }
static void from_c(struct str *out, const char *column) { str_printf(out, strcmp(column, "attempt_id") ? "c.\"%s\"" : "n.new", column); }
static void but_run_id(struct str *out, const char *column) { if (strcmp(column, "run_id")) name_of(out, column); }
static void but_attempt_id(struct str *out, const char *column) { if (strcmp(column, "attempt_id")) name_of(out, column); }
static void excluded(struct str *out, const char *column) { str_printf(out, "\"%s\" = excluded.\"%s\"", column, column); }
static void excluded_but_id(struct str *out, const char *column) { if (strcmp(column, "attempt_id")) excluded(out, column); }

#define SECOND "a second result, "
#define SAME_WORDS  SECOND "the same as the one shown"
#define OTHER_WORDS SECOND "DIFFERENT from the one shown"
#define SECOND_SQL "'" SAME_WORDS "' || coalesce('; ' || "        /* until judge_pairs has looked */

static void of_attempt(struct str *out, const char *column)
{
    static const struct { const char *column, *sql; } table[] = {
        { "attempt_id", "" }, { "run_id", "n.run_id" }, { "env_id", "n.env_id" }, { "lock_at", "0" },
        { "status", "CASE WHEN a.status = 'running' THEN 'lost' WHEN n.rival IS NOT NULL AND NOT n.wins THEN 'superseded' ELSE a.status END" },
        { "reason", "CASE WHEN a.status = 'running' THEN 'its machine told nothing more of it'"
                    " WHEN n.rival IS NOT NULL AND NOT n.wins THEN " SECOND_SQL "a.reason, '') ELSE a.reason END" },
        { "ended_us", "coalesce(a.ended_us, a.beat_us)" } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].column, column)) { str_add(out, table[i].sql); return; }
    str_printf(out, "a.\"%s\"", column);
}

/* ---- what does not belong to an attempt ---- */

static int take_shared(const struct merge *m)
{
    return run(m, "INSERT INTO main.metric_def SELECT * FROM s.metric_def WHERE true ON CONFLICT DO NOTHING;"
                  "INSERT INTO main.env(env_sha256, json) SELECT env_sha256, json FROM s.env WHERE true ON CONFLICT DO NOTHING;"
                  "INSERT INTO main.ceiling SELECT * FROM s.ceiling WHERE true ON CONFLICT DO UPDATE SET value = excluded.value, error = excluded.error,"
                  " samples = excluded.samples WHERE (excluded.samples, excluded.value, excluded.error) > (samples, value, error)");
}

static int take_runs(const struct merge *m, enum merge_how how)
{
    struct str sql = { 0 };
    str_add(&sql, "INSERT INTO main.run(");
    if (each_column(m, "run", but_run_id, &sql) != 0) return str_free(&sql), -1;
    str_add(&sql, ") SELECT ");
    if (each_column(m, "run", but_run_id, &sql) != 0) return str_free(&sql), -1;
    str_printf(&sql, " FROM s.run WHERE %s ORDER BY run_id ON CONFLICT(run_key) DO NOTHING", how == MERGE_ALL ? "true" : "run_key IN temp.wanted");
    return run_str(m, &sql);
}

static int take_plans(const struct merge *m)
{
    return run(m, "INSERT INTO main.sweep(ini_sha256, name, question, ini_path, ini_text, created_us)"
                  " SELECT ini_sha256, name, question, ini_path, ini_text, created_us FROM s.sweep WHERE true"
                  " ON CONFLICT(ini_sha256) DO UPDATE SET created_us = excluded.created_us WHERE excluded.created_us < created_us;"
                  "INSERT INTO main.sweep_cell(sweep_id, ordinal, run_id, label) SELECT ms.sweep_id, c.ordinal, mr.run_id, c.label"
                  " FROM s.sweep_cell c JOIN s.sweep ss ON ss.sweep_id = c.sweep_id JOIN main.sweep ms ON ms.ini_sha256 = ss.ini_sha256"
                  " JOIN s.run sr ON sr.run_id = c.run_id JOIN main.run mr ON mr.run_key = sr.run_key WHERE true"
                  " ON CONFLICT(sweep_id, run_id) DO NOTHING;"
                  "INSERT OR IGNORE INTO temp.touched SELECT mr.run_id FROM s.run sr JOIN main.run mr ON mr.run_key = sr.run_key");
}

/* ---- attempts ---- */

static const char choose_sql[] =
    "DELETE FROM temp.taken;"
    "INSERT INTO temp.taken SELECT a.attempt_id, a.attempt_uuid, r.run_id, e.env_id, x.attempt_id, d.attempt_id,"
    " (a.ended_us, a.attempt_uuid) < (d.ended_us, d.attempt_uuid)"
    " FROM s.attempt a JOIN s.run sr ON sr.run_id = a.run_id JOIN main.run r ON r.run_key = sr.run_key"
    " JOIN s.env se ON se.env_id = a.env_id JOIN main.env e ON e.env_sha256 = se.env_sha256"
    " LEFT JOIN main.attempt x ON x.attempt_uuid = a.attempt_uuid"
    " LEFT JOIN main.attempt d ON a.status = 'done' AND d.run_id = r.run_id AND d.status = 'done'"
    /* A copy of an attempt that went on from it calls it lost; its own database may know better. */
    " WHERE (x.attempt_id IS NULL OR (x.status = 'lost' AND a.status NOT IN ('lost', 'running')))";

static int take_attempts(const struct merge *m, enum merge_how how)
{
    struct str sql = { 0 };
    str_printf(&sql, "%s AND %s;"
               "UPDATE main.attempt SET status = 'superseded', reason = " SECOND_SQL "reason, '')"
               " FROM temp.taken n WHERE n.rival = attempt_id AND n.wins;"
               "INSERT INTO main.attempt(", choose_sql, how == MERGE_ALL ? "a.status <> 'running'" : "sr.run_key IN temp.wanted");
    if (each_column(m, "attempt", but_attempt_id, &sql) != 0) return str_free(&sql), -1;
    str_add(&sql, ") SELECT ");
    if (each_column(m, "attempt", of_attempt, &sql) != 0) return str_free(&sql), -1;
    str_add(&sql, " FROM temp.taken n CROSS JOIN s.attempt a ON a.attempt_id = n.old WHERE true ON CONFLICT(attempt_uuid) DO UPDATE SET ");
    if (each_column(m, "attempt", excluded_but_id, &sql) != 0) return str_free(&sql), -1;
    str_add(&sql, "; UPDATE temp.taken SET new = (SELECT attempt_id FROM main.attempt WHERE attempt_uuid = uuid)");
    return run_str(m, &sql);
}

/* Does work with each attempt that a question gives; which must be sorted, so that work may change what was asked. */
static int each_attempt(const struct merge *m, const char *sql, int (*work)(const struct merge *, int64_t attempt))
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(m->store->db, sql, -1, &st, NULL) == SQLITE_OK ? 0 : fail(m);
    while (rc == 0 && sqlite3_step(st) == SQLITE_ROW) rc = work(m, sqlite3_column_int64(st, 0));
    sqlite3_finalize(st);
    return rc;
}

static int seal(const struct merge *m, int64_t attempt) { return db_seal(m->store, attempt, m->err); }

/* A result that does not fit its hash is left as it is, for fsck to tell. */
static int keep_sound(const struct merge *m, int64_t attempt)
{
    char sql[80];
    int fits;
    if (db_fits(m->store, attempt, &fits, m->err) != 0) return -1;
    snprintf(sql, sizeof sql, "DELETE FROM temp.further WHERE new = %" PRId64, attempt);
    return fits ? 0 : run(m, sql);
}

/* Results that are here already, and that were evaluated further since. */
static int find_further(const struct merge *m)
{
    static const char sql[] = "DELETE FROM temp.further; INSERT INTO temp.further SELECT a.attempt_id, x.attempt_id FROM s.attempt a"
                              " JOIN main.attempt x ON x.attempt_uuid = a.attempt_uuid WHERE a.status = 'done'"
                              " AND a.result_sha256 <> x.result_sha256 AND a.attempt_uuid NOT IN (SELECT uuid FROM temp.taken)";
    return run(m, sql) != 0 ? -1 : each_attempt(m, "SELECT new FROM temp.further ORDER BY 1", keep_sound);
}

/* ---- what attempts measured ---- */

/* counted: evaluations, of which the one of more sequences stays.  source: FROM a table c of rows, with n.new the attempt that gets them. */
static int take_rows(const struct merge *m, const char *table, int counted, const char *source)
{
    struct str sql = { 0 };
    str_printf(&sql, "INSERT INTO main.\"%s\"(", table);
    if (each_column(m, table, name_of, &sql) != 0) return str_free(&sql), -1;
    str_add(&sql, ") SELECT ");
    if (each_column(m, table, from_c, &sql) != 0) return str_free(&sql), -1;
    str_printf(&sql, " FROM %s ON CONFLICT DO ", source);
    if (!counted) str_add(&sql, "NOTHING");
    else {
        str_add(&sql, "UPDATE SET ");
        if (each_column(m, table, excluded, &sql) != 0) return str_free(&sql), -1;
        str_printf(&sql, " WHERE excluded.n > main.\"%s\".n", table);
    }
    return run_str(m, &sql);
}

static int take_table(const struct merge *m, const char *table, int counted)
{
    struct str from = { 0 };
    str_printf(&from, "temp.taken n CROSS JOIN s.\"%s\" c ON c.attempt_id = n.old WHERE true", table);
    int rc = from.failed ? lab_fail(m->err, "out of memory for a merge") : take_rows(m, table, counted, from.text);
    str_clear(&from);                /* and what was evaluated further since it was merged */
    str_printf(&from, "temp.further n CROSS JOIN s.\"%s\" c ON c.attempt_id = n.old WHERE c.split IN ('test', 'free')", table);
    if (rc == 0 && counted) rc = from.failed ? lab_fail(m->err, "out of memory for a merge") : take_rows(m, table, counted, from.text);
    str_free(&from);
    return rc;
}

/* For each table of what attempts measured. */
static int each_table(const struct merge *m, int (*take)(const struct merge *, const char *table, int counted))
{
    static const char tables[] =
        "SELECT t.name, EXISTS(SELECT 1 FROM pragma_table_info(t.name) WHERE name = 'n') AND EXISTS(SELECT 1 FROM pragma_table_info(t.name) WHERE name = 'split')"
        " FROM main.sqlite_schema t WHERE t.type = 'table' AND t.name <> 'attempt' AND EXISTS(SELECT 1 FROM pragma_table_info(t.name) WHERE name = 'attempt_id')"
        " ORDER BY t.name";
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(m->store->db, tables, -1, &st, NULL) == SQLITE_OK ? 0 : fail(m);
    while (rc == 0 && sqlite3_step(st) == SQLITE_ROW)
        rc = take(m, (const char *)sqlite3_column_text(st, 0), sqlite3_column_int(st, 1));
    sqlite3_finalize(st);
    return rc;
}

/* ---- two results for one run ---- */

/* They are the same if all that was told is, or if the weights are and all that both measured: one may have been evaluated further.
 * Seconds of seconds are judged again, so that the order of merging does not show. */
static const char pairs_sql[] =
    "DELETE FROM temp.pair;"
    "INSERT INTO temp.pair SELECT a.attempt_id, b.attempt_id, coalesce(a.result_sha256 = b.result_sha256 OR ("
    "  (SELECT sha256 FROM main.artifact w WHERE w.attempt_id = a.attempt_id AND w.kind = 'weights')"
    "  = (SELECT sha256 FROM main.artifact w WHERE w.attempt_id = b.attempt_id AND w.kind = 'weights')"
    "  AND NOT EXISTS (SELECT 1 FROM main.eval p JOIN main.eval q ON q.attempt_id = b.attempt_id AND q.split = p.split AND q.length = p.length AND q.step = p.step"
    "    WHERE p.attempt_id = a.attempt_id AND p.n = q.n AND p.seed = q.seed AND (p.n_exact, p.n_tok, p.n_tok_ok, p.loss, p.data_sha256)"
    "    IS NOT (q.n_exact, q.n_tok, q.n_tok_ok, q.loss, q.data_sha256))), 0)"
    " FROM (SELECT DISTINCT run_id FROM temp.taken WHERE rival IS NOT NULL) t"
    " JOIN main.attempt b ON b.run_id = t.run_id AND b.status = 'superseded' AND b.reason GLOB '" SECOND "*'"
    " JOIN main.attempt a ON a.run_id = t.run_id AND a.status = 'done';"
    "UPDATE main.attempt SET reason = iif(p.same, replace(reason, '" OTHER_WORDS "', '" SAME_WORDS "'), replace(reason, '" SAME_WORDS "', '" OTHER_WORDS "'))"
    " FROM temp.pair p WHERE p.second = attempt_id";

/* What only one of two equal results was evaluated for. */
static int join_evaluations(const struct merge *m, const char *table, int counted)
{
    struct str from = { 0 };
    if (!counted) return 0;
    str_printf(&from, "(SELECT second AS old, shown AS new FROM temp.pair WHERE same) n CROSS JOIN main.\"%s\" c ON c.attempt_id = n.old"
               " WHERE c.split IN ('test', 'free')", table);
    int rc = from.failed ? lab_fail(m->err, "out of memory for a merge") : take_rows(m, table, counted, from.text);
    str_free(&from);
    return rc;
}

/* What was joined on belongs to the result now. */
static int seal_joined(const struct merge *m)
{
    static const char sql[] = "SELECT DISTINCT a.attempt_id FROM temp.pair p JOIN main.attempt a ON a.attempt_id = p.shown JOIN main.attempt b ON b.attempt_id = p.second"
                              " WHERE p.same AND a.result_sha256 <> b.result_sha256 AND length(a.result_sha256) = 64 ORDER BY 1";
    return each_attempt(m, sql, seal) != 0 ? -1 : each_attempt(m, "SELECT new FROM temp.further ORDER BY 1", seal);
}

/* ---- the whole ---- */

struct taking { enum merge_how how; struct merge_result *result; const char *sha256; char uuid[64]; };

static int take_all(const struct merge *m, struct taking *t)
{
    int rc;
    if ((rc = take_shared(m)) != 0 || (rc = take_runs(m, t->how)) != 0 || (t->how == MERGE_ALL && (rc = take_plans(m)) != 0) ||
        (rc = take_attempts(m, t->how)) != 0 || (rc = find_further(m)) != 0 || (rc = each_table(m, take_table)) != 0 || (rc = run(m, pairs_sql)) != 0 ||
        (rc = each_table(m, join_evaluations)) != 0 || (rc = seal_joined(m)) != 0) return rc;
    if ((rc = ask_integer(m, "SELECT count(*) FROM temp.taken", &t->result->attempts)) != 0 ||
        (rc = ask_integer(m, "SELECT count(*) FROM temp.pair WHERE NOT same", &t->result->different)) != 0) return rc;
    if (t->how != MERGE_ALL) return 0;
    char *sql = sqlite3_mprintf("INSERT INTO main.merge_log VALUES(%Q, %Q, %Q, %lld, %lld, %lld) ON CONFLICT DO NOTHING", t->uuid, t->sha256, m->path,
                                (long long)clock_utc_us(), (long long)t->result->attempts, (long long)t->result->different);
    rc = sql ? run(m, sql) : lab_fail(m->err, "out of memory for a merge");
    sqlite3_free(sql);
    return rc;
}

static int take(const struct merge *m, void *ctx)
{
    struct taking *t = ctx;
    char known[8] = "";
    int rc = ask(m, "SELECT value FROM s.meta WHERE key = 'db_uuid'", NULL, NULL, t->uuid, sizeof t->uuid);
    if (rc == 0 && t->how == MERGE_ALL)
        rc = ask(m, "SELECT 1 FROM main.merge_log WHERE shard_uuid = ?1 AND shard_sha256 = ?2", t->uuid, t->sha256, known, sizeof known);
    if (rc != 0) return rc;
    if ((t->result->known = *known != '\0'))
        return run(m, "INSERT OR IGNORE INTO temp.touched SELECT mr.run_id FROM s.run sr JOIN main.run mr ON mr.run_key = sr.run_key");
    if (store_begin(m->store, m->err) != 0) return -1;
    rc = take_all(m, t);
    if (rc == 0) rc = store_commit(m->store, m->err);
    if (!sqlite3_get_autocommit(m->store->db)) sqlite3_exec(m->store->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Every reference is made by a join, and constraints were looked at.  After a power cut the last merges may be missing, but none is
 * half there: they are made again. */
static int take_database(struct store *store, const struct look *look, enum merge_how how, struct merge_result *result, struct lab_err *err)
{
    static const char fast[] = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 20000; PRAGMA main.cache_size = -65536";
    static const char safe[] = "PRAGMA ignore_check_constraints = OFF; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000";
    struct taking t = { .how = how, .result = result, .sha256 = look->sha256 };
    *result = (struct merge_result){ 0 };
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    sqlite3_exec(store->db, fast, NULL, NULL, NULL);
    if (look->constrained) sqlite3_exec(store->db, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL);
    int rc = with_attached(store, look, take, &t, err);
    sqlite3_exec(store->db, safe, NULL, NULL, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    return rc;
}

int merge_databases(struct store *store, char *const *path, size_t n, const struct merge_listener *listener, struct lab_err *err)
{
    struct merge_result result;
    struct look ahead[2];
    int rc = make_temporary(&(struct merge){ store, store->path, err }) == 0 ? 0 : -1;
    if (rc == 0 && n) look_begin(&ahead[0], path[0], store);
    for (size_t i = 0; i < n && rc >= 0; i++) {
        look_end(&ahead[i % 2]);
        if (i + 1 < n) look_begin(&ahead[(i + 1) % 2], path[i + 1], store);
        rc = take_database(store, &ahead[i % 2], MERGE_ALL, &result, err);
        if (rc >= 0) listener->told(listener->ctx, path[i], &result, rc ? err->msg : NULL);
        else if (i + 1 < n) look_end(&ahead[(i + 1) % 2]);
    }
    return rc < 0 ? -1 : 0;
}

/* ---- what is wanted ---- */

int merge_want(struct store *store, const char *run_key, struct lab_err *err)
{
    struct merge m = { store, store->path, err };
    return make_temporary(&m) == 0 && ask(&m, "INSERT OR IGNORE INTO temp.wanted VALUES(?1)", run_key, NULL, NULL, 0) == 0 ? 0 : -1;
}

static int strike(const struct merge *m, void *ctx)
{
    (void)ctx;
    return run(m, "DELETE FROM temp.wanted WHERE run_key IN (SELECT r.run_key FROM s.run r JOIN s.attempt a ON a.run_id = r.run_id WHERE a.status = 'done')");
}

int merge_strike_done(struct store *store, const char *path, struct lab_err *err)
{
    struct look l = { .path = path };
    look(&l);
    return with_attached(store, &l, strike, NULL, err);
}

int merge_wanted(struct store *store, const char *path, struct lab_err *err)
{
    struct merge_result result;
    struct look l = { .path = path };
    look(&l);
    return take_database(store, &l, MERGE_WANTED, &result, err);
}

int merge_is_wanted(struct store *store, const char *run_key, int *yes, struct lab_err *err)
{
    struct merge m = { store, store->path, err };
    char found[8];
    if (ask(&m, "SELECT 1 FROM temp.wanted WHERE run_key = ?1", run_key, NULL, found, sizeof found) != 0) return -1;
    *yes = *found != '\0';
    return 0;
}

const char merge_conflicts[] =
    "SELECT r.run_key, r.task, r.encoder, r.seed, d.attempt_uuid, d.host, strftime('%Y-%m-%dT%H:%M:%SZ', d.ended_us / 1000000, 'unixepoch'), de.json,"
    " b.attempt_uuid, b.host, strftime('%Y-%m-%dT%H:%M:%SZ', b.ended_us / 1000000, 'unixepoch'), be.json"
    " FROM temp.touched t CROSS JOIN run r ON r.run_id = t.run_id CROSS JOIN attempt b ON b.run_id = r.run_id AND b.status = 'superseded'"
    " AND b.reason GLOB '" OTHER_WORDS "*' JOIN attempt d ON d.run_id = r.run_id AND d.status = 'done'"
    " JOIN env de ON de.env_id = d.env_id JOIN env be ON be.env_id = b.env_id"
    " ORDER BY r.task, r.encoder, r.arm, r.seed, b.ended_us, b.attempt_uuid";

int merge_copy(struct store *store, const char *path, struct lab_err *err)
{
    struct merge m = { store, store->path, err };
    unlink(path);
    return ask(&m, "VACUUM INTO ?1", path, NULL, NULL, 0) == 0 ? 0 : -1;
}
