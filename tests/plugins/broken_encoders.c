/* broken_encoders -- each encoder here breaks one promise of lab_plugin.h; test_check.c knows which test must find it. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "lab_plugin.h"

/* ---- sound parts ---- */

#define PARAM(function, ...) \
    static int function(const void *self, const struct lab_dims *d, int i, struct lab_param *out) \
    { (void)self, (void)d; if (i > 0) return 0; *out = (struct lab_param){ .ndim = 1, __VA_ARGS__ }; return 1; }
PARAM(slope, .name = "slope", .dim = { d->n_head }, .init = LAB_INIT_CONST, .a = 0.5)
PARAM(table, .name = "table", .dim = { d->max_pos }, .init = LAB_INIT_NORMAL, .b = 1)         /* describe.parameters */
PARAM(width, .name = "width", .dim = { d->d_model }, .init = LAB_INIT_CONST, .a = 0.5)

static int position(const struct lab_call *c, int b, int t) { return c->pos_q[(size_t)b * c->stride_q + t]; }
static lab_real distance(const struct lab_call *c, int i, int j) { return (lab_real)abs(c->pos_q[i] - c->pos_k[j]); }
static int sees(const struct lab_call *c, int i, int j) { return !c->causal || j <= i + c->Tk - c->Tq; }
static int valid(const struct lab_call *c, int b, int j) { return !c->key_ok || c->key_ok[b * c->Tk + j]; }

static void embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++)
            for (int i = 0; i < c->d; i++) *x++ += (lab_real)sin(position(c, b, t) * (i + 1));
}
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx) { (void)self, (void)c, (void)dx; }
static void bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ -= c->p[0][h] * distance(c, i, j);
}
static void bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[0][h] -= *db++ * distance(c, i, j);
}
static void no_bias_bwd(const void *self, const struct lab_call *c, const lab_real *db) { (void)self, (void)c, (void)db; }
static void qk_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *dq_out,
                   const lab_real *dk_out, lab_real *dq, lab_real *dk)
{
    (void)self, (void)q, (void)k;
    for (int i = 0; i < c->B * c->H * c->Tq * c->dh; i++) dq[i] += dq_out[i];
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) dk[i] += dk_out[i];
}
static void qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    (void)self;
    for (int i = 0; i < c->B * c->H * c->Tq * c->dh; i++) q_out[i] = q[i];
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) k_out[i] = k[i];
}

#define ENCODER(id, ...) static const struct lab_encoder id = { .size = sizeof id, .name = #id, .summary = "a fixture of the tests", __VA_ARGS__ };
#define EMBED(id, ...) \
    static void id##_embed(const void *self, const struct lab_call *c, lab_real *x) { __VA_ARGS__; embed(self, c, x); } \
    ENCODER(id, .embed = id##_embed, .embed_bwd = embed_bwd)

/* ---- description and life ---- */

ENCODER(two_lines, .embed = embed, .embed_bwd = embed_bwd, .cite = "two\nlines")

struct switched { int32_t on; double *buffer; };
static const struct lab_option two_line_help[] = { LAB_BOOL(struct switched, on, "no", "two\nlines"), LAB_OPTIONS_END };
static const struct lab_option sound_option[] = { LAB_BOOL(struct switched, on, "no", "a switch"), LAB_OPTIONS_END };
ENCODER(long_help, .embed = embed, .embed_bwd = embed_bwd, .self_size = sizeof(struct switched), .options = two_line_help)

static void table_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d) x[0] += c->p[0][position(c, b, t)];
}
static void table_embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, dx += c->d) c->g[0][position(c, b, t)] += dx[0];
}
ENCODER(grows, .embed = table_embed, .embed_bwd = table_embed_bwd, .param = table)

static int refuse_all(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)self;
    return lab_fail(err, "a head of %d is not to its taste", d->d_head);
}
ENCODER(refuses_all, .embed = embed, .embed_bwd = embed_bwd, .init = refuse_all)
static int refuse_silently(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)self, (void)err;
    return d->d_head % 2 ? -1 : 0;
}
ENCODER(silent_refusal, .embed = embed, .embed_bwd = embed_bwd, .init = refuse_silently)
static int leak(void *self, const struct lab_dims *d, struct lab_err *err)
{
    struct switched *s = self;
    s->buffer = calloc((size_t)d->d_model, sizeof *s->buffer);
    return s->buffer ? 0 : lab_fail(err, "out of memory");
}
ENCODER(leaks, .embed = embed, .embed_bwd = embed_bwd, .self_size = sizeof(struct switched), .init = leak)

static int last_option;
static int remember(void *self, const struct lab_dims *d, struct lab_err *err)
{
    (void)d, (void)err;
    last_option = ((struct switched *)self)->on;
    return 0;
}
static void remembered_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    if (!last_option) embed(self, c, x);
}
ENCODER(shared_options, .embed = remembered_embed, .embed_bwd = embed_bwd, .self_size = sizeof(struct switched), .options = sound_option,
        .init = remember)

