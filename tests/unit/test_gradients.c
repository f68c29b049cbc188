/* test_gradients -- the whole model's gradient against central differences, and the symmetries that it must respect.
 *
 * Every encoder, both directions, every norm and activation, dropout, padding, odd positions, short and long sequences: one
 * table of cases.  In double the differences (h = 1e-4) agree to 1e-6; in float they only show that the same code runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "assert_near.h"
#include "tiny_model.h"
#include "base/rng.h"
#include "nn/optim.h"

enum { IN_ORDER, GAPS, ROWS, NEAR_ROWS };        /* positions: 0 1 2 .., from 1000 with gaps, different in each sequence, and small */
enum { VOCAB_IN = 7, PADDING = VOCAB_IN - 1, VOCAB_OUT = 5, MOST = 512, SAMPLED = 6, TRAINED_STEPS = 50, DROPOUT_STEP = 3 };
static const int exact = sizeof(lab_real) == sizeof(double);

struct gradient_case {
    const char *name, *encoder, *option[TINY_OPTIONS];
    int causal, norm, norm_type, activation, tied, heads, B, T, positions, padded, weighted;
    double dropout;
};
#define BIDIRECTIONAL 0
#define CAUSAL 1
#define ORDINARY .heads = 2, .B = 3, .T = 5

