/* test_option -- values are read strictly, printed so that they read back the same, and bad tables are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "host/option.h"

struct all {
    int32_t heads;
    double lr;
    int32_t tied, norm;
    const char *label;
    struct option_range length;
    struct option_list lengths;
};
static const struct lab_option table[] = {
    LAB_INT(struct all, heads, "4", 1, 64, "heads"),
    LAB_REAL(struct all, lr, "1e-3", 0, 1, "learning rate"),
    LAB_BOOL(struct all, tied, "no", "tie the head"),
    LAB_ENUM(struct all, norm, "post", "post|pre|rms_norm", "where"),
    LAB_STR(struct all, label, "run", "text"),
    OPTION_RANGE_ROW(struct all, length, "8", 1, 4096, "training length"),
    OPTION_LIST_ROW(struct all, lengths, "8, 12, 16", 1, 4096, "evaluation lengths"),
    LAB_OPTIONS_END,
};

/* text -> what option_print says, and as JSON. */
static const struct { const char *name, *text, *print, *json; } good[] = {
    { "heads", "4", "4", "4" },           { "heads", "1", "1", "1" },           { "heads", "64", "64", "64" },
    { "heads", "+8", "8", "8" },          { "heads", "008", "8", "8" },
    { "lr", "1e-3", "0.001", "0.001" },   { "lr", ".5", "0.5", "0.5" },         { "lr", "0.1", "0.1", "0.1" },
    { "lr", "-0", "0", "0" },             { "lr", "1E-7", "1e-07", "1e-07" },   { "lr", "1", "1", "1" },
    { "lr", "0.30000000000000004", "0.30000000000000004", "0.30000000000000004" },
    { "tied", "yes", "yes", "true" },     { "tied", "true", "yes", "true" },
    { "tied", "no", "no", "false" },      { "tied", "false", "no", "false" },
    { "norm", "pre", "pre", "\"pre\"" },  { "norm", "rms_norm", "rms_norm", "\"rms_norm\"" },
    { "label", "a \"b\"", "a \"b\"", "\"a \\\"b\\\"\"" },
    { "length", "8", "8", "[8,8]" },      { "length", "1..8", "1..8", "[1,8]" },
    { "length", "8..8", "8", "[8,8]" },
    { "lengths", "8", "8", "[8]" },       { "lengths", "32,8 ,  12", "32,8,12", "[32,8,12]" },
    { "lengths", "8, 12, 16..18", "8,12,16..18", "[8,12,16,17,18]" },
    { "lengths", "1,2,3,7,8", "1..3,7,8", "[1,2,3,7,8]" },
    { "lengths", "1..512", "1..512", NULL },
};

