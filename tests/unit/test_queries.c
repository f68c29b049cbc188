/* Tests of store/query.c, of the views, and of the saved queries: on a set small enough to compute by hand. */
#include "unit/store_fixture.h"
#include <dirent.h>
#include "base/clock.h"
#include "base/str.h"

/* ---- a set of runs ----
 * shift, trained to 8, evaluated on 10 sequences at 8 and 16 (80 and 160 tokens).
 *   rope seeds 0 1 2: right tokens at 16: 80 112 144, so 0.5 0.7 0.9: mean 0.7, sample sd 0.2
 *   none seeds 0 1 2: right tokens at 16: 40 each, so 0.25: sd exactly 0; a seed 3 failed with nan
 *   rope with another option (its own arm, same variant), seed 0: 160 of 160
 */
struct made { int number; const char *encoder; int seed; const char *more; int right, exact; const char *status; };
static const struct made set[] = {
    { 1, "rope", 0, "", 80, 0, "done" },  { 2, "rope", 1, "", 112, 1, "done" }, { 3, "rope", 2, "", 144, 5, "done" },
    { 4, "none", 0, "", 40, 0, "done" },  { 5, "none", 1, "", 40, 0, "done" },  { 6, "none", 2, "", 40, 0, "done" },
    { 7, "none", 3, "", 0, 0, "failed" }, { 8, "rope", 0, ",\"x\":{\"base\":500}", 160, 10, "done" } };
enum { N_SET = sizeof set / sizeof *set };

static void make_run(struct store *s, int64_t sweep, const struct made *m)
{
    struct record position = { .type = RECORD_EVAL_POSITION, .split = "test", .length = 16, .step = 2000, .n_tok = 10 };
    struct record slice = { .type = RECORD_EVAL_SLICE, .split = "test", .length = 16, .step = 2000, .n = 5, .n_exact = 1, .n_tok = 40 };
    struct record untrained = { .type = RECORD_UNTRAINED, .name = "table", .position = 8, .n = 8, .length = 16 };
    int64_t run = add_run(s, m->number, m->encoder, "shift", m->seed, m->more), attempt = begin_attempt(s, run);
    OK(store_put_cell(s, sweep, m->number, run, *m->more ? "encoder.rope.base=500" : "", &err));
    put_metric(s, attempt, "loss", 1000, 1.0 + m->seed);
    put_metric(s, attempt, "loss", 2000, *m->status == 'd' ? 0.25 * (1 + m->seed) : NAN);
    put_eval(s, attempt, "valid", 16, 1000, 10, 2, 120, 0.75);
    put_eval(s, attempt, "valid", 16, 2000, 10, 2, 140, 0.5);             /* 7/8 */
    put_eval(s, attempt, "test", 16, 1000, 10, 10, 160, 0.0);             /* not the final one */
    put_eval(s, attempt, "test", 8, 2000, 10, 10, 80, 0.001);
    put_eval(s, attempt, "test", 16, 2000, 10, m->exact, m->right, 1.5);
    for (position.position = 0; position.position < 2; position.position++) {
        position.n_tok_ok = position.position ? 10 : m->seed;             /* position 0: right as often as the seed says */
        OK(store_put_record(s, attempt, &position, &err));
    }
    OK(store_put_record(s, attempt, &untrained, &err));
    put_eval(s, attempt, "free", 16, 2000, 4, 2, 32, 2.0);
    for (slice.position = 2; slice.position < 4; slice.position++) {
        slice.n_tok_ok = slice.position * 10 + m->seed;
        OK(store_put_record(s, attempt, &slice, &err));
    }
    end_attempt(s, attempt, m->status, *m->status == 'd' ? NULL : "loss is nan at step 2000");
}

static void make_set(const char *path, int backwards)
{
    struct store *s;
    struct record ceiling = { .type = RECORD_CEILING, .name = "order_blind", .length = 16, .value = 0.241, .error = 0.001, .n = 1000 };
    int64_t sweep;
    OK(store_open(&s, path, STORE_WRITE, &err));
    OK(store_begin(s, &err));
    OK(store_put_sweep(s, key(1), "made", "Does it work?", "made.ini", "", &sweep, &err));
    for (int i = 0; i < N_SET; i++) make_run(s, sweep, &set[backwards ? N_SET - 1 - i : i]);
    OK(store_put_ceiling(s, "shift", "shift", &ceiling, &err));
    add_run(s, 9, "t5", "shift", 0, "");                                  /* planned, never tried */
    OK(store_commit(s, &err));
    store_close(s);
}

