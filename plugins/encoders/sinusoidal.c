/* sinusoidal -- adds sin(p w_k) and cos(p w_k), w_k = base^(-2k/d), to the embedding of position p.  No parameters.
 * Refuses an odd d_model: its dimensions come in pairs. */
#include <math.h>
#include "lab_plugin.h"

enum { INTERLEAVED, CONCATENATED };
struct sinusoidal { double base; int32_t layout; };

static const struct lab_option options[] = {
    LAB_ENUM(struct sinusoidal, layout, "interleaved", "interleaved|concatenated",
             "sin cos sin cos ..., or all sines, then all cosines"),
    LAB_REAL(struct sinusoidal, base, "10000", 1, 1e12, "the slowest pair turns nearly this many times slower than the first"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)self;
    if (d->d_model % 2 == 0) return 0;
    return lab_fail(err, "sinusoidal needs an even model.d_model, one sine and one cosine for each pair, but it is %d: "
                    "set model.d_model = %d", d->d_model, d->d_model + 1);
}

static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)self, (void)hook;
    return (size_t)(c->d / 2) * sizeof(double);
}

/* The angle is taken in double from the whole position: in float it would be off by 1e-3 near position 10^4. */
static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    const struct sinusoidal *s = self;
    double *speed = c->scratch;                                        /* [d/2], radians a position */
    int pairs = c->d / 2, step = s->layout == INTERLEAVED ? 2 : 1, apart = s->layout == INTERLEAVED ? 1 : pairs;
    for (int k = 0; k < pairs; k++) speed[k] = pow(s->base, -2.0 * k / c->d);
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d)
            for (int k = 0; k < pairs; k++) {
                double angle = c->pos_q[(size_t)b * c->stride_q + t] * speed[k];
                x[k * step] += (lab_real)sin(angle);
                x[k * step + apart] += (lab_real)cos(angle);
            }
}

/* Nothing is trained; the host passes dx on to the token embeddings itself. */
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx) { (void)self, (void)c, (void)dx; }

static const struct lab_encoder sinusoidal = { .size = sizeof sinusoidal, .name = "sinusoidal",
    .summary = "fixed sines and cosines added to the embedding",
    .cite = "Vaswani et al. 2017, Attention Is All You Need, section 3.5, arXiv 1706.03762",
    .self_size = sizeof(struct sinusoidal), .options = options, .init = init, .scratch_size = scratch_size,
    .embed = embed, .embed_bwd = embed_bwd };
static const struct lab_encoder *const list[] = { &sinusoidal, NULL };
LAB_PLUGIN(sinusoidal, .version = "1", .license = "MIT", .encoders = list);
