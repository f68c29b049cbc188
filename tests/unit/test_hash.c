/* test_hash -- SHA-256 against the examples of FIPS 180-2, in one piece, in parts, and from a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/hash.h"

static const struct { const char *text, *digest; } fips[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" } };

static void digests_are_the_published_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fips / sizeof *fips; i++) {
        char hex[HASH_HEX], path[] = "/tmp/lab-hash-XXXXXX";
        size_t n = strlen(fips[i].text);
        struct hash h;
        struct lab_err err;
        hash_bytes(fips[i].text, n, hex);
        assert_string_equal(hex, fips[i].digest);
        hash_init(&h);
        for (size_t b = 0; b < n; b++) hash_add(&h, fips[i].text + b, 1);
        hash_end(&h, hex);
        assert_string_equal(hex, fips[i].digest);
        int fd = mkstemp(path);
        assert_int_equal(write(fd, fips[i].text, n), n);
        close(fd);
        assert_int_equal(hash_file(path, hex, &err), 0);
        assert_string_equal(hex, fips[i].digest);
        unlink(path);
    }
}

static void a_file_that_cannot_be_read(void **state)
{
    char hex[HASH_HEX];
    struct lab_err err;
    (void)state;
    assert_int_equal(hash_file("/nowhere/at/all", hex, &err), -1);
    assert_string_equal(err.msg, "/nowhere/at/all: cannot be read: No such file or directory");
    assert_int_equal(hash_file("/tmp", hex, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_the_published_ones), cmocka_unit_test(a_file_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
