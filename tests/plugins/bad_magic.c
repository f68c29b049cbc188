/* bad_magic -- refused: the magic number is that of an ELF file. */
#include "fixture.h"

FIXTURE_SOUND(bad_magic, plugin.magic = 0x464c457fu)
