/* test_mem -- zeroed, checked, aligned; and what happens when there is none left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"

static int all_zero(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++) if (((const char *)p)[i]) return 0;
    return 1;
}

static void pieces_are_zeroed(void **state)
{
    struct lab_err err;
    (void)state;
    char *p = mem_alloc(1000, &err), *none = mem_alloc(0, &err);
    assert_true(all_zero(p, 1000));
    assert_non_null(none);
    free(p), free(none);
    char *copy = mem_strdup("text", &err);
    assert_string_equal(copy, "text");
    free(copy);
}

static void arrays_grow_and_keep_what_they_hold(void **state)
{
    int32_t *array = NULL;
    size_t cap = 0;
    struct lab_err err;
    (void)state;
    for (int32_t i = 0; i < 1000; i++) {
        assert_int_equal(mem_grow(&array, &cap, (size_t)i + 1, sizeof *array, &err), 0);
        assert_true(cap > (size_t)i);
        assert_true(all_zero(array + i, (cap - (size_t)i) * sizeof *array));
        array[i] = i + 1;
    }
    for (int32_t i = 0; i < 1000; i++) assert_int_equal(array[i], i + 1);
    int32_t *before = array;
    assert_int_equal(mem_grow(&array, &cap, 1, sizeof *array, &err), 0);
    assert_ptr_equal(array, before);
    free(array);
}

static void what_cannot_be_had_is_said(void **state)
{
    int32_t *array = NULL;
    size_t cap = 0;
    struct lab_err err = { "" };
    (void)state;
    assert_int_equal(mem_grow(&array, &cap, 4, sizeof *array, &err), 0);
    array[0] = 7;
    int32_t *before = array;
    size_t cap_before = cap;
    assert_int_equal(mem_grow(&array, &cap, SIZE_MAX / 2, sizeof *array, &err), -1);       /* bytes overflow size_t */
    assert_non_null(strstr(err.msg, "out of memory"));
    mem_fail_at(1);
    assert_int_equal(mem_grow(&array, &cap, 1000, sizeof *array, &err), -1);
    assert_ptr_equal(array, before);
    assert_int_equal(cap, cap_before);
    assert_int_equal(array[0], 7);
    free(array);
    mem_fail_at(2);
    void *first = mem_alloc(10, &err);
    assert_non_null(first);
    assert_null(mem_alloc(10, &err));
    assert_string_equal(err.msg, "out of memory: could not get 10 bytes");
    void *third = mem_alloc(10, &err);           /* only the one failed */
    assert_non_null(third);
    free(first), free(third);
}

static void plan(struct arena *a, char **x, double **y)
{
    *x = arena_take(a, 3);
    *y = arena_take(a, 100 * sizeof **y);
}

static void an_arena_is_measured_then_placed(void **state)
{
    struct arena a = { 0 };
    struct lab_err err;
    char *x;
    double *y;
    (void)state;
    plan(&a, &x, &y);
    assert_null(x);
    assert_null(y);
    assert_int_equal(a.used, 64 + 832);          /* each piece in whole lines of 64 bytes */
    assert_int_equal(arena_commit(&a, &err), 0);
    plan(&a, &x, &y);
    assert_int_equal(a.used, a.size);
    assert_int_equal((uintptr_t)x % MEM_ALIGN, 0);
    assert_int_equal((uintptr_t)y % MEM_ALIGN, 0);
    assert_true((char *)y >= x + 3);
    assert_true(all_zero(x, 3) && all_zero(y, 100 * sizeof *y));
    x[2] = 1, y[99] = 1;
    arena_free(&a);
    assert_null(a.base);
    assert_int_equal(a.size, 0);
    assert_int_equal(arena_commit(&a, &err), 0); /* nothing measured is no error */
    arena_free(&a);
    arena_take(&a, 3 << 20);
    mem_fail_at(1);
    assert_int_equal(arena_commit(&a, &err), -1);
    assert_string_equal(err.msg, "out of memory: a run of this size needs 3 MB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed), cmocka_unit_test(arrays_grow_and_keep_what_they_hold),
        cmocka_unit_test(what_cannot_be_had_is_said), cmocka_unit_test(an_arena_is_measured_then_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
