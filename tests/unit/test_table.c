/* test_table -- the formats of a table, and that no cell can reach the terminal's controls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "answer/table.h"
#include "base/mem.h"

/* Cells of each row end in NULL; "#" in front marks a number, "~" stands for SQL's NULL. */
static void fill(struct table *t, int n_col, const char *const *cell)
{
    table_init(t, n_col);
    for (; *cell; cell++) {
        if (**cell == '#') table_number(t, *cell + 1);
        else table_add(t, strcmp(*cell, "~") ? *cell : NULL);
    }
}

static void check(enum table_format format, int n_col, const char *const *cell, const char *expected)
{
    struct table t;
    struct str out = { 0 };
    fill(&t, n_col, cell);
    table_write(&t, format, &out);
    assert_false(out.failed);
    assert_string_equal(str_text(&out), expected);
    str_free(&out);
    table_free(&t);
}
#define CHECK(format, n_col, expected, ...) check(format, n_col, (const char *const[]){ __VA_ARGS__, NULL }, expected)

static void text_aligns_columns(void **state)
{
    (void)state;
    CHECK(TABLE_TEXT, 3, "name     steps  note\n"
                         "-------  -----  ----\n"
                         "learned      5  ok\n"
                         "rope      2000\n",
          "name", "steps", "note", "learned", "#5", "ok", "rope", "#2000", "~");
}
static void empty_table_is_its_header(void **state)
{
    (void)state;
    CHECK(TABLE_TEXT, 2, "a  bc\n-  --\n", "a", "bc");
    CHECK(TABLE_CSV, 2, "a,bc\n", "a", "bc");
    CHECK(TABLE_JSON, 2, "[]\n", "a", "bc");
    CHECK(TABLE_MARKDOWN, 2, "| a   | bc  |\n| --- | --- |\n", "a", "bc");
}
static void mixed_column_keeps_header_left(void **state)
{
    (void)state;
    CHECK(TABLE_TEXT, 1, "value\n-----\n    7\nx\n", "value", "#7", "x");
}
static void widths_count_columns_not_bytes(void **state)
{
    (void)state;                     /* two bytes one column; three bytes two columns; a mark takes none; emoji two */
    CHECK(TABLE_TEXT, 2, "a     b\n----  -\n\u00e9\u00e9    1\n\u4f4d\u7f6e  2\n\uc704\uce58  3\ne\u0301     4\n\U0001F600    5\nabcd  6\n",
          "a", "b", "\u00e9\u00e9", "#1", "\u4f4d\u7f6e", "#2", "\uc704\uce58", "#3", "e\u0301", "#4", "\U0001F600", "#5", "abcd", "#6");
}
static void controls_are_shown(void **state)
{
    (void)state;                     /* ESC, newline, DEL, a C1 control, an override of direction, bytes that are not UTF-8 */
    CHECK(TABLE_TEXT, 1, "a\n------------\n\\x1b[2J\n\\x0a\\x09\\x7f\n\\xc2\\x9b\n\\xe2\\x80\\xae\n\\xff\\xc3\n",
          "a", "\x1b[2J", "\n\t\x7f", "\xc2\x9b", "\u202e", "\xff\xc3");
    CHECK(TABLE_MARKDOWN, 1, "| a      |\n| ------ |\n| x\\x0ay |\n", "a", "x\ny");
}
static void markdown_escapes_bars(void **state)
{
    (void)state;
    CHECK(TABLE_MARKDOWN, 2, "| a    |    b |\n| ---- | ---: |\n| x\\|y | 1.25 |\n| z    |   10 |\n",
          "a", "b", "x|y", "#1.25", "z", "#10");
}
static void csv_quotes_as_rfc_4180(void **state)
{
    (void)state;
    CHECK(TABLE_CSV, 3, "a,b,c\n1,\"x,y\",\"say \"\"hi\"\"\"\n,\"\",\"two\nlines\"\n",
          "a", "b", "c", "#1", "x,y", "say \"hi\"", "~", "", "two\nlines");
}
static void json_types(void **state)
{
    (void)state;
    CHECK(TABLE_JSON, 2, "[\n{\"a\\\"\": 1.5, \"b\": null},\n{\"a\\\"\": \"1.5\", \"b\": \"x\\ny\"}\n]\n",
          "a\"", "b", "#1.5", "~", "1.5", "x\ny");
}
static void json_stays_valid(void **state)
{
    (void)state;                     /* SQLite prints an infinite number as Inf; a TEXT may hold any bytes */
    CHECK(TABLE_JSON, 1, "[\n{\"a\": \"Inf\"},\n{\"a\": \"\\\\xff\"}\n]\n", "a", "#Inf", "\xff");
}
static void html_escapes_and_names_its_headers(void **state)
{
    (void)state;
    CHECK(TABLE_HTML, 2, "<thead>\n<tr><th scope=\"col\">a</th><th scope=\"col\" class=\"n\">b</th></tr>\n</thead>\n<tbody>\n"
                         "<tr><th scope=\"row\">&lt;i&gt; &amp; &quot;</th><td class=\"n\">1</td></tr>\n<tr><th scope=\"row\">\\x1b</th><td></td></tr>\n</tbody>\n",
          "a", "b", "<i> & \"", "#1", "\x1b", "~");
}
static void latex_escapes_what_tex_would_obey(void **state)
{
    (void)state;
    CHECK(TABLE_LATEX, 2, "% needs \\usepackage{booktabs}\n\\begin{tabular}{lr}\n\\toprule\nd\\_model & b \\\\\n\\midrule\n"
                          "\\textbackslash{}input\\{x\\} \\& 5\\% \\$ \\# \\textasciitilde{} \\textasciicircum{} \\textless{}\\textgreater{} & 0.5$\\pm$.1 \\\\\n"
                          "\\bottomrule\n\\end{tabular}\n",
          "d_model", "b", "\\input{x} & 5% $ # ~ ^ <>", "#0.5\u00b1.1");
}
static void short_last_row_ends_in_null(void **state)
{
    (void)state;
    CHECK(TABLE_JSON, 2, "[\n{\"a\": \"x\", \"b\": null}\n]\n", "a", "b", "x");
    CHECK(TABLE_CSV, 2, "a,b\nx,\n", "a", "b", "x");
}
static void out_of_memory_is_reported(void **state)
{
    (void)state;
    for (long n = 1; n < 40; n++) {
        struct table t;
        struct str out = { 0 };
        struct lab_err ignored;
        char *full = mem_strdup("a\n-\nx\n", &ignored);
        mem_fail_at(n);
        table_init(&t, 1);
        table_add(&t, "a");
        table_add(&t, "x");
        table_write(&t, TABLE_TEXT, &out);
        mem_fail_at(0);
        assert_true(out.failed || !strcmp(str_text(&out), full));
        if (n <= 4) assert_true(out.failed);                 /* the two arrays and the two copies */
        str_free(&out);
        table_free(&t);
        str_free(&(struct str){ .text = full });
    }
}

