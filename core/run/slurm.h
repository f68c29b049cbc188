/* slurm -- what lab writes for Slurm, and what Slurm answers: batch scripts of a frozen plan, states, job ids.
 *
 * Text only: starts no program, reads no file, knows no database.  Slurm schedules, lab does not: task i of N of a plan
 * is element i of a job array.  An index may be at most MaxArraySize - 1, so a larger plan becomes several arrays, each
 * told by its first argument which task its index 0 is.
 */
#ifndef LAB_RUN_SLURM_H
#define LAB_RUN_SLURM_H
#include "abi/lab_plugin.h"
#include "base/str.h"

enum { SLURM_WARNING_S = 180,        /* USR1 comes so long before the end, or up to a minute earlier */
       SLURM_LEAST_S = 300 };        /* a shorter time limit would leave nothing to work in */

struct slurm_job {
    const char *lab, *plan;          /* absolute paths of the program and of the plan's folder */
    const char *name;                /* of the experiment */
    int64_t runs, tasks;
    int64_t cpus, at_once, restarts; /* of a task; tasks that may run at the same time, 0 = any number; how often a task is requeued */
    const char *time, *partition;    /* as sbatch takes them; NULL: not given */
    char *const *option; int n_option;   /* further words for sbatch; they win over ours */
};
/* Refuses what cannot work: a time limit that the warning fills, sbatch options that are lab's, names that Slurm would misread. */
int  slurm_check(const struct slurm_job *, struct lab_err *err);
void slurm_array_script(struct str *out, const struct slurm_job *, int64_t max_array);
void slurm_merge_script(struct str *out, const struct slurm_job *, const char *db);

/* text as one word for a POSIX shell. */
void slurm_quote(struct str *out, const char *text);
/* "0,4-7": the indexes i in [0,n) with wanted[i]; nothing if there is none. */
void slurm_ranges(struct str *out, const unsigned char *wanted, int64_t n);
/* 90, 90:00, 1:30:00, 0-1:30 ... : seconds; -1 for UNLIMITED; -2 if it is no time limit. */
int64_t slurm_seconds(const char *text);

/* What `sbatch --parsable` prints: the job id, or -1. */
int64_t slurm_job_id(const char *text);
/* MaxArraySize in what `scontrol show config` prints, or -1. */
int64_t slurm_max_array(const char *text);

enum slurm_state { SLURM_UNKNOWN,    /* Slurm knows nothing of it (any more) */
                   SLURM_PENDING, SLURM_RUNNING,
                   SLURM_DONE, SLURM_FAILED, SLURM_INTERRUPTED, SLURM_TIMEOUT, SLURM_LOST, SLURM_STATES };
extern const char *const slurm_state_name[SLURM_STATES];
/* Slurm's word ("CANCELLED by 1234") in ours; status: the exit status, which tells failed from interrupted (75). */
enum slurm_state slurm_state(const char *word, int status);
static inline int slurm_is_active(enum slurm_state s) { return s == SLURM_PENDING || s == SLURM_RUNNING; }

/* The list of an array, "0,4-7" or "[2-4,7%2]": each index once.  -1: it cannot be read, or take said no. */
int slurm_indexes(const char *list, int (*take)(void *ctx, int64_t index), void *ctx);

/* One line of an answer, "JOB_INDEX|STATE|EXIT", once for each index: "7_[2-4]|PENDING|0:0" is three.  squeue gives EXIT as the
 * raw status of wait, sacct as "status:signal".  Lines of other jobs or of steps are passed over; what cannot be read is -1. */
struct slurm_task { int64_t job, index; char word[64]; int status; enum slurm_state state; };   /* index -1: no array */
int  slurm_tasks(const char *text, int (*take)(void *ctx, const struct slurm_task *), void *ctx);
#endif
