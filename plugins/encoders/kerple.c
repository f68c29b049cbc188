/* kerple -- takes from each logit a trained, conditionally positive definite function of the distance n: scale log(1 + rate n)
 * or scale n^power; each layer and head has its own two numbers.
 * The authors (chijames/KERPLE) clamp them to at least 0.01, and the power to at most 2, before every forward.  A plugin does not own its
 * parameters, so the numbers are folded back into the same range instead: 0.01 + |x|, which has a slope on either side. */
#include <math.h>
#include <stdlib.h>
#include "lab_plugin.h"

enum { LOG, POWER };
enum { SCALE, SHAPE };               /* SHAPE: rate or power */
struct kerple { int32_t form, max_pos; };
static const double floor_value = 0.01, top_power = 2;

static const struct lab_option options[] = {
    LAB_ENUM(struct kerple, form, "log", "log|power", "scale log(1 + rate n), or scale n^power"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)err;
    ((struct kerple *)self)->max_pos = d->max_pos;
    return 0;
}

/* The authors' starts: log has scale in [0,2] and rate in [0,1], power has scale in [0,1] and power in [0,2]. */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    static const char *const name[2][2] = { [LOG] = { "scale", "rate" }, [POWER] = { "scale", "power" } };
    static const double top[2][2] = { [LOG] = { 2, 1 }, [POWER] = { 1, 2 } };
    int form = ((const struct kerple *)self)->form;
    if (i > SHAPE) return 0;
    *out = (struct lab_param){ .name = name[form][i], .ndim = 1, .dim = { d->n_head }, .init = LAB_INIT_UNIFORM,
                               .b = top[form][i] - floor_value, .flags = LAB_P_PER_LAYER | LAB_P_NO_DECAY };
    return 1;
}

/* x folded into [floor, top] like a strip of paper, and the slope there, 1 or -1. */
static double fold(double x, double top, double *slope)
{
    double width = top - floor_value, y = fabs(x);
    *slope = x < 0 ? -1 : 1;
    if (isfinite(top)) {
        y = fmod(y, 2 * width);
        if (y > width) y = 2 * width - y, *slope = -*slope;
    }
    return floor_value + y;
}

struct kernel { double scale, shape, dscale, dshape; };                /* of one head; d: slopes of the folds */
static struct kernel kernel_of(const struct kerple *k, const struct lab_call *c, int h)
{
    struct kernel e;
    e.scale = fold((double)c->p[SCALE][h], INFINITY, &e.dscale);
    e.shape = fold((double)c->p[SHAPE][h], k->form == POWER ? top_power : INFINITY, &e.dshape);
    return e;
}
static double shape_of(int form, double shape, int n) { return form == LOG ? log1p(shape * n) : pow(n, shape); }
/* d shape_of / d shape; 0 at distance 0, where the power is 0 whatever its exponent */
static double shape_slope(int form, double shape, int n)
{
    return form == LOG ? n / (1 + shape * n) : n ? pow(n, shape) * log(n) : 0;
}

/* Logarithms are dear, so each distance is looked at once: a number [max_pos] for each, NAN until it occurs. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    (void)c;
    return hook == LAB_H_BIAS ? (size_t)((const struct kerple *)self)->max_pos * sizeof(double) : 0;
}
static double *blank(const struct kerple *k, const struct lab_call *c)
{
    double *number = c->scratch;
    for (int n = 0; n < k->max_pos; n++) number[n] = NAN;
    return number;
}

static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    const struct kerple *k = self;
    for (int h = 0; h < c->H; h++) {
        struct kernel e = kernel_of(k, c, h);
        double *penalty = blank(k, c);
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) {
                int n = abs(c->pos_q[i] - c->pos_k[j]);
                if (isnan(penalty[n])) penalty[n] = e.scale * shape_of(k->form, e.shape, n);
                *b++ -= (lab_real)penalty[n];
            }
    }
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    const struct kerple *k = self;
    for (int h = 0; h < c->H; h++) {
        struct kernel e = kernel_of(k, c, h);
        double *sum = blank(k, c), dscale = 0, dshape = 0;
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++, db++) {
                int n = abs(c->pos_q[i] - c->pos_k[j]);
                sum[n] = (isnan(sum[n]) ? 0 : sum[n]) + (double)*db;
            }
        for (int n = 0; n < k->max_pos; n++) {
            if (isnan(sum[n])) continue;
            dscale -= sum[n] * shape_of(k->form, e.shape, n);
            dshape -= sum[n] * e.scale * shape_slope(k->form, e.shape, n);
        }
        c->g[SCALE][h] += (lab_real)(dscale * e.dscale);
        c->g[SHAPE][h] += (lab_real)(dshape * e.dshape);
    }
}

static const struct lab_encoder kerple = { .size = sizeof kerple, .flags = LAB_E_SHIFT_INVARIANT, .name = "kerple",
    .summary = "a trained logarithmic or power penalty of the distance for each layer and head",
    .cite = "Chi et al. 2022, KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation, arXiv 2205.09921",
    .self_size = sizeof(struct kerple), .options = options, .init = init, .param = param, .scratch_size = scratch_size,
    .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &kerple, NULL };
LAB_PLUGIN(kerple, .version = "1", .license = "MIT", .encoders = list);