/* ---- rows as text ---- */

struct rows { struct str text; int n, header_calls; };

static int take_header(void *ctx, int n, const char *const *name)
{
    struct rows *r = ctx;
    r->header_calls++;
    for (int i = 0; i < n; i++) str_printf(&r->text, "%s%s", i ? "|" : "", name[i]);
    str_add(&r->text, "\n");
    return 0;
}

static int take_row(void *ctx, int n, const struct store_value *v)
{
    struct rows *r = ctx;
    r->n++;
    for (int i = 0; i < n; i++) {
        str_add(&r->text, i ? "|" : "");
        if (v[i].type == STORE_INTEGER) str_printf(&r->text, "%lld", (long long)v[i].integer);
        if (v[i].type == STORE_REAL) str_real(&r->text, v[i].real);
        if (v[i].type == STORE_TEXT) str_add(&r->text, v[i].text);
        if (v[i].type == STORE_NULL) str_add(&r->text, "NULL");
    }
    str_add(&r->text, "\n");
    return 0;
}

static int query(struct store *s, const char *sql, struct rows *out)
{
    const struct store_rows rows = { NULL, take_row, out };
    str_clear(&out->text);
    out->n = 0;
    return store_query(s, sql, NULL, 0, 10, &rows, &err);
}

static struct store *open_set(void)
{
    struct store *s;
    make_set(in_folder("set.db"), 0);
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    return s;
}

static void expect(struct store *s, const char *sql, const char *want)
{
    struct rows got = { 0 };
    OK(query(s, sql, &got));
    if (strcmp(str_text(&got.text), want)) fail_msg("%s\n gave: %s\n want: %s", sql, str_text(&got.text), want);
    str_free(&got.text);
}

/* ---- the views ---- */

static void results_hold_final_test_evaluations_of_done_runs(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT count(*), count(DISTINCT run_key), max(step), min(step) FROM results", "14|7|2000|2000\n");
    expect(s, "SELECT encoder, seed, length, n, n_tok, token_accuracy, sequence_accuracy, loss, train_length, chance, label, data_sha256"
              " FROM results WHERE encoder = 'rope' AND label = '' AND seed = 2",
           "rope|2|8|10|80|1|1|0.001|8|0.1||data-8-10\nrope|2|16|10|160|0.9|0.5|1.5|8|0.1||data-16-10\n");
    expect(s, "SELECT seed, length FROM results WHERE label = 'encoder.rope.base=500'", "0|8\n0|16\n");
    expect(s, "SELECT count(*) FROM pragma_table_info('results') WHERE name LIKE '%uuid%' OR name LIKE '%_us' OR name LIKE '%utc%' OR name LIKE '%_id'", "0\n");
    store_close(s);
}

static void by_length_pools_seeds_of_one_arm(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT encoder, label, length, seeds, seeds_missing, token_accuracy_mean, round(token_accuracy_sd, 12), token_accuracy_min,"
              " token_accuracy_max, chance, order_blind_ceiling FROM by_length WHERE length = 16 ORDER BY encoder, label",
           "none||16|3|1|0.25|0|0.25|0.25|0.1|0.241\n"
           "rope||16|3|0|0.7|0.2|0.5|0.9|0.1|0.241\n"
           "rope|encoder.rope.base=500|16|1|0|1|NULL|1|1|0.1|0.241\n");
    /* whole sequences 0, 0.1, 0.5: mean 0.2, sample variance ((.2)^2 + (.1)^2 + (.3)^2) / 2 = 0.07 */
    expect(s, "SELECT round(sequence_accuracy_mean, 12), round(sequence_accuracy_sd * sequence_accuracy_sd, 12), sequence_accuracy_min, sequence_accuracy_max,"
              " loss_mean, loss_nonfinite FROM by_length WHERE length = 16 AND encoder = 'rope' AND label = ''", "0.2|0.07|0|0.5|1.5|0\n");
    expect(s, "SELECT token_accuracy_sd = 0.0 FROM by_length WHERE encoder = 'none'", "1\n1\n");      /* exactly */
    store_close(s);
}

static void by_length_never_pools_different_data(void **state)
{
    (void)state;
    struct store *s;
    make_set(in_folder("set.db"), 0);
    change(in_folder("set.db"), "UPDATE eval SET data_sha256 = 'other' WHERE attempt_id = 1");
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    expect(s, "SELECT data_sha256, seeds FROM by_length WHERE encoder = 'rope' AND label = '' AND length = 16", "data-16-10|2\nother|1\n");
    store_close(s);
}