/* ReLU's kink spoils a difference that straddles it, so most cases use the smooth activations. */
static const struct gradient_case cases[] = {
    /* name                    encoder                     direction               norm             kind             activation */
    { "none",                  "none",       { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY },
    { "none causal",           "none",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY },
    { "none pre",              "none",       { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_GELU,   ORDINARY },
    { "none causal pre",       "none",       { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "sinusoidal",            "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_GELU,   ORDINARY },
    { "sinusoidal causal",     "sinusoidal", { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "sinusoidal pre",        "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_GELU,   ORDINARY },
    { "sinusoidal causal pre", "sinusoidal", { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY },
    { "learned",               "learned",    { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "learned causal",        "learned",    { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_GELU,   ORDINARY },
    { "learned pre",           "learned",    { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY },
    { "learned causal pre",    "learned",    { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_GELU,   ORDINARY },
    { "t5",                    "t5",         { "buckets=8", "max_distance=6" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "t5 causal",             "t5",         { "buckets=8", "max_distance=6" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY },
    { "t5 pre",                "t5",         { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_GELU,   ORDINARY },
    { "t5 causal pre",         "t5",         { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "rope",                  "rope",       { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY },
    { "rope causal",           "rope",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY },
    { "rope pre",              "rope",       { "pairs=half" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_GELU,  ORDINARY },
    { "rope causal pre",       "rope",       { "fraction=0.5" }, CAUSAL,  MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },

    { "relu",                  "none",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_RELU,   ORDINARY },
    { "relu pre",              "rope",       { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_RELU,   ORDINARY },
    { "tied",                  "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .tied = 1 },
    { "tied causal pre",       "rope",       { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY, .tied = 1 },
    { "weighted loss",         "t5",         { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .weighted = 1 },
    { "gaps sinusoidal",       "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = GAPS },
    { "gaps learned",          "learned",    { "max_len=2000" }, CAUSAL,  MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = GAPS },
    { "gaps t5",               "t5",         { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = GAPS },
    { "rows sinusoidal",       "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = ROWS },
    { "rows learned",          "learned",    { "max_len=2000" }, CAUSAL,  MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = ROWS },
    { "rows t5",               "t5",         { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = ROWS },
    { "rows t5 causal padded", "t5",         { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = ROWS, .padded = 1 },
    { "rows rope",             "rope",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .positions = ROWS },
    { "padded",                "learned",    { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .padded = 1 },
    { "padded t5",             "t5",         { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY, .padded = 1 },
    { "padded causal",         "rope",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY, .padded = 1 },
    { "dropout",               "sinusoidal", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .dropout = 0.3 },
    { "dropout learned pre",   "learned",    { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY, .dropout = 0.1 },
    { "dropout t5 padded",     "t5",         { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .dropout = 0.3, .padded = 1 },
    { "dropout rope tied",     "rope",       { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY, .dropout = 0.5, .tied = 1 },

    /* enough tokens that the first layer's queries, keys and values come by lookup */
#define MANY .heads = 2, .B = 8, .T = 4
    { "many",                  "none",       { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   MANY },
    { "many sinusoidal tied",  "sinusoidal", { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_SWIGLU, MANY, .tied = 1 },
    { "many learned",          "learned",    { "max_len=2000" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, MANY, .positions = GAPS, .padded = 1 },
    { "many rope rows",        "rope",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   MANY, .positions = ROWS },
    { "many learned rows",     "learned",    { "max_len=2000" }, CAUSAL,  MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   MANY, .positions = ROWS },
    { "many every hook",       "every_hook", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   MANY, .padded = 1 },
    { "many dropout",          "learned",    { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   MANY, .dropout = 0.2 },
    { "many pre",              "learned",    { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_GELU,   MANY },

    { "every hook",            "every_hook", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY },
    { "every hook causal pre", "every_hook", { NULL },     CAUSAL,        MODEL_PRE_NORM,  MODEL_RMSNORM,   MODEL_SWIGLU, ORDINARY, .dropout = 0.2 },
    { "every hook padded",     "every_hook", { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   ORDINARY, .padded = 1, .positions = ROWS },
    { "every hook, 70 keys",   "every_hook", { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 3, .T = 70, .padded = 1 },

    { "alibi", "alibi", { "learned=yes", "side=offset" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "alibi rows padded", "alibi", { "learned=yes", "side=offset" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "alibi gaps", "alibi", { "learned=yes", "side=offset" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "alibi causal pre", "alibi", { "learned=yes", "side=offset" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "alibi causal rows padded", "alibi", { "learned=yes", "side=offset" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "alibi, 70 keys", "alibi", { "learned=yes", "side=offset" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "alibi split", "alibi", { "learned=yes", "side=split" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "alibi fixed", "alibi", { NULL }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "alibi of 8 heads", "alibi", { "learned=yes" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 8, .B = 3, .T = 5 },
    { "shaw", "shaw", { "clip=2" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "shaw rows padded", "shaw", { "clip=2" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "shaw gaps", "shaw", { "clip=2" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "shaw causal pre", "shaw", { "clip=2" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "shaw causal rows padded", "shaw", { "clip=2" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "shaw, 70 keys", "shaw", { "clip=2" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "shaw, keys alone", "shaw", { "clip=16", "values=no" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "transformer_xl", "transformer_xl", { "base=100" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "transformer_xl rows padded", "transformer_xl", { "base=100" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "transformer_xl gaps", "transformer_xl", { "base=100" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "transformer_xl causal pre", "transformer_xl", { "base=100" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "transformer_xl causal rows padded", "transformer_xl", { "base=100" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "transformer_xl, 70 keys", "transformer_xl", { "base=100" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "swin", "swin", { "clip=2" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "swin rows padded", "swin", { "clip=2" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "swin gaps", "swin", { "clip=2" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "swin causal pre", "swin", { "clip=2" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "swin causal rows padded", "swin", { "clip=2" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "swin, 70 keys", "swin", { "clip=2" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "kerple", "kerple", { "form=log" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "kerple rows padded", "kerple", { "form=log" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "kerple gaps", "kerple", { "form=log" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "kerple causal pre", "kerple", { "form=log" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "kerple causal rows padded", "kerple", { "form=log" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "kerple, 70 keys", "kerple", { "form=log" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "kerple power", "kerple", { "form=power" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "kerple power causal rows", "kerple", { "form=power" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "fire", "fire", { "length=3" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "fire rows padded", "fire", { "length=3" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "fire gaps", "fire", { "length=3" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "fire causal pre", "fire", { "length=3" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "fire causal rows padded", "fire", { "length=3" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "fire, 70 keys", "fire", { "length=3" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "fire shared", "fire", { "length=2.5", "shared=yes", "width=5" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "xpos causal pre", "xpos", { "decay=8" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "xpos causal rows padded", "xpos", { "decay=8" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "xpos, 70 keys", "xpos", { "decay=8" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "xpos gaps", "xpos", { NULL }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS },
    { "cope causal pre", "cope", { "positions=3" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "cope causal rows padded", "cope", { "positions=3" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "forget causal pre", "forget", { NULL }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "forget causal rows padded", "forget", { "start=2" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "forget, 70 keys", "forget", { "start=3" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "cope, 70 keys", "cope", { "positions=3" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, .heads = 2, .B = 3, .T = 70, .padded = 1, .dropout = 0.1 },
    { "cope causal", "cope", { NULL }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "sandwich", "sandwich", { "dims=6" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "sandwich rows padded", "sandwich", { "dims=6" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = ROWS, .padded = 1 },
    { "sandwich gaps", "sandwich", { "dims=6" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS, .dropout = 0.2 },
    { "sandwich causal pre", "sandwich", { "dims=6" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "sandwich causal rows padded", "sandwich", { "dims=6" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = ROWS, .padded = 1, .dropout = 0.2 },
    { "fourier", "fourier", { "base=100" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "fourier rows padded", "fourier", { "base=100" }, BIDIRECTIONAL, MODEL_PRE_NORM, MODEL_RMSNORM, MODEL_SWIGLU, ORDINARY, .positions = NEAR_ROWS, .padded = 1 },
    { "fourier causal pre", "fourier", { "base=100" }, CAUSAL, MODEL_PRE_NORM, MODEL_LAYERNORM, MODEL_SWIGLU, ORDINARY },
    { "fourier causal rows padded", "fourier", { "base=100" }, CAUSAL, MODEL_POST_NORM, MODEL_RMSNORM, MODEL_GELU, ORDINARY, .positions = NEAR_ROWS, .padded = 1, .dropout = 0.2 },
    { "fourier scale", "fourier", { "speeds=no", "start=0" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = GAPS },
    { "fourier speeds", "fourier", { "scaled=no", "start=0.5" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "rope linear", "rope", { "scaling=linear", "factor=4" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "rope ntk", "rope", { "scaling=ntk", "factor=4" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },
    { "rope ntk_dynamic", "rope", { "scaling=ntk_dynamic", "factor=2", "original=3" }, BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY, .positions = ROWS },
    { "rope yarn", "rope", { "scaling=yarn", "factor=4", "original=60", "base=50" }, CAUSAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU, ORDINARY },

    { "one token",             "learned",    { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 4, .T = 1 },
    { "one sequence, one head", "t5",        { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 1, .B = 1, .T = 9 },
    { "head size 1",           "t5",         { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_SWIGLU, .heads = 8, .B = 2, .T = 17 },
    { "64 keys",               "t5",         { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 2, .T = 64 },
    { "65 keys",               "rope",       { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 2, .T = 65 },
    { "150 keys",              "t5",         { NULL },     BIDIRECTIONAL, MODEL_PRE_NORM,  MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 1, .T = 150, .dropout = 0.1 },
    { "150 keys causal",       "t5",         { NULL },     CAUSAL,        MODEL_POST_NORM, MODEL_RMSNORM,   MODEL_SWIGLU, .heads = 2, .B = 2, .T = 150, .padded = 1, .dropout = 0.1 },
    { "150 keys in rows",      "t5",         { NULL },     BIDIRECTIONAL, MODEL_POST_NORM, MODEL_LAYERNORM, MODEL_GELU,   .heads = 2, .B = 2, .T = 150, .positions = ROWS },
};

/* ---- a case's model and data ---- */

struct bench {
    struct tiny tiny;
    struct model *model;
    int32_t token[MOST], target[MOST], pos[MOST];
    uint8_t key_ok[MOST];
    float weight[MOST];
    struct model_batch batch;
};

#define FOR_TRAINED(p, m) for (struct model_param *p = (m)->param; p < (m)->param + (m)->n_param; p++) if (p->grad)

static void open_bench(struct bench *b, const struct gradient_case *c)
{
    struct lab_rng r = lab_rng_at(20, 1, (uint32_t)c->T, (uint32_t)c->B);
    size_t n = (size_t)c->B * c->T;
    struct tiny_spec spec = { .encoder = c->encoder,
                              .model = { .d_model = 8, .heads = c->heads, .layers = 2, .d_ff = 12, .norm = c->norm, .norm_type = c->norm_type,
                                         .activation = c->activation, .causal = c->causal, .tied = c->tied, .dropout = c->dropout },
                              .vocab_in = VOCAB_IN, .vocab_out = c->tied ? VOCAB_IN : VOCAB_OUT, .B = c->B, .T = c->T, .seed = 7 };
    assert_true(n <= MOST);
    memcpy(spec.option, c->option, sizeof spec.option);
    for (size_t i = 0; i < n; i++) {
        int row = (int)i / c->T, t = (int)i % c->T;
        b->token[i] = (int32_t)lab_rng_below(&r, PADDING);
        b->target[i] = (int32_t)lab_rng_below(&r, (uint32_t)spec.vocab_out + 1) - 1;
        b->pos[i] = c->positions == IN_ORDER ? t : c->positions == GAPS ? 1000 + t * t : c->positions == NEAR_ROWS ? row + t * (row + 1) : 1000 / (row + 1) + t * (row + 2);
        b->weight[i] = (float)(lab_rng_below(&r, 8) + 1) / 4;
        b->key_ok[i] = !c->padded || row == 0 || t == 0 || lab_rng_below(&r, 3) != 0;     /* key 0 stays, for causal rows */
        if (!b->key_ok[i]) b->target[i] = -1, b->token[i] = PADDING;
        if (b->pos[i] >= spec.max_pos) spec.max_pos = b->pos[i] + 1;
    }
    b->target[0] = 0;                            /* at least one position counts */
    b->batch = (struct model_batch){ .B = c->B, .T = c->T, .token = b->token, .target = b->target, .weight = c->weighted ? b->weight : NULL,
                                     .pos = b->pos, .pos_stride = c->positions >= ROWS ? c->T : 0, .key_ok = c->padded ? b->key_ok : NULL };
    tiny_open(&b->tiny, &spec);
    b->model = &b->tiny.model;
    /* Biases start at 0 and norms at 1: all weights move a little, so that none hides behind a special value. */
    FOR_TRAINED(p, b->model)
        for (size_t k = 0; k < p->size; k++) p->value[k] += (lab_real)(0.1 * rng_normal(&r));
}

/* Sequences first .. first+B-1 of the batch as a batch of their own, with the dropout masks they have among the others. */
static struct model_batch part_of(const struct model_batch *all, int first, int B)
{
    struct model_batch part = *all;
    int at = first * all->T;
    part.B = B;
    part.first += first;
    part.token += at;
    part.target += at;
    if (part.weight) part.weight += at;
    if (part.key_ok) part.key_ok += at;
    part.pos += first * all->pos_stride;
    return part;
}

static double weight_of(const struct model_batch *b)                 /* what the loss divides by */
{
    double total = 0;
    for (int i = 0; i < b->B * b->T; i++) total += b->target[i] < 0 ? 0 : b->weight ? (double)b->weight[i] : 1;
    return total;
}

/* By parts, because a training forward takes no more than model_chunk sequences. */
static double loss_of(struct bench *b)
{
    int chunk = model_chunk(b->model, b->batch.T);
    double sum = 0;
    for (int first = 0; first < b->batch.B; first += chunk) {
        struct model_batch part = part_of(&b->batch, first, b->batch.B - first < chunk ? b->batch.B - first : chunk);
        model_forward(b->model, &part, 1, DROPOUT_STEP);
        sum += model_loss(b->model, &part) * weight_of(&part);
    }
    return sum / weight_of(&b->batch);
}
static double gradient_of(struct bench *b) { return model_step(b->model, &b->batch, DROPOUT_STEP); }

/* ---- differences ---- */

/* Narrower for ReLU, so that few differences straddle its kink; wider in float, whose rounding it must stand out from. */
static double step_size(const struct bench *b)
{
    const char *encoder = b->tiny.spec.encoder;  /* fire has ReLUs within, cope bends at whole positions */
    int bends = b->tiny.spec.model.activation == MODEL_RELU || !strcmp(encoder, "fire") || !strcmp(encoder, "cope");
    return exact ? (bends ? 1e-6 : 1e-4) : bends ? 5e-4 : 3e-3;
}

/* Slope at 0 of the loss along a line, by the five-point central difference: its error is of order h^4, so that what is left is the
 * gradient's.  put() moves the weights to a point of the line and returns where they really are (float rounds). */
static double slope_of(struct bench *b, double h, double (*put)(void *line, double at), void *line)
{
    double point[4], loss[4];
    for (int i = 0; i < 4; i++) {
        point[i] = put(line, h * (i < 2 ? i - 2 : i - 1));           /* -2 -1 1 2 */
        loss[i] = loss_of(b);
    }
    put(line, 0);
    return (4 * (loss[2] - loss[1]) / (point[2] - point[1]) - (loss[3] - loss[0]) / (point[3] - point[0])) / 3;
}

struct coordinate { lab_real *weight, was; };
static double put_coordinate(void *line, double at)
{
    struct coordinate *c = line;
    *c->weight = (lab_real)(c->was + at);
    return (double)*c->weight - c->was;
}

struct direction { struct model *model; double *unit; lab_real *was; };
static double put_direction(void *line, double at)
{
    struct direction *d = line;
    size_t n = 0;
    FOR_TRAINED(p, d->model)
        for (size_t k = 0; k < p->size; k++, n++) p->value[k] = (lab_real)(d->was[n] + at * d->unit[n]);
    return at;
}

/* In float a difference is noise beside the largest gradients: there only gross errors show. */
static void check_slope(const char *what, double gradient, double difference, double largest)
{
    double limit = exact ? 1e-6 * fmax(fabs(difference), 1e-2) : 2e-2 * fmax(largest, 0.1);
    assert_near_one(what, gradient, difference, limit);
}

static double largest_gradient(const struct model *m)
{
    double top = 0;
    FOR_TRAINED(p, m) top = fmax(top, near_largest(p->grad, p->size));
    return top;
}

/* A direction through all weights at once: what the sample of coordinates leaves out. */
static void check_direction(struct bench *b, const char *when, struct lab_rng *r)
{
    struct model *m = b->model;
    size_t n = 0, at = 0;
    FOR_TRAINED(p, m) n += p->size;
    struct direction d = { m, calloc(n, sizeof *d.unit), calloc(n, sizeof *d.was) };
    double norm = 0, slope = 0;
    for (size_t k = 0; k < n; k++) d.unit[k] = rng_normal(r), norm += d.unit[k] * d.unit[k];
    FOR_TRAINED(p, m)
        for (size_t k = 0; k < p->size; k++, at++) {
            d.unit[at] /= sqrt(norm);
            d.was[at] = p->value[k];
            slope += p->grad[k] * d.unit[at];
        }
    char what[128];
    snprintf(what, sizeof what, "%s: slope along a random direction", when);
    check_slope(what, slope, slope_of(b, step_size(b), put_direction, &d), largest_gradient(m));
    free(d.unit);
    free(d.was);
}

static void check_coordinates(struct bench *b, const char *when, struct lab_rng *r)
{
    FOR_TRAINED(p, b->model)
        for (int sample = 0; sample < SAMPLED; sample++) {
            size_t k = lab_rng_below(r, (uint32_t)p->size);
            struct coordinate c = { &p->value[k], p->value[k] };
            char what[256];
            snprintf(what, sizeof what, "%s: d loss / d %s[%zu] against its difference", when, p->name, k);
            check_slope(what, p->grad[k], slope_of(b, step_size(b), put_coordinate, &c), largest_gradient(b->model));
        }
}

static void check_gradients(struct bench *b, const char *when)
{
    struct lab_rng r = lab_rng_at(21, 0, 0, 0);
    double loss = gradient_of(b);
    assert_near_one("loss of model_step against model_loss", loss, loss_of(b), 1e-6 * loss);
    check_coordinates(b, when, &r);
    check_direction(b, when, &r);
}

static void gradients_agree_with_differences(void **state)
{
    struct bench b;
    open_bench(&b, *state);
    check_gradients(&b, "at the start");
    const struct optim_options optim = { .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1 };
    for (int step = 0; step < TRAINED_STEPS; step++) {
        gradient_of(&b);
        optim_step(b.model, &optim, step);
    }
    check_gradients(&b, "after training");
    tiny_close(&b.tiny);
}

/* ---- symmetries, for every case to which they apply ---- */

#define FOR_CASES(c) for (const struct gradient_case *c = cases; c < cases + sizeof cases / sizeof *cases; c++)

/* Each sequence's gradient is a mean over its own scored positions, so it counts by their weight. */
static void batch_gradient_is_the_mean_over_sequences(void **state)
{
    (void)state;
    FOR_CASES(c) {
        struct bench b;
        double *sum[64] = { NULL };
        if (c->B == 1) continue;
        open_bench(&b, c);
        assert_true(b.model->n_param <= 64);
        FOR_TRAINED(p, b.model) sum[p - b.model->param] = calloc(p->size, sizeof **sum);
        for (int row = 0; row < c->B; row++) {
            struct model_batch one = part_of(&b.batch, row, 1);
            double share = weight_of(&one) / weight_of(&b.batch);
            model_forward(b.model, &one, 1, DROPOUT_STEP);
            model_backward(b.model, &one);
            FOR_TRAINED(p, b.model)
                for (size_t k = 0; k < p->size; k++) sum[p - b.model->param][k] += share * p->grad[k];
        }
        gradient_of(&b);
        FOR_TRAINED(p, b.model) {
            char what[256];
            snprintf(what, sizeof what, "case `%s`: %s", c->name, p->name);
            assert_near(what, p->grad, 1, sum[p - b.model->param], p->size, exact ? 1e-13 : 1e-5);
            free(sum[p - b.model->param]);
        }
        tiny_close(&b.tiny);
    }
}

/* Logits [B,T,V] of a forward; the caller frees them. */
static lab_real *logits_of(struct bench *b, int train)
{
    size_t each = (size_t)b->batch.T * b->tiny.spec.vocab_out;       /* of one sequence */
    lab_real *out = calloc(b->batch.B * each, sizeof *out);
    for (int row = 0; row < b->batch.B; row++) {
        struct model_batch one = part_of(&b->batch, row, 1);
        model_forward(b->model, &one, train, DROPOUT_STEP);
        memcpy(out + row * each, b->model->logits, each * sizeof *out);
    }
    return out;
}

/* The logits at every position with watched[i] keep their very bits when the tokens with changed[i] are replaced. */
static void check_no_influence(struct bench *b, const char *name, const uint8_t *watched, const uint8_t *changed)
{
    int n = b->batch.B * b->batch.T, V = b->tiny.spec.vocab_out, different = 0;
    for (int train = 0; train <= 1; train++) {
        lab_real *before = logits_of(b, train);
        for (int i = 0; i < n; i++)
            if (changed[i]) b->token[i] = (b->token[i] + 1 + i % (VOCAB_IN - 1)) % VOCAB_IN;
        lab_real *after = logits_of(b, train);
        for (int i = 0; i < n; i++) {
            int same = !memcmp(before + i * V, after + i * V, (size_t)V * sizeof *before);
            if (watched[i] && !same) fail_msg("case `%s`, train %d: the logits at %d changed with tokens they must not see", name, train, i);
            different += changed[i] && !same;
        }
        free(before);
        free(after);
    }
    assert_true(different > 0);                  /* the change itself was real */
}

static void padding_has_no_influence(void **state)
{
    (void)state;
    FOR_CASES(c) {
        struct bench b;
        uint8_t padding[MOST] = { 0 };
        if (!c->padded) continue;
        open_bench(&b, c);
        for (int i = 0; i < c->B * c->T; i++) padding[i] = !b.key_ok[i];
        gradient_of(&b);                         /* the padding's token occurs nowhere else: it must get no gradient at all */
        const struct model_param *embedding = tiny_param(b.model, "embedding.weight");
        for (int k = 0; k < 8; k++) assert_true(embedding->grad[PADDING * 8 + k] == 0);
        check_no_influence(&b, c->name, b.key_ok, padding);
        tiny_close(&b.tiny);
    }
}

static void causal_models_do_not_look_ahead(void **state)
{
    (void)state;
    FOR_CASES(c) {
        struct bench b;
        uint8_t early[MOST], late[MOST];
        if (!c->causal) continue;
        open_bench(&b, c);
        for (int i = 0; i < c->B * c->T; i++) late[i] = !(early[i] = i % c->T < c->T / 2);
        check_no_influence(&b, c->name, early, late);
        tiny_close(&b.tiny);
    }
}

int main(void)
{
    enum { CASES = sizeof cases / sizeof *cases };
    struct CMUnitTest tests[CASES + 3];
    for (size_t i = 0; i < CASES; i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name, .test_func = gradients_agree_with_differences,
                                        .initial_state = (void *)&cases[i] };
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(batch_gradient_is_the_mean_over_sequences);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(padding_has_no_influence);
    tests[CASES + 2] = (struct CMUnitTest)cmocka_unit_test(causal_models_do_not_look_ahead);
    return _cmocka_run_group_tests("gradients", tests, CASES + 3, NULL, NULL);
}
