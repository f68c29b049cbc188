/* rig -- an encoder on the test bench: one instance, and any of its hooks with arrays that belong to it alone.
 *
 * Every array is a mapping of its own.  In a roomy rig there are zeros around it, so that a hook that strays still gives
 * the same answer each time; in a guarded rig the array ends (rounded up to 64 bytes) where memory ends.  Nothing is
 * shared between two rigs but the instance.  Memory that runs out ends the process: each check has one of its own.
 */
#ifndef LAB_ANSWER_RIG_H
#define LAB_ANSWER_RIG_H
#include "abi/lab_plugin.h"
#include "base/str.h"

enum { RIG_PARAMS = 16,              /* of an encoder, as in the engine */
       RIG_ARRAYS = 64, RIG_HOOKS = LAB_H_VALUE + 1 };

/* ---- instances ---- */

/* A choice of options: 0 the defaults, then each other word of an ENUM and the other value of a BOOL, one at a time. */
int  rig_variants(const struct lab_option *options);
/* Stores it in *self; words of it for messages, "" for the defaults, go to text. */
void rig_set_variant(const struct lab_option *options, void *self, int variant, char text[96]);

struct rig_array { const char *name; char *map, *at; size_t map_bytes, bytes, room; };     /* room: after the end, below 64 */
struct rig_instance {
    const struct lab_encoder *encoder;
    struct rig_array block;          /* where self lies */
    void *self;
    char variant[96];
    struct lab_dims dims;
    int n_param;
    struct lab_param param[RIG_PARAMS];
};
/* Options set, init done with dims that are as far-reaching as init accepts (train_len 0: that far too).
 * -1: it refuses any, *err says why. */
int  rig_open(struct rig_instance *, const struct lab_encoder *, int variant, struct lab_dims dims, struct lab_err *err);
void rig_close(struct rig_instance *);

/* ---- rigs ---- */

enum rig_positions { RIG_FROM_ZERO, RIG_FROM_FAR, RIG_GAPS, RIG_UNSORTED, RIG_ROWS /* gaps, other ones in each row */ };
struct rig_shape { int B, H, dh, Tq, Tk, causal, padded; enum rig_positions positions; };

struct rig {
    const struct rig_instance *instance;
    int hook, n_in, n_out, n_array, guarded;
    uint64_t seed;
    struct rig_shape shape;
    struct lab_call call;
    struct rig_array array[RIG_ARRAYS];          /* all of them, the named ones below among them */
    /* what the hook reads, what it makes; and the gradient of each: lab_real, n_in and n_out of them */
    struct rig_array *in[3], *out[2], *din[3], *dout[2], *param[RIG_PARAMS], *grad[RIG_PARAMS];
    struct rig_array *pos_q, *pos_k, *key_ok, *save, *scratch;
    const lab_real *p[RIG_PARAMS];
    lab_real *g[RIG_PARAMS];
};

extern const char *const rig_hook_name[RIG_HOOKS];
int  rig_has(const struct lab_encoder *, int hook);
/* Arrays filled with random numbers and positions of that shape, everything from the seed. */
void rig_make(struct rig *, const struct rig_instance *, int hook, const struct rig_shape *, int guarded, uint64_t seed);
void rig_free(struct rig *);
void rig_forward(struct rig *);      /* zeroes outputs and scratch, then calls */
void rig_backward(struct rig *);     /* zeroes din, gradients and scratch, then calls; needs a forward before it */
void rig_call(struct rig *, int backward);       /* calls with all as it is */
void rig_mask(struct rig *);         /* zeroes what nobody reads: masked logits, masked gradients of weights.  Done by the two above */
void rig_zero(const struct rig_array *);
/* sub is whole with the tokens index[0..sub.Tq): inputs and positions are copied; from the whole's result (of qk: the
 * products of q_out and k_out) *want becomes what the sub's must be. */
void rig_pick(struct rig *sub, const struct rig *whole, const int *index);
void rig_pick_out(const struct rig *sub, const struct rig *whole, const int *index, const lab_real *result, lab_real *want);
/* The row b of whole, alone. */
void rig_take_row(struct rig *one, const struct rig *whole, int b);

size_t rig_count(const struct rig_array *);      /* of lab_real */
lab_real *rig_reals(const struct rig_array *);
int  rig_visible(const struct rig *, int b, int i, int j);   /* may query i of sequence b see key j? */
/* Largest |a - b| over n numbers as a part of the largest |a| (at least 1); -1 where either is not finite. */
double rig_difference(const lab_real *a, const lab_real *b, size_t n, size_t *worst);
void rig_describe(const struct rig *, char text[192]);
/* "4 bytes after the end of q"; "" if the address is near no array of this process. */
void rig_where(const void *address, char text[128]);
#endif
