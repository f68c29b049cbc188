/* gnuplot -- charts as a script for the program gnuplot, and running it: for SVG, PNG and PDF files.
 *
 * No shell is involved, and no name becomes code: texts stand between single quotes, inside which gnuplot expands nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "answer/plot.h"

/* Okabe and Ito's colours, which colour-blind readers can tell apart, without their yellow, too light on paper. */
static const char *const colour[CHART_STYLES] = { "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F" };
static const int point_type[CHART_STYLES] = { 7, 5, 9, 13, 11, 2, 1, 6 };

/* ---- the script ---- */

static void quoted(struct str *out, const char *text)
{
    str_add(out, "'");
    for (; text && *text; text++) {
        if (*text == '\'') str_add(out, "''");
        else str_addn(out, (unsigned char)*text < ' ' || *text == 0x7f ? " " : text, 1);
    }
    str_add(out, "'");
}

static void set_text(struct str *out, const char *what, const char *text)
{
    str_printf(out, "set %s ", what);
    quoted(out, text);
    str_add(out, " noenhanced\n");
}

/* Names along an axis, at the values of `at` or at 0, 1, ...; of many, every second or third. */
static void name_ticks(struct str *out, const char *axis, char *const *name, const double *at, int n, int reversed)
{
    int every = (n + 15) / 16;
    str_printf(out, "set %stics %s(", axis, *axis == 'x' && n > 4 && strlen(name[0]) + strlen(name[n - 1]) > 8 ? "rotate by -30 " : "");
    for (int i = 0; i < n; i += every) {
        str_add(out, i ? ", " : "");
        quoted(out, name[i]);
        str_printf(out, " %g", at ? at[i] : reversed ? n - 1 - i : i);
    }
    str_add(out, ") noenhanced\n");
}

static void data_block(struct str *out, const char *name, size_t number, const struct chart_series *s)
{
    str_printf(out, "$%s%zu << END_OF_DATA\n", name, number);
    for (size_t i = 0; i < s->n; i++) str_printf(out, "%.9g %.9g\n", s->x[i], s->y[i]);
    str_add(out, "END_OF_DATA\n");
}

static void draw_with(struct str *out, const struct chart_series *s, int alone, int titled)
{
    static const char *const how[] = {
        [CHART_MEAN] = " with linespoints lw 2 pt %d ps 0.9 lc rgb '%s'", [CHART_SEED] = " with points pt %d ps %g lc rgb '%s'",
        [CHART_CURVE] = " with lines lw 1.3", [CHART_REFERENCE] = " with lines lw 1.5" };
    char text[128] = "";
    switch (s->role) {
    case CHART_MEAN: snprintf(text, sizeof text, how[CHART_MEAN], point_type[s->style], colour[s->style]); break;
    case CHART_SEED: snprintf(text, sizeof text, how[CHART_SEED], point_type[s->style], alone ? 1 : 0.5, colour[s->style]); break;
    case CHART_CURVE: snprintf(text, sizeof text, "%s lc rgb '%s'", how[CHART_CURVE], colour[s->style]); break;
    case CHART_REFERENCE: snprintf(text, sizeof text, "%s dt %d lc rgb '#555555'", how[CHART_REFERENCE], s->style ? 3 : 2); break;
    }
    str_add(out, text);
    if (titled) str_add(out, " title "), quoted(out, s->name), str_add(out, " noenhanced");
    else str_add(out, " notitle");
}

