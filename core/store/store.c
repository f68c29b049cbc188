/* store -- what is written to the results database, and the questions that planning asks of it.
 *
 * Every statement stands in one table, is prepared once, and gets its values by binding.
 * A number that is not finite becomes NULL and a word that says what it was.
 */
#include "store/store.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "store/db.h"

/* ---- the statements ---- */

enum statement { PUT_SWEEP, PUT_RUN, ARM, PUT_CELL, PUT_ENV, RUN_STATUS, HAS_EVAL, STEP_MS, BEGIN_ATTEMPT, FIND_RUNNING, ATTEMPT_UUID,
                 IS_SAVED, CONTINUE_ATTEMPT, BEAT, SAVED, END_ATTEMPT, END_SECOND, END_LATE, SUPERSEDE, DIFFERS, DONE_ATTEMPT, PUT_METRIC, DROP_EVAL, PUT_EVAL,
                 PUT_EVAL_POSITION, PUT_EVAL_SLICE, PUT_UNTRAINED, PUT_ARTIFACT, PUT_CEILING, FIND_CEILING, FIND_WEIGHTS, SELECTED, N_STATEMENT };
_Static_assert((int)N_STATEMENT <= DB_STATEMENTS, "struct store has room for every statement");

/* "DO UPDATE SET x = x" changes nothing, but lets RETURNING name the row that is there already. */
static const char *const sql[N_STATEMENT] = {
    [PUT_SWEEP] = "INSERT INTO sweep(ini_sha256, name, question, ini_path, ini_text, created_us) VALUES(?, ?, ?, ?, ?, ?)"
                  " ON CONFLICT(ini_sha256) DO UPDATE SET ini_sha256 = ini_sha256 RETURNING sweep_id",
    [PUT_RUN] = "INSERT INTO run(config, run_key, encoder, task, seed, variant, arm, task_key, parameters, chance, train_length, causal, selection)"
                " VALUES(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, json_extract(?1, '$.train.length[1]'),"     /* [shortest, longest] */
                " json_extract(?1, '$.model.causal'), coalesce(json_extract(?1, '$.select.by'), 'last'))"
                " ON CONFLICT(run_key) DO UPDATE SET run_key = run_key RETURNING run_id",
    [ARM] = "SELECT json_remove(?, '$.seed')",
    /* A later lab may make other runs of the same file: the plan is then replaced, place by place. */
    [PUT_CELL] = "INSERT OR REPLACE INTO sweep_cell(sweep_id, ordinal, run_id, label) VALUES(?, ?, ?, ?)",
    [PUT_ENV] = "INSERT INTO env(env_sha256, json) VALUES(?, json(?))"
                " ON CONFLICT(env_sha256) DO UPDATE SET env_sha256 = env_sha256 RETURNING env_id",
    [RUN_STATUS] = "SELECT a.status, a.reason, a.active_ns, a.attempt_id, a.pid, a.pid_start, a.lock_at, a.boot_id, a.host"
                   " FROM run r JOIN attempt a USING(run_id) WHERE r.run_key = ?"
                   " ORDER BY a.status = 'done' DESC, a.started_us DESC, a.attempt_id DESC LIMIT 1",
    [HAS_EVAL] = "SELECT 1 FROM run r JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done' JOIN eval e USING(attempt_id)"
                 " WHERE r.run_key = ? AND e.split = ? AND e.length = ? AND e.n >= ? AND e.seed = ?",
    [STEP_MS] = "SELECT sum(active_ns) / 1e6 / nullif(sum(steps), 0) FROM (SELECT a.active_ns, a.last_step - a.from_step AS steps FROM run r JOIN attempt a"
                " ON a.run_id = r.run_id AND a.status = 'done' WHERE r.task = ? AND r.encoder = ? AND r.variant = ? ORDER BY r.run_id DESC LIMIT 50)",
    [BEGIN_ATTEMPT] = "INSERT INTO attempt(attempt_uuid, run_id, env_id, status, started_us, beat_us, host, boot_id, pid, pid_start, lock_at,"
                      " slurm_job, slurm_array, slurm_task, slurm_restart)"
                      " VALUES(?1, ?2, ?3, 'running', ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, CAST(?12 AS INTEGER), CAST(?13 AS INTEGER)) RETURNING attempt_id",
    [FIND_RUNNING] = "SELECT attempt_id, pid, pid_start, lock_at, boot_id, host FROM attempt WHERE status = 'running' AND ?1 IN (0, run_id)",
    [ATTEMPT_UUID] = "SELECT attempt_uuid FROM attempt WHERE attempt_id = ?",
    /* The kernel may differ: no number depends on it. */
    [IS_SAVED] = "SELECT 1 FROM attempt a JOIN env e USING(env_id) JOIN env now ON now.env_id = ?3 WHERE a.attempt_uuid = ?1 AND a.run_id = ?2"
                 " AND a.saved_step >= ?4 AND json_remove(e.json, '$.kernel') = json_remove(now.json, '$.kernel')",
    [CONTINUE_ATTEMPT] = "UPDATE attempt SET parent_uuid = ?, from_step = ? WHERE attempt_id = ?",
    [BEAT] = "UPDATE attempt SET beat_us = max(beat_us, ?), last_step = ?, told = ?, left_s = ? WHERE attempt_id = ? AND status = 'running'",
    [SELECTED] = "UPDATE attempt SET selected_step = ?2 WHERE attempt_id = ?1",
    [SAVED] = "UPDATE attempt SET saved_step = ?2 WHERE attempt_id = ?1",
    [END_ATTEMPT] = "UPDATE attempt SET status = ?, reason = ?, ended_us = max(started_us, ?), active_ns = ?, last_step = max(coalesce(last_step, 0), ?), result_sha256 = ?,"
                    " exit_code = ?, term_signal = ? WHERE attempt_id = ? AND status = 'running' RETURNING attempt_id",
    /* Somebody else's result, that was merged while this one was trained, is there already. */
    [END_SECOND] = "UPDATE attempt SET status = 'superseded', reason = 'another result was entered before it ended as ' || ?1,"
                   " ended_us = max(started_us, ?3), active_ns = ?4, last_step = max(coalesce(last_step, 0), ?5), result_sha256 = ?6, exit_code = ?7,"
                   " term_signal = ?8 WHERE attempt_id = ?9 AND status = 'running' AND ?1 = 'done'"
                   " AND EXISTS (SELECT 1 FROM attempt o WHERE o.run_id = attempt.run_id AND o.status = 'done') RETURNING attempt_id",
    [END_LATE] = "UPDATE attempt SET status = 'superseded', reason = 'taken for lost, then ended as ' || ?1 || coalesce(': ' || ?2, ''),"
                 " ended_us = max(started_us, ?3), active_ns = ?4, last_step = ?5, result_sha256 = ?6, exit_code = ?7, term_signal = ?8"
                 " WHERE attempt_id = ?9 AND status = 'lost' RETURNING attempt_id",
    [SUPERSEDE] = "UPDATE attempt SET status = 'superseded', reason = 'trained anew' WHERE attempt_id = ? AND status = 'done' RETURNING attempt_id",
    /* A kernel decides no bits; everything else may. */
    [DIFFERS] = "SELECT group_concat(n.key, ', ') FROM attempt a JOIN env e USING(env_id), json_each(?2) n"
                " WHERE a.attempt_id = ?1 AND n.key <> 'kernel' AND n.value IS NOT json_extract(e.json, '$.' || n.key)",
    [DONE_ATTEMPT] = "SELECT attempt_id FROM attempt WHERE status = 'done' AND run_id = ?",
    [PUT_METRIC] = "INSERT OR REPLACE INTO metric(attempt_id, name, step, value, special) VALUES(?, ?, ?, ?, ?)",
    [DROP_EVAL] = "DELETE FROM eval WHERE attempt_id = ? AND split = ? AND length = ? AND step = ? AND (n < ? OR seed <> ?)",
    [PUT_EVAL] = "INSERT INTO eval(attempt_id, split, length, step, n, n_exact, n_tok, n_tok_ok, loss, loss_special, seed, data_sha256)"
                 " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    [PUT_EVAL_POSITION] = "INSERT INTO eval_position(attempt_id, split, length, step, position, n, n_ok) VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    [PUT_EVAL_SLICE] = "INSERT INTO eval_slice(attempt_id, split, length, step, slice, n, n_exact, n_tok, n_tok_ok) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
                       " ON CONFLICT DO NOTHING",
    [PUT_UNTRAINED] = "INSERT OR REPLACE INTO untrained(attempt_id, parameter, first_row, rows, of_rows) VALUES(?, ?, ?, ?, ?)",
    [PUT_ARTIFACT] = "INSERT OR REPLACE INTO artifact(attempt_id, path, kind, bytes, sha256) VALUES(?, ?, ?, ?, ?)",
    [PUT_CEILING] = "INSERT OR REPLACE INTO ceiling(task_key, task, length, kind, value, error, samples) VALUES(?, ?, ?, ?, ?, ?, ?)",
    [FIND_WEIGHTS] = "SELECT sha256 FROM artifact WHERE attempt_id = ? AND kind = 'weights'",
    [FIND_CEILING] = "SELECT value, error FROM ceiling WHERE task_key = ? AND length = ? AND kind = ?",
};

