/* model -- see model.h.
 *
 * A layer is two branches, attention and feed-forward, each followed by a join: the branch's output
 * is added to the residual stream and normalised.  Join 0 takes the embeddings, join 2l+1 follows the
 * attention of layer l, join 2l+2 its feed-forward.  Post-norm and pre-norm differ only in what a join
 * passes on as the residual: the normalised sum, or the sum itself; and in whose weights it carries.
 * So both passes below are one loop over joins.
 */
#include "nn/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "nn/attn.h"
#include "nn/kern.h"
#include "nn/linear.h"
#include "nn/times.h"

typedef lab_real real;

/* Tokens of a training batch at a time: their activations stay in the cache from forward to backward.  Wide
 * matrices want more of them, to be worth their packing (measured: results/bench.md). */
static int chunk_tokens(int d_model) { return d_model < 256 ? 160 : 512; }

struct tensor { real *w, *g; };
struct layer {
    struct linear in, out, up, down;
    struct tensor in_b, out_b, up_b, down_b;
    real *down_wt, *down_dwt;        /* [f,d] where ReLU's zeros are passed over: down's weight transposed, and its gradient until the step's end */
};
struct norm { struct tensor w, b; };

/* The first layer of a post-norm model reads a token's vector plus a position's, W (e + p) + b = W e + (W p + b): a row for each
 * token of the vocabulary and one for each position, multiplied once a step, are all that its queries, keys and values need. */
struct lookup {
    int rows;                        /* V + T; 0: not in use, there are too many of them or more than e + p is read */
    real *x, *dx, *qkv, *dqkv;       /* [V+T,d] [V+T,d] [V+T,3d] [V+T,3d] tokens, then positions */
};

/* After the last attention a token's row goes its own way to its logits, so in a training step only those with a target go on:
 * of a task with a prompt, half of them or fewer. */
struct scored {
    int n;                           /* 0: all tokens go on */
    int32_t *token, *target;         /* [N] which of the batch's tokens they are, and theirs */
    float *weight;                   /* [N] theirs */
    real *att, *residual;            /* [N,d] their rows of what the last attention has left */
};

/* A chunk of a padded batch, without the columns that are padding in all of its sequences. */
struct trimmed {
    int32_t *token, *target, *pos;   /* [N] */
    float *weight;                   /* [N] */
    uint8_t *key_ok;                 /* [N] */
};

struct space {                       /* activations of one forward; inference lets all layers share one set */
    real *embed_pos;                 /* [T,d] what the embed hook adds, where all sequences share their positions */
    real *spare;                     /* [T,d] scratch */
    real **out, **xhat, **rstd;      /* [2L+1] of each join: [N,d], [N,d], [N] */
    real *residual;                  /* [N,d] the stream between joins under pre-norm */
    real **qkv, **kept, **att, **pre, **act;     /* [L]: [N,3d] attention's own [N,d] [N,f or 2f] [N,f] */
    real *branch;                    /* [N,d] output of a branch */
    real *dstream, *dnormed, *dbranch;           /* [N,d] */
    real *dqkv, *dact, *dpre;        /* [N,3d] [N,f] [N,f or 2f] */
    real *logits;                    /* [N,V] */
    struct lookup lookup;
    struct scored scored;
    struct trimmed trimmed;
    real *some_logits, *some_qkv, *every_pos;    /* decoding: [N,V] and [N+1,3d] of the rows in work; [N,d] what the embed hook adds */
    struct attn attn;
};

struct model_state {
    struct tensor embedding, head_b;
    struct linear head;
    struct layer *layer;
    struct norm *norm;               /* of each join; 0 is unused under post-norm */
    const real *(*encoder_param)[ATTN_PARAMS];
    real *(*encoder_grad)[ATTN_PARAMS];
    struct space train, infer;
    real *value, *grad, *m, *v, *best;           /* all parameters, trained ones first */
    size_t n_value, n_grad;          /* elements, padding included */
    int32_t encoder_trained;
    int32_t sparse;                  /* the feed-forward layers pass over ReLU's zeros */
    uint32_t step;                   /* of the last forward */
    size_t first_token;              /* of the last forward's batch in the step's */
};

/* ---- the list of parameters ---- */

struct start { int kind; double a, b; };         /* how a parameter begins: enum lab_init */

struct list {                        /* grows while the model is described, before anything is allocated */
    struct model_param *param;
    struct start *start;
    size_t n, cap, cap_start;
    struct lab_err *err;
    int failed;
};

static struct model_param *add(struct list *l, const char *name, int rows, int cols, struct start start, int decay)
{
    static struct model_param nowhere;
    if (l->failed || mem_grow(&l->param, &l->cap, l->n + 1, sizeof *l->param, l->err) != 0 ||
        mem_grow(&l->start, &l->cap_start, l->n + 1, sizeof *l->start, l->err) != 0) {
        l->failed = 1;
        return &nowhere;
    }
    struct model_param *p = &l->param[l->n];
    *p = (struct model_param){ .ndim = cols ? 2 : 1, .dim = { rows, cols }, .size = (size_t)rows * (cols ? cols : 1),
                               .decay = decay, .encoder_index = -1 };
    snprintf(p->name, sizeof p->name, "%s", name);
    l->start[l->n++] = start;
    return p;
}

static const struct start zero = { LAB_INIT_ZERO, 0, 0 }, one = { LAB_INIT_CONST, 1, 0 };
static struct start uniform(double bound) { return (struct start){ LAB_INIT_UNIFORM, -bound, bound }; }

/* PyTorch's start of nn.Linear: weight and bias uniform within 1/sqrt(fan in). */
static void add_linear(struct list *l, const char *prefix, int out, int in)
{
    char name[96];
    snprintf(name, sizeof name, "%s.weight", prefix);
    add(l, name, out, in, uniform(1 / sqrt(in)), 1);
    snprintf(name, sizeof name, "%s.bias", prefix);
    add(l, name, out, 0, uniform(1 / sqrt(in)), 0);
}

static void add_norm(struct list *l, const char *prefix, const struct model_options *o)
{
    char name[96];
    snprintf(name, sizeof name, "%s.weight", prefix);
    add(l, name, o->d_model, 0, one, 0);
    if (o->norm_type != MODEL_LAYERNORM) return;
    snprintf(name, sizeof name, "%s.bias", prefix);
    add(l, name, o->d_model, 0, zero, 0);
}

