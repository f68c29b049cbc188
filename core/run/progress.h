/* progress -- how far the sweep is, on stderr: one live line on a terminal, elsewhere a line every 30 s.
 *
 * Draws at most ten times a second and never writes to stdout.  No colours.
 */
#ifndef LAB_RUN_PROGRESS_H
#define LAB_RUN_PROGRESS_H
#include <stddef.h>
#include <stdint.h>

struct progress_now {
    int total, done, failed;         /* runs; done: those of earlier times too */
    double steps, steps_left;        /* steps trained in this session, and still to train */
};
struct progress {
    int quiet, live, shown;          /* live: a terminal; shown: a line stands there */
    int64_t start_ns, drawn_ns;
};

void progress_start(struct progress *, int quiet);
void progress_show(struct progress *, const struct progress_now *);      /* if it is time to */
void progress_end(struct progress *, const struct progress_now *);       /* one last time, and to a new line */
/* A line of its own, above the live one; also when quiet. */
void progress_note(struct progress *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The line itself, at most width - 1 columns of ASCII, after `seconds` of work; bar: draw one if there is room. */
void progress_line(char *out, size_t size, const struct progress_now *, double seconds, int width, int bar);
#endif
