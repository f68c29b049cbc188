/* Tests of store/open.c and store/store.c: what is refused, what is kept, and what survives. */
#include "unit/store_fixture.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/files.h"

static struct store *open_new(const char *path)
{
    struct store *s = NULL;
    OK(store_open(&s, path, STORE_WRITE, &err));
    return s;
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- opening ---- */

static void makes_folders_and_tables(void **state)
{
    (void)state;
    const char *path = in_folder("a/b/lab.db");
    int64_t before = clock_utc_us();
    struct store *s = open_new(path);
    assert_string_equal(store_path(s), path);
    store_close(s);
    assert_string_equal(ask(path, "PRAGMA application_id"), "1279345201");       /* 0x4C414231, 'LAB1' */
    assert_string_equal(ask(path, "PRAGMA user_version"), "1");
    assert_string_equal(ask(path, "PRAGMA journal_mode"), "wal");
    assert_string_equal(ask(path, "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE type='view' ORDER BY name)"),
                        "by_length,by_position,by_seed,by_slice,curves,diverged,failures,free_running,leaks,paired,past_training,past_training_by_slice,results,runs");
    assert_string_equal(ask(path, "SELECT length(value) = 36 AND value LIKE '________-____-4___-____-____________' FROM meta WHERE key='db_uuid'"), "1");
    int64_t created = atoll(ask(path, "SELECT value FROM meta WHERE key='created_us'"));
    assert_in_range(created, before, clock_utc_us());
    assert_string_equal(ask(path, "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite%' AND sql NOT LIKE '%STRICT%'"), "0");
    s = open_new(path);                                                          /* again: the same database */
    store_close(s);
    assert_int_equal(atoll(ask(path, "SELECT value FROM meta WHERE key='created_us'")), created);
}

static void schema_is_accepted_by_the_sqlite3_program(void **state)
{
    (void)state;
    assert_int_equal(system("cat core/store/schema.sql core/store/views/*.sql | sqlite3 -bail :memory:"), 0);
}

static void path_is_taken_literally(void **state)
{
    (void)state;
    static const char *const name[] = { "a b.db", "q?x=1#y.db", "100%41.db", ":memory:", "file:x.db" };
    char home[4096];
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        store_close(open_new(name[i]));
        assert_true(exists(name[i]));
        struct store *s;
        OK(store_open(&s, in_folder(name[i]), STORE_READ, &err));
        store_close(s);
    }
    assert_int_equal(chdir(home), 0);
}

enum { READ = 1, WRITE = 2 };
static void refuse(const char *path, int modes, const char *read_message, const char *write_message)
{
    char before[HASH_HEX] = "", after[HASH_HEX] = "";
    struct store *s;
    struct stat st;
    int file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (file) OK(hash_file(path, before, &err));
    if (modes & READ) {
        FAILS(store_open(&s, path, STORE_READ, &err), read_message);
        if (strncmp(err.msg, path, strlen(path))) fail_msg("'%s' does not begin with the path", err.msg);
        assert_null(s);
    }
    if (modes & WRITE) {
        FAILS(store_open(&s, path, STORE_WRITE, &err), write_message);
        if (strncmp(err.msg, path, strlen(path))) fail_msg("'%s' does not begin with the path", err.msg);
        assert_null(s);
    }
    if (file) OK(hash_file(path, after, &err));
    assert_string_equal(before, after);
}

static void refuses_what_is_not_its_database(void **state)
{
    (void)state;
    const char *p;
    refuse(in_folder("missing.db"), READ, "there is no database yet", "");
    assert_false(exists(in_folder("missing.db")));
    refuse(folder, READ | WRITE, "is not a file", "is not a file");

    write_file(p = in_folder("empty.db"), "", 0);
    refuse(p, READ, "is empty", "");
    char text[4096];
    memset(text, 'x', sizeof text);
    write_file(p = in_folder("text.db"), text, sizeof text);
    refuse(p, READ | WRITE, "is not a database", "is not a database");
    write_file(p = in_folder("short.db"), "SQLite format 3", 16);
    refuse(p, READ | WRITE, "is not a database", "is not a database");

    change(p = in_folder("other.db"), "CREATE TABLE run(x)");
    refuse(p, READ | WRITE, "is a database of another program", "is a database of another program");
    change(p = in_folder("fossil.db"), "PRAGMA application_id=252006673; CREATE TABLE run(x)");
    refuse(p, READ | WRITE, "another program (application id 0x0f055111", "choose another file with --db");
    change(p = in_folder("other_wal.db"), "PRAGMA journal_mode=WAL; CREATE TABLE run(x)");
    refuse(p, READ | WRITE, "is a database of another program", "is a database of another program");
    assert_false(exists(in_folder("other_wal.db-wal")));

    store_close(open_new(p = in_folder("newer.db")));
    change(p, "PRAGMA user_version=7");
    refuse(p, READ | WRITE, "a newer lab (schema 7, this one reads 1)", "a newer lab (schema 7, this one reads 1)");
    refuse("", READ | WRITE, "expected 1 to", "expected 1 to");
}

