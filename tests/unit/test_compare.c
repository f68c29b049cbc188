/* test_compare -- comparisons of made-up runs whose numbers were worked out by hand. */
#include "unit/store_fixture.h"
#include "answer/compare.h"
#include "base/str.h"

static struct store *store;
static int64_t sweep, ordinal;

static int set_up(void **state)
{
    if (make_folder(state) != 0) return -1;
    OK(store_open(&store, in_folder("lab.db"), STORE_WRITE, &err));
    OK(store_put_sweep(store, key(1), "made", "Does it work?", "made.ini", "[sweep]", &sweep, &err));
    ordinal = 0;
    return 0;
}
static int tear_down(void **state)
{
    store_close(store);
    return remove_folder(state);
}

struct spec { const char *encoder, *task, *label, *commit, *data, *cpu; int seed, steps; };
static int64_t plan(struct spec r)
{
    char config[256], name[300];
    int64_t run;
    snprintf(config, sizeof config, "{\"train\":{\"batch\":64,\"length\":[8,8],\"steps\":%d},\"x\":\"%s\",\"encoder\":\"%s\"}", r.steps ? r.steps : 100,
             r.label ? r.label : "", r.encoder);
    char hash[HASH_HEX], variant[HASH_HEX];
    snprintf(name, sizeof name, "%s %s %d", config, r.task, r.seed);
    hash_bytes(name, strlen(name), hash);
    snprintf(name, sizeof name, "%d", r.steps);
    hash_bytes(name, strlen(name), variant);
    struct store_run row = { .key = hash, .encoder = r.encoder, .task = r.task, .variant = variant, .task_key = r.task, .config = config,
                             .seed = r.seed, .parameters = 100, .chance = 0.1 };
    OK(store_put_run(store, &row, &run, &err));
    OK(store_put_cell(store, sweep, ordinal++, run, r.label ? r.label : "", &err));
    return run;
}
static int64_t begin(struct spec r)
{
    char json[256];
    int64_t env, attempt, run = plan(r);
    snprintf(json, sizeof json, "{\"commit\":\"%s\",\"real\":\"float\",\"compiler\":\"cc\",\"flags\":\"-O2\",\"task_sha256\":\"t\",\"dirty\":\"no\","
             "\"cpu\":\"%s\",\"blas\":\"BLAS\",\"simd\":\"avx2\"}", r.commit ? r.commit : "abc", r.cpu ? r.cpu : "Old CPU");
    OK(store_put_env(store, json, &env, &err));
    OK(store_attempt_begin(store, run, env, getpid(), &attempt, &err));
    return attempt;
}
/* ok of 1000 tokens right */
static void eval(int64_t attempt, const char *data, int length, int ok, double loss)
{
    struct record r = { .type = RECORD_EVAL, .split = "test", .length = length, .step = 2000, .n = 100, .n_exact = ok / 10, .n_tok = 1000,
                        .n_tok_ok = ok, .value = loss };
    snprintf(r.sha256, sizeof r.sha256, "%s", data ? data : "data");
    OK(store_put_record(store, attempt, &r, &err));
}
static void done(struct spec r, int at8, int at12, int at16)
{
    int64_t attempt = begin(r);
    eval(attempt, r.data, 8, at8, 0.1), eval(attempt, r.data, 12, at12, 2 - at12 / 1000.0), eval(attempt, r.data, 16, at16, 2 - at16 / 1000.0);
    end_attempt(store, attempt, "done", NULL);
}

/* On shift, mean over 12 and 16: none .2 .3 .4 for seeds 0 1 2 and failed at 3; rope .5 .7 .6 and .9 at 3. */
static void make_shift(void)
{
    for (int seed = 0; seed < 3; seed++) done((struct spec){ .encoder = "none", .task = "shift", .seed = seed }, 320, 210 + 100 * seed, 190 + 100 * seed);
    end_attempt(store, begin((struct spec){ .encoder = "none", .task = "shift", .seed = 3 }), "failed", "loss is nan at step 7");
    static const int rope[] = { 500, 700, 600, 900 };
    for (int seed = 0; seed < 4; seed++) done((struct spec){ .encoder = "rope", .task = "shift", .seed = seed }, 1000, rope[seed] + 50, rope[seed] - 50);
}
static void make_copy(void)          /* both alike but for seed 0: none 1, .6, .6; rope .4 .6 .6 */
{
    for (int seed = 0; seed < 3; seed++) done((struct spec){ .encoder = "none", .task = "copy", .seed = seed }, 1000, seed ? 600 : 1000, seed ? 600 : 1000);
    for (int seed = 0; seed < 3; seed++) done((struct spec){ .encoder = "rope", .task = "copy", .seed = seed }, 1000, seed ? 600 : 400, seed ? 600 : 400);
}

