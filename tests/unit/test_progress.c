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
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "run/progress.h"

static const struct live_worker workers[] = {
    { .name = "reverse rope seed 2", .step = 1250, .steps = 2000, .loss = { 2.5, 0.0123 }, .n_loss = 2, .rate = 512, .left = 1.4 },
    { .name = "shift t5 seed 0", .step = 310, .steps = 2000, .loss = { 2.5, 1.02 }, .n_loss = 2, .rate = 498, .left = 3.5 } };
static const struct progress_now halfway = { .total = 30, .done = 14, .failed = 1, .steps = 30000, .left = 13, .worker = workers, .n_worker = 2 };
static const struct progress_now untimed = { .total = 30, .done = 14, .failed = 1, .left = -1, .worker = workers, .n_worker = 2 };

static const char *line(const struct progress_now *now, double seconds, int width, int bar)
{
    static char text[512];
    progress_line(text, sizeof text, now, seconds, width, bar);
    return text;
}

static void the_line_tells_runs_failures_rate_and_time(void **state)
{
    (void)state;
    /* 30000 steps in 15 s are 2000 steps/s; 15 of 30 runs fill half of 30 cells. */
    assert_string_equal(line(&halfway, 15, 100, 1), "[###############...............] 15/30 runs  1 failed  2000 steps/s  13 s left");
    assert_string_equal(line(&halfway, 15, 100, 0), "15/30 runs  1 failed  2000 steps/s  13 s left");
}

static void nothing_is_claimed_before_it_is_known(void **state)
{
    (void)state;
    struct progress_now now = { .total = 30, .left = -1 };
    assert_string_equal(line(&now, 1, 80, 0), "0/30 runs");
    now.steps = 3;
    assert_string_equal(line(&now, 1, 80, 0), "0/30 runs  3.0 steps/s");
}

static void durations_are_read_at_a_glance(void **state)
{
    (void)state;
    static const struct { double seconds; const char *text; } table[] = {
        { 0.4, "0 s left" }, { 59.6, "1 min 0 s left" }, { 200, "3 min 20 s left" }, { 3599, "59 min 59 s left" },
        { 18720, "5 h 12 min left" }, { 273600, "3 d 4 h left" } };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct progress_now now = { .total = 1, .steps = 1000, .left = table[i].seconds };
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
    struct progress_now now = { .total = 1000000, .done = 999999, .failed = 1, .steps = 1e15, .left = 1e300 };
    assert_true(strlen(line(&now, 1e-3, 80, 1)) < 80);
    now = (struct progress_now){ .total = 0 };
    assert_true(strlen(line(&now, 0, 80, 1)) < 80);
}

