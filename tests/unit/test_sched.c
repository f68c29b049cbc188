/* test_sched -- the supervisor with real child processes: this program, as `work`, plays workers by script.
 *
 * The script of a run stands where its settings would.  What sched entered is read back by SQL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/str.h"
#include "run/sched.h"

/* ---- the worker ---- */

static struct { const char *kind, *key, *lengths, *script; } job;

static void send_record(struct record r)
{
    unsigned char frame[RECORD_FRAME_MAX];
    size_t n = record_encode(&r, frame);
    if (write(3, frame, n) != (ssize_t)n) _exit(99);
}

static void send_start(const char *key)
{
    struct record r = { .type = RECORD_START };
    snprintf(r.sha256, sizeof r.sha256, "%s", key);
    send_record(r);
}

static void send_done(void)
{
    struct record r = { .type = RECORD_DONE, .active_ns = 5000000 };
    memset(r.sha256, 'd', HASH_HEX - 1);
    send_record(r);
}

static void send_eval(int64_t length)
{
    struct record r = { .type = RECORD_EVAL, .split = "test", .step = 10, .length = length, .n = 100, .n_exact = 50,
                        .n_tok = 100 * length, .n_tok_ok = 70 * length, .value = 0.5 };
    memset(r.sha256, 'e', HASH_HEX - 1);
    send_record(r);
    send_record((struct record){ .type = RECORD_EVAL_POSITION, .split = "test", .step = 10, .length = length, .n_tok = 100, .n_tok_ok = 70 });
}

static void send_evals(void)
{
    for (const char *p = job.lengths; *p; p += strspn(p, ", ")) {
        char *end;
        send_eval(strtol(p, &end, 10));
        p = end;
    }
}

static void train_all(void)
{
    for (int step = 1; step <= 10; step++)
        send_record((struct record){ .type = RECORD_METRIC, .name = "loss", .step = step, .value = 1.0 / step });
    send_evals();
    send_done();
}

static void on_term(int signal)
{
    (void)signal;
    send_record((struct record){ .type = RECORD_STOPPED });
    _exit(75);
}

/* Reports what a worker must not have inherited. */
static void check_inheritance(void)
{
    struct record r = { .type = RECORD_FAILED };
    sigset_t blocked;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(d)); )
        if (atoi(e->d_name) > 3 && atoi(e->d_name) != dirfd(d)) snprintf(r.text, sizeof r.text, "descriptor %s is open", e->d_name);
    closedir(d);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int s = 1; s < 32; s++) {
        struct sigaction now;
        if (sigismember(&blocked, s) == 1) snprintf(r.text, sizeof r.text, "signal %d is blocked", s);
        int is_fault = s == SIGSEGV || s == SIGBUS || s == SIGFPE;                          /* sanitizers catch these from the start */
        if (!is_fault && sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL) snprintf(r.text, sizeof r.text, "signal %d is not at its default", s);
    }
    if (getpgrp() != getpid()) snprintf(r.text, sizeof r.text, "not in a process group of its own");
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    if (!threads || strcmp(threads, "1")) snprintf(r.text, sizeof r.text, "OPENBLAS_NUM_THREADS is not 1");
    if (*r.text) send_record(r), _exit(1);
    train_all();
}

