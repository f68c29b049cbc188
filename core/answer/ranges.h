/* ranges -- scores over ranges of lengths, as papers report them: the mean over the lengths past training where these
 * are many, and what the file's [paper] section holds the experiment against, with a verdict.
 */
#ifndef LAB_ANSWER_RANGES_H
#define LAB_ANSWER_RANGES_H
#include "base/str.h"
#include "store/store.h"

/* Appends both tables, or nothing.  ini_sha256 NULL: of the sweep entered last. */
int ranges_write(struct store *, const char *ini_sha256, struct str *out, struct lab_err *err);
#endif
