/* study -- see study.h. */
#include "answer/study.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/stats.h"
#include "answer/table.h"
#include "base/mem.h"

enum { FAILURES_SHOWN = 10 };

/* ---- loading ---- */

static const char sweep_sql[] =
    "SELECT sweep_id, name, question, ini_sha256, ini_text FROM sweep WHERE ?1 = '' OR ini_sha256 = ?1 ORDER BY sweep_id DESC LIMIT 1";

/* The attempt is the one that the view `runs` shows. Code is what both sides of a comparison must share: not the CPU. */
static const char run_sql[] =
    "SELECT c.ordinal, r.seed, r.parameters, r.chance, json_extract(r.config, '$.model.causal'), s.step_ms, s.train_loss,"
    " EXISTS(SELECT 1 FROM metric m WHERE m.attempt_id = a.attempt_id AND m.special IS NOT NULL) OR"
    " EXISTS(SELECT 1 FROM eval e WHERE e.attempt_id = a.attempt_id AND e.loss_special IS NOT NULL),"
    " s.selected_step,"
    " r.task, r.task_key,"
    " iif(r.config ->> '$.train.length[0]' < r.train_length, (r.config ->> '$.train.length[0]') || '..', '') || r.train_length,"
    " r.encoder, c.label, s.state, s.reason,"
    " (SELECT f.path FROM attempt t JOIN artifact f USING(attempt_id) WHERE t.run_id = r.run_id AND f.kind = 'log'"
    "  ORDER BY t.started_us DESC LIMIT 1),"
    " r.variant, (r.config ->> '$.train.steps') || ' steps of ' || (r.config ->> '$.train.batch'),"
    " (SELECT substr(v.json ->> '$.commit', 1, 12) || iif(v.json ->> '$.dirty' = 'yes', ' with changes', '') || ', ' ||"
    "         (v.json ->> '$.real') || ', ' || (v.json ->> '$.compiler') || ', ' || (v.json ->> '$.flags') ||"
    "         ', task ' || substr(v.json ->> '$.task_sha256', 1, 12)"
    "  FROM env v WHERE v.env_id = a.env_id AND a.status = 'done'),"
    " (SELECT (v.json ->> '$.cpu') || ', ' || (v.json ->> '$.blas') || ', ' || (v.json ->> '$.simd')"
    "  FROM env v WHERE v.env_id = a.env_id AND a.status = 'done'),"
    " r.selection"
    " FROM sweep_cell c JOIN run r USING(run_id) JOIN runs s USING(run_key)"
    " LEFT JOIN attempt a ON a.attempt_id = (SELECT t.attempt_id FROM attempt t WHERE t.run_id = r.run_id"
    "  ORDER BY t.status = 'done' DESC, t.started_us DESC, t.attempt_id DESC LIMIT 1)"
    " WHERE c.sweep_id = ?1 ORDER BY c.ordinal";

static const char point_sql[] =
    "SELECT c.ordinal, e.length, e.n, e.token_accuracy, e.sequence_accuracy, e.loss, e.data_sha256"
    " FROM sweep_cell c JOIN run r USING(run_id) JOIN results e USING(run_key)"
    " WHERE c.sweep_id = ?1 AND e.split = 'test' ORDER BY c.ordinal";

static char *copy_value(const struct store_value *v, struct lab_err *err)
{
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)v->integer);
    return mem_strdup(v->type == STORE_TEXT ? v->text : v->type == STORE_INTEGER ? number : "", err);
}

double study_real(const struct store_value *v)
{
    return v->type == STORE_REAL ? v->real : v->type == STORE_INTEGER ? (double)v->integer : NAN;
}

const char *study_text(const struct study *s, int run, enum study_text field) { return s->run[run].text[field]; }

static int same(const struct study *s, int run, int other, enum study_text field)
{
    return !strcmp(study_text(s, run, field), study_text(s, other, field));
}

/* The panel of a run, entered if new; -1 out of memory. */
static int panel_of(struct study *s, int run)
{
    for (size_t i = 0; i < s->n_panel; i++) {
        int first = s->panel[i].run;
        if (same(s, run, first, STUDY_TASK) && same(s, run, first, STUDY_TASK_KEY) && same(s, run, first, STUDY_TRAIN)) return (int)i;
    }
    if (mem_grow(&s->panel, &s->cap_panel, s->n_panel + 1, sizeof *s->panel, s->err) != 0) return -1;
    s->panel[s->n_panel] = (struct study_panel){ .run = run };
    return (int)s->n_panel++;
}

