/* bad_option_twice -- refused: two options of one name. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_twice, (encoder.options = option, option[1].name = "width"))
