/* test_check -- every broken plugin is found by exactly the test that is meant to find it, and in its words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "answer/check.h"

#define FIXTURES TEST_BUILD "/tests/"

/* broken encoder or task -> the one test that fails, and words of what it says */
static const struct { const char *subject, *test, *words; } broken[] = {
    { "encoder two_lines", "describe.words", "byte 0x0a in cite" },
    { "encoder long_help", "describe.options", "byte 0x0a in on" },
    { "encoder grows", "describe.parameters", "table is another one with max_pos" },
    { "encoder refuses_all", "life.init", "a head of 8 is not to its taste" },
    { "encoder silent_refusal", "life.refusals", "init returns an error and no message" },
    { "encoder leaks", "life.thousand", "bytes more after" },
    { "encoder shared_options", "life.instances", "its results changed when a second one was made" },
    { "encoder crashes", "life.hooks", "Segmentation fault at address (nil): embed" },
    { "encoder hangs", "life.hooks", "no answer: embed" },
    { "encoder exits", "life.hooks", "it ended the process, status 0: embed" },
    { "encoder prints", "life.silent", " bytes" },
    { "encoder reads_outside", "memory.bounds", "Segmentation fault at 0 bytes past the end of x: embed" },
    { "encoder reads_behind_positions", "memory.bounds", "x[0] is" },
    { "encoder writes_outside", "memory.bounds", "Segmentation fault at 0 bytes past the end of x: embed" },
    { "encoder writes_input", "memory.inputs", "Segmentation fault at byte 0 of q: qk" },
    { "encoder writes_self", "memory.inputs", "Segmentation fault at byte 0 of self: embed" },
    { "encoder dirty_scratch", "memory.scratch", "x[0] is" },
    { "encoder overwrites_output", "memory.accumulates", "is added to 0" },
    { "encoder adds_to_q_out", "memory.accumulates", "q_out[" },
    { "encoder counts_calls", "memory.globals", "of the loaded file changed" },
    { "encoder allocates", "memory.allocation", "malloc is called" },
    { "encoder log_of_zero", "numbers.finite", "b[0] is -inf" },
    { "encoder reads_the_clock", "numbers.repeatable", "x[0] is" },
    { "encoder one_buffer", "numbers.threads", "q_out[" },
    { "encoder first_row_only", "numbers.batch", "x[" },
    { "encoder loop_index", "numbers.positions", "part of a sequence: x[" },
    { "encoder false_shift", "numbers.shift", "positions + 1" },
    { "encoder false_layers", "numbers.layers", "b[0] is 1 and 0" },
    { "encoder sees_the_future", "numbers.causality", "out[0] was" },
    { "encoder sees_padding", "numbers.padding", "out[" },
    { "encoder wrong_sign", "gradients.bias", "d loss / d slope[0] is" },
    { "encoder overwrites_gradient", "gradients.twice", "gradient of slope [" },
    { "encoder no_parameter_gradient", "gradients.embed", "d loss / d width[0] is 0" },
    { "encoder forgets_a_factor", "gradients.qk", "d loss / d q[0] is" },
    { "encoder half_a_square", "gradients.logits", "d loss / d s[" },
    { "encoder missing_term", "gradients.value", "d loss / d att[0] is 0" },
    { "encoder rough_transpose", "gradients.adjoint", " and " },
    { "encoder sleeps", "speed.hooks", "ns forward" },
    { "encoder denormal", "speed.denormals", "are denormal" },
    { "task tab_in_summary", "describe.words", "byte 0x09 in summary" },
    { "task two_line_help", "describe.options", "byte 0x0a in vocab" },
    { "task more_than_certain", "task.init", "2" },
    { "task silent_task_refusal", "task.refusals", "no message (init with vocab at its upper bound)" },
    { "task short_only", "task.lengths", "sample refuses: length 41 is over 32" },
    { "task token_past_vocabulary", "task.range", "in[0] is 10, vocab_in 10" },
    { "task writes_past_the_end", "task.range", "Segmentation fault" },
    { "task slice_past_the_end", "task.range", "1, max_slice 1" },
    { "task moves_positions", "task.range", "pos[0] is 1" },
    { "task nothing_scored", "task.range", "none scored" },
    { "task remembers", "task.repeatable", "two draws differ" },
    { "task one_split", "task.distinct", "splits train and test give the same" },
    { "task wrong_solve", "task.solve", "target[" },
    { "task rising_start", "task.exchangeable", "places 0 and 1" },
    { "task forgets_its_tokens", "task.reorder", "sorted, token" },
};
enum { N_BROKEN = sizeof broken / sizeof *broken };

/* What the first wrong sign, missing factor and missing term are likely to be. */
static const struct { const char *subject, *cause; } causes[] = {
    { "encoder wrong_sign", "a wrong sign" }, { "encoder missing_term", "a term that the backward function leaves out" },
    { "encoder forgets_a_factor", "a factor that the backward function forgets" } };

static void check(struct check_report *r, const char *fixture)
{
    char path[PATH_MAX];
    struct lab_err err;
    snprintf(path, sizeof path, FIXTURES "%s%s.so", strchr(fixture, '/') ? "" : "plugins/", fixture);
    if (check_file(r, path, &(struct check_options){ .limit_ms = 3000 }, &err) != 0) fail_msg("%s: %s", path, err.msg);
}

static int failures(const struct check_report *r, const char *subject, const struct check_row **first)
{
    int n = 0;
    *first = NULL;
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->row[i].subject, subject) || r->row[i].state != CHECK_FAILED) continue;
        if (!n++) *first = &r->row[i];
        else print_error("%s: also %s: %s\n", subject, r->row[i].test, r->row[i].seen);
    }
    return n;
}

