/* positions -- see positions.h. */
#include "exp/positions.h"

const struct lab_option config_positions_table[] = {
    LAB_ENUM(struct positions_options, source, "sequential", "sequential|random|offset|scaled",
             "0 1 2 ..; sorted draws below max; a run from a random start; spread over all of max"),
    LAB_INT(struct positions_options, max, "2048", 1, 1000000, "position ids are below it; sequential does not use it"),
    LAB_ENUM(struct positions_options, per, "batch", "batch|example", "what one draw serves in training; in evaluation each example has its own"),
    LAB_BOOL(struct positions_options, eval, "yes", "evaluate with this source too; no: sequentially"),
    LAB_OPTIONS_END };

/* Each number in turn is taken with the probability that makes all subsets equally likely (Knuth, The Art of Computer Programming,
 * volume 2, section 3.4.2, algorithm S): they come sorted, and nothing is kept. */
static void draw_subset(struct lab_rng *r, int max, int T, int32_t *pos)
{
    for (int value = 0, taken = 0; taken < T; value++)
        if (lab_rng_below(r, (uint32_t)(max - value)) < (uint32_t)(T - taken)) pos[taken++] = value;
}

void positions_fill(const struct positions_options *o, struct lab_rng *r, int T, int32_t *pos)
{
    int start = 0;
    if (o->source == POSITIONS_RANDOM) {
        draw_subset(r, o->max, T, pos);
        return;
    }
    if (o->source == POSITIONS_OFFSET) start = (int)lab_rng_below(r, (uint32_t)(o->max - T + 1));
    for (int t = 0; t < T; t++) pos[t] = o->source == POSITIONS_SCALED ? (int32_t)((int64_t)t * o->max / T) : start + t;
}

int positions_own(const struct positions_options *o, int training)
{
    int drawn = o->source == POSITIONS_RANDOM || o->source == POSITIONS_OFFSET;
    return drawn && (!training || o->per == POSITIONS_PER_EXAMPLE);
}