static void refuses_a_damaged_file(void **state)
{
    (void)state;
    const char *p = in_folder("damaged.db");
    struct stat st;
    store_close(open_new(p));
    assert_int_equal(stat(p, &st), 0);
    assert_int_equal(truncate(p, st.st_size / 2 / 4096 * 4096), 0);
    refuse(p, READ | WRITE, "is damaged", "is damaged");
    assert_int_equal(truncate(p, 50), 0);
    refuse(p, READ | WRITE, "is damaged", "is damaged");
}

static void read_only_folder_is_read_without_leaving_anything(void **state)
{
    (void)state;
    const char *p = in_folder("ro/lab.db");
    struct store *s = open_new(p);
    struct store_status status;
    char before[HASH_HEX], after[HASH_HEX];
    add_run(s, 1, "rope", "shift", 0, "");
    store_close(s);
    OK(hash_file(p, before, &err));
    assert_int_equal(chmod(in_folder("ro"), 0555), 0);
    refuse(p, WRITE, "", "folder");
    refuse(in_folder("ro/new.db"), WRITE, "", "is read-only");
    OK(store_open(&s, p, STORE_READ, &err));
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_PENDING);
    assert_false(exists(in_folder("ro/lab.db-shm")) || exists(in_folder("ro/lab.db-wal")));
    store_close(s);
    assert_int_equal(chmod(in_folder("ro"), 0755), 0);

    assert_int_equal(chmod(p, 0444), 0);
    refuse(p, WRITE, "", "is read-only; make it writable");
    OK(store_open(&s, p, STORE_READ, &err));
    assert_false(exists(in_folder("ro/lab.db-shm")) || exists(in_folder("ro/lab.db-wal")));
    store_close(s);
    OK(hash_file(p, after, &err));
    assert_string_equal(before, after);
}

/* A normal user, for whom the kernel refuses by itself. */
static void read_only_folder_of_somebody_else(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    store_close(open_new(p));
    assert_int_equal(chmod(folder, 0755), 0);
    if (geteuid() != 0) skip();
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
        if (store_open(&s, p, STORE_WRITE, &err) == 0 || !strstr(err.msg, "is read-only")) _exit(1);
        if (store_open(&s, p, STORE_READ, &err) != 0) _exit(2);
        store_close(s);
        _exit(exists(in_folder("lab.db-wal")) ? 3 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void network_file_systems_are_known(void **state)
{
    (void)state;
    static const char info[] =
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "36 22 0:33 / /home rw - nfs4 server:/export rw,vers=4.2\n"
        "37 22 0:34 / /mnt/with\\040blank rw shared:2 master:3 - fuse.sshfs user@host: rw\n"
        "38 22 0:35 / /shared rw - fuse.grpcfuse grpcfuse rw\n";
    char type[32];
    const char *p = in_folder("mountinfo");
    write_file(p, info, sizeof info - 1);
    static const struct { unsigned major, minor; const char *type; } want[] = {
        { 254, 0, "" }, { 0, 33, "nfs4" }, { 0, 34, "fuse.sshfs" }, { 0, 35, "" }, { 0, 99, "" } };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        db_network(p, want[i].major, want[i].minor, type);
        assert_string_equal(type, want[i].type);
    }
    db_network(in_folder("none"), 0, 33, type);
    assert_string_equal(type, "");
}

static void no_handle_reaches_a_child(void **state)
{
    (void)state;
    char link[64], target[512];
    struct store *s = open_new(in_folder("lab.db"));
    add_run(s, 1, "rope", "shift", 0, "");
    int seen = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n < 0) continue;
        target[n] = '\0';
        if (!strstr(target, folder)) continue;
        seen++;
        if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC)) fail_msg("descriptor %d (%s) stays open across exec", fd, target);
    }
    assert_true(seen >= 2);
    store_close(s);
}

static void many_open_a_new_database_at_once(void **state)
{
    (void)state;
    enum { N = 16 };
    pid_t child[N];
    const char *p = in_folder("new/lab.db");
    int status;
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            struct store *s;
            if (store_open(&s, p, STORE_WRITE, &err) != 0) { fprintf(stderr, "%s\n", err.msg); _exit(1); }
            add_run(s, 100 + i, "rope", "shift", i, "");
            store_close(s);
            _exit(0);
        }
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_string_equal(ask(p, "SELECT count(*) FROM run"), "16");
    assert_string_equal(ask(p, "SELECT count(*) FROM meta WHERE key='db_uuid'"), "1");
}

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    struct store *s;
    const char *p = in_folder("lab.db");
    store_close(open_new(p));
    for (int n = 1; n < 20; n++) {
        mem_fail_at(n);
        int rc = store_open(&s, p, STORE_WRITE, &err);
        mem_fail_at(0);
        if (rc == 0) { assert_true(n > 2); store_close(s); return; }
        assert_non_null(strstr(err.msg, "memory"));
    }
    fail_msg("never succeeded");
}

/* ---- the plan ---- */

