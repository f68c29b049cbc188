/* attn -- see attn.h. */
#include "nn/attn.h"
#include <math.h>
#include <string.h>
#include "base/rng.h"
#include "nn/gemm.h"
#include "nn/linear.h"
#include "nn/times.h"

typedef lab_real real;
enum { TILE = KERN_TILE,
       CHUNK = 32768 };              /* elements of q in a chunk of sequences: q, k and what they become stay in L2 */

static void host_log(void *ctx, int level, const char *msg)
{
    (void)ctx;
    fprintf(stderr, "lab: encoder (%d): %s\n", level, msg);
}
static void host_gemm(void *ctx, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda, const real *b, int ldb,
                      real beta, real *c, int ldc)
{
    (void)ctx;
    gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
static const struct lab_host host = { .size = sizeof host, .log = host_log, .gemm = host_gemm };

static int min(int a, int b) { return a < b ? a : b; }
static int general(const struct attn *a) { return a->encoder->logits || a->encoder->value; }

/* What the forward keeps of a head whose keys are one tile: see kern's attn_fwd. */
static size_t kept_weights(int T) { return (size_t)(T + 1) * (size_t)kern_attn_ld(T); }

size_t attn_kept(const struct attn *a, int batch, int tokens, int longest)
{
    size_t most = 0;
    for (int T = 1; T <= longest && !general(a); T++) {
        size_t B = (size_t)min(batch, tokens / T > 0 ? tokens / T : 1), heads = B * (size_t)a->H;
        size_t n = T <= TILE ? heads * kept_weights(T) : heads * (size_t)T;
        if (n > most) most = n;
    }
    return most;
}

static size_t bias_sets(const struct attn *a) { return a->encoder->flags & LAB_E_LAYER_INVARIANT ? 1 : (size_t)a->layers; }
static size_t tile_elements(const struct attn *a) { return (size_t)a->H * TILE * TILE; }

/* Sequences handled together: as many as stay in cache; all of them where nothing is copied or kept by sequence. */
static int chunk_size(const struct attn *a, int B, int T)
{
    long per_sequence = general(a) ? (long)a->H * T * T : (long)T * a->d;
    if (!general(a) && !a->encoder->qk && T <= TILE) return B;
    return (int)(per_sequence >= CHUNK ? 1 : min(B, (int)(CHUNK / per_sequence)));
}

struct lab_call attn_call(const struct attn *a, const struct model_batch *batch, int hook, int first, int count, int layer, int train, uint32_t step)
{
    struct lab_rng r = rng_stream(a->seed, RNG_ENCODER, step, (uint32_t)layer);
    const int32_t *pos = batch->pos ? batch->pos + (size_t)first * batch->pos_stride : NULL;      /* while planning there are none */
    struct lab_call c = {
        .size = sizeof c, .layer = layer, .B = count, .H = a->H, .Tq = batch->T, .Tk = batch->T, .dh = a->dh, .d = a->d,
        .causal = a->causal, .train = train, .pos_q = pos, .pos_k = pos, .stride_q = batch->pos_stride, .stride_k = batch->pos_stride,
        .key_ok = batch->key_ok ? batch->key_ok + (size_t)first * batch->T : NULL, .scale = a->scale,
        .p = a->param[layer < 0 ? 0 : layer], .save = a->hook_save[hook], .scratch = a->hook_scratch, .host = &host };
    c.seed = (uint64_t)lab_rng_u32(&r) << 32 | lab_rng_u32(&r);
    return c;
}

/* ---- planning ---- */

static void grow(size_t *most, size_t (*size)(const void *, const struct lab_call *, int), const struct attn *a, const struct lab_call *c, int hook)
{
    size_t n = size ? size(a->self, c, hook) : 0;
    if (n > *most) *most = n;
}

void attn_plan(struct attn *a, struct arena *arena, int batch, int tokens, int longest, int train)
{
    size_t save[5] = { 0 }, scratch = 0, tile = tile_elements(a) * sizeof(real), copy = 0, state = 0, square = 0;
    for (int T = 1; T <= longest; T++) {             /* hooks may ask for any size at any length: look at each */
        int B = min(batch, tokens / T > 0 ? tokens / T : 1), chunk = chunk_size(a, B, T);
        struct model_batch b = { .B = chunk, .T = T, .pos_stride = T };
        struct lab_call c = attn_call(a, &b, LAB_H_QK, 0, chunk, 0, train, 0);
        for (int hook = LAB_H_EMBED; hook <= LAB_H_VALUE; hook++) {
            struct lab_call h = c;
            if (hook == LAB_H_EMBED) h.layer = -1, h.B = B;
            if (hook == LAB_H_BIAS) h.B = 1, h.Tq = h.Tk = min(T, TILE);
            grow(&save[hook], a->encoder->save_size, a, &h, hook);
            grow(&scratch, a->encoder->scratch_size, a, &h, hook);
        }
        for (int hook = LAB_H_EMBED; hook <= LAB_H_VALUE && a->decodes; hook++) {    /* one query at a time */
            struct lab_call h = c;
            h.B = h.Tq = 1;
            grow(&save[hook], a->encoder->save_size, a, &h, hook);
            grow(&scratch, a->encoder->scratch_size, a, &h, hook);
        }
        size_t n = (size_t)chunk * T * a->d, s = (size_t)chunk * a->H * TILE, q = (size_t)chunk * a->H * T * T;
        if (n > copy) copy = n;
        if (T > TILE && s > state) state = s;
        if (q > square) square = q;
    }
    for (int hook = LAB_H_EMBED; hook <= LAB_H_VALUE; hook++) a->hook_save[hook] = arena_take(arena, save[hook]);
    a->hook_scratch = arena_take(arena, scratch);
    a->tile = arena_take(arena, kern_attn_scratch(a->dh) * sizeof(real));
    if (a->encoder->bias) {
        size_t whole = general(a) ? (size_t)a->H * longest * longest * sizeof(real) : tile;
        a->bias = arena_take(arena, whole), a->bias_t = arena_take(arena, bias_sets(a) * tile);
        if (train) a->dbias = arena_take(arena, whole), a->dbias_t = arena_take(arena, bias_sets(a) * tile);
        a->bias_ready = arena_take(arena, bias_sets(a));
    }
    a->max = arena_take(arena, state * sizeof(real));
    a->sum = arena_take(arena, state * sizeof(real));
    a->acc = arena_take(arena, state * a->dh * sizeof(real));
    if (a->encoder->qk || general(a)) {
        real **dense[] = { &a->q, &a->k, &a->q_out, &a->k_out, &a->dq, &a->dk, &a->dq_out, &a->dk_out };
        for (int i = 0; i < (train ? 8 : 4); i++) *dense[i] = arena_take(arena, copy * sizeof(real));
    }
    if (a->decodes) {
        a->turned_layer = a->encoder->qk ? (size_t)tokens * a->d : 0;
        a->turned = arena_take(arena, (size_t)a->layers * a->turned_layer * sizeof *a->turned);
        for (int i = 0; i < 6; i++) a->row[i] = arena_take(arena, (size_t)longest * (i < 3 ? a->H : a->d) * sizeof(real));
    }
    if (general(a)) {
        real **whole[] = { &a->s, &a->logits, &a->att, &a->datt, &a->dlogits }, **dense[] = { &a->o, &a->v, &a->dv };
        for (int i = 0; i < (train ? 5 : 3); i++) *whole[i] = arena_take(arena, square * sizeof(real));
        for (int i = 0; i < 3; i++) *dense[i] = arena_take(arena, copy * sizeof(real));
        if (linear_own(a->kern)) a->packed = arena_take(arena, linear_packed_size(longest, a->dh) * sizeof(real));
    }
}

/* ---- between [B,T,ld] and [B,H,T,dh] ---- */

/* Heads are short: a call for each would cost more than the copy. */
static inline void copy(real *restrict out, const real *restrict x, int n)
{
    for (; n >= 8; n -= 8, out += 8, x += 8) memcpy(out, x, 8 * sizeof *out);
    for (int i = 0; i < n; i++) out[i] = x[i];
}
static void gather(real *restrict out, const real *restrict x, long ld, int B, int H, int T, int dh)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++, out += dh)
                copy(out, x + ((long)b * T + t) * ld + h * dh, dh);
}
static void scatter(real *restrict x, const real *restrict in, long ld, int B, int H, int T, int dh)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++, in += dh)
                copy(x + ((long)b * T + t) * ld + h * dh, in, dh);
}

