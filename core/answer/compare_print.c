/* compare_print -- a comparison as tables of at most 100 columns, and as JSON with every digit. */
#include "answer/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/table.h"
#include "base/mem.h"

enum { NAME = 20,                    /* columns of an arm's name, so that the widest table fits into 100 */
       FEW = 5 };                    /* seeds below which the reader is warned */

/* ---- words and numbers ---- */

void compare_p(double p, char text[16])
{
    if (isnan(p)) { strcpy(text, "-"); return; }
    snprintf(text, 16, p < 0.00005 ? "%.0e" : "%.4f", p);
    size_t n = strlen(text);
    if (p >= 0.00005 && text[n - 1] == '0') text[n - 1] = '\0';          /* 0.250, but 0.0625 */
}

void compare_lengths(const struct compare_panel *p, struct str *out)
{
    str_add(out, p->n_length == 1 ? "length" : "mean over lengths");
    for (int i = 0; i < p->n_length; i++) {
        if (i == 6 && p->n_length > 8) i = p->n_length - 1, str_add(out, " ...");
        str_printf(out, "%s%lld", i ? ", " : " ", (long long)p->length[i]);
    }
}

/* The arm's name in NAME columns: first the axes lose their sections (model.heads=4: heads=4), then their beginning. */
static void add_name(const struct study *s, struct table *t, int arm, int whole)
{
    struct str name = { 0 }, text = { 0 };
    study_arm_name(s, arm, &name);
    const char *label = strchr(str_text(&name), ' ');
    if (whole || name.len <= NAME || !label) {
        str_printf(&text, "%.*s", whole ? (int)name.len : NAME, str_text(&name));
    } else {
        size_t encoder = (size_t)(label - name.text) < NAME / 2 ? (size_t)(label - name.text) : NAME / 2;
        struct str brief = { 0 };
        for (const char *at = label + 1; *at; ) {
            size_t n = strcspn(at, ","), key = strcspn(at, "=");
            const char *dot = key < n ? memrchr(at, '.', key) : NULL;
            size_t cut = dot ? (size_t)(dot + 1 - at) : 0;
            str_addn(&brief, at + cut, n - cut + (at[n] == ','));
            at += n + (at[n] == ',');
        }
        size_t room = NAME - encoder - 1;
        const char *tail = str_text(&brief);
        if (brief.len > room) tail += brief.len - (room - 1);
        str_printf(&text, "%.*s %s%s", (int)encoder, name.text, brief.len > room ? "~" : "", tail);
        str_free(&brief);
    }
    table_add(t, str_text(&text));
    t->failed |= name.failed | text.failed;
    str_free(&name), str_free(&text);
}

static void add_real(struct table *t, const char *format, double value)
{
    char text[48];
    snprintf(text, sizeof text, format, value);
    table_number(t, isnan(value) ? "-" : text);
}

/* "[0.603, 0.873]"; equal values have no interval that means anything. */
static void add_interval(struct table *t, int n, double centre, double half_width, int sign)
{
    char text[64];
    if (n > 1 && half_width == 0) snprintf(text, sizeof text, "all equal");
    else if (isnan(half_width)) snprintf(text, sizeof text, "-");
    else snprintf(text, sizeof text, sign ? "[%+.3f, %+.3f]" : "[%.3f, %.3f]", centre - half_width, centre + half_width);
    table_number(t, text);
}

static void add_count(struct table *t, int n, int of)
{
    char text[32];
    snprintf(text, sizeof text, n == of ? "%d" : "%d/%d", n, of);
    table_number(t, text);
}

static void add_header(struct table *t, const char *const *name, int n)
{
    table_init(t, n);
    for (int i = 0; i < n; i++) table_add(t, name[i]);
}

static void write_table(struct table *t, struct str *out)
{
    table_write(t, TABLE_TEXT, out);
    table_free(t);
}

/* ---- one task ---- */