static void do_done(void) { train_all(); }
static void do_slow(void) { usleep(300000); train_all(); }
static void do_crash(void) { send_eval(8); signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }      /* a sanitizer would catch it */
static void do_exit3(void) { _exit(3); }
static void do_exit0(void) { send_eval(8); }
static void do_late(void) { train_all(); _exit(3); }
static void do_nan(void) { send_record((struct record){ .type = RECORD_FAILED, .text = "loss is nan at step 7" }); _exit(1); }
static void do_utf8(void) { send_record((struct record){ .type = RECORD_FAILED, .text = "caf\xc3\xa9 \xff \033[2J\n cut \xc3" }); _exit(1); }
static void do_garbage(void) { dprintf(3, "this is no record, but a plugin that prints to descriptor 3"); }
static void do_twice(void) { train_all(); send_eval(8); }
static void do_count(void)
{
    send_record((struct record){ .type = RECORD_EVAL, .split = "test", .step = 10, .length = 8, .n = 10, .n_exact = 11, .n_tok = 80 });
    train_all();
}
static void do_metric(void) { send_record((struct record){ .type = RECORD_METRIC, .name = "perplexity", .step = 1, .value = 2 }); train_all(); }
static void do_split(void)
{
    send_record((struct record){ .type = RECORD_EVAL, .split = "dev", .step = 10, .length = 8, .n = 10, .n_exact = 1, .n_tok = 80, .n_tok_ok = 8 });
    train_all();
}
static void do_torn(void)
{
    unsigned char frame[RECORD_FRAME_MAX];
    size_t n = record_encode(&(struct record){ .type = RECORD_METRIC, .name = "loss", .step = 1 }, frame);
    if (write(3, frame, n - 5) < 0) _exit(99);
    raise(SIGKILL);
}
static void do_torn0(void)
{
    if (write(3, "LBR1", 4) < 0) _exit(99);
    _exit(0);
}
static void do_chatty(void)
{
    static char text[65536];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 80; i++) if (write(i % 2 + 1, text, sizeof text) < 0) _exit(99);
    train_all();
}
static void do_print(void) { printf("assertion failed in the plugin\n"); fflush(stdout); abort(); }
static void do_many(void)
{
    for (int step = 1; step <= 30000; step++) send_record((struct record){ .type = RECORD_METRIC, .name = "loss", .step = step, .value = step });
    train_all();
}
static void do_hang(void) { signal(SIGTERM, on_term); send_eval(8); for (;;) pause(); }
static void do_deaf(void) { signal(SIGTERM, SIG_IGN); send_eval(8); for (;;) pause(); }
static void do_child(void)                                   /* leaves a process with open pipes behind, for half a minute */
{
    if (fork() == 0) for (alarm(30);;) pause();
    train_all();
}
static void do_fds(void) { check_inheritance(); }
static void do_eat(void)
{
    for (;;) {
        char *p = malloc(1 << 20);
        if (!p) abort();
        memset(p, 1, 1 << 20);
    }
}

static const struct { const char *name; void (*act)(void); } script[] = {
    { "done", do_done }, { "slow", do_slow }, { "crash", do_crash }, { "exit3", do_exit3 }, { "exit0", do_exit0 }, { "late", do_late },
    { "nan", do_nan }, { "utf8", do_utf8 }, { "garbage", do_garbage }, { "twice", do_twice }, { "count", do_count }, { "torn", do_torn },
    { "torn0", do_torn0 }, { "metric", do_metric }, { "split", do_split }, { "chatty", do_chatty }, { "print", do_print }, { "many", do_many }, { "hang", do_hang }, { "deaf", do_deaf },
    { "child", do_child }, { "causal", do_done }, { "fds", do_fds }, { "eat", do_eat } };

static int worker_main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);                        /* as a real one */
    static char text[65536];
    const char *field[13], *p = text;
    ssize_t n = read(0, text, sizeof text);
    if (n <= 0) return 98;
    for (int i = 0; i < 13; i++) field[i] = p, p += strlen(p) + 1;
    if (p != text + n) return 97;
    job.kind = field[1], job.key = field[2], job.lengths = field[11], job.script = field[12];
    text[job.script - text + (long)strcspn(job.script, " ")] = '\0';     /* "slow " is the script "slow" of another run */
    if (!strcmp(job.script, "liar")) return send_start("0000"), train_all(), 0;
    if (!strcmp(job.script, "early")) return train_all(), 0;
    send_start(job.key);
    if (!strcmp(job.kind, "ceiling")) {
        static const struct record ceiling[] = {
            { .type = RECORD_CEILING, .name = "majority", .length = 8, .n = 1000, .value = 0.1 }, { .type = RECORD_CEILING, .name = "majority", .length = 12, .n = 1000, .value = 0.1 },
            { .type = RECORD_CEILING, .name = "order_blind", .length = 8, .n = 1000, .value = 0.317, .error = 0.001 },
            { .type = RECORD_CEILING, .name = "order_blind", .length = 12, .n = 1000, .value = 0.266, .error = 0.001 } };
        for (int i = 0; i < (strcmp(job.script, "causal") ? 4 : 2); i++) send_record(ceiling[i]);
        return send_done(), 0;
    }
    if (!strcmp(job.kind, "evaluate") && !strcmp(job.script, "half")) return send_eval(12), 5;      /* one of two lengths, then fails */
    if (!strcmp(job.kind, "evaluate") || !strcmp(job.script, "half")) {
        if (!strcmp(job.kind, "train")) return train_all(), 0;
        return send_evals(), send_done(), 0;
    }
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) if (!strcmp(script[i].name, job.script)) return script[i].act(), 0;
    return 96;
}

/* ---- a world for sched ---- */