/* ---- what both passes of the fused path share ---- */

struct pass {                        /* one layer, one direction */
    struct attn *a;
    const struct model_batch *batch;
    int layer, train;
    uint32_t step;
    const real *qkv;                 /* [B,T,3d] */
    int first, count;                /* the chunk's sequences */
    int i0, tq, j0, tk;              /* the tile */
};

static void zero(real *x, size_t n) { memset(x, 0, n * sizeof *x); }

static real *turned_at(const struct attn *a, int layer, int first, int T)
{
    return a->turned + (size_t)layer * a->turned_layer + (size_t)first * T * a->d;
}

/* Queries and keys of the chunk, gathered and turned by the qk hook. */
static void turn(const struct pass *p)
{
    struct attn *a = p->a;
    int T = p->batch->T;
    const real *qkv = p->qkv + (long)p->first * T * 3 * a->d;
    struct lab_call c = attn_call(a, p->batch, LAB_H_QK, p->first, p->count, p->layer, p->train, p->step);
    gather(a->q, qkv, 3 * a->d, p->count, a->H, T, a->dh);
    gather(a->k, qkv + a->d, 3 * a->d, p->count, a->H, T, a->dh);
    TIMED(TIMES_HOOKS, a->encoder->qk(a->self, &c, a->q, a->k, a->q_out, a->k_out));
    if (a->decodes)
        memcpy(turned_at(a, p->layer, p->first, T), a->k_out, (size_t)p->count * T * a->d * sizeof(real));
}