/* One use of a statement: begin, values in order, then step for each row, then end.  What fails first is remembered. */
struct call { struct store *store; sqlite3_stmt *st; int at, rc; };

static struct call call_begin(struct store *s, enum statement which)
{
    struct call c = { s, NULL, 0, SQLITE_OK };
    if (!s->stmt[which]) c.rc = sqlite3_prepare_v3(s->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[which], NULL);
    c.st = s->stmt[which];
    return c;
}

static void call_text(struct call *c, const char *text)
{
    if (c->rc == SQLITE_OK) c->rc = sqlite3_bind_text(c->st, ++c->at, text, -1, SQLITE_STATIC);   /* NULL binds NULL */
}

static void call_integer(struct call *c, int64_t x)
{
    if (c->rc == SQLITE_OK) c->rc = sqlite3_bind_int64(c->st, ++c->at, x);
}

static void call_null(struct call *c)
{
    if (c->rc == SQLITE_OK) c->rc = sqlite3_bind_null(c->st, ++c->at);
}

static void call_real(struct call *c, double x)
{
    if (c->rc == SQLITE_OK) c->rc = sqlite3_bind_double(c->st, ++c->at, x);
}

static void call_finite(struct call *c, double x)
{
    if (isfinite(x)) call_real(c, x);
    else call_null(c);
}

