/* progress -- see progress.h. */
#include "run/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"

#define DRAW_NS   (250 * INT64_C(1000000))
#define REPORT_NS (30 * INT64_C(1000000000))
enum { WIDTH = 80, HEIGHT = 24, BAR_MIN = 10, BAR_MAX = 30 };

/* ---- the line ---- */

enum part { RUNS, FAILED, RATE, LEFT, N_PART };

static void write_parts(char part[N_PART][48], const struct progress_now *now, double seconds)
{
    double rate = seconds > 0 ? now->steps / seconds : 0;
    struct str left = { 0 };
    for (int i = 0; i < N_PART; i++) part[i][0] = '\0';
    snprintf(part[RUNS], sizeof part[RUNS], "%d/%d runs", now->done + now->failed, now->total);
    if (now->failed) snprintf(part[FAILED], sizeof part[FAILED], "  %d failed", now->failed);
    if (rate <= 0) return;
    snprintf(part[RATE], sizeof part[RATE], rate < 10 ? "  %.1f steps/s" : "  %.0f steps/s", rate);
    if (now->left < 0) return;
    str_duration(&left, now->left);
    snprintf(part[LEFT], sizeof part[LEFT], "  %s left", str_text(&left));
    str_free(&left);
}

void progress_line(char *out, size_t size, const struct progress_now *now, double seconds, int width, int bar)
{
    static const enum part dispensable[] = { RATE, LEFT, FAILED };       /* the first to go in a narrow terminal */
    char part[N_PART][48], drawn[2 * BAR_MAX + 4] = "";
    int room = width - 1;                                                /* the last column may wrap */
    write_parts(part, now, seconds);
    for (size_t drop = 0; ; drop++) {
        int used = 0;
        for (int i = 0; i < N_PART; i++) used += (int)strlen(part[i]);
        if (used <= room || drop == sizeof dispensable / sizeof *dispensable) { room -= used; break; }
        part[dispensable[drop]][0] = '\0';
    }
    int cells = room - 3 < BAR_MAX ? room - 3 : BAR_MAX;                 /* 3: "[" and "] " */
    if (bar && cells >= BAR_MIN) {
        int full = now->total ? (int)((int64_t)(now->done + now->failed) * cells / now->total) : cells;
        snprintf(drawn, sizeof drawn, "[%.*s%.*s] ", full, "##############################", cells - full,
                 "..............................");
    }
    size_t limit = width > 0 && (size_t)width < size ? (size_t)width : size;
    snprintf(out, limit, "%s%s%s%s%s", drawn, part[RUNS], part[FAILED], part[RATE], part[LEFT]);
}

/* ---- the terminal ---- */

static void window_size(int *rows, int *columns)
{
    struct winsize w;
    int known = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;
    *rows = known ? w.ws_row : HEIGHT;
    *columns = known ? w.ws_col : WIDTH;
}

void progress_start(struct progress *p, int quiet)
{
    const char *term = getenv("TERM");
    *p = (struct progress){ .quiet = quiet, .utf8 = live_is_utf8(), .start_ns = clock_ns() };
    p->live = !quiet && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb");
    p->drawn_ns = p->live ? 0 : p->start_ns;
}

/* To where the first of our lines began.  A window that became narrower has broken each of them into several rows. */
static void go_back(struct progress *p, struct str *out)
{
    int rows, columns, up = 0;
    window_size(&rows, &columns);
    for (int i = 0; i < p->rows; i++) up += p->width[i] > columns ? (p->width[i] + columns - 1) / columns : 1;
    if (up) str_printf(out, "\033[%dA\r", up);
    p->rows = 0;
}

static void send(const struct str *out)
{
    if (!out->failed) fwrite(str_text(out), 1, out->len, stderr);        /* at once, so that nothing flickers */
    fflush(stderr);
}

/* Columns of a line of ours: UTF-8, and nothing in it is wider than live_lines took it for. */
static int columns_of(const char *line, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++) columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

/* Lines over what stands there, as many as the window has room for: each clears what is behind it, the end what is below. */
static void put_lines(struct progress *p, const char *text, int rows, struct str *out)
{
    for (size_t n; *text && p->rows < rows && p->rows < PROGRESS_ROWS; text += n + 1) {
        n = strcspn(text, "\n");
        str_addn(out, text, n);
        str_add(out, "\033[K\n");
        p->width[p->rows++] = columns_of(text, n);
    }
    str_add(out, "\033[J");
}

static double seconds_of(const struct progress *p) { return (double)(clock_ns() - p->start_ns) / 1e9; }

static void draw_live(struct progress *p, const struct progress_now *now)
{
    char line[512];
    struct str text = { 0 }, out = { 0 };
    int rows;
    go_back(p, &out);
    window_size(&rows, &p->columns);
    progress_line(line, sizeof line, now, seconds_of(p), p->columns, 1);
    str_printf(&text, "%s\n", line);
    live_lines(&text, now->worker, now->n_worker, p->columns - 1, p->utf8);
    put_lines(p, str_text(&text), rows - 1, &out);
    out.failed |= text.failed;
    send(&out);
    str_free(&text);
    str_free(&out);
}

static void draw(struct progress *p, const struct progress_now *now)
{
    char line[512];
    if (p->live) draw_live(p, now);
    else {
        progress_line(line, sizeof line, now, seconds_of(p), WIDTH, 0);
        fprintf(stderr, "lab: %s\n", line);
    }
    p->drawn_ns = clock_ns();
}

/* At once in a window that has changed its size. */
int progress_is_due(const struct progress *p)
{
    int rows, columns;
    if (p->quiet) return 0;
    if (!p->live) return clock_ns() - p->drawn_ns >= REPORT_NS;
    window_size(&rows, &columns);
    return columns != p->columns || clock_ns() - p->drawn_ns >= DRAW_NS;
}

void progress_show(struct progress *p, const struct progress_now *now)
{
    if (progress_is_due(p)) draw(p, now);
}

void progress_end(struct progress *p, const struct progress_now *now)
{
    struct progress_now last = *now;
    last.n_worker = 0;
    if (!p->quiet) draw(p, &last);
    p->rows = 0;
}

void progress_clear(struct progress *p)
{
    struct str out = { 0 };
    if (!p->rows) return;
    go_back(p, &out);
    str_add(&out, "\033[J");
    send(&out);
    str_free(&out);
    p->drawn_ns = 0;
}

void progress_note(struct progress *p, const char *fmt, ...)
{
    va_list ap;
    progress_clear(p);
    va_start(ap, fmt);
    fputs("lab: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}
