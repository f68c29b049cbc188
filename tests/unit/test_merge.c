/* test_merge -- what many databases hold becomes one: nothing lost, nothing twice, in any order the same; the unsound stays out. */
#include "store_fixture.h"
#include "base/hash.h"
#include "store/fsck.h"
#include "store/merge.h"

static struct store *open_store(const char *name)
{
    struct store *s;
    OK(store_open(&s, in_folder(name), STORE_WRITE, &err));
    return s;
}

/* When an attempt ended, and by which name it goes: the tests are about order. */
static void name_attempt(const char *db, const char *old, const char *uuid, int ended)
{
    char sql[256];
    snprintf(sql, sizeof sql, "UPDATE attempt SET attempt_uuid = '%s', started_us = %d, beat_us = %d, ended_us = %d WHERE attempt_uuid = '%s' OR '%s' = ''",
             uuid, ended - 10, ended - 5, ended, old, old);
    change(in_folder(db), sql);
}

static void put_weights(struct store *s, int64_t attempt, const char *sha256)
{
    struct record r = { .type = RECORD_ARTIFACT, .name = "weights", .text = "weights/x", .n_tok = 1 };
    snprintf(r.sha256, sizeof r.sha256, "%s", sha256);
    OK(store_put_record(s, attempt, &r, &err));
}

/* A database with one run, done: evaluated at two lengths, with something in every table. */
static void make_shard(const char *name, int run, const char *uuid, int ended, const char *weights, int right)
{
    struct store *s = open_store(name);
    int64_t sweep, id = add_run(s, run, "rope", "copy", run, ""), attempt;
    OK(store_put_sweep(s, key(999), "sweep", "?", "a.ini", "text", &sweep, &err));
    OK(store_put_cell(s, sweep, run, id, "", &err));
    attempt = begin_attempt(s, id);
    put_metric(s, attempt, "loss", 10, 0.1 * run);
    put_metric(s, attempt, "loss", 20, NAN);
    put_eval(s, attempt, "valid", 8, 10, 20, 1, 8, 2);
    put_eval(s, attempt, "test", 8, 2000, 100, 10, right, 1.25);
    put_weights(s, attempt, weights);
    OK(store_put_record(s, attempt, &(struct record){ .type = RECORD_EVAL_POSITION, .split = "test", .length = 8, .step = 2000, .n_tok = 100, .n_tok_ok = 9 }, &err));
    OK(store_put_record(s, attempt, &(struct record){ .type = RECORD_EVAL_SLICE, .split = "test", .length = 8, .step = 2000, .n = 50, .n_tok = 100, .n_tok_ok = 9 }, &err));
    OK(store_put_record(s, attempt, &(struct record){ .type = RECORD_UNTRAINED, .name = "table", .n = 2, .length = 8, .position = 6 }, &err));
    OK(store_put_ceiling(s, "copy", "copy", &(struct record){ .name = "order_blind", .length = 8, .n = 10, .value = 0.25, .error = 0.01 }, &err));
    end_attempt(s, attempt, "done", NULL);
    store_close(s);
    name_attempt(name, "", uuid, ended);
}

struct heard { struct merge_result last; int n, refused; char refusal[1024]; };
static void told(void *ctx, const char *path, const struct merge_result *r, const char *refusal)
{
    struct heard *h = ctx;
    (void)path;
    h->last = *r, h->n++;
    if (refusal) h->refused++, snprintf(h->refusal, sizeof h->refusal, "%s", refusal);
}

static struct heard merge(const char *out, int n, const char *const *name)
{
    struct store *s = open_store(out);
    struct heard h = { .n = 0 };
    char path[8][256], *list[8];
    for (int i = 0; i < n; i++) snprintf(list[i] = path[i], sizeof path[i], "%s", in_folder(name[i]));
    OK(merge_databases(s, list, (size_t)n, &(struct merge_listener){ told, &h }, &err));
    store_close(s);
    assert_int_equal(h.n, n);
    return h;
}

