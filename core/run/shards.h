/* shards -- how far a frozen plan is, by what its tasks have published: the state of each run in the plan's shards.
 *
 * Nobody writes to a published shard, so they are read while tasks work.  One that cannot be read is named, and its runs
 * count as missing.  Changes nothing.
 */
#ifndef LAB_RUN_SHARDS_H
#define LAB_RUN_SHARDS_H
#include <stddef.h>
#include "base/hash.h"

enum { SHARDS_MISSING, SHARDS_FAILED, SHARDS_DONE };
struct shards {
    size_t runs, files;
    char (*key)[HASH_HEX];           /* of each run of the plan */
    unsigned char *state;            /* SHARDS_... of each run: the best that any shard tells */
    size_t *sorted;                  /* runs by key */
    char unread[1024];               /* why one could not be read, "" if all were */
};
struct shards_count { int64_t runs, done, failed, missing; };

int  shards_read(struct shards *, const char *folder, struct lab_err *err);          /* on failure nothing is left to release */
void shards_release(struct shards *);
/* What of the plan is done already in a database becomes the plan's first shard, so that no task does it again.  *n: how many runs. */
int  shards_add_known(const char *folder, const char *db, int64_t *n, struct lab_err *err);
/* Of task i of n: the runs i, i + n, ... */
struct shards_count shards_of_task(const struct shards *, int64_t task, int64_t tasks);
#endif
