/* fire -- adds to each logit f(psi(n) / psi(max(L, i))) for distance n and query position i: psi(x) = log(|c| x + 1), f a trained
 * network of one hidden layer, c and L trained.  Up to L only the distance counts; past it, the distance as a share of i.
 * As in the listing of the paper's appendix: |c n|, L as a trained multiple of its start, 1e-6 added to psi(max(L, i)) alone.  That
 * is for causal models; to the right n is the distance too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "lab_plugin.h"

enum { W1, B1, W2, B2, C, MULTIPLIER };
enum { MOST_WIDTH = 1024 };
struct fire { double c, length; int32_t width, shared, max_pos; };

static const struct lab_option options[] = {
    LAB_INT(struct fire, width, "32", 1, MOST_WIDTH, "of the hidden layer"),
    LAB_REAL(struct fire, c, "0.1", 1e-6, 1e6, "start of c"),
    LAB_REAL(struct fire, length, "512", 1e-3, 1e9, "start of L; a trained multiplier changes it"),
    LAB_BOOL(struct fire, shared, "no", "one network for all layers rather than one for each"),
    LAB_OPTIONS_END };

static int init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)err;
    ((struct fire *)self)->max_pos = d->max_pos;
    return 0;
}

/* Starts of the network as PyTorch's nn.Linear has them: uniform within 1/sqrt(inputs). */
static int param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    const struct fire *f = self;
    double in = 1 / sqrt(f->width);
    const struct lab_param all[] = {
        [W1] = { "weight1", 2, { f->width, 1 }, LAB_INIT_UNIFORM, -1, 1, 0 },
        [B1] = { "bias1", 1, { f->width }, LAB_INIT_UNIFORM, -1, 1, LAB_P_NO_DECAY },
        [W2] = { "weight2", 2, { d->n_head, f->width }, LAB_INIT_UNIFORM, -in, in, 0 },
        [B2] = { "bias2", 1, { d->n_head }, LAB_INIT_UNIFORM, -in, in, LAB_P_NO_DECAY },
        [C] = { "c", 1, { 1 }, LAB_INIT_CONST, f->c, 0, LAB_P_NO_DECAY },
        [MULTIPLIER] = { "multiplier", 1, { 1 }, LAB_INIT_CONST, 1, 0, LAB_P_NO_DECAY } };
    if (i > MULTIPLIER) return 0;
    *out = all[i];
    if (!f->shared) out->flags |= LAB_P_PER_LAYER;
    return 1;
}

/* f is asked once for each distance among rows of one normaliser: a table [max_pos,H], and which of it is known. */
static size_t scratch_size(const void *self, const struct lab_call *c, int hook)
{
    size_t n = (size_t)((const struct fire *)self)->max_pos;
    return hook == LAB_H_BIAS ? n * c->H * sizeof(lab_real) + n : 0;
}
static lab_real *table_of(const struct lab_call *c) { return c->scratch; }
static uint8_t *known_of(const struct fire *f, const struct lab_call *c) { return (uint8_t *)(table_of(c) + (size_t)f->max_pos * c->H); }

static double psi(double c, double x) { return log(fabs(c) * x + 1); }
static double dpsi_dc(double c, double x) { return (c < 0 ? -x : x) / (fabs(c) * x + 1); }
static double dpsi_dx(double c, double x) { return fabs(c) / (fabs(c) * x + 1); }

struct group { int first, end; double longest, normaliser; };          /* rows that share the normaliser psi(longest) */

static int next_group(const struct fire *f, const struct lab_call *c, struct group *g)
{
    double length = fabs((double)c->p[MULTIPLIER][0] * f->length);
    g->first = g->end;
    if (g->first == c->Tq) return 0;
    g->longest = fmax(length, c->pos_q[g->first]);
    g->normaliser = psi((double)c->p[C][0], g->longest) + 1e-6;        /* the authors' epsilon */
    while (g->end < c->Tq && fmax(length, c->pos_q[g->end]) == g->longest) g->end++;
    memset(known_of(f, c), 0, (size_t)f->max_pos);
    return 1;
}

