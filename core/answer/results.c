/* results -- see results.h.  Loads a sweep into flat arrays, then prints; changes nothing.
 *
 * A panel is one table: a task with its options, and a training length.  An arm is one row of it: an encoder
 * with the values of the other axes.  A point is one run at one length.
 */
#include "answer/results.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/ranges.h"
#include "answer/stats.h"
#include "answer/table.h"
#include "base/mem.h"
#include "base/str.h"

enum { SCREEN = 80, FAILURES_SHOWN = 10 };
#define LEAK_MARGIN 0.02             /* above the ceiling: four standard errors of 1000 sequences of 8 tokens */
#define SOLVED 0.95                  /* token accuracy from which a run counts as having learned the task */
#define DEFAULT_DB "results/lab.db"  /* what lab opens without --db */

enum text_field { TASK, TASK_KEY, TRAIN, ENCODER, LABEL, STATUS, REASON, LOG, N_TEXT };
struct run { char *text[N_TEXT]; int64_t ordinal, seed; double chance; int causal, arm; };
struct arm { int run, panel, planned; };                     /* run: the first of it; planned: seeds */
struct panel { int run, arms, planned; };                    /* planned: most seeds of an arm */
struct point { int panel, arm; int64_t length, n; double token, sequence; };

struct answer {
    struct store *store;
    const char *ini_sha256;          /* as asked for */
    char *name, *question;
    struct run *run;     size_t n_run, cap_run;
    struct arm *arm;     size_t n_arm, cap_arm;
    struct panel *panel; size_t n_panel, cap_panel;
    struct point *point; size_t n_point, cap_point;
    size_t cursor;                   /* into run, while points arrive in the same order */
    double *sample;                  /* room for one value of each run */
    int star, equal, partial;        /* what the key below the tables must explain */
    int failed;                      /* a row could not be kept: err says why */
    struct lab_err *err;
};

/* One cell: the points of an arm at a length. */
struct cell { const struct point *point; int n; double mean, half_width, min, max, sequence; int solved; };

/* ---- loading ---- */

static const char sweep_sql[] =
    "SELECT sweep_id, name, question FROM sweep WHERE ?1 = '' OR ini_sha256 = ?1 ORDER BY sweep_id DESC LIMIT 1";

static const char run_sql[] =
    "SELECT c.ordinal, r.seed, r.chance, json_extract(r.config, '$.model.causal'),"
    " r.task, r.task_key,"
    " iif(r.config ->> '$.train.length[0]' < r.train_length, (r.config ->> '$.train.length[0]') || '..', '') || r.train_length,"
    " r.encoder, c.label, s.state, s.reason,"
    " (SELECT f.path FROM attempt a JOIN artifact f USING(attempt_id) WHERE a.run_id = r.run_id AND f.kind = 'log'"
    "  ORDER BY a.started_us DESC LIMIT 1)"
    " FROM sweep_cell c JOIN run r USING(run_id) JOIN runs s USING(run_key) WHERE c.sweep_id = ?1 ORDER BY c.ordinal";

static const char point_sql[] =
    "SELECT c.ordinal, e.length, e.n, e.token_accuracy, e.sequence_accuracy"
    " FROM sweep_cell c JOIN run r USING(run_id) JOIN results e USING(run_key)"
    " WHERE c.sweep_id = ?1 AND e.split = 'test' ORDER BY c.ordinal";

static char *copy_value(const struct store_value *v, struct lab_err *err)
{
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)v->integer);
    return mem_strdup(v->type == STORE_TEXT ? v->text : v->type == STORE_INTEGER ? number : "", err);
}

static double real_value(const struct store_value *v)
{
    return v->type == STORE_REAL ? v->real : v->type == STORE_INTEGER ? (double)v->integer : NAN;
}

static const char *text_of(const struct answer *a, int run, enum text_field field) { return a->run[run].text[field]; }

static int same(const struct answer *a, int run, int other, enum text_field field)
{
    return !strcmp(text_of(a, run, field), text_of(a, other, field));
}

