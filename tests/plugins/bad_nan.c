/* bad_nan -- loads, then adds NaN from its 20th call in training on. */
#include <math.h>
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    if (fixture_calls(c) >= FIXTURE_CALL) x[0] += (lab_real)NAN;
}
FIXTURE(bad_nan, (void)0)
