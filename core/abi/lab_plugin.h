/* lab_plugin.h -- the whole contract between lab and a plugin.
 *
 * A plugin is one shared object.  It includes this header (a task also includes
 * lab_task.h) and nothing else of lab's, links against nothing of lab's, and
 * exports one function, lab_plugin_entry, which LAB_PLUGIN below defines.
 *
 *  1. The host owns memory: options, parameters, gradients, saved activations
 *     and scratch arrive as pointers.  A plugin seldom needs malloc, a hook never.
 *  2. A pointer argument is valid until the function returns.  Two arguments
 *     never overlap.
 *  3. Hooks take `const void *self`: any number of threads may run hooks of one
 *     instance at once.  init and fini have the instance to themselves.
 *  4. Outputs and gradients are added to (+=), except q_out and k_out: written.
 *  5. Arrays are dense, row-major, 64-byte aligned; in [B,H,T,dh] dh is fastest.
 *  6. Positions are data.  They need not start at 0, be consecutive, or be sorted.
 *  7. The same source builds with lab_real = float and, under -DLAB_REAL_DOUBLE,
 *     with lab_real = double: the host checks gradients in double.
 *
 * Compatibility.  Structs that cross the boundary carry their size and grow only
 * at the end; a plugin loads when its major equals the host's, its minor is not
 * above the host's, and the sizes it was built with are not above the host's.
 */
#ifndef LAB_PLUGIN_H
#define LAB_PLUGIN_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef LAB_REAL_DOUBLE
typedef double lab_real;
#else
typedef float lab_real;
#endif

#define LAB_MAGIC     0x4c414231u    /* "LAB1" */
#define LAB_ABI_MAJOR 1u             /* host and plugin must agree */
#ifndef LAB_ABI_MINOR                /* a plugin asks for the lowest it needs: compiling */
#define LAB_ABI_MINOR 1u             /* against a newer header must not lose older hosts */
#endif

/* ---- errors: one line that says what was found, what was expected, what to change ---- */

struct lab_err { char msg[1024]; };

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline int lab_fail(struct lab_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return -1;
}

/* ---- randomness: a pure function of its arguments, so that nothing has to be
 * remembered, passed on or restored.  Philox4x32-10 (Salmon et al. 2011,
 * "Parallel random numbers: as easy as 1, 2, 3"), four words for each counter. ---- */

static inline void lab_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

struct lab_rng {                     /* a stream; a copy of it repeats the same numbers */
    uint32_t key[2], counter[4], word[4];
    int32_t  used;                   /* of word[]; 4 = draw the next block */
};

/* The stream of (seed, a, b, c): four numbers that name what is drawn, e.g. split, index, length. */
static inline struct lab_rng lab_rng_at(uint64_t seed, uint32_t a, uint32_t b, uint32_t c)
{
    struct lab_rng r = { { (uint32_t)seed, (uint32_t)(seed >> 32) }, { 0, c, b, a }, { 0 }, 4 };
    return r;
}
static inline uint32_t lab_rng_u32(struct lab_rng *r)
{
    if (r->used == 4) {
        lab_philox(r->counter, r->key, r->word);
        r->counter[0]++;
        r->used = 0;
    }
    return r->word[r->used++];
}
/* Uniform on 0..n-1, exactly (Lemire 2019: multiply, reject the short interval). */
static inline uint32_t lab_rng_below(struct lab_rng *r, uint32_t n)
{
    uint64_t m = (uint64_t)lab_rng_u32(r) * n;
    if ((uint32_t)m < n) {
        uint32_t threshold = (0u - n) % n;
        while ((uint32_t)m < threshold) m = (uint64_t)lab_rng_u32(r) * n;
    }
    return (uint32_t)(m >> 32);
}
/* Uniform on [0, 1), 32 bits. */
static inline double lab_rng_unit(struct lab_rng *r) { return lab_rng_u32(r) * 0x1p-32; }

/* ---- options: declared by the plugin, parsed and range-checked by the host ---- */

enum lab_opt_type { LAB_T_INT, LAB_T_REAL, LAB_T_BOOL, LAB_T_ENUM, LAB_T_STR };