/* Those that AddressSanitizer answers first: it counts leaks at the end, and ends the program at a null pointer. */
static int is_answered_first(const char *subject)
{
#ifdef __SANITIZE_ADDRESS__
    return !strcmp(subject, "encoder leaks") || !strcmp(subject, "encoder crashes");
#else
    (void)subject;
    return 0;
#endif
}

static void each_fault_is_found_by_its_test_alone(void **state)
{
    static const char *const fixture[] = { "broken_encoders", "broken_tasks" };
    int found = 0, wrong = 0;
    (void)state;
    for (int f = 0; f < 2; f++) {
        struct check_report r;
        check(&r, fixture[f]);
        for (int i = 0; i < N_BROKEN; i++) {
            const struct check_row *row;
            int n = failures(&r, broken[i].subject, &row);
            if (strstr(fixture[f], "task") ? broken[i].subject[0] == 'e' : broken[i].subject[0] == 't') continue;
            found++;
            if (is_answered_first(broken[i].subject)) continue;
            if (n == 1 && !strcmp(row->test, broken[i].test) && strstr(row->seen, broken[i].words) && *row->expected && *row->cause) continue;
            print_error("%s: wanted %s alone, \"%s\"; %d failed, the first is %s: %s\n", broken[i].subject, broken[i].test, broken[i].words, n,
                        row ? row->test : "none", row ? row->seen : "");
            wrong++;
        }
        for (size_t i = 0; f == 0 && i < sizeof causes / sizeof *causes; i++) {
            const struct check_row *row;
            failures(&r, causes[i].subject, &row);
            if (!row || !strstr(row->cause, causes[i].cause)) print_error("%s: likely %s\n", causes[i].subject, row ? row->cause : ""), wrong++;
        }
        check_release(&r);
    }
    assert_int_equal(found, N_BROKEN);
    assert_int_equal(wrong, 0);
}

/* Every broken subject has its row above, and every test a fixture that it finds. */
static void the_table_is_complete(void **state)
{
    static const char *const by_file[] = { "load.file", "load.exports", "load.libraries", "load.time" };
    struct str list = { 0 };
    char *rest, *line;
    (void)state;
    check_list(&list);
    for (rest = list.text; (line = strsep(&rest, "\n")) && *line; ) {
        char subject[16], test[64], broken_subject[16];
        int known = 0;
        assert_int_equal(sscanf(line, "%15s %63s", subject, test), 2);
        for (int i = 0; i < 4; i++) known |= !strcmp(test, by_file[i]);
        for (int i = 0; i < N_BROKEN; i++)
            known |= sscanf(broken[i].subject, "%15s", broken_subject) == 1 && !strcmp(subject, broken_subject) && !strcmp(test, broken[i].test);
        if (!known) fail_msg("no broken plugin shows that %s %s can fail", subject, test);
    }
    str_free(&list);
}

static void files_are_judged_too(void **state)
{
    static const struct { const char *fixture, *test, *words; } bad[] = {
        { "bad_unresolved", "load.file", "undefined symbol" }, { "bad_no_entry", "load.file", "exports no lab_plugin_entry" },
        { "bad_magic", "load.file", "magic is" }, { "bad_major", "load.file", "abi_major is 2" }, { "bad_minor", "load.file", "abi_minor is 2" },
        { "bad_encoder_size", "load.file", "size is 184 bytes" }, { "bad_real", "load.file", "real_size is" },
        { "bad_no_backward", "load.file", "embed has no backward" }, { "bad_option_default", "load.file", "its default is refused" },
        { "bad_option_offset", "load.file", "offset 4096" }, { "bad_exports", "load.exports", "bad_exports_helper" },
        { "bad_library", "load.libraries", "libmd.so" }, { "bad_slow_load", "load.time", "ms" }, { "no_such_file", "load.file", "cannot be read" } };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct check_report r;
        const struct check_row *row;
        check(&r, bad[i].fixture);
        int n = failures(&r, "", &row);
        if (n != 1 || r.failed != 1 || strcmp(row->test, bad[i].test) || !strstr(row->seen, bad[i].words))
            fail_msg("%s: wanted %s alone, \"%s\"; %zu failed, the first is %s: %s", bad[i].fixture, bad[i].test, bad[i].words, r.failed,
                     row ? row->test : "none", row ? row->seen : "");
        assert_true(*row->expected && *row->cause);
        check_release(&r);
    }
}

/* Those of an earlier ABI among them: see tests/abi. */
static void sound_plugins_pass(void **state)
{
    static const char *const good[] = { "good_alibi", "good_task", "abi/1.0/old_plugin", "abi/1.1/reordering" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct check_report r;
        check(&r, good[i]);
        for (size_t k = 0; k < r.n; k++) if (r.row[k].state == CHECK_FAILED) fail_msg("%s: %s: %s", good[i], r.row[k].test, r.row[k].seen);
        assert_true(r.n - r.skipped > 10);
        assert_true(r.ms < 10000);
        check_release(&r);
    }
}

static void another_seed_finds_the_same(void **state)
{
    char path[PATH_MAX];
    struct check_report r;
    struct lab_err err;
    const struct check_row *row;
    (void)state;
    snprintf(path, sizeof path, FIXTURES "plugins/broken_tasks.so");
    assert_int_equal(check_file(&r, path, &(struct check_options){ .seed = 12345 }, &err), 0);
    assert_int_equal(failures(&r, "task rising_start", &row), 1);
    assert_string_equal(row->test, "task.exchangeable");
    check_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_found_by_its_test_alone), cmocka_unit_test(the_table_is_complete), cmocka_unit_test(files_are_judged_too),
        cmocka_unit_test(sound_plugins_pass), cmocka_unit_test(another_seed_finds_the_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
