/* status -- how far the sweeps of a database are: what is done, what is being done and by whom, what stopped and why.
 *
 * Everything is read from the database; whether a process that says it runs is still there, from its lock.
 * A run belongs to the sweep whose plan has it, so one run may be counted in several sweeps.  Changes nothing.
 */
#ifndef LAB_ANSWER_STATUS_H
#define LAB_ANSWER_STATUS_H
#include "base/live.h"
#include "base/str.h"
#include "store/store.h"

enum { STATUS_NO_SWEEP = 1 };
struct status_run {                  /* one that is neither done nor pending */
    enum store_state state;
    char *key, *task, *encoder, *label, *reason, *host;      /* reason: why it stopped */
    int64_t seed, step, from_step, steps;                    /* reached, where it began, of how many */
    double loss;                     /* of the last point of its curve, NAN: none yet */
    int64_t since_us, heard_us;      /* when it started (running) or ended; when it was last heard of */
    int64_t pid, attempt_id;         /* of the process that looks after it */
    double left_s;                   /* what that process expected for its whole sweep when it was last heard of; NAN: not known */
    double curve[LIVE_POINTS]; int n_curve;                  /* of one that runs: the last points of its loss, the oldest first */
};
struct status_sweep {
    int64_t id;
    char *name, *path;
    int64_t runs, count[STORE_INTERRUPTED + 1];              /* by enum store_state */
    struct status_run *run; size_t n, cap;                   /* in the order of the plan */
};
struct status {
    struct status_sweep *sweep; size_t n, cap;               /* the one entered last comes first */
    int64_t now_us;
};

/* Of the experiment file with this hash; NULL: of all.  0, -1 the database failed, or STATUS_NO_SWEEP with what to do in err. */
int  status_read(struct status *, struct store *, const char *ini_sha256, struct lab_err *err);
void status_release(struct status *);
/* Can nothing change any more: is every run done or failed? */
int  status_is_over(const struct status *);

/* "tiny: 4 runs: 2 done, 1 running, 1 pending" */
void status_line(const struct status_sweep *, struct str *out);
void status_print(const struct status *, struct str *out);
/* For a screen that is so many columns wide and redrawn again and again: a line for each worker. */
void status_live(const struct status *, int width, int utf8, struct str *out);
/* Seconds until all runs of the sweep are over, as those expect who work on it; < 0: not known. */
double status_left(const struct status *, const struct status_sweep *);
void status_json(const struct status *, struct str *out);
#endif
