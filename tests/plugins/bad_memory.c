/* bad_memory -- loads, then takes memory without end from its 20th call in training, and writes where there is none. */
#include <stdlib.h>
#include <string.h>
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self, (void)x;
    while (fixture_calls(c) >= FIXTURE_CALL) memset(malloc(1 << 20), 1, 1 << 20);
}
FIXTURE(bad_memory, (void)0)
