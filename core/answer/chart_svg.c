/* chart_svg -- a chart as SVG inside a page, and its key as a list below it.
 *
 * Colours are the page's variables --s0 to --s7, --ink, --faint and --paper, so a dark page has light lines.  400 units wide,
 * so that text is still readable where the picture is as narrow as a telephone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "answer/chart.h"

enum { WIDTH = 400, HEIGHT = 280, RIGHT = 10, TOP = 10, LETTER = 7 };    /* LETTER: the width of one, about */

struct frame { double left, right, top, bottom; };

static void text(struct str *out, double x, double y, const char *class, const char *words)
{
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\"%s%s%s>", x, y, *class ? " class=\"" : "", class, *class ? "\"" : "");
    table_html(out, words);
    str_add(out, "</text>\n");
}

static void line(struct str *out, double x0, double y0, double x1, double y1, const char *class)
{
    str_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, class);
}

/* Eight shapes of the same size, so that colour is never all that tells two series apart. */
static void marker(struct str *out, double x, double y, double r, int style)
{
    static const char *const shape[CHART_STYLES] = {         /* in units of r around (x, y) */
        "-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0", "-.9 -.9h1.8v1.8h-1.8z", "0 -1.1l1.1 1.9h-2.2z", "0 -1.2l1.2 1.2l-1.2 1.2l-1.2 -1.2z",
        "0 1.1l1.1 -1.9h-2.2z", "-.4 -1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z", "-1.1 0l1.9 -1.1v2.2z", "1.1 0l-1.9 -1.1v2.2z" };
    str_printf(out, "<path class=\"m%d\" transform=\"translate(%.1f %.1f)scale(%.1f)\" d=\"m%s\"/>", style, x, y, r, shape[style]);
}

static double map(double x, double lo, double hi, double from, double to) { return from + (x - lo) / (hi - lo) * (to - from); }

static double map_y(const struct chart *c, const struct chart_range *r, const struct frame *f, double y)
{
    return c->log_y ? map(log(y), log(r->y_lo), log(r->y_hi), f->bottom, f->top) : map(y, r->y_lo, r->y_hi, f->bottom, f->top);
}

static double longest(char *const *name, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) if (name[i] && strlen(name[i]) > most) most = strlen(name[i]);
    return (double)most * LETTER;
}

/* Names of categories that are too long to stand below the axis stand in the key. */
static int long_names(const struct chart *c) { return c->categories && longest(c->column, c->columns) > 16 * LETTER; }

/* Names along the x axis; slanted if they would touch. */
static void x_names(const struct chart *c, struct str *out, const double *at, char *const *name, int n, const struct frame *f)
{
    int slanted = c->categories && longest(name, n) > (f->right - f->left) / n - 4, every = 1;
    while (!slanted && n / every * longest(name, n) > f->right - f->left) every++;
    for (int i = 0; i < n; i += every) {
        if (!name[i]) continue;
        if (!slanted) { text(out, at[i], f->bottom + 15, "c", name[i]); continue; }
        str_printf(out, "<text transform=\"translate(%.1f %.1f)rotate(-35)\" class=\"e\">", at[i] + 4, f->bottom + 13);
        table_html(out, name[i]);
        str_add(out, "</text>\n");
    }
}

static void y_axis(const struct chart *c, const struct chart_range *r, const struct frame *f, struct str *out)
{
    double tick[8];
    int n = c->log_y ? 0 : chart_ticks(r->y_lo, r->y_hi, 6, tick);
    if (c->log_y) for (double y = r->y_lo; y <= r->y_hi * 1.001 && n < 8; y *= 10) tick[n++] = y;
    for (int i = 0; i < n; i++) {
        char number[24];
        double y = map_y(c, r, f, tick[i]);
        chart_number(tick[i], number);
        line(out, f->left, y, f->right, y, "grid");
        text(out, f->left - 5, y + 4, "e", number);
    }
}

static void x_axis(const struct chart *c, const struct chart_range *r, const struct frame *f, struct str *out)
{
    double at[64], tick[8];
    char *name[64], number[8][24];
    int n = c->columns < 64 ? c->columns : 64;
    for (int i = 0; i < n; i++) at[i] = map(c->value[i], r->x_lo, r->x_hi, f->left, f->right), name[i] = c->column[i];
    if (c->columns == 0) {
        n = chart_ticks(r->x_lo, r->x_hi, 6, tick);
        for (int i = 0; i < n; i++) at[i] = map(tick[i], r->x_lo, r->x_hi, f->left, f->right), chart_number(tick[i], number[i]), name[i] = number[i];
    }
    if (!long_names(c)) x_names(c, out, at, name, n, f);
    if (c->x_name && !c->categories) text(out, (f->left + f->right) / 2, f->bottom + 32, "c", c->x_name);
}