static int arm_of(struct study *s, int run)
{
    int panel = panel_of(s, run);
    if (panel < 0) return -1;
    for (size_t i = s->n_arm; i-- > 0; ) {                   /* the last is the likeliest: seeds often vary fastest */
        int first = s->arm[i].run;
        if (s->arm[i].panel == panel && same(s, run, first, STUDY_ENCODER) && same(s, run, first, STUDY_LABEL)) return (int)i;
    }
    if (mem_grow(&s->arm, &s->cap_arm, s->n_arm + 1, sizeof *s->arm, s->err) != 0) return -1;
    s->arm[s->n_arm] = (struct study_arm){ .run = run, .panel = panel };
    return (int)s->n_arm++;
}

static int keep_run(void *ctx, int n, const struct store_value *v)
{
    enum { FIRST_TEXT = 9 };
    struct study *s = ctx;
    (void)n;
    s->failed = 1;                                           /* until the row is kept */
    if (mem_grow(&s->run, &s->cap_run, s->n_run + 1, sizeof *s->run, s->err) != 0) return 1;
    struct study_run *r = &s->run[s->n_run++];
    *r = (struct study_run){ .ordinal = v[0].integer, .seed = v[1].integer, .parameters = v[2].integer, .chance = study_real(&v[3]),
                             .causal = v[4].integer != 0, .step_ms = study_real(&v[5]), .train_loss = study_real(&v[6]),
                             .diverged = v[7].integer != 0, .selected_step = v[8].integer };
    for (int i = 0; i < STUDY_N_TEXT; i++) if (!(r->text[i] = copy_value(&v[FIRST_TEXT + i], s->err))) return 1;
    if ((r->arm = arm_of(s, (int)s->n_run - 1)) < 0) return 1;
    struct study_arm *arm = &s->arm[r->arm];
    struct study_panel *panel = &s->panel[arm->panel];
    if (++arm->planned > panel->planned) panel->planned = arm->planned;
    return s->failed = 0;
}

/* There are few data sets: one for each task and length. */
static int data_of(struct study *s, const char *sha256)
{
    for (size_t i = s->n_data; i-- > 0; ) if (!strcmp(s->data[i], sha256)) return (int)i;
    if (mem_grow(&s->data, &s->cap_data, s->n_data + 1, sizeof *s->data, s->err) != 0) return -1;
    if (!(s->data[s->n_data] = mem_strdup(sha256, s->err))) return -1;
    return (int)s->n_data++;
}

static int keep_point(void *ctx, int n, const struct store_value *v)
{
    struct study *s = ctx;
    (void)n;
    while (s->cursor < s->n_run && s->run[s->cursor].ordinal < v[0].integer) s->cursor++;
    if (s->cursor == s->n_run) return 1;                     /* a run that was entered since; it shows the next time */
    int arm = s->run[s->cursor].arm, data = data_of(s, v[6].type == STORE_TEXT ? v[6].text : "");
    s->failed = data < 0 || mem_grow(&s->point, &s->cap_point, s->n_point + 1, sizeof *s->point, s->err) != 0;
    if (s->failed) return 1;
    s->point[s->n_point++] = (struct study_point){ .panel = s->arm[arm].panel, .arm = arm, .run = (int)s->cursor, .data = data,
        .length = v[1].integer, .n = v[2].integer, .token = study_real(&v[3]), .sequence = study_real(&v[4]), .loss = study_real(&v[5]) };
    return 0;
}

static int keep_sweep(void *ctx, int n, const struct store_value *v)
{
    struct study *s = ctx;
    char **const text[] = { &s->name, &s->question, &s->ini_sha256, &s->ini_text };
    (void)n;
    snprintf(s->id, sizeof s->id, "%lld", (long long)v[0].integer);
    for (int i = 0; i < 4; i++) if (!(*text[i] = copy_value(&v[1 + i], s->err))) return s->failed = 1;
    return 0;
}

static int query(struct study *s, const char *sql, const char *arg, int (*row)(void *, int, const struct store_value *), void *ctx)
{
    struct store_rows rows = { .row = row, .ctx = ctx };
    s->failed = 0;
    return store_query(s->store, sql, &arg, 1, 0, &rows, s->err) != 0 || s->failed ? -1 : 0;
}

int study_query(struct study *s, const char *sql, int (*row)(void *, int, const struct store_value *), void *ctx)
{
    return query(s, sql, s->id, row, ctx);
}

static int compare_points(const struct study_point *x, const struct study_point *y)
{
    if (x->panel != y->panel) return x->panel < y->panel ? -1 : 1;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->arm > y->arm) - (x->arm < y->arm);
}

static int by_panel_length_arm(const void *left, const void *right)
{
    const struct study_point *x = left, *y = right;
    int order = compare_points(x, y);
    return order ? order : (x->run > y->run) - (x->run < y->run);
}