/* text -> words that the message must hold. */
static const struct { const char *name, *text, *words; } bad[] = {
    { "heads", "", "heads = '': expected a whole number, 1..64" },
    { "heads", "0", "heads = '0': expected a whole number, 1..64" },
    { "heads", "65", "'65'" },            { "heads", "-1", "'-1'" },            { "heads", "4x", "'4x'" },
    { "heads", "4.0", "'4.0'" },          { "heads", "1e1", "'1e1'" },          { "heads", " 4", "' 4'" },
    { "heads", "4 ", "'4 '" },            { "heads", "0x4", "'0x4'" },          { "heads", "--4", "'--4'" },
    { "heads", "99999999999999999999", "1..64" },
    { "heads", "4294967300", "1..64" },                                         /* 4 modulo 2^32 */
    { "lr", "1e-3x", "lr = '1e-3x': expected a number, 0 to 1" },
    { "lr", "nan", "'nan'" },             { "lr", "inf", "'inf'" },             { "lr", "0x1p-3", "'0x1p-3'" },
    { "lr", "", "''" },                   { "lr", " 1", "' 1'" },               { "lr", "1 ", "'1 '" },
    { "lr", "1.5", "0 to 1" },            { "lr", "-1e-9", "0 to 1" },          { "lr", "1e999", "'1e999'" },
    { "lr", "1e-999", "'1e-999'" },       { "lr", "1e", "'1e'" },               { "lr", ".", "'.'" },
    { "lr", "1,5", "'1,5'" },
    { "tied", "maybe", "tied = 'maybe': expected yes | no" },
    { "tied", "Yes", "'Yes'" },           { "tied", "1", "'1'" },               { "tied", "", "''" },
    { "norm", "pots", "norm = 'pots': expected post | pre | rms_norm; did you mean 'post'?" },
    { "norm", "", "''" },                 { "norm", "post|pre", "'post|pre'" }, { "norm", "pos", "did you mean 'post'?" },
    { "norm", "0", "'0'" },
    { "length", "", "length = '': expected a number or a rising range, 1..4096" },
    { "length", "0", "'0'" },             { "length", "1..4097", "'1..4097'" }, { "length", "8..1", "'8..1'" },
    { "length", "1..", "'1..'" },         { "length", "..8", "'..8'" },         { "length", "1...8", "'1...8'" },
    { "length", "1 .. 8", "'1 .. 8'" },   { "length", "1..2..3", "'1..2..3'" },
    { "length", "00000000000000000001", "rising range" },
    { "lengths", "", "lengths = '': expected numbers and rising ranges, 1..4096" },
    { "lengths", "8,,12", "an item of the list is empty" },
    { "lengths", "8, ", "an item of the list is empty" },
    { "lengths", ",8", "an item of the list is empty" },
    { "lengths", "8, 12, 8", "8 is listed twice" },
    { "lengths", "8..12, 10", "10 is listed twice" },
    { "lengths", "8 12", "'8 12'" },      { "lengths", "8, x", "'x'" },         { "lengths", "0", "'0'" },
    { "lengths", "1..513", "limit is 512" },
    { "lengths", "1..000000000000000000000000000000000005x", "expected" },      /* the junk begins past any buffer */
};

static const struct lab_option *row_of(const char *name)
{
    const struct lab_option *row = option_find(table, name);
    assert_non_null(row);
    return row;
}

static void check_printed(const struct lab_option *row, const struct all *self, const char *print, const char *json)
{
    struct str out = { 0 };
    option_print(&out, row, self);
    assert_string_equal(str_text(&out), print);
    str_clear(&out);
    option_print_json(&out, row, self);
    if (json) assert_string_equal(str_text(&out), json);
    str_free(&out);
}

static void good_values_print_canonically_and_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct lab_option *row = row_of(good[i].name);
        struct all once = { 0 }, again = { 0 };
        struct lab_err err = { "" };
        if (option_set(row, &once, good[i].text, &err) != 0) fail_msg("%s: %s", good[i].text, err.msg);
        assert_string_equal(err.msg, "");
        check_printed(row, &once, good[i].print, good[i].json);
        assert_int_equal(option_set(row, &again, good[i].print, &err), 0);
        if (row->type != LAB_T_STR) assert_memory_equal(&once, &again, sizeof once);
    }
}

static void bad_values_are_refused_and_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct all self, before;
        struct lab_err err = { "" };
        memset(&self, 0x5a, sizeof self);
        before = self;
        if (option_set(row_of(bad[i].name), &self, bad[i].text, &err) != -1)
            fail_msg("%s = %s was taken", bad[i].name, bad[i].text);
        if (!strstr(err.msg, bad[i].words))
            fail_msg("%s = %s: wanted \"%s\", got \"%s\"", bad[i].name, bad[i].text, bad[i].words, err.msg);
        assert_memory_equal(&self, &before, sizeof self);
    }
}

static void every_real_reads_back_the_same(void **state)
{
    static const struct lab_option row = { "x", LAB_T_REAL, 0, NULL, -HUGE_VAL, HUGE_VAL, NULL, "any" };
    struct lab_rng rng = lab_rng_at(7, 0, 0, 0);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)lab_rng_u32(&rng) << 32 | lab_rng_u32(&rng);
        double x, back;
        struct str out = { 0 };
        struct lab_err err;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        option_print(&out, &row, &x);
        assert_int_equal(option_set(&row, &back, str_text(&out), &err), 0);
        assert_memory_equal(&x, &back, sizeof x);
        str_free(&out);
    }
}