void compare_cells(const struct compare *c, const struct compare_panel *p, int whole, struct table *t)
{
    static const char *const header[] = { "encoder", "seeds", "mean", "95 % t interval", "min", "max", "solved", "failed", "nan",
                                          "L50", "seen" };
    const struct study *s = c->study;
    add_header(t, header, 11);
    for (int arm = 0; arm < (int)s->n_arm; arm++) {
        const struct compare_cell *cell = &c->cell[arm];
        char text[32];
        if (s->arm[arm].panel != p->panel) continue;
        add_name(s, t, arm, whole);
        add_count(t, cell->n, s->arm[arm].planned);
        add_real(t, "%.3f", cell->mean);
        add_interval(t, cell->n, cell->mean, cell->half_width, 0);
        add_real(t, "%.3f", cell->min);
        add_real(t, "%.3f", cell->max);
        snprintf(text, sizeof text, "%d/%d", cell->solved, cell->n);
        table_number(t, c->lower ? "-" : text);
        add_real(t, "%.0f", cell->failed);
        add_real(t, "%.0f", cell->diverged);
        add_real(t, "%g", cell->l50);
        add_real(t, "%.3f", cell->seen);
    }
}

int compare_pairs(const struct compare *c, const struct compare_panel *p, int whole, struct table *t)
{
    static const char *const header[] = { "difference of", "pairs", "mean", "95 % t interval", "r", "better", "p", "p (Holm)",
                                          "P(better)" };
    int some = 0;
    add_header(t, header, 9);
    for (int i = 0; i < c->n_pair; i++) {
        const struct compare_pair *pair = &c->pair[i];
        char text[32];
        if (c->study->arm[pair->arm].panel != p->panel) continue;
        some = 1;
        add_name(c->study, t, pair->arm, whole);
        add_count(t, pair->n, pair->n + pair->dropped);
        add_real(t, "%+.3f", pair->difference);
        add_interval(t, pair->n, pair->difference, pair->half_width, 1);
        add_real(t, "%.2f", pair->r);
        snprintf(text, sizeof text, "%g/%d", pair->better * pair->n, pair->n);
        table_number(t, pair->n ? text : "-");
        compare_p(pair->p, text), table_number(t, text);
        compare_p(pair->p_holm, text), table_number(t, text);
        add_real(t, "%.2f", pair->improvement);
    }
    return some;
}

static void write_panel(const struct compare *c, const struct compare_panel *p, struct str *out)
{
    const struct study *s = c->study;
    int run = s->panel[p->panel].run;
    str_add(out, "\n"), table_show(out, study_text(s, run, STUDY_TASK));
    str_printf(out, ", trained at length %s: ", study_text(s, run, STUDY_TRAIN));
    if (p->n_length == 0) {
        str_printf(out, "no run was evaluated at such a length\n");
    } else {
        str_printf(out, "%s, ", compare_metric_name(c));
        compare_lengths(p, out);
        str_add(out, p->all ? " (none is past training)\n" : "\n");
    }
    struct table t;
    compare_cells(c, p, 0, &t);
    write_table(&t, out);
    int pairs = compare_pairs(c, p, 0, &t);
    if (pairs) str_add(out, "\nagainst "), table_show(out, c->options.baseline), str_add(out, ", seed by seed\n");
    if (pairs) write_table(&t, out);
    else table_free(&t);
}

/* ---- over tasks ---- */

