/* test_results -- the screen and the JSON of small databases whose numbers were worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/results.h"
#include "base/hash.h"
#include "base/str.h"

static char folder[64], path[96];
static struct store *store;
static struct lab_err err;
static int64_t env, sweep, ordinal;

#define OK(call) do { if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lab-test-results-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/lab.db", folder);
    OK(store_open(&store, path, STORE_WRITE, &err));
    OK(store_put_env(store, "{}", &env, &err));
    return 0;
}
static int tear_down(void **state)
{
    char command[128];
    (void)state;
    store_close(store);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static const char *sha(const char *text)
{
    static char hex[HASH_HEX];
    hash_bytes(text, strlen(text), hex);
    return hex;
}
static void begin_sweep(const char *ini)
{
    OK(store_put_sweep(store, sha(ini), "small", "Does it work?", "small.ini", ini, &sweep, &err));
    ordinal = 0;
}

/* A planned run of task shift; its identity is what is given here. */
struct spec { const char *encoder, *label, *train; int seed, causal; };
static int64_t plan(struct spec r)
{
    char config[512], key[HASH_HEX], variant[HASH_HEX];
    int64_t run;
    snprintf(config, sizeof config, "{\"encoder\":{\"name\":\"%s\"},\"model\":{\"causal\":%s},\"seed\":%d,"
             "\"train\":{\"length\":[%s]},\"x\":\"%s\"}", r.encoder, r.causal ? "true" : "false", r.seed, r.train ? r.train : "8,8", r.label ? r.label : "");
    hash_bytes(config, strlen(config), key);
    strcpy(variant, sha(r.label ? r.label : ""));
    struct store_run row = { .key = key, .encoder = r.encoder, .task = "shift", .variant = variant, .task_key = "shift/1",
                             .config = config, .seed = r.seed, .parameters = 100, .chance = 0.1 };
    OK(store_put_run(store, &row, &run, &err));
    OK(store_put_cell(store, sweep, ordinal++, run, r.label ? r.label : "", &err));
    return run;
}
static int64_t attempt(int64_t run)
{
    int64_t id;
    OK(store_attempt_begin(store, run, env, (int64_t)getpid(), &id, &err));
    return id;
}
static void end(int64_t id, const char *status, const char *reason)
{
    struct store_end e = { .status = status, .reason = reason, .active_ns = 1, .last_step = 100 };
    OK(store_attempt_end(store, id, &e, &err));
}
/* ok of 1000 tokens, exact of 100 sequences. */
static void eval(int64_t id, int length, int ok, int exact)
{
    struct record r = { .type = RECORD_EVAL, .split = "test", .step = 100, .length = length, .n = 100, .n_exact = exact,
                        .n_tok = 1000, .n_tok_ok = ok, .value = 1 };
    strcpy(r.sha256, sha("data"));
    OK(store_put_record(store, id, &r, &err));
}
static void done(struct spec spec, int at8, int at12)
{
    int64_t id = attempt(plan(spec));
    eval(id, 8, at8, at8 / 10);
    eval(id, 12, at12, 0);
    end(id, "done", NULL);
}
static void ceiling(int length, double value)
{
    struct record r = { .type = RECORD_CEILING, .name = "order_blind", .length = length, .value = value, .error = 0.0005, .n = 1000 };
    OK(store_put_ceiling(store, "shift/1", "shift", &r, &err));
}

static char *output(int (*print)(struct store *, const char *, FILE *, struct lab_err *), const char *ini)
{
    static char text[1 << 16];
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    OK(print(store, ini ? sha(ini) : NULL, out, &err));
    fclose(out);
    return text;
}
static void contains(const char *text, const char *expected)
{
    if (!strstr(text, expected)) fail_msg("found:\n%s\nexpected in it:\n%s", text, expected);
}
static void lacks(const char *text, const char *unwanted)
{
    if (strstr(text, unwanted)) fail_msg("found:\n%s\nnot expected in it:\n%s", text, unwanted);
}
/* Characters, not bytes: UTF-8 continuation bytes do not count. */
static void fits(const char *text, int columns)
{
    for (int n = 0; *text; text++) {
        n = *text == '\n' ? 0 : n + ((*text & 0xc0) != 0x80);
        if (n > columns) fail_msg("a line is wider than %d columns, near: %.100s", columns, text);
    }
}

