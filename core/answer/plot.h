/* plot -- which pictures an experiment gives: chooses the kind from the data and fills the charts. */
#ifndef LAB_ANSWER_PLOT_H
#define LAB_ANSWER_PLOT_H
#include "answer/chart.h"
#include "answer/compare.h"

enum plot_kind { PLOT_LENGTH,        /* token accuracy by length, every seed drawn */
                 PLOT_LOSS,          /* training loss by step, every seed drawn */
                 PLOT_HEATMAP,       /* encoder x length */
                 PLOT_POSITION,      /* length x position, for each encoder */
                 PLOT_RANKS,         /* mean ranks over tasks */
                 PLOT_SEEDS,         /* one column an encoder, one point a seed */
                 PLOT_KINDS };
extern const char *const plot_names[];                       /* by kind; ends in NULL */

struct plot { struct chart *chart; size_t n, cap; };
/* The kind that says most: by length if there are several; else seeds; else, before anything is evaluated, loss. */
enum plot_kind plot_choose(const struct study *);
/* Adds the charts of one kind for the panels of the comparison; none if there is nothing to draw.  0 or -1. */
int  plot_add(struct plot *, const struct compare *, enum plot_kind);
void plot_free(struct plot *);

/* Through the program gnuplot, whose script comes on its standard input: format svg, png or pdf. */
void gnuplot_script(const struct plot *, const char *format, struct str *script);
/* 0, -1, or GNUPLOT_MISSING. */
enum { GNUPLOT_MISSING = 1 };
int  gnuplot_run(const struct str *script, struct str *out, struct lab_err *err);
#endif
