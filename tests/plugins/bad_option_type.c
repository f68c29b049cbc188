/* bad_option_type -- refused: an option of a type that does not exist. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_type, (encoder.options = option, option[0].type = 9))