static struct study study;
static struct compare c;

static int build(struct compare_options o)
{
    OK(study_load(&study, store, NULL, &err));
    return compare_build(&c, &study, &o);
}
static void release(void)
{
    compare_release(&c);
    study_release(&study);
}
static void refused(struct compare_options o, const char *part)
{
    int rc = build(o);
    if (rc != COMPARE_REFUSED) fail_msg("rc %d, expected a refusal with '%s'", rc, part);
    if (!strstr(err.msg, part)) fail_msg("'%s' has no '%s' in it", err.msg, part);
    release();
}
static void near(double found, double expected, const char *what)
{
    if (!(fabs(found - expected) < 1e-7)) fail_msg("%s: found %.10g, expected %.10g", what, found, expected);
}
static char *text(void)
{
    static char copy[1 << 16];
    struct str out = { 0 };
    compare_write(&c, &out);
    assert_false(out.failed);
    snprintf(copy, sizeof copy, "%s", str_text(&out));
    str_free(&out);
    return copy;
}
static void contains(const char *found, const char *expected)
{
    if (!strstr(found, expected)) fail_msg("found:\n%s\nexpected in it:\n%s", found, expected);
}
static void fits(const char *found)
{
    for (int n = 0; *found; found++) {
        n = *found == '\n' ? 0 : n + ((*found & 0xc0) != 0x80);
        if (n > 100) fail_msg("a line is wider than 100 columns, near: %.120s", found - 100);
    }
}

/* ---- the numbers ---- */