static void putting_the_plan_twice_changes_nothing(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t sweep[2], run[2];
    for (int i = 0; i < 2; i++) {
        OK(store_put_sweep(s, key(5), "name", "a question?", "experiments/x.ini", "[experiment]\n", &sweep[i], &err));
        run[i] = add_run(s, 1, "rope", "shift", 3, "");
        OK(store_put_cell(s, sweep[i], 0, run[i], "model.embed_std=1", &err));
    }
    int64_t other = add_run(s, 2, "rope", "shift", 4, "");
    assert_int_equal(sweep[0], sweep[1]);
    assert_int_equal(run[0], run[1]);
    assert_int_not_equal(run[0], other);
    OK(store_put_cell(s, sweep[0], 0, other, "", &err));         /* the plan of a later lab takes the place */
    store_close(s);
    assert_string_equal(ask(p, "SELECT count(*) || ' ' || max(name) || ' ' || max(question) FROM sweep"), "1 name a question?");
    assert_string_equal(ask(p, "SELECT count(*) || ' ' || max(run_id) FROM sweep_cell"), "1 2");
    assert_string_equal(ask(p, "SELECT encoder||task||seed||parameters||chance||train_length FROM run WHERE run_id=1"), "ropeshift310000.18");
    assert_string_equal(ask(p, "SELECT count(DISTINCT arm) FROM run"), "1");     /* they differ in the seed alone */
}

static void training_length_is_the_longest(void **state)
{
    (void)state;
    static const struct { const char *length, *want; } table[] = { { "[8,8]", "8" }, { "[1,16]", "16" }, { "null", "" } };
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    for (int i = 0; i < 3; i++) {
        char config[128], sql[128];
        int64_t id;
        snprintf(config, sizeof config, "{\"seed\":%d,\"train\":{\"length\":%s}}", i, table[i].length);
        struct store_run run = { .key = key(i), .encoder = "e", .task = "t", .variant = "v", .task_key = "k", .config = config, .chance = NAN };
        OK(store_put_run(s, &run, &id, &err));
        snprintf(sql, sizeof sql, "SELECT train_length FROM run WHERE run_id=%d", (int)id);
        assert_string_equal(ask(p, sql), table[i].want);
    }
    assert_string_equal(ask(p, "SELECT count(*) FROM run WHERE chance IS NULL"), "3");
    store_close(s);
}

static void arms_differ_in_any_option_but_the_seed(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    add_run(s, 1, "t5", "shift", 0, ",\"x\":{\"buckets\":32}");
    add_run(s, 2, "t5", "shift", 1, ",\"x\":{\"buckets\":32}");
    add_run(s, 3, "t5", "shift", 0, ",\"x\":{\"buckets\":16}");
    struct store_run bad = { .key = key(4), .encoder = "e", .task = "t", .variant = "v", .task_key = "k", .config = "{not json" };
    int64_t id;
    FAILS(store_put_run(s, &bad, &id, &err), "malformed JSON");
    FAILS(store_put_env(s, "[", &id, &err), "malformed JSON");
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(n) FROM (SELECT count(*) n FROM run GROUP BY arm ORDER BY n)"), "1,2");
}

/* ---- attempts ---- */

static void one_attempt_runs_and_one_is_done(void **state)
{
    (void)state;
    struct store *s = open_new(in_folder("lab.db"));
    struct store_status status;
    struct store_end end = { .status = "done", .active_ns = 1, .last_step = 1 };
    int64_t run = add_run(s, 1, "rope", "shift", 0, ""), env, second;
    char want[64];
    OK(store_put_env(s, "{}", &env, &err));
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_PENDING);
    OK(store_run_status(s, key(77), &status, &err));
    assert_int_equal(status.state, STORE_PENDING);

    int64_t attempt = begin_attempt(s, run);
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_RUNNING);
    assert_int_equal(status.attempt_id, attempt);
    snprintf(want, sizeof want, "is being run by process %d on ", (int)getpid());
    FAILS(store_attempt_begin(s, run, env, getpid(), &second, &err), want);

    end_attempt(s, attempt, "failed", "the plugin said no");
    FAILS(store_attempt_end(s, attempt, &end, &err), "is not running");
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_FAILED);
    assert_string_equal(status.reason, "the plugin said no");

    attempt = begin_attempt(s, run);
    end_attempt(s, attempt, "interrupted", "SIGTERM");
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_INTERRUPTED);

    attempt = begin_attempt(s, run);
    end_attempt(s, attempt, "done", NULL);
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_DONE);
    assert_true(status.active_s == 4.0);
    FAILS(store_attempt_begin(s, run, env, getpid(), &second, &err), "is done already");
    store_close(s);
    const char *p = in_folder("lab.db");
    char twice[512];                                             /* and the database itself says no */
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(p, &db), SQLITE_OK);
    snprintf(twice, sizeof twice, "UPDATE attempt SET status='done'");
    assert_int_equal(sqlite3_exec(db, twice, NULL, NULL, &why), SQLITE_CONSTRAINT);
    sqlite3_free(why);
    sqlite3_close(db);
    change(p, "UPDATE attempt SET status='superseded' WHERE status='done'");      /* withdrawn: to be trained anew */
    OK(store_open(&s, p, STORE_READ, &err));
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_PENDING);
    store_close(s);
}

static pid_t dead_process(void)
{
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    return child;
}

