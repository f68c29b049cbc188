/* plot -- see plot.h. */
#include "answer/plot.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

const char *const plot_names[] = { "length", "loss", "heatmap", "position", "ranks", "seeds", NULL };

static struct chart *add_chart(struct plot *p, enum chart_shape shape, struct lab_err *err)
{
    if (mem_grow(&p->chart, &p->cap, p->n + 1, sizeof *p->chart, err) != 0) return NULL;
    chart_init(&p->chart[p->n], shape);
    return &p->chart[p->n++];
}

void plot_free(struct plot *p)
{
    for (size_t i = 0; i < p->n; i++) chart_free(&p->chart[i]);
    free(p->chart);
    *p = (struct plot){ 0 };
}

/* One of a chart's texts from a format. */
static void set(struct chart *c, char **field, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void set(struct chart *c, char **field, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    chart_set(c, field, text);
}

/* No picture may look complete that is not.  panel, arm: those it shows, -1: all. */
static void note_missing(const struct compare *c, struct chart *chart, int panel, int arm)
{
    const struct study *s = c->study;
    int runs = 0, missing = 0, diverged = 0;
    for (size_t i = 0; i < s->n_run; i++) {
        const struct study_run *r = &s->run[i];
        if ((panel >= 0 && s->arm[r->arm].panel != panel) || (arm >= 0 && r->arm != arm)) continue;
        int done = !strcmp(r->text[STUDY_STATUS], "done");
        runs++, missing += !done, diverged += done && r->diverged;
    }
    const char *missing_are = missing == 1 ? "is" : "are", *diverged_have = diverged == 1 ? "has" : "have";
    if (missing && diverged) set(chart, &chart->note, "%d of %d runs %s not done; in %d a number is not finite", missing, runs,
                                 missing_are, diverged);
    else if (missing) set(chart, &chart->note, "%d of %d runs %s not done", missing, runs, missing_are);
    else if (diverged) set(chart, &chart->note, "%d of %d runs %s a number that is not finite", diverged, runs, diverged_have);
}

static void name_panel(const struct compare *c, struct chart *chart, int panel, const char *what)
{
    const struct study *s = c->study;
    int run = s->panel[panel].run;
    set(chart, &chart->title, "%s, trained at length %s: %s", study_text(s, run, STUDY_TASK), study_text(s, run, STUDY_TRAIN), what);
    note_missing(c, chart, panel, -1);
}

static int arms_in(const struct study *s, int panel)
{
    int n = 0;
    for (size_t i = 0; i < s->n_arm; i++) n += s->arm[i].panel == panel;
    return n;
}

/* ---- by length ---- */

static double sample_value(const struct compare *c, const struct study_point *p)
{
    return c->lower ? p->loss : !strcmp(compare_metrics[c->metric], "sequence_accuracy") ? p->sequence : p->token;
}

/* The mean first, then the seeds: the series of the mean is gone when the next is made. */
static void add_arm_by_length(const struct compare *c, struct chart *chart, int panel, int arm, int style, const int64_t *length, int n)
{
    struct str name = { 0 };
    study_arm_name(c->study, arm, &name);
    struct chart_series *s = chart_series(chart, str_text(&name), style, CHART_MEAN);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++) {
            struct study_cell cell = study_cell(c->study, panel, arm, length[i]);
            double sum = 0;
            for (int k = 0; k < cell.n; k++) {
                double y = sample_value(c, &cell.point[k]);
                sum += y;
                if (pass) chart_point(chart, s, (double)length[i], y);
            }
            if (!pass) chart_point(chart, s, (double)length[i], sum / cell.n);
        }
        if (!pass) s = chart_series(chart, str_text(&name), style, CHART_SEED);
    }
    chart->failed |= name.failed;
    str_free(&name);
}