static void network(const struct fire *f, const struct lab_call *c, lab_real x, lab_real *out)       /* out [H] */
{
    lab_real hidden[MOST_WIDTH];
    for (int k = 0; k < f->width; k++) hidden[k] = c->p[W1][k] * x + c->p[B1][k];
    for (int k = 0; k < f->width; k++) hidden[k] = hidden[k] > 0 ? hidden[k] : 0;
    for (int h = 0; h < c->H; h++) {
        out[h] = c->p[B2][h];
        for (int k = 0; k < f->width; k++) out[h] += c->p[W2][h * f->width + k] * hidden[k];
    }
}
/* Adds to the network's gradients; returns that of x. */
static double network_bwd(const struct fire *f, const struct lab_call *c, lab_real x, const lab_real *dout)
{
    double dx = 0;
    for (int k = 0; k < f->width; k++) {
        lab_real pre = c->p[W1][k] * x + c->p[B1][k], dpre = 0;
        if (pre <= 0) continue;
        for (int h = 0; h < c->H; h++) {
            dpre += c->p[W2][h * f->width + k] * dout[h];
            c->g[W2][h * f->width + k] += pre * dout[h];
        }
        c->g[W1][k] += dpre * x;
        c->g[B1][k] += dpre;
        dx += (double)(dpre * c->p[W1][k]);
    }
    for (int h = 0; h < c->H; h++) c->g[B2][h] += dout[h];
    return dx;
}

static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    const struct fire *f = self;
    lab_real *table = table_of(c);
    uint8_t *known = known_of(f, c);
    for (struct group g = { 0 }; next_group(f, c, &g);)
        for (int i = g.first; i < g.end; i++)
            for (int j = 0; j < c->Tk; j++) {
                int n = abs(c->pos_q[i] - c->pos_k[j]);
                if (!known[n]) network(f, c, (lab_real)(psi((double)c->p[C][0], n) / g.normaliser), table + (size_t)n * c->H);
                known[n] = 1;
                for (int h = 0; h < c->H; h++) b[((size_t)h * c->Tq + i) * c->Tk + j] += table[(size_t)n * c->H + h];
            }
}

/* Backward of one distance n of a group, whose gradients are summed in dout [H]. */
static void distance_bwd(const struct fire *f, const struct lab_call *c, const struct group *g, int n, const lab_real *dout)
{
    double a = (double)c->p[C][0], multiplier = (double)c->p[MULTIPLIER][0], x = psi(a, n) / g->normaliser;
    double dx = network_bwd(f, c, (lab_real)x, dout), dnormaliser = -dx * x / g->normaliser;
    c->g[C][0] += (lab_real)(dx / g->normaliser * dpsi_dc(a, n) + dnormaliser * dpsi_dc(a, g->longest));
    if (g->longest == fabs(multiplier * f->length))
        c->g[MULTIPLIER][0] += (lab_real)(dnormaliser * dpsi_dx(a, g->longest) * (multiplier < 0 ? -f->length : f->length));
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    const struct fire *f = self;
    lab_real *table = table_of(c);
    uint8_t *known = known_of(f, c);
    for (struct group g = { 0 }; next_group(f, c, &g);) {
        for (int i = g.first; i < g.end; i++)
            for (int j = 0; j < c->Tk; j++) {
                int n = abs(c->pos_q[i] - c->pos_k[j]);
                lab_real *sum = table + (size_t)n * c->H;
                if (!known[n]) memset(sum, 0, (size_t)c->H * sizeof *sum);
                known[n] = 1;
                for (int h = 0; h < c->H; h++) sum[h] += db[((size_t)h * c->Tq + i) * c->Tk + j];
            }
        for (int n = 0; n < f->max_pos; n++) if (known[n]) distance_bwd(f, c, &g, n, table + (size_t)n * c->H);
    }
}

static const struct lab_encoder fire = { .size = sizeof fire, .name = "fire",
    .summary = "a trained function of the distance, relative to the query's position far out",
    .cite = "Li et al. 2024, Functional Interpolation for Relative Positions Improves Long Context Transformers, arXiv 2310.04418",
    .self_size = sizeof(struct fire), .options = options, .init = init, .param = param, .scratch_size = scratch_size,
    .bias = bias, .bias_bwd = bias_bwd };
static const struct lab_encoder *const list[] = { &fire, NULL };
LAB_PLUGIN(fire, .version = "1", .license = "MIT", .encoders = list);
