/* merge -- takes over into one database what others hold: shards of a plan, or any results of this lab.
 *
 * By natural keys (run_key, attempt's UUID, hashes), one transaction a database: again and in any order gives the same rows.
 * A database that is damaged, another program's, or of another schema is refused as a whole; nothing of it is taken.
 * Of two results for one run the one that ended first is shown; the other is kept as superseded, with a reason that says
 * whether it is the same.  Attempts that still run are left to their database.
 */
#ifndef LAB_STORE_MERGE_H
#define LAB_STORE_MERGE_H
#include "store/store.h"

enum merge_how { MERGE_ALL,
                 MERGE_WANTED };     /* only attempts at wanted runs, also running ones: they count as lost, to be gone on from */
struct merge_result { int64_t attempts, different; int known; };     /* added; of them with another result; known: merged before as it is */
/* 0; 1 it is refused, err says why; -1 the database that is written to failed. */
int merge_shard(struct store *, const char *path, enum merge_how, struct merge_result *, struct lab_err *err);

/* Runs that some task still has to do, as far as other databases tell: a list of this handle's own, empty at first. */
int merge_want(struct store *, const char *run_key, struct lab_err *err);
/* Strikes out those that are done in another database.  As merge_shard. */
int merge_strike_done(struct store *, const char *path, struct lab_err *err);
int merge_is_wanted(struct store *, const char *run_key, int *yes, struct lab_err *err);

/* For store_query, after merge_shard: run_key, task, encoder, seed, then uuid, host, time of ending and environment (JSON) of the
 * result that is shown and of one that differs, for each such pair among the runs of what was merged through this handle. */
extern const char merge_conflicts[];

/* A copy as of now: one file without anything beside it, fit for a network file system.  Not in a transaction. */
int merge_copy(struct store *, const char *path, struct lab_err *err);
#endif