static void curves_hold_training_and_evaluations(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT name, unit, step, value, special FROM curves WHERE encoder = 'rope' AND seed = 1",
           "loss|nat/token|1000|2|NULL\nloss|nat/token|2000|0.5|NULL\nloss@16|nat/token|1000|0.75|NULL\nloss@16|nat/token|2000|0.5|NULL\n"
           "sequence_accuracy@16|1|1000|0.2|NULL\nsequence_accuracy@16|1|2000|0.2|NULL\n"
           "token_accuracy@16|1|1000|0.75|NULL\ntoken_accuracy@16|1|2000|0.875|NULL\n");
    expect(s, "SELECT count(*) FROM curves", "56\n");                     /* 8 of each of 7 done runs */
    store_close(s);
}

static void slices_and_free_running(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT slice, n, seeds, token_accuracy_mean, sequence_accuracy_mean FROM by_slice WHERE encoder = 'rope' AND label = '' AND split = 'test'",
           "2|5|3|0.525|0.2\n3|5|3|0.775|0.2\n");
    expect(s, "SELECT seed, length, n, n_exact, token_accuracy, sequence_accuracy FROM free_running WHERE encoder = 'none'",
           "0|16|4|2|0.5|0.5\n1|16|4|2|0.5|0.5\n2|16|4|2|0.5|0.5\n");
    expect(s, "SELECT count(*) FROM results WHERE split <> 'test'", "0\n");
    store_close(s);
}

static void by_position_and_runs_and_failures(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT position, n, seeds, token_accuracy_mean, token_accuracy_min, token_accuracy_max FROM by_position WHERE encoder = 'rope' AND label = ''",
           "0|10|3|0.1|0|0.2\n1|10|3|1|1|1\n");
    expect(s, "SELECT encoder, seed, state, reason, attempts, steps, train_loss, active_s, step_ms, parameters FROM runs WHERE encoder <> 'rope'",
           "none|0|done|NULL|1|2000|0.25|4|2|1000\nnone|1|done|NULL|1|2000|0.5|4|2|1000\nnone|2|done|NULL|1|2000|0.75|4|2|1000\n"
           "none|3|failed|loss is nan at step 2000|1|2000|NULL|4|2|1000\nt5|0|pending|NULL|0|NULL|NULL|NULL|NULL|1000\n");
    expect(s, "SELECT encoder, seed, state, reason FROM failures", "none|3|failed|loss is nan at step 2000\n");
    expect(s, "SELECT encoder, seed, name, first_step, special, attempt_status FROM diverged", "none|3|loss|2000|nan|failed\n");
    expect(s, "SELECT started_utc GLOB '20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*Z' FROM runs WHERE seed = 3", "1\n");
    store_close(s);
}

static void paired_holds_each_pair_both_ways(void **state)
{
    (void)state;
    struct store *s = open_set();
    /* none: .25 at 16 for seeds 0 1 2; rope .5 .7 .9; the other rope 1 at seed 0.  Three arms pair at seed 0, two at 1 and 2. */
    expect(s, "SELECT seed, baseline_token_accuracy, token_accuracy, round(token_accuracy_gain, 12), sequence_accuracy_gain, loss_rise FROM paired"
              " WHERE baseline = 'none' AND encoder = 'rope' AND label = '' AND length = 16",
           "0|0.25|0.5|0.25|0|0\n1|0.25|0.7|0.45|0.1|0\n2|0.25|0.9|0.65|0.5|0\n");
    expect(s, "SELECT count(*), abs(round(sum(token_accuracy_gain), 9)) FROM paired WHERE length = 16", "10|0\n");
    expect(s, "SELECT count(*) FROM paired WHERE baseline_arm = arm", "0\n");
    store_close(s);
    change(in_folder("set.db"), "UPDATE eval SET data_sha256 = 'other' WHERE attempt_id = 1 AND length = 16");
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    expect(s, "SELECT count(*) FROM paired WHERE length = 16 AND seed = 0", "2\n");      /* other data: no partner */
    store_close(s);
}

static void by_seed_puts_seeds_side_by_side(void **state)
{
    (void)state;
    struct store *s = open_set();
    expect(s, "SELECT encoder, label, seed_0, seed_1, seed_2, seed_3, more_seeds FROM by_seed WHERE length = 16 ORDER BY encoder, label",
           "none||0.25|0.25|0.25|NULL|0\nrope||0.5|0.7|0.9|NULL|0\nrope|encoder.rope.base=500|1|NULL|NULL|NULL|0\n");
    store_close(s);
    change(in_folder("set.db"), "UPDATE run SET seed = 12 WHERE seed = 2 AND encoder = 'none'");
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    expect(s, "SELECT seed_2, more_seeds FROM by_seed WHERE length = 16 AND encoder = 'none'", "NULL|1\n");
    store_close(s);
}

