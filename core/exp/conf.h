/* conf -- reads an experiment file into (section, key, value, line), strictly.
 *
 * Refuses what an INI reader usually lets pass and what would cost a user a wrong
 * result: duplicate keys and sections, over-long lines, text after `]`, NUL, bad
 * UTF-8, leading blanks.  Knows syntax only; what keys mean is config's and sweep's.
 * Every message starts with file:line.
 */
#ifndef LAB_EXP_CONF_H
#define LAB_EXP_CONF_H
#include <stddef.h>
#include "abi/lab_plugin.h"
#include "base/hash.h"

struct conf_entry {
    const char *section, *key, *value;
    const char *file;                /* path as given, or "--set" */
    int line;                        /* 0 for --set */
};
struct conf {
    char *path;
    char *text; size_t length;       /* the exact bytes that were parsed */
    char sha256[HASH_HEX];           /* of those bytes and of the overrides */
    struct conf_entry *entry; size_t n, cap;
    struct conf_entry *heading; size_t n_heading, cap_heading;   /* the sections that were opened, also those without keys: key "" */
};
/* On failure nothing is left to free. */
int  conf_read(struct conf *, const char *path, struct lab_err *err);
int  conf_read_text(struct conf *, const char *name, const char *text, size_t length, struct lab_err *err);
/* --set section.key=value: replaces the entry or adds one.  The last dot before '=' ends the section,
 * but the first does for sweep, whose keys are themselves dotted: sweep.train.lr=1e-3,1e-4. */
int  conf_override(struct conf *, const char *assignment, struct lab_err *err);
const struct conf_entry *conf_find(const struct conf *, const char *section, const char *key);   /* or NULL */
void conf_free(struct conf *);

/* lab_fail with "file:line: " of the entry in front ("--set: " for an override). */
int  conf_fail(const struct conf_entry *, struct lab_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
