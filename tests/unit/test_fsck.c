/* Tests of store/fsck.c: every kind of damage is found, what can be made again is, and the rest keeps every byte. */
#include "unit/store_fixture.h"
#include "store/db.h"
#include "store/files.h"
#include "store/fsck.h"

struct heard { char text[8192]; int count[FSCK_BAD + 1]; };

static void hear(void *ctx, const struct fsck_finding *f)
{
    struct heard *h = ctx;
    size_t n = strlen(h->text);
    h->count[f->level]++;
    snprintf(h->text + n, sizeof h->text - n, "%d %s: %s\n", f->level, f->check, f->text);
    assert_true((f->level == FSCK_OK || f->level == FSCK_MENDED) ? !f->advice : f->advice || strstr(f->text, "and more"));
}

static struct heard look(const char *path, int repair)
{
    struct heard h = { "", { 0 } };
    struct fsck_listener listener = { hear, &h };
    struct store *s;
    OK(store_open(&s, path, repair ? STORE_WRITE : STORE_READ, &err));
    OK(fsck_run(s, repair, &listener, &err));
    store_close(s);
    return h;
}

static void expect(const struct heard *h, const char *part, int bad, int mended, int notes)
{
    if (!strstr(h->text, part)) fail_msg("no '%s' in:\n%s", part, h->text);
    if (h->count[FSCK_BAD] != bad || h->count[FSCK_MENDED] != mended || h->count[FSCK_NOTE] != notes)
        fail_msg("%d bad, %d mended, %d notes; expected %d, %d, %d:\n%s", h->count[FSCK_BAD], h->count[FSCK_MENDED], h->count[FSCK_NOTE], bad, mended, notes, h->text);
}

static void expect_sound(const char *path)
{
    struct heard h = look(path, 0);
    expect(&h, "", 0, 0, 0);
    assert_int_equal(h.count[FSCK_OK], 8);
}