/* Random text: whatever is taken prints to something that reads back the same; the rest changes nothing. */
static void whatever_is_taken_reads_back_the_same(void **state)
{
    static const char letters[] = "0011223456789....,,  -+eExpostre";
    struct lab_rng rng = lab_rng_at(8, 0, 0, 0);
    int taken = 0;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        const struct lab_option *row = &table[lab_rng_below(&rng, 7)];
        struct all once = { 0 }, again = { 0 };
        struct str out = { 0 };
        struct lab_err err;
        char text[12] = "";
        if (row->type == LAB_T_STR) continue;
        for (uint32_t c = 0, n = 1 + lab_rng_below(&rng, 8); c < n; c++) text[c] = letters[lab_rng_below(&rng, sizeof letters - 1)];
        if (option_set(row, &once, text, &err) == 0) {
            option_print(&out, row, &once);
            if (option_set(row, &again, str_text(&out), &err) != 0) fail_msg("'%s' prints as '%s', refused", text, str_text(&out));
            taken++;
        }
        assert_memory_equal(&once, &again, sizeof once);
        str_free(&out);
    }
    assert_true(taken > 1000);
}

static void long_and_wild_values_are_shown_short(void **state)
{
    char text[301];
    struct lab_err err;
    int32_t value[2];
    (void)state;
    memset(text, '7', 300), text[300] = '\0';
    assert_int_equal(option_set(row_of("heads"), value, text, &err), -1);
    assert_true(strlen(err.msg) < 140);
    assert_non_null(strstr(err.msg, "777...': expected a whole number, 1..64"));
    for (int i = 0; i < 150; i++) memcpy(text + 2 * i, "\xc3\xa9", 2);
    memmove(text + 1, text, 299), text[0] = '\033';
    assert_int_equal(option_set(row_of("heads"), value, text, &err), -1);
    assert_null(strchr(err.msg, '\033'));
    assert_int_equal(str_utf8(err.msg, strlen(err.msg)), strlen(err.msg));
}

static void defaults_fill_the_struct(void **state)
{
    static const struct lab_option required[] = {
        LAB_INT(struct all, heads, "4", 1, 64, "heads"),
        { "lr", LAB_T_REAL, offsetof(struct all, lr), NULL, 0, 1, NULL, "must be given" },
        { "tied", LAB_T_BOOL, offsetof(struct all, tied), NULL, 0, 1, NULL, "must be given too" }, LAB_OPTIONS_END };
    struct all self = { 0 };
    struct lab_err err;
    const char *missing = "stale";
    (void)state;
    assert_int_equal(option_defaults(table, &self, &missing, &err), 0);
    assert_null(missing);
    assert_int_equal(self.heads, 4);
    assert_true(self.lr == 1e-3);
    assert_int_equal(self.norm, 0);
    assert_string_equal(self.label, "run");
    assert_int_equal(self.lengths.n, 3);
    assert_int_equal(option_defaults(required, &self, &missing, &err), 0);
    assert_string_equal(missing, "lr");
    assert_int_equal(option_defaults(required, &self, NULL, &err), 0);
    assert_int_equal(option_defaults(NULL, NULL, &missing, &err), 0);
    assert_null(missing);
}

static void names_are_found_or_guessed(void **state)
{
    (void)state;
    assert_ptr_equal(option_find(table, "lr"), &table[1]);
    assert_null(option_find(table, "l"));
    assert_null(option_find(NULL, "lr"));
    assert_string_equal(option_nearest(table, "lenghts"), "lengths");
    assert_string_equal(option_nearest(table, "haeds"), "heads");
    assert_null(option_nearest(table, "temperature"));
    assert_null(option_nearest(NULL, "lr"));
}

static void types_have_names(void **state)
{
    static const char *const expected[] = { "int", "real", "bool", "enum", "text", "range", "list" };
    (void)state;
    for (int i = 0; i < 7; i++) assert_string_equal(option_type(&table[i]), expected[i]);
}

