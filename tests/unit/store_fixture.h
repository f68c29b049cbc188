/* store_fixture -- what the tests of the store share: a folder of their own, made-up runs, one-line looks at a database. */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "store/store.h"

static struct lab_err err;
#define OK(call) do { err.msg[0] = '\0'; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)
#define FAILS(call, part) do { int rc_ = (call); assert_message(rc_, #call, part); } while (0)

static inline void assert_message(int rc, const char *call, const char *part)
{
    if (rc == 0) fail_msg("%s succeeded; expected an error with '%s'", call, part);
    if (!strstr(err.msg, part)) fail_msg("%s: '%s' has no '%s' in it", call, err.msg, part);
}

static char folder[64];
static char path_buffer[8][256];

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lab_store_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", folder, folder);
    return system(command);
}

static inline const char *in_folder(const char *name)
{
    static int next;
    char *p = path_buffer[next++ % 8];
    snprintf(p, sizeof path_buffer[0], "%s/%s", folder, name);
    return p;
}

/* The first value of a statement as text, asked through a connection of its own; "" for NULL or no row. */
static inline const char *ask(const char *path, const char *sql)
{
    static char answer[4][512];
    static int next;
    char *a = answer[next++ % 4];
    sqlite3 *db;
    sqlite3_stmt *st = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s: %s", path, sql, sqlite3_errmsg(db));
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    snprintf(a, sizeof answer[0], "%s", text ? text : "");
    sqlite3_finalize(st);
    sqlite3_close(db);
    return a;
}

static inline void change(const char *path, const char *sql)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* ---- made-up runs ---- */

/* 64 digits that stand for a number: keys of the tests. */
static inline const char *key(int n)
{
    static char text[8][65];
    static int next;
    char *k = text[next++ % 8];
    snprintf(k, 65, "%064x", n);
    return k;
}

static inline int64_t add_run(struct store *s, int number, const char *encoder, const char *task, int seed, const char *more)
{
    char config[256];
    int64_t id = 0;
    snprintf(config, sizeof config, "{\"encoder\":\"%s\",\"seed\":%d,\"task\":\"%s\",\"train\":{\"length\":[8,8]}%s}", encoder, seed, task, more);
    struct store_run run = { .key = key(number), .encoder = encoder, .task = task, .variant = "variant", .task_key = task, .config = config,
                             .seed = seed, .parameters = 1000, .chance = 0.1 };
    OK(store_put_run(s, &run, &id, &err));
    return id;
}

static inline int64_t begin_attempt(struct store *s, int64_t run)
{
    int64_t env, attempt = 0;
    OK(store_put_env(s, "{\"cpu\":\"test\"}", &env, &err));
    OK(store_attempt_begin(s, run, env, getpid(), &attempt, &err));
    return attempt;
}

static inline void end_attempt(struct store *s, int64_t attempt, const char *status, const char *reason)
{
    struct store_end end = { .status = status, .reason = reason, .result_sha256 = "hash", .active_ns = 4000000000, .last_step = 2000, .exit_code = 0 };
    OK(store_attempt_end(s, attempt, &end, &err));
}

static inline void put_metric(struct store *s, int64_t attempt, const char *name, int step, double value)
{
    struct record r = { .type = RECORD_METRIC, .step = step, .value = value };
    snprintf(r.name, sizeof r.name, "%s", name);
    OK(store_put_record(s, attempt, &r, &err));
}

static inline void put_eval(struct store *s, int64_t attempt, const char *split, int length, int step, int n, int n_exact, int n_tok_ok, double loss)
{
    struct record r = { .type = RECORD_EVAL, .length = length, .step = step, .n = n, .n_exact = n_exact, .n_tok = (int64_t)n * length,
                        .n_tok_ok = n_tok_ok, .value = loss };
    snprintf(r.split, sizeof r.split, "%s", split);
    snprintf(r.sha256, sizeof r.sha256, "data-%d-%d", length, n);
    OK(store_put_record(s, attempt, &r, &err));
}
#endif
