/* ranges -- see ranges.h.  A run's score is the mean over the lengths of the range that it was evaluated at, each length
 * counting the same; runs of one arm that differ in the seed are then pooled.  The verdict: PASS inside the paper's band,
 * NEAR inside three times the band (for an order: where what is out of order is less than 0.02 apart), else DIFFERENT.
 */
#include "answer/ranges.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/stats.h"
#include "answer/table.h"
#include "base/mem.h"
#include "exp/paper.h"

enum { MANY = 8 };                   /* lengths past training from which their mean is worth a table */
#define NEAR_BANDS 3
#define NEAR_ORDER 0.02

struct score { char task[PAPER_NAME], encoder[PAPER_NAME], label[128]; int64_t lo, hi; double token, sequence; };   /* of one run */
struct page {
    struct store *store;
    char sweep[24], *text;           /* the experiment file */
    struct score *score; size_t n, cap;
    double *sample;                  /* [n] */
    int failed;
    struct lab_err *err;
};

static const char sweep_sql[] = "SELECT sweep_id, ini_text FROM sweep WHERE ?1 = '' OR ini_sha256 = ?1 ORDER BY sweep_id DESC LIMIT 1";

/* Runs in the order of the plan, arm by arm; ?2, ?3: lengths, or 0, 0 for those past training if there are many.
 * The points come first and by themselves: SQLite looks up a sorted view run by run in a join, but not in a sum over one. */
static const char score_sql[] =
    "WITH point AS MATERIALIZED (SELECT c.ordinal, r.task, r.encoder, c.label, e.length, e.token_accuracy, e.sequence_accuracy"
    "  FROM sweep_cell c JOIN run r USING(run_id) JOIN results e USING(run_key) WHERE c.sweep_id = ?1"
    "   AND iif(?3 + 0 > 0, e.length BETWEEN ?2 + 0 AND ?3 + 0, e.length > r.train_length))"
    " SELECT task, encoder, label, lo, hi, token, sequence FROM ("
    " SELECT task, encoder, label, min(length) lo, max(length) hi, avg(token_accuracy) token, avg(sequence_accuracy) sequence,"
    "  ordinal, min(ordinal) OVER (PARTITION BY task, encoder, label) arm"
    " FROM point GROUP BY ordinal HAVING ?3 + 0 > 0 OR count(*) >= ?4 + 0) ORDER BY arm, ordinal";

static void copy(char *to, size_t size, const struct store_value *v) { snprintf(to, size, "%s", v->type == STORE_TEXT ? v->text : ""); }

static int keep_sweep(void *ctx, int n, const struct store_value *v)
{
    struct page *p = ctx;
    (void)n;
    snprintf(p->sweep, sizeof p->sweep, "%lld", (long long)v[0].integer);
    p->text = mem_strdup(v[1].text, p->err);
    return p->failed = !p->text;
}

static int keep_score(void *ctx, int n, const struct store_value *v)
{
    struct page *p = ctx;
    (void)n;
    p->failed = mem_grow(&p->score, &p->cap, p->n + 1, sizeof *p->score, p->err) != 0;
    if (p->failed) return 1;
    struct score *s = &p->score[p->n++];
    *s = (struct score){ .lo = v[3].integer, .hi = v[4].integer, .token = v[5].real, .sequence = v[6].real };
    copy(s->task, sizeof s->task, &v[0]);
    copy(s->encoder, sizeof s->encoder, &v[1]);
    copy(s->label, sizeof s->label, &v[2]);
    return 0;
}

static int load(struct page *p, int lo, int hi)
{
    char low[16], high[16], many[16];
    const char *args[] = { p->sweep, low, high, many };
    struct store_rows rows = { .row = keep_score, .ctx = p };
    snprintf(low, sizeof low, "%d", lo);
    snprintf(high, sizeof high, "%d", hi);
    snprintf(many, sizeof many, "%d", MANY);
    p->n = 0;
    if (store_query(p->store, score_sql, args, 4, 0, &rows, p->err) != 0 || p->failed) return -1;
    free(p->sample);
    return (p->sample = mem_alloc(p->n * sizeof *p->sample, p->err)) ? 0 : -1;
}

