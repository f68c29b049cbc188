/* aside -- see aside.h. */
#include "store/aside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/scratch.h"
#include "store/merge.h"

static int beside(char out[WHOLE_PATH], const char *path, const char *suffix, struct lab_err *err)
{
    return snprintf(out, WHOLE_PATH, "%s%s", path, suffix) < WHOLE_PATH ? 0 : lab_fail(err, "%s: path is too long", path);
}

/* Locks of whole files by fcntl are what NFS and its like pass on to other machines.  Where there are none we go without. */
static int take_lock(struct aside *a, struct lab_err *err)
{
    char path[WHOLE_PATH];
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int rc;
    if (beside(path, a->db, "-merge", err) != 0) return -1;
    a->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (a->lock < 0) return lab_fail(err, "%s: %s", path, strerror(errno));
    while ((rc = fcntl(a->lock, F_SETLKW, &whole)) != 0 && errno == EINTR) {}
    if (rc == 0 || errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP) return 0;
    return lab_fail(err, "%s: cannot be locked: %s", path, strerror(errno));
}

/* Changes that wait in a WAL would be left behind: there should be none on a network file system. */
static int take_copy(const struct aside *a, struct lab_err *err)
{
    char wal[WHOLE_PATH];
    struct stat st;
    if (beside(wal, a->db, "-wal", err) != 0) return -1;
    if (stat(wal, &st) == 0 && st.st_size > 0) return lab_fail(err, "%s: is in use, or was left in the middle of a change: there is a %s", a->db, wal);
    if (stat(a->db, &st) != 0 && errno == ENOENT) return 0;
    return whole_copy(a->db, a->copy, err);
}

static int make_folder(struct aside *a, struct lab_err *err)
{
    return scratch_make(a->folder, "aside", err) == 0 ? beside(a->copy, a->folder, "/lab.db", err) : -1;
}

int aside_open(struct aside *a, const char *db, struct lab_err *err)
{
    *a = (struct aside){ .lock = -1 };
    if (beside(a->db, db, "", err) == 0 && make_folder(a, err) == 0 && take_lock(a, err) == 0 && take_copy(a, err) == 0) return 0;
    aside_close(a);
    return -1;
}

int aside_put_back(struct aside *a, struct store *store, struct lab_err *err)
{
    char one[WHOLE_PATH];
    if (beside(one, a->folder, "/whole.db", err) != 0 || merge_copy(store, one, err) != 0) return -1;
    return whole_copy(one, a->db, err);
}

void aside_close(struct aside *a)
{
    scratch_remove(a->folder);
    if (a->lock >= 0) close(a->lock);                /* the file stays: removing it would let two in */
    *a = (struct aside){ .lock = -1 };
}
