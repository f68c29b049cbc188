/* sweep -- see sweep.h. */
#include "exp/sweep.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/str.h"
#include "exp/paper.h"
#include "exp/trial.h"

enum { MAX_AXES = 64, MAX_COMBINATIONS = 100000,
       ITEM_SIZE = 512 };            /* more than conf lets a whole value hold */

struct axis {
    const struct conf_entry *from;   /* the line in [sweep] */
    char *section, *key;             /* what it varies */
    const struct lab_option *row;    /* of the key; NULL for encoder, task, seed */
    char **value; size_t n, cap;     /* texts owned by the sweep */
};
struct plan {
    struct sweep *sweep;
    const struct conf *conf;
    const struct registry *registry;
    struct lab_err *err;
    struct axis axis[MAX_AXES];
    int n_axis;
};

/* ---- one axis ---- */

static int add_value(struct plan *p, struct axis *a, const char *text)
{
    if (a->n == MAX_COMBINATIONS) return conf_fail(a->from, p->err, "%s has too many values (the limit is %d)", a->from->key, MAX_COMBINATIONS);
    if (mem_grow(&a->value, &a->cap, a->n + 1, sizeof *a->value, p->err) != 0) return -1;
    struct sweep *s = p->sweep;
    char *copy = mem_strdup(text, p->err);
    if (!copy) return -1;
    if (mem_grow(&s->value, &s->cap_value, s->n_value + 1, sizeof *s->value, p->err) != 0) return free(copy), -1;
    s->value[s->n_value++] = a->value[a->n++] = copy;
    return 0;
}

