/* status -- see status.h. */
#include "answer/status.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/table.h"
#include "base/clock.h"
#include "base/mem.h"

enum { STOPPED_SHOWN = 10 };         /* of each sweep; what runs is shown in full */

static const char *const state_name[] = { [STORE_PENDING] = "pending", [STORE_RUNNING] = "running", [STORE_DONE] = "done",
                                          [STORE_FAILED] = "failed", [STORE_INTERRUPTED] = "interrupted" };
enum { N_STATE = sizeof state_name / sizeof *state_name };

/* ---- reading ---- */

static const char sweep_sql[] = "SELECT sweep_id, name, ini_path FROM sweep WHERE ?1 = '' OR ini_sha256 = ?1 ORDER BY sweep_id DESC";

/* The attempt that counts: the accepted one, else the last. */
static const char run_sql[] =
    "SELECT c.sweep_id, r.run_key, r.task, r.encoder, c.label, r.seed, r.config ->> '$.train.steps',"
    " CASE WHEN a.status IS NULL OR a.status = 'superseded' THEN 'pending'"
    "      WHEN a.status = 'timeout' THEN 'failed' WHEN a.status = 'lost' THEN 'interrupted' ELSE a.status END,"
    " a.reason, a.last_step, coalesce(a.ended_us, a.started_us), a.beat_us, a.pid, a.host,"
    " CASE WHEN a.status <> 'done' THEN (SELECT m.value FROM metric m WHERE m.attempt_id = a.attempt_id AND m.name = 'loss'"
    "                                    ORDER BY m.step DESC LIMIT 1) END, a.attempt_id, a.from_step, a.left_s"
    " FROM sweep_cell c JOIN run r USING(run_id)"
    " LEFT JOIN attempt a ON a.attempt_id = coalesce((SELECT d.attempt_id FROM attempt d WHERE d.run_id = r.run_id AND d.status = 'done'),"
    "  (SELECT l.attempt_id FROM attempt l WHERE l.run_id = r.run_id ORDER BY l.started_us DESC, l.attempt_id DESC LIMIT 1))"
    " WHERE c.sweep_id IN (SELECT sweep_id FROM sweep WHERE ?1 = '' OR ini_sha256 = ?1) ORDER BY c.sweep_id DESC, c.ordinal";

static const char curve_sql[] = "SELECT value FROM metric WHERE attempt_id = ?1 AND name = 'loss' ORDER BY step DESC LIMIT ?2";

struct reading { struct status *status; size_t at; int failed; struct lab_err *err; };

static const char *text_of(const struct store_value *v) { return v->type == STORE_TEXT ? v->text : ""; }

static int keep_sweep(void *ctx, int n, const struct store_value *v)
{
    struct reading *r = ctx;
    struct status *s = r->status;
    (void)n;
    r->failed = 1;                                           /* until the row is kept */
    if (mem_grow(&s->sweep, &s->cap, s->n + 1, sizeof *s->sweep, r->err) != 0) return 1;
    struct status_sweep *sweep = &s->sweep[s->n++];
    *sweep = (struct status_sweep){ .id = v[0].integer };
    sweep->name = mem_strdup(text_of(&v[1]), r->err);
    sweep->path = sweep->name ? mem_strdup(text_of(&v[2]), r->err) : NULL;
    return r->failed = !sweep->path;
}

static int keep_run(void *ctx, int n, const struct store_value *v)
{
    struct reading *r = ctx;
    int state = 0;
    (void)n;
    while (r->at < r->status->n && r->status->sweep[r->at].id != v[0].integer) r->at++;      /* both come in one order */
    if (r->at == r->status->n) return 1;                     /* of a sweep entered since */
    struct status_sweep *sweep = &r->status->sweep[r->at];
    while (state < N_STATE - 1 && strcmp(state_name[state], text_of(&v[7]))) state++;
    sweep->runs++;
    sweep->count[state]++;
    if (state == STORE_PENDING || state == STORE_DONE) return 0;

    r->failed = 1;
    if (mem_grow(&sweep->run, &sweep->cap, sweep->n + 1, sizeof *sweep->run, r->err) != 0) return 1;
    struct status_run *run = &sweep->run[sweep->n++];
    *run = (struct status_run){ .state = (enum store_state)state, .seed = v[5].integer, .steps = v[6].integer, .step = v[9].integer,
                                .since_us = v[10].integer, .heard_us = v[11].integer, .pid = v[12].integer,
                                .loss = v[14].type == STORE_REAL ? v[14].real : NAN, .attempt_id = v[15].integer,
                                .from_step = v[16].integer, .left_s = v[17].type == STORE_REAL ? v[17].real : NAN };
    char **const field[] = { &run->key, &run->task, &run->encoder, &run->label, &run->reason, &run->host };
    static const int column[] = { 1, 2, 3, 4, 8, 13 };
    for (int i = 0; i < 6; i++) if (!(*field[i] = mem_strdup(text_of(&v[column[i]]), r->err))) return 1;
    return r->failed = 0;
}