static void domains_read_well(void **state)
{
    static const struct { struct lab_option row; const char *text; } domain[] = {
        { { "x", LAB_T_INT, 0, NULL, 1, 64, NULL, "" }, "1..64" },
        { { "x", LAB_T_INT, 0, NULL, 1, INT32_MAX, NULL, "" }, "at least 1" },
        { { "x", LAB_T_INT, 0, NULL, INT32_MIN, 5, NULL, "" }, "at most 5" },
        { { "x", LAB_T_INT, 0, NULL, INT32_MIN, INT32_MAX, NULL, "" }, "any" },
        { { "x", LAB_T_REAL, 0, NULL, 0, 1, NULL, "" }, "0 to 1" },
        { { "x", LAB_T_REAL, 0, NULL, 1e-12, HUGE_VAL, NULL, "" }, "at least 1e-12" },
        { { "x", LAB_T_REAL, 0, NULL, -HUGE_VAL, 2.5, NULL, "" }, "at most 2.5" },
        { { "x", LAB_T_REAL, 0, NULL, -HUGE_VAL, HUGE_VAL, NULL, "" }, "any" },
        { { "x", LAB_T_BOOL, 0, NULL, 0, 1, NULL, "" }, "yes | no" },
        { { "x", LAB_T_ENUM, 0, NULL, 0, 0, "a|b|c", "" }, "a | b | c" },
        { { "x", LAB_T_STR, 0, NULL, 0, 0, NULL, "" }, "text" } };
    (void)state;
    for (size_t i = 0; i < sizeof domain / sizeof *domain; i++) {
        struct str out = { 0 };
        option_print_domain(&out, &domain[i].row);
        assert_string_equal(str_text(&out), domain[i].text);
        str_free(&out);
    }
}

/* One defect a row; what a plugin of self_size 32 would declare. */
static const struct { struct lab_option row; const char *words; } broken[] = {
    { { "", LAB_T_INT, 0, "1", 0, 2, NULL, "h" }, "a name is 1 to 63 of a-z, 0-9 and _" },
    { { "Base", LAB_T_INT, 0, "1", 0, 2, NULL, "h" }, "option 'Base': a name is" },
    { { "max len", LAB_T_INT, 0, "1", 0, 2, NULL, "h" }, "option 'max len': a name is" },
    { { "x", 5, 0, "1", 0, 2, NULL, "h" }, "type 5 is unknown; 0 (LAB_T_INT) to 4 (LAB_T_STR) are" },
    { { "x", -1, 0, "1", 0, 2, NULL, "h" }, "type -1 is unknown" },
    { { "x", OPTION_RANGE, 0, "1", 0, 2, NULL, "h" }, "type 100 is unknown" },
    { { "x", LAB_T_INT, 29, "1", 0, 2, NULL, "h" }, "offset 29 and size 4 reach beyond self_size 32" },
    { { "x", LAB_T_INT, 32, "1", 0, 2, NULL, "h" }, "offset 32 and size 4 reach beyond self_size 32" },
    { { "x", LAB_T_INT, UINT32_MAX, "1", 0, 2, NULL, "h" }, "reach beyond self_size 32" },
    { { "x", LAB_T_INT, 2, "1", 0, 2, NULL, "h" }, "offset 2 is no multiple of 4" },
    { { "x", LAB_T_REAL, 4, "1", 0, 2, NULL, "h" }, "offset 4 is no multiple of 8" },
    { { "x", LAB_T_INT, 0, "1", 2, 0, NULL, "h" }, "no value lies between its bounds 2 and 0" },
    { { "x", LAB_T_REAL, 0, "1", NAN, 2, NULL, "h" }, "no value lies between its bounds nan and 2" },
    { { "x", LAB_T_INT, 0, "1", 0, 1e10, NULL, "h" }, "must be whole numbers of 32 bits" },
    { { "x", LAB_T_INT, 0, "1", 0.5, 2, NULL, "h" }, "must be whole numbers of 32 bits" },
    { { "x", LAB_T_INT, 0, "3", 0, 2, NULL, "h" }, "its default is refused: x = '3': expected a whole number, 0..2" },
    { { "x", LAB_T_REAL, 0, "fast", 0, 2, NULL, "h" }, "its default is refused: x = 'fast'" },
    { { "x", LAB_T_BOOL, 0, "2", 0, 1, NULL, "h" }, "its default is refused: x = '2': expected yes | no" },
    { { "x", LAB_T_ENUM, 0, "d", 0, 0, "a|b|c", "h" }, "its default is refused: x = 'd': expected a | b | c" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, NULL, "h" }, "an ENUM without choices" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, "", "h" }, "an ENUM without choices" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, "a||b", "h" }, "choice 2 of \"a||b\" is empty" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, "a|b|", "h" }, "choice 3 of \"a|b|\" is empty" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, "a|b c", "h" }, "holds a blank" },
    { { "x", LAB_T_ENUM, 0, "a", 0, 0, "a|b|a", "h" }, "names choice 3 twice" },
    { { "x", LAB_T_INT, 0, "1", 0, 2, NULL, NULL }, "option x: no help" },
    { { "x", LAB_T_INT, 0, "1", 0, 2, NULL, "" }, "option x: no help" },
    { { "y", LAB_T_INT, 0, "1", 0, 2, NULL, "h" }, "option y: stands twice" },
    { { "x", LAB_T_INT, 16, "1", 0, 2, NULL, "h" }, "offset 16 overlaps option y at offset 16" },
    { { "x", LAB_T_INT, 20, "1", 0, 2, NULL, "h" }, "offset 20 overlaps option y at offset 16" },
};

