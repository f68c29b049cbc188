/* none -- no positional encoding: a bidirectional model then cannot know the order of its input (a causal one can:
 * its mask tells).  The control of every comparison. */
#include "lab_plugin.h"

static const struct lab_encoder none = { .size = sizeof none, .flags = LAB_E_SHIFT_INVARIANT, .name = "none",
    .summary = "no positions at all",
    .cite = "Haviv et al. 2022, Transformer Language Models without Positional Encodings Still Learn Positional Information, "
            "arXiv 2203.16634" };
static const struct lab_encoder *const list[] = { &none, NULL };
LAB_PLUGIN(none, .version = "1", .license = "MIT", .encoders = list);
