/* bad_unresolved -- refused by the dynamic linker: it calls a function that nobody has. */
#include "fixture.h"

void bad_unresolved_function(void);
FIXTURE_SOUND(bad_unresolved, bad_unresolved_function())