static void broken_tables_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const struct lab_option rows[] = { { "y", LAB_T_REAL, 16, NULL, 0, 1, NULL, "sound" }, broken[i].row, LAB_OPTIONS_END };
        struct lab_err err = { "" };
        if (option_check_table(rows, 32, &err) != -1) fail_msg("row %zu was taken; wanted \"%s\"", i, broken[i].words);
        if (!strstr(err.msg, broken[i].words)) fail_msg("wanted \"%s\", got \"%s\"", broken[i].words, err.msg);
    }
}

static void sound_and_endless_tables(void **state)
{
    static struct lab_option endless[300];
    static char names[300][8];
    struct lab_err err = { "" };
    (void)state;
    assert_int_equal(option_check_table(NULL, 0, &err), 0);
    assert_int_equal(option_check_table((const struct lab_option[]){ LAB_OPTIONS_END }, 0, &err), 0);
    struct lab_option plugin_rows[6];
    memcpy(plugin_rows, table, 5 * sizeof *table);
    plugin_rows[5] = (struct lab_option)LAB_OPTIONS_END;
    if (option_check_table(plugin_rows, sizeof(struct all), &err) != 0) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(names[i], sizeof names[i], "o%u", i);
        endless[i] = (struct lab_option){ names[i], LAB_T_INT, 4 * i, "1", 0, 2, NULL, "h" };
    }
    assert_int_equal(option_check_table(endless, 4 * 300, &err), -1);
    assert_non_null(strstr(err.msg, "has no end (limit is 256 rows)"));
}

static void printing_survives_lost_memory(void **state)
{
    struct all self = { 0 };
    struct lab_err err;
    (void)state;
    assert_int_equal(option_defaults(table, &self, NULL, &err), 0);
    for (const struct lab_option *row = table; row->name; row++) {
        struct str out = { 0 };
        mem_fail_at(1);
        option_print_json(&out, row, &self);
        mem_fail_at(0);
        assert_true(out.failed);
        str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values_print_canonically_and_read_back),
        cmocka_unit_test(bad_values_are_refused_and_change_nothing),
        cmocka_unit_test(every_real_reads_back_the_same),
        cmocka_unit_test(whatever_is_taken_reads_back_the_same),
        cmocka_unit_test(long_and_wild_values_are_shown_short),
        cmocka_unit_test(defaults_fill_the_struct),
        cmocka_unit_test(names_are_found_or_guessed),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(domains_read_well),
        cmocka_unit_test(broken_tables_are_refused),
        cmocka_unit_test(sound_and_endless_tables),
        cmocka_unit_test(printing_survives_lost_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
