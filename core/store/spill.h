/* spill -- what an attempt told while the database could not be written, kept in a file until it can be.
 *
 * The file says whose it is, then holds the records as they came; the last is RECORD_DONE and says what became of the
 * attempt.  It is there whole or not at all: in the folder spill beside the database or, where that cannot be written
 * either, in a folder of the user's own, $TMPDIR/lab-spill-UID (/tmp without TMPDIR).  Opening a database to write enters
 * what is of it and whose writer is gone; a writer that lives does so itself.
 */
#ifndef LAB_STORE_SPILL_H
#define LAB_STORE_SPILL_H
#include "store/store.h"

enum { SPILL_PATH = 4096 };
struct spill {
    const char *attempt;             /* its UUID */
    int64_t told;                    /* records of it that the database has; it enters the others only after these */
    const struct record *record; size_t n;
    const struct store_end *end;     /* NULL: an evaluation, which joins a done attempt and ends nothing */
};
/* Replaces an earlier one of the same attempt.  path: where it lies. */
int  spill_write(struct store *, const struct spill *, char path[SPILL_PATH], struct lab_err *err);
void spill_remove(const char *path);

/* waiting: those that stay, because they are damaged, or this is an older copy of the database; why: of one of them, and its path. */
struct spill_count { int entered, waiting; char why[512]; };
/* With enter 0 only counts; those of writers that live are not counted. */
int  spill_enter(struct store *, int enter, struct spill_count *, struct lab_err *err);
#endif