enum { MOST = 32 };
static struct lab_encoder encoder = { .size = sizeof encoder, .name = "none" };
static struct lab_task task = { .size = sizeof task, .name = "reverse" };
static const struct plugin_file file = { .path = (char *)"/nowhere/x.so" };
static const struct conf conf = { .path = (char *)"test.ini", .text = (char *)"[experiment]\n", .length = 13,
                                  .sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
struct world { char folder[64], db[96]; struct sweep sweep; struct sweep_run run[MOST]; struct store *store; };

static void fill_config(struct run_config *c, const char *name, int seed)
{
    c->model = (struct model_options){ .d_model = 8, .heads = 1, .layers = 1, .d_ff = 8 };
    c->train = (struct train_options){ .length = { 8, 8 }, .steps = 10, .batch = 4, .lr = 1e-3 };
    c->eval = (struct eval_options){ .lengths = { 2, { 8, 12 } }, .sequences = 100 };
    c->seed = seed;
    c->encoder = &encoder, c->task = &task, c->encoder_file = c->task_file = &file;
    c->task_info = (struct lab_task_info){ .size = sizeof c->task_info, .vocab_in = 10, .vocab_out = 10, .min_len = 1, .max_len = 64, .chance = 0.1 };
    c->dims = (struct lab_dims){ .size = sizeof c->dims, .n_layer = 1, .n_head = 1, .d_model = 8, .d_head = 8, .train_len = 8, .max_len = 12, .max_pos = 12 };
    hash_bytes(name, strlen(name), c->key);
    hash_bytes("variant", 7, c->variant);
    hash_bytes("task", 4, c->task_key);
    c->json = (char *)"{\"seed\":0,\"train\":{\"length\":\"8\"}}";
    c->settings = (char *)name;
}

static void open_store(struct world *w)
{
    struct lab_err err = { "" };
    if (store_open(&w->store, w->db, STORE_WRITE, &err) != 0) fail_msg("%s", err.msg);
}

static void world_init(struct world *w, const char *const *name)
{
    *w = (struct world){ .folder = "/tmp/lab-sched-XXXXXX" };
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->db, sizeof w->db, "%s/lab.db", w->folder);
    w->sweep = (struct sweep){ .name = "test", .question = "?", .conf = &conf, .run = w->run };
    for (; name[w->sweep.n]; w->sweep.n++) {
        fill_config(&w->run[w->sweep.n].config, name[w->sweep.n], (int)w->sweep.n);
        w->run[w->sweep.n].label = (char *)"";
    }
    open_store(w);
}
#define WORLD(w, ...) struct world w; world_init(&w, (const char *const[]){ __VA_ARGS__, NULL })

static void world_end(struct world *w)
{
    char command[128];
    store_close(w->store);
    snprintf(command, sizeof command, "rm -rf %s", w->folder);
    assert_int_equal(system(command), 0);
}

static struct sched_report run_sched(struct world *w, struct sched_options options)
{
    struct sched_report report;
    struct lab_err err = { "" };
    options.quiet = 1;
    if (sched_run(w->store, &w->sweep, &options, &report, &err) != 0) fail_msg("%s", err.msg);
    return report;
}

static void path_in(const struct world *w, int run, const char *folder, const char *suffix, char out[160])
{
    snprintf(out, 160, "%s/%s/%.16s%s", w->folder, folder, w->run[run].config.key, suffix);
}

static void touch_weights(const struct world *w, int run)
{
    char path[160];
    path_in(w, run, "weights", ".safetensors", path);
    int fd = open(path, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0);
    close(fd);
}

/* ---- reading back ---- */

static int first_value(void *ctx, int n, const struct store_value *v)
{
    (void)n;
    if (v->type == STORE_INTEGER) snprintf(ctx, 512, "%lld", (long long)v->integer);
    else snprintf(ctx, 512, "%s", v->type == STORE_TEXT ? v->text : "NULL");
    return 0;
}

static const char *ask(struct world *w, const char *sql, const char *arg)
{
    static char answer[512];
    struct store_rows rows = { NULL, first_value, answer };
    struct lab_err err = { "" };
    strcpy(answer, "no row");
    if (store_query(w->store, sql, &arg, arg ? 1 : 0, 0, &rows, &err) != 0) fail_msg("%s: %s", sql, err.msg);
    return answer;
}

static const char *state_of(struct world *w, int run) { return ask(w, "SELECT state FROM runs WHERE run_key = ?1", w->run[run].config.key); }
static const char *reason_of(struct world *w, int run) { return ask(w, "SELECT reason FROM runs WHERE run_key = ?1", w->run[run].config.key); }

/* ---- tests ---- */

static void a_sweep_is_done_once(void **state)
{
    (void)state;
    WORLD(w, "done", "slow");
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_int_equal(r.total, 2);
    assert_int_equal(r.done, 2);
    assert_int_equal(r.failed + r.interrupted + r.already, 0);
    assert_string_equal(ask(&w, "SELECT count(*) FROM curves", NULL), "20");
    assert_string_equal(ask(&w, "SELECT count(*) FROM results WHERE token_accuracy = 0.7 AND sequence_accuracy = 0.5", NULL), "4");
    assert_string_equal(ask(&w, "SELECT count(*) FROM sweep_cell", NULL), "2");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt WHERE active_ns = 5000000 AND last_step = 10 AND exit_code = 0", NULL), "2");
    r = run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_int_equal(r.already, 2);
    assert_int_equal(r.done + r.failed + r.interrupted, 0);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    world_end(&w);
}

