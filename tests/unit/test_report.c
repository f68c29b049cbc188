/* test_report -- the page of a made-up experiment: what it must say, that it is well-formed, that it hides nothing. */
#include "unit/store_fixture.h"
#include "answer/report.h"

static struct store *store;
static int64_t sweep, ordinal;
static const char ini[] = "; <b>quoted</b> & \"said\"\n[sweep]\n\tencoder = none, rope\n";

static int set_up(void **state)
{
    if (make_folder(state) != 0) return -1;
    OK(store_open(&store, in_folder("lab.db"), STORE_WRITE, &err));
    OK(store_put_sweep(store, key(1), "made <script>alert(1)</script>", "Does it & work?", "/somewhere/made.ini", ini, &sweep, &err));
    ordinal = 0;
    return 0;
}
static int tear_down(void **state)
{
    store_close(store);
    return remove_folder(state);
}

static int64_t begin_run(int number, const char *encoder, const char *task, int seed, const char *label)
{
    int64_t run = add_run(store, number, encoder, task, seed, "");
    OK(store_put_cell(store, sweep, ordinal++, run, label, &err));
    return begin_attempt(store, run);
}
/* right: of 160 tokens at length 16; all 80 at 8 */
static void done(int number, const char *encoder, const char *task, int seed, int right)
{
    int64_t attempt = begin_run(number, encoder, task, seed, "");
    struct record position = { .type = RECORD_EVAL_POSITION, .split = "test", .length = 16, .step = 2000, .n_tok = 10, .n_tok_ok = 5 };
    struct record untrained = { .type = RECORD_UNTRAINED, .name = "encoder.table", .position = 8, .n = 8, .length = 16 };
    for (int step = 100; step <= 2000; step += 100) put_metric(store, attempt, "loss", step, 1.0 / step);
    put_eval(store, attempt, "test", 8, 2000, 10, 10, 80, 0.1), put_eval(store, attempt, "test", 16, 2000, 10, 1, right, 0.2);
    for (position.position = 0; position.position < 16; position.position++) OK(store_put_record(store, attempt, &position, &err));
    if (!strcmp(encoder, "rope")) OK(store_put_record(store, attempt, &untrained, &err));
    end_attempt(store, attempt, "done", NULL);
}
static void ceiling(const char *task)
{
    struct record c = { .type = RECORD_CEILING, .name = "order_blind", .length = 16, .value = 0.24, .error = 0.001, .n = 1000 };
    OK(store_put_ceiling(store, task, task, &c, &err));
}
/* shift at 16: none .25 .25 .25, rope .5 .6 .7: differences .25 .35 .45, mean .35, half-width 4.302653 * .1 / sqrt 3 = .248.
 * copy: both at .2, below the ceiling.  One run of rope on copy failed. */
static void make(void)
{
    int number = 1;
    for (int seed = 0; seed < 3; seed++) done(number++, "none", "shift", seed, 40);
    for (int seed = 0; seed < 3; seed++) done(number++, "rope", "shift", seed, 80 + 16 * seed);
    for (int seed = 0; seed < 3; seed++) done(number++, "none", "copy", seed, 32);
    for (int seed = 0; seed < 2; seed++) done(number++, "rope", "copy", seed, 30);
    int64_t attempt = begin_run(number, "rope", "copy", 2, "");
    put_metric(store, attempt, "loss", 7, NAN);
    end_attempt(store, attempt, "failed", "loss is nan at step 7 <here>");
    ceiling("shift"), ceiling("copy");
}

static struct study study;
static char *page(struct store *from, const char *baseline)
{
    static char *copy;
    struct str out = { 0 };
    OK(study_load(&study, from, NULL, &err));
    OK(report_write(&study, baseline, &out));
    study_release(&study);
    free(copy);
    copy = strdup(str_text(&out));
    str_free(&out);
    return copy;
}
static void contains(const char *found, const char *expected)
{
    if (strstr(found, expected)) return;
    FILE *f = fopen("/tmp/lab_report_failed.html", "w");
    if (f) fputs(found, f), fclose(f);
    fail_msg("the page (now in /tmp/lab_report_failed.html) has no '%s'", expected);
}

static void the_answer_comes_first_and_in_words(void **state)
{
    (void)state;
    make();
    const char *html = page(store, NULL);
    contains(html, "On shift, beyond length 8, <strong>rope</strong> does best: 0.600 of the tokens are right [0.352, 0.848], mean over 3 of 3 seeds.");
    contains(html, "<li>It beats none, the second, by 0.350 [0.102, 0.598], in 3 of 3 seeds; p = 0.250 by exact sign flips.</li>");
    contains(html, "With 3 seeds p cannot be below 0.250; 5 seeds would be needed for p &lt; 0.1, 6 for p &lt; 0.05.");
    contains(html, "On copy, beyond length 8, <strong>none</strong> does best: 0.200 of the tokens are right, mean over 3 of 3 seeds. "
             "That is no more than a model without positions can reach (0.240): nobody goes past the training length here.");
    assert_true(strstr(html, "id=\"answer\"") < strstr(html, "<table"));
}
static void nothing_is_hidden(void **state)
{
    (void)state;
    make();
    const char *html = page(store, NULL);
    contains(html, "11 of 12 runs are done; 1 failed or were stopped; 0 are still to do. In 1 run some number was not finite.");
    contains(html, "<li>copy rope  seed 2, failed: loss is nan at step 7 &lt;here&gt;</li>");
    contains(html, "<td class=\"n\">2/3</td>");                             /* in the comparison */
    contains(html, "encoder.table");                                       /* never trained */
    contains(html, "; &lt;b&gt;quoted&lt;/b&gt; &amp; &quot;said&quot;\n[sweep]\n\tencoder = none, rope\n");      /* the exact file */
}
static void nothing_in_it_is_code(void **state)
{
    (void)state;
    make();
    const char *html = page(store, NULL);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "http:"));
    assert_null(strstr(html, "https:"));
    assert_null(strstr(html, "/somewhere"));
    contains(html, "<h1>made &lt;script&gt;alert(1)&lt;/script&gt;</h1>");
    contains(html, "<p class=\"question\">Does it &amp; work?</p>");
}
static void the_same_database_gives_the_same_bytes(void **state)
{
    struct store *copy;
    char command[256];
    (void)state;
    make();
    char *first = strdup(page(store, NULL));
    snprintf(command, sizeof command, "sqlite3 %s '.backup %s'", in_folder("lab.db"), in_folder("other name.db"));
    snprintf(command, sizeof command, "sqlite3 '%s' \".backup '%s'\"", in_folder("lab.db"), in_folder("copy.db"));
    assert_int_equal(system(command), 0);
    sleep(1);                                                              /* no time of writing may be in it */
    OK(store_open(&copy, in_folder("copy.db"), STORE_READ, &err));
    assert_string_equal(page(copy, NULL), first);
    store_close(copy);
    free(first);
}