static void lines_script(const struct chart *c, struct str *out)
{
    struct chart_range r = chart_range(c);
    unsigned named = 0;
    for (size_t i = 0; i < c->n_series; i++) if (c->series[i].n) data_block(out, "s", i, &c->series[i]);
    str_printf(out, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", r.x_lo, r.x_hi, r.y_lo, r.y_hi);
    str_add(out, c->log_y ? "set logscale y\nset format y '%g'\n" : "");
    if (c->columns) name_ticks(out, "x", c->column, c->value, c->columns, 0);
    if (!isnan(c->mark)) {
        str_printf(out, "set arrow 1 from %.9g, graph 0 to %.9g, graph 1 nohead dt 4 lc rgb '#555555'\n", c->mark, c->mark);
        str_add(out, "set label 1 "), quoted(out, c->mark_name);
        str_printf(out, " at %.9g, graph 0.03 offset character 0.6, 0 noenhanced textcolor rgb '#555555'\n", c->mark);
    }
    str_add(out, "set key outside right top vertical Left reverse noenhanced\nplot ");
    int drawn = 0;
    for (size_t i = 0; i < c->n_series; i++) {
        const struct chart_series *s = &c->series[i];
        if (!s->n) continue;
        int titled = s->role != CHART_SEED && !(s->role == CHART_CURVE && named >> s->style & 1);
        if (s->role == CHART_CURVE) named |= 1u << s->style;
        str_printf(out, "%s$s%zu using 1:2", drawn++ ? ", \\\n  " : "", i);
        draw_with(out, s, c->categories, titled);
    }
    str_add(out, drawn ? "\n" : "1/0 notitle\n");
}

static void grid_script(const struct chart *c, struct str *out)
{
    str_add(out, "$g << END_OF_DATA\n");
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < c->columns; i++)
            if (!isnan(c->value[r * c->columns + i])) str_printf(out, "%d %d %.6g\n", i, c->rows - 1 - r, c->value[r * c->columns + i]);
    str_add(out, "END_OF_DATA\n");
    name_ticks(out, "x", c->column, NULL, c->columns, 0);
    name_ticks(out, "y", c->row, NULL, c->rows, 1);
    str_printf(out, "set xrange [-0.5:%g]\nset yrange [-0.5:%g]\nset cbrange [%.9g:%.9g]\nset palette defined (0 '#440154', 0.25 '#3b528b', 0.5 '#21918c', 0.75 '#5ec962', 1 '#fde725')\n"
               "unset key\n", c->columns - 0.5, c->rows - 0.5, c->lo, c->hi);
    str_add(out, "plot $g using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid noborder lc palette");
    if (c->columns <= 12 && !c->shades)      /* the number in each cell, black on light and white on dark */
        str_printf(out, ", $g using 1:2:(sprintf('%%.2f', $3)):($3 > %g ? 0 : 0xffffff) with labels noenhanced textcolor rgb variable",
                   c->lo + 0.6 * (c->hi - c->lo));
    str_add(out, "\n");
}

static void ranking_script(const struct chart *c, struct str *out)
{
    str_add(out, "$g << END_OF_DATA\n");
    for (int r = 0; r < c->rows; r++) str_printf(out, "%.6g %d\n", c->value[r], c->rows - 1 - r);
    str_add(out, "END_OF_DATA\n");
    name_ticks(out, "y", c->row, NULL, c->rows, 1);
    str_printf(out, "set xrange [0.5:%g]\nset yrange [-1:%g]\nunset key\n", c->rows + 0.5, c->rows - 0.2);
    if (!isnan(c->critical)) {
        double end = 1 + c->critical;
        int far = end > c->rows + 0.5;
        str_printf(out, "set arrow 1 from 1, -0.6 to %.6g, -0.6 %s lw 3\n", far ? c->rows + 0.5 : end, far ? "head" : "nohead");
        str_printf(out, "set label 1 'CD = %.2f: ranks nearer than this do not differ' at 1, -0.6 offset character 0, 0.7\n", c->critical);
    }
    str_add(out, "plot $g using 1:2 with points pt 7 ps 1.2 lc rgb '#0072B2'\n");
}

static void chart_script(const struct chart *c, struct str *out)
{
    str_add(out, "reset\nset border 3\nset tics nomirror out\nset grid lc rgb '#dddddd'\n");
    set_text(out, "title", c->title);
    if (c->shape == CHART_RANKING) set_text(out, "xlabel", "mean rank");
    else set_text(out, "xlabel", c->x_name), set_text(out, "ylabel", c->y_name);
    if (c->note) str_add(out, "set label 99 "), quoted(out, c->note), str_add(out, " noenhanced at graph 0, graph 1 offset 0, character 0.6 font ',9'\n");
    if (c->shape == CHART_LINES) lines_script(c, out);
    else if (c->shape == CHART_GRID) grid_script(c, out);
    else ranking_script(c, out);
}

