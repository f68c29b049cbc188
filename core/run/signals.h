/* signals -- the user's wish to stop or to pause, and children's ends, as something to poll for.
 *
 * While open, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 (a scheduler's early warning), SIGTSTP and SIGCHLD
 * arrive on fd and SIGPIPE is ignored.  No code runs in a handler.  What was ignored before stays
 * ignored, but for SIGTERM: that is how nohup and a shell's background jobs ask to be left alone.
 */
#ifndef LAB_RUN_SIGNALS_H
#define LAB_RUN_SIGNALS_H
#include <signal.h>
#include "abi/lab_plugin.h"

struct signals { int fd; sigset_t mask; struct sigaction pipe; };   /* mask, pipe: as they were */

int  signals_open(struct signals *, struct lab_err *err);
int  signals_next(const struct signals *);        /* a signal that has arrived, or 0 */
void signals_close(struct signals *);             /* what has not been read is dropped */
/* In a forked child, before exec: default dispositions, nothing blocked. */
void signals_reset(void);
#endif