/* The panel of a run, entered if new; -1 out of memory. */
static int panel_of(struct answer *a, int run)
{
    for (size_t i = 0; i < a->n_panel; i++) {
        int first = a->panel[i].run;
        if (same(a, run, first, TASK) && same(a, run, first, TASK_KEY) && same(a, run, first, TRAIN)) return (int)i;
    }
    if (mem_grow(&a->panel, &a->cap_panel, a->n_panel + 1, sizeof *a->panel, a->err) != 0) return -1;
    a->panel[a->n_panel] = (struct panel){ .run = run };
    return (int)a->n_panel++;
}

static int arm_of(struct answer *a, int run)
{
    int panel = panel_of(a, run);
    if (panel < 0) return -1;
    for (size_t i = 0; i < a->n_arm; i++) {
        int first = a->arm[i].run;
        if (a->arm[i].panel == panel && same(a, run, first, ENCODER) && same(a, run, first, LABEL)) return (int)i;
    }
    if (mem_grow(&a->arm, &a->cap_arm, a->n_arm + 1, sizeof *a->arm, a->err) != 0) return -1;
    a->panel[panel].arms++;
    a->arm[a->n_arm] = (struct arm){ .run = run, .panel = panel };
    return (int)a->n_arm++;
}

static int keep_run(void *ctx, int n, const struct store_value *v)
{
    struct answer *a = ctx;
    (void)n;
    a->failed = 1;                                           /* until the row is kept */
    if (mem_grow(&a->run, &a->cap_run, a->n_run + 1, sizeof *a->run, a->err) != 0) return 1;
    struct run *r = &a->run[a->n_run++];
    *r = (struct run){ .ordinal = v[0].integer, .seed = v[1].integer, .chance = real_value(&v[2]),
                       .causal = v[3].integer != 0 };
    for (int i = 0; i < N_TEXT; i++) if (!(r->text[i] = copy_value(&v[4 + i], a->err))) return 1;
    if ((r->arm = arm_of(a, (int)a->n_run - 1)) < 0) return 1;
    struct arm *arm = &a->arm[r->arm];
    struct panel *panel = &a->panel[arm->panel];
    if (++arm->planned > panel->planned) panel->planned = arm->planned;
    return a->failed = 0;
}

static int keep_point(void *ctx, int n, const struct store_value *v)
{
    struct answer *a = ctx;
    (void)n;
    while (a->cursor < a->n_run && a->run[a->cursor].ordinal < v[0].integer) a->cursor++;
    if (a->cursor == a->n_run) return 1;                     /* a run that was entered since; it shows the next time */
    a->failed = mem_grow(&a->point, &a->cap_point, a->n_point + 1, sizeof *a->point, a->err) != 0;
    if (a->failed) return 1;
    int arm = a->run[a->cursor].arm;
    a->point[a->n_point++] = (struct point){ .panel = a->arm[arm].panel, .arm = arm, .length = v[1].integer, .n = v[2].integer,
                                             .token = real_value(&v[3]), .sequence = real_value(&v[4]) };
    return 0;
}

struct sweep_row { char id[32]; struct answer *answer; };
static int keep_sweep(void *ctx, int n, const struct store_value *v)
{
    struct sweep_row *row = ctx;
    struct answer *a = row->answer;
    (void)n;
    snprintf(row->id, sizeof row->id, "%lld", (long long)v[0].integer);
    if (!(a->name = copy_value(&v[1], a->err)) || !(a->question = copy_value(&v[2], a->err))) return a->failed = 1;
    return 0;
}

static int query(struct answer *a, const char *sql, const char *arg,
                 int (*row)(void *, int, const struct store_value *), void *ctx)
{
    struct store_rows rows = { .row = row, .ctx = ctx };
    a->failed = 0;
    return store_query(a->store, sql, &arg, 1, 0, &rows, a->err) != 0 || a->failed ? -1 : 0;
}

static int by_panel_length_arm(const void *left, const void *right)
{
    const struct point *x = left, *y = right;
    if (x->panel != y->panel) return x->panel < y->panel ? -1 : 1;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->arm > y->arm) - (x->arm < y->arm);
}

