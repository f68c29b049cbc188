/* migrate -- brings a database of an earlier schema up to this one, after a copy of it is safe beside it.
 *
 * To change the schema: raise DB_SCHEMA, write migrations/NNN.sql (NNN is the new version; its SQL changes a database of the
 * one before), enter it below, and change schema.sql to the same end.  Views need no step: all are made anew.
 * All steps are one transaction: a migration that fails, or is killed, leaves the old database.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "base/whole.h"
#include "store/db.h"

const char *const db_steps[DB_SCHEMA] = { [0] = NULL };      /* [n] makes schema n + 1 of schema n; schema 0 was never published */

/* PATH.schemaN.backup, or with a number behind it: a backup is never overwritten. */
static void backup_name(const struct store *s, int64_t version, struct str *name)
{
    for (int i = 1; i == 1 || (!name->failed && access(name->text, F_OK) == 0); i++) {
        str_clear(name);
        str_printf(name, "%s.schema%" PRId64 ".backup", s->path, version);
        if (i > 1) str_printf(name, ".%d", i);
    }
}

/* Under a name of its own until it is whole. */
int db_copy(struct store *s, const char *temporary, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    unlink(temporary);
    int ok = sqlite3_prepare_v2(s->db, "VACUUM INTO ?1", -1, &st, NULL) == SQLITE_OK &&
             sqlite3_bind_text(st, 1, temporary, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(st) == SQLITE_DONE;
    if (!ok) db_fail(s, err);
    sqlite3_finalize(st);
    if (ok && whole_sync(temporary) != 0) {
        lab_fail(err, "%s: its copy %s cannot be written: %s", s->path, temporary, strerror(errno));
        ok = 0;
    }
    if (!ok) unlink(temporary);
    return ok ? 0 : -1;
}

static int run_steps(struct store *s, const char *const *step, int64_t from, int64_t to, struct lab_err *err)
{
    char sql[64];
    int64_t broken;
    if (db_drop_views(s, err) != 0) return -1;       /* a table that a view needs cannot be changed */
    for (int64_t v = from; v < to; v++)
        if (sqlite3_exec(s->db, step[v], NULL, NULL, NULL) != SQLITE_OK) return db_fail(s, err);
    if (db_make_views(s, err) != 0) return -1;
    if (db_ask_integer(s, "SELECT count(*) FROM pragma_foreign_key_check", &broken, err) != 0) return -1;
    if (broken) return lab_fail(err, "%s: after its migration %" PRId64 " rows would refer to rows that are not there", s->path, broken);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %" PRId64, to);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, err);
}

/* 0 done; 1 the database changed since the copy was made, so that another copy is needed; -1. */
static int migrate_copied(struct store *s, const char *temporary, int64_t seen, const char *const *step, int64_t from, int64_t to,
                          struct lab_err *err)
{
    struct str name = { 0 };
    int64_t version = from, now = seen;
    int rc = -1;
    if (store_begin(s, err) != 0) return -1;
    if (db_ask_integer(s, "PRAGMA user_version", &version, err) != 0 || db_ask_integer(s, "PRAGMA data_version", &now, err) != 0) goto out;
    rc = version == from && now != seen;
    if (rc != 0 || version != from) goto out;        /* somebody else was faster */
    rc = -1;
    backup_name(s, from, &name);
    if (name.failed) lab_fail(err, "%s: out of memory for the name of its backup", s->path);
    else if (rename(temporary, name.text) != 0 || whole_sync(name.text) != 0)
        lab_fail(err, "%s: its backup %s cannot be written: %s", s->path, name.text, strerror(errno));
    else if (run_steps(s, step, from, to, err) == 0 && store_commit(s, err) == 0) {
        snprintf(s->notice, sizeof s->notice, "%.400s: brought from schema %" PRId64 " to %" PRId64 "; as it was before: %.500s",
                 s->path, from, to, name.text);
        rc = 0;
    }
out:
    store_rollback(s);
    str_free(&name);
    return rc;
}

static int migrate(struct store *s, const char *const *step, int64_t from, int64_t to, struct lab_err *err)
{
    struct str temporary = { 0 };
    int64_t seen;
    int rc;
    str_printf(&temporary, "%s.%ld.backup.tmp", s->path, (long)getpid());
    do {
        rc = temporary.failed ? lab_fail(err, "%s: out of memory for the name of its backup", s->path)
                              : db_ask_integer(s, "PRAGMA data_version", &seen, err);
        if (rc == 0) rc = db_copy(s, temporary.text, err);
        if (rc == 0) rc = migrate_copied(s, temporary.text, seen, step, from, to, err);
        if (!temporary.failed) unlink(temporary.text);
    } while (rc == 1);
    str_free(&temporary);
    return rc;
}

int db_migrate(struct store *s, const char *const *step, int64_t from, int64_t to, struct lab_err *err)
{
    for (int64_t v = from; v < to; v++)
        if (v < 0 || !step[v]) return lab_fail(err, "%s: was written by an earlier lab (schema %" PRId64 "), and this one (schema %" PRId64 ") does not know how to "
                                               "bring it up; use that lab or choose another file with --db", s->path, from, to);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);      /* a step may rebuild tables that others refer to */
    int rc = migrate(s, step, from, to, err);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    return rc;
}