static void attempts_of_dead_processes_are_lost(void **state)
{
    (void)state;
    static const char *const why_dead[] = { "", "UPDATE attempt SET pid_start = pid_start - 1", "UPDATE attempt SET boot_id = 'an earlier boot'" };
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p), *reader;
    struct store_status status;
    int64_t env, attempt, run = add_run(s, 1, "rope", "shift", 0, "");
    OK(store_put_env(s, "{}", &env, &err));
    for (int i = 0; i < 3; i++) {
        struct store *first = open_new(p);
        OK(store_attempt_begin(first, run, env, i ? getpid() : dead_process(), &attempt, &err));
        store_close(first);                                      /* and with it goes the lock of whoever began the attempt */
        if (i) change(p, why_dead[i]);
        OK(store_open(&reader, p, STORE_READ, &err));            /* a reader sees it, but changes nothing */
        OK(store_run_status(reader, key(1), &status, &err));
        assert_int_equal(status.state, STORE_INTERRUPTED);
        assert_non_null(strstr(status.reason, "ended without a word"));
        store_close(reader);
        assert_string_equal(ask(p, "SELECT count(*) FROM attempt WHERE status='running'"), "1");
        OK(store_attempt_begin(s, run, env, getpid(), &attempt, &err));
        assert_string_equal(ask(p, "SELECT count(*) FROM attempt WHERE status='running'"), "1");
        struct store_end end = { .status = "interrupted" };
        OK(store_attempt_end(s, attempt, &end, &err));
    }
    assert_string_equal(ask(p, "SELECT count(*) FROM attempt WHERE status='lost' AND reason LIKE 'process % ended without a word'"), "3");
    for (int i = 0; i < 100; i++) {                              /* and opening to write tidies up after a kill */
        int64_t other = add_run(s, 100 + i, "rope", "shift", i, "");
        OK(store_attempt_begin(s, other, env, getpid(), &attempt, &err));
    }
    store_close(s);
    store_close(open_new(p));
    assert_string_equal(ask(p, "SELECT count(*) FROM attempt WHERE status='running'"), "100");
    change(p, "UPDATE attempt SET boot_id = 'an earlier boot'");
    store_close(open_new(p));
    assert_string_equal(ask(p, "SELECT count(*) FROM attempt WHERE status='running'"), "0");
    assert_string_equal(ask(p, "SELECT state FROM runs WHERE seed=50"), "lost");
}

static void expect_state(const char *p, enum store_state want)
{
    struct store *reader;
    struct store_status status;
    OK(store_open(&reader, p, STORE_READ, &err));
    OK(store_run_status(reader, key(1), &status, &err));
    store_close(reader);
    assert_int_equal(status.state, want);
}

/* As seen from another container, where process ids say nothing. */
static void a_lock_shows_that_a_process_lives(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    char c;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        if (store_open(&s, p, STORE_WRITE, &err) != 0) _exit(1);
        begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
        if (write(ready[1], "x", 1) < 0) _exit(2);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    expect_state(p, STORE_RUNNING);
    change(p, "UPDATE attempt SET pid_start = pid_start - 1");   /* only the lock is left to tell */
    expect_state(p, STORE_RUNNING);
    change(p, "UPDATE attempt SET started_us = 0, beat_us = 0"); /* silent since 1970: starved or stopped, which is not dead */
    expect_state(p, STORE_RUNNING);
    store_close(open_new(p));
    assert_string_equal(ask(p, "SELECT status FROM attempt"), "running");
    change(p, "UPDATE attempt SET pid_start = pid_start + 1");   /* only the process is left to tell */
    assert_int_equal(unlink(in_folder("lab.db-lock")), 0);
    expect_state(p, STORE_RUNNING);
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    expect_state(p, STORE_INTERRUPTED);                          /* a zombie is dead */
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]), close(ready[1]);
}

static void a_late_result_is_kept_but_not_accepted(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    struct store_end lost = { .status = "lost", .exit_code = -1 }, done = { .status = "done", .result_sha256 = "late", .last_step = 9 };
    int64_t first = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    OK(store_attempt_end(s, first, &lost, &err));
    int64_t second = begin_attempt(s, 1);
    put_eval(s, first, "test", 8, 9, 100, 1, 1, 1);
    assert_int_equal(store_attempt_end(s, first, &done, &err), 1);
    expect_state(p, STORE_RUNNING);
    end_attempt(s, second, "done", NULL);
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(status || ' ' || result_sha256) FROM attempt ORDER BY attempt_id"), "superseded late,done hash");
    assert_string_equal(ask(p, "SELECT reason FROM attempt WHERE attempt_id = 1"), "taken for lost, then ended as done");
    assert_string_equal(ask(p, "SELECT count(*) FROM results"), "0");
    assert_string_equal(ask(p, "SELECT count(*) FROM eval"), "1");
}

static void put_checkpoint(struct store *s, int64_t attempt, int64_t step)
{
    OK(store_put_record(s, attempt, &(struct record){ .type = RECORD_CHECKPOINT, .step = step }, &err));
}

/* A merge may bring the result of a run that is being trained here: ours is kept as evidence. */
static void a_second_result_is_evidence(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    struct store_end done = { .status = "done", .result_sha256 = "ours", .last_step = 9, .exit_code = 0 };
    int64_t ours = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    change(p, "INSERT INTO attempt(attempt_uuid, run_id, env_id, status, started_us, beat_us, ended_us, last_step, result_sha256, host, boot_id, pid, pid_start, lock_at)"
              " SELECT 'merged', run_id, env_id, 'done', started_us, beat_us, started_us, 9, 'theirs', host, boot_id, 1, 1, 0 FROM attempt");
    assert_int_equal(store_attempt_end(s, ours, &done, &err), 1);
    store_close(s);
    expect_state(p, STORE_DONE);
    assert_string_equal(ask(p, "SELECT group_concat(status || ' ' || result_sha256, ', ') FROM (SELECT * FROM attempt ORDER BY status)"), "done theirs, superseded ours");
    assert_string_equal(ask(p, "SELECT reason FROM attempt WHERE status = 'superseded'"), "another result was entered before it ended as done");
}

