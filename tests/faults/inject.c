/* inject -- makes chosen system calls of a lab process fail.  A library for LD_PRELOAD; lab knows nothing of it.
 *
 *   LAB_FAULT="KIND N"       the N-th call of this kind fails, once
 *   LAB_FAULT="KIND N+"      and every one after it
 *   LAB_FAULT="KIND FILE"    every one as long as FILE exists: a disk that is full for a while
 *   LAB_FAULT_ERRNO=28       how (otherwise as the table says)
 *   LAB_FAULT_IN=worker      in workers; otherwise in the process that the user started
 *   LAB_FAULT_PATH=TEXT      only on files whose path contains TEXT
 *   LAB_FAULT_FIRED=FILE     is made when the first call fails: a loop over N ends when it is not there
 *   LAB_MOUNTINFO=FILE       is read where lab asks for /proc/self/mountinfo: a network file system without a network
 *
 * Kinds: malloc, sqlmalloc (memory for SQLite), write, sync, rename, open, read, map.  Only regular files outside /proc count, and
 * no plugins.  What OpenBLAS asks for does not: it ends the process when it gets no memory.  SQLite's own I/O goes through the same
 * functions: its real VFS is tested, not a copy.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLACES __attribute__((visibility("default")))

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

enum kind { MALLOC, SQLMALLOC, WRITE, SYNC, RENAME, OPEN, READ, MAP, N_KIND, NONE = -1 };
static const struct { const char *name; int error; } kind_row[N_KIND] = {
    [MALLOC] = { "malloc", ENOMEM }, [SQLMALLOC] = { "sqlmalloc", ENOMEM }, [WRITE] = { "write", ENOSPC }, [SYNC] = { "sync", EIO },
    [RENAME] = { "rename", ENOSPC }, [OPEN] = { "open", EMFILE }, [READ] = { "read", EIO }, [MAP] = { "map", ENOMEM } };

static enum kind armed = NONE;
static long at, seen;                /* at: 0 = as long as while_file is there */
static int for_ever, error, fired;
static const char *while_file, *fired_file, *path_part, *mountinfo;

/* ---- where a library's code lies ---- */

struct library { const char *name; uintptr_t from, to; };
static struct library blas = { "openblas", 0, 0 }, sqlite = { "sqlite3", 0, 0 };

static int find(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct library *library = ctx;
    (void)size;
    if (!strstr(info->dlpi_name, library->name)) return 0;
    library->from = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > library->to) library->to = end;
    }
    return 1;
}

static int is_in(const struct library *library, const void *caller) { return (uintptr_t)caller >= library->from && (uintptr_t)caller < library->to; }

/* ---- what is to fail ---- */

static const char *setting(const char *name) { const char *s = getenv(name); return s && *s ? s : NULL; }

__attribute__((constructor))
static void arm(int argc, char **argv)
{
    const char *fault = setting("LAB_FAULT"), *in = setting("LAB_FAULT_IN"), *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    int worker = argc > 1 && !strcmp(argv[1], "worker");
    mountinfo = setting("LAB_MOUNTINFO");
    if (!fault || argc < 1 || strcmp(slash ? slash + 1 : argv[0], "lab") || worker != (in && !strcmp(in, "worker"))) return;
    const char *blank = strchr(fault, ' ');
    char *end;
    if (!blank) return;
    for (int k = 0; k < N_KIND; k++)
        if (strlen(kind_row[k].name) == (size_t)(blank - fault) && !strncmp(kind_row[k].name, fault, (size_t)(blank - fault))) armed = (enum kind)k;
    if (armed == NONE) return;
    at = strtol(blank + 1, &end, 10);
    for_ever = *end == '+';
    if (at <= 0) while_file = blank + 1;
    const char *how = setting("LAB_FAULT_ERRNO");
    error = how ? atoi(how) : kind_row[armed].error;
    fired_file = setting("LAB_FAULT_FIRED");
    path_part = setting("LAB_FAULT_PATH");
    dl_iterate_phdr(find, &blas);
    dl_iterate_phdr(find, &sqlite);
}

static void fire(void)
{
    if (!fired++ && fired_file) {
        int fd = openat(AT_FDCWD, fired_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0) close(fd);
    }
}

