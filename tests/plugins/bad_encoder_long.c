/* bad_encoder_long -- refused: a name too long for a section of an experiment file. */
#include "fixture.h"

FIXTURE_SOUND(bad_encoder_long, encoder.name = "a_name_of_forty_two_characters_is_too_long")
