/* bad_exit -- loads, then ends the process, as if all were well, in its 20th call in training. */
#include <stdlib.h>
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self, (void)x;
    if (fixture_calls(c) >= FIXTURE_CALL) exit(0);
}
FIXTURE(bad_exit, (void)0)
