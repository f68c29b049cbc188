/* open -- opens a results database, and refuses what is not one.
 *
 * Refused, each with its own message: another program's database, a newer lab's, a text
 * file, a damaged file, a read-only file or folder (to write), a network file system.
 * A file that is refused keeps every byte.  Looking at the file is left to SQLite: if we
 * opened and closed it ourselves, this process would lose the locks of its other handles.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "build.h"
#include "sql.h"
#include "store/db.h"
#include "store/spill.h"

enum { WRITER_PATIENCE_MS = 60000, READER_PATIENCE_MS = 10000 };

static const struct { const char *name, *sql; } view[] = {
    { "runs", SQL_VIEWS_RUNS },           { "results", SQL_VIEWS_RESULTS },         { "curves", SQL_VIEWS_CURVES },
    { "by_length", SQL_VIEWS_BY_LENGTH }, { "by_position", SQL_VIEWS_BY_POSITION }, { "by_seed", SQL_VIEWS_BY_SEED },
    { "paired", SQL_VIEWS_PAIRED },       { "by_slice", SQL_VIEWS_BY_SLICE },       { "free_running", SQL_VIEWS_FREE_RUNNING },
    { "diverged", SQL_VIEWS_DIVERGED },   { "failures", SQL_VIEWS_FAILURES },       { "leaks", SQL_VIEWS_LEAKS },
    { "past_training", SQL_VIEWS_PAST_TRAINING }, { "past_training_by_slice", SQL_VIEWS_PAST_TRAINING_BY_SLICE } };
enum { N_VIEW = sizeof view / sizeof *view };

int db_is_view(const char *name)
{
    for (int i = 0; i < N_VIEW; i++) if (!sqlite3_stricmp(view[i].name, name)) return 1;
    return 0;
}

int db_fail(struct store *s, struct lab_err *err)
{
    static const struct { int code; const char *meaning; } table[] = {
        { SQLITE_BUSY,     "another program keeps it locked; end that program, then try again" },
        { SQLITE_FULL,     "the disk is full; what was committed is kept: free some space, then run again" },
        { SQLITE_IOERR,    "the disk cannot be read or written; what was committed is kept" },
        { SQLITE_CORRUPT,  "it is damaged; restore a copy, or save what can be read with the sqlite3 program's .recover" },
        { SQLITE_NOTADB,   "it is not a database; choose another file with --db" },
        { SQLITE_READONLY, "it cannot be written; make it and its folder writable, or choose another file with --db" },
        { SQLITE_CANTOPEN, "it cannot be opened, or the files that belong beside it cannot (-wal, -shm)" } };
    int code = sqlite3_errcode(s->db) & 0xff;
    s->busy = code == SQLITE_BUSY;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code) return lab_fail(err, "%s: %s (%s)", s->path, table[i].meaning, sqlite3_errmsg(s->db));
    return lab_fail(err, "%s: %s", s->path, sqlite3_errmsg(s->db));
}

int db_uuid(struct store *s, char uuid[DB_UUID], struct lab_err *err)
{
    unsigned char r[16];
    if (getrandom(r, sizeof r, 0) != sizeof r)
        return lab_fail(err, "%s: the system gives no random numbers: %s", s->path, strerror(errno));
    r[6] = (r[6] & 0x0f) | 0x40;
    r[8] = (r[8] & 0x3f) | 0x80;
    for (int i = 0, at = 0; i < 16; i++) at += sprintf(uuid + at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", r[i]);
    return 0;
}

/* ---- where the file lies ---- */

void db_network(const char *mountinfo, unsigned major, unsigned minor, char type[32])
{
    static const char *const network[] = {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "pvfs2", "panfs", "orangefs", "ocfs2",
        "gfs2",
        "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.rclone", "fuse.s3fs", "fuse.davfs", "fuse.juicefs", "fuse.mfs" };
    char *line = NULL, found[32];
    size_t cap = 0;
    unsigned a, b;
    FILE *f = fopen(mountinfo, "re");
    type[0] = '\0';
    while (f && getline(&line, &cap, f) > 0) {      /* "36 35 98:0 /root /mount options ... - type source ..." */
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*u %*u %u:%u", &a, &b) != 2 || sscanf(dash, " - %31s", found) != 1) continue;
        if (a != major || b != minor) continue;
        for (size_t i = 0; i < sizeof network / sizeof *network; i++) if (!strcmp(found, network[i])) strcpy(type, found);
    }
    free(line);
    if (f) fclose(f);
}

