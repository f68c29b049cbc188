/* compare -- see compare.h. What is printed is in compare_print.c. */
#include "answer/compare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

enum { TOKEN, SEQUENCE, LOSS };
const char *const compare_metrics[] = { "token_accuracy", "sequence_accuracy", "loss", NULL };
static const char *const in_words[] = { "token accuracy", "whole sequences right", "loss (nat/token)" };

const char *compare_metric_name(const struct compare *c) { return in_words[c->metric]; }

static double value_of(const struct compare *c, const struct study_point *p)
{
    return c->metric == TOKEN ? p->token : c->metric == SEQUENCE ? p->sequence : p->loss;
}

/* ---- what was asked ---- */

/* One item of --length: "8", "8..16", ">8", ">=8", "<8", "<=8". */
static int parse_item(const char *item, int64_t *lo, int64_t *hi)
{
    char number[32];
    const char *dots = strstr(item, "..");
    *lo = 1, *hi = INT32_MAX;
    if (*item == '>' || *item == '<') {
        int64_t n, equal = item[1] == '=';
        if (!str_to_int(item + 1 + equal, 1, INT32_MAX, &n)) return 0;
        if (*item == '>') *lo = n + !equal;
        else *hi = n - !equal;
        return 1;
    }
    if (!dots) return str_to_int(item, 1, INT32_MAX, lo) && ((*hi = *lo), 1);
    if ((size_t)(dots - item) >= sizeof number) return 0;
    memcpy(number, item, (size_t)(dots - item));
    number[dots - item] = '\0';
    return str_to_int(number, 1, INT32_MAX, lo) && str_to_int(dots + 2, 1, INT32_MAX, hi) && *lo <= *hi;
}

/* Is the length one of the list's?  -1: the list is not one. */
static int listed(const char *list, int64_t length)
{
    int found = 0;
    for (const char *at = list; ; at++) {
        char item[32];
        int64_t lo, hi;
        at += strspn(at, " ");
        size_t n = strcspn(at, ",");
        if (n >= sizeof item) return -1;
        memcpy(item, at, n);
        while (n > 0 && item[n - 1] == ' ') n--;
        item[n] = '\0';
        if (!parse_item(item, &lo, &hi)) return -1;
        found |= length >= lo && length <= hi;
        at += strcspn(at, ",");
        if (!*at) return found;
    }
}

