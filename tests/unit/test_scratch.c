/* test_scratch -- a folder is made where the environment says, is nobody else's, and goes away with what is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/scratch.h"

static struct lab_err err;
static char top[] = "/tmp/lab_scratch_XXXXXX";

static const char *in(const char *folder, const char *name)
{
    static char path[2 * WHOLE_PATH];
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    return path;
}

static void put(const char *folder, const char *name)
{
    FILE *f = fopen(in(folder, name), "w");
    assert_non_null(f);
    fclose(f);
}

/* SLURM_TMPDIR, else TMPDIR, else /tmp; an empty one is none. */
static void it_lies_where_the_environment_says(void **state)
{
    static const struct { const char *slurm, *tmp, *begins; } row[] = {
        { top, "/nowhere", top }, { "", top, top }, { NULL, top, top }, { NULL, NULL, "/tmp/lab-some-" }, { NULL, "", "/tmp/lab-some-" } };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char folder[WHOLE_PATH];
        struct stat st;
        row[i].slurm ? setenv("SLURM_TMPDIR", row[i].slurm, 1) : unsetenv("SLURM_TMPDIR");
        row[i].tmp ? setenv("TMPDIR", row[i].tmp, 1) : unsetenv("TMPDIR");
        assert_int_equal(scratch_make(folder, "some", &err), 0);
        if (strncmp(folder, row[i].begins, strlen(row[i].begins))) fail_msg("row %zu: %s, expected one in %s", i, folder, row[i].begins);
        assert_true(stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
        scratch_remove(folder);
        assert_int_not_equal(access(folder, F_OK), 0);
    }
}

static void two_are_two_and_go_with_what_is_in_them(void **state)
{
    char a[WHOLE_PATH], b[WHOLE_PATH];
    (void)state;
    setenv("TMPDIR", top, 1);
    assert_int_equal(scratch_make(a, "some", &err), 0);
    assert_int_equal(scratch_make(b, "some", &err), 0);
    assert_string_not_equal(a, b);
    assert_int_equal(mkdir(in(a, "deep"), 0700), 0);
    put(a, "deep/one"), put(a, "two"), put(b, "three");
    assert_int_equal(symlink(b, in(a, "link")), 0);
    scratch_remove(a);
    assert_int_not_equal(access(a, F_OK), 0);
    assert_int_equal(access(in(b, "three"), F_OK), 0);                 /* what a link points to is not in it */
    scratch_remove(b);
    scratch_remove("");
}

static void a_place_that_is_none_is_named(void **state)
{
    char folder[WHOLE_PATH] = "?", longest[WHOLE_PATH];
    (void)state;
    setenv("TMPDIR", "/nowhere", 1);
    assert_int_equal(scratch_make(folder, "some", &err), -1);
    assert_string_equal(folder, "");
    assert_string_equal(err.msg, "/nowhere: no folder can be made there: No such file or directory; set TMPDIR to one on a disk of this machine");
    memset(longest, 'x', sizeof longest - 1), longest[sizeof longest - 1] = '\0';
    setenv("TMPDIR", longest, 1);
    assert_int_equal(scratch_make(folder, "some", &err), -1);
    assert_non_null(strstr(err.msg, "File name too long"));
}

int main(void)
{
    const struct CMUnitTest test[] = { cmocka_unit_test(it_lies_where_the_environment_says),
                                       cmocka_unit_test(two_are_two_and_go_with_what_is_in_them), cmocka_unit_test(a_place_that_is_none_is_named) };
    assert_non_null(mkdtemp(top));
    unsetenv("SLURM_TMPDIR");
    int rc = cmocka_run_group_tests(test, NULL, NULL);
    rmdir(top);
    return rc;
}
