/* positions -- where a sequence's position ids come from; any encoder works with any source.
 *
 *   sequential  0 .. T-1
 *   random      T different numbers below max, sorted (Ruoss et al. 2023, Randomized Positional Encodings Boost
 *               Length Generalization of Transformers, arXiv 2305.16843)
 *   offset      T consecutive numbers below max from a random start
 *   scaled      floor(t max / T): every sequence, short or long, is spread over all of 0 .. max-1
 *
 * Draws are a pure function of what names them: the run's seed, the step and the sequence in training; the evaluation's
 * seed, the length and the example in evaluation.
 */
#ifndef LAB_EXP_POSITIONS_H
#define LAB_EXP_POSITIONS_H
#include "abi/lab_plugin.h"

enum { POSITIONS_SEQUENTIAL, POSITIONS_RANDOM, POSITIONS_OFFSET, POSITIONS_SCALED };
enum { POSITIONS_PER_BATCH, POSITIONS_PER_EXAMPLE };

struct positions_options {
    int32_t source;
    int32_t max;                     /* ids are below it; not used by sequential */
    int32_t per;                     /* what one training draw serves; evaluation draws for each example */
    int32_t eval;                    /* evaluate with this source too; 0: sequentially */
};
extern const struct lab_option config_positions_table[];

/* The ids of one sequence, pos [T]; T <= max unless sequential.  r: where draws come from. */
void positions_fill(const struct positions_options *, struct lab_rng *r, int T, int32_t *pos);
/* Does each example have ids of its own? */
int  positions_own(const struct positions_options *, int training);
#endif