static const struct { const char *script, *reason; } broken[] = {
    { "crash", "killed by signal 11 (Segmentation fault)" },
    { "exit3", "exited with status 3 without a result" },
    { "exit0", "exited with status 0 without a result" },
    { "late", "exited with status 3 after its result" },
    { "nan", "loss is nan at step 7" },
    { "utf8", "caf\xc3\xa9 ? ?[2J? cut ?" },
    { "garbage", "not a record: it starts with 73696874, expected 3152424c" },
    { "twice", "the worker sent a result after its end" },
    { "count", "the worker sent a result that cannot be (record type 4)" },
    { "metric", "the worker sent a result that cannot be (record type 3)" },
    { "split", "the worker sent a result that cannot be (record type 4)" },
    { "torn", "killed by signal 9 (Killed) in the middle of a record; the system does that when memory runs out" },
    { "torn0", "exited with status 0 in the middle of a record" },
    { "liar", "the worker took up run 0000, its job was " },
    { "early", "the worker sent a result before it named its run" } };
enum { N_BROKEN = sizeof broken / sizeof *broken };

static void each_failure_costs_its_own_run(void **state)
{
    (void)state;
    const char *name[N_BROKEN + 2] = { NULL };
    for (int i = 0; i < N_BROKEN; i++) name[i] = broken[i].script;
    name[N_BROKEN] = "done";
    struct world w;
    world_init(&w, name);
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 3 });
    assert_int_equal(r.failed, N_BROKEN);
    assert_int_equal(r.done, 1);
    assert_int_equal(r.interrupted, 0);
    for (int i = 0; i < N_BROKEN; i++) {
        assert_string_equal(state_of(&w, i), "failed");
        const char *reason = reason_of(&w, i);
        if (strncmp(reason, broken[i].reason, strlen(broken[i].reason))) fail_msg("%s: reason is '%s', expected '%s'", name[i], reason, broken[i].reason);
    }
    assert_string_equal(state_of(&w, N_BROKEN), "done");
    assert_string_equal(ask(&w, "SELECT count(*) FROM results", NULL), "2");                 /* nothing of the failed ones */
    world_end(&w);
}

static const unsigned char first[] = { 1, 0 };

static void failed_runs_are_tried_again_on_demand(void **state)
{
    (void)state;
    WORLD(w, "crash", "done");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_int_equal(r.failed, 1);
    assert_int_equal(r.already, 1);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    w.run[0].config.settings = (char *)"done";                                              /* the plugin has been mended */
    r = run_sched(&w, (struct sched_options){ .jobs = 1, .only = first });
    assert_int_equal(r.total, 1);
    assert_int_equal(r.failed, 0);
    assert_int_equal(r.done, 1);
    assert_string_equal(state_of(&w, 0), "done");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt WHERE status = 'failed'", NULL), "1");     /* the evidence stays */
    world_end(&w);
}

/* ---- one machine of several ---- */

struct published { int urgent, other, refuse; };
static int publish(void *ctx, int urgent)
{
    struct published *p = ctx;
    if (p->refuse-- > 0) return 1;
    ++*(urgent ? &p->urgent : &p->other);
    return 0;
}

static void a_share_is_done_and_published(void **state)
{
    (void)state;
    static const unsigned char share[] = { SCHED_OTHERS, SCHED_OURS, SCHED_ELSEWHERE, SCHED_OURS };
    struct published p = { .refuse = 1 };
    WORLD(w, "done", "done", "done", "done");
    for (int i = 0; i < 4; i++) hash_bytes(&i, sizeof i, w.run[i].config.key);
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1, .share = share, .shared = w.folder, .publish = publish, .publish_ctx = &p });
    assert_int_equal(r.total, 3);
    assert_int_equal(r.already, 1);
    assert_int_equal(r.done, 2);
    assert_true(p.urgent >= 1);                                                              /* asked again after it refused */
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    assert_string_equal(ask(&w, "SELECT group_concat(ordinal) FROM sweep_cell", NULL), "1,3");       /* the places of the whole plan */
    world_end(&w);
}

static void no_other_run_is_started_then(void **state)
{
    (void)state;
    WORLD(w, "done", "slow");
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2, .only = first });
    assert_int_equal(r.done, 1);
    assert_int_equal(r.interrupted, 0);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "1");
    assert_string_equal(ask(&w, "SELECT count(*) FROM sweep_cell", NULL), "2");              /* the plan is whole */
    world_end(&w);
}