/* mean .700, sd .010, t(2) = 4.302653: half-width .0248. */
static void the_whole_screen(void **state)
{
    char expected[2048];
    (void)state;
    begin_sweep("one");
    for (int seed = 0; seed < 3; seed++) done((struct spec){ .encoder = "none", .seed = seed }, 310 + seed, 260);
    for (int seed = 0; seed < 3; seed++) done((struct spec){ .encoder = "sinusoidal", .seed = seed }, 1000, 690 + 10 * seed);
    ceiling(8, 0.317), ceiling(12, 0.266);
    snprintf(expected, sizeof expected,
             "small: Does it work?\n"
             "\n"
             "shift, trained at length 8, 3 seeds: token accuracy\n"
             "encoder                      8*          12\n"
             "-------------------  ----------  ----------\n"
             "none                 0.311\u00b1.002   0.260 (=)\n"
             "sinusoidal            1.000 (=)  0.700\u00b1.025\n"
             "chance                    0.100       0.100\n"
             "order-blind ceiling       0.317       0.266\n"
             "whole sequences right at length 8: none 0.310, sinusoidal 1.000\n"
             "\n"
             "mean \u00b1 half-width of the 95 %% t interval over seeds; (=) all seeds equal\n"
             "* seen in training; the lengths to the right of it are longer\n"
             "\n"
             "database: %s\n"
             "go on:    lab query @compare_encoders --db %s\n"
             "          lab query @loss_curves --db %s\n", path, path, path);
    assert_string_equal(output(results_print, "one"), expected);
}
static void five_lengths_fit_the_screen(void **state)
{
    const int length[] = { 8, 12, 16, 24, 32 };
    (void)state;
    begin_sweep("five");
    for (int seed = 0; seed < 3; seed++) {
        int64_t id = attempt(plan((struct spec){ .encoder = "sinusoidal", .seed = seed }));
        for (int i = 0; i < 5; i++) eval(id, length[i], 500 + seed, 0), ceiling(length[i], 0.3);
        end(id, "done", NULL);
    }
    char *text = output(results_print, NULL);
    contains(text, "         8*          12          16          24          32\n");
    *strstr(text, "\ndatabase") = '\0';                      /* a folder may have a long name */
    fits(text, 80);
}
static void many_lengths_go_into_blocks(void **state)
{
    (void)state;
    begin_sweep("many");
    int64_t id = attempt(plan((struct spec){ .encoder = "rope" }));
    for (int length = 8; length < 20; length++) eval(id, length, 500, 0);
    end(id, "done", NULL);
    char *text = output(results_print, NULL);
    contains(text, "   12\n---");
    contains(text, "   17\n---");
    contains(text, "   19\n---");
    *strstr(text, "\ndatabase") = '\0';
    fits(text, 80);
}
static void one_seed_has_no_interval(void **state)
{
    (void)state;                     /* Wilson for 10 of 100: [0.0552, 0.1744] */
    begin_sweep("single");
    done((struct spec){ .encoder = "rope" }, 100, 700);
    char *text = output(results_print, NULL);
    contains(text, "1 seed: token accuracy");
    contains(text, "0.100  0.700\n");
    contains(text, "rope 0.100 [0.055, 0.174]");
    lacks(text, "\u00b1");
}
static void failures_are_counted_and_listed(void **state)
{
    struct record log = { .type = RECORD_ARTIFACT, .name = "log", .text = "logs/abc.log", .n_tok = 5 };
    (void)state;
    strcpy(log.sha256, sha("log"));
    begin_sweep("failing");
    done((struct spec){ .encoder = "t5", .seed = 0 }, 500, 500);
    done((struct spec){ .encoder = "t5", .seed = 1 }, 500, 500);
    int64_t id = attempt(plan((struct spec){ .encoder = "t5", .seed = 2 }));
    OK(store_put_record(store, id, &log, &err));
    end(id, "failed", "loss is nan at step 7");
    plan((struct spec){ .encoder = "rope", .seed = 0 });
    char *text = output(results_print, NULL);
    contains(text, "0.500 (=) 2/3");
    contains(text, "- 0/1");
    contains(text, "1 of 4 runs did not succeed:\n  shift t5 seed 2, failed: loss is nan at step 7\n    log: logs/abc.log\n");
    contains(text, "1 of 4 runs are not done");
}
static void a_retry_that_succeeds_is_no_failure(void **state)
{
    (void)state;
    begin_sweep("retried");
    int64_t run = plan((struct spec){ .encoder = "t5" });
    end(attempt(run), "failed", "signal 9");
    int64_t id = attempt(run);
    eval(id, 8, 500, 0);
    end(id, "done", NULL);
    lacks(output(results_print, NULL), "did not succeed");
}
static void a_leak_is_flagged(void **state)
{
    (void)state;
    ceiling(8, 0.317), ceiling(12, 0.266);
    begin_sweep("tight");
    /* 0.02 and 3 sqrt(c (1 - c) / 1000 + 0.0005^2): up to 0.38117 and 0.32795 */
    done((struct spec){ .encoder = "none" }, 381, 327);
    lacks(output(results_print, NULL), "leak");
    begin_sweep("leaking");
    done((struct spec){ .encoder = "none", .seed = 1 }, 317, 328);
    contains(output(results_print, NULL), "suspect a leak: none reaches 0.328 at length 12, where no more than 0.266");
    begin_sweep("others");
    done((struct spec){ .encoder = "rope" }, 1000, 900);
    lacks(output(results_print, NULL), "leak");
}
static void a_causal_model_has_no_ceiling(void **state)
{
    (void)state;
    ceiling(8, 0.317), ceiling(12, 0.266);
    begin_sweep("causal");
    done((struct spec){ .encoder = "none", .causal = 1 }, 900, 900);
    char *text = output(results_print, NULL);
    contains(text, "chance");
    lacks(text, "order-blind");
    lacks(text, "leak");
}
static void axes_become_arms_and_training_lengths_tables(void **state)
{
    (void)state;
    begin_sweep("axes");
    done((struct spec){ .encoder = "rope", .label = "model.heads=2" }, 500, 500);
    done((struct spec){ .encoder = "rope", .label = "model.heads=4" }, 600, 600);
    done((struct spec){ .encoder = "rope", .label = "train.length=1..12", .train = "1,12" }, 700, 800);
    char *text = output(results_print, NULL);
    contains(text, "shift, trained at length 8, 1 seed: token accuracy\nencoder                8*     12\n");
    contains(text, "rope model.heads=2  0.500  0.500\nrope model.heads=4  0.600  0.600\n");
    contains(text, "shift, trained at length 1..12, 1 seed: token accuracy\nencoder     8*    12*\n");
}
static void tiny_intervals_are_not_shown_as_zero(void **state)
{
    (void)state;
    begin_sweep("tiny");
    for (int seed = 0; seed < 3; seed++) {
        int64_t id = attempt(plan((struct spec){ .encoder = "rope", .seed = seed }));
        struct record r = { .type = RECORD_EVAL, .split = "test", .step = 100, .length = 8, .n = 100000, .n_exact = 100000 - seed,
                            .n_tok = 1000000, .n_tok_ok = 1000000 - seed, .value = 1 };
        strcpy(r.sha256, sha("data"));
        OK(store_put_record(store, id, &r, &err));
        end(id, "done", NULL);
    }
    contains(output(results_print, NULL), "1.000\u00b1.001");
}
static void json_holds_the_same_numbers(void **state)
{
    (void)state;
    begin_sweep("json");
    done((struct spec){ .encoder = "none", .seed = 0 }, 250, 250);
    done((struct spec){ .encoder = "none", .seed = 1 }, 750, 250);           /* sd .5/sqrt 2; half-width 12.7062 * .25 */
    ceiling(8, 0.5);
    char *text = output(results_json, "json");
    contains(text, "[\n{\"task\": \"shift\", \"train_length\": \"8\", \"encoder\": \"none\", \"label\": \"\", \"length\": 8, \"seeds\": 2, "
                   "\"seeds_planned\": 2, \"mean\": 0.5, \"half_width\": 3.17655");
    contains(text, "\"min\": 0.25, \"max\": 0.75, \"solved\": 0, \"sequence_mean\": 0.5, \"chance\": 0.1, \"majority\": null, \"order_blind_ceiling\": 0.5, "
             "\"lengths\": null, \"score\": null, \"paper\": null, \"band\": null, \"verdict\": null},\n");
    contains(text, "\"length\": 12, \"seeds\": 2, \"seeds_planned\": 2, \"mean\": 0.25, \"half_width\": 0, ");
    contains(text, "\"verdict\": null}\n]\n");
}
static void json_lengths_are_whole_numbers(void **state)
{
    (void)state;
    begin_sweep("ten");
    int64_t id = attempt(plan((struct spec){ .encoder = "rope" }));
    eval(id, 100, 500, 0);
    end(id, "done", NULL);
    contains(output(results_json, NULL), "\"length\": 100, \"seeds\": 1, ");
}
static void a_sweep_with_nothing_done(void **state)
{
    (void)state;
    begin_sweep("empty");
    plan((struct spec){ .encoder = "rope" });
    contains(output(results_print, NULL), "shift, trained at length 8, 1 seed: no run is done yet\n");
    assert_string_equal(output(results_json, NULL), "[]\n");
}
static void unknown_files_are_refused(void **state)
{
    (void)state;
    assert_int_equal(results_print(store, NULL, stdout, &err), STUDY_NO_SWEEP);
    contains(err.msg, "holds no experiment yet");
    begin_sweep("known");
    assert_int_equal(results_print(store, sha("unknown"), stdout, &err), STUDY_NO_SWEEP);
    contains(err.msg, "was never run here");
}
static void the_last_sweep_is_the_default(void **state)
{
    (void)state;
    begin_sweep("first");
    done((struct spec){ .encoder = "rope" }, 500, 500);
    begin_sweep("second");
    done((struct spec){ .encoder = "t5" }, 500, 500);
    lacks(output(results_print, NULL), "rope");
    lacks(output(results_print, "first"), "t5");
}

