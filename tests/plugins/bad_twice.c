/* bad_twice -- refused: two encoders of one name. */
#include "fixture.h"

FIXTURE_SOUND(bad_twice, encoders[1] = &encoder)
