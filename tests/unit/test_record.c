/* test_record -- frames between worker and supervisor: exact, and nothing damaged is ever read as a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "abi/lab_plugin.h"
#include "exp/record.h"

static void random_text(struct lab_rng *rng, char *to, size_t size)
{
    size_t n = lab_rng_below(rng, (uint32_t)size);              /* 0 .. size-1: the longest fits too */
    for (size_t i = 0; i < n; i++) to[i] = (char)(1 + lab_rng_below(rng, 255));
    to[n] = '\0';
}

static int64_t random_word(struct lab_rng *rng)
{
    uint64_t high = lab_rng_u32(rng);
    return (int64_t)(high << 32 | lab_rng_u32(rng));
}

/* Random in every field that is sent; the bytes between fields are zero, as in a decoded record. */
static struct record random_record(struct lab_rng *rng)
{
    struct record r;
    memset(&r, 0, sizeof r);
    r.type = (enum record_type)(RECORD_START + (int)lab_rng_below(rng, RECORD_FAILED));
    char name[sizeof r.name], split[sizeof r.split], text[sizeof r.text], sha256[sizeof r.sha256];
    random_text(rng, name, sizeof name), strcpy(r.name, name);
    random_text(rng, split, sizeof split), strcpy(r.split, split);
    random_text(rng, text, sizeof text), strcpy(r.text, text);
    random_text(rng, sha256, sizeof sha256), strcpy(r.sha256, sha256);
    int64_t *word[] = { &r.step, &r.steps, &r.length, &r.position, &r.n, &r.n_exact, &r.n_tok, &r.n_tok_ok, &r.active_ns };
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) *word[i] = random_word(rng);
    int64_t bits = random_word(rng);
    memcpy(&r.value, &bits, sizeof bits);
    bits = random_word(rng);
    memcpy(&r.error, &bits, sizeof bits);
    return r;
}

static int same(const struct record *a, const struct record *b)
{
    return a->type == b->type && !strcmp(a->name, b->name) && !strcmp(a->split, b->split) && !strcmp(a->text, b->text) &&
           !strcmp(a->sha256, b->sha256) && a->step == b->step && a->steps == b->steps && a->length == b->length &&
           a->position == b->position && a->n == b->n && a->n_exact == b->n_exact && a->n_tok == b->n_tok &&
           a->n_tok_ok == b->n_tok_ok && a->active_ns == b->active_ns && !memcmp(&a->value, &b->value, sizeof a->value) &&
           !memcmp(&a->error, &b->error, sizeof a->error);
}

static void random_records_come_back(void **state)
{
    (void)state;
    struct lab_rng rng = lab_rng_at(1, 0, 0, 0);
    for (int i = 0; i < 5000; i++) {
        struct record sent = random_record(&rng), got;
        unsigned char frame[RECORD_FRAME_MAX];
        struct lab_err err = { "" };
        size_t n = record_encode(&sent, frame);
        assert_true(n <= RECORD_FRAME_MAX);
        assert_int_equal(record_decode(&got, frame, n, &err), (long)n);
        assert_true(same(&sent, &got));
    }
}

static void special_numbers_are_exact(void **state)
{
    (void)state;
    static const double special[] = { NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308 };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        struct record sent = { .type = RECORD_METRIC, .name = "loss", .value = special[i], .error = -special[i] }, got;
        unsigned char frame[RECORD_FRAME_MAX];
        struct lab_err err = { "" };
        assert_true(record_decode(&got, frame, record_encode(&sent, frame), &err) > 0);
        assert_memory_equal(&got.value, &sent.value, sizeof got.value);
        assert_memory_equal(&got.error, &sent.error, sizeof got.error);
    }
}

/* The layout is a contract between two processes of possibly two builds: byte for byte,
 * with the checksum of Python's zlib.crc32 over the 104 payload bytes. */