static void cells_by_hand(void **state)
{
    (void)state;
    make_shift();
    OK(build((struct compare_options){ 0 }));
    assert_int_equal(c.n_panel, 1);
    assert_int_equal(c.panel[0].n_length, 2);
    assert_int_equal(c.cell[0].n, 3), assert_int_equal(c.cell[0].failed, 1), assert_int_equal(c.cell[0].solved, 0);
    near(c.cell[0].mean, 0.3, "mean"), near(c.cell[0].half_width, 4.3026527297 * 0.1 / sqrt(3), "half-width");
    near(c.cell[0].min, 0.2, "min"), near(c.cell[0].max, 0.4, "max"), near(c.cell[0].seen, 0.32, "seen"), near(c.cell[0].l50, 0, "L50");
    assert_int_equal(c.cell[1].n, 4);
    near(c.cell[1].mean, 0.675, "rope"), near(c.cell[1].l50, 16, "rope's L50: 12 16 16 16");
    release();
    OK(build((struct compare_options){ .lengths = "<=8" }));
    near(c.cell[1].mean, 1, "at 8"), assert_int_equal(c.cell[1].solved, 4), near(c.cell[1].half_width, 0, "all equal");
    contains(text(), "all equal");
    release();
    OK(build((struct compare_options){ .lengths = "12", .metric = "sequence_accuracy" }));
    near(c.cell[0].mean, 0.31, "31 of 100 sequences at 12");
    release();
}
static void pairs_by_hand(void **state)
{
    (void)state;
    make_shift();
    OK(build((struct compare_options){ .baseline = "none" }));
    assert_int_equal(c.n_pair, 1);
    const struct compare_pair *p = &c.pair[0];
    assert_int_equal(p->n, 3), assert_int_equal(p->dropped, 1);
    near(p->difference, 0.3, "differences .3 .4 .2"), near(p->half_width, 4.3026527297 * 0.1 / sqrt(3), "half-width");
    near(p->r, 0.5, "correlation"), near(p->p, 0.25, "p"), near(p->p_holm, 0.25, "p (Holm)");
    near(p->better, 1, "better"), near(p->improvement, 1, "improvement");
    release();
    OK(build((struct compare_options){ .baseline = "rope" }));
    near(c.pair[0].difference, -0.3, "the other way round"), near(c.pair[0].better, 0, "better");
    release();
    OK(build((struct compare_options){ .baseline = "none", .metric = "loss" }));         /* 2 - accuracy: less is better */
    near(c.pair[0].difference, -0.3, "loss"), near(c.pair[0].better, 1, "lower is better"), near(c.pair[0].improvement, 1, "improvement");
    release();
}
/* copy: differences -.6 0 0, so p = 1 (half of the signs give |.6|, and so do the others); shift as above. */
static void over_tasks_by_hand(void **state)
{
    (void)state;
    make_shift(), make_copy();
    OK(build((struct compare_options){ .baseline = "none" }));
    assert_int_equal(c.n_group, 1);
    const struct compare_row *none = &c.group[0].row[0], *rope = &c.group[0].row[1];
    assert_int_equal(c.group[0].n_row, 2), assert_int_equal(c.group[0].tasks, 2);
    near(none->rank, 1.5, "second on shift, first on copy"), near(rope->rank, 1.5, "the same");
    near(rope->difference, (0.3 - 0.2) / 2, "mean over tasks");
    near(c.pair[1].p, 1, "copy"), near(c.pair[1].p_holm, 1, "copy, Holm"), near(c.pair[0].p_holm, 0.5, "shift, Holm over two");
    near(c.pair[1].improvement, (0 + 2 * 0.0 + 0 + 2 * 0.5 * 2) / 9, "rope .4 .6 .6 against none 1 .6 .6: four ties of nine");
    /* the pairs .3 .4 .2 and -.6 0 0, a third of each: sum .3 / 3; the zeros double both counts */
    int at_least = 0;
    static const int tenth[] = { 3, 4, 2, 6 };
    for (int signs = 0; signs < 16; signs++) {
        int sum = 0;
        for (int i = 0; i < 4; i++) sum += signs >> i & 1 ? -tenth[i] : tenth[i];
        at_least += abs(sum) >= 3;
    }
    near(rope->p, at_least / 16.0, "flips of all pairs");
    /* Reciprocal ranks: shift seeds 0 1 2 rope first, seed 3 too (none missing): 4 x (1, 1/2); copy: seed 0 none first, two ties of 1.5. */
    near(rope->mrr, (4 * 1 + 0.5 + 2 / 1.5) / 7, "rope's MRR"), near(none->mrr, (4 * 0.5 + 1 + 2 / 1.5) / 7, "none's MRR");
    near(none->iqm.value, (0.3 + 0.4 + 0.6 + 0.6) / 4, "none .2 [.3 .4 .6 .6] 1");
    release();
    OK(build((struct compare_options){ .task = "copy" }));
    assert_int_equal(c.n_panel, 1), assert_int_equal(c.n_group, 0);
    release();
}
static void a_run_without_all_lengths_has_no_mean(void **state)
{
    (void)state;
    make_shift();
    int64_t attempt = begin((struct spec){ .encoder = "none", .task = "shift", .seed = 4 });
    eval(attempt, NULL, 12, 999, 1);
    end_attempt(store, attempt, "done", NULL);
    OK(build((struct compare_options){ 0 }));
    assert_int_equal(c.cell[0].n, 3);
    contains(text(), "none       3/5");
    release();
}
static void diverged_runs_are_counted_and_keep_their_accuracy(void **state)
{
    (void)state;
    make_shift();
    int64_t attempt = begin((struct spec){ .encoder = "none", .task = "shift", .seed = 5 });
    eval(attempt, NULL, 12, 100, NAN), eval(attempt, NULL, 16, 100, NAN);
    end_attempt(store, attempt, "done", NULL);
    OK(build((struct compare_options){ 0 }));
    assert_int_equal(c.cell[0].n, 4), assert_int_equal(c.cell[0].diverged, 1);
    near(c.cell[0].min, 0.1, "its accuracy");
    release();
    OK(build((struct compare_options){ .metric = "loss" }));
    assert_int_equal(c.cell[0].n, 3), assert_int_equal(c.cell[0].diverged, 1);
    release();
}

/* ---- refusals ---- */

