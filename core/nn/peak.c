/* peak -- see peak.h.  Independent chains, as many as hide the latency of two multiply-adds a cycle (4 or 5 cycles each). */
#include "nn/peak.h"
#include "abi/lab_plugin.h"

enum { CHAINS = 12 };

static volatile lab_real sink;       /* so that nothing is left out */

/* x = x a + b nears b / (1 - a) = 1 from wherever it starts: it neither overflows nor becomes denormal. */
#define PEAK(name, bytes, ...)                                                                      \
__VA_ARGS__ static double name(long rounds)                                                         \
{                                                                                                   \
    typedef lab_real vec __attribute__((vector_size(bytes)));                                       \
    enum { LANES = bytes / sizeof(lab_real) };                                                      \
    vec x[CHAINS], a = (vec){ 0 } + (lab_real)0.5, b = (vec){ 0 } + (lab_real)0.5;                  \
    _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) x[i] = (vec){ 0 } + (lab_real)(i + 2);\
    for (long r = 0; r < rounds; r++)                                                               \
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b;              \
    _Pragma("GCC unroll 16") for (int i = 1; i < CHAINS; i++) x[0] += x[i];                         \
    sink = x[0][0];                                                                                 \
    return 2.0 * CHAINS * LANES * (double)rounds;                                                   \
}

PEAK(peak_generic, 16)
#if defined(__x86_64__)
PEAK(peak_avx2, 32, __attribute__((target("avx2,fma"))))
PEAK(peak_avx512, 64, __attribute__((target("avx512f"))))
#endif

double peak_run(long rounds)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return peak_avx512(rounds);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return peak_avx2(rounds);
#endif
    return peak_generic(rounds);
}
