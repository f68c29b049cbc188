/* check -- see check.h.  Starts the tests and writes the report; the tests themselves are in check_*.c. */
#include "answer/check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "answer/check_test.h"
#include "base/clock.h"
#include "base/mem.h"
#include "host/plugin.h"

enum { LIMIT_MS = 5000 };
static const struct { const struct check_test *test; enum check_subject subject; } tables[] = {
    { check_load_tests, CHECK_THE_FILE },
    { check_encoder_tests, CHECK_THE_ENCODER }, { check_gradient_tests, CHECK_THE_ENCODER },
    { check_task_tests, CHECK_THE_TASK } };
enum { TABLES = sizeof tables / sizeof *tables };
static const char *const subject_name[] = { "file", "encoder", "task" };

/* ---- what a test says ---- */

#define FORMAT(into, fmt) do { va_list ap; va_start(ap, fmt); vsnprintf(into, sizeof into, fmt, ap); va_end(ap); } while (0)

void check_doing(struct check_case *c, const char *fmt, ...) { FORMAT(c->answer->doing, fmt); }
void check_note(struct check_case *c, const char *fmt, ...) { FORMAT(c->answer->note, fmt); }

static void __attribute__((noreturn)) end(struct check_case *c, enum check_state state)
{
    c->answer->state = state;
    c->answer->given = 1;
    _exit(0);
}

void check_skip(struct check_case *c, const char *fmt, ...)
{
    FORMAT(c->answer->note, fmt);
    end(c, CHECK_SKIPPED);
}

void check_fail(struct check_case *c, const char *expected, const char *cause, const char *fmt, ...)
{
    char seen[256];
    FORMAT(seen, fmt);
    snprintf(c->answer->expected, sizeof c->answer->expected, "%s", expected);
    snprintf(c->answer->cause, sizeof c->answer->cause, "%s", cause);
    snprintf(c->answer->seen, sizeof c->answer->seen, "%s%s%.200s%s", seen, *c->answer->doing ? " (" : "", c->answer->doing,
             *c->answer->doing ? ")" : "");
    end(c, CHECK_FAILED);
}

/* ---- the process of one test ---- */

static struct check_answer *faulted;             /* where the signal handler writes */

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGSEGV || number == SIGBUS) {
        rig_where(info->si_addr, faulted->note);
        if (!*faulted->note) snprintf(faulted->note, sizeof faulted->note, "address %p", info->si_addr);
    }
    faulted->signal = number;
    _exit(1);
}

static void catch_faults(struct check_answer *answer)
{
    static char stack[1 << 16];                  /* of its own: the fault may be the stack's end */
    const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof stack }, NULL);
    faulted = answer;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(nowhere, fd);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

static void find_entry(struct check_case *c, const struct lab_plugin *p, enum check_subject subject, const char *name)
{
    for (int i = 0; subject == CHECK_THE_ENCODER && p->encoders[i]; i++)
        if (!strcmp(p->encoders[i]->name, name)) c->encoder = p->encoders[i];
    for (int i = 0; subject == CHECK_THE_TASK && p->tasks[i]; i++)
        if (!strcmp(p->tasks[i]->name, name)) c->task = p->tasks[i];
}

static void __attribute__((noreturn)) child(struct check_case *c, enum check_subject subject, const char *name)
{
    const struct lab_plugin *p;
    struct lab_err err;
    setpgid(0, 0);
    be_quiet();
    catch_faults(c->answer);
    if (subject != CHECK_THE_FILE) {
        check_doing(c, "loading the file");
        if (plugin_open(c->path, &p, &err) != 0) check_fail(c, "a file that loads each time", "it loaded a moment ago", "%s", err.msg);
        find_entry(c, p, subject, name);
    }
    check_doing(c, "%s", "");
    c->test->run(c);
    end(c, CHECK_OK);
}

