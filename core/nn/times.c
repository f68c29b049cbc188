/* times -- see times.h. */
#include "nn/times.h"
#include <string.h>
#include "base/clock.h"

int times_on;

static struct { enum times_part part; int64_t since, ns[TIMES_PARTS]; } now;

enum times_part times_switch(enum times_part part)
{
    enum times_part before = now.part;
    int64_t t = clock_ns();
    now.ns[before] += t - now.since;
    now.since = t;
    now.part = part;
    return before;
}

void times_start(void)
{
    memset(&now, 0, sizeof now);
    now.since = clock_ns();
    times_on = 1;
}

void times_stop(int64_t ns[TIMES_PARTS])
{
    times_switch(TIMES_REST);
    times_on = 0;
    for (int i = 0; i < TIMES_PARTS; i++) ns[i] += now.ns[i];
}