struct lab_option {
    const char *name;                /* INI key: [a-z0-9_]+; NULL ends the table */
    int32_t     type;                /* in *self: int32_t, double, int32_t 0/1, int32_t index, const char * */
    uint32_t    off;                 /* where in *self the host stores the value */
    const char *def;                 /* as written in an INI file; NULL = must be given */
    double      lo, hi;              /* inclusive; INT and REAL */
    const char *choices;             /* ENUM: "a|b|c" */
    const char *help;                /* one line for `lab info NAME` */
};                                   /* LAB_OFF complains at compile time if f is not a T */
#define LAB_OFF(S, f, T) ((uint32_t)(offsetof(S, f) + 0 * sizeof((T *)0 == &((S *)0)->f)))
#define LAB_INT(S, f, def, lo, hi, help)   {#f, LAB_T_INT,  LAB_OFF(S, f, int32_t), def, lo, hi, NULL, help}
#define LAB_REAL(S, f, def, lo, hi, help)  {#f, LAB_T_REAL, LAB_OFF(S, f, double),  def, lo, hi, NULL, help}
#define LAB_BOOL(S, f, def, help)          {#f, LAB_T_BOOL, LAB_OFF(S, f, int32_t), def, 0, 1, NULL, help}
#define LAB_ENUM(S, f, def, choices, help) {#f, LAB_T_ENUM, LAB_OFF(S, f, int32_t), def, 0, 0, choices, help}
#define LAB_STR(S, f, def, help)           {#f, LAB_T_STR,  LAB_OFF(S, f, const char *), def, 0, 0, NULL, help}
#define LAB_OPTIONS_END                    {NULL, 0, 0, NULL, 0, 0, NULL, NULL}

/* ---- the run, known before anything is allocated ---- */

struct lab_dims {
    uint32_t size;                   /* sizeof as the host sees it */
    int32_t  n_layer, n_head, d_model, d_head;
    int32_t  train_len;              /* longest sequence in training, in positions */
    int32_t  max_len;                /* longest anywhere in the run; for limits and tables, never for the */
    int32_t  max_pos;                /* shape of a parameter: more evaluation must not change a model */
    int32_t  causal;                 /* every position id is in [0, max_pos) */
};

/* ---- parameters: the plugin describes them, the host allocates and owns them ---- */

enum lab_init  { LAB_INIT_ZERO, LAB_INIT_CONST, LAB_INIT_NORMAL, LAB_INIT_UNIFORM, LAB_INIT_CUSTOM };
enum lab_pflag { LAB_P_PER_LAYER = 1,          /* one copy a layer; otherwise all layers share one */
                 LAB_P_FROZEN = 2,             /* never trained: no gradient is asked for */
                 LAB_P_NO_DECAY = 4 };         /* no weight decay */

struct lab_param {
    const char *name;                /* [a-z0-9_]+, unique in the encoder; valid until fini */
    int32_t     ndim, dim[4];
    int32_t     init;                /* enum lab_init */
    double      a, b;                /* CONST a; NORMAL mean a, sd b; UNIFORM [a, b] */
    uint32_t    flags;               /* enum lab_pflag */
};

/* ---- one hook call ---- */

struct lab_host {                    /* what a hook may ask of the host; thread-safe */
    uint32_t size;
    void    *ctx;
    void   (*log)(void *ctx, int level, const char *msg);
    void   (*gemm)(void *ctx, int ta, int tb, int m, int n, int k, lab_real alpha, const lab_real *a, int lda,
                   const lab_real *b, int ldb, lab_real beta, lab_real *c, int ldc);  /* row-major */
};

struct lab_call {
    uint32_t size;
    int32_t  layer;                  /* -1 in embed */
    int32_t  B, H, Tq, Tk, dh, d;    /* of this call; bias: any tile of queries x keys */
    int32_t  causal, train;          /* causal: query i sees key j iff j <= i + Tk - Tq (not for bias tiles) */
    const int32_t *pos_q, *pos_k;    /* [B,Tq], [B,Tk] */
    int32_t  stride_q, stride_k;     /* elements between batch rows; 0 = one row shared by all */
    const uint8_t *key_ok;           /* [B,Tk], 0 = padding; NULL = no padding */
    lab_real scale;                  /* 1/sqrt(dh); s below is already scaled */
    uint64_t seed;                   /* equal in forward and its backward; the only randomness */
    const lab_real *const *p;        /* parameter i of this layer at p[i] */
    lab_real *const *g;              /* its gradient; g[i] NULL if frozen; g NULL in forward */
    void    *save, *scratch;         /* save: kept from the forward to its backward, which the host may precede with the
                                        same forward once more; scratch: garbage */
    const struct lab_host *host;
};

/* ---- encoder.  Attention logits are  s + bias + logits(),  s = scale * q_out . k_out ----
 *
 *   embed   adds a vector to each token's embedding.  It may depend on positions only:
 *           the host calls it with B = 1 when all sequences share their positions.
 *   qk      transforms queries and keys (never values).
 *   bias    adds to the logits what depends on positions alone.  B is 1; the host may
 *           ask for any rectangle of the logits, in any order, and reuse the answer.
 *   logits  adds to the logits what depends on content.
 *   value   adds to the attention output, e.g. Shaw's relative values.
 * NULL = not used.  A forward hook with a NULL backward is refused.
 */

