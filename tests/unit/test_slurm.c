/* What lab writes for Slurm and reads of it: words for shells, indexes, time limits, states, answers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "run/program.h"
#include "run/slurm.h"

/* A shell gives back what was quoted for it. */
static void test_a_shell_reads_what_was_quoted(void **unused)
{
    static const char *const text[] = { "plain", "", "two words", "it's", "''", "$HOME `id` \"x\" \\ # ;&|<>*?~!", "new\nline", "-n", "ä €" };
    (void)unused;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct str script = { 0 };
        struct program p;
        struct lab_err err;
        str_add(&script, "printf %s ");
        slurm_quote(&script, text[i]);
        char *const argv[] = { "sh", "-c", script.text, NULL };
        assert_int_equal(program_run(&p, argv, 10, &err), 0);
        assert_string_equal(str_text(&p.out), text[i]);
        program_release(&p);
        str_free(&script);
    }
}

static void test_ranges(void **unused)
{
    static const struct { const char *wanted, *expected; } row[] = {
        { "", "" }, { "0", "" }, { "1", "0" }, { "11", "0-1" }, { "101", "0,2" }, { "0110111", "1-2,4-6" }, { "1001", "0,3" } };
    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct str s = { 0 };
        unsigned char wanted[16];
        size_t n = strlen(row[i].wanted);
        for (size_t k = 0; k < n; k++) wanted[k] = row[i].wanted[k] == '1';
        slurm_ranges(&s, wanted, (int64_t)n);
        assert_string_equal(str_text(&s), row[i].expected);
        str_free(&s);
    }
}

/* The forms of sbatch(1), --time. */
static void test_time_limits(void **unused)
{
    static const struct { const char *text; int64_t seconds; } row[] = {
        { "90", 5400 }, { "90:30", 5430 }, { "1:30:00", 5400 }, { "2-0", 172800 }, { "1-02:30", 95400 }, { "1-02:30:15", 95415 }, { "0", 0 },
        { "UNLIMITED", -1 }, { "infinite", -1 }, { "", -2 }, { "1:", -2 }, { ":1", -2 }, { "1h", -2 }, { "-5", -2 }, { "1:2:3:4", -2 }, { "1-", -2 }, { " 1", -2 } };
    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t seconds = slurm_seconds(row[i].text);
        if (seconds != row[i].seconds) fail_msg("'%s' is %lld, expected %lld", row[i].text, (long long)seconds, (long long)row[i].seconds);
    }
}

static void test_job_ids_and_limits(void **unused)
{
    (void)unused;
    assert_int_equal(slurm_job_id("1234\n"), 1234);
    assert_int_equal(slurm_job_id("1234;cluster\n"), 1234);
    assert_int_equal(slurm_job_id("Submitted batch job 1234\n"), -1);
    assert_int_equal(slurm_job_id(""), -1);
    assert_int_equal(slurm_job_id("0\n"), -1);
    assert_int_equal(slurm_job_id("12x\n"), -1);
    assert_int_equal(slurm_max_array("Licenses = (null)\nMaxArraySize            = 1001\nMaxJobCount             = 10000\n"), 1001);
    assert_int_equal(slurm_max_array("MaxArraySize            = 0\n"), -1);      /* arrays are switched off */
    assert_int_equal(slurm_max_array("MaxJobCount = 10\n"), -1);
}

/* squeue(1), JOB STATE CODES. */
static void test_states(void **unused)
{
    static const struct { const char *word; int status; enum slurm_state state; } row[] = {
        { "PENDING", 0, SLURM_PENDING }, { "RUNNING", 0, SLURM_RUNNING }, { "COMPLETING", 0, SLURM_RUNNING }, { "COMPLETED", 0, SLURM_DONE },
        { "CANCELLED", 0, SLURM_INTERRUPTED }, { "CANCELLED by 1234", 0, SLURM_INTERRUPTED }, { "CANCELLED+", 0, SLURM_INTERRUPTED },
        { "PREEMPTED", 0, SLURM_INTERRUPTED }, { "TIMEOUT", 0, SLURM_TIMEOUT }, { "NODE_FAIL", 0, SLURM_LOST }, { "OUT_OF_MEMORY", 125, SLURM_FAILED },
        { "FAILED", 1, SLURM_FAILED }, { "FAILED", 75, SLURM_INTERRUPTED }, { "REQUEUE_HOLD", 0, SLURM_PENDING }, { "", 0, SLURM_UNKNOWN },
        { "COMPLETE", 0, SLURM_UNKNOWN }, { "SOMETHING_NEW", 0, SLURM_UNKNOWN } };
    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        enum slurm_state state = slurm_state(row[i].word, row[i].status);
        if (state != row[i].state) fail_msg("%s is %s, expected %s", row[i].word, slurm_state_name[state], slurm_state_name[row[i].state]);
    }
}

static int write_down(void *ctx, const struct slurm_task *t)
{
    str_printf(ctx, "%lld_%lld %s %d\n", (long long)t->job, (long long)t->index, t->word, t->status);
    return 0;
}