/* Of an older lab, or of hands that changed them: whoever opens to write gets the views of this lab, and no data is lost. */
static void views_are_brought_up_to_date(void **state)
{
    (void)state;
    struct store *s;
    make_set(in_folder("set.db"), 0);
    char before[512];
    snprintf(before, sizeof before, "%s", ask(in_folder("set.db"), "SELECT group_concat(sql) FROM sqlite_schema WHERE name = 'runs'"));
    change(in_folder("set.db"), "DROP VIEW paired; DROP VIEW runs; CREATE VIEW runs AS SELECT 1 AS x");
    assert_string_equal(ask(in_folder("set.db"), "SELECT x FROM runs"), "1");             /* a reader changes nothing */
    struct rows got = { 0 };
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    FAILS(query(s, "SELECT * FROM paired", &got), "has no view paired yet: an earlier lab made it");
    store_close(s);
    OK(store_open(&s, in_folder("set.db"), STORE_WRITE, &err));
    store_close(s);
    assert_string_equal(ask(in_folder("set.db"), "SELECT group_concat(sql) FROM sqlite_schema WHERE name = 'runs'"), before);
    assert_string_equal(ask(in_folder("set.db"), "SELECT count(*) FROM paired WHERE length = 16"), "10");
    OK(store_open(&s, in_folder("set.db"), STORE_WRITE, &err));                           /* and once is enough */
    int64_t version = atoi(ask(in_folder("set.db"), "PRAGMA schema_version"));
    store_close(s);
    OK(store_open(&s, in_folder("set.db"), STORE_WRITE, &err));
    store_close(s);
    assert_int_equal(atoi(ask(in_folder("set.db"), "PRAGMA schema_version")), version);
}

static void order_of_work_does_not_show(void **state)
{
    (void)state;
    static const char *const view[] = { "SELECT * FROM results", "SELECT * FROM curves", "SELECT * FROM by_length", "SELECT * FROM by_position" };
    struct store *s[2];
    make_set(in_folder("one.db"), 0);
    make_set(in_folder("two.db"), 1);
    OK(store_open(&s[0], in_folder("one.db"), STORE_READ, &err));
    OK(store_open(&s[1], in_folder("two.db"), STORE_READ, &err));
    for (int i = 0; i < 4; i++) {
        struct rows a = { 0 }, b = { 0 };
        OK(query(s[0], view[i], &a));
        OK(query(s[1], view[i], &b));
        assert_true(a.n > 5);
        assert_string_equal(str_text(&a.text), str_text(&b.text));
        str_free(&a.text);
        str_free(&b.text);
    }
    store_close(s[0]);
    store_close(s[1]);
}

/* The set above, and a second experiment that asks for its first two runs by another label. */
static void make_two_experiments(const char *path)
{
    struct store *s;
    int64_t sweep;
    make_set(path, 0);
    OK(store_open(&s, path, STORE_WRITE, &err));
    OK(store_put_sweep(s, key(2), "second", "And this?", "second.ini", "", &sweep, &err));
    for (int i = 1; i <= 2; i++) OK(store_put_cell(s, sweep, i, i, "second", &err));
    store_close(s);
}

