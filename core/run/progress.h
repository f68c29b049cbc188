/* progress -- how far the sweep is, on stderr: on a terminal a line for the sweep and one for each worker, redrawn in place;
 * elsewhere, and where TERM is dumb, a plain line every 30 s.
 *
 * Draws four times a second at most and never writes to stdout.  No colours.
 */
#ifndef LAB_RUN_PROGRESS_H
#define LAB_RUN_PROGRESS_H
#include <stddef.h>
#include <stdint.h>
#include "base/live.h"

struct progress_now {
    int total, done, failed;         /* runs; done: those of earlier times too */
    double steps, left;              /* steps trained in this session; seconds that it still takes, < 0: unknown */
    const struct live_worker *worker; int n_worker;
};
enum { PROGRESS_ROWS = 256 };
struct progress {
    int quiet, live, utf8;           /* live: a terminal */
    int width[PROGRESS_ROWS], rows;  /* columns of each line that stands there */
    int columns;                     /* of the window when it was drawn */
    int64_t start_ns, drawn_ns;
};

void progress_start(struct progress *, int quiet);
int  progress_is_due(const struct progress *);                           /* is it time to show something? */
void progress_show(struct progress *, const struct progress_now *);      /* if it is */
void progress_end(struct progress *, const struct progress_now *);       /* one last time: the sweep's line alone */
void progress_clear(struct progress *);                                  /* nothing of it stands on the terminal any more */
/* A line of its own, above the live ones; also when quiet. */
void progress_note(struct progress *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The sweep's line, at most width - 1 columns of ASCII, after `seconds` of work; bar: draw one if there is room. */
void progress_line(char *out, size_t size, const struct progress_now *, double seconds, int width, int bar);
#endif