static struct lab_call bias_call(const struct pass *p)
{
    struct lab_call c = attn_call(p->a, p->batch, LAB_H_BIAS, p->first, 1, p->layer, p->train, p->step);
    c.Tq = p->tq, c.Tk = p->tk;
    c.pos_q += p->i0, c.pos_k += p->j0;
    c.key_ok = NULL;
    return c;
}

/* Is the bias one tile, the same for all sequences of the step?  Then it is computed once for all chunks, and so is its gradient. */
static int shared_bias(const struct pass *p) { return p->a->longest <= TILE && p->batch->pos_stride == 0; }
static size_t set_at(const struct pass *p)
{
    return shared_bias(p) && !(p->a->encoder->flags & LAB_E_LAYER_INVARIANT) ? (size_t)p->layer * tile_elements(p->a) : 0;
}

/* The hook's [H,tq,tk] into [H][key][query] rows of TILE, where the kernels want it; and back. */
static void bias_tile(const struct pass *p)
{
    struct attn *a = p->a;
    struct lab_call c = bias_call(p);
    real *bias_t = a->bias_t + set_at(p);
    unsigned char *ready = &a->bias_ready[set_at(p) / tile_elements(a)];
    if (*ready) return;
    *ready = (unsigned char)shared_bias(p);
    if (*ready) c.Tq = c.Tk = a->longest;        /* this chunk's sequences may be shorter than the next one's */
    zero(a->bias, (size_t)a->H * c.Tq * c.Tk);
    TIMED(TIMES_HOOKS, a->encoder->bias(a->self, &c, a->bias));
    for (int h = 0; h < a->H; h++)
        for (int i = 0; i < c.Tq; i++)
            for (int j = 0; j < c.Tk; j++) bias_t[(h * TILE + j) * TILE + i] = a->bias[(h * c.Tq + i) * c.Tk + j];
}
static void bias_tile_bwd(const struct pass *p)
{
    struct attn *a = p->a;
    struct lab_call c = bias_call(p);
    const real *dbias_t = a->dbias_t + set_at(p);
    c.g = a->grad[p->layer];
    for (int h = 0; h < a->H; h++)
        for (int i = 0; i < p->tq; i++)
            for (int j = 0; j < p->tk; j++) a->dbias[(h * p->tq + i) * p->tk + j] = dbias_t[(h * TILE + j) * TILE + i];
    TIMED(TIMES_HOOKS, a->encoder->bias_bwd(a->self, &c, a->dbias));
}

void attn_begin(struct attn *a, int T)
{
    a->longest = T;
    if (!a->encoder->bias) return;
    memset(a->bias_ready, 0, bias_sets(a));
    if (a->dbias_t) zero(a->dbias_t, bias_sets(a) * tile_elements(a));
}

void attn_end(struct attn *a, const struct model_batch *batch, uint32_t step)
{
    struct pass p = { .a = a, .batch = batch, .train = 1, .step = step, .tq = batch->T, .tk = batch->T };
    if (!a->encoder->bias || !a->trained || general(a) || !shared_bias(&p)) return;
    for (size_t set = 0; set < bias_sets(a); set++) {
        p.layer = (int)set;
        if (a->encoder->save_size) a->bias_ready[set] = 0, bias_tile(&p);        /* other layers have passed since: save it again */
        bias_tile_bwd(&p);
    }
}

/* Offsets of head h of sequence b (within the chunk) at row t, in the dense copies and in [B,T,3d]. */
static long dense_at(const struct pass *p, int b, int h, int t) { return (((long)b * p->a->H + h) * p->batch->T + t) * p->a->dh; }
static long qkv_at(const struct pass *p, int b, int h, int t) { return ((long)(p->first + b) * p->batch->T + t) * 3 * p->a->d + h * p->a->dh; }
static long out_at(const struct pass *p, int b, int h, int t) { return ((long)(p->first + b) * p->batch->T + t) * p->a->d + h * p->a->dh; }
static long row_at(const struct pass *p, int b, int h, int t) { return ((long)(p->first + b) * p->a->H + h) * p->batch->T + t; }
/* What the forward keeps: the weights of a single tile, of several only a number for each query. */
static int single(const struct pass *p) { return p->batch->T <= TILE; }
static long kept_at(const struct pass *p, int b, int h, int t)
{
    return single(p) ? row_at(p, b, h, 0) / p->batch->T * (long)kept_weights(p->batch->T) : row_at(p, b, h, t);
}