/* Who looks what lies beside a database must not undo the locks that this process has on it. */
static void looking_around_keeps_the_locks(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    struct files found;
    add_run(s, 1, "rope", "shift", 0, "");
    OK(store_begin(s, &err));
    OK(files_read(&found, s, &err));
    files_release(&found);
    pid_t child = fork();                                        /* POSIX locks are a process's own */
    if (child == 0) {
        sqlite3 *db;
        _exit(sqlite3_open(p, &db) != SQLITE_OK ? 1 : sqlite3_exec(db, "UPDATE meta SET value = value", NULL, NULL, NULL) != SQLITE_BUSY ? 2 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(store_commit(s, &err));
    store_close(s);
}

/* Three attempts, each from the checkpoint of the one before: one curve, in which nothing comes twice. */
static void curves_follow_the_checkpoints(void **state)
{
    (void)state;
    static const int from[] = { 0, 20, 10 }, to[] = { 30, 20, 40 };         /* the second tells nothing that is used */
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t run = add_run(s, 1, "rope", "shift", 0, ""), env, attempt[3];
    char uuid[3][STORE_UUID];
    int yes;
    for (int i = 0; i < 3; i++) {
        attempt[i] = begin_attempt(s, run);
        OK(store_attempt_uuid(s, attempt[i], uuid[i], &err));
        if (i) OK(store_attempt_continue(s, attempt[i], uuid[0], from[i], &err));
        for (int step = from[i] + 10; step <= to[i]; step += 10) {
            put_metric(s, attempt[i], "loss", step, step + i);
            put_eval(s, attempt[i], "valid", 8, step, 100, 1, 8 * i, 1);
        }
        if (i == 0) put_checkpoint(s, attempt[0], 20);
        end_attempt(s, attempt[i], i == 2 ? "done" : "interrupted", NULL);
    }
    OK(store_put_env(s, "{\"cpu\":\"test\"}", &env, &err));
    const struct { int attempt, step, env; int64_t run; int yes; } saved[] = {
        { 0, 20, 0, run, 1 }, { 0, 10, 0, run, 1 }, { 0, 21, 0, run, 0 }, { 1, 20, 0, run, 0 }, { 0, 20, 1, run, 0 }, { 0, 20, 0, run + 1, 0 } };
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        OK(store_is_saved(s, saved[i].run, env + saved[i].env, uuid[saved[i].attempt], saved[i].step, &yes, &err));
        assert_int_equal(yes, saved[i].yes);
    }
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(step || ' ' || value) FROM (SELECT * FROM curves WHERE name = 'loss')"),
                        "10 10.0,20 22.0,30 32.0,40 42.0");
    assert_string_equal(ask(p, "SELECT group_concat(step || ' ' || value) FROM (SELECT * FROM curves WHERE name = 'token_accuracy@8')"),
                        "10 0.0,20 0.02,30 0.02,40 0.02");
    assert_string_equal(ask(p, "SELECT train_loss || ' ' || attempts || ' ' || step_ms FROM runs"), "42.0 3 2.01");
}

static void the_scheduler_is_remembered(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    setenv("SLURM_JOB_ID", "1234", 1), setenv("SLURM_ARRAY_JOB_ID", "1230", 1), setenv("SLURM_ARRAY_TASK_ID", "4", 1);
    begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    unsetenv("SLURM_JOB_ID"), unsetenv("SLURM_ARRAY_JOB_ID"), unsetenv("SLURM_ARRAY_TASK_ID");
    begin_attempt(s, add_run(s, 2, "rope", "shift", 1, ""));
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(coalesce(slurm_job || ' ' || slurm_array || ' ' || slurm_task, 'none')) FROM attempt"), "1234 1230 4,none");
}

/* ---- records ---- */

/* Other data: what was measured before goes, with all that belongs to it; other steps and lengths stay. */
static void an_evaluation_on_other_data_replaces(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    struct record eval = { .type = RECORD_EVAL, .split = "test", .length = 8, .step = 10, .n = 50, .n_tok = 400, .n_tok_ok = 9, .position = 1 };
    struct record position = { .type = RECORD_EVAL_POSITION, .split = "test", .length = 8, .step = 10, .position = 3, .n_tok = 50, .n_tok_ok = 5 };
    struct record slice = { .type = RECORD_EVAL_SLICE, .split = "test", .length = 8, .step = 10, .position = 2, .n = 50, .n_tok = 400, .n_tok_ok = 9 };
    OK(store_begin(s, &err));
    OK(store_put_record(s, attempt, &eval, &err));
    OK(store_put_record(s, attempt, &position, &err));
    OK(store_put_record(s, attempt, &slice, &err));
    position.step = 5, eval.step = 5;
    OK(store_put_record(s, attempt, &eval, &err));
    OK(store_put_record(s, attempt, &position, &err));
    eval.step = 10, eval.position = 2, eval.n = 20, eval.n_tok = 160;                        /* another seed, fewer sequences */
    OK(store_put_record(s, attempt, &eval, &err));
    slice.position = 4, slice.n = 20;
    OK(store_put_record(s, attempt, &slice, &err));
    OK(store_commit(s, &err));
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(step||' '||seed||' '||n, ', ') FROM eval"), "5 1 50, 10 2 20");
    assert_string_equal(ask(p, "SELECT group_concat(step||' '||position, ', ') FROM eval_position"), "5 3");
    assert_string_equal(ask(p, "SELECT group_concat(step||' '||slice||' '||n, ', ') FROM eval_slice"), "10 4 20");
}

