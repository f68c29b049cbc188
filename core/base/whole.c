/* whole -- see whole.h. */
#include "base/whole.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A killed writer leaves its temporary file to the next one.  If that one still writes, we wait for it, and
 * find that the file which we locked has been renamed meanwhile. */
static int open_alone(const char *path)
{
    for (;;) {
        struct stat ours, there;
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return -1;
        errno = 0;
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
            ftruncate(fd, 0) == 0) return fd;
        int why = errno;
        close(fd);
        if (why && why != ENOENT && why != EINTR) return errno = why, -1;
    }
}

int whole_begin(struct whole *w, const char *path, struct lab_err *err)
{
    *w = (struct whole){ .path = path, .fd = -1 };
    if (strlen(path) >= WHOLE_PATH) return lab_fail(err, "%s: path is too long", path);
    sprintf(w->temporary, "%s.tmp", path);
    w->fd = open_alone(w->temporary);
    if (w->fd < 0) return lab_fail(err, "%s: cannot be created: %s", w->temporary, strerror(errno));
    hash_init(&w->hash);
    return 0;
}

void whole_put(struct whole *w, const void *bytes, size_t n)
{
    const char *p = bytes;
    hash_add(&w->hash, bytes, n);
    w->bytes += (int64_t)n;
    while (n > 0 && !w->failed) {
        ssize_t k = write(w->fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) w->failed = k < 0 ? errno : EIO;
        else p += k, n -= (size_t)k;
    }
}

/* After a rename the folder's entry itself must reach the disk. */
static int sync_folder(const char *path)
{
    char copy[WHOLE_PATH];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int rc = fsync(fd);
    close(fd);
    return rc;
}

int whole_end(struct whole *w, struct lab_err *err)
{
    if (!w->failed && (fsync(w->fd) != 0 || rename(w->temporary, w->path) != 0 || sync_folder(w->path) != 0)) w->failed = errno;
    if (w->failed) unlink(w->temporary);
    close(w->fd);
    return w->failed ? lab_fail(err, "%s: cannot be written: %s", w->path, strerror(w->failed)) : 0;
}
