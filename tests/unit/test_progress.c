/* test_progress -- the line for every width, and when it is written: live, plain, quiet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "run/progress.h"

static const struct progress_now halfway = { .total = 30, .done = 14, .failed = 1, .steps = 30000, .steps_left = 26000 };

static const char *line(const struct progress_now *now, double seconds, int width, int bar)
{
    static char text[512];
    progress_line(text, sizeof text, now, seconds, width, bar);
    return text;
}

static void the_line_tells_runs_failures_rate_and_time(void **state)
{
    (void)state;
    /* 30000 steps in 15 s are 2000 steps/s; 26000 more take 13 s; 15 of 30 runs fill half of 30 cells. */
    assert_string_equal(line(&halfway, 15, 100, 1), "[###############...............] 15/30 runs  1 failed  2000 steps/s  13 s left");
    assert_string_equal(line(&halfway, 15, 100, 0), "15/30 runs  1 failed  2000 steps/s  13 s left");
}

static void nothing_is_claimed_before_it_is_known(void **state)
{
    (void)state;
    struct progress_now now = { .total = 30, .steps_left = 60000 };
    assert_string_equal(line(&now, 1, 80, 0), "0/30 runs");
    now.steps = 3;
    now.steps_left = 0;
    assert_string_equal(line(&now, 1, 80, 0), "0/30 runs  3.0 steps/s");
}

static void durations_are_read_at_a_glance(void **state)
{
    (void)state;
    static const struct { double seconds; const char *text; } table[] = {
        { 0.4, "0 s left" }, { 59.6, "1 min 0 s left" }, { 200, "3 min 20 s left" }, { 3599, "59 min 59 s left" },
        { 18720, "5 h 12 min left" }, { 273600, "3 d 4 h left" } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct progress_now now = { .total = 1, .steps = 1000, .steps_left = 1000 * table[i].seconds };
        assert_non_null(strstr(line(&now, 1, 100, 0), table[i].text));
    }
}

/* Whatever the width, it stays left of the last column, and the count of runs is the last to go. */
static void the_line_fits_every_width(void **state)
{
    (void)state;
    for (int width = 1; width <= 200; width++) {
        const char *text = line(&halfway, 15, width, 1);
        if ((int)strlen(text) >= width) fail_msg("%d columns: '%s'", width, text);
        if (width > 10) assert_non_null(strstr(text, "15/30 runs"));
        if (width > 20) assert_non_null(strstr(text, "1 failed"));
        if (width > 46) assert_non_null(strstr(text, "2000 steps/s"));
    }
    assert_string_equal(line(&halfway, 15, 40, 1), "15/30 runs  1 failed  13 s left");
}

static void absurd_numbers_stay_on_the_line(void **state)
{
    (void)state;
    struct progress_now now = { .total = 1000000, .done = 999999, .failed = 1, .steps = 1e15, .steps_left = 1e300 };
    assert_true(strlen(line(&now, 1e-3, 80, 1)) < 80);
    now = (struct progress_now){ .total = 0 };
    assert_true(strlen(line(&now, 0, 80, 1)) < 80);
}

/* What a child writes to stderr while it shows progress `times` times, a millisecond apart. */
static size_t capture(int terminal, int quiet, int times, char *out, size_t size)
{
    int master, slave, ends[2];
    struct winsize w = { .ws_row = 24, .ws_col = 100 };
    if (terminal) assert_int_equal(openpty(&master, &slave, NULL, NULL, &w), 0);
    else { assert_int_equal(pipe(ends), 0); master = ends[0], slave = ends[1]; }
    pid_t pid = fork();
    if (pid == 0) {
        struct progress p;
        dup2(slave, 2);
        close(master);
        setenv("TERM", "xterm", 1);
        progress_start(&p, quiet);
        for (int i = 0; i < times; i++) progress_show(&p, &halfway), usleep(1000);
        progress_note(&p, "a note");
        progress_end(&p, &halfway);
        _exit(0);
    }
    close(slave);
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = read(master, out + n, size - 1 - n)) > 0; ) n += (size_t)got;
    out[n] = '\0';
    close(master);
    waitpid(pid, NULL, 0);
    return n;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

static void a_terminal_gets_one_live_line(void **state)
{
    (void)state;
    char text[65536];
    capture(1, 0, 300, text, sizeof text);
    int drawn = count(text, "\r[");                                      /* 300 ms at least: 3 to 10 a second, then the last */
    assert_in_range(drawn, 3, 60);
    assert_int_equal(count(text, "15/30 runs"), drawn);
    assert_non_null(strstr(text, "\r\033[Klab: a note\r\n"));              /* the live line gives way to a note */
    assert_int_equal(count(text, "\n"), 2);
    assert_null(strstr(text, "\033[3"));                                 /* no colour */
}

static void elsewhere_lines_are_rare_and_plain(void **state)
{
    (void)state;
    char text[4096];
    capture(0, 0, 300, text, sizeof text);
    assert_int_equal(count(text, "15/30 runs"), 1);                      /* the end; the next would come after 30 s */
    assert_int_equal(count(text, "\n"), 2);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '#'));
}

static void quiet_means_notes_alone(void **state)
{
    (void)state;
    char text[4096];
    capture(1, 1, 10, text, sizeof text);
    assert_string_equal(text, "lab: a note\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_tells_runs_failures_rate_and_time), cmocka_unit_test(nothing_is_claimed_before_it_is_known),
        cmocka_unit_test(durations_are_read_at_a_glance), cmocka_unit_test(the_line_fits_every_width),
        cmocka_unit_test(absurd_numbers_stay_on_the_line), cmocka_unit_test(a_terminal_gets_one_live_line),
        cmocka_unit_test(elsewhere_lines_are_rare_and_plain), cmocka_unit_test(quiet_means_notes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
