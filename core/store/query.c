/* query -- runs one SELECT that somebody typed, and nothing but a SELECT.
 *
 * Refused: a second statement, anything that writes, opens another file or changes a
 * setting, and a query that takes too long.  Read-only is checked twice: by what the
 * compiled statement may do, and by what it touches while it is compiled and run.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/mem.h"
#include "store/db.h"

struct deadline { int64_t at_ns; int passed; };

static int is_late(void *ctx)
{
    struct deadline *d = ctx;
    return d->passed = clock_ns() > d->at_ns;
}

/* The pragmas that describe tables; tools and curious people select from them. */
static int describes(const char *pragma)
{
    static const char *const known[] = { "table_info", "table_xinfo", "table_list", "index_list", "index_info" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) if (!sqlite3_stricmp(pragma, known[i])) return 1;
    return 0;
}

/* SQLite reports the use of json_each and its like as an update of sqlite_master, which it never lets a statement make. */
static int may_touch(void *ctx, int action, const char *a, const char *b, const char *database, const char *trigger)
{
    (void)ctx, (void)database, (void)trigger;
    int ok = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE ||
             (action == SQLITE_FUNCTION && sqlite3_stricmp(b, "load_extension")) || (action == SQLITE_PRAGMA && describes(a)) ||
             (action == SQLITE_UPDATE && !strcmp(a, "sqlite_master"));
    return ok ? SQLITE_OK : SQLITE_DENY;
}

static int refuse_write(struct store *s, struct lab_err *err)
{
    return lab_fail(err, "%s: queries are read-only: SELECT, WITH or EXPLAIN", s->path), -2;
}

/* "no such column: acc" and the place, which a long query needs. */
static int refuse_sql(struct store *s, const char *sql, struct lab_err *err)
{
    int code = sqlite3_errcode(s->db) & 0xff, at = sqlite3_error_offset(s->db);
    const char *missing = "no such table: ", *message = sqlite3_errmsg(s->db);
    if (code == SQLITE_AUTH) return refuse_write(s, err);
    if (code != SQLITE_ERROR) return db_fail(s, err);
    if (!strncmp(message, missing, strlen(missing)) && db_is_view(message + strlen(missing)))
        return lab_fail(err, "%s: has no view %s yet: an earlier lab made it, and the next `lab run` on it adds what is new", s->path,
                        message + strlen(missing)), -2;
    if (at < 0) lab_fail(err, "%s: %s", s->path, sqlite3_errmsg(s->db));
    else lab_fail(err, "%s: %s, at '%.*s'", s->path, sqlite3_errmsg(s->db), (int)strcspn(sql + at, "\n"), sql + at);
    return -2;
}

/* One statement that only reads: 0, -1 the database's fault, -2 the query's. */
static int prepare(struct store *s, const char *sql, sqlite3_stmt **st, struct lab_err *err)
{
    sqlite3_stmt *second = NULL;
    const char *rest = "";
    if (sqlite3_prepare_v2(s->db, sql, -1, st, &rest) != SQLITE_OK) return refuse_sql(s, sql, err);
    if (!*st) return lab_fail(err, "%s: there is no statement in '%.40s'", s->path, sql), -2;
    int more = sqlite3_prepare_v2(s->db, rest, -1, &second, NULL) != SQLITE_OK || second;     /* blanks and comments give no statement */
    sqlite3_finalize(second);
    if (more) return lab_fail(err, "%s: one statement at a time; a second begins at '%.40s'", s->path, rest + strspn(rest, " \t\r\n;")), -2;
    return sqlite3_stmt_readonly(*st) ? 0 : refuse_write(s, err);
}

static int bind(struct store *s, sqlite3_stmt *st, const char *const *args, int n_args, struct lab_err *err)
{
    int wanted = sqlite3_bind_parameter_count(st);
    if (wanted != n_args)
        return lab_fail(err, "%s: the query has %d parameters (?), but %d values came with it", s->path, wanted, n_args), -2;
    for (int i = 0; i < n_args; i++)
        if (sqlite3_bind_text(st, i + 1, args[i], -1, SQLITE_STATIC) != SQLITE_OK) return db_fail(s, err);
    return 0;
}

static struct store_value value_of(sqlite3_stmt *st, int column)
{
    switch (sqlite3_column_type(st, column)) {
    case SQLITE_NULL:    return (struct store_value){ .type = STORE_NULL };
    case SQLITE_INTEGER: return (struct store_value){ .type = STORE_INTEGER, .integer = sqlite3_column_int64(st, column) };
    case SQLITE_FLOAT:   return (struct store_value){ .type = STORE_REAL, .real = sqlite3_column_double(st, column) };
    default:             break;
    }
    const char *text = (const char *)sqlite3_column_text(st, column);     /* NULL when memory ran out */
    return (struct store_value){ .type = STORE_TEXT, .text = text ? text : "" };
}

static int send_rows(struct store *s, sqlite3_stmt *st, const struct store_rows *rows, struct lab_err *err)
{
    int n = sqlite3_column_count(st), rc = SQLITE_DONE, stop = 0;
    const char **name = mem_alloc((size_t)n * sizeof *name, err);
    struct store_value *value = name ? mem_alloc((size_t)n * sizeof *value, err) : NULL;
    if (!value) { free(name); return -1; }
    for (int i = 0; i < n; i++) name[i] = sqlite3_column_name(st, i);
    if (rows->header) stop = rows->header(rows->ctx, n, name);
    while (!stop && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        for (int i = 0; i < n; i++) value[i] = value_of(st, i);
        stop = rows->row(rows->ctx, n, value);
    }
    free(name);
    free(value);
    return stop || rc == SQLITE_DONE ? 0 : refuse_sql(s, sqlite3_sql(st), err);
}

int store_query(struct store *s, const char *sql, const char *const *args, int n_args, double seconds,
                const struct store_rows *rows, struct lab_err *err)
{
    struct deadline deadline = { clock_ns() + (int64_t)(fmin(seconds, 1e9) * 1e9), 0 };
    sqlite3_stmt *st = NULL;
    sqlite3_set_authorizer(s->db, may_touch, NULL);
    if (seconds > 0) sqlite3_progress_handler(s->db, 1000, is_late, &deadline);
    int rc = prepare(s, sql, &st, err);
    if (rc == 0) rc = bind(s, st, args, n_args, err);
    if (rc == 0) rc = send_rows(s, st, rows, err);
    if (deadline.passed) {
        lab_fail(err, "%s: stopped after %g seconds; ask for less (WHERE, LIMIT) or allow more time", s->path, seconds);
        rc = -2;
    }
    sqlite3_finalize(st);
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    sqlite3_set_authorizer(s->db, NULL, NULL);
    return rc;
}
