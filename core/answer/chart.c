/* chart -- see chart.h: what all ways to draw share, and the one for a terminal. */
#include "answer/chart.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* ---- making one ---- */

void chart_init(struct chart *c, enum chart_shape shape)
{
    *c = (struct chart){ .shape = shape, .y_lo = NAN, .y_hi = NAN, .mark = NAN, .critical = NAN, .hi = 1 };
}

/* Names come from files and databases: what a terminal would obey is shown instead, whichever way the chart is drawn. */
void chart_set(struct chart *c, char **field, const char *text)
{
    struct lab_err ignored;
    struct str shown = { 0 };
    table_show(&shown, text);
    free(*field);
    if (shown.failed || !(*field = mem_strdup(str_text(&shown), &ignored))) *field = NULL, c->failed = 1;
    str_free(&shown);
}

struct chart_series *chart_series(struct chart *c, const char *name, int style, enum chart_role role)
{
    struct lab_err ignored;
    if (mem_grow(&c->series, &c->cap_series, c->n_series + 1, sizeof *c->series, &ignored) != 0) return c->failed = 1, NULL;
    struct chart_series *s = &c->series[c->n_series++];
    *s = (struct chart_series){ .style = style % CHART_STYLES, .role = role };
    chart_set(c, &s->name, name);
    return s;
}

void chart_point(struct chart *c, struct chart_series *s, double x, double y)
{
    struct lab_err ignored;
    if (!s || !isfinite(x) || !isfinite(y) || (c->log_y && y <= 0)) return;
    if (mem_grow(&s->x, &s->cap_x, s->n + 1, sizeof *s->x, &ignored) != 0 ||
        mem_grow(&s->y, &s->cap_y, s->n + 1, sizeof *s->y, &ignored) != 0) {
        c->failed = 1;
        return;
    }
    s->x[s->n] = x, s->y[s->n++] = y;
}

void chart_size(struct chart *c, int rows, int columns)
{
    struct lab_err ignored;
    size_t values = (size_t)(rows > 0 ? rows : 1) * (size_t)(columns > 0 ? columns : 1);
    c->row = mem_alloc((size_t)rows * sizeof *c->row, &ignored);
    c->column = mem_alloc((size_t)columns * sizeof *c->column, &ignored);
    c->value = mem_alloc(values * sizeof *c->value, &ignored);
    if (!c->row || !c->column || !c->value) { c->failed = 1; return; }
    c->rows = rows, c->columns = columns;
    for (size_t i = 0; i < values; i++) c->value[i] = NAN;
}

void chart_free(struct chart *c)
{
    for (size_t i = 0; i < c->n_series; i++) free(c->series[i].name), free(c->series[i].x), free(c->series[i].y);
    for (int i = 0; i < c->rows; i++) free(c->row[i]);
    for (int i = 0; i < c->columns; i++) free(c->column[i]);
    free(c->series), free(c->row), free(c->column), free(c->value);
    free(c->title), free(c->x_name), free(c->y_name), free(c->about), free(c->note), free(c->mark_name);
    *c = (struct chart){ 0 };
}

/* ---- axes ---- */

static void widen(double *lo, double *hi, int log)
{
    if (log) {
        *lo = pow(10, floor(log10(*lo))), *hi = pow(10, ceil(log10(*hi)));
        if (*lo == *hi) *hi *= 10;
    } else {
        double margin = *hi > *lo ? 0.04 * (*hi - *lo) : 1;
        *lo -= margin, *hi += margin;
    }
}

struct chart_range chart_range(const struct chart *c)
{
    struct chart_range r = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (size_t i = 0; i < c->n_series; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            r.x_lo = fmin(r.x_lo, c->series[i].x[k]), r.x_hi = fmax(r.x_hi, c->series[i].x[k]);
            r.y_lo = fmin(r.y_lo, c->series[i].y[k]), r.y_hi = fmax(r.y_hi, c->series[i].y[k]);
        }
    if (!(r.x_lo <= r.x_hi)) r = (struct chart_range){ 0, 1, c->log_y ? 0.1 : 0, 1 };
    if (c->categories) r.x_lo = -0.5, r.x_hi = c->columns - 0.5;
    else widen(&r.x_lo, &r.x_hi, 0);
    if (isnan(c->y_lo)) widen(&r.y_lo, &r.y_hi, c->log_y);
    else r.y_lo = c->y_lo, r.y_hi = c->y_hi;
    return r;
}