/* nn.TransformerEncoderLayer's parameters and starts: in_proj is Xavier-uniform as one [3d,d] matrix, attention's biases begin at 0. */
static void add_layer(struct list *l, int i, const struct model_options *o)
{
    char name[64];
    int d = o->d_model, f = o->d_ff;
    snprintf(name, sizeof name, "layers.%d.self_attn.in_proj_weight", i);
    add(l, name, 3 * d, d, uniform(sqrt(6.0 / (4.0 * d))), 1);
    snprintf(name, sizeof name, "layers.%d.self_attn.in_proj_bias", i);
    add(l, name, 3 * d, 0, zero, 0);
    snprintf(name, sizeof name, "layers.%d.self_attn.out_proj.weight", i);
    add(l, name, d, d, uniform(1 / sqrt(d)), 1);
    snprintf(name, sizeof name, "layers.%d.self_attn.out_proj.bias", i);
    add(l, name, d, 0, zero, 0);
    snprintf(name, sizeof name, "layers.%d.linear1", i);
    add_linear(l, name, o->activation == MODEL_SWIGLU ? 2 * f : f, d);
    snprintf(name, sizeof name, "layers.%d.linear2", i);
    add_linear(l, name, d, f);
    snprintf(name, sizeof name, "layers.%d.norm1", i);
    add_norm(l, name, o);
    snprintf(name, sizeof name, "layers.%d.norm2", i);
    add_norm(l, name, o);
}

/* One parameter of the encoder: under its own name, or one for each layer. */
static void add_encoder_param(struct list *l, const struct model_setup *s, int i, const struct lab_param *q)
{
    int copies = q->flags & LAB_P_PER_LAYER ? s->dims.n_layer : 1;
    for (int layer = 0; layer < copies; layer++) {
        char name[96];
        if (copies > 1 || (q->flags & LAB_P_PER_LAYER)) snprintf(name, sizeof name, "encoder.%.60s.%d", q->name, layer);
        else snprintf(name, sizeof name, "encoder.%.60s", q->name);
        struct model_param *p = add(l, name, 1, 0, (struct start){ q->init, q->a, q->b }, !(q->flags & (LAB_P_NO_DECAY | LAB_P_FROZEN)));
        p->ndim = q->ndim;
        p->size = 1;
        for (int k = 0; k < q->ndim; k++) p->size *= (size_t)(p->dim[k] = q->dim[k]);
        p->encoder_index = i;
        if (q->flags & LAB_P_FROZEN) p->decay = -1;          /* frozen, until place_params */
    }
}

static int describe(struct list *l, const struct model_setup *s)
{
    const struct model_options *o = &s->options;
    int d = o->d_model;
    double std = o->embed_std > 0 ? o->embed_std : 1 / sqrt(d);
    add(l, "embedding.weight", s->vocab_in, d, (struct start){ LAB_INIT_NORMAL, 0, std }, 1);
    for (int i = 0; i < o->layers; i++) add_layer(l, i, o);
    if (o->norm == MODEL_PRE_NORM) add_norm(l, "norm", o);
    if (!o->tied) add_linear(l, "head", s->vocab_out, d);
    for (int i = 0; s->encoder->param; i++) {
        struct lab_param q = { 0 };
        if (!s->encoder->param(s->encoder_self, &s->dims, i, &q)) break;
        if (i == ATTN_PARAMS) return lab_fail(l->err, "encoder %s: more than %d parameters", s->encoder->name, ATTN_PARAMS);
        if (q.ndim < 1 || q.ndim > 4) return lab_fail(l->err, "encoder %s: parameter %s has %d dimensions, expected 1 to 4",
                                                      s->encoder->name, q.name, q.ndim);
        add_encoder_param(l, s, i, &q);
    }
    return l->failed ? -1 : 0;
}

static void list_free(struct list *l)
{
    free(l->param);
    free(l->start);
}

int model_count(const struct model_setup *s, size_t *trained, struct lab_err *err)
{
    struct list l = { .err = err };
    int rc = describe(&l, s);
    *trained = 0;
    for (size_t i = 0; i < l.n; i++) if (l.param[i].decay >= 0) *trained += l.param[i].size;
    list_free(&l);
    return rc;
}

/* ---- memory ---- */