/* Two columns: the number if it is finite, and what it is if it is not. */
static void call_number(struct call *c, double x)
{
    call_finite(c, x);
    call_text(c, isnan(x) ? "nan" : isfinite(x) ? NULL : x > 0 ? "inf" : "-inf");
}

static int call_row(struct call *c)
{
    if (c->rc == SQLITE_OK || c->rc == SQLITE_ROW) c->rc = sqlite3_step(c->st);
    return c->rc == SQLITE_ROW;
}

static int64_t call_get_integer(const struct call *c, int column) { return sqlite3_column_int64(c->st, column); }
static double call_get_real(const struct call *c, int column) { return sqlite3_column_double(c->st, column); }
static const char *call_get_text(const struct call *c, int column)   /* never NULL; until the next row */
{
    const char *text = (const char *)sqlite3_column_text(c->st, column);
    return text ? text : "";
}

static int call_end(struct call *c, struct lab_err *err)
{
    int ok = c->rc == SQLITE_OK || c->rc == SQLITE_ROW || c->rc == SQLITE_DONE;
    if (!ok) db_fail(c->store, err);
    if (c->st) {
        sqlite3_reset(c->st);
        sqlite3_clear_bindings(c->st);
    }
    return ok ? 0 : -1;
}

/* For statements without rows, and for those that return one number (id: may be NULL). */
static int call_finish(struct call *c, int64_t *id, struct lab_err *err)
{
    while (call_row(c)) if (id) *id = call_get_integer(c, 0);
    return call_end(c, err);
}

/* ---- the plan ---- */

int store_put_sweep(struct store *s, const char *ini_sha256, const char *name, const char *question, const char *path,
                    const char *text, int64_t *sweep_id, struct lab_err *err)
{
    struct call c = call_begin(s, PUT_SWEEP);
    call_text(&c, ini_sha256);
    call_text(&c, name);
    call_text(&c, question);
    call_text(&c, path);
    call_text(&c, text);
    call_integer(&c, clock_utc_us());
    return call_finish(&c, sweep_id, err);
}