static void answer_release(struct answer *a)
{
    for (size_t i = 0; i < a->n_run; i++)
        for (int field = 0; field < N_TEXT; field++) free(a->run[i].text[field]);
    free(a->run), free(a->arm), free(a->panel), free(a->point), free(a->sample), free(a->name), free(a->question);
}

/* 0, -1 or RESULTS_NO_SWEEP; whatever it says, answer_release follows. */
static int answer_load(struct answer *a, struct store *store, const char *ini_sha256, struct lab_err *err)
{
    struct sweep_row sweep = { .answer = a };
    *a = (struct answer){ .store = store, .ini_sha256 = ini_sha256, .err = err };
    if (query(a, sweep_sql, ini_sha256 ? ini_sha256 : "", keep_sweep, &sweep) != 0) return -1;
    if (!a->name) {
        lab_fail(err, "%s: %s", store_path(store), ini_sha256
                 ? "this experiment file, as it stands now, was never run here; `lab run` runs it, "
                   "`lab results` without a file shows what was run last"
                 : "holds no experiment yet; `lab run FILE.ini` runs one");
        return RESULTS_NO_SWEEP;
    }
    if (query(a, run_sql, sweep.id, keep_run, a) != 0 || query(a, point_sql, sweep.id, keep_point, a) != 0) return -1;
    if (a->n_point) qsort(a->point, a->n_point, sizeof *a->point, by_panel_length_arm);
    return (a->sample = mem_alloc(a->n_run * sizeof *a->sample, err)) ? 0 : -1;
}

/* ---- what a cell, a panel and an arm say ---- */

static struct cell cell_of(const struct answer *a, int panel, int arm, int64_t length)
{
    struct point key = { .panel = panel, .arm = arm, .length = length };
    size_t lo = 0, hi = a->n_point;
    while (lo < hi) {                                        /* the first point that is not before key */
        size_t middle = (lo + hi) / 2;
        if (by_panel_length_arm(&a->point[middle], &key) < 0) lo = middle + 1;
        else hi = middle;
    }
    struct cell cell = { .point = a->point + lo, .min = INFINITY, .max = -INFINITY };
    for (const struct point *p = cell.point; lo + (size_t)cell.n < a->n_point && !by_panel_length_arm(p, &key); p++) {
        a->sample[cell.n++] = p->token;
        cell.min = fmin(cell.min, p->token), cell.max = fmax(cell.max, p->token);
        cell.solved += p->token >= SOLVED;
        cell.sequence += p->sequence;
    }
    cell.mean = stats_mean(a->sample, cell.n);
    cell.half_width = stats_half_width(a->sample, cell.n);
    cell.sequence = cell.n ? cell.sequence / cell.n : NAN;
    return cell;
}

/* The lengths that any run of the panel was evaluated at, ascending; NULL out of memory. */
static int64_t *panel_lengths(const struct answer *a, int panel, int *n)
{
    int64_t *length = mem_alloc(a->n_point * sizeof *length, a->err);
    *n = 0;
    for (size_t i = 0; length && i < a->n_point; i++) {
        const struct point *p = &a->point[i];
        if (p->panel == panel && (*n == 0 || length[*n - 1] != p->length)) length[(*n)++] = p->length;
    }
    return length;
}

/* train.length is "8" or "1..8". */
static void train_range(const struct answer *a, int panel, long *lo, long *hi)
{
    char *end;
    *lo = *hi = strtol(text_of(a, a->panel[panel].run, TRAIN), &end, 10);
    if (!strncmp(end, "..", 2)) *hi = strtol(end + 2, NULL, 10);
}

static int seen_in_training(const struct answer *a, int panel, int64_t length)
{
    long lo, hi;
    train_range(a, panel, &lo, &hi);
    return length >= lo && length <= hi;
}

/* Arms of one panel are told apart by their labels only if these differ. */
static int labels_differ(const struct answer *a, int panel)
{
    for (size_t i = 0; i < a->n_arm; i++)
        if (a->arm[i].panel == panel && !same(a, a->arm[i].run, a->panel[panel].run, LABEL)) return 1;
    return 0;
}