static void every_record_comes_back(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t attempt = begin_attempt(s, add_run(s, 1, "learned", "shift", 0, ""));
    struct record position = { .type = RECORD_EVAL_POSITION, .split = "test", .length = 12, .step = 2000, .position = 11, .n_tok = 1000, .n_tok_ok = 640 };
    struct record untrained = { .type = RECORD_UNTRAINED, .name = "encoder.table", .position = 8, .n = 56, .length = 64 };
    struct record artifact = { .type = RECORD_ARTIFACT, .name = "weights", .text = "results/w/1.safetensors", .n_tok = 4096, .sha256 = "ab" };
    struct record ceiling = { .type = RECORD_CEILING, .name = "order_blind", .length = 8, .value = 0.317, .error = 0.001, .n = 20000 };
    struct record wrong = { .type = RECORD_PROGRESS };
    int found, yes;
    double value, error, ms;

    OK(store_begin(s, &err));
    put_metric(s, attempt, "loss", 20, 1.5);
    put_metric(s, attempt, "loss", 20, 1.25);                    /* said twice: the later one, and no end of the run */
    put_eval(s, attempt, "test", 12, 2000, 1000, 7, 8000, 0.5);
    OK(store_put_record(s, attempt, &position, &err));
    OK(store_put_record(s, attempt, &untrained, &err));
    OK(store_put_record(s, attempt, &artifact, &err));
    OK(store_put_ceiling(s, key(9), "shift", &ceiling, &err));
    FAILS(store_put_record(s, attempt, &wrong, &err), "is not a row of an attempt");
    OK(store_commit(s, &err));

    assert_string_equal(ask(p, "SELECT name||step||'='||value FROM metric"), "loss20=1.25");
    assert_string_equal(ask(p, "SELECT split||' '||length||' '||step||' '||n||' '||n_exact||' '||n_tok||' '||n_tok_ok||' '||loss||' '||data_sha256 FROM eval"),
                        "test 12 2000 1000 7 12000 8000 0.5 data-12-1000");
    assert_string_equal(ask(p, "SELECT split||' '||length||' '||step||' '||position||' '||n||' '||n_ok FROM eval_position"), "test 12 2000 11 1000 640");
    assert_string_equal(ask(p, "SELECT parameter||' '||first_row||' '||rows||' '||of_rows FROM untrained"), "encoder.table 8 56 64");
    assert_string_equal(ask(p, "SELECT path||' '||kind||' '||bytes||' '||sha256 FROM artifact"), "results/w/1.safetensors weights 4096 ab");
    OK(store_ceiling(s, key(9), 8, "order_blind", &found, &value, &error, &err));
    assert_true(found && value == 0.317 && error == 0.001);
    OK(store_ceiling(s, key(9), 12, "order_blind", &found, &value, &error, &err));
    assert_false(found);

    OK(store_has_eval(s, key(1), &(struct store_eval){ "test", 12, 1000, 0 }, &yes, &err));
    assert_false(yes);                                           /* not done yet */
    OK(store_step_ms(s, "shift", "learned", "variant", &ms, &err));
    assert_true(ms == 0);
    end_attempt(s, attempt, "done", NULL);
    static const struct { int length, n, yes; } has[] = { { 12, 1000, 1 }, { 12, 500, 1 }, { 12, 1001, 0 }, { 16, 1, 0 } };
    for (size_t i = 0; i < sizeof has / sizeof *has; i++) {
        OK(store_has_eval(s, key(1), &(struct store_eval){ "test", has[i].length, has[i].n, 0 }, &yes, &err));
        assert_int_equal(yes, has[i].yes);
    }
    OK(store_step_ms(s, "shift", "learned", "variant", &ms, &err));
    assert_true(ms == 2.0);                                      /* 4 s for 2000 steps */

    put_eval(s, attempt, "test", 12, 2000, 500, 1, 1, 0.1);      /* later, fewer sequences: nothing changes */
    assert_string_equal(ask(p, "SELECT n||' '||n_exact FROM eval"), "1000 7");
    put_eval(s, attempt, "test", 12, 2000, 2000, 9, 20000, 0.1);
    assert_string_equal(ask(p, "SELECT n||' '||n_exact||' '||data_sha256 FROM eval"), "2000 9 data-12-2000");
    OK(store_has_eval(s, key(1), &(struct store_eval){ "test", 12, 1, 5 }, &yes, &err));
    assert_false(yes);                                           /* not of the data of seed 5 */
    OK(store_has_eval(s, key(1), &(struct store_eval){ "free", 12, 1, 0 }, &yes, &err));
    assert_false(yes);
    store_close(s);
}