int chart_ticks(double lo, double hi, int n, double *tick)
{
    static const double nice[] = { 1, 2, 5, 10 };
    double step = 0, power = pow(10, floor(log10((hi - lo) / n)));
    for (int i = 0; i < 4 && step == 0; i++)
        if (floor(hi / (nice[i] * power)) - ceil(lo / (nice[i] * power)) < n) step = nice[i] * power;
    int found = 0;
    for (double k = ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && found < n; k++) tick[found++] = k * step + 0.0;
    return found;
}

void chart_number(double x, char text[24])
{
    snprintf(text, 24, fabs(x) >= 1e6 ? "%.3g" : "%.6g", fabs(x) < 1e-12 ? 0 : x);
}

double chart_share(const struct chart *c, double value)
{
    return isnan(value) || !(c->hi > c->lo) ? value : fmin(1, fmax(0, (value - c->lo) / (c->hi - c->lo)));
}

/* ---- numbers ---- */

static void add_number(struct table *t, double x, const char *format)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    table_number(t, isnan(x) ? NULL : text);
}

/* Longer than wide: telephones and paper are narrow. */
static void grid_data(const struct chart *c, struct table *t)
{
    int turned = c->columns > c->rows, rows = turned ? c->columns : c->rows, columns = turned ? c->rows : c->columns;
    const char *side = turned ? c->x_name : c->y_name;
    table_init(t, columns + 1);
    table_add(t, side ? side : "");
    for (int i = 0; i < columns; i++) table_add(t, turned ? c->row[i] : c->column[i]);
    for (int r = 0; r < rows; r++) {
        table_add(t, turned ? c->column[r] : c->row[r]);
        for (int i = 0; i < columns; i++) add_number(t, c->value[turned ? i * c->columns + r : r * c->columns + i], c->shades ? "%.6g" : "%.3f");
    }
}

static void ranking_data(const struct chart *c, struct table *t)
{
    table_init(t, 2);
    table_add(t, "encoder"), table_add(t, "mean rank");
    for (int r = 0; r < c->rows; r++) table_add(t, c->row[r]), add_number(t, c->value[r], "%.2f");
}

/* Long: one line a point.  A line of a run is thinned to a few dozen. */
static void lines_data(const struct chart *c, struct table *t)
{
    enum { MOST = 12 };
    table_init(t, 3);
    table_add(t, "series"), table_add(t, c->x_name ? c->x_name : "x"), table_add(t, c->y_name ? c->y_name : "y");
    for (size_t i = 0; i < c->n_series; i++) {
        const struct chart_series *s = &c->series[i];
        for (size_t k = 0; k < s->n; k++) {
            char text[24];
            if (s->role == CHART_CURVE && s->n > MOST && k * MOST / s->n == (k + 1) * MOST / s->n) continue;
            table_add(t, s->name);
            chart_number(s->x[k], text);
            if (c->categories && s->x[k] > -0.5 && s->x[k] < c->columns - 0.5) table_add(t, c->column[(int)(s->x[k] + 0.5)]);
            else table_number(t, text);
            add_number(t, s->y[k], "%.4g");
        }
    }
}

void chart_data(const struct chart *c, struct table *t)
{
    if (c->shape == CHART_GRID) grid_data(c, t);
    else if (c->shape == CHART_RANKING) ranking_data(c, t);
    else lines_data(c, t);
}

/* ---- in a terminal: one character a place ---- */

static const char marker[CHART_STYLES + 1] = "ox+*#@%&";

struct canvas { char *cell; int width, height; };

static void put(struct canvas *k, int column, int row, char c, int weak)
{
    if (column < 0 || column >= k->width || row < 0 || row >= k->height) return;
    char *cell = &k->cell[row * k->width + column];
    if (!weak || *cell == ' ') *cell = c;
}

/* 0 at the left or the top. */
static int place_x(const struct chart_range *r, double x, int width) { return (int)floor((x - r->x_lo) / (r->x_hi - r->x_lo) * (width - 1) + 0.5); }
static int place_y(const struct chart *c, const struct chart_range *r, double y, int height)
{
    double share = c->log_y ? log(y / r->y_lo) / log(r->y_hi / r->y_lo) : (y - r->y_lo) / (r->y_hi - r->y_lo);
    return (int)floor((1 - share) * (height - 1) + 0.5);
}

static void draw_line(struct canvas *k, int x0, int y0, int x1, int y1, char c)
{
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 1; i < steps; i++)
        put(k, x0 + (int)floor((double)(x1 - x0) * i / steps + 0.5), y0 + (int)floor((double)(y1 - y0) * i / steps + 0.5), c, 1);
}