/* ---- pooling ---- */

struct pooled { int n; double mean, half_width, median, min, max; };

static int same_arm(const struct score *a, const struct score *b)
{
    return !strcmp(a->task, b->task) && !strcmp(a->encoder, b->encoder) && !strcmp(a->label, b->label);
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The arm that starts at run `first`. */
static struct pooled pool(const struct page *p, size_t first, int metric)
{
    struct pooled q = { 0 };
    for (size_t i = first; i < p->n && same_arm(&p->score[i], &p->score[first]); i++)
        p->sample[q.n++] = metric == PAPER_SEQUENCE ? p->score[i].sequence : p->score[i].token;
    q.mean = stats_mean(p->sample, q.n);
    q.half_width = stats_half_width(p->sample, q.n);
    qsort(p->sample, (size_t)q.n, sizeof *p->sample, rising);
    q.median = (p->sample[(q.n - 1) / 2] + p->sample[q.n / 2]) / 2;
    q.min = p->sample[0];
    q.max = p->sample[q.n - 1];
    return q;
}

static double by_rule(const struct pooled *q, int seeds) { return seeds == PAPER_MAX ? q->max : seeds == PAPER_MEDIAN ? q->median : q->mean; }

/* ---- tables ---- */

__attribute__((format(printf, 2, 3)))
static void add(struct table *t, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    table_add(t, text);
}

static void add_header(struct table *t, const char *const *name) { while (*name) table_add(t, *name++); }

static void add_arm(struct table *t, const struct score *s)
{
    table_add(t, s->task);
    add(t, "%s%s%s", s->encoder, *s->label ? " " : "", s->label);
}

static void add_range(struct table *t, int64_t lo, int64_t hi)
{
    if (lo == hi) add(t, "%lld", (long long)lo);
    else add(t, "%lld-%lld", (long long)lo, (long long)hi);
}

static void add_pooled(struct table *t, const struct pooled *q)
{
    if (q->n > 1) add(t, "%.3f\u00b1%.3f", q->mean, q->half_width);
    else add(t, "%.3f", q->mean);
    add(t, "%.3f", q->median);
    add(t, "%.3f", q->max);
    add(t, "%d", q->n);
}

/* Whole sequences, mean over seeds. */
static double sequence_of(const struct page *p, size_t first) { return pool(p, first, PAPER_SEQUENCE).mean; }

static int write_past_training(struct page *p, struct str *out)
{
    static const char *const header[] = { "task", "encoder", "lengths", "mean", "median", "best", "seeds", "whole sequences", NULL };
    struct table t;
    if (load(p, 0, 0) != 0) return -1;
    if (p->n == 0) return 0;
    table_init(&t, 8);
    add_header(&t, header);
    for (size_t i = 0; i < p->n;) {
        struct pooled q = pool(p, i, PAPER_TOKEN);
        add_arm(&t, &p->score[i]);
        add_range(&t, p->score[i].lo, p->score[i].hi);
        add_pooled(&t, &q);
        add(&t, "%.3f", sequence_of(p, i));
        i += (size_t)q.n;
    }
    str_add(out, "\ntoken accuracy, mean over the lengths past training\n");
    table_write(&t, TABLE_TEXT, out);
    table_free(&t);
    return 0;
}

static const char *verdict(double distance, double pass, double near)
{
    return isnan(distance) ? "-" : distance <= pass + 1e-9 ? "PASS" : distance <= near + 1e-9 ? "NEAR" : "DIFFERENT";
}

static void add_value_row(struct page *p, struct table *t, const struct paper *paper, const struct paper_cell *c)
{
    int found = 0;
    for (size_t i = 0; i < p->n;) {
        const struct score *s = &p->score[i];
        struct pooled q = pool(p, i, paper->metric);
        i += (size_t)q.n;
        if (strcmp(s->encoder, c->encoder[0]) || (*c->task && strcmp(s->task, c->task))) continue;
        add_arm(t, s);
        add_range(t, c->lo, c->hi);
        add(t, "%.3f\u00b1%.3f", c->value, c->band);
        add_pooled(t, &q);
        table_add(t, verdict(fabs(by_rule(&q, paper->seeds) - c->value), c->band, NEAR_BANDS * c->band));
        found = 1;
    }
    if (found) return;
    table_add(t, *c->task ? c->task : "-");
    table_add(t, c->encoder[0]);
    add_range(t, c->lo, c->hi);
    add(t, "%.3f\u00b1%.3f", c->value, c->band);
    for (int i = 0; i < 4; i++) table_add(t, "-");
    table_add(t, "not done");
}

/* The pooled score of an encoder in a task; NaN: not done. */
static double score_of(const struct page *p, const struct paper *paper, const char *task, const char *encoder)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->score[i].encoder, encoder) || (*task && strcmp(p->score[i].task, task))) continue;
        struct pooled q = pool(p, i, paper->metric);
        return by_rule(&q, paper->seeds);
    }
    return NAN;
}