/* ---- ranges, and papers ---- */

static const char paper_ini[] =
    "[paper]\nsource = Somebody 2024, table 1\nrope.8 = 0.9, 0.05\nt5.8-12 = 0.5, 0.05\nshift.none.12 = 0.9, 0.1\nlearned.8 = 1, 0\n"
    "order.8-12 = rope > t5 > none\norder.8 = rope > none > t5\norder.12 = none > rope\n";

/* Ranges: rope .9 and .7 over seeds at 8, so .8 (best .9); t5 (.5 + .4)/2 and (.6 + .5)/2, so .5; none .3 at 12. */
static void papers_are_compared(void **state)
{
    (void)state;
    begin_sweep(paper_ini);
    done((struct spec){ .encoder = "rope", .seed = 0 }, 900, 290);
    done((struct spec){ .encoder = "rope", .seed = 1 }, 700, 290);
    done((struct spec){ .encoder = "t5", .seed = 0 }, 500, 400);
    done((struct spec){ .encoder = "t5", .seed = 1 }, 600, 500);
    done((struct spec){ .encoder = "none", .seed = 0 }, 540, 300);
    const char *text = output(results_print, paper_ini);
    contains(text, "against Somebody 2024, table 1: token accuracy, mean over the lengths, verdict on the mean of the seeds\n");
    contains(text, "shift  rope     8        0.900\u00b10.050  0.800\u00b11.271  0.800   0.900  2      NEAR\n");
    contains(text, "shift  t5       8-12     0.500\u00b10.050  0.500\u00b10.635  0.500   0.550  2      PASS\n");
    contains(text, "shift  none     12       0.900\u00b10.100  0.300        0.300   0.300  1      DIFFERENT\n");
    contains(text, "-      learned  8        1.000\u00b10.000  -            -       -      -      not done\n");
    contains(text, "order over 8-12, paper: rope > t5 > none; here: 0.545, 0.500, 0.420: PASS\n");
    contains(text, "order over 8, paper: rope > none > t5; here: 0.800, 0.540, 0.550: NEAR\n");
    contains(text, "order over 12, paper: none > rope; here: 0.300, 0.290: PASS\n");
    assert_null(strstr(text, "mean over the lengths past training"));

    text = output(results_json, paper_ini);
    contains(text, "{\"task\": \"shift\", \"train_length\": null, \"encoder\": \"rope\", \"label\": \"\", \"length\": null, \"seeds\": 2, \"seeds_planned\": null, \"mean\": 0.8,");
    contains(text, "\"lengths\": \"8\", \"score\": 0.8, \"paper\": 0.9, \"band\": 0.05, \"verdict\": \"NEAR\"}");
    contains(text, "\"lengths\": \"8-12\", \"score\": 0.5, \"paper\": 0.5, \"band\": 0.05, \"verdict\": \"PASS\"}");
    contains(text, "\"encoder\": \"learned\", \"label\": \"\", \"length\": null, \"seeds\": 0, \"seeds_planned\": null, \"mean\": null,");
    contains(text, "\"paper\": 1, \"band\": 0, \"verdict\": \"not done\"}");
    contains(text, "\"encoder\": \"order\", \"label\": \"rope > none > t5\"");
}