static void arm_name(const struct answer *a, int arm, struct str *out)
{
    int run = a->arm[arm].run;
    str_clear(out);
    str_add(out, text_of(a, run, ENCODER));
    if (labels_differ(a, a->arm[arm].panel) && *text_of(a, run, LABEL)) str_printf(out, " %s", text_of(a, run, LABEL));
}

/* NaN: not known, or no bound on these models.  A causal model tells places apart by how much it sees. */
static int ceiling_of(const struct answer *a, int panel, int64_t length, double *value)
{
    int found, bidirectional = 0;
    double error;
    *value = NAN;
    for (size_t i = 0; i < a->n_arm; i++) bidirectional |= a->arm[i].panel == panel && !a->run[a->arm[i].run].causal;
    if (!bidirectional) return 0;
    const char *task_key = text_of(a, a->panel[panel].run, TASK_KEY);
    if (store_ceiling(a->store, task_key, (int)length, &found, value, &error, a->err) != 0) return -1;
    if (!found) *value = NAN;
    return 0;
}

/* ---- the screen ---- */

/* ".020", "1.24": three digits.  What is not all equal is never shown as 0. */
static void add_half_width(struct str *out, double half_width)
{
    char text[32];
    snprintf(text, sizeof text, half_width < 0.9995 ? "%.3f" : "%.2f", fmax(half_width, 0.001));
    str_printf(out, "\u00b1%s", text + (*text == '0'));
}

static void cell_text(struct answer *a, const struct cell *cell, int planned, struct str *out)
{
    str_clear(out);
    if (cell->n == 0) str_add(out, "-");
    else str_printf(out, "%.3f", cell->mean);
    if (cell->n > 1 && cell->min == cell->max) str_add(out, " (=)"), a->equal = 1;
    else if (cell->n > 1) add_half_width(out, cell->half_width);
    if (cell->n < planned) str_printf(out, " %d/%d", cell->n, planned), a->partial = 1;
}

static void add_level(struct table *t, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.3f", value);
    table_number(t, isnan(value) ? NULL : text);
}

static void add_header(struct answer *a, struct table *t, int panel, const int64_t *length, int n)
{
    char text[32];
    table_add(t, "encoder");
    for (int i = 0; i < n; i++) {
        int seen = seen_in_training(a, panel, length[i]);
        snprintf(text, sizeof text, "%lld%s", (long long)length[i], seen ? "*" : "");
        table_add(t, text);
        a->star |= seen;
    }
}

static void add_arms(struct answer *a, struct table *t, int panel, const int64_t *length, int n)
{
    struct str text = { 0 };
    for (int arm = 0; arm < (int)a->n_arm; arm++) {
        if (a->arm[arm].panel != panel) continue;
        arm_name(a, arm, &text);
        table_add(t, str_text(&text));
        for (int i = 0; i < n; i++) {
            struct cell cell = cell_of(a, panel, arm, length[i]);
            cell_text(a, &cell, a->arm[arm].planned, &text);
            table_number(t, str_text(&text));
        }
    }
    t->failed |= text.failed;
    str_free(&text);
}

/* The rows to compare with: guessing, and seeing the tokens without their places. */
static int add_levels(struct answer *a, struct table *t, int panel, const int64_t *length, int n)
{
    double *ceiling = mem_alloc((size_t)n * sizeof *ceiling, a->err), chance = a->run[a->panel[panel].run].chance;
    int known = 0, rc = -1;
    if (!ceiling) return -1;
    for (int i = 0; i < n; i++) {
        if (ceiling_of(a, panel, length[i], &ceiling[i]) != 0) goto out;
        known |= !isnan(ceiling[i]);
    }
    if (!isnan(chance)) {
        table_add(t, "chance");
        for (int i = 0; i < n; i++) add_level(t, chance);
    }
    if (known) {
        table_add(t, "order-blind ceiling");
        for (int i = 0; i < n; i++) add_level(t, ceiling[i]);
    }
    rc = 0;
out:
    free(ceiling);
    return rc;
}

