/* check_test -- what a test of `lab check` is, and what it may say.  For check*.c only.
 *
 * A test runs in a process of its own: it frees nothing, and the functions below that do not return end it.
 * To add a test: a function and its row in one of the tables, a broken fixture in tests/plugins/broken_*.c that it alone
 * catches, and the fixture's row in tests/unit/test_check.c.
 */
#ifndef LAB_ANSWER_CHECK_TEST_H
#define LAB_ANSWER_CHECK_TEST_H
#include "abi/lab_task.h"
#include "answer/rig.h"

enum check_subject { CHECK_THE_FILE, CHECK_THE_ENCODER, CHECK_THE_TASK };
enum { CHECK_ENTRIES = 64 };
struct check_answer {                /* in memory shared with the process that asks; everything is text by then */
    int given, state, signal;
    char doing[256], expected[256], seen[512], cause[320], note[192];
    /* of the first test, which loads the file */
    char plugin[192];
    int n_entry;
    struct { int subject; char name[72]; } entry[CHECK_ENTRIES];
};
struct check_case {
    const struct check_test *test;
    const char *path;
    uint64_t seed;
    const struct lab_encoder *encoder;           /* or NULL */
    const struct lab_task *task;                 /* or NULL */
    struct check_answer *answer;
};
struct check_test {
    const char *name;                /* group.name */
    const char *about;               /* what it asks, for --list */
    const char *needs;               /* tests that must have passed, a blank apart, or NULL */
    void (*run)(struct check_case *);
    int hook;                        /* gradients only: enum lab_hook */
};
extern const struct check_test check_load_tests[], check_encoder_tests[], check_gradient_tests[], check_task_tests[];   /* each ends with name NULL */

/* Tests that encoders and tasks share. */
void check_words(struct check_case *);
void check_options(struct check_case *);

/* What is going on, for a test that does not come back. */
void check_doing(struct check_case *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The finding: what was expected, the likely cause, and what was seen; where it happened is added. */
void check_fail(struct check_case *, const char *expected, const char *cause, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
void check_skip(struct check_case *, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
void check_note(struct check_case *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