void compare_rows(const struct compare *c, const struct compare_group *g, int whole, struct table *t)
{
    static const char *const header[] = { "encoder", "rank", "MRR", "IQM", "95 % bootstrap", "difference", "p", "p (Holm)", "P(better)" };
    add_header(t, header, 9);
    for (int i = 0; i < g->n_row; i++) {
        const struct compare_row *row = &g->row[i];
        char text[48];
        add_name(c->study, t, row->arm, whole);
        add_real(t, "%.2f", row->rank);
        add_real(t, "%.3f", row->mrr);
        add_real(t, "%.3f", row->iqm.value);
        snprintf(text, sizeof text, "[%.3f, %.3f]", row->iqm.lo, row->iqm.hi);
        table_number(t, isnan(row->iqm.lo) ? "-" : text);
        add_real(t, "%+.3f", row->difference);
        compare_p(row->p, text), table_number(t, text);
        compare_p(row->p_holm, text), table_number(t, text);
        add_real(t, "%.2f", row->improvement);
    }
}

static void write_group(const struct compare *c, const struct compare_group *g, struct str *out)
{
    const struct study *s = c->study;
    char p[16];
    str_printf(out, "\nover %d tasks, trained at length %s, against ", g->tasks,
               study_text(s, s->panel[c->panel[g->first].panel].run, STUDY_TRAIN));
    table_show(out, c->options.baseline), str_add(out, "; rank: mean, 1 is best\n");
    struct table t;
    compare_rows(c, g, 0, &t);
    write_table(&t, out);
    if (!isnan(g->critical)) str_printf(out, "mean ranks nearer than CD = %.2f do not differ at 0.05 (Nemenyi)\n", g->critical);
    if (!isnan(g->friedman.p)) {
        compare_p(g->friedman.p, p);
        str_printf(out, "Friedman: chi2 = %.2f, ", g->friedman.chi2);
        if (isinf(g->friedman.f)) str_add(out, "all tasks rank alike");
        else str_printf(out, "F(%d, %d) = %.2f, p = %s", g->n_row - 1, (g->n_row - 1) * (g->tasks - 1), g->friedman.f, p);
        str_add(out, g->tasks <= 10 ? "; a rough guide below ten tasks\n" : "\n");
    }
    if (g->dropped) str_printf(out, "%d arms are not in every task and not in this table\n", g->dropped);
}

/* ---- what has to be said ---- */

static int fewest_pairs(const struct compare *c)
{
    int n = INT32_MAX;
    for (int i = 0; i < c->n_pair; i++) if (c->pair[i].n > 0 && c->pair[i].n < n) n = c->pair[i].n;
    return n;
}

static void write_drawn(const struct compare *c, struct str *out)
{
    int drawn = 0;
    for (int i = 0; i < c->n_pair; i++) drawn |= c->pair[i].n > STATS_EXACT;
    for (int i = 0; i < c->n_group; i++) drawn |= c->group[i].tasks * fewest_pairs(c) > STATS_EXACT;
    str_add(out, "p: exact sign flips of the pairs, two-sided");
    if (drawn) str_printf(out, "; beyond %d pairs %d draws with seed %d", STATS_EXACT, STATS_FLIPS, STATS_SEED);
    str_printf(out, "; Holm over %d comparison%s\n", c->n_pair, c->n_pair == 1 ? "" : "s");
    if (c->n_group) str_printf(out, "MRR: mean of 1 over the rank; IQM: mean of the middle half of the runs, its interval from\n"
                               "  %d resamples of seeds within tasks, seed %d; over tasks, p speaks of these tasks alone\n", STATS_RESAMPLES, STATS_SEED);
}

static void write_mixed(const struct compare *c, struct str *out)
{
    static const char *const what[] = { "evaluation data", "training budget", "code" };
    const int n[] = { c->mixed_data, c->mixed_budget, c->mixed_code };
    for (int i = 0; i < 3; i++)
        if (n[i]) str_printf(out, "mixed: %d pair%s differ in %s, so their difference is not the encoder's alone\n", n[i],
                             n[i] == 1 ? "" : "s", what[i]);
    if (c->mixed_machine)
        str_printf(out, "%d pair%s computed on two kinds of machine, which round otherwise:\n  %.90s\n  %.90s\n", c->mixed_machine,
                   c->mixed_machine == 1 ? " was" : "s were", study_text(c->study, c->machine_run, STUDY_MACHINE),
                   study_text(c->study, c->machine_base, STUDY_MACHINE));
}

