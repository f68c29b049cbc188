/* whole -- a file that is there whole or not at all: written under a temporary name, synced, renamed, its folder synced.
 *
 * The temporary name is of one's own (".tmp-NAME.XXXXXX" in the same folder), so that writers on any number of machines
 * never share a file: the last rename wins.  A killed writer leaves it behind; readers pass over names with a dot in front.
 */
#ifndef LAB_BASE_WHOLE_H
#define LAB_BASE_WHOLE_H
#include <stdio.h>
#include "abi/lab_plugin.h"

enum { WHOLE_PATH = 4096 };
struct whole { FILE *file; char path[WHOLE_PATH], temporary[WHOLE_PATH]; };

/* On failure nothing is open. */
int whole_open(struct whole *, const char *path, struct lab_err *err);
/* The file takes its place, or is removed with -1 if anything was not written. */
int whole_close(struct whole *, struct lab_err *err);
void whole_abandon(struct whole *);
int whole_copy(const char *from, const char *to, struct lab_err *err);

/* Makes a folder and those above it; one that is there already is fine. */
int whole_folder(const char *path, struct lab_err *err);
#endif
