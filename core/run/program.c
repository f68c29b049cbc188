/* program -- see program.h. */
#include "run/program.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

enum { TAKEN_MAX = 64 << 20 };       /* more than any scheduler tells of 100,000 tasks */

static void close_both(int ends[2])
{
    for (int i = 0; i < 2; i++) if (ends[i] >= 0) close(ends[i]);
}

static int spawn(pid_t *pid, char *const argv[], int out, int said)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, said, 2);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int rc = posix_spawnp(pid, argv[0], &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* Reads both pipes until both are closed.  -1: the time was up, or there was too much. */
static int take_all(struct program *p, int out, int said, int64_t deadline_ns)
{
    struct pollfd from[2] = { { out, POLLIN, 0 }, { said, POLLIN, 0 } };
    struct str *into[2] = { &p->out, &p->said };
    for (int open = 2; open > 0;) {
        char text[16 * 1024];
        int64_t left_ms = (deadline_ns - clock_ns()) / 1000000;
        if (left_ms <= 0) return -1;
        if (poll(from, 2, (int)(left_ms < 60000 ? left_ms : 60000)) < 0 && errno != EINTR) return -1;
        for (int i = 0; i < 2; i++) {
            if (from[i].fd < 0 || !from[i].revents) continue;
            ssize_t n = read(from[i].fd, text, sizeof text);
            if (n > 0) str_addn(into[i], text, (size_t)n);
            else if (n == 0 || errno != EINTR) from[i].fd = -1, open--;
            if (into[i]->len > TAKEN_MAX) return -1;
        }
    }
    return 0;
}

static int is_missing(const char *name, struct lab_err *err)
{
    lab_fail(err, "%s: there is no such program in PATH", name);
    return PROGRAM_MISSING;
}

/* POSIX lets posix_spawnp find out later: then this is all that a child tells of it. */
static int never_began(const struct program *p)
{
    return WIFEXITED(p->status) && WEXITSTATUS(p->status) == 127 && p->out.len == 0 && p->said.len == 0;
}

int program_run(struct program *p, char *const argv[], double seconds, struct lab_err *err)
{
    int out[2] = { -1, -1 }, said[2] = { -1, -1 }, why = 0;
    pid_t pid = -1;
    *p = (struct program){ .status = -1 };
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0) why = errno;
    else why = spawn(&pid, argv, out[1], said[1]);
    if (why) {
        close_both(out), close_both(said);
        return why == ENOENT ? is_missing(argv[0], err) : lab_fail(err, "%s: %s", argv[0], strerror(why));
    }
    close(out[1]), close(said[1]);
    int rc = take_all(p, out[0], said[0], clock_ns() + (int64_t)(seconds * 1e9));
    close(out[0]), close(said[0]);
    if (rc != 0) kill(pid, SIGKILL);
    while (waitpid(pid, &p->status, 0) < 0 && errno == EINTR) {}
    if (rc != 0) return lab_fail(err, "%s: no answer within %.0f s", argv[0], seconds);
    if (never_began(p)) return is_missing(argv[0], err);
    return p->out.failed || p->said.failed ? lab_fail(err, "out of memory for what %s says", argv[0]) : 0;
}

void program_release(struct program *p)
{
    str_free(&p->out);
    str_free(&p->said);
}

int program_succeeded(const struct program *p) { return WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0; }

void program_complaint(const struct program *p, char *out, size_t size)
{
    size_t n = 0;
    const char *text = str_text(&p->said);
    for (; *text && n + 1 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c > ' ' && c != 0x7f) out[n++] = (char)c;
        else if (n && out[n - 1] != ' ') out[n++] = ' ';
    }
    while (n && out[n - 1] == ' ') n--;
    out[n] = '\0';
    if (n) return;
    if (WIFSIGNALED(p->status)) snprintf(out, size, "it was killed by signal %d", WTERMSIG(p->status));
    else snprintf(out, size, "it ended with status %d and said nothing", WEXITSTATUS(p->status));
}