/* "3..7" as whole numbers; what is no range is one value. */
static int add_range(struct plan *p, struct axis *a, const char *item)
{
    const char *dots = strstr(item, "..");
    char low[ITEM_SIZE], text[32];
    int64_t lo, hi;
    if (!dots) return add_value(p, a, item);
    snprintf(low, sizeof low, "%.*s", (int)(dots - item), item);
    if (!str_to_int(low, INT32_MIN, INT32_MAX, &lo) || !str_to_int(dots + 2, INT32_MIN, INT32_MAX, &hi))
        return conf_fail(a->from, p->err, "%s = %.60s: a range is written low..high, as in 0..2", a->from->key, item);
    if (lo > hi) return conf_fail(a->from, p->err, "%s = %.60s: the range runs backwards; write %lld..%lld", a->from->key, item,
                                  (long long)hi, (long long)lo);
    if (hi - lo >= MAX_COMBINATIONS) return conf_fail(a->from, p->err, "%s = %.60s has too many values (the limit is %d)",
                                                      a->from->key, item, MAX_COMBINATIONS);
    for (int64_t x = lo; x <= hi; x++) {
        snprintf(text, sizeof text, "%lld", (long long)x);
        if (add_value(p, a, text) != 0) return -1;
    }
    return 0;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Sorted first: an axis may hold a hundred thousand values. */
static int check_repeats(struct plan *p, const struct axis *a)
{
    char **sorted = mem_alloc(a->n * sizeof *sorted, p->err);
    if (!sorted) return -1;
    memcpy(sorted, a->value, a->n * sizeof *sorted);
    qsort(sorted, a->n, sizeof *sorted, by_text);
    size_t i = 1;
    while (i < a->n && strcmp(sorted[i - 1], sorted[i])) i++;
    int repeats = i < a->n;
    if (repeats) conf_fail(a->from, p->err, "%s lists %.60s twice; leave one out", a->from->key, sorted[i]);
    free(sorted);
    return repeats ? -1 : 0;
}

/* Comma-separated items; ranges are spelled out where the key takes one whole number. */
static int read_values(struct plan *p, struct axis *a, int whole_number)
{
    const char *at = a->from->value;
    if (!*at) return conf_fail(a->from, p->err, "%s has no value; list at least one, or remove the line", a->from->key);
    for (;;) {
        size_t n = strcspn(at, ","), front = strspn(at, " \t");
        char item[ITEM_SIZE];
        if (front > n) front = n;
        size_t end = n;
        while (end > front && (at[end - 1] == ' ' || at[end - 1] == '\t')) end--;
        if (end == front) return conf_fail(a->from, p->err, "%s = %.60s: an item of the list is empty", a->from->key, a->from->value);
        snprintf(item, sizeof item, "%.*s", (int)(end - front), at + front);
        if ((whole_number ? add_range(p, a, item) : add_value(p, a, item)) != 0) return -1;
        if (!at[n]) return check_repeats(p, a);
        at += n + 1;
    }
}

/* The host's sections that may be swept, and where a run keeps what they say. */
static const struct { const char *section; const struct lab_option *table; size_t at; } own[] = {
    { "model", config_model_table, offsetof(struct run_config, model) },
    { "train", config_train_table, offsetof(struct run_config, train) },
    { "positions", config_positions_table, offsetof(struct run_config, positions) },
};
enum { N_OWN = sizeof own / sizeof *own };

/* The option row behind section.key; NULL with a message. */
static const struct lab_option *row_of(struct plan *p, const struct axis *a)
{
    const struct lab_option *table = NULL;
    struct lab_err why;
    int encoder = !strncmp(a->section, "encoder.", 8), task = !strncmp(a->section, "task.", 5);
    for (int i = 0; i < N_OWN; i++) if (!strcmp(a->section, own[i].section)) table = own[i].table;
    if (encoder || task) {
        const struct plugin_entry *e = registry_find(p->registry, encoder ? PLUGIN_ENCODER : PLUGIN_TASK, strchr(a->section, '.') + 1, &why);
        if (!e) return conf_fail(a->from, p->err, "axis %s: %s", a->from->key, why.msg), NULL;
        table = e->encoder ? e->encoder->options : e->task->options;
    }
    const struct lab_option *row = option_find(table, a->key);
    if (row && strcmp(a->key, "log_every")) return row;
    const char *near = option_nearest(table, a->key);
    if (near && !row) conf_fail(a->from, p->err, "unknown axis '%.60s': did you mean '%s.%s'?", a->from->key, a->section, near);
    else conf_fail(a->from, p->err,
                   "'%.60s' is not an axis; an axis is encoder, task, seed, or a key of model, train, positions, encoder.NAME or task.NAME",
                   a->from->key);
    return NULL;
}

static int is_bare(const char *key) { return !strcmp(key, "encoder") || !strcmp(key, "task") || !strcmp(key, "seed"); }

static int unknown_axis(struct plan *p, const struct conf_entry *e)
{
    static const char *const bare[] = { "encoder", "task", "seed", NULL };
    const char *near = str_nearest(e->key, bare);
    if (near) return conf_fail(e, p->err, "unknown axis '%.60s': did you mean '%s'?", e->key, near);
    return conf_fail(e, p->err, "unknown axis '%.60s'; an axis is encoder, task, seed, or section.key, as in model.layers", e->key);
}

static int check_swept_alone(struct plan *p, const struct axis *a)
{
    const struct conf_entry *fixed = conf_find(p->conf, a->section, a->key);
    if (!fixed) return 0;
    if (!fixed->line) return conf_fail(fixed, p->err, "%s is an axis of the experiment; set sweep.%s instead", a->from->key, a->from->key);
    return conf_fail(a->from, p->err, "%s is swept here and set on line %d of %s; remove one of the two", a->from->key, fixed->line, fixed->file);
}

static int add_axis(struct plan *p, const struct conf_entry *e)
{
    if (p->n_axis == MAX_AXES) return conf_fail(e, p->err, "too many axes; the limit is %d", MAX_AXES);
    struct axis *a = &p->axis[p->n_axis++];
    const char *dot = strrchr(e->key, '.');
    *a = (struct axis){ .from = e };
    if (!dot && !is_bare(e->key)) return unknown_axis(p, e);
    a->section = mem_strdup(dot ? e->key : "run", p->err);
    a->key = mem_strdup(dot ? dot + 1 : e->key, p->err);
    if (!a->section || !a->key) return -1;
    if (!dot) return read_values(p, a, !strcmp(e->key, "seed"));
    a->section[dot - e->key] = '\0';
    a->row = row_of(p, a);
    return a->row && check_swept_alone(p, a) == 0 ? read_values(p, a, a->row->type == LAB_T_INT) : -1;
}

static int check_section(struct plan *p, const struct conf_entry *e)
{
    if (!strcmp(e->section, "run")) return conf_fail(e, p->err, "unknown section [run]: encoder, task and seed stand in [sweep]");
    return config_check_section(e, p->registry, p->err);
}

static int read_axes(struct plan *p)
{
    for (size_t i = 0; i < p->conf->n; i++) {
        const struct conf_entry *e = &p->conf->entry[i];
        if (check_section(p, e) != 0) return -1;
        if (!strcmp(e->section, "sweep") && add_axis(p, e) != 0) return -1;
    }
    for (size_t i = 0; i < p->conf->n_heading; i++) if (check_section(p, &p->conf->heading[i]) != 0) return -1;      /* also those without keys */
    for (int k = 0; k < 2; k++)
        if (!conf_find(p->conf, "sweep", k ? "task" : "encoder"))
            return lab_fail(p->err, "%s: [sweep] has no %s; list at least one, as in `%s`", p->conf->path, k ? "task" : "encoder",
                            k ? "task = reverse" : "encoder = none, rope");
    return 0;
}

static void free_axes(struct plan *p)
{
    for (int i = 0; i < p->n_axis; i++) {
        free(p->axis[i].value);
        free(p->axis[i].section);
        free(p->axis[i].key);
    }
}

/* ---- [experiment] ---- */

static int read_experiment(struct sweep *s, const struct conf *conf, struct lab_err *err)
{
    static const char *const known[] = { "name", "question", NULL };
    const struct conf_entry *name = conf_find(conf, "experiment", "name"), *question = conf_find(conf, "experiment", "question");
    for (size_t i = 0; i < conf->n; i++) {
        const struct conf_entry *e = &conf->entry[i];
        if (strcmp(e->section, "experiment") || e == name || e == question) continue;
        const char *near = str_nearest(e->key, known);
        return conf_fail(e, err, "unknown key '%.60s' in [experiment]%s%s%s; it has name and question", e->key, near ? ": did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
    }
    const char *slash = strrchr(conf->path, '/');
    s->name = name ? name->value : slash ? slash + 1 : conf->path;
    s->question = question ? question->value : "";
    return 0;
}

/* ---- the combinations ---- */

/* Open addressing: index + 1 of the first run with each hash that stands at `field` of a configuration. */
struct seen { uint32_t *slot; size_t size, field; };

static int seen_init(struct seen *seen, size_t n, size_t field, struct lab_err *err)
{
    *seen = (struct seen){ mem_alloc((2 * n + 1) * sizeof *seen->slot, err), 2 * n + 1, field };
    return seen->slot ? 0 : -1;
}

static int seen_before(struct seen *seen, const struct sweep *s, size_t run)
{
    const char *key = (const char *)&s->run[run].config + seen->field;
    char head[9] = { 0 };
    memcpy(head, key, 8);
    for (size_t at = strtoul(head, NULL, 16) % seen->size;; at = (at + 1) % seen->size) {
        if (!seen->slot[at]) return seen->slot[at] = (uint32_t)run + 1, 0;
        if (!strcmp((const char *)&s->run[seen->slot[at] - 1].config + seen->field, key)) return 1;
    }
}

/* Where the run keeps the value of an axis; NULL if it has none: another encoder's or task's option. */
static const void *self_of(const struct run_config *c, const struct axis *a)
{
    for (int i = 0; i < N_OWN; i++) if (!strcmp(a->section, own[i].section)) return (const char *)c + own[i].at;
    if (!strncmp(a->section, "encoder.", 8)) return strcmp(a->section + 8, c->encoder->name) ? NULL : c->encoder_self;
    if (!strncmp(a->section, "task.", 5)) return strcmp(a->section + 5, c->task->name) ? NULL : c->task_self;
    return NULL;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct axis *const *)a)->from->key, (*(const struct axis *const *)b)->from->key);
}

