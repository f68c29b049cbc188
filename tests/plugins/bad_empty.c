/* bad_empty -- refused: brings neither encoders nor tasks. */
#include "fixture.h"

FIXTURE_SOUND(bad_empty, encoders[0] = NULL)