/* Runs of one arm differ in nothing but the seed. */
static int arm_of(struct store *s, const char *config, char arm[HASH_HEX], struct lab_err *err)
{
    struct call c = call_begin(s, ARM);
    call_text(&c, config);
    if (call_row(&c)) hash_bytes(call_get_text(&c, 0), strlen(call_get_text(&c, 0)), arm);
    return call_end(&c, err);
}

int store_put_run(struct store *s, const struct store_run *run, int64_t *run_id, struct lab_err *err)
{
    char arm[HASH_HEX] = "";
    if (arm_of(s, run->config, arm, err) != 0) return -1;
    struct call c = call_begin(s, PUT_RUN);
    call_text(&c, run->config);
    call_text(&c, run->key);
    call_text(&c, run->encoder);
    call_text(&c, run->task);
    call_integer(&c, run->seed);
    call_text(&c, run->variant);
    call_text(&c, arm);
    call_text(&c, run->task_key);
    call_integer(&c, run->parameters);
    call_finite(&c, run->chance);
    return call_finish(&c, run_id, err);
}

int store_put_cell(struct store *s, int64_t sweep_id, int64_t ordinal, int64_t run_id, const char *label, struct lab_err *err)
{
    struct call c = call_begin(s, PUT_CELL);
    call_integer(&c, sweep_id);
    call_integer(&c, ordinal);
    call_integer(&c, run_id);
    call_text(&c, label);
    return call_finish(&c, NULL, err);
}

/* ---- which process runs an attempt ---- */

/* Of a row that has pid, pid_start, lock_at, boot_id from column `at` on. */
static struct db_process get_process(struct call *c, int at)
{
    struct db_process p = { call_get_integer(c, at), call_get_integer(c, at + 1), call_get_integer(c, at + 2), "" };
    snprintf(p.boot_id, sizeof p.boot_id, "%s", call_get_text(c, at + 3));
    return p;
}

enum { REASON = 128 };
static void lost_reason(char reason[REASON], int64_t pid, const char *host)
{
    snprintf(reason, REASON, "process %" PRId64 " on %.64s ended without a word", pid, host);
}

int db_mark_lost(struct store *s, int64_t run_id, struct lab_err *err)
{
    enum { AT_ONCE = 64 };
    int64_t lost[AT_ONCE];
    int n;
    do {
        struct call c = call_begin(s, FIND_RUNNING);
        char reason[AT_ONCE][REASON];
        call_integer(&c, run_id);
        for (n = 0; n < AT_ONCE && call_row(&c); ) {
            struct db_process p = get_process(&c, 1);
            if (db_is_alive(s, &p)) continue;
            lost_reason(reason[n], p.pid, call_get_text(&c, 5));
            lost[n++] = call_get_integer(&c, 0);
        }
        if (call_end(&c, err) != 0) return -1;
        for (int i = 0; i < n; i++) {
            struct store_end end = { .status = "lost", .reason = reason[i], .exit_code = -1 };
            if (store_attempt_end(s, lost[i], &end, err) != 0) return -1;
        }
    } while (n == AT_ONCE);
    return 0;
}

/* ---- what planning asks ---- */

int store_run_status(struct store *s, const char *run_key, struct store_status *out, struct lab_err *err)
{
    static const struct { const char *status; enum store_state state; } table[] = {
        { "running", STORE_RUNNING }, { "done", STORE_DONE }, { "failed", STORE_FAILED }, { "interrupted", STORE_INTERRUPTED },
        { "timeout", STORE_FAILED }, { "lost", STORE_INTERRUPTED }, { "superseded", STORE_PENDING } };
    struct call c = call_begin(s, RUN_STATUS);
    *out = (struct store_status){ .state = STORE_PENDING };
    call_text(&c, run_key);
    if (call_row(&c)) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)
            if (!strcmp(table[i].status, call_get_text(&c, 0))) out->state = table[i].state;
        snprintf(out->reason, sizeof out->reason, "%s", call_get_text(&c, 1));
        out->active_s = (double)call_get_integer(&c, 2) / 1e9;
        out->attempt_id = call_get_integer(&c, 3);
        struct db_process p = get_process(&c, 4);
        if (out->state == STORE_RUNNING && !db_is_alive(s, &p)) {
            out->state = STORE_INTERRUPTED;
            lost_reason(out->reason, p.pid, call_get_text(&c, 8));
        }
    }
    return call_end(&c, err);
}