struct place {                       /* what the file system says, before SQLite looks */
    char folder[4096];
    int exists, empty, wal;          /* of the file; wal: changes wait in PATH-wal */
    int writable, folder_writable;
    char network[32];
};

/* A file that is marked read-only for everybody is left alone by root too, whom the permission bits do not stop. */
static int writable(const char *path, const struct stat *st) { return (st->st_mode & 0222) && access(path, W_OK) == 0; }

static int make_folder(const struct store *s, const char *folder, struct lab_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = path + 1; ; slash++) {
        slash += strcspn(slash, "/");
        char c = *slash;
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return lab_fail(err, "%s: folder %s cannot be made: %s", s->path, path, strerror(errno));
        *slash = c;
        if (!c) return 0;
    }
}

/* A database has one place, whatever links lead there: what stands beside it, its lock too, must be the same for all who come. */
static int follow_links(struct store *s, struct lab_err *err)
{
    enum { MOST = 40 };                              /* as the kernel; what goes in circles is refused when it is opened */
    char target[4096];
    ssize_t n;
    for (int i = 0; s->path && i < MOST && (n = readlink(s->path, target, sizeof target - 1)) >= 0; i++) {
        struct str path = { 0 };
        const char *slash = strrchr(s->path, '/');
        target[n] = '\0';
        if (*target != '/' && slash) str_addn(&path, s->path, (size_t)(slash - s->path) + 1);
        str_add(&path, target);
        free(s->path);
        s->path = path.failed ? NULL : mem_strdup(path.text, err);
        if (path.failed) lab_fail(err, "out of memory for a path");
        str_free(&path);
    }
    return s->path ? 0 : -1;
}

static int survey(const struct store *s, struct place *p, struct lab_err *err)
{
    struct stat file, folder, wal;
    char wal_path[4096];
    const char *slash = strrchr(s->path, '/');
    *p = (struct place){ 0 };
    if (!*s->path || strlen(s->path) > sizeof wal_path - 8)
        return lab_fail(err, "%s: not a database's path: expected 1 to %zu bytes", s->path, sizeof wal_path - 8);
    snprintf(p->folder, sizeof p->folder, "%.*s", slash ? (int)(slash - s->path) + (slash == s->path) : 1, slash ? s->path : ".");
    snprintf(wal_path, sizeof wal_path, "%s-wal", s->path);

    if (s->mode == STORE_WRITE && make_folder(s, p->folder, err) != 0) return -1;
    p->exists = stat(s->path, &file) == 0;
    if (!p->exists && errno != ENOENT)
        return lab_fail(err, "%s: cannot be reached: %s; change that or choose another with --db", s->path, strerror(errno));
    if (!p->exists && s->mode == STORE_READ)
        return lab_fail(err, "%s: there is no database yet (%s); `lab run FILE.ini` makes one", s->path, strerror(errno));
    if (p->exists && !S_ISREG(file.st_mode)) return lab_fail(err, "%s: is not a file; choose another with --db", s->path);
    if (stat(p->folder, &folder) != 0) return lab_fail(err, "%s: folder %s: %s", s->path, p->folder, strerror(errno));
    p->empty = p->exists && file.st_size == 0;
    p->writable = !p->exists || writable(s->path, &file);
    p->folder_writable = writable(p->folder, &folder);
    p->wal = stat(wal_path, &wal) == 0 && wal.st_size > 0;
    db_network("/proc/self/mountinfo", major(folder.st_dev), minor(folder.st_dev), p->network);
    return 0;
}

static int place_fits(const struct store *s, const struct place *p, struct lab_err *err)
{
    if (s->mode == STORE_READ) {
        if (p->empty && !p->wal) return lab_fail(err, "%s: is empty; `lab run FILE.ini` makes a database", s->path);
        if (p->wal && *p->network)
            return lab_fail(err, "%s: is in use on a network file system (%s); copy it together with its -wal file to a local disk",
                            s->path, p->network);
        return 0;
    }
    if (*p->network)
        return lab_fail(err, "%s: lies on a network file system (%s), where databases get damaged; choose a local one with --db, "
                        "and copy the file when the runs are done", s->path, p->network);
    if (!p->writable) return lab_fail(err, "%s: is read-only; make it writable or choose another file with --db", s->path);
    if (!p->folder_writable)
        return lab_fail(err, "%s: its folder %s is read-only; make it writable or choose another file with --db", s->path, p->folder);
    return 0;
}

