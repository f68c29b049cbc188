/* bad_no_forward -- refused: a backward hook without its forward. */
#include "fixture.h"

FIXTURE_SOUND(bad_no_forward, encoder.embed = NULL)
