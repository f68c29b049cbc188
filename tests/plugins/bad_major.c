/* bad_major -- refused: made for the next major of the ABI. */
#include "fixture.h"

FIXTURE_SOUND(bad_major, plugin.abi_major = LAB_ABI_MAJOR + 1)
