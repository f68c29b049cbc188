/* bad_option_name -- refused: an option's name with a capital. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_name, (encoder.options = option, option[0].name = "Width"))
