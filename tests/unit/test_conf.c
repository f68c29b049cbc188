/* test_conf -- experiment files: what is read, and that every way to misread one is refused with file:line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "exp/conf.h"

static int read_text(struct conf *c, const char *text, struct lab_err *err)
{
    return conf_read_text(c, "x.ini", text, strlen(text), err);
}

static void assert_value(const struct conf *c, const char *section, const char *key, const char *value, int line)
{
    const struct conf_entry *e = conf_find(c, section, key);
    assert_non_null(e);
    assert_string_equal(e->value, value);
    assert_int_equal(e->line, line);
}

static void reads_sections_keys_and_lines(void **state)
{
    (void)state;
    static const char good[] = "; comment\n# comment\n   ; indented comment\n\n[train] ; why\nlength = 8  ; or 1..8\n"
                               "lr=1e-3\n[encoder.t5];\nbuckets\t=\t8\nempty =\na.b = x;y\nutf = \xc3\xa9 = 2";
    struct conf c;
    struct lab_err err;
    assert_int_equal(read_text(&c, good, &err), 0);
    assert_int_equal(c.n, 6);
    assert_value(&c, "train", "length", "8", 6);
    assert_value(&c, "train", "lr", "1e-3", 7);
    assert_value(&c, "encoder.t5", "buckets", "8", 9);
    assert_value(&c, "encoder.t5", "empty", "", 10);
    assert_value(&c, "encoder.t5", "a.b", "x;y", 11);
    assert_value(&c, "encoder.t5", "utf", "\xc3\xa9 = 2", 12);
    assert_null(conf_find(&c, "train", "buckets"));
    assert_string_equal(c.entry[0].file, "x.ini");
    assert_int_equal(c.length, sizeof good - 1);
    assert_memory_equal(c.text, good, sizeof good - 1);
    conf_free(&c);
}

/* The digest of no bytes is published with SHA-256. */
static void sha256_is_that_of_the_bytes(void **state)
{
    (void)state;
    struct conf c;
    struct lab_err err;
    assert_int_equal(read_text(&c, ";bc", &err), 0);
    char expected[HASH_HEX];
    hash_bytes(";bc", 3, expected);
    assert_string_equal(c.sha256, expected);
    conf_free(&c);
    assert_int_equal(read_text(&c, "", &err), 0);
    assert_string_equal(c.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    conf_free(&c);
}

static void line_ends_and_byte_order_mark(void **state)
{
    (void)state;
    static const char *const text[] = { "[a]\nk = 1\n", "[a]\r\nk = 1\r\n", "[a]\nk = 1", "[a]\r\nk = 1\r",
                                        "\xef\xbb\xbf[a]\nk = 1\n", "\xef\xbb\xbf[a]\r\nk = 1 ; c\r\n" };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct conf c;
        struct lab_err err;
        assert_int_equal(read_text(&c, text[i], &err), 0);
        assert_value(&c, "a", "k", "1", 2);
        assert_int_equal(c.length, strlen(text[i]));
        conf_free(&c);
    }
}