static void other_data_is_refused(void **state)
{
    (void)state;
    for (int seed = 0; seed < 2; seed++) done((struct spec){ .encoder = "none", .task = "shift", .seed = seed }, 1, 1, 1);
    for (int seed = 0; seed < 2; seed++) done((struct spec){ .encoder = "rope", .task = "shift", .seed = seed, .data = seed ? "other" : NULL }, 2, 2, 2);
    refused((struct compare_options){ 0 }, "shift: rope and none were evaluated on different data at seed 1");
    OK(build((struct compare_options){ .allow_mixed = 1 }));
    assert_int_equal(c.mixed_data, 1);
    contains(text(), "mixed: 1 pair differ in evaluation data");
    release();
}
static void other_code_is_refused(void **state)
{
    (void)state;
    done((struct spec){ .encoder = "none", .task = "shift" }, 1, 1, 1), done((struct spec){ .encoder = "rope", .task = "shift", .commit = "def" }, 2, 2, 2);
    refused((struct compare_options){ 0 }, "at seed 0 rope was run by other code than none ('def', 'abc')");
    OK(build((struct compare_options){ .allow_mixed = 1 }));
    assert_int_equal(c.mixed_code, 1);
    release();
}
/* On a cluster of mixed nodes that is the rule, and hardly ever matters. */
static void other_machines_are_told(void **state)
{
    (void)state;
    for (int seed = 0; seed < 2; seed++) done((struct spec){ .encoder = "none", .task = "shift", .seed = seed }, 1, 1, 1);
    for (int seed = 0; seed < 2; seed++) done((struct spec){ .encoder = "rope", .task = "shift", .seed = seed, .cpu = seed ? "New CPU" : NULL }, 2, 2, 2);
    OK(build((struct compare_options){ 0 }));
    assert_int_equal(c.mixed_machine, 1);
    contains(text(), "1 pair was computed on two kinds of machine, which round otherwise:\n  New CPU, BLAS, avx2\n  Old CPU, BLAS, avx2\n");
    release();
}
static void other_budgets_are_refused(void **state)
{
    (void)state;
    done((struct spec){ .encoder = "none", .task = "shift", .label = "train.steps=100", .steps = 100 }, 1, 1, 1);
    done((struct spec){ .encoder = "none", .task = "shift", .label = "train.steps=200", .steps = 200 }, 2, 2, 2);
    done((struct spec){ .encoder = "rope", .task = "shift", .label = "train.steps=200", .steps = 200 }, 3, 3, 3);
    OK(build((struct compare_options){ .baseline = "none" }));                           /* paired at equal settings */
    assert_int_equal(c.n_pair, 1);
    near(c.pair[0].difference, 0.001, "3 - 2 of 1000");
    release();
    refused((struct compare_options){ .baseline = "none train.steps=100" },
            "none train.steps=200 (200 steps of 64) and none train.steps=100 (100 steps of 64) differ in more than the encoder");
    OK(build((struct compare_options){ .baseline = "none train.steps=100", .allow_mixed = 1 }));
    assert_int_equal(c.n_pair, 2), assert_int_equal(c.mixed_budget, 2);
    contains(text(), "mixed: 2 pairs differ in training budget");
    release();
}
static void an_ambiguous_baseline_is_refused(void **state)
{
    (void)state;
    done((struct spec){ .encoder = "rope", .task = "shift", .label = "encoder.rope.base=500" }, 1, 1, 1), done((struct spec){ .encoder = "rope", .task = "shift", .label = "encoder.rope.base=9" }, 2, 2, 2);
    refused((struct compare_options){ 0 }, "name one whole: --baseline 'rope encoder.rope.base=500'");
    OK(build((struct compare_options){ .baseline = "rope encoder.rope.base=500" }));
    assert_int_equal(c.n_pair, 1);
    release();
}
static void unknown_names_are_refused(void **state)
{
    (void)state;
    make_shift();
    refused((struct compare_options){ .baseline = "rop" }, "no encoder 'rop' in this experiment; there are: none, rope");
    refused((struct compare_options){ .task = "sort" }, "no task 'sort' in this experiment; there are: shift");
    refused((struct compare_options){ .metric = "token_acuracy" }, "did you mean 'token_accuracy'?");
    refused((struct compare_options){ .lengths = "99" }, "nothing was evaluated at length '99'");
    static const char *const bad[] = { "", "8,", "x", ">", "8..", "9..8", "0", "8 9", "-3", ">8x", "99999999999999999999" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused((struct compare_options){ .lengths = bad[i] }, "is no choice of lengths");
}
static void lengths_are_understood(void **state)
{
    static const struct { const char *list; int n; } row[] = { { ">8", 2 }, { ">=8", 3 }, { "<12", 1 }, { "<=12", 2 }, { "12", 1 },
                                                               { "9..16", 2 }, { "8, 16", 2 }, { "8,>12", 2 }, { "16..99,8", 2 } };
    (void)state;
    make_shift();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        OK(build((struct compare_options){ .lengths = row[i].list }));
        if (c.panel[0].n_length != row[i].n) fail_msg("%s: %d lengths, expected %d", row[i].list, c.panel[0].n_length, row[i].n);
        release();
    }
}

