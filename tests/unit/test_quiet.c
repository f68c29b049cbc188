/* test_quiet -- a training step gets no memory and makes no system call, so it touches no file either.
 *
 * Each case runs in a child that, after two steps to warm up, gives up all system calls but read, write and exit
 * (seccomp's strict mode): whatever else it tries ends it.  Small allocations need no system call; they are counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exp/data.h"
#include "exp/sweep.h"
#include "nn/gemm.h"
#include "nn/optim.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || !defined(__GLIBC__)
enum { COUNTS = 0 };                 /* malloc is not ours to replace */
static volatile long allocations;
#else
enum { COUNTS = 1 };
static volatile long allocations;
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
#define OURS __attribute__((visibility("default")))
OURS void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
OURS void *calloc(size_t n, size_t size) { allocations++; return __libc_calloc(n, size); }
OURS void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }
OURS void *aligned_alloc(size_t align, size_t n) { allocations++; return __libc_memalign(align, n); }
#endif

enum { SAME = 0, ALLOCATED = 10, NOT_FINITE, NO_SECCOMP };

static const char ini[] =
    "[sweep]\nencoder = none, sinusoidal, learned, t5, rope\ntask = reverse\nseed = 0\nmodel.dropout = 0, 0.1\n"
    "[model]\nd_model = 32\nheads = 4\nlayers = 2\nd_ff = 48\n[train]\nbatch = 64\nlength = 3..12\nclip = 1\n[eval]\nlengths = 12\n";

struct world { struct conf conf; struct registry registry; struct sweep sweep; };

static int world_open(void **state)
{
    static struct world w;
    static const char *const plugins[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    struct lab_err err;
    gemm_one_thread();
    if (conf_read_text(&w.conf, "quiet.ini", ini, strlen(ini), &err) != 0 || registry_load(&w.registry, plugins, 2, &err) != 0 ||
        sweep_build(&w.sweep, &w.conf, &w.registry, &err) != 0) fail_msg("%s", err.msg);
    *state = &w;
    return 0;
}
static int world_close(void **state)
{
    struct world *w = *state;
    sweep_free(&w->sweep);
    registry_free(&w->registry);
    conf_free(&w->conf);
    return 0;
}

struct trainee { struct model model; struct data data; struct optim_options optim; };

static int train(struct trainee *t, int first, int count)
{
    struct lab_err err;
    for (int step = first; step < first + count; step++)
        if (data_train(&t->data, step, &err) != 0 || !isfinite(model_step(&t->model, &t->data.batch, (uint32_t)step)) ||
            !isfinite(optim_step(&t->model, &t->optim, step))) return -1;
    return 0;
}

static void leave(int code) { for (;;) syscall(SYS_exit, code); }    /* strict mode has no exit_group */

/* In the child: warms up, locks itself in, takes steps; with `sin` it does what a step must not do. */
static void child(const struct run_config *config, void (*sin)(void))
{
    static struct trainee t;
    struct model_setup setup;
    struct lab_err err;
    config_model_setup(config, &setup);
    t.optim = (struct optim_options){ .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 1, .steps = 100 };
    if (data_init(&t.data, config, 64 * 12, &err) != 0 || model_init(&t.model, &setup, &err) != 0) leave(NOT_FINITE);
    if (train(&t, 0, 2) != 0) leave(NOT_FINITE);
    long before = allocations;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) leave(NO_SECCOMP);
    int failed = train(&t, 2, 10) != 0;
    if (sin) sin();
    leave(failed ? NOT_FINITE : allocations != before ? ALLOCATED : SAME);
}

static int status_of(const struct run_config *config, void (*sin)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) child(config, sin);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void no_step_allocates_or_calls_the_system(void **state)
{
    struct world *w = *state;
    assert_int_equal(w->sweep.n, 10);
    for (size_t i = 0; i < w->sweep.n; i++) {
        const struct run_config *c = &w->sweep.run[i].config;
        int status = status_of(c, NULL);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP) skip();
        const char *name = c->encoder->name;
        if (WIFSIGNALED(status)) fail_msg("%s, dropout %g: a step made a system call (signal %d)", name, c->model.dropout, WTERMSIG(status));
        if (WEXITSTATUS(status) == ALLOCATED) fail_msg("%s, dropout %g: a step allocated memory", name, c->model.dropout);
        assert_int_equal(WEXITSTATUS(status), SAME);
    }
}

static void *volatile kept;
static void allocate(void) { kept = malloc(24); }
static void touch_a_file(void) { kept = (void *)(intptr_t)open("/dev/null", O_RDONLY); }

static void the_guards_see_an_allocation_and_a_file(void **state)
{
    struct world *w = *state;
    const struct run_config *c = &w->sweep.run[0].config;
    int status = status_of(c, touch_a_file);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP) skip();
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    if (!COUNTS) skip();
    status = status_of(c, allocate);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ALLOCATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_allocates_or_calls_the_system),
        cmocka_unit_test(the_guards_see_an_allocation_and_a_file),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}
