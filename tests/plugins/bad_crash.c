/* bad_crash -- loads, then dereferences NULL on its 20th call in training. */
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    static int *volatile nowhere;                /* volatile: the compiler must not see that this cannot work */
    (void)self, (void)x;
    if (fixture_calls(c) >= FIXTURE_CALL) *(volatile int *)nowhere = 1;
}
FIXTURE(bad_crash, (void)0)
