/* chart -- a picture before it is drawn: named series, a grid of values, or a ranking.
 *
 * Three ways to draw one: chart_text for a terminal, chart_svg for a page (it takes its colours from the page, so that it
 * is readable in the dark), gnuplot for files.  Series are told apart by colour and by marker.  Like struct str, a chart
 * remembers that memory ran out in `failed`, and the caller asks once, at the end.
 */
#ifndef LAB_ANSWER_CHART_H
#define LAB_ANSWER_CHART_H
#include "answer/table.h"
#include "base/str.h"

enum chart_shape { CHART_LINES, CHART_GRID, CHART_RANKING };
enum chart_role { CHART_MEAN,        /* a line with markers */
                  CHART_SEED,        /* points of single runs, without a name in the key */
                  CHART_CURVE,       /* a thin line of a single run; the first of a style stands in the key */
                  CHART_REFERENCE }; /* a dashed line: what guessing reaches */
enum { CHART_STYLES = 8 };           /* colours, and markers; then they begin again */

struct chart_series { char *name; int style; enum chart_role role; double *x, *y; size_t n, cap_x, cap_y; };
struct chart {
    enum chart_shape shape;
    char *title, *x_name, *y_name;
    char *about;                     /* one sentence for who cannot see it */
    char *note;                      /* runs that are not in it, or wrong; NULL: all are and are not */
    struct chart_series *series; size_t n_series, cap_series;
    double y_lo, y_hi;               /* NaN: from the data */
    int log_y, categories;           /* categories: x = 0, 1, ... are the columns, and points lie beside them */
    double mark; char *mark_name;    /* a vertical line; NaN: none */
    char **row, **column; int rows, columns;
    double *value;                   /* GRID: [rows, columns], NaN = none.  RANKING: [rows] mean ranks.
                                      * LINES: [columns] where the names of the x axis stand; no columns: round numbers */
    double lo, hi;                   /* GRID: the values at the ends of the scale, 0 and 1 unless set */
    int shades;                      /* GRID: a map, one character a cell and no numbers, however much room there is */
    double critical;                 /* RANKING: ranks nearer than this do not differ; NaN: not known */
    int failed;
};

void chart_init(struct chart *, enum chart_shape);
void chart_set(struct chart *, char **field, const char *text);          /* one of its texts */
/* The new series, until the next one is added; NULL when memory ran out, which chart_point ignores. */
struct chart_series *chart_series(struct chart *, const char *name, int style, enum chart_role);
void chart_point(struct chart *, struct chart_series *, double x, double y);     /* what is not finite is left out */
void chart_size(struct chart *, int rows, int columns);      /* room for names and values */
void chart_free(struct chart *);

struct chart_range { double x_lo, x_hi, y_lo, y_hi; };
struct chart_range chart_range(const struct chart *);        /* of all points, a little wider; y as given */
/* Round numbers in lo..hi, at most n (and at least one); the step between them is 1, 2 or 5 times a power of ten. */
int  chart_ticks(double lo, double hi, int n, double *tick);
void chart_number(double x, char text[24]);                  /* 0.25, 1000, 1e-05 */
double chart_share(const struct chart *, double value);      /* where a grid's value is on its scale, from 0 to 1; NaN: none */

void chart_text(const struct chart *, int columns, struct str *out);
void chart_svg(const struct chart *, const char *id, struct str *out);
void chart_key(const struct chart *, struct str *out);       /* the key below an SVG, as an HTML list */
void chart_data(const struct chart *, struct table *);       /* what is drawn, as numbers; the table is initialised here */
#endif
