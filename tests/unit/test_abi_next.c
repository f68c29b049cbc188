/* test_abi_next -- a host of a later minor, whose structs have grown by a field, and the plugins of today.
 *
 * The headers are those of tests/abi_next.sed, and the host is core/host/plugin.c, compiled here with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../core/host/plugin.c"

static int answer(void) { return 42; }
static void embed(const void *self, const struct lab_call *c, lab_real *x) { (void)self, (void)c, (void)x; }
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx) { (void)self, (void)c, (void)dx; }
static const struct lab_encoder encoder = { .size = sizeof encoder, .name = "next", .embed = embed, .embed_bwd = embed_bwd, .later = answer };
static const struct lab_encoder *const encoders[] = { &encoder, NULL };
static const struct lab_plugin next = { .magic = LAB_MAGIC, .size = sizeof next, .abi_major = LAB_ABI_MAJOR, .abi_minor = LAB_ABI_MINOR,
    .real_size = sizeof(lab_real), .name = "next", .version = "1", .license = "MIT", .encoders = encoders, .later = "then" };

static const struct lab_plugin *open_plugin(const char *file)
{
    const struct lab_plugin *p;
    struct lab_err err;
    if (plugin_open(file, &p, &err) != 0) fail_msg("%s: %s", file, err.msg);
    return p;
}

/* Both the fixture that is kept from 1.0 and what today's header makes. */
static void what_an_older_plugin_lacks_is_zero(void **state)
{
    static const char *const file[] = { TEST_BUILD "/tests/abi/1.0/old_plugin.so", TEST_BUILD "/tests/abi/1.1/reordering.so",
                                        TEST_BUILD "/plugins/encoders/rope.so", TEST_BUILD "/plugins/tasks/shift.so" };
    (void)state;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        const struct lab_plugin *p = open_plugin(file[i]);
        int n = 0;
        assert_null(p->later);
        for (const struct lab_encoder *const *e = p->encoders; e && *e; e++, n++) {
            assert_int_equal((*e)->size, sizeof **e - sizeof (*e)->later);
            assert_true((*e)->name && (*e)->summary && ((*e)->bias || (*e)->qk || (*e)->embed));
            assert_null((*e)->later);
        }
        for (const struct lab_task *const *t = p->tasks; t && *t; t++, n++) {
            assert_true((*t)->name && (*t)->init && (*t)->sample);
            assert_null((*t)->later);
        }
        assert_true(n > 0);
    }
}

static void hooks_of_an_older_plugin_compute_as_before(void **state)
{
    const struct lab_encoder *e = open_plugin(TEST_BUILD "/plugins/encoders/sandwich.so")->encoders[0];
    struct { void *product; double base; int32_t dims; } self = { NULL, 10000, 4 };
    struct lab_dims d = { .size = sizeof d, .n_layer = 1, .n_head = 1, .d_model = 8, .d_head = 8, .train_len = 2, .max_len = 2, .max_pos = 2 };
    int32_t pos[2] = { 0, 1 };
    struct lab_call c = { .size = sizeof c, .B = 1, .H = 1, .Tq = 1, .Tk = 2, .dh = 8, .d = 8, .pos_q = pos, .pos_k = pos };
    lab_real b[2] = { 0, 0 };
    struct lab_err err;
    (void)state;
    assert_int_equal(e->self_size, sizeof self);
    assert_int_equal(e->init(&self, &d, &err), 0);
    e->bias(&self, &c, b);
    assert_true(b[0] > (lab_real)0.2499 && b[0] < (lab_real)0.2501 && b[1] < b[0]);      /* two cosines of 0, over 8 */
    e->fini(&self);
}

static void a_plugin_of_our_own_minor_is_used_as_it_is(void **state)
{
    struct lab_err err;
    (void)state;
    const struct lab_plugin *p = adopt(&next, &err);
    assert_int_equal(plugin_validate(p, &err), 0);
    assert_string_equal(p->later, "then");
    assert_ptr_equal(p->encoders[0], &encoder);
    assert_int_equal(p->encoders[0]->later(), 42);
}

static void other_sizes_are_refused(void **state)
{
    static const struct { int by; const char *words; } wrong[] = {
        { -9, "size is 175 bytes, this lab expects 176 to 184; rebuild" }, { 8, "size is 192 bytes, this lab expects 176 to 184; rebuild" } };
    (void)state;
#if !defined(__LP64__)
    skip();
#endif
    for (int i = 0; i < 2; i++) {
        struct lab_encoder other = encoder;
        const struct lab_encoder *const list[] = { &other, NULL };
        struct lab_plugin p = next;
        struct lab_err err;
        other.size = (uint32_t)((int)sizeof other + wrong[i].by);
        p.encoders = list;
        const struct lab_plugin *adopted = adopt(&p, &err);
        assert_non_null(adopted);
        assert_int_equal(plugin_validate(adopted, &err), -1);
        if (!strstr(err.msg, wrong[i].words)) fail_msg("'%s' has no '%s' in it", err.msg, wrong[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_older_plugin_lacks_is_zero), cmocka_unit_test(hooks_of_an_older_plugin_compute_as_before),
        cmocka_unit_test(a_plugin_of_our_own_minor_is_used_as_it_is), cmocka_unit_test(other_sizes_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
