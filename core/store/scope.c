/* scope -- narrows a reader to one experiment.
 *
 * Temporary views hide the tables sweep, sweep_cell and run and every view of the database, in this connection only: not a
 * byte of the file changes, and each query reads what it reads otherwise, but of the experiment's runs alone.
 * Refused to a writer, whose statements must meet the tables themselves.
 */
#include <stdio.h>
#include "store/db.h"

static int find_sweep(struct store *s, const char *ini_sha256, int64_t *sweep_id, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT sweep_id FROM sweep WHERE ?1 IS NULL OR ini_sha256 = ?1 ORDER BY sweep_id DESC LIMIT 1",
                                -1, &st, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(st, 1, ini_sha256, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    *sweep_id = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_fail(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

static int hide(struct store *s, int64_t sweep_id, struct lab_err *err)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "CREATE TEMP VIEW sweep AS SELECT * FROM main.sweep WHERE sweep_id = %1$lld;"
             "CREATE TEMP VIEW sweep_cell AS SELECT * FROM main.sweep_cell WHERE sweep_id = %1$lld;"
             "CREATE TEMP VIEW run AS SELECT * FROM main.run WHERE +run_id IN (SELECT run_id FROM main.sweep_cell WHERE sweep_id = %1$lld)",
             (long long)sweep_id);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? db_make_temporary_views(s, err) : db_fail(s, err);
}

int store_scope(struct store *s, const char *ini_sha256, int *found, struct lab_err *err)
{
    int64_t sweep_id;
    if (s->mode != STORE_READ) return lab_fail(err, "%s: a writer sees the whole database; open it to read", s->path);
    if (find_sweep(s, ini_sha256, &sweep_id, err) != 0) return -1;
    *found = sweep_id != 0;
    if (!*found) return 0;
    sqlite3_exec(s->db, "PRAGMA query_only=OFF", NULL, NULL, NULL);      /* which forbids temporary views too */
    int rc = hide(s, sweep_id, err);
    sqlite3_exec(s->db, "PRAGMA query_only=ON", NULL, NULL, NULL);
    return rc;
}
