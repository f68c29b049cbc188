/* kern_pick -- chooses the kernels that suit this CPU; LAB_SIMD overrides. */
#include <stdlib.h>
#include <string.h>
#include "nn/kern.h"

const struct kern *const *kern_all(void)
{
    static const struct kern *found[4];
    int n = 0;
    found[n++] = &kern_generic;
#if defined(__x86_64__)
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (avx2) found[n++] = &kern_avx2;
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw")) found[n++] = &kern_avx512;
#endif
    found[n] = NULL;
    return found;
}

int kern_pick(const struct kern **out, struct lab_err *err)
{
    const struct kern *const *k = kern_all();
    const char *wanted = getenv("LAB_SIMD");
    for (; *k; k++)
        if (wanted && *wanted ? !strcmp((*k)->isa, wanted) : !k[1]) return *out = *k, 0;
    return lab_fail(err, "LAB_SIMD=%s: this CPU has no such kernels; use generic, avx2 or avx512, or unset it", wanted);
}

const char *kern_isa(void)
{
    const struct kern *k;
    struct lab_err ignored;
    return kern_pick(&k, &ignored) == 0 ? k->isa : "?";
}
