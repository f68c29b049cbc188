/* bad_chatty -- loads, then prints 1 MB to stdout and to stderr at each call. */
#include <stdio.h>
#include "fixture.h"

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self, (void)c, (void)x;
    for (int line = 0; line < 1 << 14; line++) {                 /* of 64 bytes each */
        printf("%063d\n", line);
        fprintf(stderr, "%063d\n", line);
    }
}
FIXTURE(bad_chatty, (void)0)