/* What the heads of a tile share, and then one of them. */
static struct kern_attn tile_of(const struct pass *p)
{
    const struct attn *a = p->a;
    struct kern_attn t = {
        .tq = p->tq, .tk = p->tk, .dh = a->dh, .ldq = a->encoder->qk ? a->dh : 3 * a->d, .ldk = a->encoder->qk ? a->dh : 3 * a->d,
        .ldv = 3 * a->d, .whole = p->tk == p->batch->T, .shift = a->causal ? p->i0 - p->j0 : TILE, .scale = a->scale, .scratch = a->tile };
    if (p->train && a->dropout > 0) {
        t.drop_ld = (uint32_t)(p->batch->T + 3) / 4;
        t.drop = (struct kern_dropout){ .seed = a->seed, .step = p->step, .place = attn_place(p->layer, 0), .p = a->dropout };
    }
    return t;
}
static void head(struct kern_attn *t, const struct pass *p, int b, int h)
{
    const struct attn *a = p->a;
    long T = p->batch->T, keys = qkv_at(p, b, h, p->j0);
    t->v = p->qkv + keys + 2 * a->d;
    t->q = a->encoder->qk ? a->q_out + dense_at(p, b, h, p->i0) : p->qkv + qkv_at(p, b, h, p->i0);
    t->k = a->encoder->qk ? a->k_out + dense_at(p, b, h, p->j0) : p->qkv + keys + a->d;
    if (a->encoder->bias) t->bias = a->bias_t + set_at(p) + (long)h * TILE * TILE;
    if (p->batch->key_ok) t->key_ok = p->batch->key_ok + (p->first + b) * T + p->j0;
    t->drop.block = (uint32_t)((p->batch->first * a->H * T + row_at(p, b, h, p->j0)) * t->drop_ld + p->i0 / 4);
}

/* Chunks, and inside them the sequences that share one bias: all, or one when each has its own positions. */
static int next_chunk(struct pass *p, int chunk)
{
    int B = p->batch->B;
    p->first += p->count;
    p->count = min(chunk, B - p->first);
    if (p->a->encoder->bias && p->batch->pos_stride) p->count = min(p->count, 1);
    return p->count > 0;
}
static int last_tile(const struct pass *p) { return p->a->causal ? p->i0 + p->tq : p->batch->T; }

/* ---- fused path, forward ---- */

static void tile_row_fwd(struct pass *p, real *out, real *kept)
{
    struct attn *a = p->a;
    for (p->j0 = 0; p->j0 < last_tile(p); p->j0 += TILE) {
        p->tk = min(TILE, p->batch->T - p->j0);
        if (a->encoder->bias) bias_tile(p);
        struct kern_attn t = tile_of(p);
        for (int b = 0; b < p->count; b++)
            for (int h = 0; h < a->H; h++) {
                head(&t, p, b, h);
                long state = ((long)b * a->H + h) * TILE;
                if (single(p)) a->kern->attn_fwd(out + out_at(p, b, h, 0), a->d, kept ? kept + kept_at(p, b, h, 0) : NULL, &t);
                else a->kern->attn_step(a->max + state, a->sum + state, a->acc + state * a->dh, p->j0 == 0, &t);
            }
    }
    if (single(p)) return;
    for (int b = 0; b < p->count; b++)
        for (int h = 0; h < a->H; h++)
            for (int i = 0; i < p->tq; i++) {
                long state = ((long)b * a->H + h) * TILE + i;
                real *row = out + out_at(p, b, h, p->i0 + i);
                for (int c = 0; c < a->dh; c++) row[c] = a->acc[state * a->dh + c] / a->sum[state];
                if (kept) kept[kept_at(p, b, h, p->i0 + i)] = a->max[state] + (real)log(a->sum[state]);
            }
}

static void fused_fwd(struct attn *a, real *out, real *kept, const real *qkv, const struct model_batch *batch, int layer, int train, uint32_t step)
{
    struct pass p = { .a = a, .batch = batch, .layer = layer, .train = train, .step = step, .qkv = qkv };
    int chunk = chunk_size(a, batch->B, batch->T);
    while (next_chunk(&p, chunk)) {
        if (a->encoder->qk) turn(&p);
        for (p.i0 = 0; p.i0 < batch->T; p.i0 += TILE) {
            p.tq = min(TILE, batch->T - p.i0);
            tile_row_fwd(&p, out, kept);
        }
    }
}

/* ---- fused path, backward ---- */