void study_release(struct study *s)
{
    for (size_t i = 0; i < s->n_run; i++)
        for (int field = 0; field < STUDY_N_TEXT; field++) free(s->run[i].text[field]);
    for (size_t i = 0; i < s->n_data; i++) free(s->data[i]);
    free(s->run), free(s->arm), free(s->panel), free(s->point), free(s->data), free(s->sample);
    free(s->name), free(s->question), free(s->ini_sha256), free(s->ini_text);
    *s = (struct study){ 0 };
}

int study_load(struct study *s, struct store *store, const char *ini_sha256, struct lab_err *err)
{
    *s = (struct study){ .store = store, .err = err };
    if (query(s, sweep_sql, ini_sha256 ? ini_sha256 : "", keep_sweep, s) != 0) return -1;
    if (!s->name) {
        lab_fail(err, "%s: %s", store_path(store), ini_sha256
                 ? "this experiment file, as it stands now, was never run here; `lab run` runs it, "
                   "`lab results` without a file shows what was run last"
                 : "holds no experiment yet; `lab run FILE.ini` runs one");
        return STUDY_NO_SWEEP;
    }
    if (study_query(s, run_sql, keep_run, s) != 0 || study_query(s, point_sql, keep_point, s) != 0) return -1;
    if (s->n_point) qsort(s->point, s->n_point, sizeof *s->point, by_panel_length_arm);
    return (s->sample = mem_alloc(s->n_run * sizeof *s->sample, err)) ? 0 : -1;
}

/* ---- what a cell, a panel and an arm say ---- */

struct study_cell study_cell(const struct study *s, int panel, int arm, int64_t length)
{
    struct study_point key = { .panel = panel, .arm = arm, .length = length };
    size_t lo = 0, hi = s->n_point;
    while (lo < hi) {                                        /* the first point that is not before key */
        size_t middle = (lo + hi) / 2;
        if (compare_points(&s->point[middle], &key) < 0) lo = middle + 1;
        else hi = middle;
    }
    struct study_cell cell = { .point = s->point + lo, .min = INFINITY, .max = -INFINITY };
    for (const struct study_point *p = cell.point; lo + (size_t)cell.n < s->n_point && !compare_points(p, &key); p++) {
        s->sample[cell.n++] = p->token;
        cell.min = fmin(cell.min, p->token), cell.max = fmax(cell.max, p->token);
        cell.solved += p->token >= STUDY_SOLVED;
        cell.sequence += p->sequence;
    }
    cell.mean = stats_mean(s->sample, cell.n);
    cell.half_width = stats_half_width(s->sample, cell.n);
    cell.sequence = cell.n ? cell.sequence / cell.n : NAN;
    return cell;
}

/* The lengths that any run of the panel was evaluated at, ascending; NULL out of memory. */
int64_t *study_lengths(const struct study *s, int panel, int *n)
{
    int64_t *length = mem_alloc(s->n_point * sizeof *length, s->err);
    *n = 0;
    for (size_t i = 0; length && i < s->n_point; i++) {
        const struct study_point *p = &s->point[i];
        if (p->panel == panel && (*n == 0 || length[*n - 1] != p->length)) length[(*n)++] = p->length;
    }
    return length;
}

/* train.length is "8" or "1..8". */
static void train_range(const struct study *s, int panel, long *lo, long *hi)
{
    char *end;
    *lo = *hi = strtol(study_text(s, s->panel[panel].run, STUDY_TRAIN), &end, 10);
    if (!strncmp(end, "..", 2)) *hi = strtol(end + 2, NULL, 10);
}

int64_t study_longest(const struct study *s, int panel)
{
    long lo, hi;
    train_range(s, panel, &lo, &hi);
    return hi;
}

int study_seen(const struct study *s, int panel, int64_t length)
{
    long lo, hi;
    train_range(s, panel, &lo, &hi);
    return length >= lo && length <= hi;
}

/* Arms of one panel are told apart by their labels only if these differ. */
int study_labels_differ(const struct study *s, int panel)
{
    for (size_t i = 0; i < s->n_arm; i++)
        if (s->arm[i].panel == panel && !same(s, s->arm[i].run, s->panel[panel].run, STUDY_LABEL)) return 1;
    return 0;
}

void study_arm_name(const struct study *s, int arm, struct str *out)
{
    int run = s->arm[arm].run;
    str_clear(out);
    str_add(out, study_text(s, run, STUDY_ENCODER));
    if (study_labels_differ(s, s->arm[arm].panel) && *study_text(s, run, STUDY_LABEL)) str_printf(out, " %s", study_text(s, run, STUDY_LABEL));
}