/* Elements must close in order; a void element is never closed, a foreign one may close itself. */
static void it_is_well_formed(void **state)
{
    static const char *const voids[] = { "meta", "link", "!DOCTYPE", "path", "rect", "line", "polyline" };
    char open[64][16];
    int depth = 0;
    (void)state;
    make();
    for (const char *at = strchr(page(store, NULL), '<'); at; at = strchr(at + 1, '<')) {
        char name[16] = "";
        sscanf(at, at[1] == '/' ? "</%15[a-zA-Z0-9!]" : "<%15[a-zA-Z0-9!]", name);
        int is_void = 0;
        for (size_t i = 0; i < sizeof voids / sizeof *voids; i++) is_void |= !strcmp(name, voids[i]);
        if (!*name) fail_msg("not a tag: %.40s", at);
        if (at[1] == '/') {
            if (depth == 0 || strcmp(open[--depth], name)) fail_msg("</%s> closes <%s> at: %.60s", name, depth >= 0 ? open[depth] : "", at);
        } else if (!is_void) {
            assert_in_range(depth, 0, 63);
            strcpy(open[depth++], name);
        }
    }
    assert_int_equal(depth, 0);
}
static int count_row(void *ctx, int n, const struct store_value *v)
{
    (void)n, (void)v;
    ++*(int *)ctx;
    return 0;
}
/* What is called the SQL of a table runs, and gives rows. */
static void its_sql_runs(void **state)
{
    int queries = 0;
    (void)state;
    make();
    for (const char *at = page(store, NULL); (at = strstr(at, "<pre class=\"sql\">")); queries++) {
        char sql[2048];
        int n = 0, rows = 0;
        for (at += strlen("<pre class=\"sql\">"); strncmp(at, "</pre>", 6); ) {
            if (!strncmp(at, "&gt;", 4)) sql[n++] = '>', at += 4;
            else if (!strncmp(at, "&lt;", 4)) sql[n++] = '<', at += 4;
            else if (!strncmp(at, "&quot;", 6)) sql[n++] = '"', at += 6;
            else sql[n++] = *at++;
        }
        sql[n] = '\0';
        const struct store_rows count = { NULL, count_row, &rows };
        OK(store_query(store, sql, NULL, 0, 0, &count, &err));
        if (rows == 0) fail_msg("no row from\n%s", sql);
    }
    assert_int_equal(queries, 2 * 3 + 3);                                  /* three a task; cost, never trained, environment */
}
static void every_figure_speaks_and_has_its_data(void **state)
{
    int figures = 0, titles = 0, descriptions = 0, data = 0;
    (void)state;
    make();
    const char *html = page(store, NULL);
    for (const char *at = html; (at = strstr(at, "<figure>")); at++) figures++;
    for (const char *at = html; (at = strstr(at, "<title id=")); at++) titles++;
    for (const char *at = html; (at = strstr(at, "<desc id=")); at++) descriptions++;
    for (const char *at = html; (at = strstr(at, "Data of this figure")); at++) data++;
    assert_int_equal(figures, 2 * (3 + 2) + 1);                            /* length, seeds, loss; positions of two arms; ranks */
    assert_int_equal(titles, figures), assert_int_equal(descriptions, figures), assert_int_equal(data, figures);
    assert_null(strstr(html, ",nan")), assert_null(strstr(html, "\"nan")), assert_null(strstr(html, "(nan"));
}
static void an_experiment_without_results_has_a_page(void **state)
{
    (void)state;
    int64_t run = add_run(store, 1, "none", "shift", 0, "");
    OK(store_put_cell(store, sweep, 0, run, "", &err));
    const char *html = page(store, NULL);
    contains(html, "On shift, trained at length 8, no run has been evaluated yet.");
    contains(html, "0 of 1 runs are done; 0 failed or were stopped; 1 are still to do.");
}
static void an_unknown_baseline_is_refused(void **state)
{
    struct str out = { 0 };
    (void)state;
    make();
    OK(study_load(&study, store, NULL, &err));
    assert_int_equal(report_write(&study, "alibi", &out), COMPARE_REFUSED);
    contains(err.msg, "no encoder 'alibi' in this experiment; there are: none, rope");
    study_release(&study);
    str_free(&out);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_answer_comes_first_and_in_words), CASE(nothing_is_hidden), CASE(nothing_in_it_is_code),
        CASE(the_same_database_gives_the_same_bytes), CASE(it_is_well_formed), CASE(its_sql_runs), CASE(every_figure_speaks_and_has_its_data),
        CASE(an_experiment_without_results_has_a_page), CASE(an_unknown_baseline_is_refused),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