/* Processor time that a child has had, so far. */
static int64_t used_ns(pid_t pid)
{
    clockid_t id;
    struct timespec t;
    return clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

/* Its end closes the pipe; 0 when that took too long.  On a busy machine that is counted in processor time: who computes
 * gets another term, who sleeps does not. */
static int wait_for_end(pid_t pid, int fd, int limit_ms)
{
    int64_t limit = (int64_t)limit_ms * 1000000, deadline = clock_ns() + limit, used = 0;
    struct pollfd p = { .fd = fd };
    for (;;) {
        int64_t left = (deadline - clock_ns()) / 1000000;
        int n = poll(&p, 1, left > 0 ? (int)left : 0);
        if (n > 0) return 1;
        if (n < 0) continue;
        int64_t before = used;
        used = used_ns(pid);
        if (used >= limit || used - before < limit / 10) return 0;
        deadline += limit;
    }
}

/* ---- what became of it ---- */

static void explain_end(struct check_row *row, const struct check_answer *a, int status, int in_time, int limit_ms)
{
    const char *doing = *a->doing ? a->doing : a->given ? "" : row->test;
    int number = a->signal ? a->signal : WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    row->state = CHECK_FAILED;
    if (!in_time) {
        snprintf(row->expected, sizeof row->expected, "an answer within %g s", limit_ms / 1000.0);
        snprintf(row->seen, sizeof row->seen, "no answer: %.200s", doing);
        snprintf(row->cause, sizeof row->cause, "an endless loop, or a wait for something that never comes");
    } else if (number) {
        snprintf(row->expected, sizeof row->expected, "a call that returns");
        snprintf(row->seen, sizeof row->seen, "%s%s%s: %.200s", strsignal(number), *a->note ? " at " : "", a->note, doing);
        snprintf(row->cause, sizeof row->cause, "an index or a pointer that is out of range; run it under a debugger, or build it with -g "
                 "-fsanitize=address");
    } else {
        snprintf(row->expected, sizeof row->expected, "a call that returns");
        snprintf(row->seen, sizeof row->seen, "it ended the process, status %d: %.200s", WEXITSTATUS(status), doing);
        snprintf(row->cause, sizeof row->cause, "exit() in a plugin; return an error from init, or use what was asked");
    }
}

static void take_answer(struct check_row *row, const struct check_answer *a)
{
    row->state = a->state;
    snprintf(row->expected, sizeof row->expected, "%s", a->expected);
    snprintf(row->seen, sizeof row->seen, "%s", a->seen);
    snprintf(row->cause, sizeof row->cause, "%s", a->cause);
    snprintf(row->note, sizeof row->note, "%s", a->note);
}

static int run(struct check_row *row, struct check_case *c, enum check_subject subject, const char *name, int limit_ms, struct lab_err *err)
{
    int fd[2], status = 0;
    int64_t start = clock_ns();
    memset(c->answer, 0, offsetof(struct check_answer, plugin));
    fflush(stdout);
    if (pipe2(fd, O_CLOEXEC) != 0) return lab_fail(err, "no pipe for %s: %s", c->test->name, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) close(fd[0]), child(c, subject, name);
    close(fd[1]);
    int in_time = pid > 0 && wait_for_end(pid, fd[0], limit_ms);
    close(fd[0]);
    if (pid < 0) return lab_fail(err, "no process for %s: %s", c->test->name, strerror(errno));
    if (!in_time) kill(pid, SIGKILL);
    kill(-pid, SIGKILL);                         /* what it may have started */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    row->ms = (double)(clock_ns() - start) / 1e6;
    if (in_time && c->answer->given && WIFEXITED(status)) take_answer(row, c->answer);
    else explain_end(row, c->answer, status, in_time, limit_ms);
    return 0;
}

/* ---- all tests of a file ---- */

static const struct check_row *find_row(const struct check_report *r, const char *subject, const char *test)
{
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->row[i].test, test) && (!strcmp(r->row[i].subject, subject) || !*r->row[i].subject)) return &r->row[i];
    return NULL;
}

/* The first of the needed tests (a blank apart) that failed, or was skipped because another one had, to note. */
static int missing_need(const struct check_report *r, const char *subject, const char *needs, char note[192])
{
    char name[64];
    for (int n; needs && sscanf(needs, " %63s%n", name, &n) == 1; needs += n) {
        const struct check_row *row = find_row(r, subject, name);
        if (!row || row->state == CHECK_OK || (row->state == CHECK_SKIPPED && !strstr(row->note, " failed"))) continue;
        if (row->state == CHECK_FAILED) snprintf(note, 192, "%s failed", name);
        else snprintf(note, 192, "%s", row->note);
        return 1;
    }
    return 0;
}

static int add_row(struct check_report *r, struct check_case *c, enum check_subject subject, const char *name, int limit_ms, struct lab_err *err)
{
    struct check_row row = { .test = c->test->name };
    if (subject != CHECK_THE_FILE) snprintf(row.subject, sizeof row.subject, "%s %s", subject_name[subject], name);
    if (missing_need(r, row.subject, c->test->needs, row.note)) {
        row.state = CHECK_SKIPPED;
    } else if (run(&row, c, subject, name, limit_ms, err) != 0) {
        return -1;
    }
    if (mem_grow(&r->row, &r->cap, r->n + 1, sizeof *r->row, err) != 0) return -1;
    r->row[r->n++] = row;
    r->failed += row.state == CHECK_FAILED;
    r->skipped += row.state == CHECK_SKIPPED;
    return 0;
}

static int add_subject(struct check_report *r, struct check_case *c, enum check_subject subject, const char *name, int limit_ms, struct lab_err *err)
{
    for (int t = 0; t < TABLES; t++)
        for (c->test = tables[t].test; tables[t].subject == subject && c->test->name; c->test++)
            if (add_row(r, c, subject, name, limit_ms, err) != 0) return -1;
    return 0;
}

