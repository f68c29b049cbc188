/* test_plot -- charts from made-up runs, what they look like in a terminal, and scripts that gnuplot takes. */
#include "unit/store_fixture.h"
#include "answer/plot.h"

static void contains(const char *found, const char *expected)
{
    if (!strstr(found, expected)) fail_msg("found:\n%s\nexpected in it:\n%s", found, expected);
}

/* ---- axes ---- */

static void ticks_are_round(void **state)
{
    static const struct { double lo, hi; int most, n; double first, step; } row[] = {
        { 0, 1, 6, 6, 0, 0.2 }, { -0.02, 1.02, 6, 6, 0, 0.2 }, { 7, 33, 7, 6, 10, 5 - 0.0 }, { 0, 300, 7, 7, 0, 50 }, { 1, 2, 3, 3, 1, 0.5 },
        { -3, 3, 4, 3, -2, 2 } };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double tick[8];
        int n = chart_ticks(row[i].lo, row[i].hi, row[i].most, tick);
        if (i == 2) { assert_true(n >= 3 && n <= 7 && tick[0] >= 7 && tick[n - 1] <= 33); continue; }
        if (n != row[i].n || fabs(tick[0] - row[i].first) > 1e-12 || fabs(tick[1] - tick[0] - row[i].step) > 1e-12)
            fail_msg("%g..%g: %d ticks from %g by %g", row[i].lo, row[i].hi, n, tick[0], tick[1] - tick[0]);
    }
}
static void ticks_never_leave_the_range(void **state)
{
    (void)state;
    for (double lo = -5; lo < 5; lo += 0.37)
        for (double width = 1e-6; width < 1e7; width *= 7.3) {
            double tick[8];
            int n = chart_ticks(lo, lo + width, 7, tick);
            assert_in_range(n, 1, 7);
            for (int i = 0; i < n; i++)
                if (tick[i] < lo - 1e-6 * width || tick[i] > lo + width * (1 + 1e-6)) fail_msg("%g is not in %g..%g", tick[i], lo, lo + width);
        }
}
static void numbers_are_short(void **state)
{
    char text[24];
    (void)state;
    chart_number(0.1 + 0.2, text), assert_string_equal(text, "0.3");
    chart_number(1e-17, text), assert_string_equal(text, "0");
    chart_number(2000, text), assert_string_equal(text, "2000");
}

/* ---- in a terminal ---- */

/* Two points, at 0 and 1, in 20 columns and 18 rows: bottom left and top right, dots between. */
static void a_line_goes_from_corner_to_corner(void **state)
{
    struct chart c;
    struct str out = { 0 };
    (void)state;
    chart_init(&c, CHART_LINES);
    chart_set(&c, &c.title, "diagonal");
    c.y_lo = 0, c.y_hi = 1, c.categories = 1;
    chart_size(&c, 0, 2);
    chart_set(&c, &c.column[0], "a"), chart_set(&c, &c.column[1], "b");
    c.value[0] = 0, c.value[1] = 1;
    struct chart_series *s = chart_series(&c, "line", 1, CHART_MEAN);
    chart_point(&c, s, 0, 0), chart_point(&c, s, 1, 1), chart_point(&c, s, 0.5, NAN);
    assert_int_equal(s->n, 2);
    chart_text(&c, 30, &out);
    assert_false(out.failed);
    const char *text = str_text(&out);
    contains(text, "diagonal\n       1 +              x\n");             /* x = 1 of -0.5..1.5 in 20 places: 14.25 */
    contains(text, "\n       0 +     x\n");
    contains(text, "         +--------------------\n               a        b\n");
    contains(text, "  x line");
    int rows = 0, dots = 0;
    for (const char *at = text; *at; at++) rows += *at == '\n', dots += *at == '.';
    assert_int_equal(rows, 1 + 18 + 2 + 1);
    assert_int_equal(dots, 16 + 4);                                       /* 0.2 0.4 0.6 0.8 */
    str_free(&out);
    chart_free(&c);
}
static void a_grid_has_shades_and_numbers(void **state)
{
    struct chart c;
    struct str out = { 0 };
    (void)state;
    chart_init(&c, CHART_GRID);
    chart_size(&c, 2, 3);
    static const double value[] = { 0, 0.5, 1, NAN, 0.09, 0.1 };
    memcpy(c.value, value, sizeof value);
    chart_set(&c, &c.row[0], "one"), chart_set(&c, &c.row[1], "two");
    for (int i = 0; i < 3; i++) chart_set(&c, &c.column[i], i == 0 ? "8*" : i == 1 ? "12" : "16");
    chart_text(&c, 78, &out);
    contains(str_text(&out), "one  0.00    0.50 +  1.00 @\n");
    contains(str_text(&out), "two       -  0.09    0.10 .\n");
    str_clear(&out);
    chart_text(&c, 20, &out);                                             /* no room for numbers */
    contains(str_text(&out), "one   +@\ntwo    .\n");
    str_free(&out);
    chart_free(&c);
}

