/* A database changed in a copy: nothing of it is touched before it is put back whole, and two never do so at once. */
#include "store_fixture.h"
#include <sys/wait.h>
#include "store/aside.h"

static void enter(const char *db, const char *name)
{
    struct aside a;
    struct store *s;
    int64_t id;
    char sha256[HASH_HEX];
    hash_bytes(name, strlen(name), sha256);
    OK(aside_open(&a, db, &err));
    OK(store_open(&s, a.copy, STORE_WRITE, &err));
    OK(store_begin(s, &err));
    OK(store_put_sweep(s, sha256, name, "why?", "x.ini", "text", &id, &err));
    OK(store_commit(s, &err));
    OK(aside_put_back(&a, s, &err));
    store_close(s);
    aside_close(&a);
}

static void a_copy_is_put_back(void **state)
{
    const char *db = in_folder("lab.db");
    (void)state;
    enter(db, "first");
    enter(db, "second");
    assert_string_equal(ask(db, "SELECT group_concat(name, ' ') FROM (SELECT name FROM sweep ORDER BY name)"), "first second");
    assert_int_not_equal(access(in_folder("lab.db-wal"), F_OK), 0);
    assert_string_equal(ask(db, "PRAGMA integrity_check"), "ok");
}

static void without_putting_back_nothing_changes(void **state)
{
    const char *db = in_folder("lab.db");
    char before[HASH_HEX], after[HASH_HEX], at[WHOLE_PATH];
    struct aside a;
    struct store *s;
    (void)state;
    enter(db, "first");
    OK(hash_file(db, before, &err));
    OK(aside_open(&a, db, &err));
    strcpy(at, a.folder);
    OK(store_open(&s, a.copy, STORE_WRITE, &err));
    change(a.copy, "DELETE FROM sweep");
    store_close(s);
    aside_close(&a);
    OK(hash_file(db, after, &err));
    assert_string_equal(before, after);
    assert_int_not_equal(access(at, F_OK), 0);
}

static void what_waits_in_a_wal_is_not_left_behind(void **state)
{
    struct aside a;
    FILE *f;
    (void)state;
    enter(in_folder("lab.db"), "first");
    f = fopen(in_folder("lab.db-wal"), "w");
    fputs("x", f);
    fclose(f);
    FAILS(aside_open(&a, in_folder("lab.db"), &err), "is in use");
}

/* Each of several processes adds a sweep of its own: with none waiting for the others most would be lost. */
static void each_waits_for_the_others(void **state)
{
    enum { N = 6 };
    const char *db = in_folder("lab.db");
    (void)state;
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "sweep %d", i);
        if (fork() == 0) { enter(db, name); _exit(0); }
    }
    for (int i = 0, status; i < N; i++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_string_equal(ask(db, "SELECT count(*) FROM sweep"), "6");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = { TEST(a_copy_is_put_back), TEST(without_putting_back_nothing_changes),
                                        TEST(what_waits_in_a_wal_is_not_left_behind), TEST(each_waits_for_the_others) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
