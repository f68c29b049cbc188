/* bad_no_backward -- refused: a forward hook without its backward. */
#include "fixture.h"

FIXTURE_SOUND(bad_no_backward, encoder.embed_bwd = NULL)