/* ---- from a study ---- */

static struct store *store;
static int set_up(void **state)
{
    int64_t sweep, ordinal = 0;
    if (make_folder(state) != 0) return -1;
    OK(store_open(&store, in_folder("lab.db"), STORE_WRITE, &err));
    OK(store_put_sweep(store, key(1), "made", "Does it work?", "made.ini", "", &sweep, &err));
    for (int i = 0; i < 8; i++) {
        const char *encoder = i & 1 ? "rope" : "none", *task = i & 4 ? "copy" : "shift";
        int64_t run = add_run(store, i + 1, encoder, task, i >> 1 & 1, ""), attempt = begin_attempt(store, run);
        OK(store_put_cell(store, sweep, ordinal++, run, "", &err));
        for (int step = 1; step <= 300; step++) put_metric(store, attempt, "loss", step, 1.0 / step);
        put_eval(store, attempt, "test", 8, 2000, 10, 10, 80, 0.1), put_eval(store, attempt, "test", 16, 2000, 10, 1, 16 * i, 0.2);
        struct record position = { .type = RECORD_EVAL_POSITION, .split = "test", .length = 16, .step = 2000, .n_tok = 10, .n_tok_ok = i };
        for (position.position = 0; position.position < 4; position.position++) OK(store_put_record(store, attempt, &position, &err));
        end_attempt(store, attempt, "done", NULL);
    }
    return 0;
}
static int tear_down(void **state)
{
    store_close(store);
    return remove_folder(state);
}

static struct study study;
static struct compare compare;
static struct plot plot;
static void draw(enum plot_kind kind)
{
    const struct compare_options o = { .allow_mixed = 1 };
    OK(study_load(&study, store, NULL, &err));
    OK(compare_build(&compare, &study, &o));
    OK(plot_add(&plot, &compare, kind));
}
static void clear(void)
{
    plot_free(&plot);
    compare_release(&compare);
    study_release(&study);
}

static void every_kind_has_its_charts(void **state)
{
    static const int charts[PLOT_KINDS] = { [PLOT_LENGTH] = 2, [PLOT_LOSS] = 2, [PLOT_HEATMAP] = 2, [PLOT_POSITION] = 4, [PLOT_RANKS] = 1, [PLOT_SEEDS] = 2 };
    (void)state;
    for (int kind = 0; kind < PLOT_KINDS; kind++) {
        struct str out = { 0 };
        draw((enum plot_kind)kind);
        if ((int)plot.n != charts[kind]) fail_msg("%s: %zu charts, expected %d", plot_names[kind], plot.n, charts[kind]);
        for (size_t i = 0; i < plot.n; i++) {
            assert_non_null(plot.chart[i].about);
            chart_text(&plot.chart[i], 60, &out);
        }
        assert_false(out.failed);
        str_free(&out);
        clear();
    }
    assert_null(plot_names[PLOT_KINDS]);
}
static void every_seed_is_drawn(void **state)
{
    (void)state;
    draw(PLOT_LENGTH);
    const struct chart *c = &plot.chart[0];
    assert_int_equal(c->n_series, 5);                                     /* mean and seeds of two arms; chance; no ceiling known */
    assert_int_equal(c->series[0].n, 2), assert_int_equal(c->series[1].n, 4);
    assert_true(c->series[1].role == CHART_SEED && c->mark == 8);
    assert_true(fabs(c->series[2].y[1] - (0.1 + 0.3) / 2) < 1e-12);         /* rope on shift at 16: 16 and 48 of 160 */
    clear();
    draw(PLOT_LOSS);
    assert_int_equal(plot.chart[0].n_series, 4);
    assert_int_equal(plot.chart[0].series[0].n, 100);                     /* of 300 points: means of three */
    assert_true(fabs(plot.chart[0].series[0].y[0] - (1 + 1 / 2.0 + 1 / 3.0) / 3) < 1e-12);
    assert_true(plot.chart[0].series[0].x[99] == 300);
    clear();
}
static void the_kind_fits_the_data(void **state)
{
    (void)state;
    OK(study_load(&study, store, NULL, &err));
    assert_int_equal(plot_choose(&study), PLOT_LENGTH);
    study.n_point = 1;
    assert_int_equal(plot_choose(&study), PLOT_SEEDS);
    study.n_point = 0;
    assert_int_equal(plot_choose(&study), PLOT_LOSS);
    study_release(&study);
}