/* Sorted by key, values in their canonical spelling: one run bears one label, however a file writes its axes. */
static void make_label(struct str *out, const struct plan *p, const struct run_config *c)
{
    const struct axis *axis[MAX_AXES];
    for (int i = 0; i < p->n_axis; i++) axis[i] = &p->axis[i];
    qsort(axis, (size_t)p->n_axis, sizeof *axis, by_key);
    for (int i = 0; i < p->n_axis; i++) {
        const void *self = self_of(c, axis[i]);
        if (!self) continue;
        str_printf(out, "%s%s=", out->len ? ", " : "", axis[i]->from->key);
        option_print(out, axis[i]->row, self);
    }
}

static int add_run(struct sweep *s, const struct plan *p, const struct conf_entry *entry, size_t n, struct seen *seen)
{
    struct str label = { 0 };
    if (mem_grow(&s->run, &s->cap, s->n + 1, sizeof *s->run, p->err) != 0) return -1;
    struct sweep_run *r = &s->run[s->n];
    if (config_build(&r->config, entry, n, p->registry, p->err) != 0) return -1;
    if (seen_before(seen, s, s->n)) return config_free(&r->config), 0;
    s->n++;
    make_label(&label, p, &r->config);
    if (label.failed) lab_fail(p->err, "out of memory for the label of a run");
    else r->label = mem_strdup(str_text(&label), p->err);
    str_free(&label);
    return r->label ? 0 : -1;
}

