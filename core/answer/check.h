/* check -- judges a plugin: does it keep the promises of lab_plugin.h and lab_task.h?
 *
 * A table of tests, each run in a process of its own with a time limit, so that a crash, a hang or an exit is a finding.
 * The process that asks never loads the plugin.  A test whose prerequisite failed is skipped, so that one fault gives
 * one finding.
 */
#ifndef LAB_ANSWER_CHECK_H
#define LAB_ANSWER_CHECK_H
#include <limits.h>
#include "abi/lab_plugin.h"
#include "base/str.h"

enum check_state { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };
struct check_row {                   /* one test of one encoder, task or file */
    char subject[96];                /* "encoder rope"; "" for the file */
    const char *test;                /* "gradients.qk" */
    enum check_state state;
    char expected[256], seen[512], cause[320];   /* of a failure, or "" */
    char note[192];                  /* what was measured, or why it was skipped */
    double ms;
};
struct check_report {
    char path[PATH_MAX], plugin[192];            /* what the file says of itself; "" when it could not be loaded */
    uint64_t seed;
    struct check_row *row;
    size_t n, cap, failed, skipped;
    double ms;
};
struct check_options { uint64_t seed; int limit_ms; /* of one test; 0: 5000 */ };

/* Everything about one file; a plugin that is at fault is no error.  -1: memory or processes ran out. */
int  check_file(struct check_report *, const char *path, const struct check_options *, struct lab_err *err);
void check_print(const struct check_report *, int only_failed, struct str *out);
void check_json(const struct check_report *, int only_failed, struct str *out);
void check_list(struct str *out);                /* the tests, each with what it asks */
void check_release(struct check_report *);
#endif