static void finishing_order_does_not_matter(void **state)
{
    (void)state;
    static const char sql[] = "SELECT group_concat(encoder || task || seed || length || token_accuracy || run_key, ';') FROM results";
    char first[512];
    WORLD(a, "slow", "done");
    WORLD(b, "slow", "done");
    run_sched(&a, (struct sched_options){ .jobs = 1 });
    run_sched(&b, (struct sched_options){ .jobs = 2 });
    strcpy(first, ask(&a, sql, NULL));
    assert_true(strlen(first) > 100);
    assert_string_equal(ask(&b, sql, NULL), first);
    world_end(&a);
    world_end(&b);
}

static void workers_inherit_nothing(void **state)
{
    (void)state;
    int leak = open("/dev/null", O_RDONLY);                                                 /* not close-on-exec */
    assert_true(dup2(leak, 57) == 57);
    WORLD(w, "fds");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_string_equal(reason_of(&w, 0), "NULL");
    assert_string_equal(state_of(&w, 0), "done");
    close(leak), close(57);
    world_end(&w);
}

static void a_talkative_worker_does_not_fill_the_disk(void **state)
{
    (void)state;
    char path[160];
    struct stat s;
    WORLD(w, "chatty", "done");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    path_in(&w, 0, "logs", ".log", path);
    assert_int_equal(stat(path, &s), 0);
    assert_in_range(s.st_size, 1 << 20, (1 << 20) + 100);
    assert_string_equal(state_of(&w, 0), "done");
    path_in(&w, 1, "logs", ".log", path);
    assert_int_not_equal(stat(path, &s), 0);                                                 /* one that prints nothing has no log */
    world_end(&w);
}

static void logs_are_of_the_last_attempt(void **state)
{
    (void)state;
    char path[160], text[64] = "";
    WORLD(w, "print");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_string_equal(reason_of(&w, 0), "killed by signal 6 (Aborted)");
    path_in(&w, 0, "logs", ".log", path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "assertion failed in the plugin\n");
    w.run[0].config.settings = (char *)"done";
    run_sched(&w, (struct sched_options){ .jobs = 1, .only = first });
    assert_int_not_equal(access(path, F_OK), 0);
    world_end(&w);
}

static void many_records_all_arrive(void **state)
{
    (void)state;
    WORLD(w, "many");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_string_equal(state_of(&w, 0), "done");
    assert_string_equal(ask(&w, "SELECT count(*) FROM metric", NULL), "30000");
    world_end(&w);
}

static void a_process_left_behind_is_ended(void **state)
{
    (void)state;
    WORLD(w, "child");
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_int_equal(r.done, 1);
    world_end(&w);
}

static void a_worker_that_cannot_be_executed_fails(void **state)
{
    (void)state;
    WORLD(w, "done");
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1, .program = "/nowhere/lab" });
    assert_int_equal(r.failed, 1);
    assert_string_equal(reason_of(&w, 0), "exited with status 127 without a result");
    world_end(&w);
}

static void only_missing_lengths_are_evaluated(void **state)
{
    (void)state;
    struct option_list lengths;
    enum sched_need need;
    struct lab_err err = { "" };
    WORLD(w, "done", "half");
    w.run[0].config.eval.lengths.n = w.run[1].config.eval.lengths.n = 1;
    run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_string_equal(ask(&w, "SELECT group_concat(DISTINCT length) FROM results", NULL), "8");
    touch_weights(&w, 0);
    touch_weights(&w, 1);
    w.run[0].config.eval.lengths = w.run[1].config.eval.lengths = (struct option_list){ 3, { 8, 12, 16 } };
    assert_int_equal(sched_need(w.store, &w.run[0].config, &need, &lengths, &err), 0);
    assert_int_equal(need, SCHED_EVALUATE);
    assert_int_equal(lengths.n, 2);
    assert_int_equal(lengths.v[0], 12);
    assert_int_equal(lengths.v[1], 16);
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_int_equal(r.done, 1);
    assert_int_equal(r.failed, 1);
    assert_string_equal(ask(&w, "SELECT group_concat(length) FROM results WHERE run_key = ?1", w.run[0].config.key), "8,12,16");
    assert_string_equal(ask(&w, "SELECT group_concat(length) FROM results WHERE run_key = ?1", w.run[1].config.key), "8");   /* whole or not at all */
    assert_string_equal(state_of(&w, 1), "done");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    world_end(&w);
}

