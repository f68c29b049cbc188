/* inspect -- see inspect.h: the parts of an answer, and the three ways to give it. */
#include "answer/inspect.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* ---- making one ---- */

void inspect_init(struct inspect *in, int exact) { *in = (struct inspect){ .exact = exact }; }

void inspect_release(struct inspect *in)
{
    for (size_t i = 0; i < in->n; i++) {
        struct inspect_part *p = &in->part[i];
        free(p->name), free(p->title), free(p->note);
        table_free(&p->table);
        chart_free(&p->chart);
    }
    free(in->part), free(in->subject);
    *in = (struct inspect){ 0 };
}

__attribute__((format(printf, 3, 0)))
static void set_text(struct inspect *in, char **field, const char *fmt, va_list ap)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0) { in->failed = 1; return; }
    free(*field);
    *field = text;
}

void inspect_subject(struct inspect *in, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_text(in, &in->subject, fmt, ap);
    va_end(ap);
}

void inspect_note(struct inspect *in, struct inspect_part *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_text(in, &p->note, fmt, ap);
    va_end(ap);
}

struct inspect_part *inspect_add(struct inspect *in, const char *name, const char *title)
{
    static struct inspect_part nowhere;
    struct lab_err ignored;
    if (in->failed || mem_grow(&in->part, &in->cap, in->n + 1, sizeof *in->part, &ignored) != 0) {
        in->failed = 1;
        free(nowhere.note), table_free(&nowhere.table), chart_free(&nowhere.chart);
        nowhere = (struct inspect_part){ 0 };
        return &nowhere;
    }
    struct inspect_part *p = &in->part[in->n++];
    *p = (struct inspect_part){ .name = mem_strdup(name, &ignored), .title = mem_strdup(title, &ignored) };
    if (!p->name || !p->title) in->failed = 1;
    return p;
}

void inspect_columns(struct inspect_part *p, int n, const char *const *name)
{
    table_init(&p->table, n);
    for (int i = 0; i < n; i++) table_add(&p->table, name[i]);
}

void inspect_number(const struct inspect *in, struct inspect_part *p, const char *format, double x)
{
    char text[64];
    snprintf(text, sizeof text, in->exact ? "%.9g" : format, x);         /* format: of the caller's table, never from outside */
    table_number(&p->table, isnan(x) ? NULL : text);
}

void inspect_word(struct inspect_part *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    table_add(&p->table, text);
}

struct inspect_part *inspect_map(struct inspect *in, const char *name, const char *title, int rows, int columns, double lo, double hi,
                                 const double *value)
{
    struct inspect_part *p = inspect_add(in, name, title);
    struct chart *c = &p->chart;
    char text[16];
    int digits = rows > 100 ? 3 : 2;
    p->drawn = 1;
    chart_init(c, CHART_GRID);
    chart_set(c, &c->title, title);
    chart_size(c, rows, columns);
    if (c->failed) return in->failed = 1, p;
    c->shades = 1, c->lo = lo, c->hi = hi > lo ? hi : lo + 1;
    for (int i = 0; i < rows; i++) snprintf(text, sizeof text, "p%*d", digits, i), chart_set(c, &c->row[i], text);
    for (int i = 0; i < columns; i++) snprintf(text, sizeof text, "%d", i), chart_set(c, &c->column[i], text);
    memcpy(c->value, value, (size_t)rows * (size_t)columns * sizeof *value);
    return p;
}

/* ---- as text ---- */

static void split_line(const char **text, const char **line, size_t *n)
{
    *line = *text, *n = strcspn(*text, "\n");
    *text += *n + ((*text)[*n] == '\n');
}

/* Puts block to the right of all, two blanks between; -1 if that is wider than the columns. */
static int put_beside(struct str *all, const char *block, size_t columns)
{
    const char *left, *right, *line;
    struct str out = { 0 };
    size_t n, most = 0, wide = 0;
    for (left = str_text(all); *left; n > most ? most = n : 0) split_line(&left, &line, &n);
    for (right = block; *right; n > wide ? wide = n : 0) split_line(&right, &line, &n);
    if (most + 2 + wide > columns) return -1;
    for (left = str_text(all), right = block; *left || *right; ) {
        split_line(&left, &line, &n);
        str_printf(&out, "%.*s", (int)n, line);
        size_t pad = most + 2 - n;
        split_line(&right, &line, &n);
        if (n) str_printf(&out, "%*s%.*s", (int)pad, "", (int)n, line);
        str_add(&out, "\n");
    }
    out.failed |= all->failed;
    str_free(all);
    *all = out;
    return 0;
}