void gnuplot_script(const struct plot *p, const char *format, struct str *out)
{
    int across = p->n > 1 ? 2 : 1, down = ((int)p->n + across - 1) / across;
    if (!strcmp(format, "pdf")) str_printf(out, "set terminal pdfcairo noenhanced font 'sans,11' size %g,%g\n", 6.0 * across, 4.2 * down);
    else if (!strcmp(format, "png")) str_printf(out, "set terminal pngcairo noenhanced font 'sans,11' size %d,%d\n", 720 * across, 500 * down);
    else str_printf(out, "set terminal svg noenhanced font 'sans-serif,14' size %d,%d background rgb 'white'\n", 720 * across, 500 * down);
    if (p->n > 1) str_printf(out, "set multiplot layout %d,%d\n", down, across);
    for (size_t i = 0; i < p->n; i++) chart_script(&p->chart[i], out), out->failed |= p->chart[i].failed;
    if (p->n > 1) str_add(out, "unset multiplot\n");
}

/* ---- running it ---- */

static void become_gnuplot(const int in[2], const int out[2])
{
    int nothing = open("/dev/null", O_WRONLY);
    dup2(in[0], 0), dup2(out[1], 1);
    if (nothing >= 0) dup2(nothing, 2);
    close(in[0]), close(in[1]), close(out[0]), close(out[1]);
    execlp("gnuplot", "gnuplot", "-d", "-", (char *)NULL);   /* -d: not the user's own settings */
    _exit(127);
}

/* Feeds the script and takes the picture at the same time: neither pipe holds all of it. */
static int exchange(int to, int from, const struct str *script, struct str *out)
{
    size_t sent = 0;
    for (;;) {
        struct pollfd p[2] = { { from, POLLIN, 0 }, { to, POLLOUT, 0 } };
        char buffer[65536];
        if (poll(p, to >= 0 ? 2 : 1, -1) < 0 && errno != EINTR) break;
        if (to >= 0 && p[1].revents) {
            ssize_t n = write(to, script->text + sent, script->len - sent);
            if (n > 0) sent += (size_t)n;
            if (sent == script->len || (n < 0 && errno != EINTR && errno != EAGAIN)) close(to), to = -1;
        }
        if (!p[0].revents) continue;
        ssize_t n = read(from, buffer, sizeof buffer);
        if (n == 0 && to < 0) return 0;
        if (n == 0 || (n < 0 && errno != EINTR)) break;
        if (n > 0) str_addn(out, buffer, (size_t)n);
    }
    if (to >= 0) close(to);
    return -1;
}

int gnuplot_run(const struct str *script, struct str *out, struct lab_err *err)
{
    int in[2], from[2], status = 0;
    if (script->failed) return lab_fail(err, "out of memory while drawing");
    if (pipe2(in, O_CLOEXEC) != 0) return lab_fail(err, "gnuplot could not be started: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC) != 0) { close(in[0]), close(in[1]); return lab_fail(err, "gnuplot could not be started: %s", strerror(errno)); }
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
    sigaction(SIGPIPE, &ignore, &old);                       /* a gnuplot that is not there closes its end */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) become_gnuplot(in, from);
    close(in[0]), close(from[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);                       /* a large write must not wait while the picture waits for us */
    int rc = child > 0 ? exchange(in[1], from[0], script, out) : (close(in[1]), -1);
    close(from[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) { }
    sigaction(SIGPIPE, &old, NULL);
    if (child < 0) return lab_fail(err, "gnuplot could not be started");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        lab_fail(err, "the program gnuplot is not installed (Debian: apt install gnuplot-nox); --format text needs none");
        return GNUPLOT_MISSING;
    }
    if (rc != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || out->len == 0)
        return lab_fail(err, "gnuplot could not draw this; --format text shows the same numbers");
    return out->failed ? lab_fail(err, "out of memory while drawing") : 0;
}
