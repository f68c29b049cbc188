/* attn -- multi-head attention with the encoder's hooks, forward and backward.
 *
 * The fused path (embed, qk and bias hooks) works on tiles of 64 x 64 logits.  Sequences of one tile keep
 * their exponentials and sums for the backward pass; longer ones only the logarithm of each row's sum, from which the
 * weights are computed again, so memory grows with T.  Encoders with a logits or value hook take the general
 * path, which holds all logits of a few sequences, grows with T*T and computes everything again.
 */
#ifndef LAB_NN_ATTN_H
#define LAB_NN_ATTN_H
#include "base/mem.h"
#include "nn/kern.h"
#include "nn/model.h"

enum { ATTN_PARAMS = 16 };           /* parameters of an encoder, at most */

/* Dropout's places in the model: the embedding, then three to a layer: 0 attention weights, 1 attention's output, 2 feed-forward's. */
enum { ATTN_PLACE_EMBED = 0 };
static inline uint32_t attn_place(int layer, int site) { return 1 + 3 * (uint32_t)layer + (uint32_t)site; }

struct attn {
    const struct kern *kern;
    const struct lab_encoder *encoder;
    const void *self;
    int32_t H, dh, d, causal, layers;
    uint64_t seed;
    double dropout;
    int trained;                     /* some parameter of the encoder has a gradient */
    const lab_real *(*param)[ATTN_PARAMS];       /* [layers] */
    lab_real *(*grad)[ATTN_PARAMS];              /* [layers], NULL where frozen */
    /* workspace, for a few sequences at a time */
    lab_real *q, *k, *q_out, *k_out, *dq, *dk, *dq_out, *dk_out;     /* [chunk,H,T,dh] */
    lab_real scale;                              /* 1/sqrt(dh) */
    lab_real *bias, *dbias;                      /* [H, tile, tile] as the hook sees it */
    lab_real *bias_t, *dbias_t;                  /* [sets, H, tile, tile] transposed; one set serves all layers where they agree */
    unsigned char *bias_ready;                   /* [sets] computed since attn_begin, and good for all sequences */
    int32_t longest;                             /* tokens of a sequence of the step's batch; a chunk of it may be shorter */
    lab_real *max, *sum, *acc;                   /* running softmax of a row of tiles: [chunk,H,tile(,dh)] */
    lab_real *s, *logits, *att, *datt, *o;       /* general path: [chunk,H,T,T]; o [chunk,H,T,dh] */
    lab_real *v, *dv, *dlogits;                  /* general path */
    lab_real *packed;                            /* general path: keys or values for the kernels' own product; NULL: OpenBLAS */
    lab_real *tile;                              /* the kernels' scratch */
    int32_t decodes;                             /* attn_decode will follow forwards without training */
    lab_real *turned; size_t turned_layer;       /* [layers] keys after the qk hook, [B,H,T,dh], and elements of one; none without the hook */
    lab_real *row[6];                            /* of one query: see attn_decode */
    void *hook_save[5], *hook_scratch;           /* save by enum lab_hook: each lives until that hook's backward */
};

/* Takes the workspace from the arena for every batch with B <= batch, B*T <= tokens and T <= longest. */
void attn_plan(struct attn *, struct arena *, int batch, int tokens, int longest, int train);

/* Elements that the forward of one layer keeps for its backward, over the same batches. */
size_t attn_kept(const struct attn *, int batch, int tokens, int longest);

/* Before the first forward of a step (or of an evaluation batch) with T tokens: weights and positions may have changed. */
void attn_begin(struct attn *, int T);
/* After the last backward of a step: hands on the gradient of biases that were shared by its sequences.  batch: the whole step's. */
void attn_end(struct attn *, const struct model_batch *batch, uint32_t step);

/* out [B,T,d] from qkv [B,T,3d] (queries, keys, values; biases added).  kept: attn_kept elements for the backward; NULL: none follows. */
void attn_fwd(struct attn *, lab_real *out, lab_real *kept, const lab_real *qkv, const struct model_batch *, int layer, int train, uint32_t step);
/* dqkv [B,T,3d] overwritten; the encoder's gradients are added to. */
void attn_bwd(struct attn *, lab_real *dqkv, const lab_real *dout, const lab_real *out, const lab_real *kept, const lab_real *qkv,
              const struct model_batch *, int layer, uint32_t step);

/* For who looks on, after attn_fwd without dropout: weights [B,H,T,T], what each query gives to each key.  They are read off the
 * outputs for values that are unit vectors, so they are those of the path that trains, whichever it is.
 * The values in qkv are lost; out [B,T,d] is scratch. */
void attn_weights(struct attn *, lab_real *weights, lab_real *out, lab_real *qkv, const struct model_batch *, int layer);

/* One query of one sequence at place t, over the keys up to it; out [d].  qkv [B,T,3d]: row t is new, `old` [3d] what stood there when
 * attn_fwd saw the batch; rows before t are as attn_fwd or attn_decode left them. */
void attn_decode(struct attn *, lab_real *out, const lab_real *old, const lab_real *qkv, const struct model_batch *, int layer, int sequence, int t);

/* A call as a hook (enum lab_hook) sees it, for `count` sequences from `first`; embed's layer is -1. */
struct lab_call attn_call(const struct attn *, const struct model_batch *, int hook, int first, int count, int layer, int train, uint32_t step);
#endif