/* All that a database says, without what is its own: row numbers, times of creation and merging. */
static const char *digest(const char *db)
{
    static char hex[2][HASH_HEX];
    static int next;
    static const char *const sql[] = {
        "SELECT group_concat(x, '|') FROM (SELECT run_key || config || arm AS x FROM run ORDER BY run_key)",
        "SELECT group_concat(x, '|') FROM (SELECT ini_sha256 || ordinal || run_key || label AS x FROM sweep_cell JOIN sweep USING(sweep_id) JOIN run USING(run_id) ORDER BY 1)",
        "SELECT group_concat(x, '|') FROM (SELECT attempt_uuid || status || coalesce(reason, '-') || started_us || coalesce(ended_us, '') || coalesce(parent_uuid, '') AS x FROM attempt ORDER BY 1)",
        "SELECT group_concat(x, '|') FROM (SELECT attempt_uuid || name || step || coalesce(value, special) AS x FROM metric JOIN attempt USING(attempt_id) ORDER BY 1)",
        "SELECT group_concat(x, '|') FROM (SELECT run_key || split || length || step || n || n_tok_ok AS x FROM results ORDER BY 1)",
        "SELECT group_concat(x, '|') FROM (SELECT attempt_uuid || position || n AS x FROM eval_position JOIN attempt USING(attempt_id) ORDER BY 1)",
        "SELECT group_concat(x, '|') FROM (SELECT task_key || length || value || samples AS x FROM ceiling ORDER BY 1)" };
    char *out = hex[next++ % 2];
    struct hash h;
    hash_init(&h);
    for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
        const char *text = ask(in_folder(db), sql[i]);
        hash_add(&h, text, strlen(text) + 1);
    }
    hash_end(&h, out);
    return out;
}

static void remember(void *ctx, const struct fsck_finding *f) { if (f->level == FSCK_BAD) snprintf(ctx, 256, "%s: %s", f->check, f->text); }

static void assert_sound(const char *db)
{
    char bad[256] = "";
    struct store *s = open_store(db);
    OK(fsck_run(s, 0, &(struct fsck_listener){ remember, bad }, &err));
    store_close(s);
    assert_string_equal(bad, "");
}

/* ---- all of it, once ---- */

static void every_table_is_merged(void **state)
{
    (void)state;
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    merge("out.db", 1, (const char *[]){ "a.db" });
    char tables[1024];
    snprintf(tables, sizeof tables, "%s", ask(in_folder("a.db"), "SELECT group_concat(name, ' ') FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"));
    int n = 0;
    for (char *rest = tables, *table; (table = strsep(&rest, " ")); n++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
        const char *there = ask(in_folder("a.db"), sql), *here = ask(in_folder("out.db"), sql);
        if (!strcmp(table, "merge_log")) assert_string_equal(here, "1");
        else if (strcmp(there, here)) fail_msg("table %s: %s rows there, %s were merged", table, there, here);
        else if (!strcmp(here, "0")) fail_msg("table %s is empty: the test proves nothing for it", table);
    }
    assert_true(n >= 14);
    assert_string_equal(ask(in_folder("out.db"), "SELECT special FROM metric WHERE step = 20"), "nan");
    assert_sound("out.db");
}

static void again_changes_nothing(void **state)
{
    (void)state;
    const char *list[] = { "a.db", "b.db" };
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    make_shard("b.db", 2, "uuid-b", 2000, "v", 40);
    assert_int_equal(merge("out.db", 2, list).last.attempts, 1);
    char before[HASH_HEX];
    strcpy(before, digest("out.db"));
    struct heard h = merge("out.db", 2, list);
    assert_int_equal(h.last.attempts, 0);
    assert_int_equal(h.last.known, 1);
    assert_string_equal(digest("out.db"), before);
    change(in_folder("a.db"), "UPDATE meta SET value = 'x' WHERE key = 'lab_version'");      /* other bytes, nothing new */
    assert_int_equal(merge("out.db", 1, list).last.attempts, 0);
    assert_string_equal(digest("out.db"), before);
    assert_string_equal(ask(in_folder("out.db"), "SELECT count(*) FROM merge_log"), "3");
}

static void the_order_does_not_matter(void **state)
{
    (void)state;
    static const char *const order[][4] = { { "a.db", "b.db", "c.db", "d.db" }, { "d.db", "c.db", "b.db", "a.db" }, { "b.db", "d.db", "a.db", "c.db" } };
    char first[HASH_HEX] = "";
    make_shard("a.db", 1, "uuid-a", 3000, "w", 50);
    make_shard("b.db", 2, "uuid-b", 2000, "v", 40);
    make_shard("c.db", 1, "uuid-c", 1000, "w", 50);          /* the same as a, earlier */
    make_shard("d.db", 1, "uuid-d", 4000, "other", 51);      /* not the same, on another machine */
    change(in_folder("d.db"), "UPDATE env SET env_sha256 = 'd', json = '{\"cpu\":\"other\"}'; UPDATE attempt SET result_sha256 = 'other'");
    for (int i = 0; i < 3; i++) {
        char out[16];
        snprintf(out, sizeof out, "out%d.db", i);
        merge(out, 4, order[i]);
        if (i == 0) strcpy(first, digest(out));
        assert_string_equal(digest(out), first);
        assert_sound(out);
    }
    assert_string_equal(ask(in_folder("out0.db"), "SELECT attempt_uuid FROM attempt JOIN run USING(run_id) WHERE status = 'done' AND seed = 1"), "uuid-c");
}

/* ---- two results for one run ---- */

