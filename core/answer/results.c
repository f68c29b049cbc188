/* results -- see results.h.  Loads a study, then prints it; changes nothing. */
#include "answer/results.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/ranges.h"
#include "answer/stats.h"
#include "answer/study.h"
#include "answer/table.h"
#include "base/mem.h"

enum { SCREEN = 80, N_RANGE = 5 };   /* columns that only scores over ranges have */
#define MORE_THAN_CHANCE 0.01        /* a majority guess that is no better is not worth a row */

struct page { struct study *study; int star, equal, partial; };          /* what the key below the tables must explain */

/* ---- the screen ---- */

/* ".020", "1.24": three digits.  What is not all equal is never shown as 0. */
static void add_half_width(struct str *out, double half_width)
{
    char text[32];
    snprintf(text, sizeof text, half_width < 0.9995 ? "%.3f" : "%.2f", fmax(half_width, 0.001));
    str_printf(out, "\u00b1%s", text + (*text == '0'));
}

static void cell_text(struct page *a, const struct study_cell *cell, int planned, struct str *out)
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

static void add_header(struct page *a, struct table *t, int panel, const int64_t *length, int n)
{
    char text[32];
    table_add(t, "encoder");
    for (int i = 0; i < n; i++) {
        int seen = study_seen(a->study, panel, length[i]);
        snprintf(text, sizeof text, "%lld%s", (long long)length[i], seen ? "*" : "");
        table_add(t, text);
        a->star |= seen;
    }
}

static void add_arms(struct page *a, struct table *t, int panel, const int64_t *length, int n)
{
    struct str text = { 0 };
    for (int arm = 0; arm < (int)a->study->n_arm; arm++) {
        if (a->study->arm[arm].panel != panel) continue;
        study_arm_name(a->study, arm, &text);
        table_add(t, str_text(&text));
        for (int i = 0; i < n; i++) {
            struct study_cell cell = study_cell(a->study, panel, arm, length[i]);
            cell_text(a, &cell, a->study->arm[arm].planned, &text);
            table_number(t, str_text(&text));
        }
    }
    t->failed |= text.failed;
    str_free(&text);
}

/* The rows to compare with: guessing, guessing what is most often right (if that is more), and seeing the tokens without their places. */
static int add_levels(struct page *a, struct table *t, int panel, const int64_t *length, int n)
{
    static const struct { const char *name; int (*value)(const struct study *, int, int64_t, double *); } level[] = {
        { "majority guess", study_majority }, { "order-blind ceiling", study_ceiling } };
    double *value = mem_alloc((size_t)n * sizeof *value, a->study->err), chance = a->study->run[a->study->panel[panel].run].chance;
    int rc = -1;
    if (!value) return -1;
    if (!isnan(chance)) {
        table_add(t, "chance");
        for (int i = 0; i < n; i++) add_level(t, chance);
    }
    for (int k = 0; k < 2; k++) {
        int known = 0;
        for (int i = 0; i < n; i++) {
            if (level[k].value(a->study, panel, length[i], &value[i]) != 0) goto out;
            known |= !isnan(value[i]) && !(k == 0 && value[i] < chance + MORE_THAN_CHANCE);
        }
        if (!known) continue;
        table_add(t, level[k].name);
        for (int i = 0; i < n; i++) add_level(t, value[i]);
    }
    rc = 0;
out:
    free(value);
    return rc;
}

static int fill_block(struct page *a, int panel, const int64_t *length, int n, struct table *t)
{
    table_init(t, n + 1);
    add_header(a, t, panel, length, n);
    add_arms(a, t, panel, length, n);
    return add_levels(a, t, panel, length, n);
}

static int write_block(struct page *a, int panel, const int64_t *length, int n, struct str *out)
{
    struct table t;
    int rc = fill_block(a, panel, length, n, &t);
    table_write(&t, TABLE_TEXT, out);
    table_free(&t);
    return rc;
}

int results_table(struct study *s, int panel, struct table *out)
{
    struct page page = { .study = s };
    int n;
    int64_t *length = study_lengths(s, panel, &n);
    if (!length) return -1;
    int rc = fill_block(&page, panel, length, n, out);
    free(length);
    if (rc != 0) table_free(out);
    return rc;
}

/* As many lengths side by side as the screen has room for. */
static int lengths_a_block(const struct page *a, int panel)
{
    struct str name = { 0 };
    size_t first = strlen("order-blind ceiling"), cell = strlen("0.695.020") + 1, partial = 0;
    for (int arm = 0; arm < (int)a->study->n_arm; arm++) {
        if (a->study->arm[arm].panel != panel) continue;
        study_arm_name(a->study, arm, &name);
        if (name.len > first) first = name.len;
    }
    for (size_t i = 0; i < a->study->n_run; i++)
        if (a->study->arm[a->study->run[i].arm].panel == panel && strcmp(study_text(a->study, (int)i, STUDY_STATUS), "done"))
            partial = strlen(" 2/3");
    str_free(&name);
    return first + 2 + cell + partial >= SCREEN ? 1 : (int)((SCREEN - first) / (cell + partial + 2));
}

