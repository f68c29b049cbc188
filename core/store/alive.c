/* alive -- is the process still there that looks after an attempt?
 *
 * It holds one byte of an empty file beside the database locked, at a place drawn by chance.  The kernel lets go of
 * the lock when the process ends, however it ends, and shows it to processes that cannot see each other, as in two
 * containers.  If the file is deleted meanwhile, process id and start time still tell: an id alone is used again.
 * Databases on network file systems are not written to, so a process of another boot is gone, whatever its host.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "store/db.h"

static void boot_id(char id[DB_BOOT])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || fscanf(f, "%39s", id) != 1) id[0] = '\0';
    if (f) fclose(f);
}

/* Clock ticks after boot at which the process started; -1 if there is none, or only its exit status is left.
 * Its name may hold blanks and brackets. */
static int64_t pid_start(int64_t pid)
{
    char path[64], line[1024], state;
    long long start;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[n] = '\0';
    const char *name_end = strrchr(line, ')');
    int got = name_end && sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                                 &state, &start) == 2;
    return got && state != 'Z' && state != 'X' ? start : -1;
}

/* ---- the lock ---- */

static int open_lock(const struct store *s, int flags)
{
    char path[4096 + 8];
    snprintf(path, sizeof path, "%s-lock", s->path);
    return open(path, flags | O_CLOEXEC, 0666);
}

static struct flock byte_lock(int64_t at) { return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 }; }

static int is_locked(const struct store *s, int64_t at)
{
    if (at == s->lock_at) return 1;                  /* a handle does not see its own lock */
    struct flock lock = byte_lock(at);
    int fd = open_lock(s, O_RDONLY);
    if (fd < 0) return 0;
    int locked = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return locked;
}

/* Where there are no locks, process ids have to do. */
static void take_lock(struct store *s)
{
    int64_t at = 0;
    if (s->lock_fd < 0) s->lock_fd = open_lock(s, O_RDWR | O_CREAT);
    if (s->lock_fd < 0 || getrandom(&at, sizeof at, 0) != sizeof at) return;
    at &= INT64_MAX >> 1;
    struct flock lock = byte_lock(at);
    if (at && fcntl(s->lock_fd, F_OFD_SETLK, &lock) == 0) s->lock_at = at;
}

/* ---- the process ---- */

void db_process(struct store *s, struct db_process *p)
{
    if (!s->lock_at) take_lock(s);
    p->lock_at = s->lock_at;
    p->pid_start = pid_start(p->pid);
    boot_id(p->boot_id);
}

int db_is_alive(struct store *s, const struct db_process *p)
{
    char here[DB_BOOT];
    boot_id(here);
    if (strcmp(here, p->boot_id)) return 0;
    return (p->lock_at && is_locked(s, p->lock_at)) || (p->pid_start >= 0 && pid_start(p->pid) == p->pid_start);
}
