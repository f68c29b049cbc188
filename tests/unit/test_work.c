/* test_work -- the worker process: what it refuses, what it sends, how it ends. Each job runs in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exp/work.h"
#include "exp/record.h"

struct outcome { int status; size_t n; struct record first, last; int type_count[RECORD_FAILED + 1]; };

static void read_records(int fd, struct outcome *o)
{
    static unsigned char in[1 << 20];
    size_t n = 0, used = 0;
    ssize_t got;
    struct lab_err err = { "" };
    while (n < sizeof in && (got = read(fd, in + n, sizeof in - n)) > 0) n += (size_t)got;
    while (used < n) {
        long bytes = record_decode(&o->last, in + used, n - used, &err);
        if (bytes <= 0) fail_msg("torn record: %s", err.msg);
        if (!o->n++) o->first = o->last;
        o->type_count[o->last.type]++;
        used += (size_t)bytes;
    }
}

/* Runs a job of n bytes; with a signal, sends it once the worker has sent its first records. */
static struct outcome run_job(const char *text, size_t n, int signal)
{
    struct outcome o = { 0 };
    int ends[2], job = memfd_create("job", 0);
    assert_true(write(job, text, n) == (ssize_t)n && lseek(job, 0, SEEK_SET) == 0);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        _exit(work_main(job, ends[1]));
    }
    close(job), close(ends[1]);
    if (signal) {
        assert_int_equal(poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, 60000), 1);
        kill(pid, signal);
    }
    read_records(ends[0], &o);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &o.status, 0), pid);
    return o;
}

/* ---- jobs that are none ---- */

#define NUL "\0"
static const char good_start[] = "lab job 3" NUL "train" NUL "key" NUL "/nowhere/e.so" NUL "1e" NUL "/nowhere/t.so" NUL "7a" NUL "w" NUL "c" NUL "me" NUL "a7" NUL "8" NUL "[run]\n";

static void expect_refusal(const char *text, size_t n, const char *reason)
{
    struct outcome o = run_job(text, n, 0);
    assert_true(WIFEXITED(o.status));
    assert_int_equal(WEXITSTATUS(o.status), 1);
    assert_int_equal(o.n, 1);
    assert_int_equal(o.last.type, RECORD_FAILED);
    if (!strstr(o.last.text, reason)) fail_msg("reason is '%s', expected '%s'", o.last.text, reason);
}
#define REFUSAL(text, reason) expect_refusal(text, sizeof text, reason)

static void broken_jobs_are_refused(void **state)
{
    (void)state;
    expect_refusal("", 0, "the job ends after 0 of 13 fields");
    for (size_t n = 1; n < sizeof good_start; n++) expect_refusal(good_start, n, "the job ends after");
    REFUSAL(good_start, "/nowhere/e.so: ");
    REFUSAL("lab job 2" NUL "train" NUL "k" NUL "e" NUL "" NUL "t" NUL "" NUL "w" NUL "c" NUL "" NUL "" NUL "8" NUL "s", "starts with 'lab job 2', expected 'lab job 3'");
    REFUSAL("lab job 3" NUL "tarin" NUL "k" NUL "e" NUL "" NUL "t" NUL "" NUL "w" NUL "c" NUL "" NUL "" NUL "8" NUL "s", "unknown kind of job 'tarin'");
    REFUSAL("lab job 3" NUL "train" NUL "k" NUL "e" NUL "" NUL "t" NUL "" NUL "w" NUL "c" NUL "" NUL "" NUL "8x" NUL "s", "8x");
    static const char *const slot[] = { "c7", "a", "a-1", "a7x", "A7" };
    for (size_t i = 0; i < sizeof slot / sizeof *slot; i++) {
        char job[64], want[64];
        int n = snprintf(job, sizeof job, "lab job 3%ctrain%ck%ce%c%ct%c%cw%cc%c%c%s%c8%cs", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, slot[i], 0, 0);
        snprintf(want, sizeof want, "unknown checkpoint '%s'", slot[i]);
        expect_refusal(job, (size_t)n + 1, want);
    }
    REFUSAL("lab job 3" NUL "train" NUL "k" NUL "e" NUL "" NUL "t" NUL "" NUL "w" NUL "c" NUL "" NUL "" NUL "8" NUL "s" NUL "more", "goes on after its last field");
    size_t size = (1 << 20) + 1;
    char *large = calloc(1, size);
    expect_refusal(large, size, "the job is over 1048576 bytes");
    free(large);
}