static size_t padded(size_t n) { return (n * sizeof(real) + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN / sizeof(real); }

/* Values, gradients and moments: four blocks in one order, trained parameters first, so that
 * the optimiser's view and the gradient's norm are single runs over memory. */
static void plan_params(struct model *m, struct list *l, struct arena *arena)
{
    struct model_state *st = m->state;
    int trains = m->setup.train_batch > 0;
    st->n_value = st->n_grad = 0;
    for (int frozen = 0; frozen < 2; frozen++)
        for (size_t i = 0; i < l->n; i++) {
            if ((l->param[i].decay < 0) != frozen) continue;
            st->n_value += padded(l->param[i].size);
            if (!frozen) st->n_grad = st->n_value;
        }
    st->value = arena_take(arena, st->n_value * sizeof(real));
    st->grad = trains ? arena_take(arena, st->n_grad * sizeof(real)) : NULL;
    st->m = trains ? arena_take(arena, st->n_grad * sizeof(real)) : NULL;
    st->v = trains ? arena_take(arena, st->n_grad * sizeof(real)) : NULL;
    st->best = m->setup.keeps_best ? arena_take(arena, st->n_grad * sizeof(real)) : NULL;
}

static void place_params(struct model *m, struct list *l)
{
    struct model_state *st = m->state;
    size_t at = 0;
    for (int frozen = 0; frozen < 2; frozen++)
        for (size_t i = 0; i < l->n; i++) {
            struct model_param *p = &l->param[i];
            if ((p->decay < 0) != frozen) continue;
            p->value = st->value + at;
            if (!frozen && st->grad) p->grad = st->grad + at, p->m = st->m + at, p->v = st->v + at;
            if (!frozen && st->best) p->best = st->best + at;
            at += padded(p->size);
            if (frozen) p->decay = 0, m->frozen += p->size;
            else m->trained += p->size;
        }
}

static void plan_tables(struct space *s, struct arena *arena, int L)
{
    real ***by_layer[] = { &s->qkv, &s->kept, &s->att, &s->pre, &s->act }, ***by_join[] = { &s->out, &s->xhat, &s->rstd };
    for (int k = 0; k < 5; k++) *by_layer[k] = arena_take(arena, (size_t)L * sizeof(real *));
    for (int k = 0; k < 3; k++) *by_join[k] = arena_take(arena, (size_t)(2 * L + 1) * sizeof(real *));
}

/* Rows of the lookup for a batch of so many tokens: it pays where it at least halves the product. */
static int lookup_rows(const struct model_setup *s, int tokens, int T)
{
    int rows = s->vocab_in + T;
    return s->options.norm == MODEL_POST_NORM && s->options.layers > 0 && rows <= tokens / 2 ? rows : 0;
}

static void plan_lookup(const struct model_setup *s, struct lookup *l, struct arena *arena, int B, int N, int longest, int train)
{
    size_t d = (size_t)s->options.d_model, most = 0;
    for (int T = 1; T <= longest; T++) {
        size_t rows = (size_t)lookup_rows(s, train ? B * T : N, T);
        if (rows > most) most = rows;
    }
    real **by_row[] = { &l->x, &l->qkv, &l->dx, &l->dqkv };
    for (int i = 0; i < (train ? 4 : 2); i++) *by_row[i] = arena_take(arena, most * (i % 2 ? 3 * d : d) * sizeof(real));
}

static void plan_scored(struct scored *r, struct arena *arena, size_t n, size_t d)
{
    r->token = arena_take(arena, n * sizeof *r->token);
    r->target = arena_take(arena, n * sizeof *r->target);
    r->weight = arena_take(arena, n * sizeof *r->weight);
    r->att = arena_take(arena, n * d * sizeof(real));
    r->residual = arena_take(arena, n * d * sizeof(real));
}

static void plan_trimmed(struct trimmed *t, struct arena *arena, size_t n)
{
    int32_t **ids[] = { &t->token, &t->target, &t->pos };
    for (int i = 0; i < 3; i++) *ids[i] = arena_take(arena, n * sizeof(int32_t));
    t->weight = arena_take(arena, n * sizeof *t->weight);
    t->key_ok = arena_take(arena, n * sizeof *t->key_ok);
}

static void plan_space(struct model *m, struct space *s, struct arena *arena, int B, int N, int longest, int train)
{
    const struct model_options *o = &m->setup.options;
    size_t n = (size_t)N, d = (size_t)o->d_model, f = (size_t)o->d_ff, wide = o->activation == MODEL_SWIGLU ? 2 * f : f;
    int L = o->layers, sets = train ? L : 1, joins = 2 * L + 1;
#define TAKE(count) arena_take(arena, (count) * sizeof(real))
    real ***by_layer[] = { &s->qkv, &s->kept, &s->att, &s->pre, &s->act };
    size_t size[] = { 3 * n * d, train ? attn_kept(&s->attn, B, N, longest) : 0, n * d, n * wide, n * f };
    for (int i = 0; i < (s->attn.decodes ? L : sets); i++)           /* each layer's keys and values stay for decoding */
        for (int k = 0; k < (i < sets ? 5 : 1); k++) {
            if ((k == 1 && !train) || (k == 4 && o->activation == MODEL_RELU)) continue;     /* relu works in place: act is pre */
            real *x = TAKE(size[k]);
            if (arena->base) for (int l = i; l < (train ? i + 1 : L); l++) (*by_layer[k])[l] = x;
        }
    if (arena->base && o->activation == MODEL_RELU) for (int l = 0; l < L; l++) s->act[l] = s->pre[l];
    for (int j = 0; j < (train ? joins : 2); j++) {
        real *out = TAKE(n * d), *xhat = train ? TAKE(n * d) : NULL, *rstd = train ? TAKE(n) : NULL;
        if (arena->base) for (int l = j; l < (train ? j + 1 : joins); l += 2) s->out[l] = out, s->xhat[l] = xhat, s->rstd[l] = rstd;
    }
    s->embed_pos = TAKE((size_t)longest * d);
    s->residual = TAKE(n * d);
    s->branch = TAKE(n * d);
    if (train) {
        s->spare = TAKE((size_t)longest * d);
        s->dstream = TAKE(n * d), s->dnormed = TAKE(n * d), s->dbranch = TAKE(n * d);
        s->dqkv = TAKE(3 * n * d), s->dact = TAKE(n * f);
        s->dpre = o->activation == MODEL_SWIGLU ? TAKE(n * wide) : s->dact;
    }
    s->logits = TAKE(n * (size_t)m->setup.vocab_out);
    if (s->attn.decodes) {
        s->some_logits = TAKE(n * (size_t)m->setup.vocab_out);
        s->some_qkv = TAKE((n + 1) * 3 * d);
        if (m->setup.encoder->embed) s->every_pos = TAKE(n * d);
    }
#undef TAKE
    plan_lookup(&m->setup, &s->lookup, arena, B, N, longest, train);
    if (train) plan_scored(&s->scored, arena, n, d), plan_trimmed(&s->trimmed, arena, n);
    attn_plan(&s->attn, arena, B, N, longest, train);
}

static int chunk_of(const struct model_setup *s, int T)
{
    int tokens = chunk_tokens(s->options.d_model), chunk = tokens / T > 1 ? tokens / T : 1, parts = (s->train_batch + chunk - 1) / chunk;
    return parts > 0 ? (s->train_batch + parts - 1) / parts : 1;         /* of equal size, as near as can be */
}

/* Room for the transposed weights, where the kernels multiply by themselves. */
static void plan_packed(struct model *m, struct arena *arena)
{
    const struct model_options *o = &m->setup.options;
    int d = o->d_model, f = o->d_ff, own = linear_own(m->kern);
    for (int i = 0; i < o->layers; i++) {
        struct layer *l = &m->state->layer[i];
        struct linear *packed[] = { &l->in, &l->out, &l->up, &l->down };
        int out[] = { 3 * d, d, o->activation == MODEL_SWIGLU ? 2 * f : f, d }, in[] = { d, d, d, f };
        for (int k = 0; k < (m->state->sparse ? 3 : 4) && own; k++)
            packed[k]->packed = arena_take(arena, linear_packed_size(out[k], in[k]) * sizeof(real));
        if (!m->state->sparse) continue;
        l->down_wt = arena_take(arena, (size_t)f * (size_t)d * sizeof(real));
        if (m->setup.train_batch > 0) l->down_dwt = arena_take(arena, (size_t)f * (size_t)d * sizeof(real));
    }
    if (own) m->state->head.packed = arena_take(arena, linear_packed_size(m->setup.vocab_out, d) * sizeof(real));
}

static void plan(struct model *m, struct list *l, struct arena *arena)
{
    const struct model_setup *s = &m->setup;
    struct model_state *st = m->state;
    plan_params(m, l, arena);
    plan_packed(m, arena);
    plan_tables(&st->train, arena, s->options.layers);
    plan_tables(&st->infer, arena, s->options.layers);
    size_t mark = arena->used, end;
    if (s->train_batch > 0) {
        int tokens = 0;              /* the most that a chunk holds, over the lengths that training may draw */
        for (int T = 1; T <= s->train_len; T++) if (chunk_of(s, T) * T > tokens) tokens = chunk_of(s, T) * T;
        plan_space(m, &st->train, arena, s->train_batch, tokens, s->train_len, 1);
    }
    end = arena->used;
    arena->used = mark;              /* training and inference never overlap in time: one memory serves both */
    if (s->infer_tokens > 0) plan_space(m, &st->infer, arena, s->infer_tokens, s->infer_tokens, s->infer_len, 0);
    if (end > arena->used) arena->used = end;
    arena_take(arena, MEM_ALIGN);    /* kernels may read a vector past the last array */
}

/* ---- start ---- */

static void fill(struct model *m, struct list *l)
{
    const struct model_setup *s = &m->setup;
    for (size_t i = 0; i < l->n; i++) {
        struct model_param *p = &m->param[i];
        struct start *start = &l->start[i];
        struct lab_rng r = rng_stream(s->seed, RNG_WEIGHTS, rng_name(p->name), 0);
        if (start->kind == LAB_INIT_CUSTOM) {
            const char *dot = strrchr(p->name, '.');
            int64_t layer = dot[1] >= '0' && dot[1] <= '9' ? atoi(dot + 1) : 0;
            uint64_t seed = (uint64_t)lab_rng_u32(&r) << 32;
            seed |= lab_rng_u32(&r);
            s->encoder->param_init(s->encoder_self, &s->dims, p->encoder_index, (int)layer, seed, p->value);
            continue;
        }
        for (size_t k = 0; k < p->size; k++) {
            double x = start->a;
            if (start->kind == LAB_INIT_ZERO) x = 0;
            if (start->kind == LAB_INIT_NORMAL) x = start->a + start->b * rng_normal(&r);
            if (start->kind == LAB_INIT_UNIFORM) x = start->a + (start->b - start->a) * lab_rng_unit(&r);
            p->value[k] = (real)x;
        }
    }
}

static struct tensor tensor_of(const struct model *m, const char *format, int layer)
{
    char name[96];
    snprintf(name, sizeof name, format, layer);
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, name)) return (struct tensor){ m->param[i].value, m->param[i].grad };
    return (struct tensor){ 0 };
}