int store_has_eval(struct store *s, const char *run_key, const struct store_eval *want, int *yes, struct lab_err *err)
{
    struct call c = call_begin(s, HAS_EVAL);
    call_text(&c, run_key);
    call_text(&c, want->split);
    call_integer(&c, want->length);
    call_integer(&c, want->n);
    call_integer(&c, want->seed);
    *yes = call_row(&c);
    return call_end(&c, err);
}

int store_step_ms(struct store *s, const char *task, const char *encoder, const char *variant, double *ms, struct lab_err *err)
{
    struct call c = call_begin(s, STEP_MS);
    call_text(&c, task);
    call_text(&c, encoder);
    call_text(&c, variant);
    *ms = call_row(&c) ? call_get_real(&c, 0) : 0;
    return call_end(&c, err);
}

/* ---- an attempt ---- */

int store_put_env(struct store *s, const char *json, int64_t *env_id, struct lab_err *err)
{
    char sha256[HASH_HEX];
    hash_bytes(json, strlen(json), sha256);
    struct call c = call_begin(s, PUT_ENV);
    call_text(&c, sha256);
    call_text(&c, json);
    return call_finish(&c, env_id, err);
}

/* Is somebody else on it, or is it done?  Then the run is not to be started. */
static int may_begin(struct store *s, int64_t run_id, struct lab_err *err)
{
    int64_t done = 0;
    if (db_mark_lost(s, run_id, err) != 0) return -1;
    struct call c = call_begin(s, FIND_RUNNING);
    call_integer(&c, run_id);
    int running = call_row(&c);
    if (running)
        lab_fail(err, "%s: this run is being run by process %" PRId64 " on %s; wait for it, or stop it", s->path,
                 call_get_integer(&c, 1), call_get_text(&c, 5));
    if (call_end(&c, err) != 0 || running) return -1;
    c = call_begin(s, DONE_ATTEMPT);
    call_integer(&c, run_id);
    if (call_finish(&c, &done, err) != 0) return -1;
    return done ? lab_fail(err, "%s: this run is done already (attempt %" PRId64 ")", s->path, done) : 0;
}

int store_attempt_begin(struct store *s, int64_t run_id, int64_t env_id, int64_t pid, int64_t *attempt_id, struct lab_err *err)
{
    char uuid[DB_UUID], host[65] = "";
    struct db_process p = { .pid = pid };
    if (may_begin(s, run_id, err) != 0 || db_uuid(s, uuid, err) != 0) return -1;
    db_process(s, &p);
    gethostname(host, sizeof host - 1);
    struct call c = call_begin(s, BEGIN_ATTEMPT);
    call_text(&c, uuid);
    call_integer(&c, run_id);
    call_integer(&c, env_id);
    call_integer(&c, clock_utc_us());
    call_text(&c, host);
    call_text(&c, p.boot_id);
    call_integer(&c, p.pid);
    call_integer(&c, p.pid_start);
    call_integer(&c, p.lock_at);
    static const char *const slurm[] = { "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT" };
    for (size_t i = 0; i < sizeof slurm / sizeof *slurm; i++) call_text(&c, getenv(slurm[i]));
    return call_finish(&c, attempt_id, err);
}

int store_attempt_uuid(struct store *s, int64_t attempt_id, char uuid[STORE_UUID], struct lab_err *err)
{
    struct call c = call_begin(s, ATTEMPT_UUID);
    call_integer(&c, attempt_id);
    int found = call_row(&c);
    if (found) snprintf(uuid, STORE_UUID, "%s", call_get_text(&c, 0));
    if (call_end(&c, err) != 0) return -1;
    return found ? 0 : lab_fail(err, "%s: there is no attempt %" PRId64, s->path, attempt_id);
}