/* What the file asks for against what the database has: other data, and what the model reaches alone. */
static void other_evaluations_are_evaluated(void **state)
{
    (void)state;
    struct lab_task continued = { .size = sizeof continued, .name = "reverse", .flags = LAB_TASK_CAUSAL };
    WORLD(w, "done");
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    touch_weights(&w, 0);
    const struct run_config done = w.run[0].config;
    static const struct { int seed, free, causal; enum sched_need need; } change[] = {
        { 0, 0, 0, SCHED_NOTHING }, { 7, 0, 0, SCHED_EVALUATE }, { 0, 50, 0, SCHED_NOTHING }, { 0, 50, 1, SCHED_EVALUATE }, { 0, 0, 1, SCHED_NOTHING } };
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        struct run_config c = done;
        struct option_list lengths;
        enum sched_need need;
        struct lab_err err = { "" };
        c.eval.seed = change[i].seed, c.eval.free_sequences = change[i].free, c.model.causal = change[i].causal;
        if (c.model.causal) c.task = &continued;
        assert_int_equal(sched_need(w.store, &c, &need, &lengths, &err), 0);
        if (need != change[i].need) fail_msg("change %zu needs %d, expected %d", i, (int)need, (int)change[i].need);
        assert_int_equal(lengths.n, need == SCHED_EVALUATE ? 2 : 0);
    }
    world_end(&w);
}

static void without_weights_a_run_is_trained_again(void **state)
{
    (void)state;
    WORLD(w, "done");
    w.run[0].config.eval.lengths.n = 1;
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    w.run[0].config.eval.lengths.n = 2;
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_int_equal(r.done, 1);
    assert_string_equal(ask(&w, "SELECT group_concat(length) FROM results", NULL), "8,12");
    assert_string_equal(ask(&w, "SELECT group_concat(status, ' ') FROM attempt ORDER BY attempt_id", NULL), "superseded done");
    world_end(&w);
}

static void ceilings_are_computed_once(void **state)
{
    (void)state;
    struct lab_task exchangeable = { .size = sizeof exchangeable, .name = "reverse", .flags = LAB_TASK_EXCHANGEABLE };
    WORLD(w, "done", "slow");
    w.run[0].config.task = w.run[1].config.task = &exchangeable;
    run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_string_equal(ask(&w, "SELECT group_concat(length || ' ' || value, ', ') FROM ceiling WHERE kind = 'order_blind'", NULL), "8 0.317, 12 0.266");
    assert_string_equal(ask(&w, "SELECT group_concat(length || ' ' || value, ', ') FROM ceiling WHERE kind = 'majority'", NULL), "8 0.1, 12 0.1");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2, .program = "/nowhere/lab" });
    assert_int_equal(r.already, 2);
    char log[160];
    snprintf(log, sizeof log, "%s/logs", w.folder);
    assert_int_not_equal(access(log, F_OK), 0);
    world_end(&w);
    WORLD(causal, "causal");
    causal.run[0].config.task = &exchangeable;
    causal.run[0].config.model.causal = 1;                                                  /* it knows how much it has seen: no ceiling */
    run_sched(&causal, (struct sched_options){ .jobs = 1 });
    assert_string_equal(ask(&causal, "SELECT group_concat(kind || length, ' ') FROM ceiling", NULL), "majority8 majority12");
    snprintf(log, sizeof log, "%s/logs", causal.folder);
    r = run_sched(&causal, (struct sched_options){ .jobs = 2, .program = "/nowhere/lab" });  /* and none is missed */
    assert_int_not_equal(access(log, F_OK), 0);
    world_end(&causal);
}

/* Runs sched in a child, sends it signals once a worker has committed something, and opens the database again. */
static int interrupt_sched(struct world *w, int n_signals, int signal)
{
    int status;
    store_close(w->store);
    pid_t pid = fork();
    if (pid == 0) {
        struct sched_options options = { .jobs = 1, .quiet = 1 };
        struct sched_report report;
        struct lab_err err = { "" };
        if (store_open(&w->store, w->db, STORE_WRITE, &err) != 0) _exit(3);
        int rc = sched_run(w->store, &w->sweep, &options, &report, &err);
        store_close(w->store);
        _exit(rc ? 3 : 10 * report.interrupted + report.signals);
    }
    open_store(w);
    for (int i = 0; i < 500 && strcmp(ask(w, "SELECT count(*) FROM eval", NULL), "1"); i++) usleep(20000);
    for (int i = 0; i < n_signals; i++) kill(pid, signal), usleep(200000);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_signal_stops_cleanly(void **state)
{
    (void)state;
    WORLD(w, "hang", "done");
    assert_int_equal(interrupt_sched(&w, 1, SIGTERM), 21);                                  /* two runs not finished, one signal */
    assert_string_equal(state_of(&w, 0), "interrupted");
    assert_string_equal(reason_of(&w, 0), "SIGTERM");
    assert_string_equal(state_of(&w, 1), "pending");
    w.run[0].config.settings = (char *)"done";
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });             /* continued without being asked to */
    assert_int_equal(r.done, 2);
    world_end(&w);
}

