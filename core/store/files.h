/* files -- what lies in the folders weights, logs and checkpoints beside a database, and who still needs it.
 *
 * Databases of one folder share these, so all of them are asked.  Only names that lab itself gives are looked at:
 * sixteen digits of a run's key (of a log also of a task's), and a suffix.  Reads only.
 */
#ifndef LAB_STORE_FILES_H
#define LAB_STORE_FILES_H
#include <stddef.h>
#include "store/store.h"

enum files_kind { FILES_WEIGHTS, FILES_LOG, FILES_CHECKPOINT, FILES_KINDS };
extern const char *const files_folder[FILES_KINDS];  /* "weights", "logs", "checkpoints" */
enum files_owner { FILES_OF_NOBODY,  /* of no run that any database here knows, or left over from one that was stopped */
                   FILES_OF_DONE,    /* of runs that are done in every database that knows them */
                   FILES_OF_OPEN,    /* of a run that is not */
                   FILES_OF_RUNNING };
struct files_item { char *path; enum files_kind kind; enum files_owner owner; int64_t bytes; };
struct files {
    struct files_item *item; size_t n, cap;          /* by folder and name */
    char unread[1024];               /* why a database here could not be asked, "" if all could: then nothing is called nobody's */
};
int  files_read(struct files *, struct store *, struct lab_err *err);    /* on failure nothing is left to release */
void files_release(struct files *);
#endif
