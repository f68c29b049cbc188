/* rng -- the named random streams of a run.
 *
 * Every random number is a pure function of (seed, stream, a, b): nothing is
 * remembered between draws, so one worker or eight, any order, and a resumed
 * run give the same bits, and an encoder with parameters shifts nobody's stream.
 */
#ifndef LAB_BASE_RNG_H
#define LAB_BASE_RNG_H
#include "abi/lab_plugin.h"

/* Streams from 0x100 up: below are the splits of lab_task.h, which tasks draw from. */
enum rng_stream {
    RNG_WEIGHTS = 0x100,             /* a = FNV-1a of the parameter's name */
    RNG_LENGTH,                      /* a = step: the length of a training batch (b = 0) or of its sequence b - 1 */
    RNG_DROPOUT,                     /* a = step, b = place in the model */
    RNG_POSITIONS,                   /* a = step, b = sequence; in evaluation a = length, b = example */
    RNG_ENCODER,                     /* a = step, b = layer: lab_call.seed */
    RNG_CEILING,                     /* a = multiset, b = length: order-blind ceiling */
    RNG_RESAMPLE                     /* a = values, b = which: sign flips and bootstraps of the answer */
};

struct lab_rng rng_stream(uint64_t seed, enum rng_stream stream, uint32_t a, uint32_t b);
double   rng_normal(struct lab_rng *);           /* standard normal, Box-Muller */
uint32_t rng_name(const char *name);             /* 32-bit FNV-1a */
#endif