static void write_notes(const struct compare *c, struct str *out)
{
    int few = fewest_pairs(c), dropped = 0;
    char p[16], next[16];
    for (int i = 0; i < c->n_pair; i++) dropped += c->pair[i].dropped;
    str_add(out, "\n");
    if (c->n_pair && few < INT32_MAX) {
        if (few < FEW) str_printf(out, "few seeds: with %d, intervals are wide and a test can hardly succeed; take %d or more\n", few, FEW);
        compare_p(stats_smallest_p(few), p);
        int enough = stats_pairs_for(0.05);
        compare_p(stats_smallest_p(enough), next);
        str_printf(out, "with %d pair%s p cannot be below %s", few, few == 1 ? "" : "s", p);
        if (few < enough) str_printf(out, "; %d would allow %s", enough, next);
        str_add(out, "\n");
        write_drawn(c, out);
    }
    if (dropped) str_printf(out, "%d seed%s had no partner and stand%s in no pair\n", dropped, dropped == 1 ? "" : "s", dropped == 1 ? "s" : "");
    write_mixed(c, out);
    str_printf(out, "solved: %s from %g on; seen: mean at the lengths of training; L50: longest length with\n"
               "  half of the tokens right, median over seeds; nan: runs in which a number was not finite;\n"
               "  r: correlation of the pairs; P(better): of two runs at random, the baseline's is the worse\n",
               c->lower ? "token accuracy" : compare_metric_name(c), STUDY_SOLVED);
}

void compare_write(const struct compare *c, struct str *out)
{
    const struct study *s = c->study;
    table_show(out, s->name), str_add(out, *s->question ? ": " : "");
    table_show(out, s->question), str_add(out, "\n");
    for (int i = 0; i < c->n_panel; i++) write_panel(c, &c->panel[i], out);
    for (int i = 0; i < c->n_group; i++) write_group(c, &c->group[i], out);
    write_notes(c, out);
    study_write_failures(s, out);
}

/* ---- JSON ---- */

static void json_real(struct table *t, double value)
{
    struct str text = { 0 };
    if (isfinite(value)) str_real(&text, value);
    table_number(t, isfinite(value) ? str_text(&text) : NULL);
    t->failed |= text.failed;
    str_free(&text);
}

static void json_panel(const struct compare *c, struct table *t, const struct compare_panel *p, int arm)
{
    const struct study *s = c->study;
    int run = s->arm[arm].run;
    struct str lengths = { 0 };
    for (int i = 0; p && i < p->n_length; i++) str_printf(&lengths, "%s%lld", i ? "," : "", (long long)p->length[i]);
    table_add(t, study_text(s, run, STUDY_TASK));
    table_add(t, study_text(s, run, STUDY_TRAIN));
    table_add(t, str_text(&lengths));
    table_add(t, study_text(s, run, STUDY_ENCODER));
    table_add(t, study_text(s, run, STUDY_LABEL));
    t->failed |= lengths.failed;
    str_free(&lengths);
}

static const struct compare_panel *panel_of(const struct compare *c, int arm)
{
    for (int i = 0; i < c->n_panel; i++) if (c->panel[i].panel == c->study->arm[arm].panel) return &c->panel[i];
    return NULL;
}

static void json_table(struct table *t, const char *name, struct str *out)
{
    str_printf(out, ",\n\"%s\": ", name);
    table_write(t, TABLE_JSON, out);
    table_free(t);
}

