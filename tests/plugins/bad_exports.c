/* bad_exports -- loads, but exports a second name, which could collide with another plugin's. */
#include "fixture.h"

LAB_EXPORT int bad_exports_helper(void);
int bad_exports_helper(void) { return 42; }
FIXTURE_SOUND(bad_exports, (void)0)
