/* task -- one machine's share of a frozen plan: runs what is missing of it, into a database of its own, and publishes that.
 *
 * The database lies on a disk of this machine ($SLURM_TMPDIR, $TMPDIR or /tmp); after each run or checkpoint a copy of it
 * appears as a whole in PLAN/shards, under a name that no other task has.  Checkpoints, logs and weights go to the plan's
 * folder under names of their own, too: no two processes on any machines write one file.  What any shard of the plan says
 * is done is not done again; what it left open goes on from its checkpoint.
 */
#ifndef LAB_RUN_TASK_H
#define LAB_RUN_TASK_H
#include "base/str.h"
#include "run/sched.h"

struct task_options {
    const char *plan;                /* its folder */
    int64_t index, count;            /* does the runs index, index + count, ...; count 0: as the plan says */
    const char *db;                  /* what is done there is not done again, either; NULL: none */
    int retry;                       /* also what failed before */
    int jobs, quiet;                 /* as sched_options */
};
struct task_report {
    struct sched_report runs;
    char shard[128];                 /* name of what was published, "" if nothing was to be */
};
enum { TASK_REFUSED = 1 };           /* the plan, or what was asked of it, is not right: nothing was started */
/* 0; TASK_REFUSED; -1 the database failed, or could not be published: err says where it is. */
int task_run(const struct task_options *, struct task_report *, struct lab_err *err);

/* The names in PLAN/shards of published databases, sorted; on failure nothing is left to free. */
struct task_shards { char **path; size_t n, cap; };
int  task_shards_read(struct task_shards *, const char *plan, struct lab_err *err);
void task_shards_free(struct task_shards *);
#endif
