/* whole -- see whole.h. */
#include "base/whole.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

int whole_open(struct whole *w, const char *path, struct lab_err *err)
{
    int n = folder_length(path);
    *w = (struct whole){ NULL, "", "" };
    size_t room = sizeof w->temporary;
    if (strlen(path) >= WHOLE_PATH || (size_t)snprintf(w->temporary, room, "%.*s.tmp-%s.XXXXXX", n, path, path + n) >= room)
        return lab_fail(err, "%s: path is too long (limit is %d bytes)", path, WHOLE_PATH - 14);
    strcpy(w->path, path);
    mode_t mask = umask(0);
    umask(mask);
    int fd = mkostemp(w->temporary, O_CLOEXEC);
    w->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (w->file && fchmod(fd, 0666 & ~mask) == 0) return 0;
    lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
    if (fd >= 0) unlink(w->temporary);
    if (w->file) fclose(w->file);
    else if (fd >= 0) close(fd);
    w->file = NULL;
    return -1;
}

/* After a rename the folder's entry itself must reach the disk. */
static int sync_folder(const char *path)
{
    char folder[WHOLE_PATH + 2];
    snprintf(folder, sizeof folder, "%.*s.", folder_length(path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0) close(fd);
    return rc;
}

int whole_close(struct whole *w, struct lab_err *err)
{
    errno = 0;
    int why = fflush(w->file) != 0 || ferror(w->file) || fsync(fileno(w->file)) != 0 ? errno ? errno : EIO : 0;
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
    while ((n = fread(piece, 1, sizeof piece, in)) > 0 && fwrite(piece, 1, n, w.file) == n) {}
    int bad = ferror(in);
    fclose(in);
    if (!bad) return whole_close(&w, err);
    whole_abandon(&w);
    return lab_fail(err, "%s: cannot be read", from);
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