static void without_a_supervisor_nothing_is_done(void **state)
{
    (void)state;
    int ends[2], job = memfd_create("job", 0), status;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    pid_t pid = fork();
    if (pid == 0) _exit(work_main(job, ends[1]));
    close(job), close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 75);
}

/* ---- real jobs ---- */

struct real { struct registry registry; struct conf conf; struct run_config config; struct str text; char folder[32], weights[64]; };

static void real_init(struct real *r, int steps)
{
    const char *file[] = { TEST_BUILD "/plugins/encoders/none.so", TEST_BUILD "/plugins/tasks/reverse.so" };
    struct lab_err err = { "" };
    char text[512];
    int n = snprintf(text, sizeof text, "[run]\nencoder = none\ntask = reverse\nseed = 3\n[model]\nd_model = 16\nheads = 2\nlayers = 1\n"
                     "d_ff = 16\n[train]\nlength = 4\nsteps = %d\nbatch = 4\n[eval]\nlengths = 4, 6\nsequences = 10\nevery = 0\n", steps);
    *r = (struct real){ .folder = "/tmp/lab-work-XXXXXX" };
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->weights, sizeof r->weights, "%s/w.safetensors", r->folder);
    if (registry_load_files(&r->registry, file, 2, &err) != 0 || conf_read_text(&r->conf, "test", text, (size_t)n, &err) != 0 ||
        config_build(&r->config, r->conf.entry, r->conf.n, &r->registry, &err) != 0) fail_msg("%s", err.msg);
}

static struct outcome real_run(struct real *r, enum work_kind kind, int n_lengths, int signal)
{
    struct work_job job = { kind, &r->config, r->weights, "", "", -1, 0, { n_lengths, { 6, 4 } } };
    str_clear(&r->text);
    work_write(&r->text, &job);
    assert_false(r->text.failed);
    return run_job(r->text.text, r->text.len, signal);
}

static void real_end(struct real *r)
{
    str_free(&r->text);
    config_free(&r->config);
    conf_free(&r->conf);
    registry_free(&r->registry);
    unlink(r->weights);
    assert_int_equal(rmdir(r->folder), 0);
}

static void a_run_starts_with_its_key_and_ends_with_done(void **state)
{
    (void)state;
    struct real r;
    real_init(&r, 20);
    struct outcome o = real_run(&r, WORK_TRAIN, 2, 0);
    assert_true(WIFEXITED(o.status));
    assert_int_equal(WEXITSTATUS(o.status), 0);
    assert_int_equal(o.first.type, RECORD_START);
    assert_string_equal(o.first.sha256, r.config.key);
    assert_int_equal(o.last.type, RECORD_DONE);
    assert_int_equal(o.type_count[RECORD_EVAL], 2);
    assert_int_equal(o.type_count[RECORD_EVAL_POSITION], 6 + 4);
    assert_int_equal(o.type_count[RECORD_METRIC], 2);                   /* a point every ten steps */
    assert_int_equal(access(r.weights, R_OK), 0);

    o = real_run(&r, WORK_EVALUATE, 1, 0);                              /* the kept weights, one length alone */
    assert_int_equal(WEXITSTATUS(o.status), 0);
    assert_int_equal(o.type_count[RECORD_EVAL], 1);
    assert_int_equal(o.type_count[RECORD_METRIC], 0);
    assert_int_equal(o.last.type, RECORD_DONE);
    real_end(&r);
}

static void ceilings_come_one_by_one(void **state)
{
    (void)state;
    struct real r;
    real_init(&r, 20);
    struct outcome o = real_run(&r, WORK_CEILING, 2, 0);
    assert_int_equal(WEXITSTATUS(o.status), 0);
    assert_int_equal(o.type_count[RECORD_CEILING], 4);                  /* order-blind and majority, at two lengths */
    assert_int_equal(o.last.type, RECORD_DONE);
    real_end(&r);
}

