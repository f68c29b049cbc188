/* rig -- see rig.h. */
#include "answer/rig.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/rng.h"
#include "host/option.h"
#include "nn/gemm.h"

enum { ROOM = 4096, ALIGN = 64 };

static void out_of_memory(void)
{
    fprintf(stderr, "lab: out of memory on the bench for hooks\n");
    abort();
}

static void *take(size_t bytes)
{
    struct lab_err ignored;
    void *p = mem_alloc(bytes, &ignored);
    if (!p) out_of_memory();
    return p;
}

/* ---- options ---- */

static int words(const char *choices)
{
    int n = 1;
    for (; *choices; choices++) n += *choices == '|';
    return n;
}

static int others(const struct lab_option *row)
{
    return row->type == LAB_T_ENUM ? words(row->choices) - 1 : row->type == LAB_T_BOOL;
}

int rig_variants(const struct lab_option *row)
{
    int n = 1;
    for (; row && row->name; row++) n += others(row);
    return n;
}

/* An option without default still needs a value: the first that its row allows. */
static void set_default(const struct lab_option *row, void *self)
{
    struct lab_err ignored;
    void *at = (char *)self + row->off;
    if (row->def) { option_set(row, self, row->def, &ignored); return; }
    if (row->type == LAB_T_REAL) *(double *)at = row->lo;
    else if (row->type == LAB_T_INT) *(int32_t *)at = (int32_t)row->lo;
    else if (row->type == LAB_T_STR) *(const char **)at = "";
}

void rig_set_variant(const struct lab_option *options, void *self, int variant, char text[96])
{
    text[0] = '\0';
    for (const struct lab_option *row = options; row && row->name; row++) set_default(row, self);
    for (const struct lab_option *row = options; variant > 0 && row && row->name; variant -= others(row), row++) {
        int32_t *at = (int32_t *)((char *)self + row->off);
        struct str value = { 0 };
        if (variant > others(row)) continue;
        *at = (*at + variant) % (others(row) + 1);           /* the default's neighbours, in a circle */
        option_print(&value, row, self);
        snprintf(text, 96, "%s = %s", row->name, str_text(&value));
        str_free(&value);
        return;
    }
}

/* ---- arrays; those of all rigs are known, so that a fault's address can be named ---- */

static struct rig_array *known[1024];
static int n_known;

static void map_memory(struct rig_array *a, const char *name, size_t bytes, int guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    size_t inside = (whole + page - 1) / page * page + (whole == 0) * page, map_bytes = inside + 2 * page;
    char *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) out_of_memory();
    *a = (struct rig_array){ name, map, map + page + inside - whole, map_bytes, bytes, whole - bytes };
    if (guarded && (mprotect(map, page, PROT_NONE) || mprotect(map + page + inside, page, PROT_NONE))) out_of_memory();
    for (int i = 0; i <= n_known && i < (int)(sizeof known / sizeof *known); i++) {
        if (i < n_known && known[i]) continue;
        known[i] = a;
        n_known += i == n_known;
        break;
    }
}

static void unmap_array(struct rig_array *a)
{
    for (int i = 0; i < n_known; i++) if (known[i] == a) known[i] = NULL;
    munmap(a->map, a->map_bytes);
}

void rig_where(const void *address, char text[128])
{
    const char *p = address;
    text[0] = '\0';
    for (int i = 0; i < n_known; i++) {
        const struct rig_array *a = known[i];
        if (!a || p < a->map || p >= a->map + a->map_bytes) continue;
        if (p < a->at) snprintf(text, 128, "%td bytes before %s", a->at - p, a->name);
        else if (p < a->at + a->bytes) snprintf(text, 128, "byte %td of %s", p - a->at, a->name);
        else snprintf(text, 128, "%td bytes past the end of %s", p - (a->at + a->bytes), a->name);
    }
}

size_t rig_count(const struct rig_array *a) { return a->bytes / sizeof(lab_real); }
lab_real *rig_reals(const struct rig_array *a) { return (lab_real *)(void *)a->at; }
void rig_zero(const struct rig_array *a) { if (a && a->bytes) memset(a->at, 0, a->bytes); }

/* ---- instances ---- */