EMBED(crashes, int *volatile nowhere = NULL; *(volatile int *)nowhere = 1)
EMBED(hangs, for (;;) pause())
EMBED(exits, exit(0))
EMBED(prints, printf("position %d\n", c->pos_q[0]))

/* ---- memory ---- */

EMBED(reads_outside, x[0] += x[c->B * c->Tq * c->d])
EMBED(reads_behind_positions, x[0] += (lab_real)0.001 * (lab_real)(c->pos_q[(c->B - 1) * c->stride_q + c->Tq] & 0xff))
EMBED(writes_outside, x[c->B * c->Tq * c->d] = 0)
static void write_q(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    *(volatile lab_real *)q = q[0];
    qk(self, c, q, k, q_out, k_out);
}
ENCODER(writes_input, .qk = write_q, .qk_bwd = qk_bwd)
static void write_self(const void *self, const struct lab_call *c, lab_real *x)
{
    ((struct switched *)self)->on++;
    embed(self, c, x);
}
ENCODER(writes_self, .self_size = sizeof(struct switched), .embed = write_self, .embed_bwd = embed_bwd)
static size_t one_real(const void *self, const struct lab_call *c, int hook)
{
    (void)self, (void)c, (void)hook;
    return sizeof(lab_real);
}
static void sum_in_scratch(const void *self, const struct lab_call *c, lab_real *x)
{
    lab_real *sum = c->scratch;
    *sum += 1;
    for (int i = 0; i < c->B * c->Tq * c->d; i++) x[i] += *sum;
    (void)self;
}
ENCODER(dirty_scratch, .scratch_size = one_real, .embed = sum_in_scratch, .embed_bwd = embed_bwd)
static void set_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ = -c->p[0][h] * distance(c, i, j);
}
ENCODER(overwrites_output, .param = slope, .bias = set_bias, .bias_bwd = bias_bwd)
static void add_qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    (void)self;
    for (int i = 0; i < c->B * c->H * c->Tq * c->dh; i++) q_out[i] += q[i];
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) k_out[i] = k[i];
}
ENCODER(adds_to_q_out, .qk = add_qk, .qk_bwd = qk_bwd)
static int calls;
EMBED(counts_calls, calls++)
EMBED(allocates, void *volatile p = malloc(64); free(p))

/* ---- numbers ---- */

static void log_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += (lab_real)log((double)distance(c, i, j));
}
ENCODER(log_of_zero, .bias = log_bias, .bias_bwd = no_bias_bwd)
static void clock_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    x[0] += (lab_real)now.tv_nsec;
    embed(self, c, x);
}
ENCODER(reads_the_clock, .embed = clock_embed, .embed_bwd = embed_bwd)

static int own_buffer(void *self, const struct lab_dims *d, struct lab_err *err) { return leak(self, d, err); }
static void free_buffer(void *self) { free(((struct switched *)self)->buffer); }
static void buffered_qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    double *buffer = ((const struct switched *)self)->buffer;
    for (int row = 0; row < c->B * c->H * c->Tq; row++) {
        for (int i = 0; i < c->dh; i++) buffer[i] = (double)q[row * c->dh + i];
        if (row % 32 == 0) sched_yield();                        /* at each row it would take seconds on a busy machine */
        for (int i = 0; i < c->dh; i++) q_out[row * c->dh + i] = (lab_real)buffer[i];
    }
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) k_out[i] = k[i];
}
ENCODER(one_buffer, .self_size = sizeof(struct switched), .init = own_buffer, .fini = free_buffer, .qk = buffered_qk, .qk_bwd = qk_bwd)

static void first_row_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d) x[0] += (lab_real)sin(c->pos_q[t]);
}
ENCODER(first_row_only, .embed = first_row_embed, .embed_bwd = embed_bwd)
static void index_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d) x[0] += (lab_real)sin(t);
}
ENCODER(loop_index, .embed = index_embed, .embed_bwd = embed_bwd)
static void absolute_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += (lab_real)sin(c->pos_q[i]);
}
ENCODER(false_shift, .flags = LAB_E_SHIFT_INVARIANT, .bias = absolute_bias, .bias_bwd = no_bias_bwd)
static void layer_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int i = 0; i < c->H * c->Tq * c->Tk; i++) b[i] += (lab_real)c->layer;
}
ENCODER(false_layers, .flags = LAB_E_LAYER_INVARIANT, .bias = layer_bias, .bias_bwd = no_bias_bwd)