static int read_options(struct compare *c)
{
    const struct compare_options *o = &c->options;
    if (o->lengths && listed(o->lengths, 1) < 0) {
        lab_fail(c->err, "--length '%s' is no choice of lengths; write '>8', '>=12', '12..32' or '12,16'", o->lengths);
        return COMPARE_REFUSED;
    }
    for (c->metric = 0; o->metric && strcmp(o->metric, compare_metrics[c->metric]); )
        if (!compare_metrics[++c->metric]) {
            const char *near = str_nearest(o->metric, compare_metrics);
            lab_fail(c->err, "unknown metric '%s'%s%s%s; known: token_accuracy, sequence_accuracy, loss", o->metric,
                     near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
            return COMPARE_REFUSED;
        }
    c->lower = c->metric == LOSS;
    return 0;
}

/* ---- runs: their place and their values ---- */

static const struct study *sorting;  /* qsort passes nothing along */
static int by_arm_and_seed(const void *a, const void *b)
{
    const struct study_run *x = &sorting->run[*(const int *)a], *y = &sorting->run[*(const int *)b];
    if (x->arm != y->arm) return x->arm < y->arm ? -1 : 1;
    return (x->seed > y->seed) - (x->seed < y->seed);
}

static int allocate(struct compare *c)
{
    const struct study *s = c->study;
    size_t runs = s->n_run, arms = s->n_arm;
    c->order = mem_alloc(runs * sizeof *c->order, c->err);
    c->arm_start = mem_alloc((arms + 1) * sizeof *c->arm_start, c->err);
    c->score = mem_alloc(runs * sizeof *c->score, c->err);
    c->seen = mem_alloc(runs * sizeof *c->seen, c->err);
    c->l50 = mem_alloc(runs * sizeof *c->l50, c->err);
    c->data = mem_alloc(runs * sizeof *c->data, c->err);
    c->cell = mem_alloc(arms * sizeof *c->cell, c->err);
    c->pair = mem_alloc(arms * sizeof *c->pair, c->err);
    c->panel = mem_alloc(s->n_panel * sizeof *c->panel, c->err);
    c->group = mem_alloc(s->n_panel * sizeof *c->group, c->err);
    c->work = mem_alloc(4 * runs * sizeof *c->work, c->err);
    if (!c->order || !c->arm_start || !c->score || !c->seen || !c->l50 || !c->data || !c->cell || !c->pair || !c->panel ||
        !c->group || !c->work) return -1;
    for (size_t i = 0; i < runs; i++) c->order[i] = (int)i, c->score[i] = c->seen[i] = c->l50[i] = NAN;
    sorting = s;
    qsort(c->order, runs, sizeof *c->order, by_arm_and_seed);
    for (size_t i = 0; i < runs; i++) c->arm_start[s->run[c->order[i]].arm + 1]++;
    for (size_t arm = 0; arm < arms; arm++) c->arm_start[arm + 1] += c->arm_start[arm];
    return 0;
}

/* The lengths of a panel that count: those asked for, or those past training, or all if none is. */
static int choose_lengths(struct compare *c, struct compare_panel *p)
{
    int n;
    if (!(p->length = study_lengths(c->study, p->panel, &n))) return -1;
    int64_t trained = study_longest(c->study, p->panel);
    for (int i = 0; i < n; i++) {
        int64_t length = p->length[i];
        if (c->options.lengths ? listed(c->options.lengths, length) : length > trained) p->length[p->n_length++] = length;
    }
    if (p->n_length == 0 && n > 0 && !c->options.lengths) p->n_length = n, p->all = 1;
    return 0;
}

static int chosen(const struct compare_panel *p, int64_t length)
{
    for (int i = 0; i < p->n_length; i++) if (p->length[i] == length) return 1;
    return 0;
}

/* Mean over the chosen lengths, but only of runs that have them all: another set of lengths is another question. */
static void score_panel(struct compare *c, const struct compare_panel *panel)
{
    const struct study *s = c->study;
    double *sum = c->work, *seen_sum = sum + s->n_run, *n = seen_sum + s->n_run, *n_seen = n + s->n_run;
    memset(sum, 0, 4 * s->n_run * sizeof *sum);
    for (size_t i = 0; i < s->n_point; i++) {
        const struct study_point *p = &s->point[i];
        if (p->panel != panel->panel) continue;
        if (isnan(c->l50[p->run])) c->l50[p->run] = 0;
        if (p->token >= 0.5) c->l50[p->run] = fmax(c->l50[p->run], (double)p->length);
        if (study_seen(s, p->panel, p->length)) seen_sum[p->run] += value_of(c, p), n_seen[p->run]++;
        if (!chosen(panel, p->length)) continue;
        sum[p->run] += value_of(c, p), n[p->run]++;
        c->data[p->run] = (c->data[p->run] ^ (uint64_t)(p->data + 1)) * 1099511628211u;      /* FNV-1a over the lengths */
    }
    for (size_t i = 0; i < s->n_run; i++) {
        if (n[i] > 0 && (int)n[i] == panel->n_length) c->score[i] = sum[i] / n[i];
        if (n_seen[i] > 0) c->seen[i] = seen_sum[i] / n_seen[i];
    }
}

static void fill_cell(struct compare *c, int arm)
{
    const struct study *s = c->study;
    struct compare_cell *cell = &c->cell[arm];
    double *value = c->work, *seen = value + s->n_run, *l50 = seen + s->n_run;
    int n_seen = 0, n_l50 = 0;
    *cell = (struct compare_cell){ .min = INFINITY, .max = -INFINITY };
    for (int i = c->arm_start[arm]; i < c->arm_start[arm + 1]; i++) {
        int run = c->order[i];
        cell->failed += study_is_failure(&s->run[run]);
        cell->diverged += s->run[run].diverged;
        if (!isnan(c->seen[run])) seen[n_seen++] = c->seen[run];
        if (!isnan(c->l50[run])) l50[n_l50++] = c->l50[run];
        if (isnan(c->score[run])) continue;
        value[cell->n++] = c->score[run];
        cell->solved += !c->lower && c->score[run] >= STUDY_SOLVED;
        cell->min = fmin(cell->min, c->score[run]), cell->max = fmax(cell->max, c->score[run]);
    }
    cell->mean = stats_mean(value, cell->n);
    cell->half_width = stats_half_width(value, cell->n);
    cell->seen = stats_mean(seen, n_seen);
    cell->l50 = stats_median(l50, n_l50);
    if (cell->n == 0) cell->min = cell->max = NAN;
}

static int known_task(const struct compare *c)
{
    struct str names = { 0 };
    const struct study *s = c->study;
    const char *task = c->options.task;
    for (size_t i = 0; i < s->n_panel; i++) {
        const char *name = study_text(s, s->panel[i].run, STUDY_TASK);
        if (!task || !strcmp(task, name)) { str_free(&names); return 1; }
        str_printf(&names, "%s%s", i ? ", " : "", name);
    }
    lab_fail(c->err, "no task '%s' in this experiment; there are: %s", task, str_text(&names));
    str_free(&names);
    return 0;
}

static int score(struct compare *c)
{
    const struct study *s = c->study;
    int lengths = 0;
    if (!known_task(c)) return COMPARE_REFUSED;
    for (size_t i = 0; i < s->n_panel; i++) {
        if (c->options.task && strcmp(c->options.task, study_text(s, s->panel[i].run, STUDY_TASK))) continue;
        struct compare_panel *p = &c->panel[c->n_panel++];
        p->panel = (int)i;
        if (choose_lengths(c, p) != 0) return -1;
        score_panel(c, p);
        lengths += p->n_length;
    }
    for (int arm = 0; arm < (int)s->n_arm; arm++) fill_cell(c, arm);
    if (c->options.lengths && lengths == 0 && s->n_point > 0) {
        lab_fail(c->err, "nothing was evaluated at length '%s'; `lab results` shows the lengths", c->options.lengths);
        return COMPARE_REFUSED;
    }
    return 0;
}

/* ---- pairs ---- */

static int in_panels(const struct compare *c, int panel)
{
    for (int i = 0; i < c->n_panel; i++) if (c->panel[i].panel == panel) return 1;
    return 0;
}

/* "rope", or "rope model.heads=4" where the other axes matter. */
static int is_baseline(const struct compare *c, int arm)
{
    const struct study *s = c->study;
    const char *name = c->options.baseline, *encoder = study_text(s, s->arm[arm].run, STUDY_ENCODER);
    size_t n = strlen(encoder);
    if (!strcmp(name, encoder)) return 1;
    return !strncmp(name, encoder, n) && name[n] == ' ' && !strcmp(name + n + 1, study_text(s, s->arm[arm].run, STUDY_LABEL));
}

static int known_baseline(struct compare *c)
{
    const struct study *s = c->study;
    struct str names = { 0 };
    const char *last = "";
    if (!c->options.baseline) c->options.baseline = s->n_arm ? study_text(s, s->arm[0].run, STUDY_ENCODER) : "";
    for (size_t arm = 0; arm < s->n_arm; arm++) {
        if (!in_panels(c, s->arm[arm].panel)) continue;
        if (is_baseline(c, (int)arm)) { str_free(&names); return 1; }
        const char *encoder = study_text(s, s->arm[arm].run, STUDY_ENCODER);
        if (names.len < 200 && strcmp(encoder, last) && !strstr(str_text(&names), encoder))
            str_printf(&names, "%s%s", names.len ? ", " : "", encoder);
        last = encoder;
    }
    lab_fail(c->err, "no encoder '%s' in this experiment; there are: %s", c->options.baseline, str_text(&names));
    str_free(&names);
    return 0;
}

/* The baseline of an arm: with equal settings, or, if mixing is allowed, any of its panel.  -1: refused. */
static int baseline_of(const struct compare *c, int arm, int *base)
{
    const struct study *s = c->study;
    int equal = 0, any = 0, first = -1;
    *base = -1;
    for (int i = 0; i < (int)s->n_arm; i++) {
        if (s->arm[i].panel != s->arm[arm].panel || !is_baseline(c, i)) continue;
        if (!any++) first = i;
        if (strcmp(study_text(s, s->arm[i].run, STUDY_VARIANT), study_text(s, s->arm[arm].run, STUDY_VARIANT))) continue;
        if (!equal++) *base = i;
    }
    if (*base < 0 && c->options.allow_mixed && any == 1) *base = first, equal = 1;
    if (equal == 1) return 0;
    struct str name = { 0 }, other = { 0 };
    study_arm_name(s, arm, &name);
    if (first >= 0) study_arm_name(s, first, &other);
    if (equal > 1 || any > 1)
        lab_fail(c->err, "%s could be compared with several arms of %s; name one whole: --baseline '%s'", str_text(&name),
                 c->options.baseline, str_text(&other));
    else if (any)
        lab_fail(c->err, "%s (%s) and %s (%s) differ in more than the encoder; --allow-mixed compares them all the same",
                 str_text(&name), study_text(s, s->arm[arm].run, STUDY_BUDGET), str_text(&other),
                 study_text(s, s->arm[first].run, STUDY_BUDGET));
    else
        lab_fail(c->err, "%s has no %s to be compared with; choose a task with --task", study_text(s, s->arm[arm].run, STUDY_TASK),
                 c->options.baseline);
    str_free(&name), str_free(&other);
    return -1;
}

/* The first of the fields, separated by ", ", in which two descriptions of code differ. */
static void different_field(const char *a, const char *b, int *n_a, int *n_b, const char **at_a, const char **at_b)
{
    for (;;) {
        *n_a = (int)strcspn(a, ","), *n_b = (int)strcspn(b, ",");
        *at_a = a, *at_b = b;
        if (*n_a != *n_b || strncmp(a, b, (size_t)*n_a) || !a[*n_a] || !b[*n_b]) return;
        a += *n_a + 2, b += *n_b + 2;
    }
}

/* Two runs whose difference would not be the encoder's alone. */
static int check_alike(struct compare *c, int run, int base)
{
    const struct study *s = c->study;
    const char *code = study_text(s, run, STUDY_CODE), *base_code = study_text(s, base, STUDY_CODE), *a, *b;
    int data = c->data[run] != c->data[base], differ = strcmp(code, base_code) != 0, n_a, n_b;
    c->mixed_data += data, c->mixed_code += differ;
    if (strcmp(study_text(s, run, STUDY_MACHINE), study_text(s, base, STUDY_MACHINE)) && !c->mixed_machine++)
        c->machine_run = run, c->machine_base = base;
    c->mixed_budget += strcmp(study_text(s, run, STUDY_BUDGET), study_text(s, base, STUDY_BUDGET)) != 0;
    if ((!data && !differ) || c->options.allow_mixed) return 0;
    struct str name = { 0 }, other = { 0 };
    study_arm_name(s, s->run[run].arm, &name);
    study_arm_name(s, s->run[base].arm, &other);
    if (data)
        lab_fail(c->err, "%s: %s and %s were evaluated on different data at seed %lld; run the experiment again, so that both are "
                 "evaluated alike, or compare with --allow-mixed", study_text(s, run, STUDY_TASK), str_text(&name), str_text(&other),
                 (long long)s->run[run].seed);
    else {
        different_field(code, base_code, &n_a, &n_b, &a, &b);
        lab_fail(c->err, "%s: at seed %lld %s was run by other code than %s ('%.*s', '%.*s'); --allow-mixed compares them all the same",
                 study_text(s, run, STUDY_TASK), (long long)s->run[run].seed, str_text(&name), str_text(&other), n_a, a, n_b, b);
    }
    str_free(&name), str_free(&other);
    return COMPARE_REFUSED;
}

/* Values of two arms at their common seeds, in x and y; *dropped: seeds with a value on one side alone. */
static int common_seeds(struct compare *c, int arm, int base, double *x, double *y, int *n, int *dropped)
{
    const struct study *s = c->study;
    int i = c->arm_start[base], j = c->arm_start[arm], rc = 0;
    *n = *dropped = 0;
    while ((i < c->arm_start[base + 1] || j < c->arm_start[arm + 1]) && rc == 0) {
        int a = i < c->arm_start[base + 1] ? c->order[i] : -1, b = j < c->arm_start[arm + 1] ? c->order[j] : -1;
        int64_t seed_a = a >= 0 ? s->run[a].seed : INT64_MAX, seed_b = b >= 0 ? s->run[b].seed : INT64_MAX;
        int has_a = seed_a <= seed_b && !isnan(c->score[a]), has_b = seed_b <= seed_a && !isnan(c->score[b]);
        if (has_a && has_b) x[*n] = c->score[a], y[(*n)++] = c->score[b], rc = check_alike(c, b, a);
        else *dropped += has_a || has_b;
        i += seed_a <= seed_b, j += seed_b <= seed_a;
    }
    return rc;
}

/* All values of an arm; for a loss their opposites, so that large is good. */
static int arm_values(const struct compare *c, int arm, double *out)
{
    int n = 0;
    for (int i = c->arm_start[arm]; i < c->arm_start[arm + 1]; i++) {
        double value = c->score[c->order[i]];
        if (!isnan(value)) out[n++] = c->lower ? -value : value;
    }
    return n;
}

int compare_two(struct compare *c, int arm, int base, struct compare_pair *pair)
{
    double *x = c->work, *y = x + c->study->n_run, *d = y + c->study->n_run;
    *pair = (struct compare_pair){ .arm = arm, .base = base, .p_holm = NAN };
    int rc = common_seeds(c, arm, base, x, y, &pair->n, &pair->dropped);
    if (rc != 0) return rc;
    for (int i = 0; i < pair->n; i++) d[i] = round((y[i] - x[i]) * 1e12) / 1e12;         /* equal counts, equal differences */
    pair->difference = stats_mean(d, pair->n);
    pair->half_width = stats_half_width(d, pair->n);
    pair->r = stats_correlation(x, y, pair->n);
    pair->p = stats_sign_flip(d, pair->n);
    pair->better = stats_improvement_paired(d, pair->n);
    if (c->lower) pair->better = 1 - pair->better;
    int n_base = arm_values(c, base, x), n_arm = arm_values(c, arm, y);
    pair->improvement = stats_improvement(x, n_base, y, n_arm);
    return 0;
}

/* Holm over all pairs: whoever looks at the whole table makes that many comparisons. */
static int adjust(struct compare *c)
{
    double *p = mem_alloc(2 * (size_t)c->n_pair * sizeof *p, c->err);
    if (!p) return -1;
    for (int i = 0; i < c->n_pair; i++) p[i] = c->pair[i].p;
    int rc = stats_holm(p, c->n_pair, p + c->n_pair, c->err);
    for (int i = 0; i < c->n_pair && rc == 0; i++) c->pair[i].p_holm = p[c->n_pair + i];
    free(p);
    return rc;
}

static int make_pairs(struct compare *c)
{
    const struct study *s = c->study;
    if (!known_baseline(c)) return COMPARE_REFUSED;
    for (int i = 0; i < c->n_panel; i++)
        for (int arm = 0; arm < (int)s->n_arm; arm++) {
            int base, rc;
            if (s->arm[arm].panel != c->panel[i].panel) continue;
            if (baseline_of(c, arm, &base) != 0) return COMPARE_REFUSED;
            if (base == arm) continue;
            if ((rc = compare_two(c, arm, base, &c->pair[c->n_pair])) != 0) return rc;
            c->n_pair++;
        }
    return adjust(c);
}

/* ---- over tasks ---- */

static int same_text(const struct compare *c, int a, int b, enum study_text field)
{
    return !strcmp(study_text(c->study, a, field), study_text(c->study, b, field));
}

/* The arm of a panel that is the same method as another panel's; -1 if there is none. */
static int arm_in(const struct compare *c, int panel, int like)
{
    const struct study *s = c->study;
    for (int arm = 0; arm < (int)s->n_arm; arm++)
        if (s->arm[arm].panel == panel && same_text(c, s->arm[arm].run, s->arm[like].run, STUDY_ENCODER) &&
            same_text(c, s->arm[arm].run, s->arm[like].run, STUDY_LABEL)) return arm;
    return -1;
}

/* Panels of a group lie one after another: they are gathered here. */
static int by_train(const void *a, const void *b)
{
    const struct compare_panel *x = a, *y = b;
    int order = strcmp(study_text(sorting, sorting->panel[x->panel].run, STUDY_TRAIN),
                       study_text(sorting, sorting->panel[y->panel].run, STUDY_TRAIN));
    return order ? order : (x->panel > y->panel) - (x->panel < y->panel);
}

static const struct compare_pair *pair_of(const struct compare *c, int arm)
{
    for (int i = 0; i < c->n_pair; i++) if (c->pair[i].arm == arm) return &c->pair[i];
    return NULL;
}

/* arm [tasks, rows]: which arm of each task each row stands for. */
static int choose_rows(struct compare *c, struct compare_group *g, int **arm_out)
{
    const struct study *s = c->study;
    const struct compare_panel *panel = &c->panel[g->first];
    g->row = mem_alloc(s->n_arm * sizeof *g->row, c->err);
    int *arm = *arm_out = mem_alloc(s->n_arm * (size_t)g->tasks * sizeof *arm, c->err);
    if (!g->row || !arm) return -1;
    for (int first = 0; first < (int)s->n_arm; first++) {
        if (s->arm[first].panel != panel->panel) continue;
        int everywhere = 1;
        for (int task = 0; task < g->tasks; task++) {
            int found = arm_in(c, panel[task].panel, first);
            arm[g->n_row * g->tasks + task] = found;
            everywhere &= found >= 0;
        }
        if (everywhere) g->row[g->n_row++] = (struct compare_row){ .arm = first, .difference = NAN, .p = NAN, .p_holm = NAN, .improvement = NAN };
        else g->dropped++;
    }
    return 0;
}

static double score_at(const struct compare *c, int arm, int64_t seed)
{
    for (int i = c->arm_start[arm]; i < c->arm_start[arm + 1]; i++)
        if (c->study->run[c->order[i]].seed == seed) return c->score[c->order[i]];
    return NAN;
}

/* Ranks of the means in each task, and Friedman's test over them; reciprocal ranks of single seeds, for comparison with
 * papers that print them.  A missing value ranks last. */
static int rank_rows(struct compare *c, struct compare_group *g, const int *arm)
{
    int k = g->n_row, columns = 0, sign = c->lower ? -1 : 1;
    double *value = mem_alloc(2 * (size_t)k * sizeof *value, c->err), *rank = mem_alloc((size_t)(k * g->tasks) * sizeof *rank, c->err);
    if (!value || !rank) { free(value); free(rank); return -1; }
    for (int task = 0; task < g->tasks; task++) {
        for (int row = 0; row < k; row++) value[row] = sign * c->cell[arm[row * g->tasks + task]].mean;
        stats_ranks(value, k, rank + task * k);
        for (int row = 0; row < k; row++) g->row[row].rank += rank[task * k + row] / g->tasks;
        int lead = arm[task];                                /* its seeds stand for the task's */
        for (int i = c->arm_start[lead]; i < c->arm_start[lead + 1]; i++, columns++) {
            for (int row = 0; row < k; row++) value[row] = sign * score_at(c, arm[row * g->tasks + task], c->study->run[c->order[i]].seed);
            stats_ranks(value, k, value + k);
            for (int row = 0; row < k; row++) g->row[row].mrr += 1 / value[k + row];
        }
    }
    for (int row = 0; row < k; row++) g->row[row].mrr /= columns;
    stats_friedman(rank, g->tasks, k, &g->friedman);
    g->critical = stats_nemenyi(k, g->tasks);
    free(value), free(rank);
    return 0;
}

/* All pairs of all tasks flip their signs; each task weighs the same. */
static int difference_over_tasks(struct compare *c, struct compare_group *g, struct compare_row *row, const int *arm)
{
    double *x = c->work, *y = x + c->study->n_run, *d = y + c->study->n_run;
    double difference = 0, improvement = 0;
    int total = 0;
    for (int task = 0; task < g->tasks; task++) {
        const struct compare_pair *pair = pair_of(c, arm[task]);
        int n, dropped, mixed[4] = { c->mixed_data, c->mixed_budget, c->mixed_code, c->mixed_machine };
        if (!pair || pair->n == 0) return 0;
        if (common_seeds(c, pair->arm, pair->base, x, y, &n, &dropped) != 0) return -1;
        c->mixed_data = mixed[0], c->mixed_budget = mixed[1], c->mixed_code = mixed[2], c->mixed_machine = mixed[3];       /* counted before */
        for (int i = 0; i < n; i++) d[total++] = (y[i] - x[i]) / n;
        difference += pair->difference / g->tasks;
        improvement += pair->improvement / g->tasks;
    }
    row->difference = difference;
    row->improvement = improvement;
    row->p = stats_sign_flip(d, total);
    return 0;
}

static int middle_of_rows(struct compare *c, struct compare_group *g, const int *arm)
{
    int *n = mem_alloc((size_t)g->tasks * sizeof *n, c->err), rc = n ? 0 : -1;
    for (int row = 0; row < g->n_row && rc == 0; row++) {
        int total = 0;
        for (int task = 0; task < g->tasks; task++) total += n[task] = arm_values(c, arm[row * g->tasks + task], c->work + total);
        struct stats_interval *iqm = &g->row[row].iqm;
        rc = stats_iqm(c->work, n, g->tasks, iqm, c->err);
        if (c->lower) *iqm = (struct stats_interval){ -iqm->value, -iqm->hi, -iqm->lo };
    }
    free(n);
    return rc;
}

static int fill_group(struct compare *c, struct compare_group *g)
{
    int *arm = NULL, rc = choose_rows(c, g, &arm);
    double *p = NULL;
    if (rc == 0 && g->n_row > 0) {
        rc = rank_rows(c, g, arm);
        if (rc == 0) rc = middle_of_rows(c, g, arm);
        for (int row = 0; row < g->n_row && rc == 0; row++) rc = difference_over_tasks(c, g, &g->row[row], arm + row * g->tasks);
        if (rc == 0 && !(p = mem_alloc(2 * (size_t)g->n_row * sizeof *p, c->err))) rc = -1;
        for (int row = 0; row < g->n_row && rc == 0; row++) p[row] = g->row[row].p;
        if (rc == 0) rc = stats_holm(p, g->n_row, p + g->n_row, c->err);
        for (int row = 0; row < g->n_row && rc == 0; row++) g->row[row].p_holm = p[g->n_row + row];
    }
    free(arm), free(p);
    return rc;
}

static int make_groups(struct compare *c)
{
    sorting = c->study;
    qsort(c->panel, (size_t)c->n_panel, sizeof *c->panel, by_train);
    for (int i = 0, n; i < c->n_panel; i += n) {
        int run = c->study->panel[c->panel[i].panel].run;
        for (n = 1; i + n < c->n_panel && same_text(c, run, c->study->panel[c->panel[i + n].panel].run, STUDY_TRAIN); n++) { }
        if (n < 2) continue;
        struct compare_group *g = &c->group[c->n_group++];
        *g = (struct compare_group){ .first = i, .tasks = n };
        if (fill_group(c, g) != 0) return -1;
    }
    return 0;
}

int compare_build(struct compare *c, struct study *study, const struct compare_options *options)
{
    *c = (struct compare){ .study = study, .options = *options, .err = study->err };
    int rc = read_options(c);
    if (rc == 0) rc = allocate(c);
    if (rc == 0) rc = score(c);
    if (rc == 0) rc = make_pairs(c);
    if (rc == 0) rc = make_groups(c);
    return rc;
}

void compare_release(struct compare *c)
{
    for (int i = 0; i < c->n_panel; i++) free(c->panel[i].length);
    for (int i = 0; i < c->n_group; i++) free(c->group[i].row);
    free(c->order), free(c->arm_start), free(c->score), free(c->seen), free(c->l50), free(c->data), free(c->cell);
    free(c->panel), free(c->pair), free(c->group), free(c->work);
    *c = (struct compare){ 0 };
}