static void draw_series(const struct chart *c, const struct chart_range *r, const struct chart_series *s, struct canvas *k)
{
    int connect = s->role != CHART_SEED, last_x = 0, last_y = 0;
    for (size_t i = 0; i < s->n; i++) {
        int x = place_x(r, s->x[i], k->width), y = place_y(c, r, s->y[i], k->height);
        if (connect && i > 0) draw_line(k, last_x, last_y, x, y, s->role == CHART_CURVE ? marker[s->style] : '.');
        if (s->role == CHART_REFERENCE) put(k, x, y, '-', 1);
        else put(k, x, y, s->role == CHART_SEED && !c->categories ? ':' : marker[s->style], s->role != CHART_MEAN);
        last_x = x, last_y = y;
    }
}

static void write_canvas(const struct chart *c, const struct chart_range *r, const struct canvas *k, struct str *out)
{
    double tick[8];
    int n = c->log_y ? 0 : chart_ticks(r->y_lo, r->y_hi, 6, tick);
    if (c->log_y) for (double y = r->y_lo; y <= r->y_hi * 1.001 && n < 8; y *= 10) tick[n++] = y;
    for (int row = 0; row < k->height; row++) {
        char text[24] = "";
        for (int i = 0; i < n; i++) if (place_y(c, r, tick[i], k->height) == row) chart_number(tick[i], text);
        int length = k->width;
        while (length > 0 && k->cell[row * k->width + length - 1] == ' ') length--;
        str_printf(out, "%8s %s%.*s\n", text, *text ? "+" : "|", length, &k->cell[row * k->width]);
    }
}

static void text_under(struct str *line, int at, const char *text)
{
    int n = (int)strlen(text);
    at -= n / 2;
    if (at < 0) at = 0;
    if ((size_t)at < line->len + (line->len > 0)) return;                /* no room: the neighbour stands there */
    str_printf(line, "%*s%s", at - (int)line->len, "", text);
}

static void write_x_axis(const struct chart *c, const struct chart_range *r, int width, struct str *out)
{
    struct str line = { 0 };
    double tick[8];
    char text[24];
    str_printf(out, "%8s +", "");
    for (int i = 0; i < width; i++) str_add(out, "-");
    str_add(out, "\n");
    for (int i = 0; i < c->columns; i++) text_under(&line, place_x(r, c->value[i], width), c->column[i]);
    if (c->columns == 0) for (int i = 0, n = chart_ticks(r->x_lo, r->x_hi, 7, tick); i < n; i++)
        chart_number(tick[i], text), text_under(&line, place_x(r, tick[i], width), text);
    str_printf(out, "%8s  %s\n", "", str_text(&line));
    out->failed |= line.failed;
    str_free(&line);
    if (c->x_name) str_printf(out, "%8s  %s\n", "", c->x_name);
}

static void write_key(const struct chart *c, int columns, struct str *out)
{
    size_t used = 0;
    unsigned named = 0;
    for (size_t i = 0; i < c->n_series; i++) {
        const struct chart_series *s = &c->series[i];
        char sign = s->role == CHART_REFERENCE ? '-' : marker[s->style];
        if (s->role == CHART_SEED || (s->role == CHART_CURVE && named >> s->style & 1)) continue;
        if (s->role == CHART_CURVE) named |= 1u << s->style;
        if (used && used + strlen(s->name) + 5 > (size_t)columns) str_add(out, "\n"), used = 0;
        used += (size_t)5 + strlen(s->name);
        str_printf(out, "  %c %s ", sign, s->name);
    }
    if (!isnan(c->mark) && c->mark_name) str_printf(out, "  | %s", c->mark_name);
    str_add(out, "\n");
}

static void text_lines(const struct chart *c, int columns, struct str *out)
{
    enum { HEIGHT = 18, LEFT = 10 };
    struct lab_err ignored;
    struct chart_range r = chart_range(c);
    struct canvas k = { .width = columns - LEFT > 20 ? columns - LEFT : 20, .height = HEIGHT };
    if (!(k.cell = mem_alloc((size_t)(k.width * k.height), &ignored))) { out->failed = 1; return; }
    memset(k.cell, ' ', (size_t)(k.width * k.height));
    static const enum chart_role order[] = { CHART_MEAN, CHART_CURVE, CHART_SEED, CHART_REFERENCE };     /* who comes first keeps the place */
    for (int i = 0; i < 4; i++)
        for (size_t s = 0; s < c->n_series; s++) if (c->series[s].role == order[i]) draw_series(c, &r, &c->series[s], &k);
    for (int row = 0; row < k.height && !isnan(c->mark); row++) put(&k, place_x(&r, c->mark, k.width), row, '|', 1);
    if (c->y_name) str_printf(out, "%s\n", c->y_name);
    write_canvas(c, &r, &k, out);
    write_x_axis(c, &r, k.width, out);
    write_key(c, columns, out);
    free(k.cell);
}

