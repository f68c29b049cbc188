/* run -- what `lab run` and `lab retry` share: a sweep is run in an open database, then its answer is printed. */
#ifndef LAB_CLI_RUN_H
#define LAB_CLI_RUN_H
#include "cli/cmd.h"
#include "run/sched.h"

/* Opens to write, and tells what that changed.  EXIT_DONE, or what to return: the message is out. */
int run_open(const struct cmd *, struct store **, const char *db);
int run_exit_code(const struct sched_report *);
/* Returns an exit code; what fails was said on stderr. */
int run_sweep(const struct cmd *, struct store *, const struct sweep *, const struct sched_options *);
#endif