static void tile_bwd(struct pass *p, real *dqkv, const real *dout, const real *out, const real *kept)
{
    struct attn *a = p->a;
    int wanted = a->encoder->bias && a->trained;
    if (a->encoder->bias) bias_tile(p);
    if (wanted && !shared_bias(p)) zero(a->dbias_t, tile_elements(a));
    struct kern_attn t = tile_of(p);
    t.add_q = p->j0 > 0, t.add_kv = p->i0 > (a->causal ? p->j0 : 0);                 /* the first tile of a row, of a column */
    for (int b = 0; b < p->count; b++)
        for (int h = 0; h < a->H; h++) {
            head(&t, p, b, h);
            int dense = a->encoder->qk != NULL;
            real *dq = dense ? a->dq_out + dense_at(p, b, h, p->i0) : dqkv + qkv_at(p, b, h, p->i0);
            real *dk = dense ? a->dk_out + dense_at(p, b, h, p->j0) : dqkv + qkv_at(p, b, h, p->j0) + a->d;
            real *dv = dqkv + qkv_at(p, b, h, p->j0) + 2 * a->d;
            long o = out_at(p, b, h, p->i0);
            a->kern->attn_bwd(dq, dk, dv, wanted ? a->dbias_t + set_at(p) + (long)h * TILE * TILE : NULL, out + o, dout + o, a->d,
                              kept + kept_at(p, b, h, p->i0), &t);
        }
    if (wanted && !shared_bias(p)) bias_tile_bwd(p);
}

/* dq_out, dk_out through the qk hook into dqkv. */
static void turn_bwd(const struct pass *p, real *dqkv)
{
    struct attn *a = p->a;
    int T = p->batch->T;
    size_t n = (size_t)p->count * T * a->d;
    struct lab_call c = attn_call(a, p->batch, LAB_H_QK, p->first, p->count, p->layer, 1, p->step);
    c.g = a->grad[p->layer];
    zero(a->dq, n);
    zero(a->dk, n);
    TIMED(TIMES_HOOKS, a->encoder->qk_bwd(a->self, &c, a->q, a->k, a->dq_out, a->dk_out, a->dq, a->dk));
    dqkv += (long)p->first * T * 3 * a->d;
    scatter(dqkv, a->dq, 3 * a->d, p->count, a->H, T, a->dh);
    scatter(dqkv + a->d, a->dk, 3 * a->d, p->count, a->H, T, a->dh);
}

static void fused_bwd(struct attn *a, real *dqkv, const real *dout, const real *out, const real *kept, const real *qkv,
                      const struct model_batch *batch, int layer, uint32_t step)
{
    struct pass p = { .a = a, .batch = batch, .layer = layer, .train = 1, .step = step, .qkv = qkv };
    int chunk = chunk_size(a, batch->B, batch->T);
    while (next_chunk(&p, chunk)) {
        if (a->encoder->qk) turn(&p);
        for (p.i0 = 0; p.i0 < batch->T; p.i0 += TILE) {
            p.tq = min(TILE, batch->T - p.i0);
            for (p.j0 = 0; p.j0 < last_tile(&p); p.j0 += TILE) {
                p.tk = min(TILE, batch->T - p.j0);
                tile_bwd(&p, dqkv, dout, out, kept);
            }
        }
        if (a->encoder->qk) turn_bwd(&p, dqkv);
    }
}

/* ---- general path: all logits of a few sequences at once ---- */

static void mask_logits(const struct pass *p)
{
    const struct attn *a = p->a;
    int T = p->batch->T;
    if (!a->causal && !p->batch->key_ok) return;
    for (int b = 0; b < p->count; b++)
        for (int h = 0; h < a->H; h++)
            for (int i = 0; i < T; i++) {
                real *row = a->att + (((long)b * a->H + h) * T + i) * T;
                const uint8_t *ok = p->batch->key_ok ? p->batch->key_ok + (long)(p->first + b) * T : NULL;
                for (int j = i + 1; a->causal && j < T; j++) row[j] = (real)-1e30;
                for (int j = 0; ok && j < T; j++) if (!ok[j]) row[j] = (real)-1e30;
            }
}

static void drop_att(const struct pass *p, real *att)
{
    const struct attn *a = p->a;
    size_t each = (size_t)a->H * p->batch->T * p->batch->T;
    for (int b = 0; b < p->count && p->train && a->dropout > 0; b++) {
        struct kern_dropout o = { .seed = a->seed, .step = p->step, .place = attn_place(p->layer, 0), .p = a->dropout,
                                  .block = (uint32_t)((p->batch->first + p->first + b) * ((each + 3) / 4)) };
        a->kern->dropout(att + b * each, &o, each);
    }
}

/* c [m,n] (+)= op(a) b, rows of c and b n apart; and c [m,n] = a b^T, with k columns: by the kernels where they multiply by themselves. */
static void multiply(const struct attn *t, int ta, int m, int n, int k, const real *a, const real *b, real *c, int add)
{
    if (t->packed) t->kern->product(m, n, k, a, ta ? 1 : k, ta ? m : 1, b, n, KERN_PANEL, c, n, add);
    else gemm(ta, 0, m, n, k, 1, a, ta ? m : k, b, n, (real)add, c, n);
}
static void multiply_rows(const struct attn *t, int m, int n, int k, const real *a, const real *b, real *c)
{
    if (!t->packed) { gemm(0, 1, m, n, k, 1, a, k, b, k, 0, c, n); return; }
    t->kern->pack(t->packed, b, n, k);
    t->kern->product(m, n, k, a, k, 1, t->packed, KERN_PANEL, (long)k * KERN_PANEL, c, n, 0);
}