/* A causal model tells places apart by how much it sees. */
int study_ceiling(const struct study *s, int panel, int64_t length, double *value)
{
    int found, bidirectional = 0;
    double error;
    *value = NAN;
    for (size_t i = 0; i < s->n_arm; i++) bidirectional |= s->arm[i].panel == panel && !s->run[s->arm[i].run].causal;
    if (!bidirectional) return 0;
    const char *task_key = study_text(s, s->panel[panel].run, STUDY_TASK_KEY);
    if (store_ceiling(s->store, task_key, (int)length, "order_blind", &found, value, &error, s->err) != 0) return -1;
    if (!found) *value = NAN;
    return 0;
}

int study_majority(const struct study *s, int panel, int64_t length, double *value)
{
    int found;
    double error;
    const char *task_key = study_text(s, s->panel[panel].run, STUDY_TASK_KEY);
    if (store_ceiling(s->store, task_key, (int)length, "majority", &found, value, &error, s->err) != 0) return -1;
    if (!found) *value = NAN;
    return 0;
}

/* Of each rule but the default: whose weights it chose. */
void study_write_selection(const struct study *s, int panel, struct str *out)
{
    for (size_t i = 0; i < s->n_run; i++) {
        const char *rule = s->run[i].text[STUDY_SELECTION];
        int64_t lo = INT64_MAX, hi = 0;
        int told = 0;
        if (s->arm[s->run[i].arm].panel != panel || !strcmp(rule, "last")) continue;
        for (size_t k = 0; k < s->n_run; k++) {
            const struct study_run *r = &s->run[k];
            if (s->arm[r->arm].panel != panel || strcmp(r->text[STUDY_SELECTION], rule)) continue;
            told |= k < i;
            if (r->selected_step && r->selected_step < lo) lo = r->selected_step;
            if (r->selected_step > hi) hi = r->selected_step;
        }
        if (told || !hi) continue;
        str_printf(out, "tested: the weights of step%s %lld", lo == hi ? "" : "s", (long long)lo);
        if (lo < hi) str_printf(out, " to %lld", (long long)hi);
        str_printf(out, ", best in validation at %s lengths (eval.select = %s)\n", strcmp(rule, "best_valid") ? "longer" : "trained", rule);
    }
}

int study_is_failure(const struct study_run *r)
{
    return strcmp(r->text[STUDY_STATUS], "done") && strcmp(r->text[STUDY_STATUS], "pending") && strcmp(r->text[STUDY_STATUS], "running");
}

void study_write_failures(const struct study *s, struct str *out)
{
    int failures = 0, failed = 0, open = 0, shown = 0, diverged = 0;
    struct str line = { 0 };
    for (size_t i = 0; i < s->n_run; i++) {
        const char *status = s->run[i].text[STUDY_STATUS];
        int gone = !strcmp(status, "failed") || !strcmp(status, "timeout");
        failures += study_is_failure(&s->run[i]);
        failed += gone;
        diverged += s->run[i].diverged && !strcmp(status, "done");
        open += strcmp(status, "done") != 0 && !gone;
    }
    if (failures) str_printf(out, "\n%d of %zu runs did not succeed:\n", failures, s->n_run);
    for (size_t i = 0; i < s->n_run && shown < FAILURES_SHOWN; i++) {
        char *const *text = s->run[i].text;
        if (!study_is_failure(&s->run[i])) continue;
        shown++;
        str_clear(&line);                                    /* labels and reasons are other people's words */
        str_printf(&line, "%s %s%s%s seed %lld, %s%s%s", text[STUDY_TASK], text[STUDY_ENCODER], *text[STUDY_LABEL] ? " " : "", text[STUDY_LABEL],
                   (long long)s->run[i].seed, text[STUDY_STATUS], *text[STUDY_REASON] ? ": " : "", text[STUDY_REASON]);
        str_add(out, "  ");
        table_show(out, str_text(&line));
        str_add(out, "\n");
        if (*text[STUDY_LOG]) str_printf(out, "    log: %s\n", text[STUDY_LOG]);
    }
    if (failures > shown) str_printf(out, "  and %d more: lab query 'SELECT * FROM failures'\n", failures - shown);
    if (failed) str_add(out, "\n`lab retry` runs what failed again\n");
    if (diverged) str_printf(out, "\n%d of %zu runs %s done, but a number of %s is not finite: lab query 'SELECT * FROM diverged'\n",
                             diverged, s->n_run,
                             diverged == 1 ? "is" : "are", diverged == 1 ? "it" : "theirs");
    if (open) str_printf(out, "\n%d of %zu runs are not done; the same `lab run` goes on with them\n", open, s->n_run);
    out->failed |= line.failed;
    str_free(&line);
}

