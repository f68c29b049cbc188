/* Tests of store/migrate.c, with made-up schemas 2 and 3: what was there is kept twice, or nothing happens at all. */
#include "unit/store_fixture.h"
#include <signal.h>
#include <sys/wait.h>
#include "store/db.h"

/* SQLite can rebuild a table that others refer to; so must a step be able to. */
static const char *const good[] = { NULL, "ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT 'x'; UPDATE run SET note = encoder || seed;",
                                    "CREATE TABLE env2(env_id INTEGER PRIMARY KEY, json TEXT NOT NULL) STRICT; INSERT INTO env2 SELECT env_id, json FROM env;"
                                    " DROP TABLE env; ALTER TABLE env2 RENAME TO env;" };

static struct store *filled(const char *path)
{
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    for (int i = 0; i < 3; i++) {
        int64_t attempt = begin_attempt(s, add_run(s, i, "rope", "reverse", i, ""));
        put_metric(s, attempt, "loss", 10, 1.5 + i);
        end_attempt(s, attempt, "done", NULL);
    }
    return s;
}

static void keeps_everything_and_a_backup(void **state)
{
    (void)state;
    const char *path = in_folder("good.db");
    struct store *s = filled(path);
    assert_string_equal(store_notice(s), "");
    OK(db_migrate(s, good, 1, 3, &err));
    if (!strstr(store_notice(s), "brought from schema 1 to 3; as it was before: ") || !strstr(store_notice(s), "good.db.schema1.backup"))
        fail_msg("notice: %s", store_notice(s));
    assert_string_equal(ask(path, "PRAGMA user_version"), "3");
    assert_string_equal(ask(path, "SELECT group_concat(note) FROM run"), "rope0,rope1,rope2");
    assert_string_equal(ask(path, "SELECT sum(value) FROM curves"), "7.5");      /* the views were made anew: 1.5 + 2.5 + 3.5 */
    assert_string_equal(ask(path, "SELECT count(*) FROM pragma_foreign_key_check"), "0");
    assert_string_equal(ask(path, "PRAGMA integrity_check"), "ok");
    const char *backup = in_folder("good.db.schema1.backup");
    assert_string_equal(ask(backup, "PRAGMA user_version"), "1");
    assert_string_equal(ask(backup, "SELECT count(*) FROM pragma_table_info('run') WHERE name = 'note'"), "0");
    assert_string_equal(ask(backup, "SELECT sum(value) FROM curves"), "7.5");
    assert_string_equal(ask(backup, "PRAGMA integrity_check"), "ok");
    assert_int_not_equal(sqlite3_exec(s->db, "DELETE FROM run", NULL, NULL, NULL), SQLITE_OK);   /* references are watched again */
    store_close(s);
}

static void a_backup_is_never_overwritten(void **state)
{
    (void)state;
    const char *path = in_folder("twice.db"), *first = in_folder("twice.db.schema1.backup");
    FILE *f = fopen(first, "w");
    fputs("precious", f);
    fclose(f);
    struct store *s = filled(path);
    OK(db_migrate(s, good, 1, 2, &err));
    store_close(s);
    char text[16] = "";
    f = fopen(first, "r");
    assert_int_equal(fread(text, 1, sizeof text - 1, f), 8);
    fclose(f);
    assert_string_equal(text, "precious");
    assert_string_equal(ask(in_folder("twice.db.schema1.backup.2"), "SELECT count(*) FROM run"), "3");
}

static void a_step_that_fails_changes_nothing(void **state)
{
    (void)state;
    static const struct { const char *name, *step, *message; } table[] = {
        { "a.db", "ALTER TABLE run ADD COLUMN note TEXT; INSERT INTO nowhere VALUES(1);", "no such table: nowhere" },
        { "b.db", "DELETE FROM env;", "3 rows would refer to rows that are not there" },
        { "c.db", "DROP TABLE metric_def;", "" } };          /* a view needs it */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *path = in_folder(table[i].name);
        const char *const step[] = { NULL, table[i].step };
        struct store *s = filled(path);
        FAILS(db_migrate(s, step, 1, 2, &err), table[i].message);
        if (strncmp(err.msg, path, strlen(path))) fail_msg("'%s' does not begin with the path", err.msg);
        assert_string_equal(ask(path, "PRAGMA user_version"), "1");
        assert_string_equal(ask(path, "SELECT count(*) FROM pragma_table_info('run') WHERE name = 'note'"), "0");
        assert_string_equal(ask(path, "SELECT count(*) FROM env"), "1");
        assert_string_equal(ask(path, "SELECT sum(value) FROM curves"), "7.5");
        int64_t attempt = begin_attempt(s, add_run(s, 50, "rope", "copy", 0, ""));       /* and it still works */
        end_attempt(s, attempt, "done", NULL);
        store_close(s);
    }
}

