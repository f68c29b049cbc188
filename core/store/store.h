/* store -- the results database, and the only code that knows SQLite.
 *
 * One file; one writer, the supervisor.  Opening checks what the file is (application
 * id, schema version, writability, file system) and says what to do when it is not ours.
 * All functions return 0, or -1 with a message in err that starts with the database's path.
 * Opening to write marks as lost every running attempt whose process is gone, and brings a
 * database of an earlier schema up to this one, after a backup.
 */
#ifndef LAB_STORE_STORE_H
#define LAB_STORE_STORE_H
#include "base/hash.h"
#include "exp/record.h"

struct store;
enum store_mode { STORE_WRITE,       /* creates the file and its folder when missing */
                  STORE_READ };      /* must exist; never changes a byte */
int  store_open(struct store **, const char *path, enum store_mode, struct lab_err *err);
void store_close(struct store *);
const char *store_path(const struct store *);
const char *store_uuid(const struct store *);        /* its name, wherever its file is moved; a copy keeps it */
const char *store_notice(const struct store *);      /* what opening it changed and a user should know: "" or one line */

/* Narrows a reader to one experiment, that of the file with this hash, NULL: the one entered last.  From then on the tables
 * sweep, sweep_cell and run and all views hold its runs alone.  *found 0: there is no such experiment, and nothing was narrowed. */
int store_scope(struct store *, const char *ini_sha256, int *found, struct lab_err *err);

/* A write transaction; the scheduler commits about every second or 1000 records. */
int store_begin(struct store *, struct lab_err *err);
int store_commit(struct store *, struct lab_err *err);
void store_rollback(struct store *);                 /* if one is open */

/* ---- a database that fails ---- */
void store_patience(struct store *, int ms);         /* how long to wait for another program's lock (60 s unless said otherwise) */
int  store_was_busy(const struct store *);           /* was what failed last such a lock?  It may be gone soon. */
/* Was the file deleted or replaced since it was opened to write?  Then every transaction is refused; what it held can be saved,
 * in its old place or, if that is taken, beside it: path. */
int  store_moved(const struct store *);
enum { STORE_PATH = 4096 };
int  store_rescue(struct store *, char path[STORE_PATH], struct lab_err *err);

/* ---- the plan ---- */
int store_put_sweep(struct store *, const char *ini_sha256, const char *name, const char *question, const char *path,
                    const char *text, int64_t *sweep_id, struct lab_err *err);
/* parameters: trained scalars; chance: token accuracy of guessing, not finite = not known. */
struct store_run { const char *key, *encoder, *task, *variant, *task_key, *config; int64_t seed, parameters; double chance; };
int store_put_run(struct store *, const struct store_run *, int64_t *run_id, struct lab_err *err);   /* the old one if there */
int store_put_cell(struct store *, int64_t sweep_id, int64_t ordinal, int64_t run_id, const char *label, struct lab_err *err);

enum store_state { STORE_PENDING, STORE_RUNNING, STORE_DONE, STORE_FAILED, STORE_INTERRUPTED };
struct store_status { enum store_state state; char reason[512]; double active_s; int64_t attempt_id; };
/* The state of a run by key; PENDING if the database has never heard of it. */
int store_run_status(struct store *, const char *run_key, struct store_status *, struct lab_err *err);
/* Does the done attempt have such an evaluation, of at least n sequences of the data of this seed? *yes 1 or 0. */
struct store_eval { const char *split; int length; int64_t n, seed; };
int store_has_eval(struct store *, const char *run_key, const struct store_eval *, int *yes, struct lab_err *err);
/* Mean milliseconds a step over done attempts of this task/variant, 0 if none: for the expected time. */
int store_step_ms(struct store *, const char *task, const char *encoder, const char *variant, double *ms, struct lab_err *err);

/* ---- an attempt ---- */
int store_put_env(struct store *, const char *json, int64_t *env_id, struct lab_err *err);
/* Refused while a living process has this run, and when it is done; an attempt whose process is gone is marked lost. */
int store_attempt_begin(struct store *, int64_t run_id, int64_t env_id, int64_t pid, int64_t *attempt_id, struct lab_err *err);
/* Its name in every database. */
enum { STORE_UUID = 37 };
int store_attempt_uuid(struct store *, int64_t attempt_id, char uuid[STORE_UUID], struct lab_err *err);
/* May training go on from a checkpoint that this attempt wrote at this step?  *yes 1 if it is an attempt at this run in the
 * same environment (the same lab, plugins and CPU: others may give other bits), and everything that it told before is here. */
