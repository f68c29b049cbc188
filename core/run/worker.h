/* worker -- one child process with its job, the records it sends, and what else it prints.
 *
 * The job is its standard input, records come on its descriptor 3, and its stdout and
 * stderr go to a log file that is made only if something is printed and never grows
 * beyond 1 MB.  It has a process group of its own, so that a terminal's Ctrl-C reaches
 * the supervisor alone.
 */
#ifndef LAB_RUN_WORKER_H
#define LAB_RUN_WORKER_H
#include <sys/types.h>
#include "base/str.h"
#include "exp/record.h"

struct worker {
    pid_t pid;                       /* 0: none */
    int record_fd, output_fd;        /* to poll; -1: closed */
    int64_t kill_ns;                 /* when to kill it (clock_ns), 0 = never */
    int status;                      /* as waitpid gives it, once it has ended ... */
    int64_t peak_mb;                 /* ... and the most memory that it held */
    char *log_path;
    int log_fd;                      /* -1: nothing printed yet */
    size_t logged;
    unsigned char in[64 * 1024];     /* bytes that are not a whole record yet */
    size_t n_in;
};

/* Starts `program worker` with memory_mb of address space (0: no limit).  The job's text is copied.  On failure nothing is left to end. */
int worker_start(struct worker *, const char *program, const struct str *job, const char *log_path, int64_t memory_mb, struct lab_err *err);

/* Takes what has arrived.  -1: what arrived is not a record, or take said no with a reason in err. */
struct worker_sink { int (*take)(void *ctx, const struct record *, struct lab_err *err); void *ctx; };
int worker_read(struct worker *, const struct worker_sink *, struct lab_err *err);
void worker_read_output(struct worker *);

/* Has it ended?  1: yes, status is set and its processes are gone; its pipes may still hold something to read. */
int worker_reap(struct worker *);
/* After the last read: closes what is open. */
void worker_close(struct worker *);

void worker_signal(const struct worker *, int signal);
/* What became of it, for people: "killed by signal 11 (Segmentation fault)". */
void worker_describe(const struct worker *, char *out, size_t size);
#endif
