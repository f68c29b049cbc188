/* lab_task.h -- a task makes examples.
 *
 * Example n of a split is a pure function of (options, seed, split, n, len): no
 * generator state, so any process can make any example, runs resume exactly, and
 * two encoders see the same data.  Draw with lab_rng_at(seed, split, n, len).
 */
#ifndef LAB_TASK_H
#define LAB_TASK_H
#include "lab_plugin.h"

enum lab_split { LAB_TRAIN, LAB_VALID, LAB_TEST,
                 LAB_REORDER };               /* with LAB_TASK_REORDERS alone */
enum lab_tflag { LAB_TASK_EXCHANGEABLE = 1,   /* every order of the input tokens is equally likely, and solve() is given:
                                                 the host can compute the best score of an order-blind model */
                 LAB_TASK_CAUSAL = 2,         /* made for a causal model: target[t] is the token after in[t] */
                 LAB_TASK_POSITIONS = 4,      /* sample() writes pos: position ids that depend on the tokens */
                 LAB_TASK_REORDERS = 8 };     /* sample() with split LAB_REORDER replaces the example that is there by one of the same
                                                 tokens in another order, each as likely as sample() draws it among these: the
                                                 host can compute the same score where not every order is an example */

struct lab_task_info {              /* filled by the task once its options are set; size is the host's */
    uint32_t size;
    int32_t  vocab_in, vocab_out;   /* token ids in [0,vocab_in), targets in [0,vocab_out) */
    int32_t  min_len, max_len;      /* lengths that `sample` accepts */
    int32_t  max_slice;             /* slice ids in [0,max_slice) */
    int32_t  version;               /* raise it whenever an example or a score would change */
    double   chance;                /* token accuracy of guessing, drawn in reports */
    int32_t  max_pos;               /* LAB_TASK_POSITIONS: ids are in [0,max_pos) at every length; 0: below the tape's end */
};
struct lab_example {                /* host buffers of tape(len) elements each */
    int32_t *in;                    /* token ids */
    int32_t *target;                /* -1: neither trained on nor scored */
    float   *weight;                /* of the position in the loss; preset to 1 */
    int32_t *pos;                   /* preset to 0..tape-1; see LAB_TASK_POSITIONS */
    int32_t  prompt;                /* free-running evaluation: tokens given before the model continues alone; 0: none */
    int32_t  slice;                 /* what to group by in results: distance, number of pairs, ... */
    uint8_t *counted;               /* preset to 1; 0: trained on, but left out of every accuracy */
};
struct lab_task {
    uint32_t size, flags;
    const char *name, *summary, *cite;
    size_t   self_size;
    const struct lab_option *options;
    int  (*init)(void *self, struct lab_task_info *, struct lab_err *);
    void (*fini)(void *self);                                       /* only after an init that returned 0; may be NULL */
    int  (*tape)(const void *self, int len);                        /* tokens in an example of this length; NULL: len */
    int  (*sample)(const void *self, uint64_t seed, int split, int64_t n, int len,
                   struct lab_example *, struct lab_err *);         /* 0 or lab_fail() */
    int  (*solve)(const void *self, int len, struct lab_example *); /* fill target from in, 0 or -1; NULL: not offered */
    int  (*score)(const void *self, int len, const struct lab_example *, const int32_t *guess); /* 1 = right; NULL: all counted targets right */
};
#endif
