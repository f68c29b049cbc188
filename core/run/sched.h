/* sched -- the supervisor: gives each missing run to a worker process and enters what comes back.
 *
 * Workers are exec'd copies of this program without any database handle; a worker
 * that fails, or takes more memory or time than [limits] allow, costs its own run alone.
 * A run that failed before is not tried again unless asked for; one that was interrupted
 * goes on from its last checkpoint.  Several processes may run sweeps on one database at
 * once: none trains what another is training, and each waits for the others' part of its own.
 */
#ifndef LAB_RUN_SCHED_H
#define LAB_RUN_SCHED_H
#include "exp/sweep.h"
#include "store/store.h"

enum { SCHED_MAX_JOBS = 256 };
enum sched_share { SCHED_OTHERS,     /* other machines run it: not entered, not looked at */
                   SCHED_OURS,
                   SCHED_ELSEWHERE };/* ours, but done already in another database */
struct sched_options {
    int jobs;                        /* workers at once, at most SCHED_MAX_JOBS; 0 = the cores that this process may use */
    int rerun_stale;                 /* train again what is done, but by another build, plugin or kind of machine */
    int quiet;                       /* no progress; failures are still named */
    const unsigned char *only;       /* of each run of the sweep: is it to be run, even if it failed before?  NULL: all that did not */
    const char *program;             /* the worker is `program worker`; NULL = this program */
    const unsigned char *share;      /* of each run of the sweep: enum sched_share.  NULL: all ours */
    const char *shared;              /* folder that other machines see: checkpoints and logs go there.  NULL: beside the database */
    /* Called between commits when a run has saved a checkpoint since, or (urgent) has ended; 1: not now, call again soon. */
    int (*publish)(void *ctx, int urgent); void *publish_ctx;
};
struct sched_report {
    int total, already, done, failed;
    int interrupted;                 /* not finished and not failed: stopped, or never started */
    int lacking;                     /* ceilings that could not be had; the next time tries again */
    int signals;                     /* how often the user asked to stop */
};
/* Cores that this process may use. */
int sched_cores(void);
/* What the plan still needs, per run, without starting anything (lab plan).  lengths: to be evaluated. */
enum sched_need { SCHED_NOTHING, SCHED_TRAIN, SCHED_EVALUATE };
int sched_need(struct store *store_or_null, const struct run_config *, enum sched_need *, struct option_list *lengths, struct lab_err *err);
/* Enters the sweep and its runs, as sched_run does before it starts any. */
int sched_enter(struct store *, const struct sweep *, struct lab_err *err);
/* Runs the sweep. 0, or -1 with a database error; report->interrupted says that it is not complete. */
int sched_run(struct store *, const struct sweep *, const struct sched_options *, struct sched_report *, struct lab_err *err);
#endif