static int add_levels(const struct compare *c, struct chart *chart, int panel, const int64_t *length, int n)
{
    double chance = c->study->run[c->study->panel[panel].run].chance;
    struct chart_series *s = chart_series(chart, "chance", 0, CHART_REFERENCE);
    for (int i = 0; i < n; i++) chart_point(chart, s, (double)length[i], chance);
    s = chart_series(chart, "order-blind ceiling", 1, CHART_REFERENCE);
    for (int i = 0; i < n; i++) {
        double ceiling;
        if (study_ceiling(c->study, panel, length[i], &ceiling) != 0) return -1;
        chart_point(chart, s, (double)length[i], ceiling);
    }
    while (chart->n_series && chart->series[chart->n_series - 1].n == 0) free(chart->series[--chart->n_series].name);
    return 0;
}

static int add_by_length(struct plot *p, const struct compare *c, int panel)
{
    const struct study *s = c->study;
    int n, rc = 0, style = 0;
    int64_t *length = study_lengths(s, panel, &n);
    struct chart *chart = length && n ? add_chart(p, CHART_LINES, s->err) : NULL;
    if (!length || (n && !chart)) { free(length); return -1; }
    if (!chart) { free(length); return 0; }
    name_panel(c, chart, panel, compare_metric_name(c));
    chart_set(chart, &chart->x_name, "length of the sequence");
    chart_set(chart, &chart->y_name, compare_metric_name(c));
    set(chart, &chart->about, "Lines: mean %s of %d encoders at lengths %lld to %lld, with a point for every seed.", compare_metric_name(c),
        arms_in(s, panel), (long long)length[0], (long long)length[n - 1]);
    if (!c->lower) chart->y_lo = -0.02, chart->y_hi = 1.02;
    chart_size(chart, 0, n);
    for (int i = 0; i < chart->columns; i++) set(chart, &chart->column[i], "%lld", (long long)length[i]), chart->value[i] = (double)length[i];
    chart->mark = (double)study_longest(s, panel);
    set(chart, &chart->mark_name, "trained up to length %lld", (long long)study_longest(s, panel));
    for (int arm = 0; arm < (int)s->n_arm; arm++)
        if (s->arm[arm].panel == panel) add_arm_by_length(c, chart, panel, arm, style++, length, n);
    if (!c->lower) rc = add_levels(c, chart, panel, length, n);
    free(length);
    return rc;
}

/* ---- loss ---- */

enum { CURVE_POINTS = 100 };         /* of one run: more than a picture can show */
struct curve { int run; size_t n, cap_x, cap_y; double *x, *y; };
struct curves { const struct study *study; struct curve *curve; size_t n, cap; size_t cursor; int failed; };

static const char loss_sql[] =
    "SELECT c.ordinal, v.step, v.value FROM sweep_cell c JOIN run r USING(run_id) JOIN curves v USING(run_key)"
    " WHERE c.sweep_id = ?1 AND v.name = 'loss' ORDER BY c.ordinal, v.step";

static int keep_loss(void *ctx, int n, const struct store_value *v)
{
    struct curves *k = ctx;
    const struct study *s = k->study;
    (void)n;
    while (k->cursor < s->n_run && s->run[k->cursor].ordinal < v[0].integer) k->cursor++;
    if (k->cursor == s->n_run) return 1;
    k->failed = 1;
    if (k->n == 0 || k->curve[k->n - 1].run != (int)k->cursor) {
        if (mem_grow(&k->curve, &k->cap, k->n + 1, sizeof *k->curve, s->err) != 0) return 1;
        k->curve[k->n++] = (struct curve){ .run = (int)k->cursor };
    }
    struct curve *c = &k->curve[k->n - 1];
    if (mem_grow(&c->x, &c->cap_x, c->n + 1, sizeof *c->x, s->err) != 0 || mem_grow(&c->y, &c->cap_y, c->n + 1, sizeof *c->y, s->err) != 0) return 1;
    c->x[c->n] = (double)v[1].integer, c->y[c->n++] = study_real(&v[2]);
    return k->failed = 0;
}

