/* bad_hang -- loads, then never returns from its 20th call in training. */
#include <unistd.h>
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self, (void)x;
    if (fixture_calls(c) >= FIXTURE_CALL) for (;;) pause();      /* asleep: it must not keep a core of the tests busy */
}
FIXTURE(bad_hang, (void)0)