static void a_reader_is_narrowed_to_one_experiment(void **state)
{
    (void)state;
    static const struct { const char *sql, *whole, *first, *second; } want[] = {
        { "SELECT count(*) FROM run", "9\n", "8\n", "2\n" }, { "SELECT group_concat(name) FROM sweep", "made,second\n", "made\n", "second\n" },
        { "SELECT count(*) FROM sweep_cell", "10\n", "8\n", "2\n" }, { "SELECT count(*) FROM results", "14\n", "14\n", "4\n" },
        { "SELECT max(label) FROM runs WHERE encoder = 'rope' AND seed = 1", "second\n", "\n", "second\n" },
        { "SELECT seeds, seeds_missing, token_accuracy_mean FROM by_length WHERE encoder = 'rope' AND length = 16 AND seeds > 1", "3|0|0.7\n", "3|0|0.7\n", "2|0|0.6\n" },
        { "SELECT count(*) FROM paired WHERE length = 16", "10\n", "10\n", "0\n" }, { "SELECT count(*) FROM failures", "1\n", "1\n", "0\n" },
        { "SELECT count(*) FROM curves WHERE name = 'loss'", "14\n", "14\n", "4\n" } };
    struct store *s[3], *writer;
    struct rows got = { 0 };
    char before[HASH_HEX], after[HASH_HEX];
    int found;
    make_two_experiments(in_folder("set.db"));
    OK(hash_file(in_folder("set.db"), before, &err));
    for (int i = 0; i < 3; i++) OK(store_open(&s[i], in_folder("set.db"), STORE_READ, &err));
    OK(store_scope(s[0], key(3), &found, &err));                          /* no such experiment: nothing is narrowed */
    assert_int_equal(found, 0);
    OK(store_scope(s[1], key(1), &found, &err));
    assert_int_equal(found, 1);
    OK(store_scope(s[2], NULL, &found, &err));                            /* the one entered last */
    assert_int_equal(found, 1);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        expect(s[0], want[i].sql, want[i].whole);
        expect(s[1], want[i].sql, want[i].first);
        expect(s[2], want[i].sql, want[i].second);
    }
    assert_int_equal(query(s[2], "DELETE FROM metric", &got), -2);        /* and reads only, as before */
    assert_int_equal(query(s[2], "CREATE TEMP TABLE t(x)", &got), -2);
    for (int i = 0; i < 3; i++) store_close(s[i]);
    OK(hash_file(in_folder("set.db"), after, &err));
    assert_string_equal(before, after);
    OK(store_open(&writer, in_folder("set.db"), STORE_WRITE, &err));
    FAILS(store_scope(writer, NULL, &found, &err), "a writer sees the whole database");
    store_close(writer);
    str_free(&got.text);
}

/* Tables that grow with the work are searched, never scanned, when a view is asked for one run or one encoder. */
static void views_use_their_indexes(void **state)
{
    (void)state;
    static const char *const sql[] = {
        "SELECT * FROM runs WHERE run_key = 'x'", "SELECT * FROM results WHERE run_key = 'x'", "SELECT * FROM curves WHERE run_key = 'x'",
        "SELECT * FROM curves WHERE task = 'shift' AND encoder = 'rope' AND name = 'loss'", "SELECT * FROM curves", "SELECT * FROM results",
        "SELECT * FROM by_length WHERE task = 'shift' AND encoder = 'rope'", "SELECT * FROM by_position WHERE task = 'shift' AND encoder = 'rope'",
        "SELECT r.encoder, s.state FROM sweep_cell c JOIN run r USING(run_id) JOIN runs s USING(run_key) WHERE c.sweep_id = 1",
        "SELECT e.token_accuracy FROM sweep_cell c JOIN run r USING(run_id) JOIN results e USING(run_key) WHERE c.sweep_id = 1" };
    struct store *s[2] = { open_set() };
    enum { N = sizeof sql / sizeof *sql };
    int found;
    OK(store_open(&s[1], in_folder("set.db"), STORE_READ, &err));
    OK(store_scope(s[1], NULL, &found, &err));
    for (int i = 0; i < 2 * N; i++) {
        char explain[512];
        struct rows got = { 0 };
        snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", sql[i % N]);
        OK(query(s[i / N], explain, &got));
        if (strstr(str_text(&got.text), "SCAN m\n") || strstr(str_text(&got.text), "SCAN m USING") || strstr(str_text(&got.text), "SCAN p") ||
            strstr(str_text(&got.text), "SCAN a"))
            fail_msg("%s%s:\n%s", sql[i % N], i < N ? "" : " (narrowed)", str_text(&got.text));
        str_free(&got.text);
    }
    store_close(s[0]);
    store_close(s[1]);
}

/* ---- the saved queries ---- */

static void read_text(const char *path, struct str *text)
{
    char buffer[512];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0; ) str_addn(text, buffer, n);
    fclose(f);
}

static void read_query(const char *name, struct str *sql)
{
    char path[512];
    snprintf(path, sizeof path, "results/queries/%s", name);
    read_text(path, sql);
}

static int lines_of(const char *command)
{
    int lines = 0, c;
    FILE *f = popen(command, "r");
    while ((c = fgetc(f)) != EOF) lines += c == '\n';
    assert_int_equal(pclose(f), 0);
    return lines;
}

