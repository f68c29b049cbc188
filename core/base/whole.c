/* whole -- see whole.h. */
#include "base/whole.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

static const char begin[] = ".tmp-", end[] = ".XXXXXX";
enum { BEGIN = sizeof begin - 1, END = sizeof end - 1 };

int whole_open(struct whole *w, const char *path, struct lab_err *err)
{
    int n = folder_length(path);
    *w = (struct whole){ .file = NULL };
    size_t room = sizeof w->temporary;
    if (strlen(path) >= WHOLE_PATH || (size_t)snprintf(w->temporary, room, "%.*s%s%s%s", n, path, begin, path + n, end) >= room)
        return lab_fail(err, "%s: path is too long (limit is %d bytes)", path, WHOLE_PATH - 2 - BEGIN - END);
    strcpy(w->path, path);
    mode_t mask = umask(0);
    umask(mask);
    int fd = mkostemp(w->temporary, O_CLOEXEC);
    w->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);
    if (w->file && fchmod(fd, 0666 & ~mask) == 0) return 0;
    lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
    if (fd >= 0) unlink(w->temporary);
    if (w->file) fclose(w->file);
    else if (fd >= 0) close(fd);
    w->file = NULL;
    return -1;
}

static int sync_path(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    int rc = fd < 0 ? -1 : fsync(fd), why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return rc;
}

static void folder_of(char folder[WHOLE_PATH + 2], const char *path) { snprintf(folder, WHOLE_PATH + 2, "%.*s.", folder_length(path), path); }

/* After a rename the folder's entry itself must reach the disk. */
static int sync_folder(const char *path)
{
    char folder[WHOLE_PATH + 2];
    folder_of(folder, path);
    return sync_path(folder, O_DIRECTORY);
}

int whole_sync(const char *path) { return sync_path(path, 0) == 0 && sync_folder(path) == 0 ? 0 : -1; }

void whole_put(struct whole *w, const void *bytes, size_t n)
{
    errno = 0;
    if (!w->failed && fwrite(bytes, 1, n, w->file) != n) w->failed = errno ? errno : EIO;
}

int whole_close(struct whole *w, struct lab_err *err)
{
    int why = w->failed;
    errno = 0;
    if (!why && (fflush(w->file) != 0 || ferror(w->file) || fsync(fileno(w->file)) != 0)) why = errno ? errno : EIO;
    if (fclose(w->file) != 0 && !why) why = errno;       /* some file systems tell of a full disk only now */
    w->file = NULL;
    if (!why && (rename(w->temporary, w->path) != 0 || sync_folder(w->path) != 0)) why = errno;
    if (why) unlink(w->temporary);
    return why ? lab_fail(err, "%s: cannot be written: %s", w->path, strerror(why)) : 0;
}

void whole_abandon(struct whole *w)
{
    if (w->file) fclose(w->file), unlink(w->temporary);
    w->file = NULL;
}

int whole_copy(const char *from, const char *to, struct lab_err *err)
{
    char piece[1 << 16];
    struct whole w;
    size_t n;
    FILE *in = fopen(from, "rbe");
    if (!in) return lab_fail(err, "%s: cannot be read: %s", from, strerror(errno));
    if (whole_open(&w, to, err) != 0) return fclose(in), -1;
    while ((n = fread(piece, 1, sizeof piece, in)) > 0 && !w.failed) whole_put(&w, piece, n);
    int bad = ferror(in);
    fclose(in);
    if (!bad) return whole_close(&w, err);
    whole_abandon(&w);
    return lab_fail(err, "%s: cannot be read", from);
}

const char *whole_of(const char *name, size_t *length)
{
    size_t n = strlen(name);
    if (strncmp(name, begin, BEGIN) || n <= BEGIN + END || name[n - END] != '.') return NULL;
    *length = n - BEGIN - END;
    return name + BEGIN;
}

static int is_left(const char *name, const char *file)
{
    size_t n;
    const char *of = whole_of(name, &n);
    return of && n == strlen(file) && !memcmp(of, file, n);
}

void whole_sweep(const char *path)
{
    char folder[WHOLE_PATH + 2];
    folder_of(folder, path);
    DIR *d = strlen(path) < WHOLE_PATH ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d)); ) {
        if (!is_left(e->d_name, path + folder_length(path))) continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(d), e->d_name, 0);
        if (fd >= 0) close(fd);
    }
    if (d) closedir(d);
}

int whole_folder(const char *path, struct lab_err *err)
{
    char part[WHOLE_PATH];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return lab_fail(err, "%s: path is too long", path);
    for (char *slash = part + 1; ; slash++) {
        slash += strcspn(slash, "/");
        char c = *slash;
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return lab_fail(err, "%s: the folder cannot be made: %s", part, strerror(errno));
        *slash = c;
        if (!c) return 0;
    }
}