static int write_block(struct answer *a, int panel, const int64_t *length, int n, struct str *out)
{
    struct table t;
    table_init(&t, n + 1);
    add_header(a, &t, panel, length, n);
    add_arms(a, &t, panel, length, n);
    int rc = add_levels(a, &t, panel, length, n);
    table_write(&t, TABLE_TEXT, out);
    table_free(&t);
    return rc;
}

/* As many lengths side by side as the screen has room for. */
static int lengths_a_block(const struct answer *a, int panel)
{
    struct str name = { 0 };
    size_t first = strlen("order-blind ceiling"), cell = strlen("0.695.020") + 1, partial = 0;
    for (int arm = 0; arm < (int)a->n_arm; arm++) {
        if (a->arm[arm].panel != panel) continue;
        arm_name(a, arm, &name);
        if (name.len > first) first = name.len;
    }
    for (size_t i = 0; i < a->n_run; i++)
        if (a->arm[a->run[i].arm].panel == panel && strcmp(text_of(a, (int)i, STATUS), "done")) partial = strlen(" 2/3");
    str_free(&name);
    return first + 2 + cell + partial >= SCREEN ? 1 : (int)((SCREEN - first) / (cell + partial + 2));
}

/* Whole sequences at the longest length seen in training: a model may be right nearly everywhere and never quite. */
static void write_sequences(const struct answer *a, int panel, const int64_t *length, int n, struct str *out)
{
    struct str item = { 0 };
    size_t line;
    while (n > 0 && !seen_in_training(a, panel, length[n - 1])) n--;
    if (n == 0) return;
    size_t start = out->len;
    str_printf(out, "whole sequences right at length %lld:", (long long)length[n - 1]);
    line = out->len - start;
    for (int arm = 0, shown = 0; arm < (int)a->n_arm; arm++) {
        if (a->arm[arm].panel != panel) continue;
        struct cell cell = cell_of(a, panel, arm, length[n - 1]);
        double lo, hi;
        if (cell.n == 0) continue;
        arm_name(a, arm, &item);
        str_printf(&item, " %.3f", cell.sequence);
        if (cell.n == 1) {
            stats_wilson(cell.sequence * (double)cell.point->n, (double)cell.point->n, &lo, &hi);
            str_printf(&item, " [%.3f, %.3f]", lo, hi);
        }
        if (shown++) str_add(out, ","), line++;
        if (line + 2 + item.len > SCREEN) str_add(out, "\n "), line = 1;
        str_printf(out, " %s", str_text(&item));
        line += 1 + item.len;
    }
    str_add(out, "\n");
    out->failed |= item.failed;
    str_free(&item);
}

/* Without positions nobody can beat the ceiling: whoever does has been told the order. */
static int write_leaks(const struct answer *a, int panel, const int64_t *length, int n, struct str *out)
{
    struct str name = { 0 };
    int rc = 0;
    for (int arm = 0; arm < (int)a->n_arm; arm++) {
        const struct run *run = &a->run[a->arm[arm].run];
        if (a->arm[arm].panel != panel || strcmp(run->text[ENCODER], "none") || run->causal) continue;
        for (int i = 0; i < n && rc == 0; i++) {
            double ceiling;
            struct cell cell = cell_of(a, panel, arm, length[i]);
            rc = ceiling_of(a, panel, length[i], &ceiling);
            if (rc != 0 || cell.n == 0 || !(cell.max > ceiling + LEAK_MARGIN)) continue;
            arm_name(a, arm, &name);
            str_printf(out, "suspect a leak: %s reaches %.3f at length %lld, where no more than %.3f is possible without positions;\n"
                       "  find out how the order of tokens gets into the data or the model before you believe this table\n",
                       str_text(&name), cell.max, (long long)length[i], ceiling);
            break;
        }
    }
    str_free(&name);
    return rc;
}

