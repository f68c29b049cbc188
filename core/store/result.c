/* result -- the hash of what an attempt measured, made again from its rows.
 *
 * Covered are its curve and evaluations in training, with those of the attempts whose checkpoints it went on from, each up
 * to that step; and its own tests, later ones too.  Equal runs have equal hashes, whatever was stopped or evaluated when.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "store/db.h"

/* What each row of a statement becomes, in the order of the columns. */
struct reader { sqlite3_stmt *st; int column; };

static int64_t integer(struct reader *q) { return sqlite3_column_int64(q->st, q->column++); }

static void text(struct reader *q, char *out, size_t size)
{
    const char *found = (const char *)sqlite3_column_text(q->st, q->column++);
    snprintf(out, size, "%s", found ? found : "");
}

/* Two columns: a number, and what it was instead if it was not finite. */
static double number(struct reader *q)
{
    double x = sqlite3_column_double(q->st, q->column++);
    const char *special = (const char *)sqlite3_column_text(q->st, q->column++);
    return !special ? x : !strcmp(special, "inf") ? (double)INFINITY : !strcmp(special, "-inf") ? -(double)INFINITY : (double)NAN;
}

static void read_metric(struct reader *q, struct record *r)
{
    text(q, r->name, sizeof r->name);
    r->step = integer(q);
    r->value = number(q);
}

static void read_place(struct reader *q, struct record *r)
{
    text(q, r->split, sizeof r->split);
    r->length = integer(q);
    r->step = integer(q);
    r->position = integer(q);
}

static void read_eval(struct reader *q, struct record *r)
{
    read_place(q, r);
    r->n = integer(q), r->n_exact = integer(q), r->n_tok = integer(q), r->n_tok_ok = integer(q);
    r->value = number(q);
    text(q, r->sha256, sizeof r->sha256);
}

static void read_eval_position(struct reader *q, struct record *r)
{
    read_place(q, r);
    r->n_tok = integer(q), r->n_tok_ok = integer(q);
}

static void read_eval_slice(struct reader *q, struct record *r)
{
    read_place(q, r);
    r->n = integer(q), r->n_exact = integer(q), r->n_tok = integer(q), r->n_tok_ok = integer(q);
}

#define PART "WITH RECURSIVE part(attempt_id, upto, own) AS (SELECT attempt_id, 9223372036854775807, 1 FROM attempt WHERE attempt_id = ?1 UNION ALL" \
    " SELECT b.attempt_id, min(p.upto, n.from_step), 0 FROM part p JOIN attempt n ON n.attempt_id = p.attempt_id JOIN attempt b ON b.attempt_uuid = n.parent_uuid) SELECT "
#define TAKEN " USING(attempt_id) WHERE iif(e.split IN ('test', 'free'), p.own, e.step <= p.upto)"

static const struct { enum record_type type; void (*read)(struct reader *, struct record *); const char *sql; } source[] = {
    { RECORD_METRIC, read_metric, PART "e.name, e.step, e.value, e.special FROM part p CROSS JOIN metric e USING(attempt_id) WHERE e.step <= p.upto" },
    { RECORD_EVAL, read_eval, PART "e.split, e.length, e.step, e.seed, e.n, e.n_exact, e.n_tok, e.n_tok_ok, e.loss, e.loss_special, e.data_sha256"
                                   " FROM part p CROSS JOIN eval e" TAKEN },
    { RECORD_EVAL_POSITION, read_eval_position, PART "e.split, e.length, e.step, e.position, e.n, e.n_ok FROM part p CROSS JOIN eval_position e" TAKEN },
    { RECORD_EVAL_SLICE, read_eval_slice, PART "e.split, e.length, e.step, e.slice, e.n, e.n_exact, e.n_tok, e.n_tok_ok FROM part p CROSS JOIN eval_slice e" TAKEN } };

int db_result(struct store *s, int64_t attempt_id, char sum[HASH_HEX], struct lab_err *err)
{
    int rc = SQLITE_DONE;
    sum[0] = '\0';
    for (size_t i = 0; i < sizeof source / sizeof *source && rc == SQLITE_DONE; i++) {
        sqlite3_stmt *st = NULL;
        rc = sqlite3_prepare_v2(s->db, source[i].sql, -1, &st, NULL);
        if (rc == SQLITE_OK) rc = sqlite3_bind_int64(st, 1, attempt_id);
        while ((rc == SQLITE_OK || rc == SQLITE_ROW) && (rc = sqlite3_step(st)) == SQLITE_ROW) {
            struct record r = { .type = source[i].type };
            source[i].read(&(struct reader){ st, 0 }, &r);
            record_sum(sum, &r);
        }
        if (rc != SQLITE_DONE) db_fail(s, err);
        sqlite3_finalize(st);
    }
    return rc == SQLITE_DONE ? 0 : -1;
}

static int stored(struct store *s, int64_t attempt_id, char sum[HASH_HEX], struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT result_sha256 FROM attempt WHERE attempt_id = ?1", -1, &st, NULL);
    sum[0] = '\0';
    if (rc == SQLITE_OK) rc = sqlite3_bind_int64(st, 1, attempt_id);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) text(&(struct reader){ st, 0 }, sum, HASH_HEX);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_fail(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

int db_seal(struct store *s, int64_t attempt_id, struct lab_err *err)
{
    char sum[HASH_HEX], sql[200];
    if (db_result(s, attempt_id, sum, err) != 0) return -1;
    snprintf(sql, sizeof sql, "UPDATE attempt SET result_sha256 = '%s' WHERE attempt_id = %" PRId64, sum, attempt_id);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, err);
}

int db_fits(struct store *s, int64_t attempt_id, int *fits, struct lab_err *err)
{
    char was[HASH_HEX], sum[HASH_HEX];
    if (stored(s, attempt_id, was, err) != 0 || db_result(s, attempt_id, sum, err) != 0) return -1;
    *fits = !strcmp(was, sum);
    return 0;
}

/* A result that did not fit its hash before must not fit it afterwards. */
int store_put_evaluation(struct store *s, int64_t attempt_id, const struct record *r, size_t n, struct lab_err *err)
{
    int fits;
    if (db_fits(s, attempt_id, &fits, err) != 0) return -1;
    for (size_t i = 0; i < n; i++) if (store_put_record(s, attempt_id, &r[i], err) != 0) return -1;
    return fits ? db_seal(s, attempt_id, err) : 0;
}