static struct linear linear_of(const struct model *m, const char *format, int layer, real *packed)
{
    char name[96];
    snprintf(name, sizeof name, format, layer);
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, name))
            return (struct linear){ m->param[i].dim[0], m->param[i].dim[1], m->param[i].value, m->param[i].grad, linear_own(m->kern), packed };
    return (struct linear){ 0 };
}

static void bind_layers(struct model *m)
{
    struct model_state *st = m->state;
    int L = m->setup.options.layers, pre = m->setup.options.norm == MODEL_PRE_NORM;
    st->embedding = tensor_of(m, "embedding.weight", 0);
    st->head = linear_of(m, m->setup.options.tied ? "embedding.weight" : "head.weight", 0, st->head.packed);
    st->head_b = tensor_of(m, "head.bias", 0);
    for (int i = 0; i < L; i++) {
        struct layer *l = &st->layer[i];
        *l = (struct layer){
            .down_wt = l->down_wt, .down_dwt = l->down_dwt,
            .in = linear_of(m, "layers.%d.self_attn.in_proj_weight", i, l->in.packed), .in_b = tensor_of(m, "layers.%d.self_attn.in_proj_bias", i),
            .out = linear_of(m, "layers.%d.self_attn.out_proj.weight", i, l->out.packed),
            .out_b = tensor_of(m, "layers.%d.self_attn.out_proj.bias", i),
            .up = linear_of(m, "layers.%d.linear1.weight", i, l->up.packed), .up_b = tensor_of(m, "layers.%d.linear1.bias", i),
            .down = linear_of(m, "layers.%d.linear2.weight", i, l->down.packed), .down_b = tensor_of(m, "layers.%d.linear2.bias", i) };
        /* post-norm: norm1 follows the attention; pre-norm: it precedes it, one join earlier */
        st->norm[2 * i + 1 - pre] = (struct norm){ tensor_of(m, "layers.%d.norm1.weight", i), tensor_of(m, "layers.%d.norm1.bias", i) };
        st->norm[2 * i + 2 - pre] = (struct norm){ tensor_of(m, "layers.%d.norm2.weight", i), tensor_of(m, "layers.%d.norm2.bias", i) };
    }
    if (pre) st->norm[2 * L] = (struct norm){ tensor_of(m, "norm.weight", 0), tensor_of(m, "norm.bias", 0) };
}

static void bind_encoder(struct model *m)
{
    struct model_state *st = m->state;
    for (int i = 0; i < m->n_param; i++) {
        struct model_param *p = &m->param[i];
        if (p->encoder_index < 0) continue;
        const char *last = strrchr(p->name, '.') + 1;
        int own = *last >= '0' && *last <= '9';
        for (int l = own ? atoi(last) : 0; l < (own ? atoi(last) + 1 : m->setup.options.layers); l++) {
            st->encoder_param[l][p->encoder_index] = p->value;
            st->encoder_grad[l][p->encoder_index] = p->grad;
        }
        if (p->grad) st->encoder_trained = 1;
    }
    struct attn *attn[] = { &st->train.attn, &st->infer.attn };
    for (int i = 0; i < 2; i++) attn[i]->trained = st->encoder_trained, attn[i]->param = st->encoder_param, attn[i]->grad = st->encoder_grad;
}

static int state_init(struct model *m, struct lab_err *err)
{
    const struct model_options *o = &m->setup.options;
    struct model_state *st = m->state = mem_alloc(sizeof *st, err);
    if (!st || kern_pick(&m->kern, err) != 0 || linear_check(err) != 0) return -1;
    st->sparse = m->kern->relu_fwd && !linear_blas() && o->activation == MODEL_RELU && o->d_model % KERN_SPARSE == 0 && o->d_ff % KERN_SPARSE == 0;
    st->layer = mem_alloc((size_t)o->layers * sizeof *st->layer, err);
    st->norm = mem_alloc((size_t)(2 * o->layers + 1) * sizeof *st->norm, err);
    st->encoder_param = mem_alloc((size_t)o->layers * sizeof *st->encoder_param, err);
    st->encoder_grad = mem_alloc((size_t)o->layers * sizeof *st->encoder_grad, err);
    if (!st->layer || !st->norm || !st->encoder_param || !st->encoder_grad) return -1;
    struct attn a = { .kern = m->kern, .encoder = m->setup.encoder, .self = m->setup.encoder_self, .H = o->heads, .dh = o->d_model / o->heads,
                      .d = o->d_model, .scale = (real)(1 / sqrt(o->d_model / o->heads)), .causal = o->causal, .layers = o->layers,
                      .seed = m->setup.seed, .dropout = o->dropout,
                      .param = st->encoder_param, .grad = st->encoder_grad };
    st->train.attn = st->infer.attn = a;
    st->infer.attn.decodes = m->setup.decodes;
    return 0;
}

int model_init(struct model *m, const struct model_setup *setup, struct lab_err *err)
{
    struct list l = { .err = err };
    *m = (struct model){ .setup = *setup };
    if (state_init(m, err) != 0 || describe(&l, setup) != 0) goto fail;
    plan(m, &l, &m->arena);
    if (arena_commit(&m->arena, err) != 0) goto fail;
    plan(m, &l, &m->arena);
    place_params(m, &l);
    m->param = l.param;
    m->n_param = (int32_t)l.n;
    fill(m, &l);
    free(l.start);
    bind_layers(m);
    bind_encoder(m);
    return 0;
fail:
    list_free(&l);
    m->param = NULL;
    model_release(m);
    return -1;
}

