/* test_str -- growing text, strict numbers, exact spelling, UTF-8, and guesses at a slip of the pen. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "abi/lab_plugin.h"
#include "base/mem.h"
#include "base/str.h"

static void text_grows_and_ends_in_nul(void **state)
{
    struct str s = { 0 };
    (void)state;
    assert_string_equal(str_text(&s), "");
    for (int i = 0; i < 1000; i++) str_printf(&s, "%d,", i);
    assert_int_equal(s.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(s.text), s.len);
    assert_string_equal(s.text + s.len - 8, "998,999,");
    str_clear(&s);
    assert_string_equal(str_text(&s), "");
    str_addn(&s, "a\0b", 3);
    assert_memory_equal(s.text, "a\0b", 4);
    str_add(&s, "");
    assert_int_equal(s.len, 3);
    assert_int_equal(s.failed, 0);
    str_free(&s);
    assert_null(s.text);
}

static void lost_memory_is_remembered(void **state)
{
    struct str s = { 0 };
    (void)state;
    str_add(&s, "kept");
    mem_fail_at(1);
    str_printf(&s, "%100s", "lost");
    mem_fail_at(0);
    str_add(&s, "too late");
    assert_int_equal(s.failed, 1);
    assert_string_equal(str_text(&s), "kept");
    str_free(&s);
}

static void json_strings(void **state)
{
    static const struct { const char *text, *json; } quoted[] = {
        { "", "\"\"" }, { "plain", "\"plain\"" }, { "a\"b\\c", "\"a\\\"b\\\\c\"" }, { "line\nnext\t", "\"line\\nnext\\t\"" },
        { "\001\037\177\r", "\"\\u0001\\u001f\\u007f\\u000d\"" },
        { "\xea\xb0\x80\xf0\x9f\x98\x80", "\"\xea\xb0\x80\xf0\x9f\x98\x80\"" },
        { "a\xff" "b", "\"a\\ufffdb\"" }, { "cut \xe2\x82", "\"cut \\ufffd\\ufffd\"" } };
    (void)state;
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        struct str s = { 0 };
        str_json(&s, quoted[i].text);
        assert_string_equal(str_text(&s), quoted[i].json);
        str_free(&s);
    }
}

static void reals_in_their_shortest_exact_spelling(void **state)
{
    static const struct { double x; const char *text; } real[] = {
        { 0, "0" }, { 1, "1" }, { -2.5, "-2.5" }, { 0.1, "0.1" }, { 1e-3, "0.001" }, { 1e-5, "1e-05" }, { 1e22, "1e+22" },
        { 1.0 / 3, "0.3333333333333333" }, { 0.1 + 0.2, "0.30000000000000004" }, { 9007199254740993.0, "9007199254740992" },
        { DBL_MAX, "1.7976931348623157e+308" }, { DBL_MIN, "2.2250738585072014e-308" }, { 4.9406564584124654e-324, "5e-324" } };
    struct lab_rng rng = lab_rng_at(11, 0, 0, 0);
    (void)state;
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        struct str s = { 0 };
        str_real(&s, real[i].x);
        assert_string_equal(str_text(&s), real[i].text);
        str_free(&s);
    }
    for (int i = 0; i < 20000; i++) {            /* any finite bits come back */
        uint64_t bits = (uint64_t)lab_rng_u32(&rng) << 32 | lab_rng_u32(&rng);
        double x, back;
        struct str s = { 0 };
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        str_real(&s, x);
        assert_int_equal(str_to_real(str_text(&s), &back), 1);
        assert_memory_equal(&x, &back, sizeof x);
        str_free(&s);
    }
}

static void whole_numbers(void **state)
{
    static const struct { const char *text; int ok; int64_t x; } number[] = {
        { "0", 1, 0 }, { "-0", 1, 0 }, { "+7", 1, 7 }, { "007", 1, 7 }, { "-5", 1, -5 }, { "100", 1, 100 },
        { "101", 0, 0 }, { "-6", 0, 0 }, { "", 0, 0 }, { "+", 0, 0 }, { "-", 0, 0 }, { "+-1", 0, 0 }, { " 1", 0, 0 }, { "1 ", 0, 0 },
        { "1.0", 0, 0 }, { "1e1", 0, 0 }, { "0x1", 0, 0 }, { "1\n", 0, 0 }, { "18446744073709551617", 0, 0 },
        { "99999999999999999999999", 0, 0 } };
    int64_t x;
    (void)state;
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        x = -77;
        if (str_to_int(number[i].text, -5, 100, &x) != number[i].ok) fail_msg("'%s': expected %d", number[i].text, number[i].ok);
        assert_int_equal(x, number[i].ok ? number[i].x : -77);
    }
    assert_int_equal(str_to_int("9223372036854775807", INT64_MIN, INT64_MAX, &x), 1);
    assert_true(x == INT64_MAX);
    assert_int_equal(str_to_int("-9223372036854775808", INT64_MIN, INT64_MAX, &x), 1);
    assert_true(x == INT64_MIN);
    assert_int_equal(str_to_int("9223372036854775808", INT64_MIN, INT64_MAX, &x), 0);
}

