/* every_hook -- an encoder for tests that uses all five hooks, per-layer parameters, a frozen one, and save in three hooks.
 *
 * With r = position of key - position of query, clipped to [-2, 2], and one set of parameters a layer (mixing excepted):
 *   embed   x_p += mixing[p mod 4]                 qk     q <- turn q, k <- turn k  (a factor for each coordinate)
 *   bias    b_ij += slope[h] r                     logits s_ij += scale q_i . key_r  (Shaw et al. 2018)
 *   value   z_i += sum_j att_ij value_r            (Shaw et al. 2018)
 */
#ifndef LAB_TESTS_EVERY_HOOK_H
#define LAB_TESTS_EVERY_HOOK_H
#include <string.h>
#include "abi/lab_plugin.h"

enum { EVERY_MIXING, EVERY_TURN, EVERY_SLOPE, EVERY_KEY, EVERY_VALUE, EVERY_FROZEN, EVERY_REACH = 2, EVERY_ROWS = 2 * EVERY_REACH + 1 };

static inline int every_param(const void *self, const struct lab_dims *d, int i, struct lab_param *out)
{
    (void)self;
    struct lab_param all[] = {
        { "mixing", 2, { 4, d->d_model }, LAB_INIT_NORMAL, 0, 0.3, 0 },
        { "turn", 1, { d->d_head }, LAB_INIT_UNIFORM, 0.5, 1.5, LAB_P_PER_LAYER },
        { "slope", 1, { d->n_head }, LAB_INIT_CONST, 0.2, 0, LAB_P_PER_LAYER | LAB_P_NO_DECAY },
        { "key", 2, { EVERY_ROWS, d->d_head }, LAB_INIT_NORMAL, 0, 0.5, LAB_P_PER_LAYER },
        { "value", 2, { EVERY_ROWS, d->d_head }, LAB_INIT_NORMAL, 0, 0.5, LAB_P_PER_LAYER },
        { "frozen", 1, { 3 }, LAB_INIT_CONST, 2, 0, LAB_P_FROZEN },
    };
    if (i >= (int)(sizeof all / sizeof *all)) return 0;
    *out = all[i];
    return 1;
}

static inline int every_r(const struct lab_call *c, int b, int i, int j)           /* row of key - query */
{
    int r = c->pos_k[b * c->stride_k + j] - c->pos_q[b * c->stride_q + i];
    return (r < -EVERY_REACH ? -EVERY_REACH : r > EVERY_REACH ? EVERY_REACH : r) + EVERY_REACH;
}

static inline void every_embed(const void *self, const struct lab_call *c, lab_real *x)
{
    (void)self;
    int32_t *row = c->save;
    for (int b = 0; b < c->B; b++)
        for (int t = 0; t < c->Tq; t++, row++) {
            *row = c->pos_q[b * c->stride_q + t] % 4;
            for (int k = 0; k < c->d; k++) *x++ += c->p[EVERY_MIXING][*row * c->d + k];
        }
}
static inline void every_embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx)
{
    (void)self;
    const int32_t *row = c->save;
    for (int n = 0; n < c->B * c->Tq; n++, row++)
        for (int k = 0; k < c->d; k++) c->g[EVERY_MIXING][*row * c->d + k] += *dx++;
}

static inline void every_qk(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, lab_real *q_out, lab_real *k_out)
{
    (void)self;
    size_t nq = (size_t)c->B * c->H * c->Tq * c->dh, nk = (size_t)c->B * c->H * c->Tk * c->dh;
    for (size_t n = 0; n < nq; n++) q_out[n] = q[n] * c->p[EVERY_TURN][n % c->dh];
    for (size_t n = 0; n < nk; n++) k_out[n] = k[n] * c->p[EVERY_TURN][n % c->dh];
    memcpy(c->save, q, nq * sizeof *q);
}
static inline void every_qk_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *dq_out,
                                const lab_real *dk_out, lab_real *dq, lab_real *dk)
{
    (void)self, (void)q;
    size_t nq = (size_t)c->B * c->H * c->Tq * c->dh, nk = (size_t)c->B * c->H * c->Tk * c->dh;
    const lab_real *saved = c->save;
    for (size_t n = 0; n < nq; n++) {
        dq[n] += dq_out[n] * c->p[EVERY_TURN][n % c->dh];
        c->g[EVERY_TURN][n % c->dh] += dq_out[n] * saved[n];
    }
    for (size_t n = 0; n < nk; n++) {
        dk[n] += dk_out[n] * c->p[EVERY_TURN][n % c->dh];
        c->g[EVERY_TURN][n % c->dh] += dk_out[n] * k[n];
    }
}