/* Shall this call fail?  Then errno says how. */
static int fails(enum kind kind)
{
    static int inside;
    if (kind != armed || inside) return 0;
    inside = 1;
    int now = at > 0 ? ++seen == at || (for_ever && seen > at) : faccessat(AT_FDCWD, while_file, F_OK, 0) == 0;
    if (now) fire();
    inside = 0;
    if (now) errno = error;
    return now;
}

static int counts_path(const char *path)
{
    size_t n = strlen(path);
    if (!strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) || !strncmp(path, "/dev/", 5) || (n > 3 && !strcmp(path + n - 3, ".so"))) return 0;
    return !path_part || strstr(path, path_part);
}

static int counts_fd(int fd)
{
    char link[64], path[4096];
    struct stat st;
    if (armed == NONE || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0 || !strncmp(path, "/memfd:", 7)) return 0;
    path[n] = '\0';
    return counts_path(path);
}

/* ---- memory ---- */

static int fails_for(const void *caller)
{
    if (armed != MALLOC && armed != SQLMALLOC) return 0;
    return is_in(&sqlite, caller) == (armed == SQLMALLOC) && !is_in(&blas, caller) && fails(armed);
}

REPLACES void *malloc(size_t n) { return fails_for(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
REPLACES void *calloc(size_t n, size_t size) { return fails_for(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size); }
REPLACES void *realloc(void *p, size_t n) { return fails_for(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n); }
REPLACES void *aligned_alloc(size_t align, size_t n) { return fails_for(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n); }

/* ---- files ---- */

/* The function that ours stands before. */
#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define ON_FD(type, kind, name, declared, passed) \
    REPLACES type name declared { NEXT(name); return armed == kind && counts_fd(fd) && fails(kind) ? -1 : next passed; }

ON_FD(ssize_t, WRITE, write, (int fd, const void *p, size_t n), (fd, p, n))
ON_FD(ssize_t, WRITE, pwrite, (int fd, const void *p, size_t n, off_t where), (fd, p, n, where))
ON_FD(ssize_t, WRITE, pwrite64, (int fd, const void *p, size_t n, off64_t where), (fd, p, n, where))
ON_FD(int, WRITE, ftruncate, (int fd, off_t n), (fd, n))
ON_FD(int, WRITE, ftruncate64, (int fd, off64_t n), (fd, n))
ON_FD(int, SYNC, fsync, (int fd), (fd))
ON_FD(int, SYNC, fdatasync, (int fd), (fd))
ON_FD(ssize_t, READ, read, (int fd, void *p, size_t n), (fd, p, n))
ON_FD(ssize_t, READ, pread, (int fd, void *p, size_t n, off_t where), (fd, p, n, where))
ON_FD(ssize_t, READ, pread64, (int fd, void *p, size_t n, off64_t where), (fd, p, n, where))

REPLACES int rename(const char *from, const char *to)
{
    NEXT(rename);
    return armed == RENAME && counts_path(to) && fails(RENAME) ? -1 : next(from, to);
}

/* A file system that has become read-only lets files be opened to read. */
static int fails_open(const char *path, int writes) { return armed == OPEN && (writes || error != EROFS) && counts_path(path) && fails(OPEN); }

#define OPEN_LIKE(name) \
    REPLACES int name(const char *path, int flags, ...) \
    { \
        NEXT(name); \
        va_list ap; \
        va_start(ap, flags); \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0; \
        va_end(ap); \
        return fails_open(path, (flags & O_ACCMODE) != O_RDONLY) ? -1 : next(path, flags, mode); \
    }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define FOPEN_LIKE(name) \
    REPLACES FILE *name(const char *path, const char *mode) \
    { \
        NEXT(name); \
        if (mountinfo && !strcmp(path, "/proc/self/mountinfo")) path = mountinfo; \
        return fails_open(path, *mode != 'r') ? NULL : next(path, mode); \
    }
FOPEN_LIKE(fopen)
FOPEN_LIKE(fopen64)

REPLACES int mkdir(const char *path, mode_t mode) { NEXT(mkdir); return fails_open(path, 1) ? -1 : next(path, mode); }

#define MMAP_LIKE(name, offset) \
    REPLACES void *name(void *p, size_t n, int protection, int flags, int fd, offset where) \
    { \
        NEXT(name); \
        return armed == MAP && fd >= 0 && counts_fd(fd) && fails(MAP) ? MAP_FAILED : next(p, n, protection, flags, fd, where); \
    }
MMAP_LIKE(mmap, off_t)
MMAP_LIKE(mmap64, off64_t)