static void the_best_seed_where_the_paper_takes_it(void **state)
{
    static const char ini[] = "[paper]\nsource = x\nseeds = max\nmetric = sequence\nrope.8 = 0.09, 0.001\n";
    (void)state;
    begin_sweep(ini);
    done((struct spec){ .encoder = "rope", .seed = 0 }, 90, 0);          /* 9 of 100 sequences */
    done((struct spec){ .encoder = "rope", .seed = 1 }, 10, 0);
    contains(output(results_print, ini), "0.090\u00b10.001  0.050\u00b10.508  0.050   0.090  2      PASS\n");
}

static void many_lengths_past_training_have_a_mean(void **state)
{
    (void)state;
    begin_sweep("a");
    int64_t id = attempt(plan((struct spec){ .encoder = "rope", .seed = 0 }));
    eval(id, 8, 1000, 100);
    for (int i = 0; i < 8; i++) eval(id, 9 + i, 100 * i, 0);
    end(id, "done", NULL);
    contains(output(results_print, "a"), "token accuracy, mean over the lengths past training\n");
    contains(output(results_print, "a"), "shift  rope     9-16     0.350  0.350   0.350  1      0.000\n");
    contains(output(results_json, "a"), "\"mean\": 0.35, \"half_width\": null, \"min\": 0.35, \"max\": 0.35, \"solved\": null, \"sequence_mean\": 0,");
    contains(output(results_json, "a"), "\"lengths\": \"9-16\", \"score\": null,");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_whole_screen), TEST(five_lengths_fit_the_screen), TEST(many_lengths_go_into_blocks), TEST(one_seed_has_no_interval),
        TEST(failures_are_counted_and_listed), TEST(a_retry_that_succeeds_is_no_failure), TEST(a_leak_is_flagged),
        TEST(a_causal_model_has_no_ceiling), TEST(axes_become_arms_and_training_lengths_tables),
        TEST(tiny_intervals_are_not_shown_as_zero), TEST(json_holds_the_same_numbers), TEST(json_lengths_are_whole_numbers),
        TEST(a_sweep_with_nothing_done),
        TEST(unknown_files_are_refused), TEST(the_last_sweep_is_the_default), TEST(papers_are_compared),
        TEST(the_best_seed_where_the_paper_takes_it), TEST(many_lengths_past_training_have_a_mean),
    };
    return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
