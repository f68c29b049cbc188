/* bad_null -- refused: the entry returns nothing. */
#include "fixture.h"

FIXTURE_SOUND(bad_null, return NULL)