static void lines_are_cut_at_columns(void **state)
{
    (void)state;
    static const struct { const char *text; size_t columns, bytes; } table[] = {
        { "abc", 2, 2 }, { "abc", 3, 3 }, { "abc", 99, 3 }, { "abc", 0, 0 }, { "\xe6\x97\xa5\xe6\x9c\xac", 3, 3 }, { "\xe6\x97\xa5\xe6\x9c\xac", 4, 6 },
        { "\xe6\x97\xa5", 1, 0 }, { "e\xcc\x81x", 1, 3 } };                 /* an accent stays with its letter */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = table_fit(table[i].text, strlen(table[i].text), table[i].columns);
        if (n != table[i].bytes) fail_msg("'%s' in %zu columns: %zu bytes, expected %zu", table[i].text, table[i].columns, n, table[i].bytes);
    }
}

/* ---- in few columns ---- */

static void check_text(size_t columns, int n_col, const char *const *cell, const char *expected)
{
    struct table t;
    struct str out = { 0 };
    fill(&t, n_col, cell);
    table_text(&t, columns, &out);
    assert_false(out.failed);
    assert_string_equal(str_text(&out), expected);
    str_free(&out);
    table_free(&t);
}
#define CHECK_TEXT(columns, n_col, expected, ...) check_text(columns, n_col, (const char *const[]){ __VA_ARGS__, NULL }, expected)