/* Two done runs with weights beside the database, "weights N" in each. */
static void fill(const char *path)
{
    struct store *s;
    char name[64];
    OK(store_open(&s, path, STORE_WRITE, &err));
    mkdir(in_folder("weights"), 0777);
    for (int i = 0; i < 2; i++) {
        struct record weights = { .type = RECORD_ARTIFACT, .name = "weights", .n_tok = 9 };
        char text[16];
        int64_t run = add_run(s, 1 + i, "rope", "reverse", i, ""), attempt = begin_attempt(s, run);
        snprintf(text, sizeof text, "weights %d", i);
        hash_bytes(text, 9, weights.sha256);
        snprintf(weights.text, sizeof weights.text, "../elsewhere/of/that/time.safetensors");
        OK(store_put_record(s, attempt, &weights, &err));
        put_metric(s, attempt, "loss", 10, 0.5);
        put_eval(s, attempt, "test", 8, 2000, 100, 50, 700, 0.1);
        end_attempt(s, attempt, "done", NULL);
        snprintf(name, sizeof name, "weights/%.16s.safetensors", key(1 + i));
        FILE *f = fopen(in_folder(name), "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    store_close(s);
}

/* Keys of the fixture differ in their last digits; files are named after the first 16, so the two runs share one: make them differ. */
static const char *filled(void)
{
    const char *path = in_folder("lab.db");
    fill(path);
    change(path, "UPDATE run SET run_key = printf('%016x', run_id) || substr(run_key, 17)");
    for (int i = 1; i <= 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "weights/%016x.safetensors", i);
        FILE *f = fopen(in_folder(name), "w");
        assert_non_null(f);
        fprintf(f, "weights %d", i - 1);
        fclose(f);
    }
    unlink(in_folder("weights/0000000000000000.safetensors"));
    return path;
}

static void a_sound_database_is_called_sound(void **state)
{
    (void)state;
    expect_sound(filled());
}

static void rewrite(const char *path, const char *sql)       /* what SQLite itself refuses */
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    sqlite3_exec(db, "PRAGMA foreign_keys = OFF; PRAGMA writable_schema = ON", NULL, NULL, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void indexes_are_made_again(void **state)
{
    (void)state;
    const char *path = filled();
    rewrite(path, "CREATE TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'run_variant'; DELETE FROM sqlite_master WHERE name = 'run_variant'");
    rewrite(path, "UPDATE run SET variant = 'other'");       /* its index does not hear of it */
    rewrite(path, "INSERT INTO sqlite_master SELECT * FROM kept");
    change(path, "DROP TABLE kept");
    struct heard h = look(path, 0);
    if (h.count[FSCK_BAD] < 2 || !strstr(h.text, "missing from index run_variant")) fail_msg("%s", h.text);
    h = look(path, 1);
    expect(&h, "pages: indexes did not fit their tables: made again from them", 0, 1, 0);
    expect_sound(path);
}

static void damaged_pages_are_told_and_left(void **state)
{
    (void)state;
    const char *path = filled();
    char before[HASH_HEX], after[HASH_HEX];
    int64_t page = atoll(ask(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'metric'"));
    FILE *f = fopen(path, "r+");
    assert_int_equal(fseek(f, (page - 1) * 4096, SEEK_SET), 0);
    for (int i = 0; i < 64; i++) fputc(0xa5, f);
    fclose(f);
    OK(hash_file(path, before, &err));
    struct heard h = look(path, 0);
    if (!h.count[FSCK_BAD]) fail_msg("%s", h.text);
    OK(hash_file(path, after, &err));
    assert_string_equal(before, after);
    h = look(path, 1);                                       /* no repair can bring it back: it is still called bad */
    if (!h.count[FSCK_BAD] || h.count[FSCK_MENDED]) fail_msg("%s", h.text);
}

static void rows_without_what_they_refer_to_are_found(void **state)
{
    (void)state;
    const char *path = filled();
    rewrite(path, "DELETE FROM env");
    for (int repair = 0; repair < 2; repair++) {
        struct heard h = look(path, repair);
        expect(&h, "references: 2 rows of attempt refer to rows of env that are not there", 1, 0, 0);
    }
}

static void definitions_are_compared(void **state)
{
    (void)state;
    const char *path = filled();
    change(path, "DROP VIEW curves; CREATE VIEW curves AS SELECT 1 AS x; DROP VIEW runs; CREATE VIEW mine AS SELECT 2 AS y; DROP INDEX run_variant");
    struct heard h = look(path, 0);
    expect(&h, "definitions: 2 views are missing or not this lab's", 2, 0, 0);
    h = look(path, 1);
    expect(&h, "definitions: index run_variant was missing: made again", 0, 2, 0);
    expect(&h, "definitions: 2 views were missing or not this lab's: made again", 0, 2, 0);
    expect_sound(path);
    change(path, "ALTER TABLE run ADD COLUMN note TEXT");
    h = look(path, 1);
    expect(&h, "definitions: table run is not this lab's", 1, 0, 0);
}

static void dead_processes_are_noticed(void **state)
{
    (void)state;
    const char *path = filled();
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    begin_attempt(s, add_run(s, 30, "rope", "copy", 0, ""));
    store_close(s);
    change(path, "UPDATE attempt SET pid = 99, boot_id = 'gone', host = 'there', last_step = 7 WHERE status = 'running'");
    struct heard h = look(path, 0);
    expect(&h, "says that it is running, but process 99 on there ended without a word", 0, 0, 1);
    h = look(path, 1);
    expect(&h, "attempts: 1 attempt said to be running, but the process was gone: marked as lost", 0, 1, 0);
    assert_string_equal(ask(path, "SELECT status || last_step FROM attempt ORDER BY attempt_id DESC LIMIT 1"), "lost7");
    expect_sound(path);
}

static void living_processes_are_left_alone(void **state)
{
    (void)state;
    const char *path = filled();
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    begin_attempt(s, add_run(s, 30, "rope", "copy", 0, ""));
    struct heard h = look(path, 1);
    expect(&h, "", 0, 0, 0);
    assert_string_equal(ask(path, "SELECT status FROM attempt ORDER BY attempt_id DESC LIMIT 1"), "running");
    store_close(s);
}

static void done_means_evaluated(void **state)
{
    (void)state;
    const char *path = filled();
    change(path, "DELETE FROM eval WHERE attempt_id = 2");
    struct heard h = look(path, 1);
    expect(&h, "(reverse rope seed 1) is done, but was never evaluated", 0, 0, 1);
}

static void unequal_weights_of_equal_runs_are_told(void **state)
{
    (void)state;
    const char *path = filled();
    struct record weights = { .type = RECORD_ARTIFACT, .name = "weights", .n_tok = 9, .text = "w" };
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    OK(store_supersede(s, 1, &err));
    int64_t again = begin_attempt(s, 1);
    hash_bytes("weights 0", 9, weights.sha256);
    OK(store_put_record(s, again, &weights, &err));
    put_eval(s, again, "test", 8, 2000, 100, 51, 700, 0.1);
    end_attempt(s, again, "done", NULL);
    store_close(s);
    struct heard h = look(path, 0);
    expect(&h, "", 0, 0, 0);                                 /* the same twice */
    change(path, "UPDATE artifact SET sha256 = 'another' WHERE attempt_id = 1");
    h = look(path, 0);
    expect(&h, "attempts: run 0000000000000001 was trained to 2 different weights in the same circumstances", 1, 0, 0);
}

static void weights_are_compared_and_put_aside(void **state)
{
    (void)state;
    char path[256], first[256], second[256];                 /* in_folder forgets after eight names */
    snprintf(path, sizeof path, "%s", filled());
    snprintf(first, sizeof first, "%s/weights/0000000000000001.safetensors", folder);
    snprintf(second, sizeof second, "%s/weights/0000000000000002.safetensors", folder);
    FILE *f = fopen(first, "w");
    fputs("weights 7", f);
    fclose(f);
    f = fopen(second, "w");
    fputs("short", f);
    fclose(f);
    struct heard h = look(path, 0);
    expect(&h, "does not hold what was written: its SHA-256 differs", 2, 0, 0);
    expect(&h, "has 5 bytes, but 9 were written", 2, 0, 0);
    assert_int_equal(access(first, F_OK), 0);
    h = look(path, 1);
    expect(&h, "0000000000000001.safetensors.damaged", 0, 2, 1);         /* and now two files are of no run */
    assert_int_equal(access(first, F_OK), -1);
    assert_int_equal(access(in_folder("weights/0000000000000002.safetensors.damaged"), F_OK), 0);
    h = look(path, 0);
    expect(&h, "the weights of run 0000000000000001", 0, 0, 3);
    assert_string_equal(ask(path, "SELECT count(*) FROM results"), "2");
}

static void many_findings_are_counted_not_listed(void **state)
{
    (void)state;
    const char *path = in_folder("many.db");
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    for (int i = 0; i < 30; i++) end_attempt(s, begin_attempt(s, add_run(s, i, "rope", "reverse", i, "")), "done", NULL);
    store_close(s);
    struct heard h = look(path, 0);
    expect(&h, "attempts: and more like these", 0, 0, 11);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_database_is_called_sound), TEST(indexes_are_made_again), TEST(damaged_pages_are_told_and_left),
        TEST(rows_without_what_they_refer_to_are_found), TEST(definitions_are_compared), TEST(dead_processes_are_noticed),
        TEST(living_processes_are_left_alone), TEST(done_means_evaluated), TEST(unequal_weights_of_equal_runs_are_told),
        TEST(weights_are_compared_and_put_aside), TEST(many_findings_are_counted_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