/* A run that says "running" may have lost its process: then it is as good as interrupted. */
static int check_running(struct status_sweep *sweep, struct store *store, struct lab_err *err)
{
    for (size_t i = 0; i < sweep->n; i++) {
        struct status_run *run = &sweep->run[i];
        struct store_status now;
        if (run->state != STORE_RUNNING) continue;
        if (store_run_status(store, run->key, &now, err) != 0) return -1;
        if (now.state != STORE_INTERRUPTED) continue;
        sweep->count[run->state]--;
        sweep->count[run->state = now.state]++;
        run->since_us = run->heard_us;
        free(run->reason);
        if (!(run->reason = mem_strdup(now.reason, err))) return -1;
    }
    return 0;
}

static int keep_point(void *ctx, int n, const struct store_value *v)
{
    struct status_run *run = ctx;
    (void)n;
    run->curve[run->n_curve++] = v[0].type == STORE_REAL ? v[0].real : NAN;
    return run->n_curve == LIVE_POINTS;
}

/* The newest points come first, so few are read of however long a curve. */
static int read_curve(struct status_run *run, struct store *store, struct lab_err *err)
{
    char id[32], most[16];
    const char *arg[] = { id, most };
    struct store_rows points = { NULL, keep_point, run };
    snprintf(id, sizeof id, "%" PRId64, run->attempt_id);
    snprintf(most, sizeof most, "%d", LIVE_POINTS);
    if (store_query(store, curve_sql, arg, 2, 0, &points, err) != 0) return -1;
    for (int i = 0, j = run->n_curve - 1; i < j; i++, j--) {
        double x = run->curve[i];
        run->curve[i] = run->curve[j], run->curve[j] = x;
    }
    return 0;
}

static int read_curves(struct status_sweep *sweep, struct store *store, struct lab_err *err)
{
    for (size_t i = 0; i < sweep->n; i++)
        if (sweep->run[i].state == STORE_RUNNING && read_curve(&sweep->run[i], store, err) != 0) return -1;
    return 0;
}

int status_read(struct status *s, struct store *store, const char *ini_sha256, struct lab_err *err)
{
    const char *arg[] = { ini_sha256 ? ini_sha256 : "" };
    struct reading r = { s, 0, 0, err };
    struct store_rows sweeps = { NULL, keep_sweep, &r }, runs = { NULL, keep_run, &r };
    *s = (struct status){ .now_us = clock_utc_us() };
    int rc = store_query(store, sweep_sql, arg, 1, 0, &sweeps, err);
    if (rc == 0 && !r.failed) rc = store_query(store, run_sql, arg, 1, 0, &runs, err);
    if (r.failed) rc = -1;
    for (size_t i = 0; rc == 0 && i < s->n; i++) rc = check_running(&s->sweep[i], store, err) != 0 ? -1 : read_curves(&s->sweep[i], store, err);
    if (rc == 0 && ini_sha256 && !s->n) {
        lab_fail(err, "%s: this experiment file, as it stands now, was never run here; `lab plan` shows what it needs, `lab status` "
                 "alone all that was run", store_path(store));
        rc = STATUS_NO_SWEEP;
    }
    if (rc != 0) status_release(s);
    return rc == -2 ? -1 : rc;
}

void status_release(struct status *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct status_sweep *sweep = &s->sweep[i];
        for (size_t k = 0; k < sweep->n; k++) {
            struct status_run *run = &sweep->run[k];
            char *const field[] = { run->key, run->task, run->encoder, run->label, run->reason, run->host };
            for (int f = 0; f < 6; f++) free(field[f]);
        }
        free(sweep->run);
        free(sweep->name);
        free(sweep->path);
    }
    free(s->sweep);
    *s = (struct status){ 0 };
}

int status_is_over(const struct status *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->sweep[i].count[STORE_DONE] + s->sweep[i].count[STORE_FAILED] < s->sweep[i].runs) return 0;
    return s->n > 0;
}

/* ---- how long it still takes ---- */

static double seconds_to(const struct status *s, int64_t us) { return us < s->now_us ? (double)(s->now_us - us) / 1e6 : 0; }

/* Is there no other run before i, of the same process, that was heard of at least as late? */
static int speaks_for_its_process(const struct status_sweep *sweep, size_t i)
{
    const struct status_run *r = &sweep->run[i];
    for (size_t k = 0; k < sweep->n; k++) {
        const struct status_run *other = &sweep->run[k];
        if (k == i || other->state != STORE_RUNNING || isnan(other->left_s) || other->pid != r->pid || strcmp(other->host, r->host)) continue;
        if (other->heard_us > r->heard_us || (other->heard_us == r->heard_us && k < i)) return 0;
    }
    return 1;
}