void model_release(struct model *m)
{
    if (m->state) {
        free(m->state->layer);
        free(m->state->norm);
        free(m->state->encoder_param);
        free(m->state->encoder_grad);
    }
    free(m->state);
    free(m->param);
    arena_free(&m->arena);
    *m = (struct model){ 0 };
}

void model_keep(struct model *m) { memcpy(m->state->best, m->state->value, m->state->n_grad * sizeof(real)); }
void model_take(struct model *m) { memcpy(m->state->value, m->state->best, m->state->n_grad * sizeof(real)); }

/* ---- forward ---- */

static struct space *space_of(struct model *m, int train) { return train ? &m->state->train : &m->state->infer; }
static real embed_scale(const struct model *m)
{
    return m->setup.options.embed_scale == MODEL_SCALE_SQRT ? (real)sqrt(m->setup.options.d_model) : 1;
}
static void drop(const struct model *m, real *x, uint32_t where, size_t n)
{
    size_t d = (size_t)m->setup.options.d_model;
    struct kern_dropout o = { .seed = m->setup.seed, .step = m->state->step, .place = where, .p = m->setup.options.dropout,
                              .block = (uint32_t)(m->state->first_token * ((d + 3) / 4)) };
    m->kern->dropout(x, &o, n);
}

/* Once for all chunks of a batch. */
static void embed_begin(struct model *m, struct space *s, const struct model_batch *b, int train, uint32_t step)
{
    struct lab_call c = attn_call(&s->attn, b, LAB_H_EMBED, 0, 1, -1, train, step);
    if (!m->setup.encoder->embed || b->pos_stride) return;
    memset(s->embed_pos, 0, (size_t)b->T * m->setup.options.d_model * sizeof *s->embed_pos);
    TIMED(TIMES_HOOKS, m->setup.encoder->embed(m->setup.encoder_self, &c, s->embed_pos));
}

static void embed(struct model *m, struct space *s, real *x, const struct model_batch *b, int train)
{
    const struct kern *k = m->kern;
    const struct lab_encoder *e = m->setup.encoder;
    int d = m->setup.options.d_model, N = b->B * b->T;
    real *pos = e->embed && b->pos_stride == 0 ? s->embed_pos : NULL;
    struct lab_call c = attn_call(&s->attn, b, LAB_H_EMBED, 0, pos ? 1 : b->B, -1, train, m->state->step);
    k->embed_fwd(x, m->state->embedding.w, b->token, embed_scale(m), pos, b->T, N, d);
    if (e->embed && b->pos_stride) TIMED(TIMES_HOOKS, e->embed(m->setup.encoder_self, &c, x));
    if (e->embed && s->attn.decodes) {
        memset(s->every_pos, 0, (size_t)c.B * b->T * d * sizeof *s->every_pos);
        TIMED(TIMES_HOOKS, e->embed(m->setup.encoder_self, &c, s->every_pos));
    }
    if (train && m->setup.options.dropout > 0) drop(m, x, ATTN_PLACE_EMBED, (size_t)N * d);
}

static void lookup_begin(struct model *m, struct space *s, const struct model_batch *b, int train)
{
    struct lookup *l = &s->lookup;
    const struct layer *w = m->state->layer;
    const struct lab_encoder *e = m->setup.encoder;
    int V = m->setup.vocab_in, d = m->setup.options.d_model, dropped = train && m->setup.options.dropout > 0;
    l->rows = dropped || (e->embed && b->pos_stride) ? 0 : lookup_rows(&m->setup, b->B * b->T, b->T);
    if (!l->rows) return;
    for (int i = 0; i < V * d; i++) l->x[i] = embed_scale(m) * m->state->embedding.w[i];
    if (e->embed) memcpy(l->x + V * d, s->embed_pos, (size_t)b->T * d * sizeof *l->x);
    else memset(l->x + V * d, 0, (size_t)b->T * d * sizeof *l->x);
    linear_fwd(m->kern, l->qkv, l->x, &w->in, l->rows);
    m->kern->add_bias(l->qkv + V * 3 * d, w->in_b.w, b->T, 3 * d);
    if (train) memset(l->dqkv, 0, (size_t)l->rows * 3 * d * sizeof *l->dqkv);
}

/* The gradient that all chunks have added to dqkv. */
static void lookup_end(struct model *m, const struct model_batch *b, uint32_t step)
{
    struct space *s = &m->state->train;
    struct lookup *l = &s->lookup;
    const struct layer *w = m->state->layer;
    const struct lab_encoder *e = m->setup.encoder;
    int V = m->setup.vocab_in, d = m->setup.options.d_model;
    if (!l->rows) return;
    linear_bwd(m->kern, l->dx, 0, l->dqkv, l->x, &w->in, l->rows);
    m->kern->column_sum(w->in_b.g, l->dqkv + V * 3 * d, b->T, 3 * d);
    for (int i = 0; i < V * d; i++) m->state->embedding.g[i] += embed_scale(m) * l->dx[i];
    if (!e->embed || !m->state->encoder_trained) return;
    struct lab_call c = attn_call(&s->attn, b, LAB_H_EMBED, 0, 1, -1, 1, step);
    c.g = m->state->encoder_grad[0];
    TIMED(TIMES_HOOKS, e->embed_bwd(m->setup.encoder_self, &c, l->dx + V * d));
}

/* Up to the output projection. */
static void attention_fwd(struct model *m, struct space *s, const struct model_batch *b, const real *x, int l, int train)
{
    const struct layer *w = &m->state->layer[l];
    int d = m->setup.options.d_model, N = b->B * b->T;
    if (l == 0 && s->lookup.rows) {
        const real *qkv = s->lookup.qkv;
        m->kern->embed_fwd(s->qkv[l], qkv, b->token, 1, qkv + m->setup.vocab_in * 3 * d, b->T, N, 3 * d);
    } else {
        linear_fwd(m->kern, s->qkv[l], x, &w->in, N);
        m->kern->add_bias(s->qkv[l], w->in_b.w, N, 3 * d);
    }
    TIMED(TIMES_ATTENTION, attn_fwd(&s->attn, s->att[l], s->kept[l], s->qkv[l], b, l, train, m->state->step));
    if (m->attention && !train) {            /* branch is free until the output projection, the values are used up */
        size_t square = (size_t)b->B * m->setup.options.heads * b->T * b->T;
        attn_weights(&s->attn, m->attention + l * square, s->branch, s->qkv[l], b, l);
    }
}