int store_is_saved(struct store *s, int64_t run_id, int64_t env_id, const char *uuid, int64_t step, int *yes, struct lab_err *err)
{
    struct call c = call_begin(s, IS_SAVED);
    call_text(&c, uuid);
    call_integer(&c, run_id);
    call_integer(&c, env_id);
    call_integer(&c, step);
    *yes = call_row(&c);
    return call_end(&c, err);
}

int store_attempt_continue(struct store *s, int64_t attempt_id, const char *parent_uuid, int64_t from_step, struct lab_err *err)
{
    struct call c = call_begin(s, CONTINUE_ATTEMPT);
    call_text(&c, parent_uuid);
    call_integer(&c, from_step);
    call_integer(&c, attempt_id);
    return call_finish(&c, NULL, err);
}

int store_attempt_beat(struct store *s, int64_t attempt_id, int64_t last_step, int64_t told, double left_s, struct lab_err *err)
{
    struct call c = call_begin(s, BEAT);
    call_integer(&c, clock_utc_us());
    call_integer(&c, last_step);
    call_integer(&c, told);
    if (left_s >= 0) call_real(&c, left_s);
    else call_null(&c);
    call_integer(&c, attempt_id);
    return call_finish(&c, NULL, err);
}

static int end_attempt(struct store *s, enum statement how, int64_t attempt_id, const struct store_end *end, int64_t *ended, struct lab_err *err)
{
    struct call c = call_begin(s, how);
    call_text(&c, end->status);
    call_text(&c, end->reason);
    call_integer(&c, clock_utc_us());
    call_integer(&c, end->active_ns);
    call_integer(&c, end->last_step);
    call_text(&c, end->result_sha256);
    if (end->exit_code >= 0) call_integer(&c, end->exit_code);
    else call_null(&c);
    if (end->term_signal > 0) call_integer(&c, end->term_signal);
    else call_null(&c);
    call_integer(&c, attempt_id);
    return call_finish(&c, ended, err);
}

int store_attempt_end(struct store *s, int64_t attempt_id, const struct store_end *end, struct lab_err *err)
{
    int64_t ended = 0, late = 0;
    if (end_attempt(s, END_SECOND, attempt_id, end, &late, err) != 0) return -1;
    if (late) return 1;
    if (end_attempt(s, END_ATTEMPT, attempt_id, end, &ended, err) != 0) return -1;
    if (!ended && end_attempt(s, END_LATE, attempt_id, end, &late, err) != 0) return -1;
    if (late) return 1;
    return ended ? 0 : lab_fail(err, "%s: attempt %" PRId64 " is not running, so it cannot end as %s", s->path, attempt_id, end->status);
}

int store_supersede(struct store *s, int64_t attempt_id, struct lab_err *err)
{
    int64_t superseded = 0;
    struct call c = call_begin(s, SUPERSEDE);
    call_integer(&c, attempt_id);
    if (call_finish(&c, &superseded, err) != 0) return -1;
    return superseded ? 0 : lab_fail(err, "%s: attempt %" PRId64 " is not done, so nothing can supersede it", s->path, attempt_id);
}

int store_differs(struct store *s, int64_t attempt_id, const char *json, char fields[STORE_FIELDS], struct lab_err *err)
{
    struct call c = call_begin(s, DIFFERS);
    call_integer(&c, attempt_id);
    call_text(&c, json);
    *fields = '\0';
    while (call_row(&c)) snprintf(fields, STORE_FIELDS, "%s", call_get_text(&c, 0));
    return call_finish(&c, NULL, err);
}

/* ---- records ---- */

static void put_metric(struct call *c, const struct record *r)
{
    call_text(c, r->name);
    call_integer(c, r->step);
    call_number(c, r->value);
}

static void put_eval(struct call *c, const struct record *r)
{
    call_text(c, r->split);
    call_integer(c, r->length);
    call_integer(c, r->step);
    call_integer(c, r->n);
    call_integer(c, r->n_exact);
    call_integer(c, r->n_tok);
    call_integer(c, r->n_tok_ok);
    call_number(c, r->value);
    call_integer(c, r->position);
    call_text(c, r->sha256);
}