/* Each process expects to do all that is left by itself: two that would need 10 s and 15 s alone need 6 s together. */
double status_left(const struct status *s, const struct status_sweep *sweep)
{
    double rate = 0;
    for (size_t i = 0; i < sweep->n; i++) {
        const struct status_run *r = &sweep->run[i];
        if (r->state != STORE_RUNNING || isnan(r->left_s) || !speaks_for_its_process(sweep, i)) continue;
        rate += 1 / fmax(r->left_s - seconds_to(s, r->heard_us), 1e-3);
    }
    return rate > 0 ? 1 / rate : -1;
}

/* ---- for people ---- */

static const enum store_state told[] = { STORE_DONE, STORE_RUNNING, STORE_INTERRUPTED, STORE_FAILED, STORE_PENDING };

static void counts(const struct status_sweep *s, struct str *out)
{
    const char *between = ": ";
    table_show(out, s->name);
    str_printf(out, ": %" PRId64 " run%s", s->runs, s->runs == 1 ? "" : "s");
    for (int i = 0; i < N_STATE; i++) {
        if (!s->count[told[i]]) continue;
        str_printf(out, "%s%" PRId64 " %s", between, s->count[told[i]], state_name[told[i]]);
        between = ", ";
    }
}

void status_line(const struct status_sweep *s, struct str *out)
{
    counts(s, out);
    str_add(out, "\n");
}

static void head(const struct status *s, const struct status_sweep *sweep, struct str *out)
{
    double left = status_left(s, sweep);
    counts(sweep, out);
    if (left >= 0) str_add(out, "; "), str_duration(out, left), str_add(out, " left");
    str_add(out, "\n");
}

static void add_text(struct table *t, struct str *text)
{
    table_add(t, str_text(text));
    t->failed |= text->failed;
    str_clear(text);
}

static void add_run(struct table *t, const struct status *s, const struct status_run *r, struct str *text)
{
    table_add(t, state_name[r->state]);
    str_printf(text, "%s %s seed %" PRId64 "%s%s", r->task, r->encoder, r->seed, *r->label ? " " : "", r->label);
    add_text(t, text);
    str_printf(text, "%" PRId64 "/%" PRId64, r->step, r->steps);
    table_number(t, str_text(text));
    str_clear(text);
    str_printf(text, "%.4f", r->loss);
    if (isfinite(r->loss)) table_number(t, str_text(text));
    else table_add(t, NULL);
    str_clear(text);
    str_duration(text, seconds_to(s, r->since_us));
    table_number(t, str_text(text));
    str_clear(text);
    if (r->state == STORE_RUNNING) {
        str_printf(text, "process %" PRId64 " on %s, heard of ", r->pid, r->host);
        str_duration(text, seconds_to(s, r->heard_us));
        str_add(text, " ago");
    } else str_add(text, r->reason);
    add_text(t, text);
}

/* Those that run too, or those alone that stopped. */
static int print_runs(const struct status *s, const struct status_sweep *sweep, int running, struct str *out)
{
    static const char *const header[] = { "state", "run", "step", "loss", "since", "by or why" };
    struct table t;
    struct str text = { 0 };
    int stopped = 0, shown = 0;
    table_init(&t, sizeof header / sizeof *header);
    for (int i = 0; i < t.n_col; i++) table_add(&t, header[i]);
    for (size_t i = 0; i < sweep->n; i++)
        if (sweep->run[i].state == STORE_RUNNING ? running : stopped++ < STOPPED_SHOWN) add_run(&t, s, &sweep->run[i], &text), shown++;
    if (shown) table_write(&t, TABLE_TEXT, out);
    out->failed |= text.failed;
    str_free(&text);
    table_free(&t);
    return stopped > STOPPED_SHOWN ? stopped - STOPPED_SHOWN : 0;
}

static void print_rest(const struct status *s, const struct status_sweep *sweep, int running, struct str *out)
{
    int more = print_runs(s, sweep, running, out);
    if (more) str_printf(out, "... and %d more; `lab query @failures` lists them\n", more);
    if (sweep->count[STORE_FAILED] && !sweep->count[STORE_RUNNING]) str_add(out, "`lab retry` runs the failed ones again\n");
}

/* Sweeps with nothing to tell stand close together. */
static void print_all(const struct status *s, void (*runs)(const struct status *, const struct status_sweep *, void *, struct str *), void *ctx,
                      struct str *out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct status_sweep *sweep = &s->sweep[i];
        if (i && (sweep->n || s->sweep[i - 1].n)) str_add(out, "\n");
        head(s, sweep, out);
        runs(s, sweep, ctx, out);
    }
    if (!s->n) str_add(out, "nothing was run here yet; `lab run FILE.ini` does\n");
}

