/* model -- the Transformer that every run trains: weights, forward, backward.
 *
 * An encoder stack (bidirectional or causal) over token embeddings, a positional
 * encoder behind lab_plugin.h, and a linear head; shapes and weight layouts are those
 * of PyTorch's nn.TransformerEncoder.  All memory is one arena, taken in model_init:
 * forward and backward allocate nothing.  Knows no INI, no files, no database.
 *
 * B sequences, T positions, N = B*T tokens, d = d_model, H heads of size dh = d/H, V targets.
 */
#ifndef LAB_NN_MODEL_H
#define LAB_NN_MODEL_H
#include "abi/lab_plugin.h"
#include "base/mem.h"

enum { MODEL_POST_NORM, MODEL_PRE_NORM };
enum { MODEL_LAYERNORM, MODEL_RMSNORM };
enum { MODEL_RELU, MODEL_GELU, MODEL_SWIGLU };
enum { MODEL_SCALE_SQRT, MODEL_SCALE_ONE };

struct model_options {
    int32_t d_model, heads, layers, d_ff;
    int32_t norm;                    /* MODEL_POST_NORM or MODEL_PRE_NORM (then one more norm after the last layer) */
    int32_t norm_type;               /* MODEL_LAYERNORM (eps 1e-5) or MODEL_RMSNORM (eps 1e-5, no bias) */
    int32_t activation;              /* relu, gelu (erf), swiglu (linear1 holds gate and value: 2*d_ff rows) */
    int32_t causal;
    int32_t tied;                    /* the head's weight is the embedding's (no head bias then) */
    double  dropout;                 /* on the embeddings, the attention weights and both residual branches */
    int32_t embed_scale;             /* token embedding times sqrt(d) or 1, before positions are added */
    double  embed_std;               /* standard deviation of its start; 0 stands for d^-1/2 */
};

struct model_setup {                 /* what a model is made for */
    struct model_options options;
    int32_t vocab_in, vocab_out;
    const struct lab_encoder *encoder;
    const void *encoder_self;        /* options set, init done */
    struct lab_dims dims;            /* as init saw them */
    int32_t train_batch, train_len;  /* largest training batch; 0 = inference only: no gradients, no moments */
    int32_t infer_tokens, infer_len; /* an inference batch has B*T <= infer_tokens and T <= infer_len */
    int32_t keeps_best;              /* room for a second set of weights: model_keep */
    int32_t decodes;                 /* a causal model's forward without training keeps what model_decode goes on from */
    uint64_t seed;                   /* of the initial weights and dropout */
};

struct model_param {
    char name[96];                   /* layers.0.self_attn.in_proj_weight, embedding.weight, encoder.table ... */
    int32_t ndim, dim[4];
    size_t size;                     /* elements */
    lab_real *value, *grad;          /* grad NULL if frozen or inference only */
    lab_real *m, *v;                 /* Adam's moments, likewise */
    lab_real *best;                  /* the value that model_keep put aside; NULL if frozen, or without keeps_best */
    int32_t decay;                   /* weight decay applies */
    int32_t encoder_index;           /* the encoder's parameter i, -1: the host's own */
};

struct model_batch {
    int32_t B, T;
    const int32_t *token;            /* [B,T] */
    const int32_t *target;           /* [B,T], -1 = not scored */
    const float   *weight;           /* [B,T] weight in the loss; NULL = 1 */
    const int32_t *pos;              /* [B,T] with rows pos_stride apart; 0 = all share one row */
    int32_t pos_stride;
    const uint8_t *key_ok;           /* [B,T], 0 = padding; NULL = none */
    int32_t first;                   /* index of the first sequence in the step's whole batch: what is dropped depends on it */
};

struct model_state;                  /* workspace: model.c's own */
struct kern;                         /* nn/kern.h */
struct model {
    struct model_setup setup;
    struct model_param *param;
    int32_t n_param;
    size_t  trained;                 /* scalars that training changes (tied counted once) */
    size_t  frozen;
    lab_real *logits;                /* [B,T,V] of the last forward */
    lab_real *hidden;                /* [B,T,d] what the head reads, of the last forward */
    lab_real *attention;             /* NULL, or where inference leaves the attention weights of all layers: [L,B,H,T,T] of the caller */
    const struct kern *kern;         /* for this CPU */
    struct model_state *state;
    struct arena arena;
};

/* Plans, allocates and initialises.  On failure nothing is left to release. */
int  model_init(struct model *, const struct model_setup *, struct lab_err *err);
void model_release(struct model *);

/* Scalars that training changes, from the setup alone (nothing is allocated to speak of). */
int  model_count(const struct model_setup *, size_t *trained, struct lab_err *err);

/* Puts all weights aside, and takes them back; with keeps_best. */
void model_keep(struct model *);
void model_take(struct model *);

/* Fills logits.  train: dropout on and activations kept for model_backward (at most model_chunk sequences); step keys the dropout. */
void model_forward(struct model *, const struct model_batch *, int train, uint32_t step);
/* Mean cross-entropy over scored positions of the last forward, nat/token (weighted by batch->weight). */
double model_loss(struct model *, const struct model_batch *);
/* After a forward without training of a model that `decodes`: place t of these sequences once more, because the token there is
 * another.  Places are taken in ascending order; what stands before t is as model_forward or model_decode last saw it.  Keys
 * and values before t are not computed again.  Fills the logits of place t. */
void model_decode(struct model *, const struct model_batch *, const int32_t *sequence, int n, int t);
/* After a training forward: fills every grad (overwriting) and returns the loss as model_loss would.  Uses up the logits. */
double model_backward(struct model *, const struct model_batch *);

/* Sequences of length T whose activations the model keeps at once in training: a few hundred tokens stay in the cache. */
int model_chunk(const struct model *, int T);
/* The gradient and the loss of a whole training batch, by chunks: what a training step calls before optim_step.  After the last
 * attention it goes on with the tokens that have a target; what logits and hidden hold then is nobody's business. */
double model_step(struct model *, const struct model_batch *, uint32_t step);
#endif
