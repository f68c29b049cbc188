/* bad_minor -- refused: needs a minor of the ABI that does not exist yet. */
#include "fixture.h"

FIXTURE_SOUND(bad_minor, plugin.abi_minor = LAB_ABI_MINOR + 1)