static void what_fits_stays_as_it_is(void **state)
{
    static const char *const cell[] = { "name", "help", "rope", "turns", NULL };
    (void)state;
    check_text(0, 2, cell, "name  help\n----  -----\nrope  turns\n");
    check_text(11, 2, cell, "name  help\n----  -----\nrope  turns\n");
}
static void long_texts_are_folded_between_words(void **state)
{
    (void)state;
    CHECK_TEXT(25, 3, "name  steps  help\n----  -----  ------------\nrope      5  turns\n             queries and\n             keys\nt5       10  ok\n",
               "name", "steps", "help", "rope", "#5", "turns queries and keys", "t5", "#10", "ok");
}
static void names_are_cut_behind_underscores_and_numbers_never(void **state)
{
    (void)state;
    CHECK_TEXT(18, 2, " order_  sequence_\n blind_   accuracy\nceiling\n-------  ---------\n   0.25  1234.5678\n", "order_blind_ceiling", "sequence_accuracy", "#0.25", "#1234.5678");
}
static void columns_without_room_follow_below(void **state)
{
    (void)state;
    CHECK_TEXT(24, 4, "name    token  sequence\n----  -------  --------\nrope  0.12345   0.12345\nt5          1         2\n\n"
                      "name     loss\n----  -------\nrope  0.12345\nt5          3\n",
               "name", "token", "sequence", "loss", "rope", "#0.12345", "#0.12345", "#0.12345", "t5", "#1", "#2", "#3");
}
static void no_folded_line_is_wider_and_no_word_is_lost(void **state)
{
    static const char *const text[] = { "a", "bb cc", "a_long_name_without_blanks_at_all", "\x1b[31mred", "\u4f4d\u7f6e\u4f4d\u7f6e\u4f4d\u7f6e\u4f4d\u7f6e\u4f4d\u7f6e", "words and more words and more", "" };
    (void)state;
    for (size_t columns = 26; columns < 90; columns += 7) {
        struct table t;
        struct str out = { 0 };
        int words = 0;
        table_init(&t, 5);
        for (int i = 0; i < 5; i++) table_add(&t, i == 4 ? "last_column_of_all" : "h");
        for (int i = 0; i < 50; i++) table_add(&t, text[i % 7]);
        table_text(&t, columns, &out);
        for (const char *line = str_text(&out); *line; line++) {
            size_t n = strcspn(line, "\n");
            if (table_fit(line, n, columns) != n) fail_msg("wider than %zu: %.*s", columns, (int)n, line);
            line += n;
        }
        for (const char *at = str_text(&out); (at = strstr(at, "words")); at++) words++;
        if (words < 2 * 7) fail_msg("%zu columns: %d words:\n%s", columns, words, str_text(&out));
        if (strchr(str_text(&out), '\x1b')) fail_msg("a control character got through");
        str_free(&out);
        table_free(&t);
    }
}
static void paragraphs_hang(void **state)
{
    struct str out = { 0 };
    (void)state;
    table_paragraph(&out, "  paper    one two three four", 20, 11);
    assert_string_equal(str_text(&out), "  paper    one two\n           three\n           four\n");
    str_clear(&out);
    table_paragraph(&out, "abcdefghij", 4, 0);
    assert_string_equal(str_text(&out), "abcd\nefgh\nij\n");
    str_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_aligns_columns), cmocka_unit_test(empty_table_is_its_header),
        cmocka_unit_test(mixed_column_keeps_header_left), cmocka_unit_test(widths_count_columns_not_bytes),
        cmocka_unit_test(controls_are_shown), cmocka_unit_test(markdown_escapes_bars), cmocka_unit_test(csv_quotes_as_rfc_4180),
        cmocka_unit_test(json_types), cmocka_unit_test(json_stays_valid), cmocka_unit_test(short_last_row_ends_in_null),
        cmocka_unit_test(out_of_memory_is_reported), cmocka_unit_test(html_escapes_and_names_its_headers),
        cmocka_unit_test(latex_escapes_what_tex_would_obey),
        cmocka_unit_test(lines_are_cut_at_columns), cmocka_unit_test(what_fits_stays_as_it_is),
        cmocka_unit_test(long_texts_are_folded_between_words), cmocka_unit_test(names_are_cut_behind_underscores_and_numbers_never),
        cmocka_unit_test(columns_without_room_follow_below), cmocka_unit_test(no_folded_line_is_wider_and_no_word_is_lost),
        cmocka_unit_test(paragraphs_hang),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