static void feed_forward_fwd(struct model *m, struct space *s, const real *x, int N, int l)
{
    const struct layer *w = &m->state->layer[l];
    const struct model_options *o = &m->setup.options;
    linear_fwd(m->kern, s->pre[l], x, &w->up, N);
    if (m->state->sparse) {
        TIMED(TIMES_GEMM, m->kern->relu_fwd(s->branch, s->act[l], w->up_b.w, w->down_wt, N, o->d_model, o->d_ff));
        return;
    }
    TIMED(TIMES_ACTIVATION, m->kern->act_fwd(s->act[l], s->pre[l], w->up_b.w, o->activation, N, o->d_ff));
    linear_fwd(m->kern, s->branch, s->act[l], &w->down, N);
}

/* Join j: residual + branch + bias, normalised into out[j].  branch NULL: join 0. */
static void join_fwd(struct model *m, struct space *s, int j, const real *residual, real *branch, const real *bias, int N, int train)
{
    const struct model_options *o = &m->setup.options;
    const struct norm *norm = &m->state->norm[j];
    int d = o->d_model;
    const real *b = bias;
    if (branch && train && o->dropout > 0) {
        real *zeros = s->spare;      /* d of them stand for the bias, which must be dropped with the branch */
        m->kern->add_bias(branch, bias, N, d);
        drop(m, branch, attn_place((j - 1) / 2, 1 + (j - 1) % 2), (size_t)N * d);
        memset(zeros, 0, (size_t)d * sizeof *zeros);
        b = zeros;
    }
    TIMED(TIMES_NORM, m->kern->norm_fwd(s->out[j], s->xhat[j], s->rstd[j], o->norm == MODEL_PRE_NORM ? s->residual : NULL, residual,
                                        branch, b, norm->w.w, norm->b.w, o->norm_type, N, d));
}

static void pack_weights(struct model *m)
{
    for (int i = 0; i < m->setup.options.layers; i++) {
        struct layer *l = &m->state->layer[i];
        struct linear *all[] = { &l->in, &l->out, &l->up, &l->down };
        for (int k = 0; k < 4; k++) linear_pack(m->kern, all[k]);
        if (l->down_wt) TIMED(TIMES_GEMM, m->kern->transpose(l->down_wt, l->down.w, l->down.out, l->down.in));
    }
    linear_pack(m->kern, &m->state->head);
}

/* Finds the batch's scored tokens; what is dropped from a row depends on where it stands, so then all go on. */
static void find_scored(const struct model *m, struct scored *r, const struct model_batch *b)
{
    int N = b->B * b->T, n = 0;
    for (int i = 0; i < N && m->setup.options.dropout == 0; i++) {
        if (b->target[i] < 0) continue;
        r->token[n] = i, r->target[n] = b->target[i];
        if (b->weight) r->weight[n] = b->weight[i];
        n++;
    }
    r->n = n < N ? n : 0;
}
static const real *pick_rows(real *out, const real *x, const struct scored *r, size_t d)
{
    for (int i = 0; i < r->n; i++) memcpy(out + (size_t)i * d, x + (size_t)r->token[i] * d, d * sizeof *out);
    return out;
}
/* In place: row i goes where token i stands, and zeros go between them. */
static void spread_rows(real *x, const struct scored *r, int N, size_t d)
{
    for (int at = N - 1, i = r->n - 1; at >= 0; at--) {
        if (i >= 0 && r->token[i] == at) memmove(x + (size_t)at * d, x + (size_t)i-- * d, d * sizeof *x);
        else memset(x + (size_t)at * d, 0, d * sizeof *x);
    }
}

/* scored: after the last attention only tokens with a target go on, and the logits are theirs alone. */
static void forward(struct model *m, const struct model_batch *b, int train, int scored, uint32_t step)
{
    struct model_state *st = m->state;
    struct space *s = space_of(m, train);
    const struct model_options *o = &m->setup.options;
    int pre = o->norm == MODEL_PRE_NORM, N = b->B * b->T, last = 2 * o->layers;
    st->step = step;
    st->first_token = (size_t)b->first * b->T;
    s->scored.n = 0;
    if (scored) find_scored(m, &s->scored, b);
    embed(m, s, pre ? s->residual : s->out[0], b, train);
    if (pre) join_fwd(m, s, 0, s->residual, NULL, NULL, N, train);
    for (int j = 1; j <= last; j++) {
        int l = (j - 1) / 2;
        const real *residual = pre ? s->residual : s->out[j - 1], *att = s->att[l];
        if (j % 2) {
            attention_fwd(m, s, b, s->out[j - 1], l, train);
            if (j == last - 1 && s->scored.n) {
                N = s->scored.n;
                att = pick_rows(s->scored.att, att, &s->scored, (size_t)o->d_model);
                residual = pick_rows(s->scored.residual, residual, &s->scored, (size_t)o->d_model);
            }
            linear_fwd(m->kern, s->branch, att, &st->layer[l].out, N);
        } else {
            feed_forward_fwd(m, s, s->out[j - 1], N, l);
        }
        join_fwd(m, s, j, residual, s->branch, j % 2 ? st->layer[l].out_b.w : st->layer[l].down_b.w, N, train);
    }
    m->hidden = s->out[last];
    m->logits = s->logits;
    linear_fwd(m->kern, m->logits, m->hidden, &st->head, N);
    if (st->head_b.w) m->kern->add_bias(m->logits, st->head_b.w, N, m->setup.vocab_out);
}

/* Token and position of place t of each of these sequences. */
static void embed_rows(struct model *m, struct space *s, real *x, const struct model_batch *b, const int32_t *sequence, int n, int t)
{
    int d = m->setup.options.d_model;
    for (int i = 0; i < n; i++, x += d) {
        size_t at = (size_t)sequence[i] * b->T + t;
        const real *pos = s->every_pos ? s->every_pos + (b->pos_stride ? at : (size_t)t) * d : NULL;
        m->kern->embed_fwd(x, m->state->embedding.w, b->token + at, embed_scale(m), pos, 1, 1, d);
    }
}

/* attention_fwd for place t alone; the new keys and values take their place in the layer's qkv. */
static void attend_rows(struct model *m, struct space *s, const struct model_batch *b, const real *x, int l, const int32_t *sequence, int n, int t)
{
    const struct layer *w = &m->state->layer[l];
    size_t d = (size_t)m->setup.options.d_model;
    real *rows = s->some_qkv, *old = s->some_qkv + (size_t)n * 3 * d;
    linear_fwd(m->kern, rows, x, &w->in, n);
    m->kern->add_bias(rows, w->in_b.w, n, (int)(3 * d));
    for (int i = 0; i < n; i++) {
        real *place = s->qkv[l] + ((size_t)sequence[i] * b->T + t) * 3 * d;
        memcpy(old, place, 3 * d * sizeof *old);
        memcpy(place, rows + (size_t)i * 3 * d, 3 * d * sizeof *place);
        TIMED(TIMES_ATTENTION, attn_decode(&s->attn, s->att[l] + (size_t)i * d, old, s->qkv[l], b, l, sequence[i], t));
    }
    linear_fwd(m->kern, s->branch, s->att[l], &w->out, n);
}

