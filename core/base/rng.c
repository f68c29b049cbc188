/* rng -- see rng.h. */
#include "base/rng.h"
#include <math.h>

struct lab_rng rng_stream(uint64_t seed, enum rng_stream stream, uint32_t a, uint32_t b)
{
    return lab_rng_at(seed, (uint32_t)stream, a, b);
}

double rng_normal(struct lab_rng *r)
{
    double u = (lab_rng_u32(r) + 1.0) * 0x1p-32;             /* (0, 1]: the logarithm is finite */
    double v = lab_rng_unit(r);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

uint32_t rng_name(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}