/* Up to the attention weights: q_out, k_out, v gathered; s = scale q k^T; att = softmax(s + bias + logits). */
static void general_weights(struct pass *p)
{
    struct attn *a = p->a;
    int T = p->batch->T, heads = p->count * a->H;
    size_t square = (size_t)T * T;
    const real *qkv = p->qkv + (long)p->first * T * 3 * a->d;
    struct lab_call c = attn_call(a, p->batch, LAB_H_LOGITS, p->first, p->count, p->layer, p->train, p->step);
    if (a->encoder->qk) turn(p);
    else {
        gather(a->q_out, qkv, 3 * a->d, p->count, a->H, T, a->dh);
        gather(a->k_out, qkv + a->d, 3 * a->d, p->count, a->H, T, a->dh);
    }
    gather(a->v, qkv + 2 * a->d, 3 * a->d, p->count, a->H, T, a->dh);
    for (int h = 0; h < heads; h++)
        multiply_rows(a, T, T, a->dh, a->q_out + (long)h * T * a->dh, a->k_out + (long)h * T * a->dh, a->s + h * square);
    a->kern->scale(a->s, c.scale, heads * square);
    memcpy(a->att, a->s, heads * square * sizeof(real));
    if (a->encoder->bias) {
        struct lab_call one = bias_call(p);
        zero(a->bias, a->H * square);
        TIMED(TIMES_HOOKS, a->encoder->bias(a->self, &one, a->bias));
        for (int b = 0; b < p->count; b++)
            for (size_t i = 0; i < a->H * square; i++) a->att[b * a->H * square + i] += a->bias[i];
    }
    if (a->encoder->logits) TIMED(TIMES_HOOKS, a->encoder->logits(a->self, &c, a->q_out, a->k_out, a->s, a->att));
    mask_logits(p);
    a->kern->softmax_rows(a->att, heads * T, T, T);
}

static void general_fwd(struct attn *a, real *out, const real *qkv, const struct model_batch *batch, int layer, int train, uint32_t step)
{
    int T = batch->T, chunk = chunk_size(a, batch->B, T);
    struct pass p = { .a = a, .batch = batch, .layer = layer, .train = train, .step = step, .qkv = qkv, .tq = T, .tk = T };
    while (next_chunk(&p, chunk)) {
        struct lab_call c = attn_call(a, batch, LAB_H_VALUE, p.first, p.count, layer, train, step);
        general_weights(&p);
        drop_att(&p, a->att);
        for (int h = 0; h < p.count * a->H; h++)
            multiply(a, 0, T, a->dh, T, a->att + (long)h * T * T, a->v + (long)h * T * a->dh, a->o + (long)h * T * a->dh, 0);
        if (a->encoder->value) TIMED(TIMES_HOOKS, a->encoder->value(a->self, &c, a->att, a->o));
        scatter(out + (long)p.first * T * a->d, a->o, a->d, p.count, a->H, T, a->dh);
    }
}