/* ---- opening ---- */

/* A file name as a URI, so that it can carry `immutable`: no lock, no file beside it.  That is for a file that we
 * could not lock anyway and that nobody is writing. */
static void uri(struct str *out, const char *path, int immutable)
{
    str_add(out, *path == '/' ? "file://" : "file:./");
    for (; *path; path++) {
        if (strchr("%?#", *path)) str_printf(out, "%%%02x", (unsigned char)*path);
        else str_addn(out, path, 1);
    }
    if (immutable) str_add(out, "?immutable=1");
}

static int configure(struct store *s, struct lab_err *err)
{
    int writes = s->mode == STORE_WRITE;
    sqlite3_busy_timeout(s->db, writes ? WRITER_PATIENCE_MS : READER_PATIENCE_MS);
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    /* A reader may sort a million rows: 64 MB before any of it goes to a temporary file.  A writer lives long and stays small. */
    const char *pragma = writes ? "PRAGMA synchronous=FULL" : "PRAGMA cache_size=-65536; PRAGMA temp.cache_size=-65536; PRAGMA query_only=ON";
    return sqlite3_exec(s->db, pragma, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, err);
}

/* A reader opens for writing too where it can: only then may SQLite share the -wal file with a writer, and remove it afterwards.
 * Changes that were waiting in a -wal file before we came are left there, unless we write ourselves. */
static int connect(struct store *s, const struct place *p, struct lab_err *err)
{
    struct str name = { 0 };
    int alone = !p->wal && (!p->writable || !p->folder_writable || *p->network);
    int flags = SQLITE_OPEN_READWRITE | (s->mode == STORE_WRITE ? SQLITE_OPEN_CREATE : 0);
    uri(&name, s->path, s->mode == STORE_READ && alone);
    int rc = name.failed ? SQLITE_NOMEM : sqlite3_open_v2(name.text, &s->db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    str_free(&name);
    if (rc != SQLITE_OK) return db_fail(s, err);
    if (p->exists) sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, p->wal, NULL);
    return configure(s, err);
}

int db_ask_integer(struct store *s, const char *sql, int64_t *out, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int ok = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW;
    if (ok) *out = sqlite3_column_int64(st, 0);
    else db_fail(s, err);
    sqlite3_finalize(st);
    return ok ? 0 : -1;
}

/* The three numbers as of one moment: between two of them another process may have filled the file. */
static int read_identity(struct store *s, int64_t *application, int64_t *version, int64_t *objects, struct lab_err *err)
{
    int alone = sqlite3_get_autocommit(s->db);       /* not inside a transaction already */
    if (alone && sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) return db_fail(s, err);
    int rc = db_ask_integer(s, "SELECT count(*) FROM sqlite_schema", objects, err) != 0 ||
             db_ask_integer(s, "PRAGMA application_id", application, err) != 0 ||
             db_ask_integer(s, "PRAGMA user_version", version, err) != 0 ? -1 : 0;
    if (alone) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Whose is it?  EARLIER: ours, of the schema in *version; FOREIGN: err says whose. */
enum identity { OURS, EMPTY, EARLIER, FOREIGN = -1 };
static enum identity identify(struct store *s, int64_t *version, struct lab_err *err)
{
    int64_t application, objects;
    if (read_identity(s, &application, version, &objects, err) != 0) return FOREIGN;
    if (!application && !*version && !objects) return EMPTY;
    if (application != DB_APPLICATION)
        return lab_fail(err, "%s: is a database of another program (application id 0x%08x, lab's is 0x%08x); "
                        "choose another file with --db", s->path, (unsigned)application, (unsigned)DB_APPLICATION);
    if (*version > DB_SCHEMA)
        return lab_fail(err, "%s: was written by a newer lab (schema %" PRId64 ", this one reads %d); "
                        "use that lab or choose another file with --db", s->path, *version, DB_SCHEMA);
    return *version < DB_SCHEMA ? EARLIER : OURS;
}

/* ---- creation ---- */

static int put_meta(struct store *s, struct lab_err *err)
{
    char uuid[DB_UUID];
    if (db_uuid(s, uuid, err) != 0) return -1;
    char *sql = sqlite3_mprintf("INSERT INTO meta VALUES('db_uuid', %Q), ('created_us', '%lld'), ('lab_version', %Q)",
                                uuid, (long long)clock_utc_us(), BUILD_COMMIT);
    int rc = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc == SQLITE_OK ? 0 : db_fail(s, err);
}

int db_drop_views(struct store *s, struct lab_err *err)
{
    char drop[64];
    for (int i = 0; i < N_VIEW; i++) {
        snprintf(drop, sizeof drop, "DROP VIEW IF EXISTS %s", view[i].name);
        if (sqlite3_exec(s->db, drop, NULL, NULL, NULL) != SQLITE_OK) return db_fail(s, err);
    }
    return 0;
}

int db_make_views(struct store *s, struct lab_err *err)
{
    for (int i = 0; i < N_VIEW; i++) if (sqlite3_exec(s->db, view[i].sql, NULL, NULL, NULL) != SQLITE_OK) return db_fail(s, err);
    return 0;
}

int db_make_temporary_views(struct store *s, struct lab_err *err)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < N_VIEW && rc == SQLITE_OK; i++) {
        char *sql = sqlite3_mprintf("CREATE TEMP %s", strstr(view[i].sql, "VIEW"));
        rc = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
    }
    return rc == SQLITE_OK ? 0 : db_fail(s, err);
}