static int write_panel(struct answer *a, int panel, struct str *out)
{
    const struct panel *p = &a->panel[panel];
    int n, block = lengths_a_block(a, panel), rc = 0;
    int64_t *length = panel_lengths(a, panel, &n);
    if (!length) return -1;
    str_printf(out, "\n%s, trained at length %s, %d seed%s", text_of(a, p->run, TASK), text_of(a, p->run, TRAIN), p->planned,
               p->planned == 1 ? "" : "s");
    const char *label = text_of(a, p->run, LABEL);
    if (*label && !labels_differ(a, panel) && strncmp(label, "train.length=", 13)) str_add(out, ", "), table_show(out, label);
    str_add(out, n ? ": token accuracy\n" : ": no run is done yet\n");
    for (int i = 0; i < n && rc == 0; i += block) {
        if (i > 0) str_add(out, "\n");
        rc = write_block(a, panel, length + i, n - i < block ? n - i : block, out);
    }
    if (rc == 0) write_sequences(a, panel, length, n, out);
    if (rc == 0) rc = write_leaks(a, panel, length, n, out);
    free(length);
    return rc;
}

static void write_key(const struct answer *a, struct str *out)
{
    int several = 0;
    for (size_t i = 0; i < a->n_panel; i++) several |= a->panel[i].planned > 1;
    if (a->n_point == 0) return;
    str_add(out, "\n");
    if (several) str_add(out, "mean \u00b1 half-width of the 95 % t interval over seeds");
    if (several) str_add(out, a->equal ? "; (=) all seeds equal\n" : "\n");
    if (a->star) str_add(out, "* seen in training; the lengths to the right of it are longer\n");
    if (a->partial) str_add(out, "2/3 only two of three seeds are done\n");
}

static int is_failure(const struct run *r)
{
    return strcmp(r->text[STATUS], "done") && strcmp(r->text[STATUS], "pending") && strcmp(r->text[STATUS], "running");
}

static void write_failures(const struct answer *a, struct str *out)
{
    int failures = 0, open = 0, shown = 0;
    struct str line = { 0 };
    for (size_t i = 0; i < a->n_run; i++) {
        failures += is_failure(&a->run[i]);
        open += strcmp(a->run[i].text[STATUS], "done") != 0;
    }
    if (failures) str_printf(out, "\n%d of %zu runs did not succeed:\n", failures, a->n_run);
    for (size_t i = 0; i < a->n_run && shown < FAILURES_SHOWN; i++) {
        char *const *text = a->run[i].text;
        if (!is_failure(&a->run[i])) continue;
        shown++;
        str_clear(&line);                                    /* labels and reasons are other people's words */
        str_printf(&line, "%s %s%s%s seed %lld, %s%s%s", text[TASK], text[ENCODER], *text[LABEL] ? " " : "", text[LABEL],
                   (long long)a->run[i].seed, text[STATUS], *text[REASON] ? ": " : "", text[REASON]);
        str_add(out, "  ");
        table_show(out, str_text(&line));
        str_add(out, "\n");
        if (*text[LOG]) str_printf(out, "    log: %s\n", text[LOG]);
    }
    out->failed |= line.failed;
    str_free(&line);
    if (failures > shown) str_printf(out, "  and %d more: lab query 'SELECT * FROM failures'\n", failures - shown);
    if (open) str_printf(out, "\n%d of %zu runs are not done; the same `lab run` goes on with them\n", open, a->n_run);
}

/* A path as one word of a shell. */
static void add_word(struct str *out, const char *path)
{
    if (!strpbrk(path, " \t\n\"'\\$`!*?[]{}()<>|&;#~")) {
        str_add(out, path);
        return;
    }
    str_add(out, "'");
    for (; *path; path++) *path == '\'' ? str_add(out, "'\\''") : str_addn(out, path, 1);
    str_add(out, "'");
}

static void write_next(const struct answer *a, struct str *out)
{
    static const char *const command[] = { "lab query @compare_encoders", "lab query @loss_curves" };
    const char *path = store_path(a->store);
    str_printf(out, "\ndatabase: %s\n", path);
    for (int i = 0; i < 2; i++) {
        str_printf(out, "%s%s", i ? "          " : "go on:    ", command[i]);
        if (strcmp(path, DEFAULT_DB)) str_add(out, " --db "), add_word(out, path);
        str_add(out, "\n");
    }
}

