/* db -- what the files of store share: the handle, and how SQLite's failures are told to a user. */
#ifndef LAB_STORE_DB_H
#define LAB_STORE_DB_H
#include <sqlite3.h>
#include <sys/types.h>
#include "store/store.h"

enum { DB_APPLICATION = 0x4C414231,  /* 'LAB1': whose file it is */
       DB_SCHEMA = 1,                /* the version that this lab reads and writes */
       DB_STATEMENTS = 40 };         /* room for store.c's prepared statements */
struct store {
    sqlite3 *db;
    char *path;                      /* as the user gave it, links followed: every message begins with it */
    enum store_mode mode;
    sqlite3_stmt *stmt[DB_STATEMENTS];
    int lock_fd;                     /* PATH-lock, -1: not open */
    int64_t lock_at;                 /* the byte of it that is ours; 0: none */
    char uuid[STORE_UUID];           /* meta's db_uuid, known even when the file cannot be read any more */
    dev_t device; ino_t inode;       /* of the file, when it was opened to write */
    int busy;                        /* was what failed last a lock of another program? */
    int marked_lost, views_made;     /* attempts and views, when it was opened */
    char notice[1024];               /* what opening did that a user should know */
};

/* -1 with "PATH: what SQLite's last error on this handle means and what to do" in err. */
int db_fail(struct store *, struct lab_err *err);

/* Which file this is; and -1 once another one, or none, has its name. */
int db_remember_file(struct store *, struct lab_err *err);
int db_refuse_moved(const struct store *, struct lab_err *err);
/* A consistent copy, whoever else reads or writes meanwhile, that is on the disk when this returns. */
int db_copy(struct store *, const char *path, struct lab_err *err);

/* The hash of an attempt's result as its rows have it; and into its row, after evaluations were added. */
int db_result(struct store *, int64_t attempt_id, char sum[HASH_HEX], struct lab_err *err);
int db_seal(struct store *, int64_t attempt_id, struct lab_err *err);
int db_fits(struct store *, int64_t attempt_id, int *fits, struct lab_err *err);         /* the one in its row: 1 or 0 */

/* Is this the name of one of our views? */
int db_is_view(const char *name);

/* A random (version 4) UUID. */
enum { DB_UUID = STORE_UUID };
int db_uuid(struct store *, char uuid[DB_UUID], struct lab_err *err);

/* The process that looks after an attempt.  boot_id is the kernel's, new at every start of the machine. */
enum { DB_BOOT = 40 };
struct db_process { int64_t pid, pid_start, lock_at; char boot_id[DB_BOOT]; };
/* Fills in all but pid, and locks a byte of PATH-lock if this handle holds none yet. */
void db_process(struct store *, struct db_process *);
int  db_is_alive(struct store *, const struct db_process *);
/* The first number of the first row; it is an error if there is none. */
int db_ask_integer(struct store *, const char *sql, int64_t *out, struct lab_err *err);

/* What a new database has: tables, then views.  Views hold no data, so they may be dropped and made again. */
int db_make_tables(struct store *, struct lab_err *err);
int db_make_views(struct store *, struct lab_err *err);
int db_drop_views(struct store *, struct lab_err *err);
int db_make_temporary_views(struct store *, struct lab_err *err);    /* over the tables that a query of this connection would find */

/* From schema `from` to `to`, step[n] being the SQL from n to n + 1, after a backup beside the database.  Outside transactions. */
int db_migrate(struct store *, const char *const *step, int64_t from, int64_t to, struct lab_err *err);
extern const char *const db_steps[DB_SCHEMA];

/* Marks attempts as lost that say "running" and whose process is gone: of one run, or of all with run_id 0. */
int db_mark_lost(struct store *, int64_t run_id, struct lab_err *err);

/* The type of the file system with this device number, as mountinfo (a file in the format of
 * /proc/self/mountinfo) names it, if it is a network's; "" if it is not, or is not known. */
void db_network(const char *mountinfo, unsigned major, unsigned minor, char type[32]);
#endif
