/* bad_option_default -- refused: an option whose default lies outside its bounds. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_default, (encoder.options = option, option[0].def = "65"))
