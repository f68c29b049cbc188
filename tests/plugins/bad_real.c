/* bad_real -- refused: built for the other real type. */
#include "fixture.h"

FIXTURE_SOUND(bad_real, plugin.real_size = sizeof(float) + sizeof(double) - sizeof(lab_real))
