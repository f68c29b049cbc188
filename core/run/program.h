/* program -- runs another program to its end and takes what it prints: for Slurm's own commands.
 *
 * No shell is involved.  The program gets no standard input and default signal handlers, shares the terminal's Ctrl-C
 * with us, and is killed when it takes too long.
 */
#ifndef LAB_RUN_PROGRAM_H
#define LAB_RUN_PROGRAM_H
#include "abi/lab_plugin.h"
#include "base/str.h"

enum { PROGRAM_MISSING = 1 };
struct program { struct str out, said; int status; };        /* standard output; standard error; as waitpid gives it */

/* argv[0] is looked for in PATH.  0: it ran, whatever its status; PROGRAM_MISSING: it is not installed; -1: it could not be
 * started or did not end in time.  With a message for the last two; the result is to be released in every case. */
int  program_run(struct program *, char *const argv[], double seconds, struct lab_err *err);
void program_release(struct program *);
int  program_succeeded(const struct program *);
/* What it complained of, on one line: its standard error without line ends, or its exit status. */
void program_complaint(const struct program *, char *out, size_t size);
#endif