static int widest_row(const struct chart *c)
{
    int width = 1;
    for (int r = 0; r < c->rows; r++) if ((int)strlen(c->row[r]) > width) width = (int)strlen(c->row[r]);
    return width;
}

static void end_line(struct str *out)
{
    while (out->len && out->text[out->len - 1] == ' ') out->text[--out->len] = '\0';
    str_add(out, "\n");
}

static const char shade[] = " .:-=+*#%@";
static char shade_of(const struct chart *c, double value)
{
    double share = chart_share(c, value);
    return isnan(share) ? ' ' : shade[(int)fmin(9, floor(share * 10))];
}

/* A character a cell, under the last digit of its column's name; what has no room is said to be missing. */
static void text_map(const struct chart *c, int columns, struct str *out)
{
    int width = widest_row(c), shown = c->columns < columns - width - 1 ? c->columns : columns - width - 1;
    str_printf(out, "%*s ", width, "");
    for (int i = 0; i < shown; i++) str_printf(out, "%c", c->column[i][strlen(c->column[i]) - 1]);
    end_line(out);
    for (int r = 0; r < c->rows; r++) {
        str_printf(out, "%-*s ", width, c->row[r]);
        for (int i = 0; i < shown; i++) str_printf(out, "%c", shade_of(c, c->value[r * c->columns + i]));
        end_line(out);
    }
    if (shown < c->columns) str_printf(out, "no room for %s to %s\n", c->column[shown], c->column[c->columns - 1]);
}

/* Ten shades; numbers beside them while there is room. */
static void text_grid(const struct chart *c, int columns, struct str *out)
{
    int width = widest_row(c), numbers = width + c->columns * 8 <= columns;
    str_printf(out, "%*s", width, "");
    for (int i = 0; i < c->columns && numbers; i++) str_printf(out, "%8.7s", c->column[i]);
    for (int i = 0; i < c->columns && !numbers; i++) str_printf(out, "%s%c", i ? "" : "  ", c->column[i][strlen(c->column[i]) - 1]);
    str_add(out, "\n");
    for (int r = 0; r < c->rows; r++) {
        str_printf(out, "%-*s%s", width, c->row[r], numbers ? "" : "  ");
        for (int i = 0; i < c->columns; i++) {
            double v = c->value[r * c->columns + i];
            if (!numbers) str_printf(out, "%c", shade_of(c, v));
            else if (isnan(v)) str_printf(out, "%8s", "-");
            else str_printf(out, "  %.2f %c", v, shade_of(c, v));
        }
        end_line(out);
    }
    str_printf(out, "down: %s; across: %s; shades from %g to %g: '%s'\n", c->y_name ? c->y_name : "", c->x_name ? c->x_name : "",
               c->lo, c->hi, shade);
}

static void text_ranking(const struct chart *c, int columns, struct str *out)
{
    int width = widest_row(c), bar = columns - width - 8 > 10 ? columns - width - 8 : 10;
    for (int r = 0; r < c->rows; r++) {
        int at = c->rows > 1 ? (int)((c->value[r] - 1) / (c->rows - 1) * (bar - 1) + 0.5) : 0;
        str_printf(out, "%-*s %5.2f ", width, c->row[r], c->value[r]);
        for (int i = 0; i < at; i++) str_add(out, ".");
        str_add(out, "o\n");
    }
    if (isnan(c->critical)) return;
    int length = c->rows > 1 ? (int)(c->critical / (c->rows - 1) * (bar - 1) + 0.5) : 0;
    str_printf(out, "%-*s %5.2f ", width, "CD", c->critical);
    for (int i = 0; i < length && i < bar; i++) str_add(out, "=");
    str_add(out, length > bar ? ">" : "");
    str_add(out, "\nranks nearer than CD do not differ at 0.05\n");
}

void chart_text(const struct chart *c, int columns, struct str *out)
{
    str_printf(out, "%s\n", c->title ? c->title : "");
    if (c->shape == CHART_GRID) (c->shades ? text_map : text_grid)(c, columns, out);
    else if (c->shape == CHART_RANKING) text_ranking(c, columns, out);
    else text_lines(c, columns, out);
    if (c->note) str_printf(out, "%s\n", c->note);
    out->failed |= c->failed;
}
