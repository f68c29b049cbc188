/* whole -- a file that is there as a whole or not at all: a temporary one beside it, fsync, rename, fsync of the folder.
 *
 * Two writers of one file wait for each other.  What fails on the way is remembered, so that a caller checks once, at the end.
 */
#ifndef LAB_BASE_WHOLE_H
#define LAB_BASE_WHOLE_H
#include "base/hash.h"

enum { WHOLE_PATH = 4096 };
struct whole { const char *path; char temporary[WHOLE_PATH + 8]; int fd, failed; int64_t bytes; struct hash hash; };   /* hash: of what was put */

/* The path is kept, not copied.  On failure there is nothing to end. */
int  whole_begin(struct whole *, const char *path, struct lab_err *err);
void whole_put(struct whole *, const void *bytes, size_t n);
/* On failure the file is as it was before. */
int  whole_end(struct whole *, struct lab_err *err);
#endif