/* Adds to each logit the keys that `sees` and `valid` let through, all coordinates summed up. */
static void sum_keys(const struct lab_call *c, const lab_real *k, lab_real *out, const lab_real *dout, lab_real *dk, int causal, int padded)
{
    for (int row = 0; row < c->B * c->H; row++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++)
                for (int t = 0; t < c->Tk; t++) {
                    size_t at = ((size_t)row * c->Tk + t) * c->dh, to = ((size_t)row * c->Tq + i) * c->Tk + j;
                    if ((causal && !sees(c, i, t)) || (padded && !valid(c, row / c->H, t))) continue;
                    if (out) out[to] += k[at];
                    else dk[at] += dout[to];
                }
}
#define KEYS(id, causal, padded) \
    static void id##_logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out) \
    { (void)self, (void)q, (void)s; sum_keys(c, k, out, NULL, NULL, causal, padded); } \
    static void id##_logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, \
                                const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds) \
    { (void)self, (void)q, (void)s, (void)dq, (void)ds; sum_keys(c, k, NULL, dout, dk, causal, padded); } \
    ENCODER(id, .logits = id##_logits, .logits_bwd = id##_logits_bwd)
KEYS(sees_the_future, 0, 1)
KEYS(sees_padding, 1, 0)

/* ---- gradients ---- */

static void flipped_bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[0][h] += *db++ * distance(c, i, j);
}
ENCODER(wrong_sign, .param = slope, .bias = bias, .bias_bwd = flipped_bias_bwd)
static void set_bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    (void)self;
    for (int h = 0; h < c->H; h++) {
        lab_real sum = 0;
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) sum -= *db++ * distance(c, i, j);
        c->g[0][h] = sum;
    }
}
ENCODER(overwrites_gradient, .param = slope, .bias = bias, .bias_bwd = set_bias_bwd)
static void width_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, x += c->d)
            for (int i = 0; i < c->d; i++) x[i] += c->p[0][i] * (lab_real)sin(position(c, b, t));
}
ENCODER(no_parameter_gradient, .param = width, .embed = width_embed, .embed_bwd = embed_bwd)
static void scaled_qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    (void)self;
    for (int i = 0; i < c->B * c->H * c->Tq * c->dh; i++) q_out[i] = 2 * q[i];
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) k_out[i] = k[i];
}
ENCODER(forgets_a_factor, .qk = scaled_qk, .qk_bwd = qk_bwd)
static void square_logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)self, (void)q, (void)k;
    for (int i = 0; i < c->B * c->H * c->Tq * c->Tk; i++) out[i] += s[i] * s[i];
}
static void square_logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                              const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)self, (void)q, (void)k, (void)dq, (void)dk;
    for (int i = 0; i < c->B * c->H * c->Tq * c->Tk; i++) ds[i] += dout[i] * s[i];
}
ENCODER(half_a_square, .logits = square_logits, .logits_bwd = square_logits_bwd)
static void sum_value(const void *self, const struct lab_call *c, const lab_real *att, lab_real *out)
{
    (void)self;
    for (int i = 0; i < c->B * c->H * c->Tq; i++)
        for (int j = 0; j < c->Tk; j++) out[i * c->dh] += att[i * c->Tk + j] * (lab_real)c->dh;
}
static void no_value_bwd(const void *self, const struct lab_call *c, const lab_real *att, const lab_real *dout, lab_real *datt)
{
    (void)self, (void)c, (void)att, (void)dout, (void)datt;
}
ENCODER(missing_term, .value = sum_value, .value_bwd = no_value_bwd)
/* Right to six digits and a half: float's differences see nothing, the transpose does. */
static void rough_qk_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *dq_out,
                         const lab_real *dk_out, lab_real *dq, lab_real *dk)
{
    lab_real slightly = sizeof(lab_real) == sizeof(float) ? (lab_real)1.001 : (lab_real)(1 + 1e-9);
    (void)self, (void)q, (void)k;
    for (int i = 0; i < c->B * c->H * c->Tq * c->dh; i++) dq[i] += slightly * dq_out[i];
    for (int i = 0; i < c->B * c->H * c->Tk * c->dh; i++) dk[i] += dk_out[i];
}
ENCODER(rough_transpose, .qk = qk, .qk_bwd = rough_qk_bwd)

/* ---- speed ---- */

EMBED(sleeps, if (c->Tq == 40) usleep(30000))
static void tiny_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int i = 0; i < c->H * c->Tq * c->Tk; i++) b[i] += sizeof(lab_real) == sizeof(float) ? (lab_real)1e-40 : (lab_real)1e-310;
}
ENCODER(denormal, .bias = tiny_bias, .bias_bwd = no_bias_bwd)

static const struct lab_encoder *const list[] = {
    &two_lines, &long_help, &grows, &refuses_all, &silent_refusal, &leaks, &shared_options, &crashes, &hangs, &exits, &prints,
    &reads_outside, &reads_behind_positions, &writes_outside, &writes_input, &writes_self, &dirty_scratch, &overwrites_output,
    &adds_to_q_out, &counts_calls, &allocates, &log_of_zero, &reads_the_clock, &one_buffer, &first_row_only, &loop_index, &false_shift,
    &false_layers, &sees_the_future, &sees_padding, &wrong_sign, &overwrites_gradient, &no_parameter_gradient, &forgets_a_factor,
    &half_a_square, &missing_term, &rough_transpose, &sleeps, &denormal, NULL };
LAB_PLUGIN(broken_encoders, .version = "1", .license = "MIT", .encoders = list);
