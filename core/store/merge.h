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

struct merge_result { int64_t attempts, different; int known; };     /* added; of them with another result; known: merged before as it is */
/* Called after each; refusal: why it was left out, or NULL. */
struct merge_listener { void (*told)(void *ctx, const char *path, const struct merge_result *, const char *refusal); void *ctx; };
/* 1: this database would be refused, err says why. */
int merge_judge(const char *path, struct lab_err *err);
/* In this order.  -1: the database that is written to failed. */
int merge_databases(struct store *, char *const *path, size_t n, const struct merge_listener *, struct lab_err *err);

/* Runs that some task still has to do, as far as other databases tell: a list of this handle's own, empty at first. */
int merge_want(struct store *, const char *run_key, struct lab_err *err);
/* Strikes out those that are done in another database.  1: that one is refused, err says why. */
int merge_strike_done(struct store *, const char *path, struct lab_err *err);
/* Takes over what another database has of the wanted, to go on from: an attempt that still runs there counts as lost.  1 as above. */
int merge_wanted(struct store *, const char *path, struct lab_err *err);
int merge_is_wanted(struct store *, const char *run_key, int *yes, struct lab_err *err);

/* For store_query, after merge_databases: run_key, task, encoder, seed, then uuid, host, time of ending and environment (JSON) of the
 * result that is shown and of one that differs, for each such pair among the runs of what was merged through this handle. */
extern const char merge_conflicts[];

/* A copy as of now: one file without anything beside it, fit for a network file system.  Not in a transaction. */
int merge_copy(struct store *, const char *path, struct lab_err *err);
#endif