/* Of many points the means of neighbours: a spike between two points would otherwise vanish or stand alone. */
static void add_curve(struct chart *chart, const struct study *s, const struct curve *curve, int style)
{
    struct str name = { 0 };
    size_t bins = curve->n < CURVE_POINTS ? curve->n : CURVE_POINTS;
    study_arm_name(s, s->run[curve->run].arm, &name);
    struct chart_series *series = chart_series(chart, str_text(&name), style, CHART_CURVE);
    for (size_t b = 0; b < bins; b++) {
        double sum = 0;
        size_t from = b * curve->n / bins, to = (b + 1) * curve->n / bins;
        for (size_t i = from; i < to; i++) sum += curve->y[i];
        chart_point(chart, series, curve->x[to - 1], sum / (double)(to - from));
    }
    chart->failed |= name.failed;
    str_free(&name);
}

static int add_loss_panel(struct plot *p, const struct compare *c, const struct curves *k, int panel)
{
    const struct study *s = c->study;
    struct chart *chart = NULL;
    int style = 0, curves = 0;
    for (int arm = 0; arm < (int)s->n_arm; arm++) {
        if (s->arm[arm].panel != panel) continue;
        for (size_t i = 0; i < k->n; i++) {
            if (s->run[k->curve[i].run].arm != arm) continue;
            if (!chart) {
                if (!(chart = add_chart(p, CHART_LINES, s->err))) return -1;
                chart->log_y = 1;
            }
            add_curve(chart, s, &k->curve[i], style);
            curves++;
        }
        style++;
    }
    if (!chart) return 0;
    name_panel(c, chart, panel, "training loss");
    chart_set(chart, &chart->x_name, "training step");
    chart_set(chart, &chart->y_name, "loss (nat/token)");
    set(chart, &chart->about, "Lines: training loss of %d runs by step, on a logarithmic scale, one line a seed, one colour an encoder.", curves);
    return 0;
}

static int add_losses(struct plot *p, const struct compare *c)
{
    struct curves k = { .study = c->study };
    int rc = study_query(c->study, loss_sql, keep_loss, &k) != 0 || k.failed ? -1 : 0;
    for (int i = 0; i < c->n_panel && rc == 0; i++) rc = add_loss_panel(p, c, &k, c->panel[i].panel);
    for (size_t i = 0; i < k.n; i++) free(k.curve[i].x), free(k.curve[i].y);
    free(k.curve);
    return rc;
}

/* ---- grids ---- */

static int add_heatmap(struct plot *p, const struct compare *c, int panel)
{
    const struct study *s = c->study;
    int n, row = 0;
    struct str name = { 0 };
    int64_t *length = study_lengths(s, panel, &n);
    struct chart *chart = length && n ? add_chart(p, CHART_GRID, s->err) : NULL;
    if (!length || (n && !chart)) { free(length); return -1; }
    if (!chart) { free(length); return 0; }
    name_panel(c, chart, panel, "token accuracy");
    chart_set(chart, &chart->x_name, "length of the sequence");
    chart_set(chart, &chart->y_name, "encoder");
    set(chart, &chart->about, "Grid: mean token accuracy, one row an encoder, one column a length.");
    chart_size(chart, arms_in(s, panel), n);
    for (int i = 0; i < chart->columns; i++) set(chart, &chart->column[i], "%lld%s", (long long)length[i],
                                                 study_seen(s, panel, length[i]) ? "*" : "");
    for (int arm = 0; arm < (int)s->n_arm && row < chart->rows; arm++) {
        if (s->arm[arm].panel != panel) continue;
        study_arm_name(s, arm, &name);
        chart_set(chart, &chart->row[row], str_text(&name));
        for (int i = 0; i < n; i++) chart->value[row * n + i] = study_cell(s, panel, arm, length[i]).mean;
        row++;
    }
    chart->failed |= name.failed;
    str_free(&name);
    free(length);
    return 0;
}

static const char position_sql[] =
    "SELECT f.first, p.length, p.position, p.token_accuracy_mean"
    " FROM (SELECT r.arm, r.task, r.encoder, min(c.ordinal) AS first FROM sweep_cell c JOIN run r USING(run_id)"
    "       WHERE c.sweep_id = ?1 GROUP BY r.arm) f"
    " JOIN by_position p ON p.task = f.task AND p.encoder = f.encoder AND p.arm = f.arm ORDER BY f.first, p.length, p.position";

