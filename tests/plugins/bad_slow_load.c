/* bad_slow_load -- works for more than half a second whenever it is loaded. */
#include <unistd.h>
#include "fixture.h"

static void __attribute__((constructor)) prepare(void) { usleep(600000); }
FIXTURE_SOUND(bad_slow_load, (void)0)