static void saved_queries_run_here_and_in_the_sqlite3_program(void **state)
{
    (void)state;
    static const struct { const char *name; int rows; } want[] = {     /* on the set above */
        { "compare_encoders.sql", 6 },   /* 3 arms x 2 lengths */
        { "loss_curves.sql", 6 },        /* 3 arms x 2 steps */
        { "final_table.sql", 9 },        /* every run, done or not */
        { "never_trained.sql", 7 }, { "failures.sql", 1 },
        { "by_position.sql", 6 },        /* 3 arms x 2 positions */
        { "by_slice.sql", 6 },           /* 3 arms x 2 slices */
        { "free_running.sql", 3 },       /* 3 arms x 1 length */
        { "run_times.sql", 3 },
        { "best_encoder.sql", 2 },       /* the best arm against the two others */
        { "paired_gain.sql", 12 },       /* 3 arms x 2 others x 2 lengths */
        { "seeds.sql", 6 }, { "order_blind.sql", 6 },
        { "learning_speed.sql", 9 },     /* every run, done or not */
        { "more_training.sql", 3 }, { "reach.sql", 3 }, { "provenance.sql", 1 }, { "past_training.sql", 6 } };      /* 3 arms, forced and alone */
    enum { N = sizeof want / sizeof *want };
    struct store *s = open_set();
    struct rows got = { 0 };
    int files = 0;
    DIR *dir = opendir("results/queries");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)); ) if (strstr(e->d_name, ".sql")) files++;
    closedir(dir);
    assert_int_equal(files, N);
    for (int i = 0; i < N; i++) {
        char command[512];
        struct str sql = { 0 };
        read_query(want[i].name, &sql);
        if (strncmp(str_text(&sql), "-- ", 3) || !strchr(str_text(&sql), '?')) fail_msg("%s does not open with its question", want[i].name);
        OK(query(s, str_text(&sql), &got));
        if (got.n != want[i].rows) fail_msg("%s: %d rows, expected %d:\n%s", want[i].name, got.n, want[i].rows, str_text(&got.text));
        snprintf(command, sizeof command, "sqlite3 -bail -readonly %s < results/queries/%s", in_folder("set.db"), want[i].name);
        assert_int_equal(lines_of(command), want[i].rows);
        str_free(&sql);
    }
    struct str sql = { 0 };
    read_query("final_table.sql", &sql);
    OK(query(s, str_text(&sql), &got));
    assert_non_null(strstr(str_text(&got.text), "shift|rope||1|done|2000|0.5|8|1|1\n"));
    assert_non_null(strstr(str_text(&got.text), "shift|none||3|failed|2000|NULL|NULL|NULL|NULL\n"));
    str_clear(&sql);
    read_query("compare_encoders.sql", &sql);
    OK(query(s, str_text(&sql), &got));
    assert_non_null(strstr(str_text(&got.text), "shift|rope||8|16|3|0|0.7|0.2|0.5|0.9|0.2|0.2646|0|0.5|0.1|0.241\n"));
    str_free(&sql);
    static const struct { const char *name, *line; } known[] = {
        /* rope with base 500 has 1 at its only seed; rope -.5 there, one pair; none .25 */
        { "best_encoder.sql", "shift|rope|encoder.rope.base=500|1|rope||0.7|0.5|1|1|1\n" },
        { "paired_gain.sql", "shift|none||rope||16|1|3|0.45|0.25|0.65|3|0\n" },
        { "more_training.sql", "shift|rope||16|1|3|1000|0.75|2000|0.875|0.125|0.125|0.125\n" },
        { "reach.sql", "shift|none||8|3|8|8|8|16\n" }, { "reach.sql", "shift|rope||8|3|16|16|16|16\n" },
        { "order_blind.sql", "shift|none||16|1|3|0.1|0.241|0.25|0.25|at it\n" },
        { "order_blind.sql", "shift|rope||16|1|3|0.1|0.241|0.7|0.9|above\n" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct str text = { 0 };
        read_query(known[i].name, &text);
        OK(query(s, str_text(&text), &got));
        if (!strstr(str_text(&got.text), known[i].line)) fail_msg("%s gave\n%s\nexpected in it: %s", known[i].name, str_text(&got.text), known[i].line);
        str_free(&text);
    }
    str_free(&got.text);
    store_close(s);
}

/* ---- results/README.md ---- */

/* The part of the text between the heading "### name" and the next heading; fails if there is none. */
static char *section(const char *text, const char *name)
{
    char heading[80];
    snprintf(heading, sizeof heading, "\n### %s\n", name);
    const char *start = strstr(text, heading), *end;
    if (!start) fail_msg("results/README.md has no heading '### %s'", name);
    start += strlen(heading);
    end = strstr(start, "\n##");
    return end ? strndup(start, (size_t)(end - start)) : strdup(start);
}