static void an_unknown_way_is_refused(void **state)
{
    (void)state;
    const char *path = in_folder("old.db");
    struct store *s = filled(path);
    store_close(s);
    change(path, "PRAGMA user_version = 0");
    FAILS(store_open(&s, path, STORE_WRITE, &err), "was written by an earlier lab (schema 0), and this one (schema 1) does not know how to bring it up");
    FAILS(store_open(&s, path, STORE_READ, &err), "was written by an earlier lab (schema 0, this one reads 1); `lab fsck --repair` brings it up");
    assert_int_equal(access(in_folder("old.db.schema0.backup"), F_OK), -1);
    assert_string_equal(ask(path, "SELECT count(*) FROM run"), "3");
}

static void two_at_once_migrate_once(void **state)
{
    (void)state;
    enum { N = 4 };
    const char *path = in_folder("race.db");
    store_close(filled(path));
    int ready[2], go[2];
    assert_int_equal(pipe(ready) | pipe(go), 0);
    for (int i = 0; i < N; i++)
        if (fork() == 0) {
            struct store *s;
            char c = 0;
            if (store_open(&s, path, STORE_WRITE, &err) != 0 || write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
            int rc = db_migrate(s, good, 1, 3, &err);
            if (rc != 0) fprintf(stderr, "%s\n", err.msg);
            store_close(s);
            _exit(rc != 0);
        }
    char c[N] = { 0 };
    for (int i = 0; i < N; i++) assert_int_equal(read(ready[0], c, 1), 1);
    assert_int_equal(write(go[1], c, N), N);
    for (int i = 0, status; i < N; i++) assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(ask(path, "SELECT group_concat(note) FROM run"), "rope0,rope1,rope2");
    assert_string_equal(ask(in_folder("race.db.schema1.backup"), "PRAGMA user_version"), "1");
    assert_int_equal(access(in_folder("race.db.schema1.backup.2"), F_OK), -1);
    char command[128];
    snprintf(command, sizeof command, "! ls %s | grep -q tmp", folder);
    assert_int_equal(system(command), 0);
}

static void a_kill_leaves_the_old_one(void **state)
{
    (void)state;
    const char *path = in_folder("killed.db");
    static const char *const endless[] = { NULL, "ALTER TABLE run ADD COLUMN note TEXT; CREATE TABLE x AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n;" };
    store_close(filled(path));
    pid_t pid = fork();
    if (pid == 0) {
        struct store *s;
        if (store_open(&s, path, STORE_WRITE, &err) == 0) db_migrate(s, endless, 1, 2, &err);
        _exit(0);
    }
    const char *backup = in_folder("killed.db.schema1.backup");
    for (int i = 0; i < 1000 && access(backup, F_OK) != 0; i++) usleep(10000);
    usleep(50000);
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_string_equal(ask(path, "PRAGMA user_version"), "1");
    assert_string_equal(ask(path, "PRAGMA integrity_check"), "ok");
    struct store *s;
    OK(store_open(&s, path, STORE_WRITE, &err));
    OK(db_migrate(s, good, 1, 2, &err));
    store_close(s);
    assert_string_equal(ask(path, "SELECT sum(value) FROM curves"), "7.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_everything_and_a_backup), cmocka_unit_test(a_backup_is_never_overwritten),
        cmocka_unit_test(a_step_that_fails_changes_nothing), cmocka_unit_test(an_unknown_way_is_refused),
        cmocka_unit_test(two_at_once_migrate_once), cmocka_unit_test(a_kill_leaves_the_old_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