static void another_run_than_the_job_names_is_refused(void **state)
{
    (void)state;
    struct real r;
    real_init(&r, 20);
    r.config.key[0] = r.config.key[0] == 'a' ? 'b' : 'a';
    struct outcome o = real_run(&r, WORK_TRAIN, 2, 0);
    assert_int_equal(WEXITSTATUS(o.status), 1);
    assert_int_equal(o.n, 1);
    assert_int_equal(o.last.type, RECORD_FAILED);
    assert_non_null(strstr(o.last.text, "the job is run "));
    assert_int_not_equal(access(r.weights, F_OK), 0);
    real_end(&r);
}

static void a_plugin_that_was_changed_is_refused(void **state)
{
    (void)state;
    struct real r;
    real_init(&r, 20);
    char *const sha256[] = { r.registry.file[0].sha256, r.registry.file[1].sha256 };
    for (int i = 0; i < 2; i++) {
        sha256[i][0] ^= 1;                                              /* as if the supervisor had seen another file */
        struct outcome o = real_run(&r, WORK_TRAIN, 2, 0);
        sha256[i][0] ^= 1;
        assert_int_equal(WEXITSTATUS(o.status), 1);
        assert_int_equal(o.n, 1);
        assert_int_equal(o.last.type, RECORD_FAILED);
        if (!strstr(o.last.text, r.registry.file[i].path) || !strstr(o.last.text, " was changed after")) fail_msg("'%s'", o.last.text);
        assert_int_not_equal(access(r.weights, F_OK), 0);
    }
    real_end(&r);
}

static void each_stop_signal_finishes_the_step(void **state)
{
    (void)state;
    static const int signal[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
    struct real r;
    real_init(&r, 100000000);
    for (size_t i = 0; i < sizeof signal / sizeof *signal; i++) {
        struct outcome o = real_run(&r, WORK_TRAIN, 2, signal[i]);
        assert_true(WIFEXITED(o.status));
        assert_int_equal(WEXITSTATUS(o.status), 75);
        assert_int_equal(o.first.type, RECORD_START);
        assert_int_equal(o.last.type, RECORD_STOPPED);
        assert_int_equal(o.type_count[RECORD_EVAL] + o.type_count[RECORD_DONE] + o.type_count[RECORD_FAILED], 0);
    }
    real_end(&r);
}

static void a_supervisor_that_dies_ends_its_worker(void **state)
{
    (void)state;
    struct real r;
    int ends[2], alive[2];
    char c;
    real_init(&r, 100000000);
    work_write(&r.text, &(struct work_job){ WORK_TRAIN, &r.config, r.weights, "", "", -1, 0, { 1, { 4 } } });
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(alive), 0);
    pid_t supervisor = fork();
    if (supervisor == 0) {
        int job = memfd_create("job", 0);
        if (write(job, r.text.text, r.text.len) < 0 || lseek(job, 0, SEEK_SET) != 0) _exit(9);
        if (fork() == 0) _exit(work_main(job, ends[1]));                /* holds the write end of `alive` as long as it lives */
        for (;;) pause();
    }
    close(alive[1]);
    assert_int_equal(read(ends[0], &c, 1), 1);                          /* it is at work; we keep reading end and writing end open */
    kill(supervisor, SIGKILL);
    waitpid(supervisor, NULL, 0);
    alarm(20);                                                          /* rather a crash than a test that hangs */
    assert_int_equal(read(alive[0], &c, 1), 0);
    alarm(0);
    close(alive[0]), close(ends[0]), close(ends[1]);
    real_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_jobs_are_refused), cmocka_unit_test(without_a_supervisor_nothing_is_done),
        cmocka_unit_test(a_run_starts_with_its_key_and_ends_with_done), cmocka_unit_test(ceilings_come_one_by_one),
        cmocka_unit_test(another_run_than_the_job_names_is_refused), cmocka_unit_test(a_plugin_that_was_changed_is_refused), cmocka_unit_test(each_stop_signal_finishes_the_step),
        cmocka_unit_test(a_supervisor_that_dies_ends_its_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
