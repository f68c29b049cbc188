/* times -- where the time of a step goes: only `lab bench` asks, so it costs one branch a call unless switched on.
 *
 * At any moment the clock runs for one part.  TIMED hands it over for one call and back, so that what is
 * nested (an encoder's hook inside attention) is counted once, in its own part.  For one thread.
 */
#ifndef LAB_NN_TIMES_H
#define LAB_NN_TIMES_H
#include <stdint.h>

enum times_part { TIMES_REST, TIMES_GEMM, TIMES_ATTENTION, TIMES_NORM, TIMES_ACTIVATION, TIMES_LOSS, TIMES_HOOKS,
                  TIMES_OPTIMISER, TIMES_DATA, TIMES_PARTS };

extern int times_on;                 /* set by times_start and times_stop alone */

void times_start(void);              /* forgets what was counted; the clock runs for TIMES_REST */
void times_stop(int64_t ns[TIMES_PARTS]);            /* adds what was counted since */
enum times_part times_switch(enum times_part);       /* to another part; returns the one before */

static inline enum times_part times_to(enum times_part part)
{
    return __builtin_expect(times_on, 0) ? times_switch(part) : TIMES_REST;
}
#define TIMED(part, call) do { enum times_part before_ = times_to(part); call; times_to(before_); } while (0)
#endif