/* By how much a later one of a published order is above an earlier one, at most; NaN: one of them is not done. */
static double disorder(const struct page *p, const struct paper *paper, const struct paper_cell *c)
{
    double worst = -1;
    for (int k = 0; k < c->n; k++)
        for (int j = 0; j < k; j++) {
            double above = score_of(p, paper, c->task, c->encoder[k]) - score_of(p, paper, c->task, c->encoder[j]);
            if (isnan(above)) return NAN;
            worst = fmax(worst, above);
        }
    return worst;
}

static void write_order(struct page *p, const struct paper *paper, const struct paper_cell *c, struct str *out)
{
    double worst = disorder(p, paper, c);
    str_printf(out, "order over %d", (int)c->lo);
    if (c->hi > c->lo) str_printf(out, "-%d", (int)c->hi);
    str_printf(out, ", paper: %s; here:", c->entry->value);
    for (int k = 0; k < c->n; k++) {
        double mine = score_of(p, paper, c->task, c->encoder[k]);
        if (isnan(mine)) str_printf(out, "%s -", k ? "," : "");
        else str_printf(out, "%s %.3f", k ? "," : "", mine);
        if (isnan(mine)) break;
    }
    str_printf(out, ": %s\n", isnan(worst) ? "not done" : verdict(worst, 0, NEAR_ORDER));
}

static int write_paper(struct page *p, const struct paper *paper, struct str *out)
{
    static const char *const header[] = { "task", "encoder", "lengths", "paper", "mean", "median", "best", "seeds", "verdict", NULL };
    static const char *const metric[] = { "token accuracy", "whole sequences right" }, *const rule[] = { "mean", "median", "best" };
    struct str orders = { 0 };
    struct table t;
    table_init(&t, 9);
    add_header(&t, header);
    for (size_t i = 0; i < paper->n; i++) {
        const struct paper_cell *c = &paper->cell[i];
        if (load(p, c->lo, c->hi) != 0) return table_free(&t), str_free(&orders), -1;
        if (c->n == 1) add_value_row(p, &t, paper, c);
        else write_order(p, paper, c, &orders);
    }
    str_printf(out, "\nagainst %s: %s, mean over the lengths, verdict on the %s of the seeds\n", paper->source, metric[paper->metric],
               rule[paper->seeds]);
    if (t.n_cell > 9) table_write(&t, TABLE_TEXT, out);
    str_add(out, str_text(&orders));
    out->failed |= orders.failed;
    table_free(&t);
    str_free(&orders);
    return 0;
}

/* ---- for programs ---- */

static struct ranges_row row_of(const struct page *p, size_t first)
{
    struct pooled q = pool(p, first, PAPER_TOKEN);
    const struct score *s = &p->score[first];
    return (struct ranges_row){ .task = s->task, .encoder = s->encoder, .label = s->label, .lo = s->lo, .hi = s->hi, .seeds = q.n, .mean = q.mean,
        .half_width = q.half_width, .min = q.min, .max = q.max, .sequence = sequence_of(p, first), .score = NAN, .paper = NAN, .band = NAN,
        .verdict = "" };
}

static int each_past_training(struct page *p, const struct ranges_taker *taker)
{
    if (load(p, 0, 0) != 0) return -1;
    for (size_t i = 0; i < p->n;) {
        struct ranges_row row = row_of(p, i);
        if (taker->take(taker->ctx, &row) != 0) return -1;
        i += (size_t)row.seeds;
    }
    return 0;
}

