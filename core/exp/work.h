/* work -- the worker process: reads one job on its standard input, does it, streams records on a pipe.
 *
 * It holds no database handle and loads only the plugins its job names.
 */
#ifndef LAB_EXP_WORK_H
#define LAB_EXP_WORK_H
#include "base/str.h"
#include "exp/config.h"

enum work_kind { WORK_TRAIN, WORK_EVALUATE, WORK_CEILING };
struct work_job {
    enum work_kind kind;
    const struct run_config *config;
    const char *weights;             /* path for the final weights */
    const char *checkpoint;          /* base of the paths of checkpoints, "" = none */
    const char *attempt;             /* the name of this one; "" unless it trains */
    int resume;                      /* slot of the checkpoint to go on from, -1 = start anew ... */
    int64_t from_step;               /* ... and its step */
    struct option_list lengths;      /* to evaluate, or to compute ceilings for */
};
/* The job as text for the worker's standard input. */
void work_write(struct str *out, const struct work_job *);
/* The worker's main: job on in_fd, records on out_fd. Exit status: 0 done, 1 failed, 75 interrupted. */
int  work_main(int in_fd, int out_fd);
#endif