static void polyline(const struct chart *c, const struct chart_range *r, const struct frame *f, const struct chart_series *s, struct str *out)
{
    static const char *const role[] = { [CHART_MEAN] = "", [CHART_CURVE] = " thin", [CHART_REFERENCE] = " ref", [CHART_SEED] = "" };
    if (s->role == CHART_REFERENCE) str_printf(out, "<polyline class=\"ref r%d\" points=\"", s->style);
    else str_printf(out, "<polyline class=\"l%d%s\" points=\"", s->style, role[s->role]);
    for (size_t i = 0; i < s->n; i++)
        str_printf(out, "%s%.1f,%.1f", i ? " " : "", map(s->x[i], r->x_lo, r->x_hi, f->left, f->right), map_y(c, r, f, s->y[i]));
    str_add(out, "\"/>\n");
}

static void svg_lines(const struct chart *c, struct str *out)
{
    struct chart_range r = chart_range(c);
    struct frame f = { 52, WIDTH - RIGHT, TOP, HEIGHT - 40 };
    if (c->categories && !long_names(c) && longest(c->column, c->columns) > (f.right - f.left) / c->columns - 4)
        f.bottom = HEIGHT - 14 - 0.6 * longest(c->column, c->columns);
    if (f.bottom < HEIGHT / 2) f.bottom = HEIGHT / 2;
    y_axis(c, &r, &f, out);
    x_axis(c, &r, &f, out);
    if (!isnan(c->mark)) {
        double x = map(c->mark, r.x_lo, r.x_hi, f.left, f.right);
        line(out, x, f.top, x, f.bottom, "mark");
        if (c->mark_name) text(out, x + 5, f.bottom - 6, "", c->mark_name);
    }
    for (size_t i = 0; i < c->n_series; i++)
        if (c->series[i].n > 1 && c->series[i].role != CHART_SEED) polyline(c, &r, &f, &c->series[i], out);
    for (size_t i = 0; i < c->n_series; i++) {
        const struct chart_series *s = &c->series[i];
        if (s->role != CHART_MEAN && s->role != CHART_SEED) continue;
        for (size_t k = 0; k < s->n; k++)
            marker(out, map(s->x[k], r.x_lo, r.x_hi, f.left, f.right), map_y(c, &r, &f, s->y[k]),
                   s->role == CHART_MEAN || c->categories ? 4 : 2, s->style);
        if (s->n) str_add(out, "\n");
    }
    line(out, f.left, f.bottom, f.right, f.bottom, "axis");
}

/* Viridis between five of its colours: equal steps of accuracy are equal steps of lightness. */
static void shade(double value, char colour[8], int *dark)
{
    static const int stop[5][3] = { { 0x44, 0x01, 0x54 }, { 0x3b, 0x52, 0x8b }, { 0x21, 0x91, 0x8c }, { 0x5e, 0xc9, 0x62 }, { 0xfd, 0xe7, 0x25 } };
    double at = fmin(1, fmax(0, value)) * 4;
    int i = at >= 4 ? 3 : (int)at, rgb[3];
    for (int k = 0; k < 3; k++) rgb[k] = (int)(stop[i][k] + (at - i) * (stop[i + 1][k] - stop[i][k]) + 0.5) & 0xff;
    snprintf(colour, 8, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
    *dark = value < 0.55;            /* white on it has a contrast of 4.5 at least up to here, black beyond */
}

static double grid_row(const struct chart *c) { return c->columns > 12 ? 20 : 26; }

static void svg_grid(const struct chart *c, struct str *out)
{
    double left = longest(c->row, c->rows) + 8, row = grid_row(c), at[512];
    struct frame f = { left, WIDTH - RIGHT, TOP, TOP + row * c->rows };
    double width = c->columns ? (f.right - f.left) / c->columns : 0;
    for (int r = 0; r < c->rows; r++) {
        text(out, f.left - 5, f.top + row * (r + 0.5) + 4, "e", c->row[r] ? c->row[r] : "");
        for (int i = 0; i < c->columns; i++) {
            double value = c->value[r * c->columns + i];
            char colour[8], number[8];
            int dark;
            if (isnan(value)) continue;
            shade(chart_share(c, value), colour, &dark);
            str_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", f.left + width * i,
                       f.top + row * r, width + 0.2, row, colour);
            if (c->columns > 12 || c->shades) continue;
            snprintf(number, sizeof number, "%.2f", value);
            str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"c\" style=\"fill:%s\">%s</text>", f.left + width * (i + 0.5),
                       f.top + row * (r + 0.5) + 4,
                       dark ? "#fff" : "#000", number);
        }
        str_add(out, "\n");
    }
    int n = c->columns < 512 ? c->columns : 512;
    for (int i = 0; i < n; i++) at[i] = f.left + width * (i + 0.5);
    x_names(c, out, at, c->column, n, &f);
    if (c->x_name) text(out, (f.left + f.right) / 2, f.bottom + 32, "c", c->x_name);
}