static void a_second_signal_stops_at_once(void **state)
{
    (void)state;
    WORLD(w, "deaf");
    assert_int_equal(interrupt_sched(&w, 2, SIGINT), 12);
    assert_string_equal(state_of(&w, 0), "interrupted");
    assert_string_equal(reason_of(&w, 0), "SIGINT");
    world_end(&w);
}

static void a_killed_supervisor_blocks_nothing(void **state)
{
    (void)state;
    int status;
    WORLD(w, "hang");
    store_close(w.store);
    pid_t pid = fork();
    if (pid == 0) {
        struct lab_err err = { "" };
        struct sched_report report;
        if (store_open(&w.store, w.db, STORE_WRITE, &err) == 0)
            sched_run(w.store, &w.sweep, &(struct sched_options){ .jobs = 1, .quiet = 1 }, &report, &err);
        _exit(9);
    }
    open_store(&w);
    for (int i = 0; i < 500 && strcmp(ask(&w, "SELECT count(*) FROM eval", NULL), "1"); i++) usleep(20000);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    w.run[0].config.settings = (char *)"done";
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_int_equal(r.done, 1);
    assert_string_equal(ask(&w, "SELECT group_concat(status, ' ') FROM attempt ORDER BY attempt_id", NULL), "lost done");
    world_end(&w);
}

/* ---- two at once ---- */

/* sched in a child, on the same database, with the first n_runs runs; returns when it has begun one. */
static pid_t start_other(struct world *w, size_t n_runs, int expect_begun)
{
    struct world other = *w;
    char want[16];
    snprintf(want, sizeof want, "%d", expect_begun);
    store_close(w->store);
    pid_t pid = fork();
    if (pid == 0) {
        struct lab_err err = { "" };
        struct sched_report report;
        other.sweep.n = n_runs;
        if (store_open(&other.store, other.db, STORE_WRITE, &err) != 0 ||
            sched_run(other.store, &other.sweep, &(struct sched_options){ .jobs = 1, .quiet = 1 }, &report, &err) != 0) _exit(99);
        store_close(other.store);
        _exit(10 * report.interrupted + report.done);
    }
    open_store(w);
    for (int i = 0; i < 500 && strcmp(ask(w, "SELECT count(*) FROM attempt", NULL), want); i++) usleep(20000);
    return pid;
}

static int exit_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void two_share_a_sweep(void **state)
{
    (void)state;
    WORLD(w, "slow", "slow ", "slow  ", "slow   ");
    pid_t other = start_other(&w, 4, 1);
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });
    int done = exit_of(other);
    assert_int_equal(r.done + r.already, 4);                                                /* it waited, so it knows the whole answer */
    assert_int_equal(r.failed + r.interrupted, 0);
    assert_int_equal(r.done + done, 4);
    assert_true(r.done > 0 && done > 0);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "4");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt WHERE status = 'done'", NULL), "4");
    world_end(&w);
}

static void what_the_other_leaves_is_taken_over(void **state)
{
    (void)state;
    static const int signal[] = { SIGTERM, SIGKILL };
    static const char *const history[] = { "interrupted done", "lost done" };
    for (int i = 0; i < 2; i++) {
        WORLD(w, "hang");
        pid_t other = start_other(&w, 1, 1);
        pid_t killer = fork();
        if (killer == 0) {
            usleep(500000);
            kill(other, signal[i]);
            _exit(0);
        }
        w.run[0].config.settings = (char *)"done";
        struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 1 });          /* waits until then */
        assert_int_equal(r.done, 1);
        assert_int_equal(exit_of(other), i ? -SIGKILL : 10);
        assert_int_equal(exit_of(killer), 0);
        assert_string_equal(ask(&w, "SELECT group_concat(status, ' ') FROM attempt ORDER BY attempt_id", NULL), history[i]);
        world_end(&w);
    }
}

static void waiting_can_be_stopped(void **state)
{
    (void)state;
    WORLD(w, "hang");
    pid_t other = start_other(&w, 1, 1), waiting = start_other(&w, 1, 1);
    usleep(500000);
    kill(waiting, SIGTERM);
    assert_int_equal(exit_of(waiting), 10);
    assert_string_equal(state_of(&w, 0), "running");
    kill(other, SIGTERM);
    assert_int_equal(exit_of(other), 10);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "1");
    world_end(&w);
}

