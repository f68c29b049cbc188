/* scratch -- a new folder of one's own on a disk of this machine, for what nobody keeps.
 *
 * In $SLURM_TMPDIR, which a cluster gives to a job, else $TMPDIR, else /tmp.  Whoever made it removes it: a killed program
 * leaves it behind.
 */
#ifndef LAB_BASE_SCRATCH_H
#define LAB_BASE_SCRATCH_H
#include "base/whole.h"

/* lab-NAME-XXXXXX.  On failure folder is "". */
int  scratch_make(char folder[WHOLE_PATH], const char *name, struct lab_err *err);
/* With all that is in it; "" is none.  What cannot be removed stays. */
void scratch_remove(const char *folder);
#endif
