/* ckpt -- a run on disk: its final weights, and checkpoints from which training goes on bit for bit.
 *
 * Weights are safetensors under the names of PyTorch's nn.TransformerEncoder; a checkpoint is lab's own.
 * Both are written whole or not at all: a temporary file, fsync, rename, fsync of the folder.  Reads only
 * files that this program wrote for the same run: any other header, size or checksum is refused.
 */
#ifndef LAB_EXP_CKPT_H
#define LAB_EXP_CKPT_H
#include "base/hash.h"
#include "nn/model.h"

/* ---- final weights ---- */

/* config: the run's canonical JSON, kept in the file's metadata under "lab.config". */
int ckpt_write(const char *path, const struct model *, const char *config, char sha256[HASH_HEX], int64_t *bytes, struct lab_err *err);
int ckpt_read(const char *path, struct model *, const char *config, struct lab_err *err);

/* ---- checkpoints ---- */

enum { CKPT_SLOTS = 2,               /* the last two are kept: BASE.a and BASE.b, written in turn */
       CKPT_NAME = 37 };             /* of an attempt: a UUID and NUL */
struct ckpt_mark {                   /* where a run stands, beside its weights and Adam's moments */
    char attempt[CKPT_NAME];         /* the attempt that wrote it */
    int64_t step;                    /* steps done; everything due after them has been told */
    int64_t in_window;               /* losses in window, since the last point of the curve */
    double window;                   /* their sum */
    int64_t best_step;               /* whose weights are put aside (model_keep), 0 = none yet ... */
    double best;                     /* ... and their accuracy */
    char result[HASH_HEX];           /* hash of everything told so far */
};
/* key: of the run. */
int ckpt_save(const char *path, const struct model *, const char *key, const struct ckpt_mark *, struct lab_err *err);
/* Where a checkpoint stands, once its checksum is right.  0; 1 there is no such file; -1 it is damaged, or of another run. */
int ckpt_check(const char *path, const char *key, struct ckpt_mark *, struct lab_err *err);
/* After the same check, and only then, fills the model's weights and moments. */
int ckpt_load(const char *path, struct model *, const char *key, struct ckpt_mark *, struct lab_err *err);
/* Removes all of a run's checkpoints, also half-written ones. */
void ckpt_remove(const char *base);
/* BASE.a or BASE.b; -1: too long. */
enum { CKPT_PATH = 4096 };
int ckpt_path(char path[CKPT_PATH], const char *base, int slot, struct lab_err *err);
#endif
