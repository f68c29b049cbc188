/* bad_name -- refused: the plugin's name is missing. */
#include "fixture.h"

FIXTURE_SOUND(bad_name, plugin.name = NULL)