static void layout_is_pinned(void **state)
{
    (void)state;
    struct record r = { .type = RECORD_METRIC, .name = "loss", .step = 258, .value = 1.0 };
    unsigned char frame[RECORD_FRAME_MAX];
    static const unsigned char start[] = { 0x4c, 0x42, 0x52, 0x31, 104, 0, 0, 0, 0x52, 0x98, 0x2f, 0x8f,
                                           3, 0, 0, 0, 4, 0, 'l', 'o', 's', 's', 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0 };
    assert_int_equal(record_encode(&r, frame), 116);
    assert_memory_equal(frame, start, sizeof start);
    static const unsigned char one[] = { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f };      /* IEEE 754 of 1.0 */
    assert_memory_equal(frame + 12 + 16 + 8 * 8, one, sizeof one);
}

static void every_truncation_is_noticed(void **state)
{
    (void)state;
    struct lab_rng rng = lab_rng_at(2, 0, 0, 0);
    for (int i = 0; i < 50; i++) {
        struct record sent = random_record(&rng), got;
        unsigned char frame[RECORD_FRAME_MAX];
        struct lab_err err = { "" };
        size_t n = record_encode(&sent, frame);
        for (size_t cut = 0; cut < n; cut++) assert_int_equal(record_decode(&got, frame, cut, &err), 0);
    }
}

/* A damaged frame is refused, or (its length was raised) waits for bytes that the end of the pipe will deny it. */
static void every_damaged_byte_is_noticed(void **state)
{
    (void)state;
    struct lab_rng rng = lab_rng_at(3, 0, 0, 0);
    for (int i = 0; i < 20; i++) {
        struct record sent = random_record(&rng), got;
        unsigned char frame[2 * RECORD_FRAME_MAX];
        struct lab_err err = { "" };
        size_t n = record_encode(&sent, frame), next = record_encode(&sent, frame + n);
        for (size_t at = 0; at < n; at++)
            for (int flip = 1; flip < 256; flip++) {
                frame[at] ^= (unsigned char)flip;
                assert_true(record_decode(&got, frame, n, &err) <= 0);
                assert_true(record_decode(&got, frame, n + next, &err) <= 0);
                frame[at] ^= (unsigned char)flip;
            }
    }
}

static void refusals_say_what_was_found(void **state)
{
    (void)state;
    struct record r = { .type = RECORD_DONE }, got = { .step = 7 };
    unsigned char frame[RECORD_FRAME_MAX];
    struct lab_err err = { "" };
    size_t n = record_encode(&r, frame);
    frame[0] ^= 1;
    assert_int_equal(record_decode(&got, frame, n, &err), -1);
    assert_string_equal(err.msg, "not a record: it starts with 3152424d, expected 3152424c");
    frame[0] ^= 1, frame[7] = 1;
    assert_int_equal(record_decode(&got, frame, n, &err), -1);
    assert_non_null(strstr(err.msg, "(limit is 1012)"));
    frame[7] = 0, frame[n - 1] ^= 1;
    assert_int_equal(record_decode(&got, frame, n, &err), -1);
    assert_non_null(strstr(err.msg, "checksum"));
    assert_int_equal(got.step, 7);                              /* a refusal leaves the caller's record alone */
}

/* Text that a worker forgot to end, or that is as long as its place: cut, never read beyond. */
static void unended_text_is_cut(void **state)
{
    (void)state;
    struct record r = { .type = RECORD_FAILED }, got;
    unsigned char frame[RECORD_FRAME_MAX];
    struct lab_err err = { "" };
    memset(r.text, 'x', sizeof r.text);
    assert_true(record_decode(&got, frame, record_encode(&r, frame), &err) > 0);
    assert_int_equal(strlen(got.text), sizeof r.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_records_come_back), cmocka_unit_test(special_numbers_are_exact), cmocka_unit_test(layout_is_pinned),
        cmocka_unit_test(every_truncation_is_noticed), cmocka_unit_test(every_damaged_byte_is_noticed),
        cmocka_unit_test(refusals_say_what_was_found), cmocka_unit_test(unended_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