void model_decode(struct model *m, const struct model_batch *b, const int32_t *sequence, int n, int t)
{
    struct model_state *st = m->state;
    struct space *s = &st->infer;
    const struct model_options *o = &m->setup.options;
    int pre = o->norm == MODEL_PRE_NORM, last = 2 * o->layers, V = m->setup.vocab_out;
    embed_rows(m, s, pre ? s->residual : s->out[0], b, sequence, n, t);
    if (pre) join_fwd(m, s, 0, s->residual, NULL, NULL, n, 0);
    for (int j = 1; j <= last; j++) {
        int l = (j - 1) / 2;
        if (j % 2) attend_rows(m, s, b, s->out[j - 1], l, sequence, n, t);
        else feed_forward_fwd(m, s, s->out[j - 1], n, l);
        join_fwd(m, s, j, pre ? s->residual : s->out[j - 1], s->branch, j % 2 ? st->layer[l].out_b.w : st->layer[l].down_b.w, n, 0);
    }
    linear_fwd(m->kern, s->some_logits, s->out[last], &st->head, n);
    if (st->head_b.w) m->kern->add_bias(s->some_logits, st->head_b.w, n, V);
    for (int i = 0; i < n; i++)
        memcpy(m->logits + ((size_t)sequence[i] * b->T + t) * V, s->some_logits + (size_t)i * V, (size_t)V * sizeof(real));
}

/* What all chunks of a batch share. */
static void begin(struct model *m, const struct model_batch *whole, int train, uint32_t step)
{
    struct space *s = space_of(m, train);
    pack_weights(m);
    TIMED(TIMES_ATTENTION, attn_begin(&s->attn, whole->T));
    embed_begin(m, s, whole, train, step);
    lookup_begin(m, s, whole, train);
}
static void end(struct model *m, const struct model_batch *whole, uint32_t step)
{
    const struct model_options *o = &m->setup.options;
    TIMED(TIMES_ATTENTION, attn_end(&m->state->train.attn, whole, step));
    for (int l = 0; l < o->layers && m->state->sparse; l++)
        TIMED(TIMES_GEMM, m->kern->transpose(m->state->layer[l].down.dw, m->state->layer[l].down_dwt, o->d_ff, o->d_model));
    lookup_end(m, whole, step);
}

void model_forward(struct model *m, const struct model_batch *b, int train, uint32_t step)
{
    begin(m, b, train, step);
    forward(m, b, train, 0, step);
}

/* ---- loss and backward ---- */

static double total_weight(const struct model_batch *b)
{
    double total = 0;
    for (int i = 0; i < b->B * b->T; i++) if (b->target[i] >= 0) total += b->weight ? (double)b->weight[i] : 1;
    return total > 0 ? total : 1;
}

double model_loss(struct model *m, const struct model_batch *b)
{
    return m->kern->xent(NULL, m->logits, b->target, b->weight, 0, b->B * b->T, m->setup.vocab_out) / total_weight(b);
}

/* dy is the gradient of the branch's output; dx gets (add: is added) that of its input.  dx may be dy, which is read first.
 * Where only scored tokens went on, all come back: with gradient 0 on the residual stream, too. */
static void attention_bwd(struct model *m, struct space *s, const struct model_batch *b, real *dx, int add, const real *dy, const real *x, int l)
{
    const struct layer *w = &m->state->layer[l];
    int d = m->setup.options.d_model, N = b->B * b->T;
    real *datt = s->branch;          /* the branch's own output is not needed any more */
    const struct scored *r = l == m->setup.options.layers - 1 && s->scored.n ? &s->scored : NULL;
    linear_bwd(m->kern, datt, 0, dy, r ? r->att : s->att[l], &w->out, r ? r->n : N);
    if (r) spread_rows(datt, r, N, (size_t)d), spread_rows(s->dstream, r, N, (size_t)d);
    TIMED(TIMES_ATTENTION, attn_bwd(&s->attn, s->dqkv, datt, s->att[l], s->kept[l], s->qkv[l], b, l, m->state->step));
    if (l == 0 && s->lookup.rows) {          /* post-norm: what dx holds is added to, by lookup_end */
        real *dqkv = s->lookup.dqkv;
        m->kern->embed_bwd(dqkv, dqkv + m->setup.vocab_in * 3 * d, s->dqkv, b->token, 1, b->T, N, 3 * d);
        return;
    }
    m->kern->column_sum(w->in_b.g, s->dqkv, N, 3 * d);
    linear_bwd(m->kern, dx, add, s->dqkv, x, &w->in, N);
}

static void feed_forward_bwd(struct model *m, struct space *s, real *dx, int add, const real *dy, const real *x, int N, int l)
{
    const struct layer *w = &m->state->layer[l];
    const struct model_options *o = &m->setup.options;
    if (m->state->sparse) {
        enum times_part before = times_to(TIMES_GEMM);
        m->kern->relu_dw(w->down_dwt, s->act[l], dy, N, o->d_model, o->d_ff);
        linear_dx(m->kern, s->dact, 0, dy, &w->down, N);
        m->kern->relu_bwd(dx, add, s->dact, w->up_b.g, s->act[l], w->up.w, N, o->d_model, o->d_ff);
        m->kern->relu_dw(w->up.dw, s->dact, x, N, o->d_model, o->d_ff);
        times_to(before);
        return;
    }
    linear_bwd(m->kern, s->dact, 0, dy, s->act[l], &w->down, N);
    TIMED(TIMES_ACTIVATION, m->kern->act_bwd(s->dpre, w->up_b.g, s->dact, s->pre[l], o->activation, N, o->d_ff));
    linear_bwd(m->kern, dx, add, s->dpre, x, &w->up, N);
}

/* dx is the gradient of the token vectors, positions included. */
static void embed_bwd(struct model *m, struct space *s, real *dx, const struct model_batch *b)
{
    const struct kern *k = m->kern;
    const struct lab_encoder *e = m->setup.encoder;
    int d = m->setup.options.d_model, N = b->B * b->T, wanted = e->embed && m->state->encoder_trained;
    real *dpos = wanted && b->pos_stride == 0 ? s->spare : NULL;
    if (m->setup.options.dropout > 0) drop(m, dx, ATTN_PLACE_EMBED, (size_t)N * d);
    if (dpos) memset(dpos, 0, (size_t)b->T * d * sizeof *dpos);
    k->embed_bwd(m->state->embedding.g, dpos, dx, b->token, embed_scale(m), b->T, N, d);
    if (!wanted) return;
    struct lab_call c = attn_call(&s->attn, b, LAB_H_EMBED, 0, dpos ? 1 : b->B, -1, 1, m->state->step);
    c.g = m->state->encoder_grad[0];
    TIMED(TIMES_HOOKS, e->embed_bwd(m->setup.encoder_self, &c, dpos ? dpos : dx));
}