static void wrong_records_are_refused(void **state)
{
    (void)state;
    struct store *s = open_new(in_folder("lab.db"));
    int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    struct record unknown = { .type = RECORD_METRIC, .name = "no_such_metric", .value = 1 };
    struct record too_many = { .type = RECORD_EVAL, .split = "test", .length = 8, .n = 10, .n_exact = 11, .n_tok = 80, .n_tok_ok = 1 };
    struct record loss = { .type = RECORD_METRIC, .name = "loss", .value = 1 };
    OK(store_begin(s, &err));
    FAILS(store_put_record(s, attempt, &unknown, &err), "constraint failed");
    FAILS(store_put_record(s, attempt, &too_many, &err), "n_exact BETWEEN");
    FAILS(store_put_record(s, 999, &loss, &err), "constraint failed");
    OK(store_put_record(s, attempt, &loss, &err));               /* the transaction goes on */
    OK(store_commit(s, &err));
    assert_string_equal(ask(in_folder("lab.db"), "SELECT count(*) FROM metric"), "1");
    store_close(s);
}

static void what_is_not_finite_is_null_and_named(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    put_metric(s, attempt, "loss", 10, NAN);
    put_metric(s, attempt, "loss", 20, INFINITY);
    put_metric(s, attempt, "loss", 30, -INFINITY);
    put_metric(s, attempt, "loss", 40, 0.0);
    put_metric(s, attempt, "loss", 50, 1.7976931348623157e308);
    put_eval(s, attempt, "test", 8, 2000, 10, 0, 5, NAN);
    end_attempt(s, attempt, "failed", "loss is nan at step 10");
    store_close(s);
    assert_string_equal(ask(p, "SELECT group_concat(ifnull(value,'NULL')||':'||ifnull(special,'-')) FROM (SELECT * FROM metric ORDER BY step)"),
                        "NULL:nan,NULL:inf,NULL:-inf,0.0:-,1.79769313486232e+308:-");
    assert_string_equal(ask(p, "SELECT ifnull(loss,'NULL')||loss_special||' '||n_tok_ok FROM eval"), "NULLnan 5");
    assert_string_equal(ask(p, "SELECT count(*) FROM metric WHERE value < 0.1"), "1");         /* the diverged are not among the good */
    assert_string_equal(ask(p, "SELECT group_concat(name||' '||first_step||' '||special||' '||points) FROM diverged"), "loss 10 nan 3,loss@8 2000 nan 1");
    assert_string_equal(ask(p, "SELECT state||': '||reason FROM failures"), "failed: loss is nan at step 10");
}

/* ---- readers, writers, and the worst ---- */