/* Whole sequences at the longest length seen in training: a model may be right nearly everywhere and never quite. */
static void write_sequences(const struct page *a, int panel, const int64_t *length, int n, struct str *out)
{
    struct str item = { 0 };
    size_t line;
    while (n > 0 && !study_seen(a->study, panel, length[n - 1])) n--;
    if (n == 0) return;
    size_t start = out->len;
    str_printf(out, "whole sequences right at length %lld:", (long long)length[n - 1]);
    line = out->len - start;
    for (int arm = 0, shown = 0; arm < (int)a->study->n_arm; arm++) {
        if (a->study->arm[arm].panel != panel) continue;
        struct study_cell cell = study_cell(a->study, panel, arm, length[n - 1]);
        double lo, hi;
        if (cell.n == 0) continue;
        study_arm_name(a->study, arm, &item);
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

struct leaks { struct page *page; int panel, arm; struct str *out, name; };      /* arm: the last one told of, -1 */

static int write_leak(void *ctx, int n, const struct store_value *v)
{
    struct leaks *l = ctx;
    const struct study *s = l->page->study;
    size_t run = 0;
    (void)n;
    while (run < s->n_run && s->run[run].ordinal != v[0].integer) run++;
    if (run == s->n_run || s->arm[s->run[run].arm].panel != l->panel || s->run[run].arm == l->arm) return 0;
    l->arm = s->run[run].arm;
    study_arm_name(s, l->arm, &l->name);
    str_printf(l->out, "suspect a leak: %s reaches %.3f at length %lld, where no more than %.3f is possible without positions;\n"
               "  find out how the order of tokens gets into the data or the model before you believe this table\n",
               str_text(&l->name), v[2].real, (long long)v[1].integer, v[3].real);
    return 0;
}

/* Without positions nobody can beat the ceiling: whoever does has been told the order. */
static int write_leaks(struct page *a, int panel, struct str *out)
{
    struct leaks l = { a, panel, -1, out, { 0 } };
    int rc = study_query(a->study, "SELECT c.ordinal, l.length, l.token_accuracy, l.order_blind_ceiling FROM sweep_cell c JOIN run r USING(run_id)"
                         " JOIN leaks l USING(run_key) WHERE c.sweep_id = ?1 ORDER BY c.ordinal, l.length", write_leak, &l);
    out->failed |= l.name.failed;
    str_free(&l.name);
    return rc;
}

static int write_panel(struct page *a, int panel, struct str *out)
{
    const struct study_panel *p = &a->study->panel[panel];
    int n, block = lengths_a_block(a, panel), rc = 0;
    int64_t *length = study_lengths(a->study, panel, &n);
    if (!length) return -1;
    str_printf(out, "\n%s, trained at length %s, %d seed%s", study_text(a->study, p->run, STUDY_TASK),
               study_text(a->study, p->run, STUDY_TRAIN), p->planned,
               p->planned == 1 ? "" : "s");
    const char *label = study_text(a->study, p->run, STUDY_LABEL);
    if (*label && !study_labels_differ(a->study, panel) && strncmp(label, "train.length=", 13)) str_add(out, ", "), table_show(out, label);
    str_add(out, n ? ": token accuracy\n" : ": no run is done yet\n");
    for (int i = 0; i < n && rc == 0; i += block) {
        if (i > 0) str_add(out, "\n");
        rc = write_block(a, panel, length + i, n - i < block ? n - i : block, out);
    }
    if (rc == 0) write_sequences(a, panel, length, n, out);
    if (rc == 0) study_write_selection(a->study, panel, out);
    if (rc == 0) rc = write_leaks(a, panel, out);
    free(length);
    return rc;
}

static void write_key(const struct page *a, struct str *out)
{
    int several = 0;
    for (size_t i = 0; i < a->study->n_panel; i++) several |= a->study->panel[i].planned > 1;
    if (a->study->n_point == 0) return;
    str_add(out, "\n");
    if (several) str_add(out, "mean \u00b1 half-width of the 95 % t interval over seeds");
    if (several) str_add(out, a->equal ? "; (=) all seeds equal\n" : "\n");
    if (a->star) str_add(out, "* seen in training; the lengths to the right of it are longer\n");
    if (a->partial) str_add(out, "2/3 only two of three seeds are done\n");
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

static void write_next(const struct page *a, struct str *out)
{
    static const char *const command[] = { "lab query @compare_encoders", "lab query @loss_curves" };
    const char *path = store_path(a->study->store);
    str_printf(out, "\ndatabase: %s\n", path);
    for (int i = 0; i < 2; i++) {
        str_printf(out, "%s%s", i ? "          " : "go on:    ", command[i]);
        if (strcmp(path, STUDY_DEFAULT_DB)) str_add(out, " --db "), add_word(out, path);
        str_add(out, "\n");
    }
}

static int write_screen(struct page *a, struct str *out)
{
    table_show(out, a->study->name);
    str_add(out, *a->study->question ? ": " : "");
    table_show(out, a->study->question);
    str_add(out, "\n");
    for (int panel = 0; panel < (int)a->study->n_panel; panel++)
        if (write_panel(a, panel, out) != 0) return -1;
    if (ranges_write(a->study->store, a->study->ini_sha256, out, a->study->err) != 0) return -1;
    write_key(a, out);
    study_write_failures(a->study, out);
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

static int add_row(const struct page *a, struct table *t, int panel, int arm, int64_t length)
{
    const struct study_run *run = &a->study->run[a->study->arm[arm].run];
    struct study_cell cell = study_cell(a->study, panel, arm, length);
    double ceiling = NAN, majority;
    if (!run->causal && study_ceiling(a->study, panel, length, &ceiling) != 0) return -1;
    if (study_majority(a->study, panel, length, &majority) != 0) return -1;
    table_add(t, run->text[STUDY_TASK]);
    table_add(t, run->text[STUDY_TRAIN]);
    table_add(t, run->text[STUDY_ENCODER]);
    table_add(t, run->text[STUDY_LABEL]);
    add_integer(t, length);
    add_integer(t, cell.n);
    add_integer(t, a->study->arm[arm].planned);
    add_real(t, cell.mean);
    add_real(t, cell.half_width);
    add_real(t, cell.n ? cell.min : NAN);
    add_real(t, cell.n ? cell.max : NAN);
    add_integer(t, cell.solved);
    add_real(t, cell.sequence);
    add_real(t, run->chance);
    add_real(t, majority);
    add_real(t, ceiling);
    for (int i = 0; i < N_RANGE; i++) table_add(t, NULL);
    return 0;
}

/* A score over a range of lengths: the columns of one length as far as they fit, then those of its own. */
static int add_range_row(void *ctx, const struct ranges_row *r)
{
    struct table *t = ctx;
    char lengths[48];
    snprintf(lengths, sizeof lengths, r->lo < r->hi ? "%lld-%lld" : "%lld", (long long)r->lo, (long long)r->hi);
    table_add(t, *r->task ? r->task : NULL);
    table_add(t, NULL);
    table_add(t, r->encoder);
    table_add(t, r->label);
    table_add(t, NULL);
    add_integer(t, r->seeds);
    table_add(t, NULL);
    add_real(t, r->mean);
    add_real(t, r->seeds > 1 ? r->half_width : NAN);
    add_real(t, r->min);
    add_real(t, r->max);
    table_add(t, NULL);
    add_real(t, r->sequence);
    for (int i = 0; i < 3; i++) table_add(t, NULL);          /* chance and ceilings are of one length */
    table_add(t, lengths);
    add_real(t, r->score);
    add_real(t, r->paper);
    add_real(t, r->band);
    table_add(t, *r->verdict ? r->verdict : NULL);
    return t->failed;
}

int results_rows(struct study *s, struct table *t)
{
    static const char *const header[] = { "task", "train_length", "encoder", "label", "length", "seeds", "seeds_planned", "mean",
        "half_width", "min", "max", "solved", "sequence_mean", "chance", "majority", "order_blind_ceiling", "lengths", "score",
        "paper", "band", "verdict" };
    struct page page = { .study = s };
    int rc = 0;
    table_init(t, sizeof header / sizeof *header);
    for (int i = 0; i < t->n_col; i++) table_add(t, header[i]);
    for (int panel = 0; panel < (int)s->n_panel && rc == 0; panel++) {
        int n;
        int64_t *length = study_lengths(s, panel, &n);
        if (!length) rc = -1;
        for (int arm = 0; arm < (int)s->n_arm; arm++)
            for (int i = 0; s->arm[arm].panel == panel && i < n && rc == 0; i++) rc = add_row(&page, t, panel, arm, length[i]);
        free(length);
    }
    if (rc == 0) rc = ranges_each(s->store, s->ini_sha256, &(struct ranges_taker){ add_range_row, t }, s->err);
    if (rc != 0) table_free(t);
    return rc;
}

static int write_rows(struct page *a, struct str *out)
{
    struct table t;
    if (results_rows(a->study, &t) != 0) return -1;
    table_write(&t, TABLE_JSON, out);
    table_free(&t);
    return 0;
}

/* ---- both ---- */

static int print(struct store *store, const char *ini_sha256, int (*write)(struct page *, struct str *), FILE *file,
                 struct lab_err *err)
{
    struct study study;
    struct page a = { .study = &study };
    struct str out = { 0 };
    int rc = study_load(&study, store, ini_sha256, err);
    if (rc == 0) rc = write(&a, &out);
    if (rc == 0 && out.failed) rc = lab_fail(err, "out of memory while writing the tables");
    if (rc == 0) fwrite(str_text(&out), 1, out.len, file);       /* whoever owns the file looks at its errors */
    str_free(&out);
    study_release(&study);
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
