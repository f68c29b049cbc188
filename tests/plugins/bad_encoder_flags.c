/* bad_encoder_flags -- refused: a flag that this ABI does not know. */
#include "fixture.h"

FIXTURE_SOUND(bad_encoder_flags, encoder.flags = LAB_E_SHIFT_INVARIANT | 0x100u)
