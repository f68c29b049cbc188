/* whole -- a file that is there whole or not at all: written under a temporary name, synced, renamed, its folder synced.
 *
 * The temporary name is of one's own (".tmp-NAME.XXXXXX" in the same folder), so that writers on any number of machines
 * never share a file: the last rename wins.  A killed writer leaves it behind; readers pass over names with a dot in front.
 * As long as its writer lives it is locked, where the file system can lock; nobody waits for that lock.
 */
#ifndef LAB_BASE_WHOLE_H
#define LAB_BASE_WHOLE_H
#include <stddef.h>
#include <stdio.h>
#include "abi/lab_plugin.h"

enum { WHOLE_PATH = 4096 };
struct whole { FILE *file; int failed; char path[WHOLE_PATH], temporary[WHOLE_PATH]; };     /* failed: errno of what failed first */

/* On failure nothing is open. */
int  whole_open(struct whole *, const char *path, struct lab_err *err);
/* What fails is told by whole_close. */
void whole_put(struct whole *, const void *bytes, size_t n);
/* The file takes its place, or is removed with -1 if anything was not written. */
int  whole_close(struct whole *, struct lab_err *err);
void whole_abandon(struct whole *);
int  whole_copy(const char *from, const char *to, struct lab_err *err);

/* If name, without its folder, is a temporary one, where the name of the file itself begins in it, and its length; else NULL. */
const char *whole_of(const char *name, size_t *length);
/* Removes what killed writers of this file left. */
void whole_sweep(const char *path);

/* What a file holds and its place in the folder are on the disk, not just on the way.  0, or -1 with errno. */
int whole_sync(const char *path);
/* Makes a folder and those above it; one that is there already is fine. */
int whole_folder(const char *path, struct lab_err *err);
#endif