static int try_init(struct rig_instance *r, int variant, struct lab_err *err)
{
    const struct lab_encoder *e = r->encoder;
    rig_zero(&r->block);
    rig_set_variant(e->options, r->self, variant, r->variant);
    err->msg[0] = '\0';
    return e->init ? e->init(r->self, &r->dims, err) : 0;
}

int rig_open(struct rig_instance *r, const struct lab_encoder *e, int variant, struct lab_dims dims, struct lab_err *err)
{
    const int reach[] = { 4096, 1024, 256, 64, dims.train_len };
    *r = (struct rig_instance){ .encoder = e, .dims = dims };
    map_memory(&r->block, "self", e->self_size, 0);
    r->self = r->block.at;
    r->dims.size = sizeof r->dims;
    r->dims.d_model = dims.n_head * dims.d_head;
    for (size_t i = 0; i < sizeof reach / sizeof *reach; i++) {
        if (reach[i] < dims.train_len || reach[i] == 0) continue;
        r->dims.max_len = r->dims.max_pos = reach[i];
        if (!dims.train_len) r->dims.train_len = reach[i];
        if (try_init(r, variant, err) != 0) continue;
        while (e->param && r->n_param < RIG_PARAMS && e->param(r->self, &r->dims, r->n_param, &r->param[r->n_param])) r->n_param++;
        return 0;
    }
    unmap_array(&r->block);
    return -1;
}

void rig_close(struct rig_instance *r)
{
    if (r->encoder->fini) r->encoder->fini(r->self);
    unmap_array(&r->block);
}

static size_t param_size(const struct lab_param *p)
{
    size_t n = 1;
    for (int i = 0; i < p->ndim && i < 4; i++) n *= p->dim[i] > 0 ? (size_t)p->dim[i] : 0;
    return n;
}

/* ---- hooks: what each reads and makes ---- */

enum extent { QUERIES, KEYS, EMBEDDINGS, BIAS, LOGITS };     /* [B,H,Tq,dh] [B,H,Tk,dh] [B,Tq,d] [H,Tq,Tk] [B,H,Tq,Tk] */
struct tensor { const char *name, *gradient; enum extent extent; };
static const struct { struct tensor in[3], out[2]; } hook_arrays[RIG_HOOKS] = {
    [LAB_H_EMBED]  = { .out = { { "x", "dx", EMBEDDINGS } } },
    [LAB_H_QK]     = { .in = { { "q", "dq", QUERIES }, { "k", "dk", KEYS } },
                       .out = { { "q_out", "dq_out", QUERIES }, { "k_out", "dk_out", KEYS } } },
    [LAB_H_BIAS]   = { .out = { { "b", "db", BIAS } } },
    [LAB_H_LOGITS] = { .in = { { "q", "dq", QUERIES }, { "k", "dk", KEYS }, { "s", "ds", LOGITS } }, .out = { { "out", "dout", LOGITS } } },
    [LAB_H_VALUE]  = { .in = { { "att", "datt", LOGITS } }, .out = { { "out", "dout", QUERIES } } },
};
const char *const rig_hook_name[RIG_HOOKS] = { "embed", "qk", "bias", "logits", "value" };

int rig_has(const struct lab_encoder *e, int hook)
{
    const int has[RIG_HOOKS] = { e->embed != NULL, e->qk != NULL, e->bias != NULL, e->logits != NULL, e->value != NULL };
    return has[hook];
}

void rig_call(struct rig *r, int backward)
{
    const struct lab_encoder *e = r->instance->encoder;
    const void *self = r->instance->self;
    lab_real *in[3], *out[2], *din[3], *dout[2];
    for (int i = 0; i < r->n_in; i++) in[i] = rig_reals(r->in[i]), din[i] = rig_reals(r->din[i]);
    for (int i = 0; i < r->n_out; i++) out[i] = rig_reals(r->out[i]), dout[i] = rig_reals(r->dout[i]);
    struct lab_call c = r->call;
    c.g = backward ? r->g : NULL;
    switch (r->hook) {
    case LAB_H_EMBED:  backward ? e->embed_bwd(self, &c, dout[0]) : e->embed(self, &c, out[0]); break;
    case LAB_H_QK:     backward ? e->qk_bwd(self, &c, in[0], in[1], dout[0], dout[1], din[0], din[1])
                                : e->qk(self, &c, in[0], in[1], out[0], out[1]); break;
    case LAB_H_BIAS:   backward ? e->bias_bwd(self, &c, dout[0]) : e->bias(self, &c, out[0]); break;
    case LAB_H_LOGITS: backward ? e->logits_bwd(self, &c, in[0], in[1], in[2], dout[0], din[0], din[1], din[2])
                                : e->logits(self, &c, in[0], in[1], in[2], out[0]); break;
    case LAB_H_VALUE:  backward ? e->value_bwd(self, &c, in[0], dout[0], din[0]) : e->value(self, &c, in[0], out[0]); break;
    }
}

