/* aside -- a database on a network file system, changed in a copy on a disk of this machine.
 *
 * SQLite must not write where locks and shared memory cannot be trusted.  The copy is put back as one file by a rename, so
 * that readers see the old database or the new one; a lock beside it keeps two machines from doing so at once.  What
 * stands in the copy when nobody puts it back is lost.
 */
#ifndef LAB_STORE_ASIDE_H
#define LAB_STORE_ASIDE_H
#include "base/whole.h"
#include "store/store.h"

struct aside { char db[WHOLE_PATH], folder[WHOLE_PATH], copy[WHOLE_PATH]; int lock; };

/* Waits for whoever else is at it.  The folder of db must be there, db need not.  copy is what store_open is to open.  On failure nothing is left. */
int  aside_open(struct aside *, const char *db, struct lab_err *err);
/* What the store holds takes the place of the database. */
int  aside_put_back(struct aside *, struct store *, struct lab_err *err);
/* After the store was closed. */
void aside_close(struct aside *);
#endif
