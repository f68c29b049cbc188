/* fourier -- the sinusoidal encoder with what it fixes made trainable: the speeds w_k, the scale of the whole, or both.
 * Adds scale sin(p w_k) and scale cos(p w_k) to the embedding of position p.
 * Refuses an odd d_model: its dimensions come in pairs. */
#include <math.h>
#include "lab_plugin.h"

struct fourier { double base, start; int32_t speeds, scaled; };

static const struct lab_option options[] = {
    LAB_BOOL(struct fourier, speeds, "yes", "train the speeds, from the sinusoidal ones on"),
    LAB_BOOL(struct fourier, scaled, "yes", "train the scale"),
    LAB_REAL(struct fourier, start, "1", 0, 1000, "of the scale; 0 stands for d_model^-0.5"),
    LAB_REAL(struct fourier, base, "10000", 1, 1e12, "the slowest pair turns nearly this many times slower than the first"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)self;
    if (d->d_model % 2 == 0) return 0;
    return lab_fail(err, "fourier needs an even model.d_model, one sine and one cosine for each speed, but it is %d: "
                    "set model.d_model = %d", d->d_model, d->d_model + 1);
}

static double start_of(const struct fourier *f, int d) { return f->start > 0 ? f->start : 1 / sqrt(d); }

/* The first parameter is the speeds [d/2] if they are trained, the next one the scale [1]. */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    const struct fourier *f = self;
    if (i == 0 && f->speeds)
        *out = (struct lab_param){ .name = "speed", .ndim = 1, .dim = { d->d_model / 2 }, .init = LAB_INIT_CUSTOM, .flags = LAB_P_NO_DECAY };
    else if (i == f->speeds && f->scaled)
        *out = (struct lab_param){ .name = "scale", .ndim = 1, .dim = { 1 }, .init = LAB_INIT_CONST, .a = start_of(f, d->d_model), .flags = LAB_P_NO_DECAY };
    else return 0;
    return 1;
}
static double speed_of(const struct fourier *f, int k, int d) { return pow(f->base, -2.0 * k / d); }
static void param_init(const void *self, const struct lab_dims *d, int i, int layer, uint64_t seed, lab_real *w)
{
    (void)i, (void)layer, (void)seed;
    for (int k = 0; k < d->d_model / 2; k++) w[k] = (lab_real)speed_of(self, k, d->d_model);
}

static double scale_of(const struct fourier *f, const struct lab_call *c) { return f->scaled ? (double)c->p[f->speeds][0] : start_of(f, c->d); }
static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    const struct fourier *f = self;
    double scale = scale_of(f, c);
    for (int k = 0; k < c->d / 2; k++) {
        double speed = f->speeds ? (double)c->p[0][k] : speed_of(f, k, c->d);
        for (int n = 0; n < c->B * c->Tq; n++) {
            double angle = speed * c->pos_q[(size_t)(n / c->Tq) * c->stride_q + n % c->Tq];
            x[(size_t)n * c->d + 2 * k] += (lab_real)(scale * sin(angle));
            x[(size_t)n * c->d + 2 * k + 1] += (lab_real)(scale * cos(angle));
        }
    }
}
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx)
{
    const struct fourier *f = self;
    double scale = scale_of(f, c), dscale = 0;
    for (int k = 0; k < c->d / 2; k++) {
        double speed = f->speeds ? (double)c->p[0][k] : speed_of(f, k, c->d), dspeed = 0;
        for (int n = 0; n < c->B * c->Tq; n++) {
            double p = c->pos_q[(size_t)(n / c->Tq) * c->stride_q + n % c->Tq], sine = sin(speed * p), cosine = cos(speed * p);
            double dsine = (double)dx[(size_t)n * c->d + 2 * k], dcosine = (double)dx[(size_t)n * c->d + 2 * k + 1];
            dscale += dsine * sine + dcosine * cosine;
            dspeed += scale * p * (dsine * cosine - dcosine * sine);
        }
        if (f->speeds) c->g[0][k] += (lab_real)dspeed;
    }
    if (f->scaled) c->g[f->speeds][0] += (lab_real)dscale;
}

static const struct lab_encoder fourier = { .size = sizeof fourier, .name = "fourier",
    .summary = "sines and cosines of trained speeds and scale, added to the embedding",
    .cite = "Hua et al. 2022, Transformer Quality in Linear Time, arXiv 2202.10447 (scale); "
            "Li et al. 2021, Learnable Fourier Features for Multi-Dimensional Spatial Positional Encoding, arXiv 2106.02795 (speeds)",
    .self_size = sizeof(struct fourier), .options = options, .init = init, .param = param, .param_init = param_init,
    .embed = embed, .embed_bwd = embed_bwd };
static const struct lab_encoder *const list[] = { &fourier, NULL };
LAB_PLUGIN(fourier, .version = "1", .license = "MIT", .encoders = list);
