/* bad_option_help -- refused: an option that nobody explains. */
#include "fixture.h"

FIXTURE_SOUND(bad_option_help, (encoder.options = option, option[0].help = NULL))