/* Zeroes masked entries of an array [B,H,Tq,Tk]. */
static void mask_logits(const struct rig *r, const struct rig_array *a)
{
    const struct rig_shape *s = &r->shape;
    lab_real *x = rig_reals(a);
    for (int b = 0; b < s->B; b++)
        for (int h = 0; h < s->H; h++)
            for (int i = 0; i < s->Tq; i++)
                for (int j = 0; j < s->Tk; j++, x++) if (!rig_visible(r, b, i, j)) *x = 0;
}
void rig_mask(struct rig *r)
{
    if (r->hook == LAB_H_LOGITS) mask_logits(r, r->out[0]);
    if (r->hook == LAB_H_VALUE) mask_logits(r, r->din[0]);
}

void rig_forward(struct rig *r)
{
    for (int i = 0; i < r->n_out; i++) rig_zero(r->out[i]);
    rig_zero(r->scratch), rig_zero(r->save);
    rig_call(r, 0);
    rig_mask(r);
}

void rig_backward(struct rig *r)
{
    for (int i = 0; i < r->n_in; i++) rig_zero(r->din[i]);
    for (int i = 0; i < r->instance->n_param; i++) rig_zero(r->grad[i]);
    rig_zero(r->scratch);
    rig_call(r, 1);
    rig_mask(r);
}

/* ---- filling ---- */

static struct rig_array *map_array(struct rig *r, const char *name, size_t bytes)
{
    if (r->n_array == RIG_ARRAYS) out_of_memory();
    map_memory(&r->array[r->n_array], name, bytes, r->guarded);
    return &r->array[r->n_array++];
}

static size_t elements(const struct rig_shape *s, enum extent extent)
{
    size_t queries = (size_t)s->H * s->Tq;
    switch (extent) {
    case QUERIES:    return s->B * queries * s->dh;
    case KEYS:       return (size_t)s->B * s->H * s->Tk * s->dh;
    case EMBEDDINGS: return s->B * queries * s->dh;
    case BIAS:       return queries * s->Tk;
    case LOGITS:     return s->B * queries * s->Tk;
    }
    return 0;
}

static int last_visible(const struct rig_shape *s, int i) { return s->causal ? i + s->Tk - s->Tq : s->Tk - 1; }

int rig_visible(const struct rig *r, int b, int i, int j)
{
    const struct rig_shape *s = &r->shape;
    if (r->hook == LAB_H_BIAS) return 1;                     /* tiles know no mask */
    return j <= last_visible(s, i) && (!r->key_ok || r->key_ok->at[b * s->Tk + j]);
}

static void fill_normal(struct rig_array *a, struct lab_rng *rng)
{
    for (size_t i = 0; i < rig_count(a); i++) rig_reals(a)[i] = (lab_real)rng_normal(rng);
}

/* What is masked: no weight in att, no gradient in dout of logits. */
static void fill_logits(struct rig *r, struct rig_array *a, int weights, struct lab_rng *rng)
{
    const struct rig_shape *s = &r->shape;
    lab_real *x = rig_reals(a);
    for (int b = 0; b < s->B; b++)
        for (int h = 0; h < s->H; h++)
            for (int i = 0; i < s->Tq; i++)
                for (int j = 0; j < s->Tk; j++) {
                    double value = weights ? (0.1 + lab_rng_unit(rng)) / s->Tk : rng_normal(rng);
                    *x++ = rig_visible(r, b, i, j) ? (lab_real)value : 0;
                }
}