static int combine(struct sweep *s, const struct plan *p)
{
    size_t at[MAX_AXES] = { 0 }, total = 1, n = 0;
    int rc = -1;
    for (int i = 0; i < p->n_axis; i++) {
        total *= p->axis[i].n;
        if (total > MAX_COMBINATIONS)
            return lab_fail(p->err, "%s: [sweep] has more than %d combinations, the limit; split it over several files", p->conf->path,
                            MAX_COMBINATIONS);
    }
    s->n_combinations = total;
    struct seen seen = { 0 };
    struct conf_entry *entry = mem_alloc((p->conf->n + MAX_AXES) * sizeof *entry, p->err);
    if (!entry || seen_init(&seen, total, offsetof(struct run_config, key), p->err) != 0) goto out;
    for (size_t i = 0; i < p->conf->n; i++)
        if (strcmp(p->conf->entry[i].section, "sweep") && strcmp(p->conf->entry[i].section, "experiment") &&
            strcmp(p->conf->entry[i].section, "paper")) entry[n++] = p->conf->entry[i];
    for (size_t k = 0; k < total; k++) {
        for (int i = 0; i < p->n_axis; i++) {
            const struct axis *a = &p->axis[i];
            entry[n + (size_t)i] = (struct conf_entry){ a->section, a->key, a->value[at[i]], a->from->file, a->from->line };
        }
        if (add_run(s, p, entry, n + (size_t)p->n_axis, &seen) != 0) goto out;
        for (int i = p->n_axis - 1; i >= 0 && ++at[i] == p->axis[i].n; i--) at[i] = 0;       /* the last axis turns fastest */
    }
    rc = 0;
out:
    free(entry);
    free(seen.slot);
    return rc;
}

/* One run of each task is enough. */
static int try_tasks(const struct sweep *s, struct lab_err *err)
{
    const struct run_config **config = mem_alloc(s->n * sizeof *config, err);
    struct seen seen = { 0 };
    struct lab_err why;
    size_t n = 0, at;
    int rc = -1;
    if (!config || seen_init(&seen, s->n, offsetof(struct run_config, task_key), err) != 0) goto out;
    for (size_t i = 0; i < s->n; i++) if (!seen_before(&seen, s, i)) config[n++] = &s->run[i].config;
    rc = trial_examples(config, n, &at, &why);
    if (rc != 0) conf_fail(conf_find(s->conf, "sweep", "task"), err, "%s", why.msg);
out:
    free(config);
    free(seen.slot);
    return rc;
}

int sweep_build(struct sweep *s, const struct conf *conf, const struct registry *registry, struct lab_err *err)
{
    struct plan *p = mem_alloc(sizeof *p, err);
    *s = (struct sweep){ .conf = conf };
    if (!p) return -1;
    *p = (struct plan){ .sweep = s, .conf = conf, .registry = registry, .err = err };
    struct paper paper = { 0 };
    int rc = read_experiment(s, conf, err) == 0 && read_axes(p) == 0 && paper_read(&paper, conf, err) == 0 && combine(s, p) == 0 &&
             paper_check(&paper, s, err) == 0 ? try_tasks(s, err) : -1;
    paper_free(&paper);
    free_axes(p);
    free(p);
    if (rc != 0) sweep_free(s);
    return rc;
}

void sweep_free(struct sweep *s)
{
    for (size_t i = 0; i < s->n; i++) {
        config_free(&s->run[i].config);
        free(s->run[i].label);
    }
    for (size_t i = 0; i < s->n_value; i++) free(s->value[i]);
    free(s->value);
    free(s->run);
    *s = (struct sweep){ 0 };
}
