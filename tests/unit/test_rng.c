/* test_rng -- the named streams: equal names give equal numbers, different names unrelated ones, normals are normal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/rng.h"

/* The FNV authors' own test vectors for 32-bit FNV-1a. */
static void names_hash_to_the_published_numbers(void **state)
{
    static const struct { const char *name; uint32_t hash; } fnv[] = {
        { "", 0x811c9dc5 }, { "a", 0xe40c292c }, { "b", 0xe70c2de5 }, { "foobar", 0xbf9cf968 }, { "chongo was here!\n", 0xd49930d5 } };
    (void)state;
    for (size_t i = 0; i < sizeof fnv / sizeof *fnv; i++)
        if (rng_name(fnv[i].name) != fnv[i].hash)
            fail_msg("%s: %08x, expected %08x", fnv[i].name, rng_name(fnv[i].name), fnv[i].hash);
}

static void a_stream_is_named_by_all_four_numbers(void **state)
{
    static const struct { uint64_t seed; enum rng_stream stream; uint32_t a, b; } name[] = {
        { 0, RNG_WEIGHTS, 0, 0 }, { 1, RNG_WEIGHTS, 0, 0 }, { 1ull << 32, RNG_WEIGHTS, 0, 0 }, { 0, RNG_LENGTH, 0, 0 },
        { 0, RNG_DROPOUT, 0, 0 }, { 0, RNG_POSITIONS, 0, 0 }, { 0, RNG_ENCODER, 0, 0 }, { 0, RNG_CEILING, 0, 0 },
        { 0, RNG_WEIGHTS, 1, 0 }, { 0, RNG_WEIGHTS, 0, 1 } };
    enum { N = sizeof name / sizeof *name };
    uint32_t first[N][2];
    (void)state;
    for (int i = 0; i < N; i++) {
        struct lab_rng r = rng_stream(name[i].seed, name[i].stream, name[i].a, name[i].b);
        struct lab_rng again = rng_stream(name[i].seed, name[i].stream, name[i].a, name[i].b);
        for (int w = 0; w < 2; w++) {
            first[i][w] = lab_rng_u32(&r);
            assert_int_equal(lab_rng_u32(&again), first[i][w]);
        }
        for (int j = 0; j < i; j++) assert_memory_not_equal(first[i], first[j], sizeof first[i]);
    }
    /* Tasks draw from streams named by a split (0, 1, 2): none of ours may be one of them. */
    struct lab_rng task = lab_rng_at(0, 0, 0, 0), ours = rng_stream(0, RNG_WEIGHTS, 0, 0);
    assert_int_not_equal(lab_rng_u32(&task), lab_rng_u32(&ours));
    assert_true(RNG_WEIGHTS > 2);
}

/* Box and Muller's formula, on the uniform numbers that the stream gives. */
static void a_normal_is_box_and_muller_s(void **state)
{
    struct lab_rng r = rng_stream(3, RNG_WEIGHTS, 1, 2), u = r;
    (void)state;
    for (int i = 0; i < 100; i++) {
        double radius = (lab_rng_u32(&u) + 1.0) / 4294967296.0, angle = lab_rng_u32(&u) / 4294967296.0;
        double expected = sqrt(-2 * log(radius)) * cos(2 * acos(-1.0) * angle), found = rng_normal(&r);
        if (!(fabs(found - expected) <= 1e-12)) fail_msg("draw %d: %.17g, expected %.17g", i, found, expected);
    }
}

/* 200000 draws; each bound is five standard errors of its estimate. */
static void normals_have_the_normal_s_moments(void **state)
{
    enum { N = 200000 };
    struct lab_rng r = rng_stream(4, RNG_WEIGHTS, 0, 0);
    double sum = 0, square = 0, cube = 0, fourth = 0, inside = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        double x = rng_normal(&r);
        assert_true(isfinite(x));
        sum += x, square += x * x, cube += x * x * x, fourth += x * x * x * x, inside += fabs(x) < 1;
    }
    const struct { const char *what; double found, expected, error; } moment[] = {
        { "mean", sum / N, 0, sqrt(1.0 / N) }, { "variance", square / N, 1, sqrt(2.0 / N) },
        { "third moment", cube / N, 0, sqrt(15.0 / N) },
        { "fourth moment", fourth / N, 3, sqrt(96.0 / N) }, { "share within 1", inside / N, 0.6826894921, sqrt(0.2167 / N) } };
    for (size_t i = 0; i < sizeof moment / sizeof *moment; i++)
        if (!(fabs(moment[i].found - moment[i].expected) <= 5 * moment[i].error))
            fail_msg("%s: %g, expected %g +- %g", moment[i].what, moment[i].found, moment[i].expected, 5 * moment[i].error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_hash_to_the_published_numbers), cmocka_unit_test(a_stream_is_named_by_all_four_numbers),
        cmocka_unit_test(a_normal_is_box_and_muller_s), cmocka_unit_test(normals_have_the_normal_s_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