static int compare_int(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

/* n different positions in [lo, hi), in rising order unless shuffled. */
static void draw_positions(int32_t *pos, int n, int lo, int hi, int shuffled, struct lab_rng *rng)
{
    int left = hi - lo, wanted = n;
    for (int p = lo, i = 0; p < hi && wanted > 0; p++, left--)
        if ((int)lab_rng_below(rng, (uint32_t)left) < wanted) pos[i++] = p, wanted--;
    qsort(pos, (size_t)n, sizeof *pos, compare_int);
    for (int i = n - 1; shuffled && i > 0; i--) {
        int j = (int)lab_rng_below(rng, (uint32_t)i + 1);
        int32_t swapped = pos[i];
        pos[i] = pos[j], pos[j] = swapped;
    }
}

/* Keys' positions; queries are the last of them, in self-attention all. */
static void fill_positions(struct rig *r, struct lab_rng *rng)
{
    const struct rig_shape *s = &r->shape;
    int T = s->Tk > s->Tq ? s->Tk : s->Tq, limit = r->instance->dims.max_pos, rows = s->positions == RIG_ROWS ? s->B : 1;
    int far = limit >= 1000 + 4 * T ? 1000 : limit - T, first = limit >= 1000 + 4 * T ? 1000 : 0;
    int end = limit - first < 4 * T ? limit : first + 4 * T;
    int alike = s->Tq == s->Tk;
    int32_t *all = take((size_t)T * sizeof *all);
    r->pos_k = map_array(r, "pos_k", (size_t)rows * s->Tk * sizeof(int32_t));
    r->pos_q = alike ? r->pos_k : map_array(r, "pos_q", (size_t)rows * s->Tq * sizeof(int32_t));
    for (int b = 0; b < rows; b++) {
        if (s->positions == RIG_FROM_ZERO || s->positions == RIG_FROM_FAR)
            for (int t = 0; t < T; t++) all[t] = t + (s->positions == RIG_FROM_FAR ? far : 0);
        else draw_positions(all, T, first, end, s->positions == RIG_UNSORTED, rng);
        memcpy((int32_t *)(void *)r->pos_k->at + b * s->Tk, all + T - s->Tk, (size_t)s->Tk * sizeof *all);
        if (!alike) memcpy((int32_t *)(void *)r->pos_q->at + b * s->Tq, all + T - s->Tq, (size_t)s->Tq * sizeof *all);
    }
    free(all);
}

/* As the engine begins, then moved a little, so that no gradient hides behind a zero. */
static void fill_param(struct rig *r, int i, struct lab_rng *rng)
{
    const struct rig_instance *n = r->instance;
    const struct lab_param *p = &n->param[i];
    lab_real *w = rig_reals(r->param[i]);
    size_t size = param_size(p);
    int layer = p->flags & LAB_P_PER_LAYER && r->call.layer > 0 ? r->call.layer : 0;
    for (size_t k = 0; k < size; k++) {
        double x = p->init == LAB_INIT_CONST ? p->a : p->init == LAB_INIT_NORMAL ? p->a + p->b * rng_normal(rng)
                 : p->init == LAB_INIT_UNIFORM ? p->a + (p->b - p->a) * lab_rng_unit(rng) : 0;
        w[k] = (lab_real)x;
    }
    if (p->init == LAB_INIT_CUSTOM && n->encoder->param_init) n->encoder->param_init(n->self, &n->dims, i, layer, r->seed, w);
    if (p->flags & LAB_P_FROZEN) return;
    for (size_t k = 0; k < size; k++) {
        double step = p->init == LAB_INIT_ZERO || p->init == LAB_INIT_NORMAL ? 0.3 * rng_normal(rng) : 0;
        w[k] += (lab_real)(step + 0.1 * (double)w[k] * (2 * lab_rng_unit(rng) - 1));
    }
}

/* ---- making ---- */

static void host_log(void *ctx, int level, const char *msg) { (void)ctx, (void)level, (void)msg; }
static void host_gemm(void *ctx, int ta, int tb, int m, int n, int k, lab_real alpha, const lab_real *a, int lda, const lab_real *b,
                      int ldb, lab_real beta, lab_real *c, int ldc)
{
    (void)ctx;
    gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
static const struct lab_host host = { .size = sizeof host, .log = host_log, .gemm = host_gemm };

static void make_call(struct rig *r)
{
    const struct rig_shape *s = &r->shape;
    r->call = (struct lab_call){ .size = sizeof r->call, .layer = r->hook == LAB_H_EMBED ? -1 : 1, .B = s->B, .H = s->H, .Tq = s->Tq,
        .Tk = s->Tk, .dh = s->dh, .d = s->H * s->dh, .causal = s->causal, .train = 1, .scale = (lab_real)(1 / sqrt(s->dh)),
        .seed = r->seed, .p = r->p, .host = &host };
}

static void make_tensors(struct rig *r, struct lab_rng *rng)
{
    for (int i = 0; i < 3 && hook_arrays[r->hook].in[i].name; i++, r->n_in++) {
        const struct tensor *t = &hook_arrays[r->hook].in[i];
        size_t bytes = elements(&r->shape, t->extent) * sizeof(lab_real);
        r->in[i] = map_array(r, t->name, bytes), r->din[i] = map_array(r, t->gradient, bytes);
        if (t->extent == LOGITS) fill_logits(r, r->in[i], r->hook == LAB_H_VALUE, rng);
        else fill_normal(r->in[i], rng);
    }
    for (int i = 0; i < 2 && hook_arrays[r->hook].out[i].name; i++, r->n_out++) {
        const struct tensor *t = &hook_arrays[r->hook].out[i];
        size_t bytes = elements(&r->shape, t->extent) * sizeof(lab_real);
        r->out[i] = map_array(r, t->name, bytes), r->dout[i] = map_array(r, t->gradient, bytes);
        if (t->extent == LOGITS) fill_logits(r, r->dout[i], 0, rng);
        else fill_normal(r->dout[i], rng);
    }
}

/* From a stream of their own: rigs of any shape have the same parameters. */
static void make_params(struct rig *r)
{
    struct lab_rng rng = lab_rng_at(r->seed, 0x9a7a, 0, 0);
    for (int i = 0; i < r->instance->n_param; i++) {
        const struct lab_param *p = &r->instance->param[i];
        r->param[i] = map_array(r, p->name, param_size(p) * sizeof(lab_real));
        fill_param(r, i, &rng);
        r->p[i] = rig_reals(r->param[i]);
        if (p->flags & LAB_P_FROZEN) continue;
        r->grad[i] = map_array(r, "a parameter's gradient", param_size(p) * sizeof(lab_real));
        r->g[i] = rig_reals(r->grad[i]);
    }
}

void rig_make(struct rig *r, const struct rig_instance *instance, int hook, const struct rig_shape *shape, int guarded, uint64_t seed)
{
    const struct lab_encoder *e = instance->encoder;
    *r = (struct rig){ .instance = instance, .hook = hook, .guarded = guarded, .seed = seed, .shape = *shape };
    if (hook == LAB_H_BIAS) r->shape.B = 1, r->shape.padded = 0, r->shape.positions -= r->shape.positions == RIG_ROWS;
    if (hook == LAB_H_EMBED || hook == LAB_H_VALUE) r->shape.Tk = hook == LAB_H_EMBED ? r->shape.Tq : r->shape.Tk;
    struct lab_rng rng = lab_rng_at(seed, 0x716, (uint32_t)hook, (uint32_t)r->shape.Tk);
    make_call(r);
    fill_positions(r, &rng);
    r->call.pos_q = (int32_t *)(void *)r->pos_q->at, r->call.pos_k = (int32_t *)(void *)r->pos_k->at;
    if (r->shape.positions == RIG_ROWS) r->call.stride_q = r->shape.Tq, r->call.stride_k = r->shape.Tk;
    if (r->shape.padded) {                                   /* the last keys of each sequence, more of them each time */
        r->key_ok = map_array(r, "key_ok", (size_t)r->shape.B * r->shape.Tk);
        for (int b = 0; b < r->shape.B; b++)
            for (int j = 0; j < r->shape.Tk; j++) r->key_ok->at[b * r->shape.Tk + j] = j == 0 || j < r->shape.Tk - 1 - b;
        r->call.key_ok = (const uint8_t *)r->key_ok->at;
    }
    make_tensors(r, &rng);
    make_params(r);
    r->save = map_array(r, "save", e->save_size ? e->save_size(instance->self, &r->call, hook) : 0);
    r->scratch = map_array(r, "scratch", e->scratch_size ? e->scratch_size(instance->self, &r->call, hook) : 0);
    r->call.save = r->save->at, r->call.scratch = r->scratch->at;
}

void rig_free(struct rig *r)
{
    for (int i = 0; i < r->n_array; i++) unmap_array(&r->array[i]);
    r->n_array = 0;
}

/* ---- parts of a rig ---- */

/* out, of sub's shape, from a tensor of whole's shape: token t of out is token index[t]. */
static void gather(const struct rig_shape *sub, const struct rig_shape *whole, enum extent extent, const int *index, const lab_real *x,
                   lab_real *out)
{
    int rows = extent == BIAS ? sub->H : extent == EMBEDDINGS ? sub->B : sub->B * sub->H;
    int width = extent == EMBEDDINGS ? sub->H * sub->dh : extent == QUERIES || extent == KEYS ? sub->dh : 0;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < sub->Tq; i++) {
            const lab_real *from = x + ((size_t)row * whole->Tq + index[i]) * (width ? width : whole->Tk);
            for (int j = 0; j < (width ? width : sub->Tk); j++) *out++ = from[width ? j : index[j]];
        }
}

void rig_pick(struct rig *sub, const struct rig *whole, const int *index)
{
    const int32_t *from = whole->call.pos_k;
    int32_t *to = (int32_t *)(void *)sub->pos_k->at;
    for (int t = 0; t < sub->shape.Tk; t++) to[t] = from[index[t]];
    for (int i = 0; i < sub->n_in; i++)
        gather(&sub->shape, &whole->shape, hook_arrays[sub->hook].in[i].extent, index, rig_reals(whole->in[i]), rig_reals(sub->in[i]));
}

void rig_pick_out(const struct rig *sub, const struct rig *whole, const int *index, const lab_real *result, lab_real *want)
{
    enum extent extent = sub->hook == LAB_H_QK ? LOGITS : hook_arrays[sub->hook].out[0].extent;
    gather(&sub->shape, &whole->shape, extent, index, result, want);
}

static void take_part(struct rig_array *to, const struct rig_array *from, int b)
{
    memcpy(to->at, from->at + (size_t)b * to->bytes, to->bytes);
}

void rig_take_row(struct rig *one, const struct rig *whole, int b)
{
    if (whole->call.stride_k) take_part(one->pos_k, whole->pos_k, b);
    if (whole->call.stride_q && one->pos_q != one->pos_k) take_part(one->pos_q, whole->pos_q, b);
    if (whole->key_ok) take_part(one->key_ok, whole->key_ok, b);
    for (int i = 0; i < whole->n_in; i++) take_part(one->in[i], whole->in[i], b);
    for (int i = 0; i < whole->n_out; i++) take_part(one->dout[i], whole->dout[i], b);
}

/* ---- looking ---- */

double rig_difference(const lab_real *a, const lab_real *b, size_t n, size_t *worst)
{
    double most = 0, scale = 1;
    *worst = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        if (!isfinite((double)a[i]) || !isfinite((double)b[i])) return *worst = i, -1;
        if (difference > most) most = difference, *worst = i;
        if (fabs((double)a[i]) > scale) scale = fabs((double)a[i]);
    }
    return most / scale;
}

void rig_describe(const struct rig *r, char text[192])
{
    static const char *const positions[] = { "from 0", "far from 0", "with gaps", "not sorted", "of their own in each row" };
    const struct rig_shape *s = &r->shape;
    const char *variant = r->instance->variant;
    snprintf(text, 192, "%s, %s%sB %d, H %d, dh %d, Tq %d, Tk %d, %s%s, positions %s", rig_hook_name[r->hook], variant,
             *variant ? ", " : "", s->B, s->H, s->dh, s->Tq, s->Tk, s->causal ? "causal" : "bidirectional",
             s->padded ? ", padded" : "", positions[s->positions]);
}
