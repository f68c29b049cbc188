/* scratch -- see scratch.h. */
#include "base/scratch.h"
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

int scratch_make(char folder[WHOLE_PATH], const char *name, struct lab_err *err)
{
    static const char *const place[] = { "SLURM_TMPDIR", "TMPDIR" };
    const char *parent = NULL;
    for (int i = 0; i < 2 && (!parent || !*parent); i++) parent = getenv(place[i]);
    if (!parent || !*parent) parent = "/tmp";
    int n = snprintf(folder, WHOLE_PATH, "%s/lab-%s-XXXXXX", parent, name);
    if (n >= WHOLE_PATH) errno = ENAMETOOLONG;
    if (n < WHOLE_PATH && mkdtemp(folder)) return 0;
    folder[0] = '\0';
    return lab_fail(err, "%.900s: no folder can be made there: %s; set TMPDIR to one on a disk of this machine", parent, strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0;
}

void scratch_remove(const char *folder)
{
    if (*folder) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
