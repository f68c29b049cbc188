/* bad_option_offset -- refused: an option outside of the instance. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_offset, (encoder.options = option, option[0].off = 4096))
