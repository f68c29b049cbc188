/* desk -- one worker at its run: what it is to do, what it has told so far, and what became of it.
 *
 * Believes nothing that a worker sends before it has looked at it: a plugin may have damaged its memory.
 * Knows no database: records wait here until the supervisor enters them.
 */
#ifndef LAB_RUN_DESK_H
#define LAB_RUN_DESK_H
#include "base/live.h"
#include "exp/cost.h"
#include "exp/work.h"
#include "run/worker.h"
#include "store/spill.h"

enum desk_verdict { DESK_DONE, DESK_FAILED, DESK_INTERRUPTED, DESK_TIMED_OUT };
struct desk {
    int busy;
    struct worker worker;
    enum work_kind kind;
    size_t run;                      /* of the sweep */
    const struct run_config *config; /* of that run */
    int64_t attempt_id;
    char attempt[STORE_UUID];
    int resume; int64_t from_step;   /* the checkpoint to go on from; -1 = none */
    struct record *record; size_t n, cap;            /* not in the database yet */
    int64_t told;                    /* records that are */
    int started, done, stopped, failed;              /* which of these records arrived; failed: reason is set */
    int saved;                       /* a checkpoint is among the records: 1, or 2 when they were kept in a file since */
    int no_weights;                  /* it is done, but its weights could not be kept: note says why */
    int ended; enum desk_verdict verdict;            /* ended: its worker has, but the database does not know yet */
    char kept[SPILL_PATH];           /* where what it told waits for a database that cannot be written, "" = nowhere */
    char reason[512], result[HASH_HEX];
    char note[512];                  /* on checkpoints that were damaged or could not be saved; for the attempt's reason */
    int64_t active_ns, begun_ns, step, beat_step;    /* beat_step: the step that the database knows, -1: none */
    int64_t deadline_ns; int timed_out;              /* by limits.time, 0 = none */
    struct cost cost; double all, tested;            /* what it costs from here to its end; of that, final evaluations that are in */
    struct live_worker live;                         /* for the eyes */
};

/* Ready for another job. */
void desk_clear(struct desk *, enum work_kind, size_t run, const struct run_config *);
/* Once it is known where it starts and which lengths it is to evaluate at the end. */
void desk_expect(struct desk *, const struct option_list *lengths);
/* Of what it costs, the part that is spent. */
double desk_spent(const struct desk *);
/* Takes what the worker has sent and printed; one that sends nonsense has failed, and is killed. */
void desk_read(struct desk *);
/* Adds to note. */
void desk_note(struct desk *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* After the worker's end and the last read; stopping: the signal that the user sent, or 0.  Sets reason unless it is done. */
enum desk_verdict desk_judge(struct desk *, int stopping);
extern const char *const desk_status[];              /* what the database calls each verdict */
#endif