struct place { int arm; int64_t length, position; double value; };
struct places { const struct study *study; struct place *place; size_t n, cap; int failed; };

static int keep_place(void *ctx, int n, const struct store_value *v)
{
    struct places *k = ctx;
    const struct study *s = k->study;
    size_t run = 0;
    (void)n;
    while (run < s->n_run && s->run[run].ordinal != v[0].integer) run++;
    if (run == s->n_run) return 0;
    k->failed = mem_grow(&k->place, &k->cap, k->n + 1, sizeof *k->place, s->err) != 0;
    if (k->failed) return 1;
    k->place[k->n++] = (struct place){ s->run[run].arm, v[1].integer, v[2].integer, study_real(&v[3]) };
    return 0;
}

/* Places of one arm, by length and position. */
static int add_places(struct plot *p, const struct compare *c, const struct place *place, size_t n)
{
    const struct study *s = c->study;
    struct str name = { 0 };
    int64_t widest = 0;
    int rows = 0, row = -1;
    struct chart *chart = add_chart(p, CHART_GRID, s->err);
    if (!chart) return -1;
    for (size_t i = 0; i < n; i++) {
        rows += i == 0 || place[i].length != place[i - 1].length;
        if (place[i].position > widest) widest = place[i].position;
    }
    study_arm_name(s, place->arm, &name);
    int panel = s->arm[place->arm].panel;
    set(chart, &chart->title, "%s, %s: where the answers are right", study_text(s, s->panel[panel].run, STUDY_TASK), str_text(&name));
    note_missing(c, chart, panel, place->arm);
    chart_set(chart, &chart->x_name, "position of the answer");
    chart_set(chart, &chart->y_name, "length");
    set(chart, &chart->about, "Grid: mean token accuracy of %s, one row a length, one column a position.", str_text(&name));
    chart_size(chart, rows, (int)widest + 1);
    for (int i = 0; i < chart->columns; i++) set(chart, &chart->column[i], "%d", i);
    for (size_t i = 0; i < n && chart->rows; i++) {
        if (i == 0 || place[i].length != place[i - 1].length)
            set(chart, &chart->row[++row], "%lld%s", (long long)place[i].length, study_seen(s, panel, place[i].length) ? "*" : "");
        chart->value[row * chart->columns + (int)place[i].position] = place[i].value;
    }
    chart->failed |= name.failed;
    str_free(&name);
    return 0;
}

static int add_positions(struct plot *p, const struct compare *c)
{
    struct places k = { .study = c->study };
    int rc = study_query(c->study, position_sql, keep_place, &k) != 0 || k.failed ? -1 : 0;
    for (int i = 0; i < c->n_panel && rc == 0; i++)
        for (size_t from = 0, to; from < k.n && rc == 0; from = to) {
            for (to = from; to < k.n && k.place[to].arm == k.place[from].arm; to++) { }
            if (c->study->arm[k.place[from].arm].panel == c->panel[i].panel) rc = add_places(p, c, &k.place[from], to - from);
        }
    free(k.place);
    return rc;
}

/* ---- ranks and seeds ---- */

static int add_ranks(struct plot *p, const struct compare *c, const struct compare_group *g)
{
    const struct study *s = c->study;
    struct str name = { 0 };
    struct chart *chart = add_chart(p, CHART_RANKING, s->err);
    if (!chart) return -1;
    int run = s->panel[c->panel[g->first].panel].run;
    set(chart, &chart->title, "mean ranks over %d tasks, trained at length %s (1 is best)", g->tasks, study_text(s, run, STUDY_TRAIN));
    set(chart, &chart->about, "Ranking: mean rank of %d encoders over %d tasks, best first.", g->n_row, g->tasks);
    note_missing(c, chart, -1, -1);
    chart->critical = g->critical;
    chart_size(chart, g->n_row, 0);
    for (int place = 0, last = -1; place < chart->rows; place++) {       /* the next best after the last */
        int next = -1;
        for (int i = 0; i < g->n_row; i++) {
            int after = last < 0 || g->row[i].rank > g->row[last].rank || (g->row[i].rank == g->row[last].rank && i > last);
            if (after && (next < 0 || g->row[i].rank < g->row[next].rank)) next = i;
        }
        if ((last = next) < 0) break;
        study_arm_name(s, g->row[next].arm, &name);
        chart_set(chart, &chart->row[place], str_text(&name));
        chart->value[place] = g->row[next].rank;
    }
    chart->failed |= name.failed;
    str_free(&name);
    return 0;
}