static void general_bwd(struct attn *a, real *dqkv, const real *dout, const real *qkv, const struct model_batch *batch, int layer, uint32_t step)
{
    int T = batch->T, chunk = chunk_size(a, batch->B, T);
    size_t square = (size_t)T * T;
    struct pass p = { .a = a, .batch = batch, .layer = layer, .train = 1, .step = step, .qkv = qkv, .tq = T, .tk = T };
    while (next_chunk(&p, chunk)) {
        int heads = p.count * a->H;
        size_t n = (size_t)p.count * T * a->d;
        real *dqkv_chunk = dqkv + (long)p.first * T * 3 * a->d, *dropped = a->dropout > 0 ? a->logits : a->att;
        struct lab_call c = attn_call(a, batch, LAB_H_LOGITS, p.first, p.count, layer, 1, step);
        struct lab_call v = attn_call(a, batch, LAB_H_VALUE, p.first, p.count, layer, 1, step);
        c.g = v.g = a->grad[layer];
        general_weights(&p);
        if (dropped != a->att) memcpy(dropped, a->att, heads * square * sizeof(real));
        drop_att(&p, dropped);
        if (a->encoder->value && a->encoder->save_size) {    /* other layers have passed since: save it again; dv is still free */
            v.g = NULL;
            TIMED(TIMES_HOOKS, a->encoder->value(a->self, &v, dropped, a->dv));
            v.g = a->grad[layer];
        }
        gather(a->o, dout + (long)p.first * T * a->d, a->d, p.count, a->H, T, a->dh);            /* o holds dO from here on */
        for (int h = 0; h < heads; h++) {
            const real *dO = a->o + (long)h * T * a->dh;
            multiply_rows(a, T, T, a->dh, dO, a->v + (long)h * T * a->dh, a->datt + h * square);
            multiply(a, 1, T, a->dh, T, dropped + h * square, dO, a->dv + (long)h * T * a->dh, 0);
        }
        if (a->encoder->value) TIMED(TIMES_HOOKS, a->encoder->value_bwd(a->self, &v, dropped, a->o, a->datt));
        drop_att(&p, a->datt);
        a->kern->softmax_rows_bwd(a->datt, a->att, heads * T, T, T);                             /* datt holds dlogits from here on */
        if (a->encoder->bias && a->trained) {
            struct lab_call one = bias_call(&p);
            one.g = a->grad[layer];
            zero(a->dbias, a->H * square);
            for (int b = 0; b < p.count; b++)
                for (size_t i = 0; i < a->H * square; i++) a->dbias[i] += a->datt[b * a->H * square + i];
            TIMED(TIMES_HOOKS, a->encoder->bias_bwd(a->self, &one, a->dbias));
        }
        zero(a->dq_out, n);
        zero(a->dk_out, n);
        memcpy(a->dlogits, a->datt, heads * square * sizeof(real));                              /* ds: the logits' own share, then the hook's */
        if (a->encoder->logits)
            TIMED(TIMES_HOOKS, a->encoder->logits_bwd(a->self, &c, a->q_out, a->k_out, a->s, a->datt, a->dq_out, a->dk_out, a->dlogits));
        a->kern->scale(a->dlogits, c.scale, heads * square);
        for (int h = 0; h < heads; h++) {
            long at = (long)h * T * a->dh;
            multiply(a, 0, T, a->dh, T, a->dlogits + h * square, a->k_out + at, a->dq_out + at, 1);
            multiply(a, 1, T, a->dh, T, a->dlogits + h * square, a->q_out + at, a->dk_out + at, 1);
        }
        if (a->encoder->qk) turn_bwd(&p, dqkv);
        else {
            scatter(dqkv_chunk, a->dq_out, 3 * a->d, p.count, a->H, T, a->dh);
            scatter(dqkv_chunk + a->d, a->dk_out, 3 * a->d, p.count, a->H, T, a->dh);
        }
        scatter(dqkv_chunk + 2 * a->d, a->dv, 3 * a->d, p.count, a->H, T, a->dh);
    }
}

void attn_fwd(struct attn *a, real *out, real *kept, const real *qkv, const struct model_batch *batch, int layer, int train, uint32_t step)
{
    if (general(a)) general_fwd(a, out, qkv, batch, layer, train, step);
    else fused_fwd(a, out, kept, qkv, batch, layer, train, step);
}

void attn_bwd(struct attn *a, real *dqkv, const real *dout, const real *out, const real *kept, const real *qkv,
              const struct model_batch *batch, int layer, uint32_t step)
{
    if (general(a)) general_bwd(a, dqkv, dout, qkv, batch, layer, step);
    else fused_bwd(a, dqkv, dout, out, kept, qkv, batch, layer, step);
}

/* ---- looking on ---- */

/* Value c of each head of key j: 1 where j = first + c, else 0; none is where first = T. */
static void unit_values(const struct attn *a, real *qkv, const struct model_batch *b, int first)
{
    for (int n = 0; n < b->B * b->T; n++) {
        real *v = qkv + (long)n * 3 * a->d + 2 * a->d;
        for (int c = 0; c < a->d; c++) v[c] = n % b->T == first + c % a->dh;
    }
}

static void take_weights(const struct attn *a, real *weights, const real *out, const struct model_batch *b, int first, int sign)
{
    int T = b->T;
    for (int n = 0; n < b->B * T; n++)
        for (int h = 0; h < a->H; h++) {
            real *row = weights + (((long)(n / T) * a->H + h) * T + n % T) * T;
            const real *o = out + (long)n * a->d + h * a->dh;
            for (int c = 0; c < a->dh && first + c < T; c++) row[first + c] += sign * o[c];
        }
}

void attn_weights(struct attn *a, real *weights, real *out, real *qkv, const struct model_batch *b, int layer)
{
    zero(weights, (size_t)b->B * a->H * b->T * b->T);
    for (int first = 0; first < b->T; first += a->dh) {
        unit_values(a, qkv, b, first);
        attn_fwd(a, out, NULL, qkv, b, layer, 0, 0);
        take_weights(a, weights, out, b, first, 1);
    }
    if (!a->encoder->value) return;
    unit_values(a, qkv, b, b->T);            /* what the value hook adds by itself is in each of these outputs */
    attn_fwd(a, out, NULL, qkv, b, layer, 0, 0);
    for (int first = 0; first < b->T; first += a->dh) take_weights(a, weights, out, b, first, -1);
}

/* ---- one query at a time, after a forward of the whole ---- */

/* Does the qk hook make of the old row alone what it made of it among all others?  Then it may be asked for the new row alone; what
 * it makes of a row may depend on where all of them stand, as with rope's dynamic scaling. */