static void real_numbers(void **state)
{
    static const char *const good[] = { "1", "-1.5", "+.5", "5.", "1e-3", "1E+3", "0", "-0", "5e-324", "0.000", "0e9" };
    static const char *const bad[] = { "", " 1", "1 ", "1x", "1e-3x", "nan", "NaN", "inf", "-inf", "infinity", "0x10", "0x1p3", "1e", "e1",
                                       ".", "+", "-", "1,5", "1..2", "--1", "1e999", "-1e999", "1e-999", "1e1.5", "1 2" };
    double x;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!str_to_real(good[i], &x)) fail_msg("'%s' was refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x = -77;
        if (str_to_real(bad[i], &x)) fail_msg("'%s' was taken as %g", bad[i], x);
        assert_true(x == -77);
    }
}

/* The cases of RFC 3629 and of the Unicode standard's table 3-7. */
static void utf8_is_judged_strictly(void **state)
{
    static const struct { const char *bytes; size_t n, valid; } text[] = {
        { "", 0, 0 }, { "ascii", 5, 5 }, { "\xc3\xa9", 2, 2 }, { "\xe2\x82\xac", 3, 3 }, { "\xf4\x8f\xbf\xbf", 4, 4 },
        { "a\0b", 3, 3 }, { "\xc2\x80\xdf\xbf", 4, 4 }, { "\xe0\xa0\x80\xef\xbf\xbf", 6, 6 }, { "\xf0\x90\x80\x80", 4, 4 },
        { "a\x80", 2, 1 }, { "a\xc0\xaf", 3, 1 }, { "a\xc1\xbf", 3, 1 }, { "a\xe0\x9f\xbf", 4, 1 }, { "a\xed\xa0\x80", 4, 1 },
        { "a\xf0\x8f\xbf\xbf", 5, 1 }, { "a\xf4\x90\x80\x80", 5, 1 }, { "a\xf5\x80\x80\x80", 5, 1 }, { "a\xff", 2, 1 },
        { "a\xe2\x82", 3, 1 }, { "a\xc3", 2, 1 }, { "a\xe2\x28\xa1", 4, 1 }, { "a\xf0\x90\x80(", 5, 1 }, { "\xed\x9f\xbf", 3, 3 } };
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        size_t valid = str_utf8(text[i].bytes, text[i].n);
        if (valid != text[i].valid) fail_msg("case %zu: %zu bytes are valid, expected %zu", i, valid, text[i].valid);
    }
}

static void names(void **state)
{
    char longest[65];
    (void)state;
    memset(longest, 'n', 64), longest[64] = '\0';
    assert_false(str_is_name(longest));
    assert_true(str_is_name(longest + 1));
    assert_true(str_is_name("t5") && str_is_name("max_len") && str_is_name("2d"));
    assert_false(str_is_name("") || str_is_name("RoPE") || str_is_name("a-b") || str_is_name("a b") || str_is_name("a.b") ||
                 str_is_name("caf\xc3\xa9"));
}

static void the_nearest_name(void **state)
{
    static const char *const known[] = { "d_model", "heads", "layers", "d_ff", "rope", "t5", NULL };
    static const struct { const char *typed, *meant; } slip[] = {
        { "d_modl", "d_model" }, { "dmodel", "d_model" }, { "d_modle", "d_model" }, { "haeds", "heads" }, { "layer", "layers" },
        { "rpoe", "rope" }, { "d_fff", "d_ff" }, { "t6", "t5" }, { "temperature", NULL }, { "xyz", NULL }, { "rope", "rope" } };
    char endless[301];
    (void)state;
    for (size_t i = 0; i < sizeof slip / sizeof *slip; i++) {
        const char *near = str_nearest(slip[i].typed, known);
        if (!slip[i].meant && near) fail_msg("%s: guessed %s, expected nothing", slip[i].typed, near);
        if (slip[i].meant && (!near || strcmp(near, slip[i].meant)))
            fail_msg("%s: guessed %s, expected %s", slip[i].typed, near ? near : "-", slip[i].meant);
    }
    memset(endless, 'd', 300), endless[300] = '\0';
    assert_null(str_nearest(endless, known));
    assert_null(str_nearest("rope", (const char *[]){ NULL }));
    assert_string_equal(str_nearest("best", (const char *[]){ "last", "best_valid", "best_longer", NULL }), "best_valid");
}

static void durations(void **state)
{
    (void)state;
    static const struct { double seconds; const char *text; } table[] = {
        { -5, "0 s" }, { 0.4, "0 s" }, { 59.4, "59 s" }, { 59.6, "1 min 0 s" }, { 200, "3 min 20 s" }, { 3599, "59 min 59 s" }, { 3600, "1 h 0 min" },
        { 18720, "5 h 12 min" }, { 86399, "23 h 59 min" }, { 86400, "1 d 0 h" }, { 273600, "3 d 4 h" } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct str s = { 0 };
        str_duration(&s, table[i].seconds);
        assert_string_equal(str_text(&s), table[i].text);
        str_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_and_ends_in_nul), cmocka_unit_test(lost_memory_is_remembered), cmocka_unit_test(json_strings),
        cmocka_unit_test(reals_in_their_shortest_exact_spelling), cmocka_unit_test(whole_numbers), cmocka_unit_test(real_numbers),
        cmocka_unit_test(utf8_is_judged_strictly), cmocka_unit_test(names), cmocka_unit_test(the_nearest_name), cmocka_unit_test(durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
