/* test_spill -- what waits outside a database is entered once, whole, and only where it belongs. */
#include "store_fixture.h"
#include <dirent.h>
#include <sys/wait.h>
#include "store/spill.h"

static const struct record metric = { .type = RECORD_METRIC, .name = "loss", .step = 20, .value = 0.5 };
static const struct record eval = { .type = RECORD_EVAL, .split = "test", .step = 40, .length = 4, .position = 0, .n = 10, .n_exact = 5, .n_tok = 40,
                                    .n_tok_ok = 30, .value = 0.25, .sha256 = "data" };

struct begun { char path[256], file[SPILL_PATH], uuid[STORE_UUID]; int64_t id; };

static int64_t begin(struct store *s) { return begin_attempt(s, add_run(s, 1, "none", "reverse", 0, "")); }

/* An attempt of a process that has ended by now, of which one record is entered and two wait in a file. */
static struct begun left_behind(const char *name)
{
    struct begun b;
    struct store *s;
    snprintf(b.path, sizeof b.path, "%s", in_folder(name));
    pid_t pid = fork();
    if (pid == 0) {
        char uuid[STORE_UUID], file[SPILL_PATH];
        OK(store_open(&s, b.path, STORE_WRITE, &err));
        b.id = begin(s);
        OK(store_attempt_uuid(s, b.id, uuid, &err));
        struct record first = metric, wait[] = { metric, eval };
        first.step = 10;
        OK(store_put_record(s, b.id, &first, &err));
        OK(store_attempt_beat(s, b.id, 10, 1, -1, &err));
        struct store_end end = { .status = "done", .result_sha256 = "result", .active_ns = 7, .last_step = 40, .exit_code = 0 };
        OK(spill_write(s, &(struct spill){ uuid, 1, wait, 2, &end }, file, &err));
        store_close(s);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snprintf(b.uuid, sizeof b.uuid, "%s", ask(b.path, "SELECT attempt_uuid FROM attempt"));
    snprintf(b.file, sizeof b.file, "%s/spill/%s.attempt", folder, b.uuid);
    assert_int_equal(access(b.file, R_OK), 0);
    return b;
}

static void reopen(const char *path, const char *notice)
{
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    if (!strstr(store_notice(s), notice) || (!*notice && *store_notice(s))) fail_msg("the notice is '%s', expected '%s'", store_notice(s), notice);
    store_close(s);
}

static void what_waits_is_entered_once(void **state)
{
    (void)state;
    struct begun b = left_behind("once.db");
    reopen(b.path, "1 result that waited while the database could not be written is entered");
    assert_string_equal(ask(b.path, "SELECT status || ' ' || result_sha256 || ' ' || last_step || ' ' || active_ns FROM attempt"), "done result 40 7");
    assert_string_equal(ask(b.path, "SELECT group_concat(step) FROM metric"), "10,20");
    assert_string_equal(ask(b.path, "SELECT n_tok_ok FROM results"), "30");
    assert_int_not_equal(access(b.file, F_OK), 0);
    assert_int_not_equal(access(in_folder("spill"), F_OK), 0);
    reopen(b.path, "");
}

/* Killed between the commit and the removal of the file. */
static void a_file_that_was_entered_already_goes(void **state)
{
    (void)state;
    struct begun b = left_behind("twice.db");
    char command[SPILL_PATH * 2 + 64];
    snprintf(command, sizeof command, "cp %s %s/kept", b.file, folder);
    assert_int_equal(system(command), 0);
    reopen(b.path, "is entered");
    snprintf(command, sizeof command, "mkdir -p %s/spill; cp %s/kept %s", folder, folder, b.file);
    assert_int_equal(system(command), 0);
    reopen(b.path, "");
    assert_string_equal(ask(b.path, "SELECT count(*) || ' ' || (SELECT count(*) FROM metric) FROM attempt"), "1 2");
    assert_int_not_equal(access(b.file, F_OK), 0);
}

static void an_attempt_that_was_taken_for_lost_comes_back(void **state)
{
    (void)state;
    struct begun b = left_behind("lost.db");
    change(b.path, "UPDATE attempt SET status = 'lost', ended_us = started_us");
    reopen(b.path, "is entered");
    assert_string_equal(ask(b.path, "SELECT status FROM attempt"), "done");
}

/* ... but not once somebody else has done its run: then it is evidence. */
static void nobody_is_replaced(void **state)
{
    (void)state;
    struct begun b = left_behind("rival.db");
    struct store *s;
    char aside[128], command[SPILL_PATH * 2 + 64];
    snprintf(aside, sizeof aside, "%s/aside", folder);
    assert_int_equal(rename(b.file, aside), 0);
    OK(store_open(&s, b.path, STORE_WRITE, &err));
    int64_t rival = begin(s);
    struct store_end end = { .status = "done", .result_sha256 = "rival", .last_step = 40, .exit_code = 0 };
    OK(store_attempt_end(s, rival, &end, &err));
    store_close(s);
    snprintf(command, sizeof command, "mkdir -p %s/spill; mv %s %s", folder, aside, b.file);
    assert_int_equal(system(command), 0);
    reopen(b.path, "is entered");
    assert_string_equal(ask(b.path, "SELECT group_concat(status || ' ' || result_sha256) FROM (SELECT * FROM attempt ORDER BY attempt_id)"), "superseded result,done rival");
}

/* What goes before must be there: an older copy of the database would get a result with a hole in it. */
static void an_older_copy_takes_nothing(void **state)
{
    (void)state;
    struct begun b = left_behind("older.db");
    change(b.path, "UPDATE attempt SET told = 0");
    reopen(b.path, "goes on from what this database does not have: is it an older copy?");
    assert_string_equal(ask(b.path, "SELECT status || ' ' || (SELECT count(*) FROM metric) FROM attempt"), "lost 1");
    assert_int_equal(access(b.file, F_OK), 0);
}

static void another_database_takes_nothing(void **state)
{
    (void)state;
    struct begun b = left_behind("mine.db");
    reopen(in_folder("other.db"), "");
    assert_int_equal(access(b.file, F_OK), 0);
}

/* Cut at every place, and with every byte changed in turn: never half entered. */
static void damage_is_seen(void **state)
{
    (void)state;
    struct begun b = left_behind("damaged.db");
    static char bytes[8192];
    FILE *f = fopen(b.file, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_in_range(n, 200, sizeof bytes - 1);
    struct store *s;
    OK(store_open(&s, in_folder("bystander.db"), STORE_WRITE, &err));
    store_close(s);
    OK(store_open(&s, b.path, STORE_READ, &err));
    for (size_t i = 0; i < 2 * n; i++) {
        struct spill_count count;
        int cut = i < n;
        char was = bytes[i % n];
        if (!cut) bytes[i - n] = (char)~was;
        f = fopen(b.file, "wb");
        assert_int_equal(fwrite(bytes, 1, cut ? i : n, f), cut ? i : n);
        fclose(f);
        bytes[i % n] = was;
        OK(spill_enter(s, 0, &count, &err));
        if (count.waiting && strstr(count.why, "waits to be entered") && (cut || i - n >= 128)) fail_msg("%s at %zu was not noticed", cut ? "a cut" : "a change", i % n);
    }
    store_close(s);
    unlink(b.file);
}

static void a_living_writer_is_left_alone(void **state)
{
    (void)state;
    struct store *s;
    char uuid[STORE_UUID], file[SPILL_PATH];
    const char *path = in_folder("living.db");
    OK(store_open(&s, path, STORE_WRITE, &err));
    int64_t id = begin(s);
    OK(store_attempt_uuid(s, id, uuid, &err));
    struct store_end end = { .status = "done", .last_step = 40, .exit_code = 0 };
    OK(spill_write(s, &(struct spill){ uuid, 0, &metric, 1, &end }, file, &err));
    reopen(path, "");
    assert_string_equal(ask(path, "SELECT status FROM attempt"), "running");
    assert_int_equal(access(file, F_OK), 0);
    spill_remove(file);
    store_close(s);
}

/* What can never be entered keeps nobody out. */
static void nonsense_is_left_where_it_is(void **state)
{
    (void)state;
    struct begun b = left_behind("nonsense.db");
    struct store *s;
    char file[SPILL_PATH];
    struct record bad = eval;
    bad.n_exact = 11;
    OK(store_open(&s, b.path, STORE_READ, &err));
    struct store_end end = { .status = "done", .last_step = 40, .exit_code = 0 };
    OK(spill_write(s, &(struct spill){ b.uuid, 1, &bad, 1, &end }, file, &err));
    store_close(s);
    reopen(b.path, "CHECK constraint failed");
    assert_string_equal(ask(b.path, "SELECT status FROM attempt"), "lost");
    unlink(b.file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_waits_is_entered_once), TEST(a_file_that_was_entered_already_goes), TEST(an_attempt_that_was_taken_for_lost_comes_back),
        TEST(nobody_is_replaced), TEST(an_older_copy_takes_nothing), TEST(another_database_takes_nothing), TEST(damage_is_seen),
        TEST(a_living_writer_is_left_alone), TEST(nonsense_is_left_where_it_is) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
