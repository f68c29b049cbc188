/* shelf -- where the checkpoints of a run lie, and which there are.
 *
 * One machine: two files beside the database, KEY.DATABASE.a and .b, that attempts take over from each other.  Many machines
 * (shared): KEY/ATTEMPT.a and .b, so that no two attempts ever write one file, whoever else is thought dead;
 * an attempt goes on from a copy of another's.
 */
#ifndef LAB_RUN_SHELF_H
#define LAB_RUN_SHELF_H
#include "base/str.h"
#include "exp/ckpt.h"

struct shelf { const char *folder; int shared; const char *database; };      /* its UUID: those of one folder keep theirs apart */

/* The base of an attempt's own checkpoints. */
void shelf_base(struct str *out, const struct shelf *, const char *key, const char *attempt);
/* Room for the attempt's; and every checkpoint there is of the run. */
void shelf_make(const struct shelf *, const char *key);
int  shelf_each(const struct shelf *, const char *key, int (*take)(void *ctx, const char *path), void *ctx);   /* what take says, if not 0 */
/* The slot under base that now holds this checkpoint: its own, or a copy. -1 with err. */
int  shelf_slot(const char *base, const char *path, struct lab_err *err);
void shelf_remove(const struct shelf *, const char *key);
#endif