static int turns_alone(const struct attn *a, const struct lab_call *c, const real *old, const real *turned, long head)
{
    real *q_out = a->row[3], *k_out = a->row[4];
    a->encoder->qk(a->self, c, old, old + a->d, q_out, k_out);
    for (int h = 0; h < a->H; h++)
        for (int i = 0; i < a->dh; i++) {
            real x = k_out[h * a->dh + i], y = turned[h * head + i];
            if (!(fabs((double)(x - y)) <= 1e-6 + 1e-5 * fabs((double)y))) return 0;
        }
    return 1;
}

/* The query [d] that attention takes, into row[3]; the key goes to its place among the turned ones. */
static const real *turn_row(struct attn *a, const real *old, const real *qkv, const struct model_batch *batch, int layer, int b, int t)
{
    int T = batch->T, dh = a->dh;
    const real *now = qkv + ((long)b * T + t) * 3 * a->d;
    real *turned = turned_at(a, layer, b, T), *q_out = a->row[3], *k_out = a->row[4];
    struct lab_call c = attn_call(a, batch, LAB_H_QK, b, 1, layer, 0, 0);
    c.Tq = c.Tk = 1, c.pos_q += t, c.pos_k += t, c.key_ok = NULL;
    if (turns_alone(a, &c, old, turned + (long)t * dh, (long)T * dh)) {
        a->encoder->qk(a->self, &c, now, now + a->d, q_out, k_out);
        for (int h = 0; h < a->H; h++) memcpy(turned + ((long)h * T + t) * dh, k_out + h * dh, (size_t)dh * sizeof *turned);
        return q_out;
    }
    struct pass whole = { .a = a, .batch = batch, .layer = layer, .qkv = qkv, .first = b, .count = 1 };
    turn(&whole);                    /* of this sequence, once more: its keys go to their place */
    for (int h = 0; h < a->H; h++) memcpy(q_out + h * dh, a->q_out + ((long)h * T + t) * dh, (size_t)dh * sizeof *q_out);
    return q_out;
}

/* Row: 0 s [H,1,n], 1 att, 2 the bias; 3 q_out [d], 4 k_out [d], 5 keys [H,n,dh] as the hooks of the general path see them. */
void attn_decode(struct attn *a, real *out, const real *old, const real *qkv, const struct model_batch *batch, int layer, int b, int t)
{
    int T = batch->T, n = t + 1, dh = a->dh, dense = a->encoder->qk != NULL;
    real *s = a->row[0], *att = a->row[1], *bias = a->row[2];
    const real *rows = qkv + (long)b * T * 3 * a->d, *q = dense ? turn_row(a, old, qkv, batch, layer, b, t) : rows + (long)t * 3 * a->d;
    const real *keys = dense ? turned_at(a, layer, b, T) : rows + a->d;
    long head = dense ? (long)T * dh : dh, step = dense ? dh : 3 * a->d;
    struct lab_call c = attn_call(a, batch, LAB_H_LOGITS, b, 1, layer, 0, 0), v = attn_call(a, batch, LAB_H_VALUE, b, 1, layer, 0, 0);
    c.Tq = v.Tq = 1, c.Tk = v.Tk = n;
    c.pos_q += t, v.pos_q += t;
    for (int h = 0; h < a->H; h++)
        for (int j = 0; j < n; j++) {
            const real *key = keys + h * head + j * step;
            real sum = 0;
            for (int i = 0; i < dh; i++) sum += q[h * dh + i] * key[i];
            s[h * n + j] = sum * a->scale;
        }
    memcpy(att, s, (size_t)a->H * n * sizeof *att);
    if (a->encoder->bias) {
        struct lab_call e = attn_call(a, batch, LAB_H_BIAS, b, 1, layer, 0, 0);
        e.Tq = 1, e.Tk = n, e.pos_q += t, e.key_ok = NULL;
        zero(bias, (size_t)a->H * n);
        a->encoder->bias(a->self, &e, bias);
        for (int i = 0; i < a->H * n; i++) att[i] += bias[i];
    }
    if (a->encoder->logits) {
        for (int h = 0; h < a->H; h++)
            for (int j = 0; j < n; j++) memcpy(a->row[5] + ((long)h * n + j) * dh, keys + h * head + j * step, (size_t)dh * sizeof *s);
        a->encoder->logits(a->self, &c, q, a->row[5], s, att);
    }
    for (int i = 0; c.key_ok && i < a->H * n; i++) if (!c.key_ok[i % n]) att[i] = (real)-1e30;
    a->kern->softmax_rows(att, a->H, n, n);
    zero(out, (size_t)a->d);
    for (int h = 0; h < a->H; h++)
        for (int j = 0; j < n; j++) {
            const real *value = rows + j * 3L * a->d + 2 * a->d + h * dh;
            for (int i = 0; i < dh; i++) out[h * dh + i] += att[h * n + j] * value[i];
        }
    if (a->encoder->value) a->encoder->value(a->self, &v, att, out);
}
