/* clock -- two clocks: calendar time for records, monotonic time for durations. */
#ifndef LAB_BASE_CLOCK_H
#define LAB_BASE_CLOCK_H
#include <stdint.h>

int64_t clock_utc_us(void);          /* microseconds since the epoch, UTC; may jump */
int64_t clock_ns(void);              /* nanoseconds since some start; never goes back */
#endif