static const char *reason(const char *db, const char *uuid)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT status || ': ' || coalesce(reason, '') FROM attempt WHERE attempt_uuid = '%s'", uuid);
    return ask(in_folder(db), sql);
}

static void equal_results_are_one(void **state)
{
    (void)state;
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    make_shard("b.db", 1, "uuid-b", 2000, "w", 50);
    change(in_folder("b.db"), "UPDATE attempt SET result_sha256 = 'evaluated further'; CREATE TEMP TABLE further AS SELECT * FROM eval WHERE split = 'test';"
                              "UPDATE further SET length = 16; INSERT INTO eval SELECT * FROM further");
    struct heard h = merge("out.db", 2, (const char *[]){ "a.db", "b.db" });
    assert_int_equal(h.last.different, 0);
    assert_string_equal(reason("out.db", "uuid-a"), "done: ");
    assert_string_equal(reason("out.db", "uuid-b"), "superseded: a second result, the same as the one shown");
    assert_string_equal(ask(in_folder("out.db"), "SELECT group_concat(length) FROM results"), "8,16");
}

static int count_row(void *ctx, int n, const struct store_value *v)
{
    assert_int_equal(n, 12);
    assert_string_equal(v[4].text, "uuid-a");
    assert_string_equal(v[8].text, "uuid-b");
    ++*(int *)ctx;
    return 0;
}

static void different_results_are_both_kept(void **state)
{
    (void)state;
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    make_shard("b.db", 1, "uuid-b", 2000, "w", 51);
    change(in_folder("b.db"), "UPDATE attempt SET result_sha256 = 'another', reason = 'a note'");
    struct store *s = open_store("out.db");
    struct heard h = { .n = 0 };
    char path[2][256];
    snprintf(path[0], sizeof path[0], "%s", in_folder("b.db"));
    snprintf(path[1], sizeof path[1], "%s", in_folder("a.db"));
    for (int again = 0; again < 2; again++) {
        int conflicts = 0;
        OK(merge_databases(s, (char *[]){ path[0], path[1] }, 2, &(struct merge_listener){ told, &h }, &err));
        OK(store_query(s, merge_conflicts, NULL, 0, 0, &(struct store_rows){ NULL, count_row, &conflicts }, &err));
        assert_int_equal(conflicts, 1);
    }
    store_close(s);
    assert_string_equal(reason("out.db", "uuid-b"), "superseded: a second result, DIFFERENT from the one shown; a note");
    assert_string_equal(ask(in_folder("out.db"), "SELECT min(n_tok_ok) || ',' || max(n_tok_ok) FROM eval WHERE split = 'test'"), "50,51");
    assert_string_equal(ask(in_folder("out.db"), "SELECT n_tok_ok FROM results"), "50");
}

/* ---- attempts that go on elsewhere ---- */

/* Of run 1: stopped or still running, with a checkpoint at step 20. */
static void make_open(const char *name, const char *uuid, const char *status)
{
    struct store *s = open_store(name);
    int64_t attempt = begin_attempt(s, add_run(s, 1, "rope", "copy", 1, ""));
    put_metric(s, attempt, "loss", 10, 0.5);
    OK(store_put_record(s, attempt, &(struct record){ .type = RECORD_CHECKPOINT, .step = 20 }, &err));
    if (strcmp(status, "running")) end_attempt(s, attempt, status, "SIGTERM");
    char sql[128];
    snprintf(sql, sizeof sql, "UPDATE attempt SET attempt_uuid = '%s'", uuid);
    store_close(s);
    change(in_folder(name), sql);
}

static void running_attempts_are_left_to_their_database(void **state)
{
    (void)state;
    make_open("a.db", "uuid-a", "running");
    assert_int_equal(merge("out.db", 1, (const char *[]){ "a.db" }).last.attempts, 0);
    assert_string_equal(ask(in_folder("out.db"), "SELECT count(*) FROM run"), "1");
}