static int find_column(void *ctx, int n, const struct store_value *v)
{
    char quoted[80], *text = section(ctx, v[0].text);
    (void)n;
    snprintf(quoted, sizeof quoted, "`%s`", v[1].text);
    if (!strstr(text, quoted)) fail_msg("results/README.md does not describe %s.%s", v[0].text, v[1].text);
    free(text);
    return 0;
}

static void every_column_is_described(void **state)
{
    (void)state;
    struct store *s = open_set();
    struct str readme = { 0 };
    char *at;
    read_text("results/README.md", &readme);
    const struct store_rows rows = { NULL, find_column, readme.text };
    OK(store_query(s, "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type IN ('table', 'view')", NULL, 0, 0, &rows, &err));
    int examples = 0;
    for (at = readme.text; (at = strstr(at, "```sql\n")); examples++) {          /* and its examples run */
        at += 7;
        struct rows got = { 0 };
        char *sql = strndup(at, (size_t)(strstr(at, "```") - at));
        OK(query(s, sql, &got));
        assert_true(got.n > 0);
        free(sql);
        str_free(&got.text);
    }
    assert_int_equal(examples, 3);
    str_free(&readme);
    store_close(s);
}

/* ---- what is accepted ---- */

static void values_keep_their_types(void **state)
{
    (void)state;
    struct store *s = open_set();
    struct rows got = { 0 };
    const struct store_rows rows = { take_header, take_row, &got };
    const char *const args[] = { "rope", "1" };
    expect(s, "SELECT 1, 2.5, 'a b', NULL, 9223372036854775807, 0.1", "1|2.5|a b|NULL|9223372036854775807|0.1\n");
    expect(s, "SELECT value FROM run, json_each(config, '$.train.length') WHERE run_id = 1", "8\n8\n");
    expect(s, " -- a comment\n WITH x(n) AS (VALUES(1), (2)) SELECT n FROM x ; -- the end\n", "1\n2\n");
    OK(store_query(s, "SELECT encoder AS e, seed FROM runs WHERE encoder = ?1 AND seed = ?2 AND label = ''", args, 2, 0, &rows, &err));
    assert_string_equal(str_text(&got.text), "e|seed\nrope|1\n");
    str_clear(&got.text);
    OK(store_query(s, "SELECT seed FROM runs WHERE 0", NULL, 0, 0, &rows, &err));       /* a header even without rows */
    assert_string_equal(str_text(&got.text), "seed\n");
    assert_int_equal(got.header_calls, 2);
    assert_int_equal(store_query(s, "SELECT ?, ?", args, 1, 0, &rows, &err), -2);
    assert_non_null(strstr(err.msg, "has 2 parameters (?), but 1 values"));
    str_free(&got.text);
    store_close(s);
}

static int stop_at_once(void *ctx, int n, const struct store_value *v)
{
    (void)n, (void)v;
    ++*(int *)ctx;
    return 1;
}

static void a_reader_of_rows_may_stop(void **state)
{
    (void)state;
    int calls = 0;
    const struct store_rows rows = { NULL, stop_at_once, &calls };
    struct store *s = open_set();
    OK(store_query(s, "SELECT * FROM results", NULL, 0, 0, &rows, &err));
    assert_int_equal(calls, 1);
    store_close(s);
}

