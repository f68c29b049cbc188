/* learned -- adds row p of a trained table [max_len, d_model] to the embedding of position p.
 * Refuses positions past the table's end: there is no row to add. */
#include <math.h>
#include "lab_plugin.h"

struct learned { double std; int32_t max_len; };

static const struct lab_option options[] = {
    LAB_INT(struct learned, max_len, "64", 1, 1000000, "rows of the table; rows past the training length stay as they started"),
    LAB_REAL(struct learned, std, "0", 0, 100, "standard deviation of the start; 0 stands for d_model^-0.5"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    const struct learned *l = self;
    if (d->max_pos <= l->max_len) return 0;
    return lab_fail(err, "the learned table has %d rows, but positions run to %d: set encoder.learned.max_len = %d, "
                    "or use shorter sequences", l->max_len, d->max_pos - 1, d->max_pos);
}

static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    const struct learned *l = self;
    if (i > 0) return 0;
    *out = (struct lab_param){ .name = "table", .ndim = 2, .dim = { l->max_len, d->d_model }, .init = LAB_INIT_NORMAL,
                               .b = l->std > 0 ? l->std : 1 / sqrt(d->d_model) };
    return 1;
}

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d) {
            const lab_real *row = c->p[0] + (size_t)c->pos_q[(size_t)b * c->stride_q + t] * c->d;
            for (int i = 0; i < c->d; i++) x[i] += row[i];
        }
}
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, dx += c->d) {
            lab_real *row = c->g[0] + (size_t)c->pos_q[(size_t)b * c->stride_q + t] * c->d;
            for (int i = 0; i < c->d; i++) row[i] += dx[i];
        }
}

static const struct lab_encoder learned = { .size = sizeof learned, .name = "learned",
    .summary = "a trained vector for each position, added to the embedding",
    .cite = "Gehring et al. 2017, Convolutional Sequence to Sequence Learning, section 3.1, arXiv 1705.03122",
    .self_size = sizeof(struct learned), .options = options, .init = init, .param = param,
    .embed = embed, .embed_bwd = embed_bwd };
static const struct lab_encoder *const list[] = { &learned, NULL };
LAB_PLUGIN(learned, .version = "1", .license = "MIT", .encoders = list);
