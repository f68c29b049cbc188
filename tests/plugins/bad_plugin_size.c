/* bad_plugin_size -- refused: its struct lab_plugin is larger than the host's. */
#include "fixture.h"

FIXTURE_SOUND(bad_plugin_size, plugin.size += 8)