static void zero_grads(struct model *m)
{
    const struct model_options *o = &m->setup.options;
    memset(m->state->grad, 0, m->state->n_grad * sizeof(real));
    for (int l = 0; l < o->layers && m->state->sparse; l++)
        memset(m->state->layer[l].down_dwt, 0, (size_t)o->d_ff * (size_t)o->d_model * sizeof(real));
}

/* Adds the gradient of (sum of weighted losses) / total; returns that quotient. */
static double backward(struct model *m, const struct model_batch *b, double total)
{
    struct model_state *st = m->state;
    struct space *s = &st->train;
    const struct kern *k = m->kern;
    const struct model_options *o = &m->setup.options;
    int all = b->B * b->T, N = s->scored.n ? s->scored.n : all, d = o->d_model, V = m->setup.vocab_out;
    int pre = o->norm == MODEL_PRE_NORM, last = 2 * o->layers;
    const int32_t *target = N < all ? s->scored.target : b->target;
    const float *weight = N < all && b->weight ? s->scored.weight : b->weight;
    double loss;
    TIMED(TIMES_LOSS, loss = k->xent(m->logits, m->logits, target, weight, 1 / total, N, V) / total);
    linear_bwd(m->kern, s->dnormed, 0, m->logits, m->hidden, &st->head, N);
    if (st->head_b.g) k->column_sum(st->head_b.g, m->logits, N, V);
    /* Post-norm: dstream is the gradient through the norm; the branch's is added, and it becomes dnormed of the join before.
     * Pre-norm: dstream runs along the residual; each norm's gradient joins it, the branch's goes to dnormed. */
    for (int j = last; j >= 1; j--) {
        int l = (j - 1) / 2;
        struct tensor bias = j % 2 ? st->layer[l].out_b : st->layer[l].down_b;
        const real *carry = pre && j < last ? s->dstream : NULL, *dy = s->dstream;
        int dropped = o->dropout > 0;
        TIMED(TIMES_NORM, k->norm_bwd(s->dstream, st->norm[j].w.g, st->norm[j].b.g, dropped ? NULL : bias.g, s->dnormed, carry,
                                      s->xhat[j], s->rstd[j], st->norm[j].w.w, o->norm_type, N, d));
        if (dropped) {
            memcpy(s->dbranch, s->dstream, (size_t)N * d * sizeof(real));
            drop(m, s->dbranch, attn_place(l, 1 + (j - 1) % 2), (size_t)N * d);
            k->column_sum(bias.g, s->dbranch, N, d);
            dy = s->dbranch;
        }
        real *dx = pre ? s->dnormed : s->dstream;
        if (j % 2) attention_bwd(m, s, b, dx, !pre, dy, s->out[j - 1], l), N = all;
        else feed_forward_bwd(m, s, dx, !pre, dy, s->out[j - 1], N, l);
        if (!pre) { real *swap = s->dnormed; s->dnormed = s->dstream; s->dstream = swap; }
    }
    if (pre) TIMED(TIMES_NORM, k->norm_bwd(s->dstream, st->norm[0].w.g, st->norm[0].b.g, NULL, s->dnormed, last ? s->dstream : NULL,
                                           s->xhat[0], s->rstd[0], st->norm[0].w.w, o->norm_type, N, d));
    embed_bwd(m, s, pre ? s->dstream : s->dnormed, b);
    return loss;
}

double model_backward(struct model *m, const struct model_batch *b)
{
    zero_grads(m);
    double loss = backward(m, b, total_weight(b));
    end(m, b, m->state->step);
    return loss;
}

int model_chunk(const struct model *m, int T) { return chunk_of(&m->setup, T); }

/* Tokens of sequence i up to its padding. */
static int tokens_of(const struct model_batch *b, int i)
{
    int n = b->T;
    for (size_t at = (size_t)i * b->T; n > 1 && !b->key_ok[at + n - 1] && b->target[at + n - 1] < 0; ) n--;
    return n;
}

/* The first T of b's columns. */
static void trim(struct model_batch *b, const struct trimmed *to, int T)
{
    int padded = 0;
    for (int i = 0; i < b->B; i++) {
        size_t from = (size_t)i * b->T, at = (size_t)i * T, n = (size_t)T;
        memcpy(to->token + at, b->token + from, n * sizeof *to->token);
        memcpy(to->target + at, b->target + from, n * sizeof *to->target);
        memcpy(to->key_ok + at, b->key_ok + from, n * sizeof *to->key_ok);
        if (b->weight) memcpy(to->weight + at, b->weight + from, n * sizeof *to->weight);
        if (b->pos_stride) memcpy(to->pos + at, b->pos + (size_t)i * b->pos_stride, n * sizeof *to->pos);
        padded |= memchr(to->key_ok + at, 0, n) != NULL;
    }
    b->T = T, b->token = to->token, b->target = to->target, b->key_ok = padded ? to->key_ok : NULL;
    if (b->weight) b->weight = to->weight;
    if (b->pos_stride) b->pos = to->pos, b->pos_stride = T;
}

/* The sequences from `first` on that are computed together; of a padded batch as many as fit without their common padding,
 * except that what is dropped from a row depends on where it stands. */
static struct model_batch chunk_from(const struct model *m, const struct model_batch *whole, int first)
{
    struct model_batch b = *whole;
    int T = whole->T, count = model_chunk(m, T), left = whole->B - first, room = count * T, longest = 1;
    size_t at = (size_t)first * T;
    b.first = whole->first + first;
    b.token += at, b.target += at, b.pos += (size_t)first * whole->pos_stride;
    if (b.weight) b.weight += at;
    if (b.key_ok) b.key_ok += at;
    b.B = left < count ? left : count;
    if (!b.key_ok || m->setup.options.dropout > 0) return b;
    for (b.B = 0; b.B < left; b.B++) {
        int n = tokens_of(&b, b.B), wide = n > longest ? n : longest;
        if (wide * (b.B + 1) > room) break;
        longest = wide;
    }
    trim(&b, &m->state->train.trimmed, longest);
    return b;
}

double model_step(struct model *m, const struct model_batch *whole, uint32_t step)
{
    double total = total_weight(whole), loss = 0;
    zero_grads(m);
    begin(m, whole, 1, step);
    for (int first = 0; first < whole->B; ) {
        struct model_batch b = chunk_from(m, whole, first);
        forward(m, &b, 1, 1, step);
        loss += backward(m, &b, total);
        first += b.B;
    }
    end(m, whole, step);
    return loss;
}