int db_make_tables(struct store *s, struct lab_err *err)
{
    return sqlite3_exec(s->db, SQL_SCHEMA, NULL, NULL, NULL) == SQLITE_OK ? db_make_views(s, err) : db_fail(s, err);
}

/* Several processes may come here at once: the first one in makes the tables, the others find them. */
static int create(struct store *s, struct lab_err *err)
{
    int64_t version;
    if (store_begin(s, err) != 0) return -1;
    enum identity found = identify(s, &version, err);
    if (found == OURS) return store_commit(s, err);
    if (found != EMPTY) return -1;
    return db_make_tables(s, err) == 0 && put_meta(s, err) == 0 ? store_commit(s, err) : -1;
}

/* Is the view in the file as we write it?  SQLite keeps its text without what stands before CREATE and without the end. */
static int view_is_current(struct store *s, int i, int *current, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    const char *create = strstr(view[i].sql, "CREATE VIEW");
    int rc = sqlite3_prepare_v2(s->db, "SELECT sql FROM sqlite_schema WHERE type = 'view' AND name = ?1", -1, &st, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(st, 1, view[i].name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    const char *found = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    size_t n = found ? strlen(found) : 0;
    *current = found && !strncmp(found, create, n) && create[n] == ';';
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_fail(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

/* Views hold no data and belong to the program: a file from an earlier one gets those of this one. */
static int refresh_views(struct store *s, struct lab_err *err)
{
    for (int i = 0, current; i < N_VIEW; i++) {
        char drop[64];
        if (view_is_current(s, i, &current, err) != 0) return -1;
        if (current) continue;
        snprintf(drop, sizeof drop, "DROP VIEW IF EXISTS %s", view[i].name);
        if (store_begin(s, err) != 0) return -1;
        if (sqlite3_exec(s->db, drop, NULL, NULL, NULL) != SQLITE_OK || sqlite3_exec(s->db, view[i].sql, NULL, NULL, NULL) != SQLITE_OK) {
            db_fail(s, err);
            sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
            return -1;
        }
        if (store_commit(s, err) != 0) return -1;
        s->views_made++;
    }
    return 0;
}

/* SQLite does not wait for a lock when it changes the journal's mode, so we do. */
static int use_wal(struct store *s, struct lab_err *err)
{
    for (int waited_ms = 0; sqlite3_exec(s->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL) != SQLITE_OK; waited_ms += 20) {
        if ((sqlite3_errcode(s->db) & 0xff) != SQLITE_BUSY || waited_ms > WRITER_PATIENCE_MS) return db_fail(s, err);
        usleep(20000);
    }
    return 0;
}

/* meta's db_uuid; a file that lacks it waits for nothing. */
static int read_uuid(struct store *s, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key = 'db_uuid'", -1, &st, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) snprintf(s->uuid, sizeof s->uuid, "%s", (const char *)sqlite3_column_text(st, 0));
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_fail(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

/* What waited while it could not be written.  Before anybody is marked lost: those who left it there are not. */
static int enter_spilled(struct store *s, struct lab_err *err)
{
    struct spill_count count;
    if (spill_enter(s, 1, &count, err) != 0) return -1;
    size_t n = strlen(s->notice);
    if (count.entered) n += (size_t)snprintf(s->notice + n, sizeof s->notice - n,
                                             "%s%d result%s that waited while the database could not be written %s entered",
                                             n ? "; " : "", count.entered, count.entered == 1 ? "" : "s", count.entered == 1 ? "is" : "are");
    if (count.waiting && n < sizeof s->notice) snprintf(s->notice + n, sizeof s->notice - n, "%s%.400s", n ? "; " : "", count.why);
    return 0;
}

static int prepare_writer(struct store *s, enum identity found, int64_t version, struct lab_err *err)
{
    if (found == EMPTY && create(s, err) != 0) return -1;
    if (found == EARLIER && db_migrate(s, db_steps, version, DB_SCHEMA, err) != 0) return -1;
    if (use_wal(s, err) != 0 || db_remember_file(s, err) != 0 || refresh_views(s, err) != 0) return -1;
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    if (read_uuid(s, err) != 0 || enter_spilled(s, err) != 0) return -1;
    int before = sqlite3_total_changes(s->db), rc = db_mark_lost(s, 0, err);
    s->marked_lost = sqlite3_total_changes(s->db) - before;
    return rc;
}

static int refuse_reading(struct store *s, enum identity found, int64_t version, struct lab_err *err)
{
    if (found == EMPTY) return lab_fail(err, "%s: has no results in it; `lab run FILE.ini` makes a database", s->path);
    return lab_fail(err, "%s: was written by an earlier lab (schema %" PRId64 ", this one reads %d); `lab fsck --repair` brings it up, after a backup",
                    s->path, version, DB_SCHEMA);
}

int store_open(struct store **out, const char *path, enum store_mode mode, struct lab_err *err)
{
    struct place place;
    struct store *s = mem_alloc(sizeof *s, err);
    *out = NULL;
    if (!s) return -1;
    s->mode = mode;
    s->lock_fd = -1;
    s->path = mem_strdup(path, err);
    if (!s->path || follow_links(s, err) != 0 || survey(s, &place, err) != 0 || place_fits(s, &place, err) != 0 || connect(s, &place, err) != 0) goto fail;
    int64_t version;
    enum identity found = identify(s, &version, err);
    if (found == FOREIGN) goto fail;
    if (mode == STORE_READ && found != OURS && refuse_reading(s, found, version, err) != 0) goto fail;
    if (mode == STORE_READ ? read_uuid(s, err) != 0 : prepare_writer(s, found, version, err) != 0) goto fail;
    *out = s;
    return 0;
fail:
    s->mode = STORE_READ;            /* nothing to fold back into a file that is not ours */
    store_close(s);
    return -1;
}

void store_close(struct store *s)
{
    if (!s) return;
    for (int i = 0; i < DB_STATEMENTS; i++) sqlite3_finalize(s->stmt[i]);
    if (s->lock_fd >= 0) close(s->lock_fd);
    if (s->mode == STORE_WRITE && s->db) {           /* everything into the one file, even while a reader has it open */
        sqlite3_busy_timeout(s->db, 1000);
        sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}

const char *store_path(const struct store *s) { return s->path; }
const char *store_uuid(const struct store *s) { return s->uuid; }
const char *store_notice(const struct store *s) { return s->notice; }

int store_begin(struct store *s, struct lab_err *err)
{
    s->busy = 0;
    if (s->inode && db_refuse_moved(s, err) != 0) return -1;
    return sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, err);
}

void store_rollback(struct store *s)
{
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int store_commit(struct store *s, struct lab_err *err)
{
    if (sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) return 0;
    db_fail(s, err);
    store_rollback(s);
    return -1;
}

void store_patience(struct store *s, int ms) { sqlite3_busy_timeout(s->db, ms > 0 ? ms : WRITER_PATIENCE_MS); }
int store_was_busy(const struct store *s) { return s->busy; }
