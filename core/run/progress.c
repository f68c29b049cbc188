/* progress -- see progress.h. */
#include "run/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"

#define DRAW_NS   (100 * INT64_C(1000000))
#define REPORT_NS (30 * INT64_C(1000000000))
enum { WIDTH = 80, BAR_MIN = 10, BAR_MAX = 30 };

/* ---- the line ---- */

static void write_duration(char *out, size_t size, double seconds)
{
    int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    if (s < 60) snprintf(out, size, "%d s", (int)s);
    else if (s < 3600) snprintf(out, size, "%d min %d s", (int)(s / 60), (int)(s % 60));
    else if (s < 86400) snprintf(out, size, "%d h %d min", (int)(s / 3600), (int)(s / 60 % 60));
    else snprintf(out, size, "%d d %d h", (int)(s / 86400), (int)(s / 3600 % 24));
}

enum part { RUNS, FAILED, RATE, LEFT, N_PART };

static void write_parts(char part[N_PART][48], const struct progress_now *now, double seconds)
{
    double rate = seconds > 0 ? now->steps / seconds : 0;
    char left[32];
    for (int i = 0; i < N_PART; i++) part[i][0] = '\0';
    snprintf(part[RUNS], sizeof part[RUNS], "%d/%d runs", now->done + now->failed, now->total);
    if (now->failed) snprintf(part[FAILED], sizeof part[FAILED], "  %d failed", now->failed);
    if (rate <= 0) return;
    snprintf(part[RATE], sizeof part[RATE], rate < 10 ? "  %.1f steps/s" : "  %.0f steps/s", rate);
    if (now->steps_left <= 0) return;
    write_duration(left, sizeof left, now->steps_left / rate);
    snprintf(part[LEFT], sizeof part[LEFT], "  %s left", left);
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

static int terminal_width(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : WIDTH;
}

void progress_start(struct progress *p, int quiet)
{
    const char *term = getenv("TERM");
    *p = (struct progress){ .quiet = quiet, .start_ns = clock_ns() };
    p->live = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
    p->drawn_ns = p->live ? 0 : p->start_ns;
}

static void draw(struct progress *p, const struct progress_now *now)
{
    char line[512];
    p->drawn_ns = clock_ns();
    double seconds = (double)(p->drawn_ns - p->start_ns) / 1e9;
    progress_line(line, sizeof line, now, seconds, p->live ? terminal_width() : WIDTH, p->live);
    fprintf(stderr, p->live ? "\r%s\033[K" : "lab: %s\n", line);
    fflush(stderr);
    p->shown = p->live;
}

void progress_show(struct progress *p, const struct progress_now *now)
{
    if (!p->quiet && clock_ns() - p->drawn_ns >= (p->live ? DRAW_NS : REPORT_NS)) draw(p, now);
}

void progress_end(struct progress *p, const struct progress_now *now)
{
    if (p->quiet) return;
    draw(p, now);
    if (p->live) fputc('\n', stderr);
    p->shown = 0;
}

void progress_note(struct progress *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs(p->shown ? "\r\033[Klab: " : "lab: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    p->shown = 0;
    if (p->live) p->drawn_ns = 0;
}