static void json_cells(const struct compare *c, struct str *out)
{
    static const char *const header[] = { "task", "train_length", "lengths", "encoder", "label", "seeds", "seeds_planned", "failed", "diverged",
        "mean", "half_width", "min", "max", "solved", "length_half_right", "mean_in_training" };
    struct table t;
    add_header(&t, header, sizeof header / sizeof *header);
    for (int arm = 0; arm < (int)c->study->n_arm; arm++) {
        const struct compare_cell *x = &c->cell[arm];
        const struct compare_panel *panel = panel_of(c, arm);
        if (!panel) continue;
        json_panel(c, &t, panel, arm);
        const double value[] = { x->n, c->study->arm[arm].planned, x->failed, x->diverged, x->mean, x->half_width, x->min, x->max,
                                 c->lower ? NAN : x->solved, x->l50, x->seen };
        for (size_t i = 0; i < sizeof value / sizeof *value; i++) json_real(&t, value[i]);
    }
    json_table(&t, "cells", out);
}

static void json_pairs(const struct compare *c, struct str *out)
{
    static const char *const header[] = { "task", "train_length", "lengths", "encoder", "label", "baseline", "baseline_label", "pairs",
        "seeds_dropped", "difference", "half_width", "correlation", "better", "p", "p_holm", "p_smallest", "improvement" };
    struct table t;
    add_header(&t, header, sizeof header / sizeof *header);
    for (int i = 0; i < c->n_pair; i++) {
        const struct compare_pair *x = &c->pair[i];
        int base = c->study->arm[x->base].run;
        json_panel(c, &t, panel_of(c, x->arm), x->arm);
        table_add(&t, study_text(c->study, base, STUDY_ENCODER));
        table_add(&t, study_text(c->study, base, STUDY_LABEL));
        const double value[] = { x->n, x->dropped, x->difference, x->half_width, x->r, x->better, x->p, x->p_holm, stats_smallest_p(x->n),
                                 x->improvement };
        for (size_t k = 0; k < sizeof value / sizeof *value; k++) json_real(&t, value[k]);
    }
    json_table(&t, "pairs", out);
}

static void json_groups(const struct compare *c, struct str *out)
{
    static const char *const header[] = { "tasks", "train_length", "encoder", "label", "mean_rank", "mrr", "iqm", "iqm_low", "iqm_high",
        "difference", "p", "p_holm", "improvement", "critical_difference", "friedman_chi2", "friedman_f", "friedman_p" };
    struct table t;
    add_header(&t, header, sizeof header / sizeof *header);
    for (int i = 0; i < c->n_group; i++)
        for (int row = 0; row < c->group[i].n_row; row++) {
            const struct compare_group *g = &c->group[i];
            const struct compare_row *x = &g->row[row];
            int run = c->study->arm[x->arm].run;
            json_real(&t, g->tasks);
            table_add(&t, study_text(c->study, run, STUDY_TRAIN));
            table_add(&t, study_text(c->study, run, STUDY_ENCODER));
            table_add(&t, study_text(c->study, run, STUDY_LABEL));
            const double value[] = { x->rank, x->mrr, x->iqm.value, x->iqm.lo, x->iqm.hi, x->difference, x->p, x->p_holm, x->improvement,
                                     g->critical, g->friedman.chi2, g->friedman.f, g->friedman.p };
            for (size_t k = 0; k < sizeof value / sizeof *value; k++) json_real(&t, value[k]);
        }
    json_table(&t, "over_tasks", out);
}

void compare_json(const struct compare *c, struct str *out)
{
    str_add(out, "{\"experiment\": ");
    str_json(out, c->study->name);
    str_printf(out, ", \"metric\": \"%s\", \"baseline\": ", compare_metrics[c->metric]);
    str_json(out, c->options.baseline);
    str_printf(out, ", \"random_seed\": %d, \"pairs_of_other_data\": %d, \"pairs_of_other_budget\": %d, \"pairs_of_other_code\": %d,"
               " \"pairs_of_other_machine\": %d", STATS_SEED, c->mixed_data, c->mixed_budget, c->mixed_code, c->mixed_machine);
    json_cells(c, out);
    json_pairs(c, out);
    json_groups(c, out);
    str_add(out, "}\n");
}