static void once(const struct status *s, const struct status_sweep *sweep, void *ctx, struct str *out)
{
    (void)ctx;
    print_rest(s, sweep, 1, out);
}

void status_print(const struct status *s, struct str *out) { print_all(s, once, NULL, out); }

/* ---- for a screen ---- */

static void fill_live(struct live_worker *w, const struct status *s, const struct status_run *r, struct str *text)
{
    double seconds = (double)(r->heard_us - r->since_us) / 1e6;
    *w = (struct live_worker){ .step = r->step, .steps = r->steps, .n_loss = r->n_curve, .left = -1 };
    str_clear(text);
    str_printf(text, "%s %s seed %" PRId64 "%s%s", r->task, r->encoder, r->seed, *r->label ? " " : "", r->label);
    struct str name = { 0 };
    table_show(&name, str_text(text));
    memcpy(w->name, str_text(&name), str_utf8(str_text(&name), name.len < sizeof w->name ? name.len : sizeof w->name - 1));
    str_free(&name);
    memcpy(w->loss, r->curve, sizeof *w->loss * (size_t)r->n_curve);
    w->rate = seconds > 0 ? (double)(r->step - r->from_step) / seconds : 0;
    if (w->rate > 0) w->left = (double)(r->steps - r->step) / w->rate;
    str_clear(text);
    str_duration(text, seconds_to(s, r->heard_us));
    snprintf(w->note, sizeof w->note, "heard of %s ago", str_text(text));
}

struct screen { int width, utf8; };

static void screen_runs(const struct status *s, const struct status_sweep *sweep, void *ctx, struct str *out)
{
    const struct screen *screen = ctx;
    struct lab_err err;
    struct str text = { 0 };
    int n = 0;
    struct live_worker *w = mem_alloc((size_t)sweep->count[STORE_RUNNING] * sizeof *w, &err);
    for (size_t i = 0; w && i < sweep->n; i++) if (sweep->run[i].state == STORE_RUNNING) fill_live(&w[n++], s, &sweep->run[i], &text);
    if (n) live_lines(out, w, n, screen->width, screen->utf8);
    out->failed |= !w || text.failed;
    free(w);
    str_free(&text);
    print_rest(s, sweep, 0, out);
}

void status_live(const struct status *s, int width, int utf8, struct str *out) { print_all(s, screen_runs, &(struct screen){ width, utf8 }, out); }

/* ---- for programs ---- */

static void json_field(struct str *out, const char *name, const char *value)
{
    str_printf(out, ", \"%s\": ", name);
    str_json(out, value);
}

static void json_run(const struct status *s, const struct status_run *r, struct str *out)
{
    str_printf(out, "{\"state\": \"%s\"", state_name[r->state]);
    json_field(out, "task", r->task);
    json_field(out, "encoder", r->encoder);
    str_printf(out, ", \"seed\": %" PRId64, r->seed);
    json_field(out, "label", r->label);
    str_printf(out, ", \"step\": %" PRId64 ", \"steps\": %" PRId64 ", \"loss\": ", r->step, r->steps);
    if (isfinite(r->loss)) str_real(out, r->loss);
    else str_add(out, "null");
    str_printf(out, ", \"since_s\": %.3f, \"heard_s\": %.3f, \"pid\": %" PRId64, seconds_to(s, r->since_us), seconds_to(s, r->heard_us), r->pid);
    json_field(out, "host", r->host);
    json_field(out, "reason", r->reason);
    json_field(out, "run_key", r->key);
    str_add(out, "}");
}

void status_json(const struct status *s, struct str *out)
{
    str_add(out, "[");
    for (size_t i = 0; i < s->n; i++) {
        const struct status_sweep *sweep = &s->sweep[i];
        str_add(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        str_json(out, sweep->name);
        json_field(out, "file", sweep->path);
        str_printf(out, ", \"runs\": %" PRId64, sweep->runs);
        for (int k = 0; k < N_STATE; k++) str_printf(out, ", \"%s\": %" PRId64, state_name[told[k]], sweep->count[told[k]]);
        str_add(out, ", \"left_s\": ");
        if (status_left(s, sweep) >= 0) str_real(out, status_left(s, sweep));
        else str_add(out, "null");
        str_add(out, ", \"now\": [");
        for (size_t k = 0; k < sweep->n; k++) {
            str_add(out, k ? ",\n  " : "\n  ");
            json_run(s, &sweep->run[k], out);
        }
        str_add(out, "]}");
    }
    str_add(out, s->n ? "\n]\n" : "]\n");
}