/* What a child writes to stderr: `times` showings a millisecond apart, a note, the end; half-way its window gets other columns. */
struct scene { int terminal, quiet, times, columns, then, rows; const char *term; };
static size_t capture(struct scene c, char *out, size_t size)
{
    int master, slave, ends[2];
    struct winsize w = { .ws_row = (unsigned short)(c.rows ? c.rows : 24), .ws_col = (unsigned short)c.columns };
    if (c.terminal) assert_int_equal(openpty(&master, &slave, NULL, NULL, &w), 0);
    else { assert_int_equal(pipe(ends), 0); master = ends[0], slave = ends[1]; }
    pid_t pid = fork();
    if (pid == 0) {
        struct progress p;
        dup2(slave, 2);
        close(master);
        setenv("TERM", c.term ? c.term : "xterm", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        progress_start(&p, c.quiet);
        for (int i = 0; i < c.times; i++) {
            w.ws_col = (unsigned short)c.then;
            if (c.then && i == c.times / 2) ioctl(2, TIOCSWINSZ, &w);
            progress_show(&p, c.then ? &untimed : &halfway);
            usleep(1000);
        }
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

/* What stands on the screen after all of it: of escapes it knows cursor up, erase line, erase below. */
struct screen { char cell[64][256]; int row, column, last; };
static void show_on(struct screen *s, const char *text)
{
    memset(s, 0, sizeof *s);
    for (; *text; text++) {
        int n = 0, used = 0;
        if (*text == '\r') s->column = 0;
        else if (*text == '\n') s->row++;
        else if (*text == '\033' && sscanf(text, "\033[%dA%n", &n, &used) == 1 && used) s->row -= n, text += used - 1;
        else if (!strncmp(text, "\033[K", 3) || !strncmp(text, "\033[J", 3)) {
            memset(&s->cell[s->row][s->column], 0, sizeof s->cell[0] - (size_t)s->column);
            if (text[2] == 'J') memset(s->cell[s->row + 1], 0, sizeof s->cell[0] * (size_t)(63 - s->row));
            text += 2;
        } else if (*text == '\033') fail_msg("unknown escape: %.8s", text + 1);
        else s->cell[s->row][s->column++] = *text;
        assert_in_range(s->row, 0, 63);
        assert_in_range(s->column, 0, 255);
    }
}

static void a_terminal_shows_the_sweep_and_its_workers_in_place(void **state)
{
    (void)state;
    static char text[65536];
    struct screen s;
    capture((struct scene){ .terminal = 1, .times = 700, .columns = 100 }, text, sizeof text);
    assert_in_range(count(text, "15/30 runs"), 3, 30);                   /* 700 ms at least: up to 4 a second, then the last */
    assert_int_equal(count(text, "reverse rope seed 2  1250/2000  0.0123  █▁  512 steps/s  1 s left\033[K"), count(text, "15/30 runs") - 1);
    assert_null(strstr(text, "\033[2J"));                                /* nothing is wiped before it is written anew: no flicker */
    show_on(&s, text);                                                   /* which knows no colours */
    assert_string_equal(s.cell[0], "lab: a note");                       /* the live lines gave way to it, and left nothing behind */
    assert_non_null(strstr(s.cell[1], "15/30 runs"));
    assert_string_equal(s.cell[2], "");
    assert_int_equal(s.row, 2);
    assert_int_equal(s.column, 0);
}

/* Lines of 53, 62 and 62 columns take two rows each in a window of 40: the cursor goes back over all of them. */
static void a_window_that_gets_narrow_is_redrawn_at_once(void **state)
{
    (void)state;
    static char text[65536];
    capture((struct scene){ .terminal = 1, .times = 100, .columns = 100, .then = 40 }, text, sizeof text);
    const char *narrow = strstr(text, "\033[6A\r[########........] 15/30 runs  1 failed\033[K\r\n");
    if (!narrow) fail_msg("not redrawn for 40 columns: %s", text);
    assert_non_null(strstr(narrow, "reverse rope seed 2  1250/2000  █▁\033[K\r\n"));
}

static void a_low_window_shows_what_fits(void **state)
{
    (void)state;
    static char text[65536];
    capture((struct scene){ .terminal = 1, .times = 10, .columns = 100, .rows = 3 }, text, sizeof text);
    assert_non_null(strstr(text, "reverse rope seed 2"));
    assert_null(strstr(text, "shift t5"));                               /* the last row is the cursor's */
}

static void elsewhere_lines_are_rare_and_plain(void **state)
{
    (void)state;
    static const struct scene scene[] = { { .times = 300 }, { .terminal = 1, .times = 300, .columns = 80, .term = "dumb" },
                                          { .terminal = 1, .times = 300, .columns = 80, .term = "" } };
    for (size_t i = 0; i < sizeof scene / sizeof *scene; i++) {
        char text[4096];
        capture(scene[i], text, sizeof text);
        assert_int_equal(count(text, "lab: 15/30 runs"), 1);             /* the end; the next would come after 30 s */
        assert_int_equal(count(text, "\n"), 2);
        assert_null(strchr(text, '\033'));
        assert_null(strchr(text, '#'));
        if (!scene[i].terminal) assert_null(strchr(text, '\r'));
    }
}

static void quiet_means_notes_alone(void **state)
{
    (void)state;
    char text[4096];
    capture((struct scene){ .terminal = 1, .quiet = 1, .times = 10, .columns = 80 }, text, sizeof text);
    assert_string_equal(text, "lab: a note\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_tells_runs_failures_rate_and_time), cmocka_unit_test(nothing_is_claimed_before_it_is_known),
        cmocka_unit_test(durations_are_read_at_a_glance), cmocka_unit_test(the_line_fits_every_width),
        cmocka_unit_test(absurd_numbers_stay_on_the_line), cmocka_unit_test(a_terminal_shows_the_sweep_and_its_workers_in_place),
        cmocka_unit_test(a_window_that_gets_narrow_is_redrawn_at_once), cmocka_unit_test(a_low_window_shows_what_fits),
        cmocka_unit_test(elsewhere_lines_are_rare_and_plain), cmocka_unit_test(quiet_means_notes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