int check_file(struct check_report *r, const char *path, const struct check_options *o, struct lab_err *err)
{
    int64_t start = clock_ns();
    int limit_ms = o->limit_ms ? o->limit_ms : LIMIT_MS, rc;
    *r = (struct check_report){ .seed = o->seed };
    if (!realpath(path, r->path)) snprintf(r->path, sizeof r->path, "%s", path);
    struct check_answer *answer = mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED) return lab_fail(err, "out of memory for the answers of the tests");
    struct check_case c = { .path = r->path, .seed = o->seed, .answer = answer };
    rc = add_subject(r, &c, CHECK_THE_FILE, "", limit_ms, err);
    int loads = rc == 0 && find_row(r, "", "load.file")->state == CHECK_OK && find_row(r, "", "load.time")->state == CHECK_OK;
    for (int i = 0; rc == 0 && loads && i < answer->n_entry; i++)
        rc = add_subject(r, &c, answer->entry[i].subject, answer->entry[i].name, limit_ms, err);
    snprintf(r->plugin, sizeof r->plugin, "%s", answer->plugin);
    munmap(answer, sizeof *answer);
    r->ms = (double)(clock_ns() - start) / 1e6;
    if (rc != 0) check_release(r);
    return rc;
}

void check_release(struct check_report *r)
{
    free(r->row);
    *r = (struct check_report){ 0 };
}

/* ---- reports ---- */

static const char *const state_word[] = { "ok", "FAILED", "-" }, *const state_json[] = { "ok", "failed", "skipped" };

static void print_row(const struct check_row *row, struct str *out)
{
    str_printf(out, "  %-6s  %-22s %s%s", state_word[row->state], row->test, row->state == CHECK_FAILED ? "" : row->note,
               row->state == CHECK_FAILED ? "expected " : "");
    if (row->state == CHECK_FAILED)
        str_printf(out, "%s\n  %31s seen     %s\n  %31s likely   %s", row->expected, "", row->seen, "", row->cause);
    while (out->len && out->text[out->len - 1] == ' ') out->text[--out->len] = '\0';
    str_add(out, "\n");
}

void check_print(const struct check_report *r, int only_failed, struct str *out)
{
    const char *subject = NULL;
    str_printf(out, "%s%s%s\n", r->path, *r->plugin ? ": " : "", r->plugin);
    for (size_t i = 0; i < r->n; i++) {
        const struct check_row *row = &r->row[i];
        if (only_failed && row->state != CHECK_FAILED) continue;
        if (*row->subject && (!subject || strcmp(subject, row->subject))) str_printf(out, "%s\n", row->subject);
        subject = row->subject;
        print_row(row, out);
    }
    str_printf(out, "%zu passed, %zu failed, %zu not applicable, in %.1f s (%s, seed %llu)\n", r->n - r->failed - r->skipped, r->failed,
               r->skipped, r->ms / 1000, sizeof(lab_real) == sizeof(float) ? "float" : "double", (unsigned long long)r->seed);
    if (sizeof(lab_real) == sizeof(float) && !only_failed && find_row(r, r->row[r->n - 1].subject, "gradients.twice"))
        str_add(out, "float checks gradients to two digits; for six: `make FLAVOUR=double lab`, then `build/double/lab check` on the plugin built "
                "with -DLAB_REAL_DOUBLE\n");
}

static void add_member(struct str *out, const char *name, const char *value)
{
    str_printf(out, ",\"%s\":", name);
    str_json(out, value);
}

void check_json(const struct check_report *r, int only_failed, struct str *out)
{
    const char *between = "";
    str_add(out, "{\"file\":");
    str_json(out, r->path);
    add_member(out, "plugin", r->plugin);
    add_member(out, "real", sizeof(lab_real) == sizeof(float) ? "float" : "double");
    str_printf(out, ",\"seed\":%llu,\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu,\"tests\":[", (unsigned long long)r->seed,
               r->n - r->failed - r->skipped, r->failed, r->skipped);
    for (size_t i = 0; i < r->n; i++) {
        const struct check_row *row = &r->row[i];
        if (only_failed && row->state != CHECK_FAILED) continue;
        str_printf(out, "%s\n {\"test\":\"%s\"", between, row->test);
        add_member(out, "subject", row->subject);
        add_member(out, "state", state_json[row->state]);
        if (row->state == CHECK_FAILED)
            add_member(out, "expected", row->expected), add_member(out, "seen", row->seen), add_member(out, "cause", row->cause);
        add_member(out, "note", row->note);
        str_printf(out, ",\"ms\":%.1f}", row->ms);
        between = ",";
    }
    str_add(out, "]}");
}

void check_list(struct str *out)
{
    for (int t = 0; t < TABLES; t++)
        for (const struct check_test *test = tables[t].test; test->name; test++)
            str_printf(out, "%-8s %-22s %s\n", subject_name[tables[t].subject], test->name, test->about);
}
