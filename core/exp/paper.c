/* paper -- see paper.h. */
#include "exp/paper.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/str.h"

static const struct lab_option table[] = {
    LAB_STR(struct paper, source, "", "where the numbers stand"),
    LAB_ENUM(struct paper, metric, "token", "token|sequence", "what is compared: tokens right, or whole sequences"),
    LAB_ENUM(struct paper, seeds, "mean", "mean|median|max", "how the paper pools its runs"),
    LAB_OPTIONS_END };

/* "51-100" or "64" */
static int parse_range(const char *text, struct paper_cell *c)
{
    char low[16];
    const char *dash = strchr(text, '-');
    int64_t lo, hi;
    snprintf(low, sizeof low, "%.*s", dash ? (int)(dash - text) : (int)strlen(text), text);
    if (!str_to_int(low, 1, 1000000, &lo) || !str_to_int(dash ? dash + 1 : text, 1, 1000000, &hi) || lo > hi) return -1;
    c->lo = (int32_t)lo, c->hi = (int32_t)hi;
    return 0;
}

/* "[TASK.]ENCODER.LO-HI"; the encoder may be "order". */
static int parse_key(const struct conf_entry *e, struct paper_cell *c, struct lab_err *err)
{
    const char *last = strrchr(e->key, '.'), *first = strchr(e->key, '.');
    if (!last || parse_range(last + 1, c) != 0)
        return conf_fail(e, err, "unknown key '%.60s' in [paper]; it has source, metric, seeds, ENCODER.LO-HI, TASK.ENCODER.LO-HI and order.LO-HI", e->key);
    const char *encoder = first < last ? first + 1 : e->key;
    if (last - encoder >= PAPER_NAME || first - e->key >= PAPER_NAME || memchr(encoder, '.', (size_t)(last - encoder)))
        return conf_fail(e, err, "'%.60s': expected ENCODER.LO-HI or TASK.ENCODER.LO-HI", e->key);
    snprintf(c->task, sizeof c->task, "%.*s", first < last ? (int)(first - e->key) : 0, e->key);
    snprintf(c->encoder[0], PAPER_NAME, "%.*s", (int)(last - encoder), encoder);
    return 0;
}

static int parse_value(const struct conf_entry *e, struct paper_cell *c, struct lab_err *err)
{
    char value[32];
    const char *comma = strchr(e->value, ',');
    snprintf(value, sizeof value, "%.*s", comma && comma - e->value < 31 ? (int)(comma - e->value) : 0, e->value);
    c->n = 1;
    if (comma) comma += 1 + strspn(comma + 1, " \t");
    if (!comma || !str_to_real(value, &c->value) || !str_to_real(comma, &c->band) || c->value < 0 || c->value > 1 || c->band < 0 || c->band > 1)
        return conf_fail(e, err, "%s = %.60s: expected a value and a band from 0 to 1, as in 0.99, 0.02", e->key, e->value);
    return 0;
}

/* "none > t5 > rope" */
static int parse_order(const struct conf_entry *e, struct paper_cell *c, struct lab_err *err)
{
    for (const char *at = e->value;; at++) {
        at += strspn(at, " \t");
        size_t n = strcspn(at, " \t>");
        if (c->n == PAPER_ORDER) return conf_fail(e, err, "%s: too many names; the limit is %d", e->key, PAPER_ORDER);
        if (n == 0 || n >= PAPER_NAME) return conf_fail(e, err, "%s = %.60s: expected names with > between, best first", e->key, e->value);
        snprintf(c->encoder[c->n++], PAPER_NAME, "%.*s", (int)n, at);
        at += n + strspn(at + n, " \t");
        if (!*at) break;
        if (*at != '>') return conf_fail(e, err, "%s = %.60s: expected names with > between, best first", e->key, e->value);
    }
    return c->n > 1 ? 0 : conf_fail(e, err, "%s = %.60s: an order has two names at least", e->key, e->value);
}

static int add_cell(struct paper *p, const struct conf_entry *e, struct lab_err *err)
{
    struct paper_cell c = { .entry = e };
    if (parse_key(e, &c, err) != 0) return -1;
    if ((strcmp(c.encoder[0], "order") ? parse_value : parse_order)(e, &c, err) != 0) return -1;
    if (mem_grow(&p->cell, &p->cap, p->n + 1, sizeof *p->cell, err) != 0) return -1;
    p->cell[p->n++] = c;
    return 0;
}

static int take(struct paper *p, const struct conf_entry *e, struct lab_err *err)
{
    struct lab_err why;
    const struct lab_option *row = option_find(table, e->key);
    if (!row) return add_cell(p, e, err);
    return option_set(row, p, e->value, &why) == 0 ? 0 : conf_fail(e, err, "%s", why.msg);
}

int paper_read(struct paper *p, const struct conf *conf, struct lab_err *err)
{
    const struct conf_entry *any = NULL;
    *p = (struct paper){ 0 };
    if (option_defaults(table, p, NULL, err) != 0) return -1;
    for (size_t i = 0; i < conf->n; i++) {
        if (strcmp(conf->entry[i].section, "paper")) continue;
        any = &conf->entry[i];
        if (take(p, any, err) != 0) return paper_free(p), -1;
    }
    if (any && !*p->source) return paper_free(p), conf_fail(any, err, "[paper] has no source; say where its numbers stand");
    return 0;
}

static int is_run(const struct sweep *s, const struct paper_cell *c, const char *encoder)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct run_config *run = &s->run[i].config;
        if (strcmp(run->encoder->name, encoder) || (*c->task && strcmp(run->task->name, c->task))) continue;
        for (int k = 0; k < run->eval.lengths.n; k++)
            if (run->eval.lengths.v[k] >= c->lo && run->eval.lengths.v[k] <= c->hi) return 1;
    }
    return 0;
}

int paper_check(const struct paper *p, const struct sweep *s, struct lab_err *err)
{
    for (size_t i = 0; i < p->n; i++)
        for (int k = 0; k < p->cell[i].n; k++)
            if (!is_run(s, &p->cell[i], p->cell[i].encoder[k]))
                return conf_fail(p->cell[i].entry, err, "[paper] %.60s: no run with %s%s%s is evaluated at a length in %d..%d", p->cell[i].entry->key,
                                 p->cell[i].encoder[k], *p->cell[i].task ? " and task " : "", p->cell[i].task, (int)p->cell[i].lo, (int)p->cell[i].hi);
    return 0;
}

void paper_free(struct paper *p)
{
    free(p->cell);
    *p = (struct paper){ 0 };
}