static void a_task_takes_over_what_is_wanted(void **state)
{
    int yes, run_id;
    (void)state;
    make_open("a.db", "uuid-a", "running");
    make_shard("b.db", 2, "uuid-b", 1000, "w", 50);
    char path[2][256];
    snprintf(path[0], sizeof path[0], "%s", in_folder("a.db"));
    snprintf(path[1], sizeof path[1], "%s", in_folder("b.db"));
    struct store *s = open_store("task.db");
    OK(merge_want(s, key(1), &err));
    OK(merge_want(s, key(2), &err));
    for (int i = 0; i < 2; i++) OK(merge_strike_done(s, path[i], &err));
    OK(merge_is_wanted(s, key(1), &yes, &err));
    assert_true(yes);
    OK(merge_is_wanted(s, key(2), &yes, &err));
    assert_false(yes);
    for (int i = 0; i < 2; i++) OK(merge_wanted(s, path[i], &err));
    int64_t env;
    OK(store_put_env(s, "{\"cpu\":\"test\"}", &env, &err));
    run_id = atoi(ask(in_folder("task.db"), "SELECT run_id FROM run"));
    OK(store_is_saved(s, run_id, env, "uuid-a", 20, &yes, &err));
    assert_true(yes);
    store_close(s);
    assert_string_equal(ask(in_folder("task.db"), "SELECT count(*) FROM run"), "1");
    assert_string_equal(reason("task.db", "uuid-a"), "lost: its machine told nothing more of it");

    /* The one thought lost ends after all: its own database knows better, whichever comes first. */
    change(in_folder("a.db"), "UPDATE attempt SET status = 'done', ended_us = beat_us + 5, result_sha256 = 'r'; INSERT INTO metric VALUES(1, 'loss', 30, 0.25, NULL)");
    merge("out1.db", 2, (const char *[]){ "a.db", "task.db" });
    merge("out2.db", 2, (const char *[]){ "task.db", "a.db" });
    assert_string_equal(reason("out2.db", "uuid-a"), "done: ");
    assert_string_equal(digest("out1.db"), digest("out2.db"));
    assert_string_equal(ask(in_folder("out2.db"), "SELECT group_concat(step) FROM metric"), "10,30");
}

/* ---- what stays out ---- */

static void the_unsound_is_refused_and_changes_nothing(void **state)
{
    static const struct { const char *sql, *refusal; } table[] = {
        { "PRAGMA application_id = 7", "is not a results database of lab" },
        { "PRAGMA user_version = 99", "was written by a newer lab (schema 99" },
        { "PRAGMA user_version = 0", "was written by an earlier lab (schema 0" },
        { "DROP TABLE untrained", "its table untrained is not this lab's" },
        { "ALTER TABLE attempt ADD COLUMN more TEXT", "its table attempt is not this lab's" },
        { "PRAGMA ignore_check_constraints = ON; UPDATE eval SET n_tok_ok = n_tok + 1", "is damaged (CHECK constraint failed in eval)" },
        { "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'metric'", "is damaged" } };
    (void)state;
    make_shard("good.db", 2, "uuid-good", 1000, "w", 50);
    merge("out.db", 1, (const char *[]){ "good.db" });
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char name[16];
        snprintf(name, sizeof name, "bad%zu.db", i);
        make_shard(name, 1, "uuid-bad", 1000, "w", 50);
        change(in_folder(name), table[i].sql);
        struct heard h = merge("out.db", 2, (const char *[]){ name, "good.db" });
        if (h.refused != 1 || !strstr(h.refusal, table[i].refusal)) fail_msg("%s: '%s', expected '%s'", table[i].sql, h.refusal, table[i].refusal);
        assert_true(h.last.known);
        assert_string_equal(ask(in_folder("out.db"), "SELECT count(*) FROM run"), "1");
    }
    assert_sound("out.db");
}

/* The same file must have given the same runs. */
static void another_plan_of_the_same_file_is_refused(void **state)
{
    (void)state;
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    make_shard("b.db", 2, "uuid-b", 1000, "w", 50);
    change(in_folder("b.db"), "UPDATE sweep_cell SET ordinal = 1");
    struct heard h = merge("out.db", 2, (const char *[]){ "a.db", "b.db" });
    assert_int_equal(h.refused, 1);
    if (!strstr(h.refusal, "its plan of an experiment is not the one in")) fail_msg("%s", h.refusal);
    assert_string_equal(ask(in_folder("out.db"), "SELECT count(*) FROM run"), "1");
}

static void a_copy_is_one_file_without_a_log(void **state)
{
    unsigned char header[20];
    (void)state;
    make_shard("a.db", 1, "uuid-a", 1000, "w", 50);
    struct store *s = open_store("a.db");
    OK(merge_copy(s, in_folder("copy.db"), &err));
    OK(merge_copy(s, in_folder("copy.db"), &err));           /* in the place of an earlier one */
    store_close(s);
    FILE *f = fopen(in_folder("copy.db"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(header, 1, sizeof header, f), sizeof header);
    fclose(f);
    assert_int_equal(header[18], 1);                         /* 2 would be WAL; https://sqlite.org/fileformat.html, 1.3.3 */
    assert_int_equal(header[19], 1);
    assert_string_equal(digest("copy.db"), digest("a.db"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_table_is_merged), TEST(again_changes_nothing), TEST(the_order_does_not_matter), TEST(equal_results_are_one),
        TEST(different_results_are_both_kept), TEST(running_attempts_are_left_to_their_database), TEST(a_task_takes_over_what_is_wanted),
        TEST(the_unsound_is_refused_and_changes_nothing), TEST(another_plan_of_the_same_file_is_refused), TEST(a_copy_is_one_file_without_a_log) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
