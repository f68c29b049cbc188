/* report -- see report.h.  Order of the page: answer, completeness, one section a task, over tasks, cost, what never was
 * trained, how to read it, the experiment file, the environment. */
#include "answer/report.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/fetch.h"
#include "answer/plot.h"
#include "answer/ranges.h"
#include "answer/results.h"
#include "base/mem.h"
#include "css.h"

enum { FAILURES_LISTED = 50 };

struct report { struct study *study; struct compare compare; struct str *out; int tables, figures; };    /* numbered so far */

/* ---- pieces of a page ---- */

static void html(struct report *r, const char *text) { table_html(r->out, text); }

/* A formatted text, escaped. */
static void say(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct report *r, const char *format, ...)
{
    char piece[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(piece, sizeof piece, format, ap);
    va_end(ap);
    html(r, piece);
}

/* Text whose lines and tabs stay. */
static void exact(struct report *r, const char *text)
{
    for (char part[256]; *text; ) {
        size_t n = strcspn(text, "\n\t");
        if (n >= sizeof part) {
            n = sizeof part - 1;
            while (n > 0 && (text[n] & 0xc0) == 0x80) n--;               /* not inside a character */
        }
        memcpy(part, text, n);
        part[n] = '\0';
        html(r, part);
        text += n;
        if (*text == '\n' || *text == '\t') str_addn(r->out, text++, 1);
    }
}

static void sql_details(struct report *r, const char *sql)
{
    str_add(r->out, "<details><summary>SQL of this table</summary><pre class=\"sql\">");
    exact(r, sql);
    str_add(r->out, "</pre></details>\n");
}

/* A table that scrolls by itself where it is too wide, while its caption stays; numbered, so that every region has a name of its own. */
static void table(struct report *r, const struct table *t, const char *caption, const char *class)
{
    int id = ++r->tables;
    str_printf(r->out, "<p class=\"caption\" id=\"t%d\">Table %d. ", id, id);
    html(r, caption);
    str_printf(r->out, "</p>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"t%d\"><table%s%s%s aria-labelledby=\"t%d\">\n", id,
               *class ? " class=\"" : "", class, *class ? "\"" : "", id);
    table_write(t, TABLE_HTML, r->out);
    str_add(r->out, "</table></div>\n");
}

static int fetched(struct report *r, const char *sql, const char *caption, const char *class, const char *none)
{
    struct table t;
    if (fetch_table(r->study->store, sql, NULL, 0, 0, &t, r->study->err) != 0) return -1;
    if (t.n_cell > (size_t)t.n_col) table(r, &t, caption, class);
    else str_printf(r->out, "<p>%s</p>\n", none);
    sql_details(r, sql);
    table_free(&t);
    return 0;
}

static void figure(struct report *r, const struct chart *c)
{
    struct table t;
    char id[16];
    snprintf(id, sizeof id, "f%d", ++r->figures);
    str_add(r->out, "<figure><figcaption>");
    html(r, c->title);
    str_add(r->out, "</figcaption>\n");
    chart_svg(c, id, r->out);
    chart_key(c, r->out);
    str_add(r->out, "<details><summary>Data of this figure</summary>\n");
    chart_data(c, &t);
    table(r, &t, c->title, "");
    table_free(&t);
    str_add(r->out, "</details></figure>\n");
}

/* The charts of some kinds for one panel, or for all with -1, side by side where there is room. */
static int figures(struct report *r, const enum plot_kind *kind, int n, int panel)
{
    struct compare one = r->compare;
    struct plot plot = { 0 };
    int rc = 0;
    for (int i = 0; i < r->compare.n_panel; i++)
        if (r->compare.panel[i].panel == panel) one.panel = &r->compare.panel[i], one.n_panel = 1;
    for (int i = 0; i < n && rc == 0; i++) rc = plot_add(&plot, &one, kind[i]);
    if (rc == 0 && plot.n) str_add(r->out, "<div class=\"figures\">\n");
    for (size_t i = 0; i < plot.n && rc == 0; i++) figure(r, &plot.chart[i]);
    if (rc == 0 && plot.n) str_add(r->out, "</div>\n");
    plot_free(&plot);
    return rc;
}

/* ---- the answer in words ---- */

static void name_of(struct report *r, int arm)
{
    struct str name = { 0 };
    study_arm_name(r->study, arm, &name);
    html(r, str_text(&name));
    str_free(&name);
}

/* The arm of a panel with the best mean among those worse than `than`; -1: none. */
static int next_best(const struct compare *c, int panel, int than)
{
    int best = -1;
    for (int arm = 0; arm < (int)c->study->n_arm; arm++) {
        double mean = c->cell[arm].mean;
        if (c->study->arm[arm].panel != panel || isnan(mean)) continue;
        if (than >= 0 && (arm == than || mean > c->cell[than].mean || (mean == c->cell[than].mean && arm < than))) continue;
        if (best < 0 || mean > c->cell[best].mean) best = arm;
    }
    return best;
}

static int mean_ceiling(struct report *r, const struct compare_panel *p, double *mean)
{
    double sum = 0;
    for (int i = 0; i < p->n_length; i++) {
        double ceiling;
        if (study_ceiling(r->study, p->panel, p->length[i], &ceiling) != 0) return -1;
        sum += ceiling;
    }
    *mean = p->n_length ? sum / p->n_length : NAN;
    return 0;
}

/* What so few pairs cannot show. */
static void say_luck(struct report *r, int pairs)
{
    char smallest[16];
    if (pairs < 1 || stats_smallest_p(pairs) < 0.05) return;
    compare_p(stats_smallest_p(pairs), smallest);
    str_add(r->out, "<li>");
    say(r, "With %d seed%s p cannot be below %s; ", pairs, pairs == 1 ? "" : "s", smallest);
    if (!(stats_smallest_p(pairs) < 0.1)) say(r, "%d seeds would be needed for p < 0.1, ", stats_pairs_for(0.1));
    say(r, "%d for p < 0.05.", stats_pairs_for(0.05));
    str_add(r->out, "</li>\n");
}

static int say_lead(struct report *r, int best, int other, const char *who, int *pairs)
{
    struct compare_pair p;
    char text[16];
    if (compare_two(&r->compare, best, other, &p) != 0) return -1;
    if (p.n == 0) return 0;
    str_add(r->out, "<li>It beats ");
    name_of(r, other);
    say(r, "%s by %.3f", who, p.difference);
    if (p.half_width > 0) say(r, " [%.3f, %.3f]", p.difference - p.half_width, p.difference + p.half_width);
    compare_p(p.p, text);
    say(r, ", in %g of %d seeds; p = %s by exact sign flips.", p.better * p.n, p.n, text);
    str_add(r->out, "</li>\n");
    if (p.n < *pairs) *pairs = p.n;
    return 0;
}

static void say_best(struct report *r, const struct compare_panel *p, int best)
{
    const struct compare_cell *cell = &r->compare.cell[best];
    struct study *s = r->study;
    say(r, "On %s, ", study_text(s, s->panel[p->panel].run, STUDY_TASK));
    if (p->all) str_add(r->out, "at the lengths of training, ");
    else say(r, "beyond length %lld, ", (long long)study_longest(s, p->panel));
    str_add(r->out, "<strong>");
    name_of(r, best);
    str_add(r->out, "</strong>");
    say(r, " does best: %.3f of the tokens are right", cell->mean);
    if (cell->half_width > 0) say(r, " [%.3f, %.3f]", cell->mean - cell->half_width, cell->mean + cell->half_width);
    say(r, ", mean over %d of %d seeds", cell->n, s->arm[best].planned);
}

static int answer_panel(struct report *r, const struct compare_panel *p)
{
    struct study *s = r->study;
    const struct compare *c = &r->compare;
    int best = next_best(c, p->panel, -1), second, pairs = INT32_MAX, rc = 0;
    double ceiling;
    str_add(r->out, "<p>");
    if (best < 0) {
        say(r, "On %s, trained at length %s, no run has been evaluated yet.", study_text(s, s->panel[p->panel].run, STUDY_TASK),
            study_text(s, s->panel[p->panel].run, STUDY_TRAIN));
        str_add(r->out, "</p>\n");
        return 0;
    }
    if (mean_ceiling(r, p, &ceiling) != 0) return -1;
    say_best(r, p, best);
    if (!p->all && c->cell[best].mean <= ceiling + STUDY_LEAK_MARGIN) {
        say(r, ". That is no more than a model without positions can reach (%.3f): nobody goes past the training length here.", ceiling);
        str_add(r->out, "</p>\n");
        return 0;
    }
    str_add(r->out, ".</p>\n<ul>\n");
    if ((second = next_best(c, p->panel, best)) >= 0) rc = say_lead(r, best, second, ", the second,", &pairs);
    for (int i = 0; i < c->n_pair && rc == 0; i++) {
        int base = c->pair[i].base;
        if (c->pair[i].arm == best && base != second) rc = say_lead(r, best, base, ", the baseline,", &pairs);
    }
    if (pairs < INT32_MAX) say_luck(r, pairs);
    if (!p->all && !isnan(c->cell[best].seen)) {
        str_add(r->out, "<li>");
        say(r, "At the lengths of training it has %.3f.", c->cell[best].seen);
        str_add(r->out, "</li>\n");
    }
    str_add(r->out, "</ul>\n");
    return rc;
}

static int answer(struct report *r)
{
    int few = 0, mixed = r->compare.mixed_data + r->compare.mixed_code + r->compare.mixed_budget;
    str_add(r->out, "<section class=\"answer\" aria-labelledby=\"answer\"><h2 id=\"answer\">Answer</h2>\n");
    for (int i = 0; i < r->compare.n_panel; i++) {
        if (answer_panel(r, &r->compare.panel[i]) != 0) return -1;
        few |= r->study->panel[r->compare.panel[i].panel].planned < 5;
    }
    str_add(r->out, "<p class=\"note\">The best is named after looking at the results, so its lead is flattered a little; "
            "the comparisons with the baseline below are adjusted for their number.");
    if (few) str_add(r->out, " With fewer than five seeds intervals are wide and tests can hardly succeed.");
    str_add(r->out, "</p>\n");
    if (mixed) str_printf(r->out, "<p><strong>Mixed:</strong> %d pairs differ in evaluation data, %d in training budget, %d in code; "
                          "their differences are not the encoder's alone.</p>\n", r->compare.mixed_data, r->compare.mixed_budget,
                          r->compare.mixed_code);
    str_add(r->out, "</section>\n");
    return 0;
}

/* ---- what is done and what is not ---- */

static void completeness(struct report *r)
{
    const struct study *s = r->study;
    int done = 0, failed = 0, diverged = 0, listed = 0;
    for (size_t i = 0; i < s->n_run; i++) {
        done += !strcmp(s->run[i].text[STUDY_STATUS], "done");
        failed += study_is_failure(&s->run[i]);
        diverged += s->run[i].diverged;
    }
    str_printf(r->out, "<section aria-labelledby=\"complete\"><h2 id=\"complete\">Is it complete?</h2>\n<p>%d of %zu runs are done; "
               "%d failed or were stopped; %zu are still to do.", done, s->n_run, failed, s->n_run - (size_t)(done + failed));
    if (diverged) str_printf(r->out, " In %d run%s some number was not finite.", diverged, diverged == 1 ? "" : "s");
    str_add(r->out, "</p>\n");
    if (failed) str_add(r->out, "<ul>\n");
    for (size_t i = 0; i < s->n_run && listed < FAILURES_LISTED; i++) {
        char *const *text = s->run[i].text;
        if (!study_is_failure(&s->run[i])) continue;
        listed++;
        str_add(r->out, "<li>");
        say(r, "%s %s %s seed %lld, %s%s%s", text[STUDY_TASK], text[STUDY_ENCODER], text[STUDY_LABEL], (long long)s->run[i].seed, text[STUDY_STATUS],
            *text[STUDY_REASON] ? ": " : "", text[STUDY_REASON]);
        str_add(r->out, "</li>\n");
    }
    if (failed > listed) str_printf(r->out, "<li>and %d more</li>\n", failed - listed);
    if (failed) str_add(r->out, "</ul>\n");
    str_add(r->out, "</section>\n");
}

/* ---- one task ---- */

/* SQL text literals double their quotes. */
static void literal(struct str *out, const char *text)
{
    str_add(out, "'");
    for (; *text; text++) str_addn(out, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    str_add(out, "'");
}

/* Which rows of a view belong to this experiment, task and training length. */
static void where(const struct study *s, int panel, struct str *sql)
{
    str_add(sql, "WHERE task = ");
    literal(sql, study_text(s, s->panel[panel].run, STUDY_TASK));
    str_printf(sql, " AND train_length = %lld\n  AND arm IN (SELECT r.arm FROM sweep_cell c JOIN run r USING(run_id) WHERE c.sweep_id = %s)\n",
               (long long)study_longest(s, panel), s->id);
}

static int panel_results(struct report *r, int panel)
{
    struct table t;
    struct str sql = { 0 }, note = { 0 };
    if (results_table(r->study, panel, &t) != 0) return -1;
    table(r, &t, "Token accuracy by length: mean \u00b1 half-width of the 95 % t interval over seeds; * seen in training; (=) all seeds equal", "");
    table_free(&t);
    study_write_selection(r->study, panel, &note);
    if (note.len) {
        str_add(r->out, "<p class=\"note\">");
        exact(r, str_text(&note));
        str_add(r->out, "</p>\n");
    }
    r->out->failed |= note.failed;
    str_free(&note);
    str_add(&sql, "SELECT encoder, label, length, seeds, seeds_missing, token_accuracy_mean, token_accuracy_sd,\n"
            "       token_accuracy_min, token_accuracy_max, chance, majority, order_blind_ceiling\nFROM by_length\n");
    where(r->study, panel, &sql);
    str_add(&sql, "ORDER BY encoder, label, length");
    sql_details(r, str_text(&sql));
    str_free(&sql);
    return 0;
}

static void length_list(const struct compare_panel *p, struct str *sql)
{
    for (int i = 0; i < p->n_length; i++) str_printf(sql, "%s%lld", i ? ", " : "", (long long)p->length[i]);
}

static void panel_comparison(struct report *r, const struct compare_panel *p)
{
    const struct compare *c = &r->compare;
    struct str sql = { 0 }, caption = { 0 };
    struct table t;
    if (p->n_length == 0) return;
    str_add(&caption, "Token accuracy, ");
    compare_lengths(p, &caption);
    compare_cells(c, p, 1, &t);
    table(r, &t, str_text(&caption), "");
    table_free(&t);
    str_add(&sql, "SELECT encoder, label, seed, avg(token_accuracy) AS token_accuracy, count(*) AS lengths\nFROM results\n");
    where(r->study, p->panel, &sql);
    str_add(&sql, "  AND length IN ("), length_list(p, &sql), str_add(&sql, ")\nGROUP BY encoder, label, arm, seed");
    sql_details(r, str_text(&sql));
    if (compare_pairs(c, p, 1, &t)) {
        str_clear(&caption), str_clear(&sql);
        str_printf(&caption, "Difference to %s at equal seeds, ", c->options.baseline);
        compare_lengths(p, &caption);
        table(r, &t, str_text(&caption), "");
        str_add(&sql, "SELECT encoder, label, baseline_label, seed, avg(token_accuracy_gain) AS gain, count(*) AS lengths\nFROM paired\n");
        where(r->study, p->panel, &sql);
        str_add(&sql, "  AND baseline = "), literal(&sql, study_text(r->study, r->study->arm[c->pair[0].base].run, STUDY_ENCODER));
        str_add(&sql, " AND length IN ("), length_list(p, &sql), str_add(&sql, ")\nGROUP BY encoder, label, arm, baseline_arm, seed");
        sql_details(r, str_text(&sql));
    }
    table_free(&t);
    r->out->failed |= sql.failed | caption.failed;
    str_free(&sql), str_free(&caption);
}

static int write_panel(struct report *r, const struct compare_panel *p, int number)
{
    static const enum plot_kind at_a_glance[] = { PLOT_LENGTH, PLOT_SEEDS, PLOT_LOSS }, errors[] = { PLOT_POSITION };
    struct study *s = r->study;
    str_printf(r->out, "<section aria-labelledby=\"task%d\"><h2 id=\"task%d\">", number, number);
    say(r, "%s, trained at length %s", study_text(s, s->panel[p->panel].run, STUDY_TASK), study_text(s, s->panel[p->panel].run, STUDY_TRAIN));
    str_add(r->out, "</h2>\n");
    if (panel_results(r, p->panel) != 0 || figures(r, at_a_glance, 3, p->panel) != 0) return -1;
    str_printf(r->out, "<h3>%s</h3>\n", p->all ? "At the lengths of training" : "Past the training length");
    panel_comparison(r, p);
    str_add(r->out, "<h3>Where the errors are</h3>\n");
    if (figures(r, errors, 1, p->panel) != 0) return -1;
    str_add(r->out, "</section>\n");
    return 0;
}

/* ---- over tasks ---- */

static void write_group(struct report *r, const struct compare_group *g)
{
    char p[16];
    struct table t;
    compare_rows(&r->compare, g, 1, &t);
    str_printf(r->out, "<p>%d tasks, trained at length ", g->tasks);
    say(r, "%s. Rank 1 is best", study_text(r->study, r->study->panel[r->compare.panel[g->first].panel].run, STUDY_TRAIN));
    if (!isnan(g->critical)) say(r, "; mean ranks nearer than %.2f do not differ at 0.05 (Nemenyi)", g->critical);
    if (!isnan(g->friedman.p)) {
        compare_p(g->friedman.p, p);
        say(r, "; Friedman's chi2 is %.2f", g->friedman.chi2);
        if (isfinite(g->friedman.f)) say(r, ", F is %.2f, p is %s", g->friedman.f, p);
    }
    str_add(r->out, ".</p>\n");
    table(r, &t, "Over tasks: ranks, middle half of the runs, and the difference to the baseline", "");
    table_free(&t);
}

static int over_tasks(struct report *r)
{
    static const enum plot_kind ranks[] = { PLOT_RANKS };
    if (r->compare.n_group == 0) return 0;
    str_add(r->out, "<section aria-labelledby=\"over\"><h2 id=\"over\">Over tasks</h2>\n");
    for (int i = 0; i < r->compare.n_group; i++) write_group(r, &r->compare.group[i]);
    if (figures(r, ranks, 1, -1) != 0) return -1;
    str_printf(r->out, "<p class=\"note\">IQM: mean of the middle half of the runs, with an interval from %d resamples of seeds within tasks (seed %d). "
               "p speaks of these tasks alone.</p>\n</section>\n", STATS_RESAMPLES, STATS_SEED);
    return 0;
}

/* Long ranges of lengths, and what the file's [paper] section holds the experiment against. */
static int ranges(struct report *r)
{
    struct str text = { 0 };
    int rc = ranges_write(r->study->store, r->study->ini_sha256, &text, r->study->err);
    if (rc == 0 && text.len) {
        str_add(r->out, "<section aria-labelledby=\"ranges\"><h2 id=\"ranges\">Ranges of lengths</h2>\n<pre class=\"wide\" role=\"region\" tabindex=\"0\" aria-labelledby=\"ranges\">");
        exact(r, str_text(&text));
        str_add(r->out, "</pre></section>\n");
    }
    r->out->failed |= text.failed;
    str_free(&text);
    return rc;
}

/* ---- tables straight from the database ---- */

static int cost(struct report *r)
{
    struct str sql = { 0 };
    str_add(r->out, "<section aria-labelledby=\"cost\"><h2 id=\"cost\">Cost</h2>\n");
    str_printf(&sql, "SELECT encoder, label, task, parameters, count(*) AS runs, round(avg(step_ms), 2) AS ms_per_step, round(avg(active_s), 1) AS seconds_per_run\n"
               "FROM runs\nWHERE state = 'done'\n  AND run_key IN (SELECT r.run_key FROM sweep_cell c JOIN run r USING(run_id) WHERE c.sweep_id = %s)\n"
               "GROUP BY task, encoder, runs.arm\nORDER BY task, ms_per_step", r->study->id);
    int rc = fetched(r, str_text(&sql), "Trained parameters, and time with evaluations", "", "No run is done yet.");
    str_free(&sql);
    str_add(r->out, "</section>\n");
    return rc;
}

static int never_trained(struct report *r)
{
    struct str sql = { 0 };
    str_add(r->out, "<section aria-labelledby=\"never\"><h2 id=\"never\">What never was trained</h2>\n"
            "<p>Rows of an encoder's parameter that no gradient reached, such as positions past the training length: "
            "at longer lengths they are used as they were drawn.</p>\n");
    str_printf(&sql, "SELECT r.encoder, r.task, u.parameter, u.first_row, u.first_row + u.rows - 1 AS last_row, u.of_rows, count(*) AS runs\n"
               "FROM sweep_cell c JOIN run r USING(run_id) JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'\n"
               "JOIN untrained u USING(attempt_id)\nWHERE c.sweep_id = %s\n"
               "GROUP BY r.encoder, r.task, u.parameter, u.first_row, u.rows, u.of_rows\nORDER BY 1, 2, 3, 4", r->study->id);
    int rc = fetched(r, str_text(&sql), "Rows without a gradient", "", "Every row of every parameter was trained.");
    str_free(&sql);
    str_add(r->out, "</section>\n");
    return rc;
}

static int environment(struct report *r)
{
    struct str sql = { 0 };
    str_add(r->out, "<section aria-labelledby=\"env\"><h2 id=\"env\">Environment</h2>\n");
    str_printf(&sql, "SELECT j.key AS what, j.value, count(*) AS runs\n"
               "FROM sweep_cell c JOIN attempt a ON a.run_id = c.run_id AND a.status = 'done'\n"
               "JOIN env v USING(env_id), json_each(v.json) j\nWHERE c.sweep_id = %s\nGROUP BY j.key, j.value\nORDER BY j.key, runs DESC, j.value", r->study->id);
    int rc = fetched(r, str_text(&sql), "With what the runs were made; more than one line for a thing: it was not the same for all", "wrap",
                     "No run is done yet.");
    str_free(&sql);
    str_add(r->out, "</section>\n");
    return rc;
}

static const char how_to_read[] =
    "<section aria-labelledby=\"read\"><h2 id=\"read\">How to read this</h2>\n<dl>\n"
    "<dt>Equal seeds</dt><dd>Runs with equal seeds had equal data and equal initial shared weights, so they are compared pair by pair.</dd>\n"
    "<dt>95 % t interval</dt><dd>Of a mean over seeds. It covers the true mean in 95 % of experiments if seeds scatter like a bell; "
    "where a run is either solved or not, in about 74 % with three seeds.</dd>\n"
    "<dt>p, p (Holm)</dt><dd>The share of all choices of signs of the paired differences that give at least as large a sum, two-sided; "
    "adjusted for the number of comparisons in this report.</dd>\n"
    "<dt>P(better)</dt><dd>How often a run of this encoder, drawn at random, beats one of the baseline.</dd>\n"
    "<dt>solved, L50, seen, nan, r</dt><dd>Runs with at least 95 % of the tokens right; the longest length with half of them right, "
    "median over seeds; mean at the lengths of training; runs in which a number was not finite; correlation of the pairs.</dd>\n"
    "<dt>Order-blind ceiling</dt><dd>The best accuracy that a model without positions can reach: it knows which tokens there are, "
    "not where. Chance is lower.</dd>\n</dl></section>\n";

/* ---- the page ---- */

static void head(struct report *r)
{
    str_add(r->out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>");
    html(r, r->study->name);
    str_add(r->out, "</title>\n<style>\n");
    str_add(r->out, CSS_REPORT);
    str_add(r->out, "</style>\n</head>\n<body>\n<header><h1>");
    html(r, r->study->name);
    str_add(r->out, "</h1>\n<p class=\"question\">");
    html(r, r->study->question);
    str_add(r->out, "</p></header>\n<main>\n");
}

static void experiment(struct report *r)
{
    str_add(r->out, "<section aria-labelledby=\"ini\"><h2 id=\"ini\">The experiment file</h2>\n<pre>");
    exact(r, r->study->ini_text);
    str_add(r->out, "</pre></section>\n");
}

static int body(struct report *r)
{
    head(r);
    if (answer(r) != 0) return -1;
    completeness(r);
    for (int i = 0; i < r->compare.n_panel; i++) if (write_panel(r, &r->compare.panel[i], i) != 0) return -1;
    if (over_tasks(r) != 0 || ranges(r) != 0 || cost(r) != 0 || never_trained(r) != 0) return -1;
    str_add(r->out, how_to_read);
    experiment(r);
    if (environment(r) != 0) return -1;
    str_add(r->out, "</main>\n<footer>Written by lab from its results database; the same database gives the same page.</footer>\n</body>\n</html>\n");
    return 0;
}

int report_write(struct study *study, const char *baseline, struct str *out)
{
    const struct compare_options options = { .baseline = baseline, .allow_mixed = 1 };       /* mixed pairs are shown, and said */
    struct report r = { .study = study, .out = out };
    int rc = compare_build(&r.compare, study, &options);
    if (rc == 0) rc = body(&r);
    if (rc == 0 && out->failed) rc = lab_fail(study->err, "out of memory while writing the report");
    compare_release(&r.compare);
    return rc;
}