static void a_reader_never_stops_the_writer(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p), *reader;
    struct store_status status;
    sqlite3 *db;
    sqlite3_stmt *st;
    add_run(s, 1, "rope", "shift", 0, "");
    assert_int_equal(sqlite3_open(p, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM run", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);              /* and there it stays, with its lock */
    int64_t start = clock_ns();
    OK(store_begin(s, &err));
    int64_t attempt = begin_attempt(s, add_run(s, 2, "rope", "shift", 1, ""));
    OK(store_commit(s, &err));
    assert_true(clock_ns() - start < 2000000000);
    OK(store_begin(s, &err));
    put_metric(s, attempt, "loss", 1, 1);
    OK(store_open(&reader, p, STORE_READ, &err));                /* and the writer does not stop a reader */
    OK(store_run_status(reader, key(2), &status, &err));
    assert_int_equal(status.state, STORE_RUNNING);
    FAILS(store_put_env(reader, "{}", &attempt, &err), "cannot be written");
    store_close(reader);
    OK(store_commit(s, &err));
    sqlite3_finalize(st);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    store_close(s);                                              /* all of it is in the one file, though db has it open */
    char copy[600];
    snprintf(copy, sizeof copy, "cp %s %s/copy.db", p, folder);
    assert_int_equal(system(copy), 0);
    assert_string_equal(ask(in_folder("copy.db"), "SELECT count(*) FROM metric"), "1");
    sqlite3_close(db);
}

/* A transaction that has read takes no lock later that another may hold by then: it has it from its begin. */
static void a_transaction_can_always_be_finished(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    struct store_status status;
    sqlite3 *db;
    add_run(s, 1, "rope", "shift", 0, "");
    OK(store_begin(s, &err));
    OK(store_run_status(s, key(1), &status, &err));              /* it reads ... */
    assert_int_equal(sqlite3_open(p, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE meta SET value = value", NULL, NULL, NULL), SQLITE_BUSY);
    add_run(s, 2, "rope", "shift", 1, "");                       /* ... and writes then */
    OK(store_commit(s, &err));
    assert_int_equal(sqlite3_exec(db, "UPDATE meta SET value = value", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    store_close(s);
    assert_string_equal(ask(p, "SELECT count(*) FROM run"), "2");
}

/* Processor seconds of 200 savings: five points of a curve and a sign of life each. */
static double saving_seconds(struct store *s, int64_t attempt, int from)
{
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (int i = from; i < from + 200; i++) {
        OK(store_begin(s, &err));
        for (int m = 0; m < 5; m++) put_metric(s, attempt, "loss", 5 * i + m + 1, 1);
        OK(store_attempt_beat(s, attempt, i, i, 1, &err));
        OK(store_commit(s, &err));
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

static void saving_costs_the_same_beside_many_runs(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
    double few = saving_seconds(s, attempt, 0);
    OK(store_begin(s, &err));
    for (int i = 2; i < 4000; i++) {
        int64_t other = begin_attempt(s, add_run(s, i, "rope", "shift", i, ""));
        for (int step = 1; step <= 10; step++) put_metric(s, other, "loss", step, 1);
        end_attempt(s, other, "failed", "made up");
    }
    OK(store_commit(s, &err));
    double many = saving_seconds(s, attempt, 200);
    if (many > 3 * few + 0.02) fail_msg("200 savings took %g s, beside 4000 runs %g s", few, many);
    store_close(s);
}

static void a_killed_writer_keeps_what_was_committed(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    char before[HASH_HEX], after[HASH_HEX];
    struct store_status status;
    int wait_status;
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        if (store_open(&s, p, STORE_WRITE, &err) != 0) _exit(1);
        int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "shift", 0, ""));
        OK(store_begin(s, &err));
        put_metric(s, attempt, "loss", 1, 1);
        OK(store_commit(s, &err));
        OK(store_begin(s, &err));
        put_metric(s, attempt, "loss", 2, 1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFSIGNALED(wait_status));
    assert_true(exists(in_folder("lab.db-wal")));
    OK(hash_file(p, before, &err));
    struct store *s;
    OK(store_open(&s, p, STORE_READ, &err));
    OK(store_run_status(s, key(1), &status, &err));
    assert_int_equal(status.state, STORE_INTERRUPTED);
    store_close(s);
    OK(hash_file(p, after, &err));
    assert_string_equal(before, after);                          /* a reader leaves even this to the next writer */
    store_close(open_new(p));
    assert_false(exists(in_folder("lab.db-wal")));
    assert_string_equal(ask(p, "SELECT group_concat(step) FROM metric"), "1");
    assert_string_equal(ask(p, "SELECT status FROM attempt"), "lost");
    assert_string_equal(ask(p, "PRAGMA integrity_check"), "ok");
}

static void a_full_disk_is_named_and_costs_nothing_committed(void **state)
{
    (void)state;
    const char *p = in_folder("lab.db");
    struct store *s = open_new(p);
    add_run(s, 1, "rope", "shift", 0, "");
    store_close(s);
    pid_t child = fork();
    if (child == 0) {                                            /* a limit on the size of files stands for the disk */
        struct rlimit limit = { 300000, 300000 };
        signal(SIGXFSZ, SIG_IGN);
        if (store_open(&s, p, STORE_WRITE, &err) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        int64_t attempt = begin_attempt(s, add_run(s, 2, "rope", "shift", 1, ""));
        struct record r = { .type = RECORD_METRIC, .name = "loss", .value = 1 };
        for (r.step = 1; r.step < 10000; r.step++)
            if (store_put_record(s, attempt, &r, &err) != 0) _exit(strstr(err.msg, "what was committed is kept") ? 0 : 2);
        _exit(3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    store_close(open_new(p));
    assert_string_equal(ask(p, "SELECT count(*) FROM run"), "2");
    assert_string_equal(ask(p, "PRAGMA integrity_check"), "ok");
}

/* https://sqlite.org/wal.html: in 3.7.0 to 3.51.2 but for 3.44.6 and 3.50.7, into which the repair was taken back. */
static void versions_with_a_known_bug_are_told(void **state)
{
    (void)state;
    static const struct { int version, has; } table[] = { { 3006023, 0 }, { 3007000, 1 }, { 3040001, 1 }, { 3044005, 1 }, { 3044006, 0 }, { 3045000, 1 },
        { 3050006, 1 }, { 3050007, 0 }, { 3051000, 1 }, { 3051002, 1 }, { 3051003, 0 }, { 3052000, 0 }, { 3053001, 0 } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((store_sqlite_bug(table[i].version) != NULL) != table[i].has) fail_msg("version %d: expected %d", table[i].version, table[i].has);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(makes_folders_and_tables), TEST(schema_is_accepted_by_the_sqlite3_program), TEST(path_is_taken_literally),
        TEST(refuses_what_is_not_its_database), TEST(refuses_a_damaged_file), TEST(read_only_folder_is_read_without_leaving_anything),
        TEST(read_only_folder_of_somebody_else), TEST(network_file_systems_are_known), TEST(no_handle_reaches_a_child),
        TEST(many_open_a_new_database_at_once), TEST(failing_memory_is_an_error),
        TEST(putting_the_plan_twice_changes_nothing), TEST(training_length_is_the_longest), TEST(arms_differ_in_any_option_but_the_seed),
        TEST(one_attempt_runs_and_one_is_done), TEST(attempts_of_dead_processes_are_lost), TEST(a_lock_shows_that_a_process_lives),
        TEST(a_late_result_is_kept_but_not_accepted),
        TEST(a_second_result_is_evidence), TEST(looking_around_keeps_the_locks), TEST(curves_follow_the_checkpoints), TEST(the_scheduler_is_remembered),
        TEST(an_evaluation_on_other_data_replaces), TEST(every_record_comes_back), TEST(wrong_records_are_refused), TEST(what_is_not_finite_is_null_and_named),
        TEST(a_reader_never_stops_the_writer), TEST(a_transaction_can_always_be_finished),
        TEST(saving_costs_the_same_beside_many_runs), TEST(a_killed_writer_keeps_what_was_committed),
        TEST(a_full_disk_is_named_and_costs_nothing_committed), TEST(versions_with_a_known_bug_are_told) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
