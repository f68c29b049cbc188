/* Tests of store/files.c: whose a file is, seen from every database of its folder. */
#include "unit/store_fixture.h"
#include "store/files.h"

static struct store *database(const char *name)
{
    struct store *s;
    OK(store_open(&s, in_folder(name), STORE_WRITE, &err));
    return s;
}

static void number_keys(const char *name) { change(in_folder(name), "UPDATE run SET run_key = printf('%016x', seed) || substr(run_key, 17)"); }

static void touch(const char *name)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs("12345", f);
    fclose(f);
}

/* "weights/...: owner" of the file whose name ends so; -1: not listed. */
static int owner(const struct files *f, const char *end)
{
    for (size_t i = 0; i < f->n; i++) {
        size_t n = strlen(f->item[i].path), m = strlen(end);
        if (n >= m && !strcmp(f->item[i].path + n - m, end)) return (int)f->item[i].owner;
    }
    return -1;
}

static void expect(const struct files *f, const char *end, int expected)
{
    if (owner(f, end) != expected) fail_msg("%s: owner %d, expected %d", end, owner(f, end), expected);
}

static void files_belong_to_the_runs_of_all_databases(void **state)
{
    (void)state;
    struct files f;
    static const char *const folders[] = { "weights", "logs", "checkpoints" };
    for (int i = 0; i < 3; i++) mkdir(in_folder(folders[i]), 0777);
    struct store *a = database("a.db"), *b = database("b.db");
    end_attempt(a, begin_attempt(a, add_run(a, 1, "rope", "reverse", 1, "")), "done", NULL);
    end_attempt(a, begin_attempt(a, add_run(a, 2, "rope", "reverse", 2, "")), "failed", "?");
    end_attempt(a, begin_attempt(a, add_run(a, 3, "rope", "reverse", 3, "")), "done", NULL);
    begin_attempt(a, add_run(a, 4, "rope", "reverse", 4, ""));
    add_run(b, 3, "rope", "reverse", 3, "");                 /* done there, not begun here */
    add_run(b, 5, "rope", "reverse", 5, "");
    number_keys("a.db");
    number_keys("b.db");
    static const char *const names[] = {
        "weights/0000000000000001.safetensors", "weights/.tmp-0000000000000001.safetensors.a1B2c3", "weights/0000000000000003.safetensors",
        "checkpoints/0000000000000002.a", "checkpoints/0000000000000004.b", "checkpoints/.tmp-0000000000000004.89abcdef.b.a1B2c3", "logs/0000000000000005.log",
        "logs/0000000000000009.log", "logs/000000000000000A.log", "logs/0000000000000001.txt", "weights/00000000000000012.safetensors",
        "weights/0000000000000001.log" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) touch(names[i]);
    mkdir(in_folder("logs/0000000000000008.log"), 0777);
    OK(files_read(&f, a, &err));
    expect(&f, "weights/0000000000000001.safetensors", FILES_OF_DONE);
    expect(&f, "weights/.tmp-0000000000000001.safetensors.a1B2c3", FILES_OF_NOBODY);
    expect(&f, "weights/0000000000000003.safetensors", FILES_OF_OPEN);
    expect(&f, "checkpoints/0000000000000002.a", FILES_OF_OPEN);
    expect(&f, "checkpoints/0000000000000004.b", FILES_OF_RUNNING);
    expect(&f, "checkpoints/.tmp-0000000000000004.89abcdef.b.a1B2c3", FILES_OF_RUNNING);
    expect(&f, "logs/0000000000000005.log", FILES_OF_OPEN);  /* known to b.db alone */
    expect(&f, "logs/0000000000000009.log", FILES_OF_NOBODY);
    for (int i = 8; i < 12; i++) expect(&f, names[i], -1);   /* not names that lab gives */
    expect(&f, "logs/0000000000000008.log", -1);             /* a folder */
    assert_int_equal(f.n, 8);
    assert_true(f.item[0].bytes == 5);
    assert_string_equal(f.unread, "");
    files_release(&f);
    store_close(b);

    change(in_folder("b.db"), "PRAGMA user_version = 9");
    OK(files_read(&f, a, &err));
    expect(&f, "logs/0000000000000009.log", FILES_OF_OPEN);  /* for all we know */
    assert_non_null(strstr(f.unread, "b.db: was written by a newer lab"));
    files_release(&f);
    rename(in_folder("b.db"), in_folder("b.db.schema9.backup"));
    OK(files_read(&f, a, &err));
    expect(&f, "logs/0000000000000009.log", FILES_OF_NOBODY);            /* a backup knows nothing more than what it is a backup of */
    files_release(&f);
    store_close(a);
}

static void no_folder_means_no_files(void **state)
{
    (void)state;
    struct files f;
    char home[4096];
    assert_non_null(getcwd(home, sizeof home));
    assert_int_equal(chdir(folder), 0);
    struct store *s;
    OK(store_open(&s, "c.db", STORE_WRITE, &err));
    OK(files_read(&f, s, &err));
    assert_int_equal(f.n, 0);
    files_release(&f);
    store_close(s);
    assert_int_equal(chdir(home), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = { TEST(files_belong_to_the_runs_of_all_databases), TEST(no_folder_means_no_files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