/* An evaluation on other data, or of fewer sequences, gives way with all that belongs to it. */
static int drop_eval(struct store *s, int64_t attempt_id, const struct record *r, struct lab_err *err)
{
    struct call c = call_begin(s, DROP_EVAL);
    call_integer(&c, attempt_id);
    call_text(&c, r->split);
    call_integer(&c, r->length);
    call_integer(&c, r->step);
    call_integer(&c, r->n);
    call_integer(&c, r->position);
    return call_finish(&c, NULL, err);
}

static void put_eval_position(struct call *c, const struct record *r)
{
    call_text(c, r->split);
    call_integer(c, r->length);
    call_integer(c, r->step);
    call_integer(c, r->position);
    call_integer(c, r->n_tok);
    call_integer(c, r->n_tok_ok);
}

static void put_eval_slice(struct call *c, const struct record *r)
{
    call_text(c, r->split);
    call_integer(c, r->length);
    call_integer(c, r->step);
    call_integer(c, r->position);
    call_integer(c, r->n);
    call_integer(c, r->n_exact);
    call_integer(c, r->n_tok);
    call_integer(c, r->n_tok_ok);
}

static void put_untrained(struct call *c, const struct record *r)
{
    call_text(c, r->name);
    call_integer(c, r->position);
    call_integer(c, r->n);
    call_integer(c, r->length);
}

static void put_step(struct call *c, const struct record *r) { call_integer(c, r->step); }

static void put_artifact(struct call *c, const struct record *r)
{
    call_text(c, r->text);
    call_text(c, r->name);
    call_integer(c, r->n_tok);
    call_text(c, r->sha256);
}

int store_put_record(struct store *s, int64_t attempt_id, const struct record *r, struct lab_err *err)
{
    static const struct { enum statement statement; void (*bind)(struct call *, const struct record *); } table[] = {
        [RECORD_METRIC] = { PUT_METRIC, put_metric },
        [RECORD_EVAL] = { PUT_EVAL, put_eval },
        [RECORD_EVAL_POSITION] = { PUT_EVAL_POSITION, put_eval_position },
        [RECORD_EVAL_SLICE] = { PUT_EVAL_SLICE, put_eval_slice },
        [RECORD_UNTRAINED] = { PUT_UNTRAINED, put_untrained },
        [RECORD_CHECKPOINT] = { SAVED, put_step },
        [RECORD_SELECTED] = { SELECTED, put_step },
        [RECORD_ARTIFACT] = { PUT_ARTIFACT, put_artifact } };
    if ((size_t)r->type >= sizeof table / sizeof *table || !table[r->type].bind)
        return lab_fail(err, "%s: a record of type %d is not a row of an attempt", s->path, (int)r->type);
    if (r->type == RECORD_EVAL && drop_eval(s, attempt_id, r, err) != 0) return -1;
    struct call c = call_begin(s, table[r->type].statement);
    call_integer(&c, attempt_id);
    table[r->type].bind(&c, r);
    return call_finish(&c, NULL, err);
}

/* ---- ceilings ---- */

int store_ceiling(struct store *s, const char *task_key, int length, const char *kind, int *found, double *value, double *error, struct lab_err *err)
{
    struct call c = call_begin(s, FIND_CEILING);
    call_text(&c, task_key);
    call_integer(&c, length);
    call_text(&c, kind);
    *found = call_row(&c);
    if (*found) *value = call_get_real(&c, 0), *error = call_get_real(&c, 1);
    return call_end(&c, err);
}

int store_weights(struct store *s, int64_t attempt_id, char sha256[HASH_HEX], struct lab_err *err)
{
    struct call c = call_begin(s, FIND_WEIGHTS);
    call_integer(&c, attempt_id);
    snprintf(sha256, HASH_HEX, "%s", call_row(&c) ? call_get_text(&c, 0) : "");
    return call_end(&c, err);
}

int store_put_ceiling(struct store *s, const char *task_key, const char *task, const struct record *r, struct lab_err *err)
{
    struct call c = call_begin(s, PUT_CEILING);
    call_text(&c, task_key);
    call_text(&c, task);
    call_integer(&c, r->length);
    call_text(&c, r->name);
    call_real(&c, r->value);
    call_real(&c, r->error);
    call_integer(&c, r->n);
    return call_finish(&c, NULL, err);
}