/* ---- gnuplot ---- */

static int there_is_gnuplot(void) { return system("gnuplot --version >/dev/null 2>&1") == 0; }

static void gnuplot_draws_every_kind(void **state)
{
    static const struct { const char *format, *begins; } row[] = { { "svg", "<?xml" }, { "png", "\x89PNG" }, { "pdf", "%PDF" } };
    (void)state;
    if (!there_is_gnuplot()) skip();
    for (int kind = 0; kind < PLOT_KINDS; kind++) {
        draw((enum plot_kind)kind);
        for (int i = 0; i < 3; i++) {
            struct str script = { 0 }, out = { 0 };
            gnuplot_script(&plot, row[i].format, &script);
            OK(gnuplot_run(&script, &out, &err));
            if (strncmp(str_text(&out), row[i].begins, strlen(row[i].begins))) fail_msg("%s %s begins with '%.20s'", plot_names[kind], row[i].format, str_text(&out));
            str_free(&script), str_free(&out);
        }
        clear();
    }
}
/* Names from a file or a database are text, whatever stands in them. */
static void hostile_names_stay_text(void **state)
{
    struct str script = { 0 }, out = { 0 };
    char name[256];
    (void)state;
    if (!there_is_gnuplot()) skip();
    OK(plot_add(&plot, &compare, PLOT_RANKS));                            /* nothing: an empty comparison */
    assert_int_equal(plot.n, 0);
    struct chart chart, *c = &chart;
    chart_init(c, CHART_LINES);
    snprintf(name, sizeof name, "a'.system('touch %s').'`touch %s`$(touch %s)\\\"@x\n!touch %s", in_folder("1"), in_folder("1"), in_folder("1"), in_folder("1"));
    chart_set(c, &c->title, name), chart_set(c, &c->x_name, name), chart_set(c, &c->y_name, name), chart_set(c, &c->mark_name, name);
    c->mark = 1;
    chart_size(c, 0, 1);
    chart_set(c, &c->column[0], name), c->value[0] = 1;
    chart_point(c, chart_series(c, name, 0, CHART_MEAN), 1, 1);
    struct plot one = { .chart = c, .n = 1 };
    gnuplot_script(&one, "svg", &script);
    OK(gnuplot_run(&script, &out, &err));
    assert_int_equal(access(in_folder("1"), F_OK), -1);
    contains(str_text(&out), "system(");
    chart_free(c);
    str_free(&script), str_free(&out);
}
static void a_missing_gnuplot_is_said(void **state)
{
    struct str script = { 0 }, out = { 0 };
    char *path = strdup(getenv("PATH"));
    (void)state;
    for (int i = 0; i < 20000; i++) str_add(&script, "# more than a pipe holds\n");
    setenv("PATH", "/nowhere", 1);
    int rc = gnuplot_run(&script, &out, &err);
    setenv("PATH", path, 1);
    assert_int_equal(rc, GNUPLOT_MISSING);
    contains(err.msg, "gnuplot is not installed (Debian: apt install gnuplot-nox); --format text needs none");
    str_free(&script), str_free(&out);
    free(path);
}
static void a_script_that_fails_is_an_error(void **state)
{
    struct str script = { 0 }, out = { 0 };
    (void)state;
    if (!there_is_gnuplot()) skip();
    str_add(&script, "this is no command\n");
    FAILS(gnuplot_run(&script, &out, &err), "gnuplot could not draw this");
    str_free(&script), str_free(&out);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round), cmocka_unit_test(ticks_never_leave_the_range), cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(a_line_goes_from_corner_to_corner), cmocka_unit_test(a_grid_has_shades_and_numbers),
        CASE(every_kind_has_its_charts), CASE(every_seed_is_drawn), CASE(the_kind_fits_the_data), CASE(gnuplot_draws_every_kind),
        CASE(hostile_names_stay_text), cmocka_unit_test(a_missing_gnuplot_is_said), cmocka_unit_test(a_script_that_fails_is_an_error),
    };
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