/* ---- what is printed ---- */

static void the_screen_says_what_it_must(void **state)
{
    (void)state;
    make_shift(), make_copy();
    OK(build((struct compare_options){ 0 }));
    const char *screen = text();
    contains(screen, "shift, trained at length 8: token accuracy, mean over lengths 12, 16\n");
    contains(screen, "none       3/4  0.300   [0.052, 0.548]  0.200  0.400     0/3       1    0    0  0.320\n");
    contains(screen, "rope             3/4  +0.300  [+0.052, +0.548]  0.50     3/3  0.250     0.500       1.00\n");
    contains(screen, "few seeds: with 3,");
    contains(screen, "with 3 pairs p cannot be below 0.250; 6 would allow 0.0312\n");
    contains(screen, "Holm over 2 comparisons\n");
    contains(screen, "MRR: mean of 1 over the rank; IQM: mean of the middle half of the runs, its interval from\n"
             "  10000 resamples of seeds within tasks, seed 1;");
    contains(screen, "mean ranks nearer than CD = 1.39 do not differ");                  /* 1.960 sqrt(2 * 3 / 12) */
    contains(screen, "1 seed had no partner and stands in no pair\n");
    contains(screen, "shift none seed 3, failed: loss is nan at step 7\n");
    fits(screen);
    release();
}
static void long_names_fit(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *label = i ? "model.heads=2,train.weight_decay=0.01,encoder.transformer_xl.max_len=500"
                              : "model.heads=4,train.weight_decay=0.01,encoder.transformer_xl.max_len=500";
        done((struct spec){ .encoder = "transformer_xl", .task = "shift", .label = label, .steps = i + 1 }, 1, 1, 1);
        done((struct spec){ .encoder = "an_encoder_whose_name_is_long", .task = "shift", .label = label, .steps = i + 1 }, 2, 2, 2);
    }
    OK(build((struct compare_options){ .baseline = "transformer_xl" }));
    fits(text());
    release();
}
static void nothing_done_is_no_crash(void **state)
{
    (void)state;
    plan((struct spec){ .encoder = "none", .task = "shift" }), plan((struct spec){ .encoder = "rope", .task = "shift" }), plan((struct spec){ .encoder = "none", .task = "copy" });
    OK(build((struct compare_options){ 0 }));
    contains(text(), "0/1");
    contains(text(), "no run was evaluated");
    release();
}
static void json_is_json(void **state)
{
    struct str out = { 0 };
    char path[256];
    (void)state;
    make_shift(), make_copy();
    OK(build((struct compare_options){ 0 }));
    compare_json(&c, &out);
    snprintf(path, sizeof path, "%s", in_folder("c.json"));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(str_text(&out), f), fclose(f);
    char sql[512];
    snprintf(sql, sizeof sql, "sqlite3 :memory: \"SELECT json_array_length(j, '$.cells'), json_array_length(j, '$.pairs'),"
             " json_array_length(j, '$.over_tasks'), json_extract(j, '$.pairs[0].p_smallest') FROM (SELECT readfile('%s') AS j)\"", path);
    char line[128] = "";
    FILE *p = popen(sql, "r");
    assert_non_null(fgets(line, sizeof line, p));
    pclose(p);
    assert_string_equal(line, "4|2|2|0.25\n");
    str_free(&out);
    release();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cells_by_hand), CASE(pairs_by_hand), CASE(over_tasks_by_hand), CASE(a_run_without_all_lengths_has_no_mean),
        CASE(diverged_runs_are_counted_and_keep_their_accuracy), CASE(other_data_is_refused), CASE(other_code_is_refused), CASE(other_machines_are_told),
        CASE(other_budgets_are_refused), CASE(an_ambiguous_baseline_is_refused), CASE(unknown_names_are_refused),
        CASE(lengths_are_understood), CASE(the_screen_says_what_it_must), CASE(long_names_fit), CASE(nothing_done_is_no_crash),
        CASE(json_is_json),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
