/* bad_encoder_size -- refused: its struct lab_encoder is larger than the host's. */
#include "fixture.h"

FIXTURE_SOUND(bad_encoder_size, encoder.size += 8)