static void test_answers(void **unused)
{
    static const struct { const char *text, *expected; } row[] = {
        { "", "" },
        { "7|COMPLETED|0:0\n", "7_-1 COMPLETED 0\n" },
        { "7_3|FAILED|75:0\n7_4|CANCELLED by 12|0:15", "7_3 FAILED 75\n7_4 CANCELLED by 12 0\n" },           /* sacct */
        { "7_3|FAILED|19200               \n", "7_3 FAILED 75\n" },                                           /* squeue: 75 << 8 */
        { "7_[2-4,9%2]|PENDING|0:0\n", "7_2 PENDING 0\n7_3 PENDING 0\n7_4 PENDING 0\n7_9 PENDING 0\n" },
        { "7_[0-6:3]|PENDING|0:0\n", "7_0 PENDING 0\n7_3 PENDING 0\n7_6 PENDING 0\n" },
        { "7_3.batch|FAILED|1:0\n7.0|FAILED|1:0\n", "" },                                                       /* steps */
        { "garbage\n", NULL }, { "x|RUNNING|0\n", NULL }, { "7_|RUNNING|0\n", NULL }, { "7_[2-|RUNNING|0\n", NULL }, { "7a|RUNNING|0\n", NULL } };
    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct str s = { 0 };
        int rc = slurm_tasks(row[i].text, write_down, &s);
        if (rc != (row[i].expected ? 0 : -1)) fail_msg("'%s' gives %d", row[i].text, rc);
        if (row[i].expected) assert_string_equal(str_text(&s), row[i].expected);
        str_free(&s);
    }
}

static struct slurm_job job(void)
{
    return (struct slurm_job){ .lab = "/usr/bin/lab", .plan = "/data/plan", .name = "n", .runs = 10, .tasks = 5, .cpus = 2, .restarts = 3 };
}

static void test_refusals(void **unused)
{
    static const struct { const char *time, *plan; const char *option[2]; const char *expected; } row[] = {
        { NULL, NULL, { NULL }, NULL }, { "5", NULL, { NULL }, NULL }, { "UNLIMITED", NULL, { NULL }, NULL },
        { "4", NULL, { NULL }, "leaves no time" }, { "4", NULL, { "--signal=USR1@30" }, NULL }, { "x", NULL, { NULL }, "--time is 'x'" },
        { NULL, NULL, { "--array=1" }, "cannot be given" }, { NULL, NULL, { "-a1" }, "cannot be given" }, { NULL, NULL, { "--wrap", "x" }, "cannot be given" },
        { NULL, NULL, { "--arrays=1" }, NULL }, { NULL, NULL, { "--mem", "1G" }, NULL }, { NULL, NULL, { "1G" }, "is no option" },
        { NULL, NULL, { "--mem=1G", "2G" }, "is no option" }, { NULL, NULL, { "--x=a\n#SBATCH --y" }, "control character" },
        { NULL, "/a\nb", { NULL }, "control character" }, { NULL, "/a\\b", { NULL }, "backslash" } };
    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct slurm_job j = job();
        struct lab_err err = { "" };
        j.time = row[i].time;
        if (row[i].plan) j.plan = row[i].plan;
        j.option = (char *const *)row[i].option;
        j.n_option = !!row[i].option[0] + !!row[i].option[1];
        int rc = slurm_check(&j, &err);
        if (rc != (row[i].expected ? -1 : 0) || (row[i].expected && !strstr(err.msg, row[i].expected))) fail_msg("row %zu: %d, '%s'", i, rc, err.msg);
    }
}

static void test_an_array_may_be_smaller_than_the_plan(void **unused)
{
    struct slurm_job j = job();
    struct str s = { 0 };
    (void)unused;
    j.at_once = 2;
    slurm_array_script(&s, &j, 3);
    assert_non_null(strstr(str_text(&s), "#SBATCH --array=0-2%2\n"));
    assert_non_null(strstr(str_text(&s), "tasks=5\n"));
    str_free(&s);
}

static void test_a_program_that_hangs_is_ended(void **unused)
{
    char *const hang[] = { "sleep", "60", NULL }, *const missing[] = { "no-such-program-as-this", NULL }, *const fail[] = { "sh", "-c", "echo a >&2; echo b >&2; exit 3", NULL };
    struct program p;
    struct lab_err err;
    char words[40];
    (void)unused;
    assert_int_equal(program_run(&p, hang, 0.2, &err), -1);
    assert_string_equal(err.msg, "sleep: no answer within 0 s");
    program_release(&p);
    assert_int_equal(program_run(&p, missing, 10, &err), PROGRAM_MISSING);
    program_release(&p);
    assert_int_equal(program_run(&p, fail, 10, &err), 0);
    assert_false(program_succeeded(&p));
    program_complaint(&p, words, sizeof words);
    assert_string_equal(words, "a b");
    program_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shell_reads_what_was_quoted),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_time_limits),
        cmocka_unit_test(test_job_ids_and_limits),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_an_array_may_be_smaller_than_the_plan),
        cmocka_unit_test(test_a_program_that_hangs_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