/* Somebody else has declared an attempt lost, and rightly or not: its late result counts for nothing. */
static void a_late_result_is_evidence_only(void **state)
{
    (void)state;
    struct store_end lost = { .status = "lost", .reason = "taken for dead", .exit_code = -1 };
    struct lab_err err = { "" };
    WORLD(w, "slow");
    pid_t other = start_other(&w, 1, 1);
    assert_int_equal(store_attempt_end(w.store, 1, &lost, &err), 0);
    assert_int_equal(exit_of(other), 1);                                                    /* it did the run again: one done */
    assert_string_equal(ask(&w, "SELECT group_concat(status, ' ') FROM attempt ORDER BY attempt_id", NULL), "superseded done");
    assert_string_equal(ask(&w, "SELECT reason FROM attempt WHERE attempt_id = 1", NULL), "taken for lost, then ended as done");
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt WHERE result_sha256 GLOB 'ddd*'", NULL), "2");
    assert_string_equal(ask(&w, "SELECT count(*) FROM results", NULL), "2");
    assert_string_equal(ask(&w, "SELECT count(*) FROM eval", NULL), "4");
    world_end(&w);
}

/* ---- limits ---- */

static void a_worker_beyond_its_time_is_stopped(void **state)
{
    (void)state;
    WORLD(w, "hang", "done");
    w.run[0].config.limits.time = 0.5;
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_int_equal(r.failed, 1);
    assert_int_equal(r.done, 1);
    assert_string_equal(state_of(&w, 0), "timeout");
    assert_string_equal(reason_of(&w, 0), "took longer than limits.time = 0.5 s");
    r = run_sched(&w, (struct sched_options){ .jobs = 2 });                                 /* not for ever */
    assert_int_equal(r.failed, 1);
    assert_string_equal(ask(&w, "SELECT count(*) FROM attempt", NULL), "2");
    world_end(&w);
}

static void a_worker_that_hangs_is_killed_after_its_time(void **state)
{
    (void)state;
    WORLD(w, "deaf");
    w.run[0].config.limits.time = 0.1;
    run_sched(&w, (struct sched_options){ .jobs = 1 });
    assert_string_equal(state_of(&w, 0), "timeout");
    assert_string_equal(reason_of(&w, 0), "took longer than limits.time = 0.1 s, and did not stop when asked to");
    assert_string_equal(ask(&w, "SELECT term_signal FROM attempt", NULL), "9");
    world_end(&w);
}

/* Not of a sanitizer's own. */
static void memory_is_limited(void **state)
{
    (void)state;
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    WORLD(w, "eat", "done");
    w.run[0].config.limits.memory = 256;
    struct sched_report r = run_sched(&w, (struct sched_options){ .jobs = 2 });
    assert_int_equal(r.failed, 1);
    assert_int_equal(r.done, 1);
    const char *want = "killed by signal 6 (Aborted); out of memory? it held ", *limit = " MB, limits.memory is 256 MB";
    const char *reason = reason_of(&w, 0);
    if (strncmp(reason, want, strlen(want)) || !strstr(reason, limit)) fail_msg("reason is '%s'", reason);
    world_end(&w);
#endif
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "worker")) return worker_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_is_done_once), cmocka_unit_test(each_failure_costs_its_own_run),
        cmocka_unit_test(failed_runs_are_tried_again_on_demand), cmocka_unit_test(no_other_run_is_started_then), cmocka_unit_test(finishing_order_does_not_matter),
        cmocka_unit_test(workers_inherit_nothing), cmocka_unit_test(a_talkative_worker_does_not_fill_the_disk),
        cmocka_unit_test(logs_are_of_the_last_attempt), cmocka_unit_test(many_records_all_arrive),
        cmocka_unit_test(a_process_left_behind_is_ended), cmocka_unit_test(a_worker_that_cannot_be_executed_fails),
        cmocka_unit_test(a_share_is_done_and_published), cmocka_unit_test(only_missing_lengths_are_evaluated), cmocka_unit_test(other_evaluations_are_evaluated), cmocka_unit_test(without_weights_a_run_is_trained_again),
        cmocka_unit_test(ceilings_are_computed_once), cmocka_unit_test(a_signal_stops_cleanly),
        cmocka_unit_test(a_second_signal_stops_at_once), cmocka_unit_test(a_killed_supervisor_blocks_nothing),
        cmocka_unit_test(two_share_a_sweep),
        cmocka_unit_test(what_the_other_leaves_is_taken_over), cmocka_unit_test(waiting_can_be_stopped),
        cmocka_unit_test(a_late_result_is_evidence_only), cmocka_unit_test(a_worker_beyond_its_time_is_stopped),
        cmocka_unit_test(a_worker_that_hangs_is_killed_after_its_time), cmocka_unit_test(memory_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
