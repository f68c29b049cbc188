/* sandwich -- adds to each logit the product of the sinusoidal codes of both positions, the sum of cos(n base^(-2k/dims)) over the
 * pairs k = 1 .. dims/2, divided by 8 h / H in head h = 1 .. H: a penalty of the distance n without parameters.  It does not tell
 * left from right.  Sources differ in where pairs begin: at 1 in NVIDIA's NeMo and in the sum as the paper on FIRE gives it, which
 * this follows, at 0 in PyTorch's attention-gym.  NeMo also takes dims/2 from the sum, which softmax ignores.
 * Refuses an odd number of dimensions: half of them are sines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "lab_plugin.h"

struct sandwich {
    double *product;                 /* [max_pos]: of each distance, before it is divided */
    double base;
    int32_t dims;
};

static const struct lab_option options[] = {
    LAB_INT(struct sandwich, dims, "128", 2, 65536, "of the sinusoidal code; has nothing to do with d_model"),
    LAB_REAL(struct sandwich, base, "10000", 1, 1e12, "the slowest pair turns by 1 / base for each position"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    struct sandwich *s = self;
    if (s->dims % 2)
        return lab_fail(err, "encoder.sandwich.dims must be even, one sine and one cosine for each pair, but it is %d: set %d",
                        s->dims, s->dims + 1);
    s->product = calloc((size_t)d->max_pos, sizeof *s->product);
    if (!s->product) return lab_fail(err, "out of memory for distances up to %d", d->max_pos - 1);
    for (int k = 1; k <= s->dims / 2; k++) {
        double speed = pow(s->base, -2.0 * k / s->dims);
        for (int n = 0; n < d->max_pos; n++) s->product[n] += cos(n * speed);
    }
    return 0;
}
static void fini(void *self) { free(((struct sandwich *)self)->product); }

static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    const struct sandwich *s = self;
    for (int h = 1; h <= c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += (lab_real)(s->product[abs(c->pos_q[i] - c->pos_k[j])] * c->H / (8.0 * h));
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db) { (void)self, (void)c, (void)db; }

static const struct lab_encoder sandwich = { .size = sizeof sandwich, .flags = LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT,
    .name = "sandwich", .summary = "a fixed penalty of the distance: the product of two sinusoidal codes",
    .cite = "Chi et al. 2023, Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis, arXiv 2212.10356",
    .self_size = sizeof(struct sandwich), .options = options, .init = init, .fini = fini, .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &sandwich, NULL };
LAB_PLUGIN(sandwich, .version = "1", .license = "MIT", .encoders = list);