static void refuses_with_file_line_and_cure(void **state)
{
    (void)state;
    static const struct { const char *text, *expected; } row[] = {
        { "[a]\nk = 1\nk = 2\n", "x.ini:3: [a] k was given before, on line 2; remove one of the two" },
        { "[a]\n[b]\n[a]\n", "x.ini:3: section [a] was opened before, on line 1; put its keys together" },
        { "[a]\n k = 1\n", "x.ini:2: blanks before 'k = 1'; start it in the first column (no value goes on over lines)" },
        { "[a]\nk = 1\n  2\n", "x.ini:3: blanks before '2'; start it in the first column (no value goes on over lines)" },
        { " [a]\n", "x.ini:1: blanks before '[a]'; start it in the first column (no value goes on over lines)" },
        { "[a\nk = 1\n", "x.ini:1: section '[a' does not end; close it with ']'" },
        { "[a] k = 1\n", "x.ini:1: 'k = 1' stands after ']'; only a comment, ` ; ...`, may" },
        { "[a] # x\n", "x.ini:1: '# x' stands after ']'; only a comment, ` ; ...`, may" },
        { "[]\n", "x.ini:1: section []: a name is made of letters, digits, '_', '-' and '.', without blanks" },
        { "[ a ]\n", "x.ini:1: section [ a ]: a name is made of letters, digits, '_', '-' and '.', without blanks" },
        { "[a]\nk\n", "x.ini:2: 'k' has no '='; write key = value" },
        { "[a]\nk ; = 1\n", "x.ini:2: 'k' has no '='; write key = value" },
        { "[a]\na:b = c\n", "x.ini:2: 'a:b = c' has ':' after the key; write key = value" },
        { "[a]\na : 1\n", "x.ini:2: 'a : 1' has ':' after the key; write key = value" },
        { "[a]\n= 1\n", "x.ini:2: '= 1' has no key before '='; write key = value" },
        { "[a]\nd model = 1\n", "x.ini:2: key 'd model': a name is made of letters, digits, '_', '-' and '.', without blanks" },
        { "\nk = 1\n", "x.ini:2: 'k = 1' stands before the first [section]; put it under one" },
        { "[a]\nk = 1 # one\n", "x.ini:2: the value of 'k' holds '#', which does not start a comment here; put it on a line of its own "
                                "or write ` ;`" },
        { "[a]\nk =;1\n", "x.ini:2: the value of 'k' holds ` ;`, which starts a comment; leave it out" },
        { "[a]\nk = \xff\n", "x.ini:2: the line holds bytes that are not UTF-8; save the file as UTF-8" },
        { "; \xed\xa0\x80\n", "x.ini:1: the line holds bytes that are not UTF-8; save the file as UTF-8" },
        { "[a]\rk = 1\n", "x.ini:1: the line holds a carriage return inside the line; end lines with a line feed" },
        { "[a]\nk = \033[2J\n", "x.ini:2: the line holds a control character; remove it" },
        { "[a]\nk = 1\n\xef\xbb\xbfj = 1\n", "x.ini:3: key '\xef\xbb\xbfj': a name is made of letters, digits, '_', '-' and '.', "
                                             "without blanks" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct conf c;
        struct lab_err err = { "" };
        assert_int_equal(read_text(&c, row[i].text, &err), -1);
        assert_string_equal(err.msg, row[i].expected);
    }
}

static void refuses_nul(void **state)
{
    (void)state;
    struct conf c;
    struct lab_err err;
    assert_int_equal(conf_read_text(&c, "x.ini", "[a]\nk = 1\0002\n", 12, &err), -1);
    assert_string_equal(err.msg, "x.ini:2: the line holds a NUL byte; save the file as plain UTF-8 text");
    assert_int_equal(conf_read_text(&c, "x.ini", "[a]\n; \0\n", 8, &err), -1);
}

/* inih keeps 199 bytes of a line: `k=` and 197 more; blanks and comments do not count. */
static void value_limit(void **state)
{
    (void)state;
    char text[2000], value[400];
    for (int n = 1; n <= 320; n++) {
        struct conf c;
        struct lab_err err;
        memset(value, '7', (size_t)n);
        value[n] = '\0';
        snprintf(text, sizeof text, "[a]\nk   =   %s   ; %s\nj = 1\n", value, value);
        int rc = read_text(&c, text, &err);
        assert_int_equal(rc, n <= 197 ? 0 : -1);
        if (rc == 0) {
            assert_int_equal(c.n, 2);
            assert_value(&c, "a", "k", value, 2);
            conf_free(&c);
        } else {
            char expected[256];
            snprintf(expected, sizeof expected, "x.ini:2: 'k' and its value take %d bytes; the limit is 199: shorten it "
                     "(a range, 0..9, may replace a list)", n + 2);
            assert_string_equal(err.msg, expected);
        }
    }
}

static void long_comments_are_harmless(void **state)
{
    (void)state;
    char comment[1200], text[8000];
    for (int n = 150; n < 1100; n += 7) {
        struct conf c;
        struct lab_err err;
        memset(comment, 'x', sizeof comment);
        memcpy(comment + n, " seeds=9,9,9", 13);             /* what inih alone reads as a key */
        snprintf(text, sizeof text, "; %s\n[a] ; %s\n# %s\nk = 1 ; %s\n  ;%s", comment, comment, comment, comment, comment);
        assert_int_equal(read_text(&c, text, &err), 0);
        assert_int_equal(c.n, 1);
        assert_value(&c, "a", "k", "1", 4);
        conf_free(&c);
    }
}

static void section_limit(void **state)
{
    (void)state;
    char text[200];
    struct conf c;
    struct lab_err err;
    snprintf(text, sizeof text, "[%049d]\nk = 1\n", 7);
    assert_int_equal(read_text(&c, text, &err), 0);
    assert_int_equal(strlen(c.entry[0].section), 49);
    conf_free(&c);
    snprintf(text, sizeof text, "[%050d]\nk = 1\n", 7);
    assert_int_equal(read_text(&c, text, &err), -1);
    assert_non_null(strstr(err.msg, "x.ini:1: section [0"));
    assert_non_null(strstr(err.msg, "has 50 bytes; the limit is 49"));
}

static void a_long_key_is_read_whole(void **state)
{
    (void)state;
    char text[400], key[151];
    struct conf c;
    struct lab_err err;
    memset(key, 'k', 150), key[150] = '\0';
    snprintf(text, sizeof text, "[a]\n%s1 = 1\n%s2 = 2\n", key, key);
    assert_int_equal(read_text(&c, text, &err), 0);
    assert_int_equal(c.n, 2);
    assert_int_equal(strlen(c.entry[1].key), 151);
    conf_free(&c);
}

static void size_limits(void **state)
{
    (void)state;
    size_t n = (1 << 20) + 1;
    char *text = malloc(n);
    struct conf c;
    struct lab_err err;
    memset(text, ';', n);
    assert_int_equal(conf_read_text(&c, "x.ini", text, n - 1, &err), 0);
    conf_free(&c);
    assert_int_equal(conf_read_text(&c, "x.ini", text, n, &err), -1);
    assert_string_equal(err.msg, "x.ini: larger than 1048576 bytes, the limit for an experiment file");
    size_t used = (size_t)sprintf(text, "[a]\n");
    for (int i = 0; i <= 4096; i++) used += (size_t)sprintf(text + used, "k%d=1\n", i);
    assert_int_equal(conf_read_text(&c, "x.ini", text, used, &err), -1);
    assert_string_equal(err.msg, "x.ini:4098: too many keys; the limit is 4096");
    free(text);
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/test_conf_XXXXXX";
    int fd = mkstemp(path);
    struct conf c;
    struct lab_err err;
    assert_int_equal(write(fd, "[a]\nk = 1\n", 10), 10);
    close(fd);
    assert_int_equal(conf_read(&c, path, &err), 0);
    assert_value(&c, "a", "k", "1", 2);
    assert_string_equal(c.path, path);
    conf_free(&c);
    unlink(path);
    char expected[128];
    snprintf(expected, sizeof expected, "%s: cannot be read: No such file or directory", path);
    assert_int_equal(conf_read(&c, path, &err), -1);
    assert_string_equal(err.msg, expected);
    assert_int_equal(conf_read(&c, "/tmp", &err), -1);
    assert_string_equal(err.msg, "/tmp: cannot be read: Is a directory");
}

static void overrides_replace_or_add(void **state)
{
    (void)state;
    struct conf c;
    struct lab_err err;
    assert_int_equal(read_text(&c, "[train]\nsteps = 1\nlr = 2\n", &err), 0);
    char before[HASH_HEX];
    strcpy(before, c.sha256);
    assert_int_equal(conf_override(&c, "train.steps=5", &err), 0);
    assert_int_equal(conf_override(&c, "encoder.t5.buckets = 8 ", &err), 0);
    assert_int_equal(conf_override(&c, "sweep.model.embed_std=0, 1", &err), 0);
    assert_int_equal(conf_override(&c, "experiment.name=a=b", &err), 0);
    assert_int_equal(c.n, 5);
    assert_string_equal(c.entry[0].key, "steps");            /* keeps its place */
    assert_value(&c, "train", "steps", "5", 0);
    assert_string_equal(c.entry[0].file, "--set");
    assert_value(&c, "train", "lr", "2", 3);
    assert_value(&c, "encoder.t5", "buckets", "8", 0);
    assert_value(&c, "sweep", "model.embed_std", "0, 1", 0);
    assert_value(&c, "experiment", "name", "a=b", 0);
    assert_string_not_equal(c.sha256, before);
    assert_string_equal(c.text, "[train]\nsteps = 1\nlr = 2\n");
    conf_free(&c);
}

static void the_hash_depends_on_the_overrides_in_force(void **state)
{
    (void)state;
    static const char *const way[][3] = { { "a.k=5", "a.j=6", NULL }, { "a.k=7", "a.j=6", "a.k=5" }, { "a.k=5", "a.j=6", "a.j=6" },
                                          { "a.k=5", "a.j=7", NULL } };
    char hex[4][HASH_HEX];
    for (int w = 0; w < 4; w++) {
        struct conf c;
        struct lab_err err;
        assert_int_equal(read_text(&c, "[a]\nk = 1\n", &err), 0);
        for (int i = 0; i < 3 && way[w][i]; i++) assert_int_equal(conf_override(&c, way[w][i], &err), 0);
        strcpy(hex[w], c.sha256);
        conf_free(&c);
    }
    assert_string_equal(hex[0], hex[1]);
    assert_string_equal(hex[0], hex[2]);
    assert_string_not_equal(hex[0], hex[3]);
}

static void overrides_are_as_strict(void **state)
{
    (void)state;
    char longest[400];
    const struct { const char *arg, *expected; } row[] = {
        { "steps", "--set: 'steps' is not SECTION.KEY=VALUE" },
        { "steps=5", "--set: 'steps=5' is not SECTION.KEY=VALUE" },
        { "=5", "--set: '=5' is not SECTION.KEY=VALUE" },
        { ".k=5", "--set: '.k=5' is not SECTION.KEY=VALUE" },
        { "a.=5", "--set: 'a.=5' is not SECTION.KEY=VALUE" },
        { "sweep.=5", "--set: 'sweep.=5' is not SECTION.KEY=VALUE" },
        { "a b.k=5", "--set: 'a b.k=5' is not SECTION.KEY=VALUE" },
        { "a.k=5 # x", "--set: a.k holds '#', which does not start a comment here; leave it out" },
        { "a.k=5 ; x", "--set: a.k holds ` ;`, which starts a comment; leave it out" },
        { "a.k=\n[b]", "--set: the argument holds a control character; remove it" },
        { "a.k=\xc3", "--set: the argument holds bytes that are not UTF-8; write it in UTF-8, as a terminal in a UTF-8 locale does" },
        { "a.k=5\r", "--set: the argument holds a carriage return inside the line; leave it out" },
        { longest, "--set: a.k: the limit is 49 bytes for a section and 199 for a key with its value" },
    };
    snprintf(longest, sizeof longest, "a.k=%0198d", 0);
    struct conf c;
    struct lab_err err;
    assert_int_equal(read_text(&c, "[a]\nk = 1\n", &err), 0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(conf_override(&c, row[i].arg, &err), -1);
        assert_string_equal(err.msg, row[i].expected);
        assert_value(&c, "a", "k", "1", 2);
        assert_int_equal(c.n, 1);
    }
    conf_free(&c);
}

static void survives_every_failing_allocation(void **state)
{
    (void)state;
    for (long n = 1; n < 100; n++) {
        struct conf c;
        struct lab_err err = { "" };
        mem_fail_at(n);
        int rc = read_text(&c, "[a]\nk = 1\nj = 2\n[b]\nk = 1\n", &err);
        if (rc == 0) {
            rc = conf_override(&c, "b.new=1", &err);
            conf_free(&c);
        }
        mem_fail_at(0);
        if (rc == 0) return;
        assert_non_null(strstr(err.msg, "out of memory"));
    }
    fail();
}

/* Any bytes at all: either refused with a message, or every entry stands in the text. */
static void random_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "[]==;# \t\n\n\r.:abk0\xef\xbb\xbf\xc3\xa9";
    struct lab_rng rng = lab_rng_at(1, 2, 3, 4);
    for (int trial = 0; trial < 20000; trial++) {
        char text[80];
        size_t n = lab_rng_below(&rng, sizeof text);
        for (size_t i = 0; i < n; i++) text[i] = alphabet[lab_rng_below(&rng, sizeof alphabet)];
        struct conf c;
        struct lab_err err = { "" };
        if (conf_read_text(&c, "x.ini", text, n, &err) != 0) {
            assert_int_equal(strncmp(err.msg, "x.ini:", 6), 0);
            continue;
        }
        for (size_t i = 0; i < c.n; i++) {
            assert_true(c.entry[i].line >= 1);
            assert_ptr_equal(conf_find(&c, c.entry[i].section, c.entry[i].key), &c.entry[i]);
            assert_non_null(memmem(text, n, c.entry[i].value, strlen(c.entry[i].value)));
        }
        conf_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_sections_keys_and_lines),
        cmocka_unit_test(sha256_is_that_of_the_bytes),
        cmocka_unit_test(line_ends_and_byte_order_mark),
        cmocka_unit_test(refuses_with_file_line_and_cure),
        cmocka_unit_test(refuses_nul),
        cmocka_unit_test(value_limit),
        cmocka_unit_test(long_comments_are_harmless),
        cmocka_unit_test(section_limit),
        cmocka_unit_test(a_long_key_is_read_whole),
        cmocka_unit_test(size_limits),
        cmocka_unit_test(files),
        cmocka_unit_test(overrides_replace_or_add),
        cmocka_unit_test(the_hash_depends_on_the_overrides_in_force),
        cmocka_unit_test(overrides_are_as_strict),
        cmocka_unit_test(survives_every_failing_allocation),
        cmocka_unit_test(random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
