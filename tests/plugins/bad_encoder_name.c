/* bad_encoder_name -- refused: a name that no INI file could spell. */
#include "fixture.h"

FIXTURE_SOUND(bad_encoder_name, encoder.name = "Bad Name")
