/* db -- what the files of store share: the handle, and how SQLite's failures are told to a user. */
#ifndef LAB_STORE_DB_H
#define LAB_STORE_DB_H
#include <sqlite3.h>
#include "store/store.h"

enum { DB_STATEMENTS = 32 };         /* room for store.c's prepared statements */
struct store {
    sqlite3 *db;
    char *path;                      /* as the user gave it: every message begins with it */
    enum store_mode mode;
    sqlite3_stmt *stmt[DB_STATEMENTS];
};

/* -1 with "PATH: what SQLite's last error on this handle means and what to do" in err. */
int db_fail(struct store *, struct lab_err *err);

/* Is this the name of one of our views? */
int db_is_view(const char *name);

/* A random (version 4) UUID. */
enum { DB_UUID = 37 };
int db_uuid(struct store *, char uuid[DB_UUID], struct lab_err *err);

/* Marks attempts as lost that say "running" and whose process is gone: of one run, or of all with run_id 0. */
int db_mark_lost(struct store *, int64_t run_id, struct lab_err *err);

/* The type of the file system with this device number, as mountinfo (a file in the format of
 * /proc/self/mountinfo) names it, if it is a network's; "" if it is not, or is not known. */
void db_network(const char *mountinfo, unsigned major, unsigned minor, char type[32]);
#endif
