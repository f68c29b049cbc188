/* test_live -- lines of workers at every width, the curve's cells, and how long workers still need for a queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/live.h"

static char shown[4096];

static const char *curve(const double *loss, int n, int cells, int utf8)
{
    struct str out = { 0 };
    live_curve(&out, loss, n, cells, utf8);
    strcpy(shown, str_text(&out));
    str_free(&out);
    return shown;
}

static void a_curve_goes_from_low_to_high(void **state)
{
    (void)state;
    static const double down[] = { 7, 6, 5, 4, 3, 2, 1, 0 }, flat[] = { 2, 2, 2 }, broken[] = { 3, NAN, 1 };
    assert_string_equal(curve(down, 8, 8, 1), "█▇▆▅▄▃▂▁");
    assert_string_equal(curve(down, 8, 8, 0), "#*+=:-._");
    assert_string_equal(curve(down, 8, 20, 0), "#*+=:-._");          /* no more cells than points */
    assert_string_equal(curve(down, 8, 2, 0), "#_");
    assert_string_equal(curve(flat, 3, 8, 0), "___");
    assert_string_equal(curve(broken, 3, 8, 0), "#!_");              /* what is no number is no zero either */
    assert_string_equal(curve(down, 0, 8, 1), "");
}

static void the_newest_points_are_kept(void **state)
{
    (void)state;
    struct live_worker w = { .n_loss = 0 };
    for (int i = 0; i < LIVE_POINTS + 5; i++) live_loss(&w, i);
    assert_int_equal(w.n_loss, LIVE_POINTS);
    assert_true(w.loss[0] == 5 && w.loss[LIVE_POINTS - 1] == LIVE_POINTS + 4);
}

/* ---- lines ---- */

static struct live_worker two[2];

static int make_two(void **state)
{
    (void)state;
    two[0] = (struct live_worker){ .name = "shift transformer_xl seed 12", .note = "heard of 1 s ago", .step = 90, .steps = 2000, .rate = 9.94, .left = 192 };
    two[1] = (struct live_worker){ .name = "copy t5 seed 0", .step = 1999, .steps = 2000, .rate = 1234.4, .left = 0.2 };
    for (int i = 0; i < 40; i++) live_loss(&two[0], 2.3 - 0.01 * i), live_loss(&two[1], exp(-i));
    return 0;
}

static const char *lines(int width, int utf8)
{
    struct str out = { 0 };
    live_lines(&out, two, 2, width, utf8);
    assert_false(out.failed);
    strcpy(shown, str_text(&out));
    str_free(&out);
    return shown;
}

static void columns_are_aligned_and_numbers_stand_right(void **state)
{
    (void)state;
    assert_string_equal(lines(200, 0), "shift transformer_xl seed 12    90/2000  1.9100  ##**++==::--..__   9.9 steps/s  3 min 12 s left  heard of 1 s ago\n"
                                       "copy t5 seed 0                1999/2000  0.0000  #.______________  1234 steps/s         0 s left\n");
}

static void what_has_no_room_goes_in_order(void **state)
{
    (void)state;
    static const struct { int width; const char *first; } row[] = {
        { 79, "shift transformer_xl seed 12    90/2000  1.9100  #*+=:-._  3 min 12 s left" },
        { 60, "shift transformer_xl seed 12    90/2000  #*+=:-._" },
        { 39, "shift transformer_    90/2000  #*+=:-._" },
        { 24, "shift transfo    90/2000" },
        { 12, "shift transf" } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char first[256];
        snprintf(first, sizeof first, "%s", lines(row[i].width, 0));
        *strchr(first, '\n') = '\0';
        if (strcmp(first, row[i].first)) fail_msg("%d columns: '%s', expected '%s'", row[i].width, first, row[i].first);
    }
}

static int columns(const char *text, size_t n)
{
    int count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static void no_line_is_wider_than_the_window(void **state)
{
    (void)state;
    strcpy(two[1].name, "shift näme 名 seed 3 plugin.text=値");
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (int width = 1; width <= 220; width++) {
            const char *text = lines(width, utf8);
            for (size_t n; *text; text += n + 1) {
                n = strcspn(text, "\n");
                if (columns(text, n) > width) fail_msg("%d columns: '%.*s'", width, (int)n, text);
                if (str_utf8(text, n) != n) fail_msg("%d columns: a character was cut: '%.*s'", width, (int)n, text);
            }
        }
}

static void nothing_is_said_before_it_is_known(void **state)
{
    (void)state;
    const struct live_worker fresh = { .name = "copy rope seed 1", .steps = 100, .left = -1 };
    struct str out = { 0 };
    live_lines(&out, &fresh, 1, 80, 1);
    assert_string_equal(str_text(&out), "copy rope seed 1  0/100\n");
    str_free(&out);
}

static void the_locale_decides(void **state)
{
    (void)state;
    static const struct { const char *locale; int utf8; } row[] = { { "C.UTF-8", 1 }, { "C", 0 }, { "POSIX", 0 }, { "nowhere", 0 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv("LC_ALL", row[i].locale, 1);
        if (live_is_utf8() != row[i].utf8) fail_msg("LC_ALL=%s: %d", row[i].locale, live_is_utf8());
    }
}

/* ---- time ---- */

static void workers_take_the_next_job_when_they_are_free(void **state)
{
    (void)state;
    static const double queue[] = { 4, 2, 7, 1 };
    double one[] = { 3 }, two_desks[] = { 3, 1 }, idle[] = { 0, 0, 0 };
    assert_true(live_left(one, 1, queue, 4) == 17);
    /* B: 1-5, A: 3-5, then one takes 5-12, the other 5-6. */
    assert_true(live_left(two_desks, 2, queue, 4) == 12);
    assert_true(live_left(idle, 3, queue, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_goes_from_low_to_high), cmocka_unit_test(the_newest_points_are_kept),
        cmocka_unit_test_setup(columns_are_aligned_and_numbers_stand_right, make_two), cmocka_unit_test_setup(what_has_no_room_goes_in_order, make_two),
        cmocka_unit_test_setup(no_line_is_wider_than_the_window, make_two), cmocka_unit_test(nothing_is_said_before_it_is_known),
        cmocka_unit_test(the_locale_decides), cmocka_unit_test(workers_take_the_next_job_when_they_are_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
