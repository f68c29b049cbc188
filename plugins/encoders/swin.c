/* swin -- adds to each logit a trained number for its head and the relative position of its key, clipped to -clip .. clip; each
 * layer has a table of its own.  The table of Swin's windows, along one axis. */
#include "lab_plugin.h"

struct swin { int32_t clip; };

static const struct lab_option options[] = {
    LAB_INT(struct swin, clip, "16", 1, 1000000, "farther keys share the number of this distance on their side"),
    LAB_OPTIONS_END };

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    if (i > 0) return 0;
    *out = (struct lab_param){ .name = "bias", .ndim = 2, .dim = { 2 * ((const struct swin *)self)->clip + 1, d->n_head },
                               .init = LAB_INIT_NORMAL, .b = 0.02, .flags = LAB_P_PER_LAYER | LAB_P_NO_DECAY };
    return 1;
}

/* Where head 0 of the pair's row begins. */
static inline size_t row(const struct swin *s, const struct lab_call *c, int i, int j)
{
    int ahead = c->pos_k[j] - c->pos_q[i];
    return (size_t)((ahead < -s->clip ? -s->clip : ahead > s->clip ? s->clip : ahead) + s->clip) * c->H;
}
static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += c->p[0][row(self, c, i, j) + h];
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[0][row(self, c, i, j) + h] += *db++;
}

static const struct lab_encoder swin = { .size = sizeof swin, .flags = LAB_E_SHIFT_INVARIANT, .name = "swin",
    .summary = "a trained bias for each layer, head and clipped relative position",
    .cite = "Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, arXiv 2103.14030",
    .self_size = sizeof(struct swin), .options = options, .param = param, .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &swin, NULL };
LAB_PLUGIN(swin, .version = "1", .license = "MIT", .encoders = list);