static void svg_ranking(const struct chart *c, struct str *out)
{
    double left = longest(c->row, c->rows) + 12, row = 26;
    struct frame f = { left, WIDTH - RIGHT - 30, TOP, TOP + row * c->rows };
    double hi = c->rows > 1 ? c->rows : 2;
    for (int rank = 1; rank <= c->rows; rank += c->rows > 12 ? 5 : 1) {
        char number[24];
        double x = map(rank, 1, hi, f.left, f.right);
        line(out, x, f.top, x, f.bottom, "grid");
        chart_number(rank, number);
        text(out, x, f.bottom + 15, "c", number);
    }
    for (int r = 0; r < c->rows; r++) {
        char number[16];
        double y = f.top + row * (r + 0.5), x = map(c->value[r], 1, hi, f.left, f.right);
        snprintf(number, sizeof number, "%.2f", c->value[r]);
        text(out, f.left - 9, y + 4, "e", c->row[r] ? c->row[r] : "");
        marker(out, x, y, 5, 0);
        text(out, x + 8, y + 4, "", number);
    }
    if (isnan(c->critical)) return;
    double end = map(1 + c->critical, 1, hi, f.left, f.right);
    line(out, f.left, f.bottom + 28, fmin(end, WIDTH - RIGHT), f.bottom + 28, "cd");
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\">CD = %.2f%s</text>\n", f.left, f.bottom + 43, c->critical,
               end > WIDTH - RIGHT ? ", wider than the scale" : "");
}

static double height(const struct chart *c)
{
    if (c->shape == CHART_GRID) return TOP + grid_row(c) * c->rows + 38;
    return c->shape == CHART_RANKING ? TOP + 26 * c->rows + (isnan(c->critical) ? 22 : 50) : HEIGHT;
}

void chart_svg(const struct chart *c, const char *id, struct str *out)
{
    str_printf(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">", WIDTH, height(c), id, id, id);
    table_html(out, c->title ? c->title : "");
    str_printf(out, "</title>\n<desc id=\"%s-d\">", id);
    table_html(out, c->about ? c->about : "");
    str_add(out, "</desc>\n");
    if (c->shape == CHART_GRID) svg_grid(c, out);
    else if (c->shape == CHART_RANKING) svg_ranking(c, out);
    else svg_lines(c, out);
    str_add(out, "</svg>\n");
    out->failed |= c->failed;
}

static void scale_key(const struct chart *c, struct str *out)
{
    str_add(out, "<ul class=\"key\">\n");
    for (int quarter = 0; quarter <= 4; quarter++) {
        char colour[8];
        int dark;
        shade(quarter / 4.0, colour, &dark);
        str_printf(out, "<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect width=\"26\" height=\"12\" fill=\"%s\"/></svg>%g</li>\n", colour, c->lo + quarter / 4.0 * (c->hi - c->lo));
    }
    str_add(out, "</ul>\n");
}

static void lines_key(const struct chart *c, struct str *out)
{
    unsigned named = 0;
    str_add(out, "<ul class=\"key\">\n");
    for (size_t i = 0; i < c->n_series; i++) {
        const struct chart_series *s = &c->series[i];
        if ((s->role == CHART_SEED && !c->categories) || (s->role == CHART_CURVE && named >> s->style & 1)) continue;
        if (s->role == CHART_CURVE) named |= 1u << s->style;
        str_add(out, "<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">");
        if (s->role == CHART_REFERENCE) str_printf(out, "<line x1=\"0\" y1=\"6\" x2=\"26\" y2=\"6\" class=\"ref r%d\"/>", s->style);
        else if (s->role != CHART_SEED) str_printf(out, "<line x1=\"0\" y1=\"6\" x2=\"26\" y2=\"6\" class=\"l%d\"/>", s->style);
        if (s->role == CHART_MEAN || s->role == CHART_SEED) marker(out, 13, 6, 4, s->style);
        str_add(out, "</svg>");
        table_html(out, s->name);
        str_add(out, "</li>\n");
    }
    str_add(out, "</ul>\n");
}

void chart_key(const struct chart *c, struct str *out)
{
    if (c->shape == CHART_GRID) scale_key(c, out);
    if (c->shape == CHART_LINES && (!c->categories || long_names(c))) lines_key(c, out);
    if (!c->note) return;
    str_add(out, "<p class=\"note\">"), table_html(out, c->note), str_add(out, "</p>\n");
}