/* Seeds of one encoder stand side by side, so that equal ones are seen. */
static int add_seeds(struct plot *p, const struct compare *c, const struct compare_panel *panel)
{
    const struct study *s = c->study;
    struct str name = { 0 };
    int column = 0;
    if (panel->n_length == 0) return 0;
    struct chart *chart = add_chart(p, CHART_LINES, s->err);
    if (!chart) return -1;
    compare_lengths(panel, &name);
    set(chart, &chart->title, "%s, trained at length %s: seeds, %s", study_text(s, s->panel[panel->panel].run, STUDY_TASK),
        study_text(s, s->panel[panel->panel].run, STUDY_TRAIN), str_text(&name));
    note_missing(c, chart, panel->panel, -1);
    chart_set(chart, &chart->x_name, "encoder");
    chart_set(chart, &chart->y_name, compare_metric_name(c));
    set(chart, &chart->about, "Points: %s of every seed, one column an encoder.", compare_metric_name(c));
    if (!c->lower) chart->y_lo = -0.02, chart->y_hi = 1.02;
    chart->categories = 1;
    chart_size(chart, 0, arms_in(s, panel->panel));
    for (int arm = 0; arm < (int)s->n_arm && column < chart->columns; arm++) {
        if (s->arm[arm].panel != panel->panel) continue;
        study_arm_name(s, arm, &name);
        chart_set(chart, &chart->column[column], str_text(&name));
        chart->value[column] = column;
        struct chart_series *series = chart_series(chart, str_text(&name), column, CHART_SEED);
        int from = c->arm_start[arm], n = c->arm_start[arm + 1] - from;
        for (int i = 0; i < n; i++)
            chart_point(chart, series, column + (n > 1 ? 0.4 * ((double)i / (n - 1) - 0.5) : 0), c->score[c->order[from + i]]);
        column++;
    }
    chart->failed |= name.failed;
    str_free(&name);
    return 0;
}

/* ---- all ---- */

enum plot_kind plot_choose(const struct study *s)
{
    if (s->n_point == 0) return PLOT_LOSS;
    for (size_t i = 1; i < s->n_point; i++)
        if (s->point[i].panel == s->point[0].panel && s->point[i].length != s->point[0].length) return PLOT_LENGTH;
    return PLOT_SEEDS;
}

int plot_add(struct plot *p, const struct compare *c, enum plot_kind kind)
{
    int rc = 0;
    if (kind == PLOT_LOSS) rc = add_losses(p, c);
    if (kind == PLOT_POSITION) rc = add_positions(p, c);
    for (int i = 0; i < c->n_group && kind == PLOT_RANKS && rc == 0; i++) if (c->group[i].n_row) rc = add_ranks(p, c, &c->group[i]);
    for (int i = 0; i < c->n_panel && rc == 0; i++) {
        if (kind == PLOT_LENGTH) rc = add_by_length(p, c, c->panel[i].panel);
        if (kind == PLOT_HEATMAP) rc = add_heatmap(p, c, c->panel[i].panel);
        if (kind == PLOT_SEEDS) rc = add_seeds(p, c, &c->panel[i]);
    }
    for (size_t i = 0; i < p->n && rc == 0; i++)
        if (p->chart[i].failed) rc = lab_fail(c->err, "out of memory while drawing");
    return rc;
}
