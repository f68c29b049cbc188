/* slurm_jobs -- the Slurm jobs of a plan: what was submitted is kept in PLAN/slurm.jobs, the rest Slurm knows.
 *
 * The only code that starts Slurm's programs.  Slurm's view for looking at is asked for at most once a minute, by
 * whomever: the last answer is kept in PLAN/slurm.seen.  Nothing here waits for a job.
 */
#ifndef LAB_RUN_SLURM_JOBS_H
#define LAB_RUN_SLURM_JOBS_H
#include "run/slurm.h"

enum { SLURM_ASK_S = 60 };
struct slurm_element {               /* of one task of the plan: the array element that it was last submitted as */
    int64_t job, index;              /* job 0: never submitted */
    enum slurm_state state;
    char word[64];                   /* Slurm's own, "" = it told none */
    int status;
};
struct slurm_jobs {
    char *folder;
    int64_t tasks;
    struct slurm_element *task;
    struct slurm_array { int64_t job, offset; } *array; size_t n, cap;       /* in the order of submission */
    int64_t merge;                   /* the last merge job, 0 = none */
    enum slurm_state merge_state;
    char source[16];                 /* whom slurm_jobs_ask asked: "sacct", "squeue" or both; "" = nobody yet */
    int64_t age_s;                   /* of its answer */
    int lock;                        /* a descriptor */
};
/* A plan that was never submitted has no jobs.  exclusive: held until the release, so that nobody else submits meanwhile. */
int  slurm_jobs_open(struct slurm_jobs *, const char *folder, int64_t tasks, int exclusive, struct lab_err *err);
void slurm_jobs_release(struct slurm_jobs *);

/* What the controller has in its queue now: states of elements that are in it; all others stay SLURM_UNKNOWN. */
int  slurm_jobs_queue(struct slurm_jobs *, struct lab_err *err);
/* What Slurm knows of all elements, from accounting if there is any; an answer younger than a minute is taken again. */
int  slurm_jobs_ask(struct slurm_jobs *, struct lab_err *err);

/* The largest array that this cluster takes. */
int  slurm_jobs_max_array(int64_t *size, struct lab_err *err);
/* Submits script for the tasks offset + i with wanted[i], i in [0,n), and remembers the job. */
int  slurm_jobs_submit(struct slurm_jobs *, const char *script, int64_t offset, const unsigned char *wanted, int64_t n, int64_t at_once,
                       int64_t *job, struct lab_err *err);
/* Submits the merge script behind these jobs, however they end. */
int  slurm_jobs_submit_merge(struct slurm_jobs *, const char *script, const int64_t *behind, size_t n, struct lab_err *err);
int  slurm_jobs_cancel(const int64_t *job, size_t n, struct lab_err *err);
#endif
