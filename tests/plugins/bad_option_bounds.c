/* bad_option_bounds -- refused: an option whose bounds hold no value. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_bounds, (encoder.options = option, option[0].lo = 65))