enum lab_hook  { LAB_H_EMBED, LAB_H_QK, LAB_H_BIAS, LAB_H_LOGITS, LAB_H_VALUE };
enum lab_eflag { LAB_E_SHIFT_INVARIANT = 1,    /* only differences of positions matter: checked */
                 LAB_E_LAYER_INVARIANT = 2,    /* bias is equal in every layer: host may reuse it */
                 LAB_E_CAUSAL_ONLY = 4 };      /* the host refuses a bidirectional model */

struct lab_encoder {
    uint32_t size, flags;
    const char *name, *summary, *cite;
    size_t   self_size;              /* the host allocates it zeroed and stores options in it */
    const struct lab_option *options;
    /* 0, or lab_fail(): a limit of the encoder, with the numbers and the key to change.  May be NULL. */
    int    (*init)(void *self, const struct lab_dims *, struct lab_err *);
    void   (*fini)(void *self);      /* only after an init that returned 0; may be NULL */
    /* Parameter i into *out: 1 filled, 0 there is no such i.  May be NULL: no parameters. */
    int    (*param)(const void *self, const struct lab_dims *, int i, struct lab_param *out);
    /* LAB_INIT_CUSTOM: write w.  layer is 0 for a shared parameter. */
    void   (*param_init)(const void *self, const struct lab_dims *, int i, int layer, uint64_t seed, lab_real *w);
    size_t (*save_size)(const void *self, const struct lab_call *, int hook);      /* bytes; NULL: 0 */
    size_t (*scratch_size)(const void *self, const struct lab_call *, int hook);   /* bytes; NULL: 0 */
    void (*embed)     (const void *self, const struct lab_call *, lab_real *x);            /* x [B,Tq,d] */
    void (*embed_bwd) (const void *self, const struct lab_call *, const lab_real *dx);
    void (*qk)        (const void *self, const struct lab_call *, const lab_real *q, const lab_real *k,
                       lab_real *q_out, lab_real *k_out);                                 /* [B,H,T,dh] */
    void (*qk_bwd)    (const void *self, const struct lab_call *, const lab_real *q, const lab_real *k,
                       const lab_real *dq_out, const lab_real *dk_out, lab_real *dq, lab_real *dk);
    void (*bias)      (const void *self, const struct lab_call *, lab_real *b);           /* [H,Tq,Tk] */
    void (*bias_bwd)  (const void *self, const struct lab_call *, const lab_real *db);
    void (*logits)    (const void *self, const struct lab_call *, const lab_real *q, const lab_real *k,
                       const lab_real *s, lab_real *out);                                 /* [B,H,Tq,Tk] */
    void (*logits_bwd)(const void *self, const struct lab_call *, const lab_real *q, const lab_real *k,
                       const lab_real *s, const lab_real *dout, lab_real *dq, lab_real *dk, lab_real *ds);
    void (*value)     (const void *self, const struct lab_call *, const lab_real *att,
                       lab_real *out);                      /* att [B,H,Tq,Tk]; out [B,H,Tq,dh] */
    void (*value_bwd) (const void *self, const struct lab_call *, const lab_real *att,
                       const lab_real *dout, lab_real *datt);
};

/* ---- entry ---- */

struct lab_task;                     /* lab_task.h: the second vtable, same style */
struct lab_plugin {
    uint32_t magic, size, abi_major, abi_minor, real_size;
    const char *name, *version, *license;
    const struct lab_encoder *const *encoders;    /* NULL-terminated, or NULL */
    const struct lab_task    *const *tasks;       /* NULL-terminated, or NULL */
};
#ifdef LAB_STATIC                    /* linked into lab or into a test: a name of its own */
#define LAB_ENTRY_(id) lab_plugin_entry_##id
#define LAB_EXPORT
#else
#define LAB_ENTRY_(id) lab_plugin_entry
#define LAB_EXPORT __attribute__((visibility("default")))
#endif
#define LAB_PLUGIN(id, ...) \
    LAB_EXPORT const struct lab_plugin *LAB_ENTRY_(id)(void); \
    const struct lab_plugin *LAB_ENTRY_(id)(void) { \
        static const struct lab_plugin p_ = { .magic = LAB_MAGIC, .size = sizeof p_, \
            .abi_major = LAB_ABI_MAJOR, .abi_minor = LAB_ABI_MINOR, \
            .real_size = sizeof(lab_real), .name = #id, __VA_ARGS__ }; \
        return &p_; } \
    struct lab_plugin /* the caller writes the semicolon */
#endif