static int write_screen(struct answer *a, struct str *out)
{
    table_show(out, a->name);
    str_add(out, *a->question ? ": " : "");
    table_show(out, a->question);
    str_add(out, "\n");
    for (int panel = 0; panel < (int)a->n_panel; panel++)
        if (write_panel(a, panel, out) != 0) return -1;
    if (ranges_write(a->store, a->ini_sha256, out, a->err) != 0) return -1;
    write_key(a, out);
    write_failures(a, out);
    write_next(a, out);
    return 0;
}

/* ---- JSON ---- */

static void add_real(struct table *t, double value)
{
    struct str text = { 0 };
    if (!isnan(value)) str_real(&text, value);
    table_number(t, isnan(value) ? NULL : str_text(&text));
    t->failed |= text.failed;
    str_free(&text);
}

static void add_integer(struct table *t, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    table_number(t, text);
}

static int add_json_row(const struct answer *a, struct table *t, int panel, int arm, int64_t length)
{
    const struct run *run = &a->run[a->arm[arm].run];
    struct cell cell = cell_of(a, panel, arm, length);
    double ceiling = NAN;
    if (!run->causal && ceiling_of(a, panel, length, &ceiling) != 0) return -1;
    table_add(t, run->text[TASK]);
    table_add(t, run->text[TRAIN]);
    table_add(t, run->text[ENCODER]);
    table_add(t, run->text[LABEL]);
    add_integer(t, length);
    add_integer(t, cell.n);
    add_integer(t, a->arm[arm].planned);
    add_real(t, cell.mean);
    add_real(t, cell.half_width);
    add_real(t, cell.n ? cell.min : NAN);
    add_real(t, cell.n ? cell.max : NAN);
    add_integer(t, cell.solved);
    add_real(t, cell.sequence);
    add_real(t, run->chance);
    add_real(t, ceiling);
    return 0;
}

static int write_rows(struct answer *a, struct str *out)
{
    static const char *const header[] = { "task", "train_length", "encoder", "label", "length", "seeds", "seeds_planned", "mean",
        "half_width", "min", "max", "solved", "sequence_mean", "chance", "order_blind_ceiling" };
    struct table t;
    int rc = 0;
    table_init(&t, sizeof header / sizeof *header);
    for (int i = 0; i < t.n_col; i++) table_add(&t, header[i]);
    for (int panel = 0; panel < (int)a->n_panel && rc == 0; panel++) {
        int n;
        int64_t *length = panel_lengths(a, panel, &n);
        if (!length) rc = -1;
        for (int arm = 0; arm < (int)a->n_arm; arm++)
            for (int i = 0; a->arm[arm].panel == panel && i < n && rc == 0; i++) rc = add_json_row(a, &t, panel, arm, length[i]);
        free(length);
    }
    table_write(&t, TABLE_JSON, out);
    table_free(&t);
    return rc;
}

/* ---- both ---- */

static int print(struct store *store, const char *ini_sha256, int (*write)(struct answer *, struct str *), FILE *file,
                 struct lab_err *err)
{
    struct answer a;
    struct str out = { 0 };
    int rc = answer_load(&a, store, ini_sha256, err);
    if (rc == 0) rc = write(&a, &out);
    if (rc == 0 && out.failed) rc = lab_fail(err, "out of memory while writing the tables");
    if (rc == 0 && (fwrite(str_text(&out), 1, out.len, file) != out.len || fflush(file) != 0))
        rc = lab_fail(err, "the tables could not be written: %s", strerror(errno));
    str_free(&out);
    answer_release(&a);
    return rc;
}

int results_print(struct store *store, const char *ini_sha256, FILE *out, struct lab_err *err)
{
    return print(store, ini_sha256, write_screen, out, err);
}

int results_json(struct store *store, const char *ini_sha256, FILE *out, struct lab_err *err)
{
    return print(store, ini_sha256, write_rows, out, err);
}