static const struct ranges_row nothing = { .task = "", .encoder = "", .label = "", .mean = NAN, .half_width = NAN, .min = NAN, .max = NAN,
                                           .sequence = NAN, .score = NAN, .paper = NAN, .band = NAN, .verdict = "not done" };

/* The arms that a published value speaks of; one row without numbers if none is done. */
static int each_value(struct page *p, const struct paper *paper, const struct paper_cell *c, const struct ranges_taker *taker)
{
    int found = 0;
    for (size_t i = 0, n; i < p->n; i += n) {
        const struct score *s = &p->score[i];
        struct pooled q = pool(p, i, paper->metric);
        struct ranges_row row = row_of(p, i);
        n = (size_t)q.n;
        if (strcmp(s->encoder, c->encoder[0]) || (*c->task && strcmp(s->task, c->task))) continue;
        row.lo = c->lo, row.hi = c->hi;
        row.score = by_rule(&q, paper->seeds), row.paper = c->value, row.band = c->band;
        row.verdict = verdict(fabs(row.score - c->value), c->band, NEAR_BANDS * c->band);
        if (taker->take(taker->ctx, &row) != 0) return -1;
        found = 1;
    }
    if (found) return 0;
    struct ranges_row row = nothing;
    row.task = c->task, row.encoder = c->encoder[0], row.lo = c->lo, row.hi = c->hi, row.paper = c->value, row.band = c->band;
    return taker->take(taker->ctx, &row) != 0 ? -1 : 0;
}

static int each_order(struct page *p, const struct paper *paper, const struct paper_cell *c, const struct ranges_taker *taker)
{
    struct ranges_row row = nothing;
    double worst = disorder(p, paper, c);
    row.task = c->task, row.encoder = "order", row.label = c->entry->value, row.lo = c->lo, row.hi = c->hi;
    if (!isnan(worst)) row.verdict = verdict(worst, 0, NEAR_ORDER);
    return taker->take(taker->ctx, &row) != 0 ? -1 : 0;
}

static int each_cell(struct page *p, const struct paper *paper, const struct ranges_taker *taker)
{
    for (size_t i = 0; i < paper->n; i++) {
        const struct paper_cell *c = &paper->cell[i];
        if (load(p, c->lo, c->hi) != 0 || (c->n == 1 ? each_value : each_order)(p, paper, c, taker) != 0) return -1;
    }
    return 0;
}

/* ---- both ---- */

/* Into out as a page shows them, or to the taker. */
static int both(struct store *store, const char *ini_sha256, struct str *out, const struct ranges_taker *taker, struct lab_err *err)
{
    struct page p = { .store = store, .err = err };
    struct conf conf = { 0 };
    struct paper paper = { 0 };
    const char *args[] = { ini_sha256 ? ini_sha256 : "" };
    struct store_rows rows = { .row = keep_sweep, .ctx = &p };
    int rc = -1;
    if (store_query(store, sweep_sql, args, 1, 0, &rows, err) != 0 || p.failed) goto out;
    rc = 0;
    if (!p.text) goto out;
    rc = out ? write_past_training(&p, out) : each_past_training(&p, taker);
    if (!strstr(p.text, "[paper]")) goto out;
    if (rc == 0) rc = conf_read_text(&conf, "[paper]", p.text, strlen(p.text), err);
    if (rc == 0) rc = paper_read(&paper, &conf, err);
    if (rc == 0 && paper.n) rc = out ? write_paper(&p, &paper, out) : each_cell(&p, &paper, taker);
out:
    paper_free(&paper);
    conf_free(&conf);
    free(p.score), free(p.sample), free(p.text);
    return rc;
}

int ranges_write(struct store *store, const char *ini_sha256, struct str *out, struct lab_err *err)
{
    return both(store, ini_sha256, out, NULL, err);
}

int ranges_each(struct store *store, const char *ini_sha256, const struct ranges_taker *taker, struct lab_err *err)
{
    return both(store, ini_sha256, NULL, taker, err);
}
