/* fsck -- is a database sound, does it say what its files say, and what can be put right without losing evidence?
 *
 * Looks at every page, reference and definition, at the files that attempts say they wrote, and for files that nobody
 * needs.  Repairs only what can be made again from what is there: indexes, views, the state of attempts whose process
 * is gone; a file that is not what was written is put aside, not deleted.
 */
#ifndef LAB_STORE_FSCK_H
#define LAB_STORE_FSCK_H
#include "store/store.h"

enum fsck_level { FSCK_OK, FSCK_MENDED, FSCK_NOTE, FSCK_BAD };   /* NOTE: nothing wrong, but something to do */
struct fsck_finding { enum fsck_level level; const char *check, *text, *advice; };   /* advice: NULL if there is none */
struct fsck_listener { void (*tell)(void *ctx, const struct fsck_finding *); void *ctx; };
/* repair: the store is open to write, and what can be mended is.  At least one finding a check.  -1: the database failed. */
int fsck_run(struct store *, int repair, const struct fsck_listener *, struct lab_err *err);
#endif
