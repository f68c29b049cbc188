/* bad_library -- loads, but was linked with a library that a machine with lab need not have (see its line in the Makefile). */
#include "fixture.h"

FIXTURE_SOUND(bad_library, (void)0)