/* A map under its title, two columns in; the maps that belong beside it as far as they have room. */
static size_t text_maps(const struct inspect *in, size_t i, int columns, struct str *out)
{
    struct str all = { 0 };
    size_t first = i;
    do {
        struct str one = { 0 };
        chart_text(&in->part[i].chart, columns - 2, &one);
        int fits = i == first ? (str_add(&all, str_text(&one)), 1) : put_beside(&all, str_text(&one), (size_t)columns - 2) == 0;
        out->failed |= one.failed;
        str_free(&one);
        if (!fits) break;
    } while (++i < in->n && in->part[i].beside);
    const char *rest = str_text(&all), *line;
    for (size_t n, title = 1; *rest; title = 0) {
        split_line(&rest, &line, &n);
        str_printf(out, "%s%.*s\n", title ? "" : "  ", (int)n, line);
    }
    out->failed |= all.failed;
    str_free(&all);
    return i;
}

void inspect_text(const struct inspect *in, int columns, struct str *out)
{
    table_paragraph(out, in->subject ? in->subject : "", (size_t)columns, 0);
    for (size_t i = 0; i < in->n; ) {
        const struct inspect_part *p = &in->part[i];
        str_add(out, "\n");
        if (p->drawn && !p->table.n_col) {
            i = text_maps(in, i, columns, out);
            p = &in->part[i - 1];
        } else {
            table_paragraph(out, p->title ? p->title : "", (size_t)columns, 0);
            if (p->table.n_col) table_text(&p->table, (size_t)columns, out);
            i++;
        }
        if (p->note) table_paragraph(out, p->note, (size_t)columns, 0);
    }
    out->failed |= in->failed;
}

/* ---- as JSON ---- */

static void json_names(struct str *out, const char *key, char *const *name, int n)
{
    str_printf(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) str_add(out, i ? ", " : ""), str_json(out, name[i]);
    str_add(out, "]");
}

static void json_map(const struct chart *c, struct str *out)
{
    json_names(out, "rows", c->row, c->rows);
    json_names(out, "columns", c->column, c->columns);
    str_add(out, ", \"values\": [");
    for (int r = 0; r < c->rows; r++) {
        str_add(out, r ? ",\n  [" : "\n  [");
        for (int i = 0; i < c->columns; i++) {
            double v = c->value[r * c->columns + i];
            str_printf(out, isfinite(v) ? "%s%.9g" : "%snull", i ? ", " : "", v);
        }
        str_add(out, "]");
    }
    str_add(out, "]");
}

void inspect_json(const struct inspect *in, struct str *out)
{
    str_add(out, "{\"subject\": ");
    str_json(out, in->subject ? in->subject : "");
    str_add(out, ", \"parts\": [");
    for (size_t i = 0; i < in->n; i++) {
        const struct inspect_part *p = &in->part[i];
        str_add(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        str_json(out, p->name ? p->name : "");
        str_add(out, ", \"title\": ");
        str_json(out, p->title ? p->title : "");
        str_add(out, ", \"note\": ");
        if (p->note) str_json(out, p->note);
        else str_add(out, "null");
        if (p->table.n_col) str_add(out, ", \"table\": "), table_write(&p->table, TABLE_JSON, out);
        else if (p->drawn) json_map(&p->chart, out);
        str_add(out, "}");
    }
    str_add(out, "]}\n");
    out->failed |= in->failed;
}

/* ---- as a picture ---- */

int inspect_plot(struct inspect *in, struct plot *plot, struct lab_err *err)
{
    for (size_t i = 0; i < in->n; i++) {
        struct inspect_part *p = &in->part[i];
        if (!p->drawn) continue;
        if (mem_grow(&plot->chart, &plot->cap, plot->n + 1, sizeof *plot->chart, err) != 0) return -1;
        plot->chart[plot->n++] = p->chart;
        p->chart = (struct chart){ 0 }, p->drawn = 0;
    }
    return in->failed ? lab_fail(err, "out of memory while drawing") : 0;
}