static void only_one_statement_that_reads(void **state)
{
    (void)state;
    static const struct { const char *sql, *message; } bad[] = {
        { "DELETE FROM metric", "queries are read-only" }, { "UPDATE run SET seed = 1", "queries are read-only" },
        { "INSERT INTO meta VALUES('a', 'b')", "queries are read-only" }, { "DROP TABLE run", "queries are read-only" },
        { "CREATE TEMP TABLE t(x)", "queries are read-only" }, { "CREATE VIEW v AS SELECT 1", "queries are read-only" },
        { "ATTACH 'other.db' AS o", "queries are read-only" }, { "DETACH main", "queries are read-only" },
        { "VACUUM INTO 'copy.db'", "queries are read-only" }, { "BEGIN", "queries are read-only" }, { "REINDEX", "queries are read-only" },
        { "PRAGMA query_only = OFF", "queries are read-only" }, { "PRAGMA journal_mode = DELETE", "queries are read-only" },
        { "PRAGMA user_version = 9", "queries are read-only" }, { "PRAGMA wal_checkpoint", "queries are read-only" },
        { "SELECT load_extension('x.so')", "not authorized" },
        { "UPDATE sqlite_master SET sql = ''", "may not be modified" }, { "PRAGMA writable_schema = ON", "queries are read-only" },
        { "EXPLAIN DELETE FROM run", "queries are read-only" },
        { "WITH x AS (SELECT 1) INSERT INTO meta SELECT 'a', 'b'", "queries are read-only" },
        { "SELECT 1; SELECT 2", "a second begins at 'SELECT 2'" }, { "SELECT 1; DROP TABLE run", "a second begins at 'DROP TABLE run'" },
        { "SELECT 1; garbage", "a second begins at 'garbage'" }, { "", "there is no statement" }, { " -- nothing\n", "there is no statement" },
        { "SELECT encoder FORM results", "near \"results\": syntax error, at 'results'" }, { "SELEC 1", "near \"SELEC\": syntax error, at 'SELEC 1'" },
        { "SELECT acc FROM results", "no such column: acc" }, { "SELECT * FROM nowhere", "no such table: nowhere" }, { "SELECT 'x", "unrecognized token" } };
    struct store *s = open_set(), *writer;
    struct rows got = { 0 };
    store_close(s);
    char before[HASH_HEX], after[HASH_HEX];
    OK(hash_file(in_folder("set.db"), before, &err));
    OK(store_open(&s, in_folder("set.db"), STORE_READ, &err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = query(s, bad[i].sql, &got);
        if (rc != -2) fail_msg("%s: %d, expected -2", bad[i].sql, rc);
        assert_message(rc, bad[i].sql, bad[i].message);
    }
    store_close(s);
    OK(hash_file(in_folder("set.db"), after, &err));
    assert_string_equal(before, after);

    OK(store_open(&writer, in_folder("set.db"), STORE_WRITE, &err));      /* a writer's handle too answers questions only */
    assert_int_equal(query(writer, "DELETE FROM metric", &got), -2);
    OK(query(writer, "SELECT 1", &got));
    add_run(writer, 99, "rope", "sort", 0, "");                           /* and can still write afterwards */
    expect(writer, "SELECT count(*) FROM run WHERE task = 'sort'", "1\n");
    store_close(writer);
    str_free(&got.text);
}

static void a_long_query_is_stopped(void **state)
{
    (void)state;
    struct store *s = open_set();
    struct rows got = { 0 };
    const struct store_rows rows = { NULL, take_row, &got };
    int64_t start = clock_ns();
    int rc = store_query(s, "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n", NULL, 0, 0.2, &rows, &err);
    double seconds = (double)(clock_ns() - start) / 1e9;
    assert_int_equal(rc, -2);
    assert_non_null(strstr(err.msg, "stopped after 0.2 seconds"));
    if (seconds < 0.2 || seconds > 5) fail_msg("stopped after %g s, asked for 0.2", seconds);
    OK(query(s, "SELECT 1", &got));                                       /* the limit went with its query */
    str_free(&got.text);
    store_close(s);
}

static void damage_found_later_is_the_database_s_fault(void **state)
{
    (void)state;
    const char *p = in_folder("set.db");
    struct store *s;
    struct rows got = { 0 };
    make_set(p, 0);
    long page = atol(ask(p, "SELECT rootpage FROM sqlite_schema WHERE name = 'metric'"));
    FILE *f = fopen(p, "r+");
    assert_int_equal(fseek(f, (page - 1) * 4096, SEEK_SET), 0);
    for (int i = 0; i < 4096; i++) fputc(0xff, f);
    fclose(f);
    OK(store_open(&s, p, STORE_READ, &err));
    assert_int_equal(query(s, "SELECT * FROM metric", &got), -1);
    assert_message(-1, "damaged", "it is damaged");
    str_free(&got.text);
    store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(results_hold_final_test_evaluations_of_done_runs), TEST(by_length_pools_seeds_of_one_arm), TEST(by_length_never_pools_different_data),
        TEST(curves_hold_training_and_evaluations), TEST(by_position_and_runs_and_failures), TEST(slices_and_free_running),
        TEST(order_of_work_does_not_show), TEST(a_reader_is_narrowed_to_one_experiment),
        TEST(paired_holds_each_pair_both_ways), TEST(by_seed_puts_seeds_side_by_side), TEST(views_are_brought_up_to_date),
        TEST(views_use_their_indexes), TEST(saved_queries_run_here_and_in_the_sqlite3_program), TEST(every_column_is_described), TEST(values_keep_their_types),
        TEST(a_reader_of_rows_may_stop), TEST(only_one_statement_that_reads), TEST(a_long_query_is_stopped),
        TEST(damage_found_later_is_the_database_s_fault) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