int store_is_saved(struct store *, int64_t run_id, int64_t env_id, const char *uuid, int64_t step, int *yes, struct lab_err *err);
/* The attempt goes on from another's checkpoint: its curve continues the other's up to that step. */
int store_attempt_continue(struct store *, int64_t attempt_id, const char *parent_uuid, int64_t from_step, struct lab_err *err);
/* A sign of life.  told: how many of its records are entered by now; left_s: seconds that the supervisor expects to need for its
 * whole sweep, < 0: not known. */
int store_attempt_beat(struct store *, int64_t attempt_id, int64_t last_step, int64_t told, double left_s, struct lab_err *err);
/* Enters METRIC, EVAL, EVAL_POSITION (n_tok, n_tok_ok: at this position), EVAL_SLICE, UNTRAINED, ARTIFACT, CHECKPOINT and SELECTED
 * records.  What comes twice is replaced; an evaluation only by one of more sequences, or of the data of another seed.  Later
 * evaluations of a done run go to its done attempt. */
/* The hash of the weights that a done attempt has kept; "" if it has kept none. */
int store_weights(struct store *, int64_t attempt_id, char sha256[HASH_HEX], struct lab_err *err);
int store_put_record(struct store *, int64_t attempt_id, const struct record *, struct lab_err *err);
/* A later evaluation of a done attempt: its records, and the hash of the result with them. */
int store_put_evaluation(struct store *, int64_t attempt_id, const struct record *, size_t n, struct lab_err *err);
struct store_end {
    const char *status;              /* done, failed, interrupted, timeout, lost */
    const char *reason, *result_sha256;                              /* may be NULL */
    int64_t active_ns, last_step;
    int exit_code, term_signal;      /* -1, 0: none */
};
/* 1: it had been taken for lost meanwhile.  What it measured is kept as evidence ("superseded"), but never accepted. */
int store_attempt_end(struct store *, int64_t attempt_id, const struct store_end *, struct lab_err *err);
/* Withdraws a done attempt, so that its run may be trained anew: what it measured stays, but no view shows it. */
int store_supersede(struct store *, int64_t attempt_id, struct lab_err *err);
/* In what the environment of an attempt differs from this one, as words: "commit, cpu"; "" if in nothing that could change bits. */
enum { STORE_FIELDS = 160 };
int store_differs(struct store *, int64_t attempt_id, const char *env_json, char fields[STORE_FIELDS], struct lab_err *err);

/* Ceilings are cached by task_key, length and kind (order_blind, majority): *found 1 or 0. */
int store_ceiling(struct store *, const char *task_key, int length, const char *kind, int *found, double *value, double *error, struct lab_err *err);
int store_put_ceiling(struct store *, const char *task_key, const char *task, const struct record *, struct lab_err *err);

/* ---- reading: any single SELECT, row by row ---- */
enum store_type { STORE_NULL, STORE_INTEGER, STORE_REAL, STORE_TEXT };
struct store_value { enum store_type type; int64_t integer; double real; const char *text; };
struct store_rows {
    int (*header)(void *ctx, int n, const char *const *name);        /* once, before the first row; may be NULL */
    int (*row)(void *ctx, int n, const struct store_value *value);   /* nonzero stops */
    void *ctx;
};
/* Values for ?1, ?2 ... as text; read-only statements alone are accepted; seconds limits the time, 0 = none.
 * 0; -1 the database failed; -2 the query is at fault: its SQL, what it would do, or the time it takes. */
int store_query(struct store *, const char *sql, const char *const *args, int n_args, double seconds,
                const struct store_rows *, struct lab_err *err);

/* ---- for lab doctor ---- */
const char *store_sqlite(void);                      /* the version of the library in use */
const char *store_sqlite_bug(int version);           /* what is wrong with 3040001 (0: the one in use) that a user must know; NULL: nothing */
void store_network(const char *folder, char type[32]);           /* the type of its file system if that is a network's, else "" */
#endif