static inline void every_bias(const void *self, const struct lab_call *c, lab_real *b)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) *b++ += c->p[EVERY_SLOPE][h] * (lab_real)(every_r(c, 0, i, j) - EVERY_REACH);
}
static inline void every_bias_bwd(const void *self, const struct lab_call *c, const lab_real *db)
{
    (void)self;
    for (int h = 0; h < c->H; h++)
        for (int i = 0; i < c->Tq; i++)
            for (int j = 0; j < c->Tk; j++) c->g[EVERY_SLOPE][h] += *db++ * (lab_real)(every_r(c, 0, i, j) - EVERY_REACH);
}

/* The hooks on content walk through [B,H,Tq,Tk] alike: n counts logits, q_n and k_n are where their vectors begin. */
#define EVERY_LOGIT(c, n) \
    for (size_t n = 0, H_ = (size_t)(c)->H, Tq_ = (size_t)(c)->Tq, Tk_ = (size_t)(c)->Tk; n < (c)->B * H_ * Tq_ * Tk_; n++)
static inline size_t every_query(const struct lab_call *c, size_t n) { return n / (size_t)c->Tk * (size_t)c->dh; }
static inline size_t every_row(const struct lab_call *c, size_t n)                  /* where its row of `key` or `value` begins */
{
    int j = (int)(n % (size_t)c->Tk), i = (int)(n / (size_t)c->Tk % (size_t)c->Tq), b = (int)(n / ((size_t)c->H * c->Tq * c->Tk));
    return (size_t)(every_r(c, b, i, j) * c->dh);
}

static inline void every_logits(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s, lab_real *out)
{
    (void)self, (void)k, (void)s;
    EVERY_LOGIT(c, n)
        for (int e = 0; e < c->dh; e++) out[n] += c->scale * q[every_query(c, n) + e] * c->p[EVERY_KEY][every_row(c, n) + e];
}
static inline void every_logits_bwd(const void *self, const struct lab_call *c, const lab_real *q, const lab_real *k, const lab_real *s,
                                    const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds)
{
    (void)self, (void)k, (void)s, (void)dk, (void)ds;
    EVERY_LOGIT(c, n)
        for (int e = 0; e < c->dh; e++) {
            dq[every_query(c, n) + e] += c->scale * dout[n] * c->p[EVERY_KEY][every_row(c, n) + e];
            c->g[EVERY_KEY][every_row(c, n) + e] += c->scale * dout[n] * q[every_query(c, n) + e];
        }
}

static inline void every_value(const void *self, const struct lab_call *c, const lab_real *att, lab_real *out)
{
    (void)self;
    EVERY_LOGIT(c, n)
        for (int e = 0; e < c->dh; e++) out[every_query(c, n) + e] += att[n] * c->p[EVERY_VALUE][every_row(c, n) + e];
    memcpy(c->save, att, (size_t)c->B * c->H * c->Tq * c->Tk * sizeof *att);
}
static inline void every_value_bwd(const void *self, const struct lab_call *c, const lab_real *att, const lab_real *dout, lab_real *datt)
{
    (void)self, (void)att;
    const lab_real *saved = c->save;
    EVERY_LOGIT(c, n)
        for (int e = 0; e < c->dh; e++) {
            datt[n] += dout[every_query(c, n) + e] * c->p[EVERY_VALUE][every_row(c, n) + e];
            c->g[EVERY_VALUE][every_row(c, n) + e] += saved[n] * dout[every_query(c, n) + e];
        }
}

static inline size_t every_save(const void *self, const struct lab_call *c, int hook)
{
    (void)self;
    size_t tokens = (size_t)c->B * c->Tq;
    return hook == LAB_H_EMBED ? tokens * sizeof(int32_t) : hook == LAB_H_QK ? tokens * c->d * sizeof(lab_real) :
           hook == LAB_H_VALUE ? tokens * c->H * c->Tk * sizeof(lab_real) : 0;
}

static const struct lab_encoder every_hook = {
    .size = sizeof every_hook, .name = "every_hook", .summary = "all five hooks", .cite = "", .self_size = 1,
    .param = every_param, .save_size = every_save, .embed = every_embed, .embed_bwd = every_embed_bwd, .qk = every_qk, .qk_bwd = every_qk_bwd,
    .bias = every_bias, .bias_bwd = every_bias_bwd, .logits = every_logits, .logits_bwd = every_logits_bwd,
    .value = every_value, .value_bwd = every_value_bwd,
};
#endif
