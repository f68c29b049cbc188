/* moved -- a database whose file was deleted, or replaced by another, while it was open.
 *
 * SQLite would go on writing into a file that no name leads to.  What it holds can still be read through the open handle:
 * it is put back where it was, or, where another file has taken the place, beside that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/str.h"
#include "store/db.h"

int db_remember_file(struct store *s, struct lab_err *err)
{
    struct stat st;
    if (stat(s->path, &st) != 0) return lab_fail(err, "%s: was deleted while it was being opened: %s", s->path, strerror(errno));
    s->device = st.st_dev, s->inode = st.st_ino;
    return 0;
}

/* 0 it is where it was; 1 nothing is there, 2 something else is. */
static int moved(const struct store *s)
{
    struct stat st;
    if (stat(s->path, &st) != 0) return errno == ENOENT ? 1 : 0;         /* a folder that cannot be read at the moment has lost nothing */
    return st.st_dev == s->device && st.st_ino == s->inode ? 0 : 2;
}

int store_moved(const struct store *s) { return moved(s) != 0; }

int db_refuse_moved(const struct store *s, struct lab_err *err)
{
    int how = moved(s);
    return how ? lab_fail(err, "%s: was %s while lab was running", s->path, how == 1 ? "deleted" : "replaced by another file") : 0;
}

/* Without a database its -wal and -shm are nobody's; left there they would be read into the one that is put back. */
static int put_back(struct store *s, const char *temporary, struct lab_err *err)
{
    struct str wal = { 0 }, shm = { 0 };
    str_printf(&wal, "%s-wal", s->path);
    str_printf(&shm, "%s-shm", s->path);
    int rc = wal.failed || shm.failed ? lab_fail(err, "%s: out of memory", s->path) : 0;
    if (rc == 0) unlink(wal.text), unlink(shm.text);
    if (rc == 0 && link(temporary, s->path) != 0) rc = lab_fail(err, "%s: cannot be put back: %s", s->path, strerror(errno));
    str_free(&wal);
    str_free(&shm);
    return rc;
}

int store_rescue(struct store *s, char path[STORE_PATH], struct lab_err *err)
{
    int how = moved(s), n = 1;
    char temporary[STORE_PATH];
    struct stat there;
    store_rollback(s);
    snprintf(path, STORE_PATH, "%s", s->path);
    while (how == 2 && (n == 1 || lstat(path, &there) == 0)) snprintf(path, STORE_PATH, "%.4000s.rescued%.0d", s->path, n++ > 1 ? n - 1 : 0);
    snprintf(temporary, sizeof temporary, "%.4000s.%ld.tmp", s->path, (long)getpid());
    if (db_copy(s, temporary, err) != 0) return -1;
    int rc = how == 1 ? put_back(s, temporary, err) : link(temporary, path) == 0 ? 0 : lab_fail(err, "%s: cannot be made: %s", path, strerror(errno));
    unlink(temporary);
    return rc;
}
