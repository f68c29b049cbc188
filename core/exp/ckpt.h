/* ckpt -- weights on disk, as safetensors under the names of PyTorch's nn.TransformerEncoder.
 *
 * Written whole or not at all: a temporary file, fsync, rename, fsync of the folder.  Reads only
 * files that this program wrote for the same run: any other header is refused.
 */
#ifndef LAB_EXP_CKPT_H
#define LAB_EXP_CKPT_H
#include "base/hash.h"
#include "nn/model.h"

/* config: the run's canonical JSON, kept in the file's metadata under "lab.config". */
int ckpt_write(const char *path, const struct model *, const char *config, char sha256[HASH_HEX], int64_t *bytes, struct lab_err *err);
int ckpt_read(const char *path, struct model *, const char *config, struct lab_err *err);
#endif
