/* bad_option_choices -- refused: an option without the words it may be. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_choices, (encoder.options = option, option[1].choices = NULL))
