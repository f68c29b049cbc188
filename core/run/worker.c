/* worker -- see worker.h.  Between fork and exec only what is safe there is called. */
#include "run/worker.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "run/signals.h"

enum { PIPE_BYTES = 1 << 20,         /* several thousand records: a worker never waits for a commit */
       LOG_BYTES = 1 << 20,
       READS = 64,                   /* at a time: a full pipe and more, but one that never pauses must not keep us */
       LINGER_S = 10 };              /* for a worker that has closed its records but does not end */

/* ---- start ---- */

/* The job in a nameless file: unlike a pipe it takes any size without anybody waiting. */
static int job_file(const struct str *job, struct lab_err *err)
{
    int fd = memfd_create("lab-job", MFD_CLOEXEC);
    if (job->failed) lab_fail(err, "out of memory for a worker's job");
    else if (fd < 0 || write(fd, job->text, job->len) != (ssize_t)job->len || lseek(fd, 0, SEEK_SET) != 0)
        lab_fail(err, "a worker's job cannot be written: %s", strerror(errno));
    else return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static int open_pipe(int ends[2], struct lab_err *err)
{
    if (pipe2(ends, O_CLOEXEC) != 0) return lab_fail(err, "no pipe for a worker: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);      /* as large as the system lets it be */
    return 0;
}

/* Before exec, so that a plugin's own start is under it too. */
static void limit_memory(int64_t mb)
{
#ifndef __SANITIZE_ADDRESS__                      /* that reserves terabytes */
    rlim_t bytes = (rlim_t)mb << 20;
    if (mb) setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, bytes });
#else
    (void)mb;
#endif
}

/* One that stands where another is wanted.  Only those: under a small limit there are no more to be had. */
static int out_of_the_way(int fd) { return fd > 3 ? fd : fcntl(fd, F_DUPFD, 4); }

__attribute__((noreturn))
static void become(const char *program, int job, int output, int record, int64_t memory_mb)
{
    static const char failed[] = "lab: the worker cannot be started: exec failed\n";
    char *const argv[] = { "lab", "worker", NULL };
    setpgid(0, 0);
    signals_reset();
    job = out_of_the_way(job), output = out_of_the_way(output), record = out_of_the_way(record);
    if (dup2(job, 0) == 0 && dup2(output, 1) == 1 && dup2(output, 2) == 2 && dup2(record, 3) == 3) {
        close_range(4, ~0u, 0);
        limit_memory(memory_mb);
        execv(program, argv);
    }
    if (write(2, failed, sizeof failed - 1) < 0) _exit(126);
    _exit(127);
}

static void close_both(int ends[2])
{
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
}

int worker_start(struct worker *w, const char *program, const struct str *job, const char *log_path, int64_t memory_mb,
                 struct lab_err *err)
{
    int record[2] = { -1, -1 }, output[2] = { -1, -1 }, job_fd = job_file(job, err);
    pid_t pid = -1;
    char *path = mem_strdup(log_path, err);
    if (job_fd >= 0 && path && open_pipe(record, err) == 0 && open_pipe(output, err) == 0) {
        pid = fork();
        if (pid == 0) become(program, job_fd, output[1], record[1], memory_mb);
        if (pid < 0) lab_fail(err, "a worker cannot be started: %s", strerror(errno));
    }
    if (job_fd >= 0) close(job_fd);
    if (pid < 0) return close_both(record), close_both(output), free(path), -1;
    setpgid(pid, pid);                             /* here and there: whoever comes first */
    close(record[1]);
    close(output[1]);
    unlink(log_path);                              /* an earlier attempt's log must not pass for this one's */
    w->pid = pid, w->kill_ns = 0, w->status = 0, w->log_path = path, w->log_fd = -1, w->logged = 0, w->n_in = 0;
    w->record_fd = record[0], w->output_fd = output[0];
    return 0;
}

/* ---- what it sends ---- */

static int take_records(struct worker *w, const struct worker_sink *sink, struct lab_err *err)
{
    struct record r;
    size_t used = 0;
    long n;
    while ((n = record_decode(&r, w->in + used, w->n_in - used, err)) > 0) {
        used += (size_t)n;
        if (sink->take(sink->ctx, &r, err) != 0) return -1;
    }
    memmove(w->in, w->in + used, w->n_in - used);
    w->n_in -= used;
    return n < 0 ? -1 : 0;
}

int worker_read(struct worker *w, const struct worker_sink *sink, struct lab_err *err)
{
    for (int i = 0; w->record_fd >= 0 && i < READS; i++) {
        ssize_t n = read(w->record_fd, w->in + w->n_in, sizeof w->in - w->n_in);   /* a record is smaller: there is always room */
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return 0;
        if (n <= 0) {
            close(w->record_fd);
            w->record_fd = -1;
            if (!w->kill_ns) w->kill_ns = clock_ns() + LINGER_S * INT64_C(1000000000);
            return 0;
        }
        w->n_in += (size_t)n;
        if (take_records(w, sink, err) != 0) return -1;
    }
    return 0;
}

static void append_log(struct worker *w, const char *text, size_t n)
{
    if (w->log_fd < 0) {
        char *slash = strrchr(w->log_path, '/');
        *slash = '\0';
        mkdir(w->log_path, 0777);
        *slash = '/';
        w->log_fd = open(w->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    }
    if (w->log_fd >= 0 && write(w->log_fd, text, n) < 0) w->logged = LOG_BYTES;    /* full disk: a log is not worth a run */
}

void worker_read_output(struct worker *w)
{
    static const char cut[] = "\nlab: the rest was cut off (limit is 1 MB)\n";
    char text[16 * 1024];
    for (int i = 0; w->output_fd >= 0 && i < READS; i++) {
        ssize_t n = read(w->output_fd, text, sizeof text);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) { close(w->output_fd); w->output_fd = -1; return; }
        if (w->logged >= LOG_BYTES) continue;
        size_t room = LOG_BYTES - w->logged, keep = (size_t)n < room ? (size_t)n : room;
        w->logged += keep;
        append_log(w, text, keep);
        if (w->logged >= LOG_BYTES) append_log(w, cut, sizeof cut - 1);
    }
}

/* ---- end ---- */

int worker_reap(struct worker *w)
{
    siginfo_t info = { 0 };
    if (waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid) return 0;
    kill(-w->pid, SIGKILL);                        /* processes that a plugin left behind, while the number is still ours */
    struct rusage used = { .ru_maxrss = 0 };
    while (wait4(w->pid, &w->status, 0, &used) < 0 && errno == EINTR) {}
    w->peak_mb = used.ru_maxrss / 1024;
    w->pid = 0;
    return 1;
}

void worker_close(struct worker *w)
{
    int *const fd[] = { &w->record_fd, &w->output_fd, &w->log_fd };
    for (int i = 0; i < 3; i++) {
        if (*fd[i] >= 0) close(*fd[i]);
        *fd[i] = -1;
    }
    free(w->log_path);
    w->log_path = NULL;
}

void worker_signal(const struct worker *w, int signal)
{
    if (w->pid > 0) kill(signal == SIGTERM ? w->pid : -w->pid, signal);
}

void worker_describe(const struct worker *w, char *out, size_t size)
{
    int signal = WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
    if (signal) snprintf(out, size, "killed by signal %d (%s)", signal, strsignal(signal));
    else snprintf(out, size, "exited with status %d", WEXITSTATUS(w->status));
}
