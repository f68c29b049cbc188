/* plugin -- finds, loads and judges plugins; the registry of encoders and tasks.
 *
 * Files are looked for in the paths the user gave (--plugin FILE|FOLDER), then
 * LAB_PLUGIN_PATH (colon separated), then plugins/ beside the executable, then
 * ../lib/lab/plugins from there, then the folder it was configured to be installed in.
 * Of two encoders (or tasks) of one name the first found wins and the other is listed as
 * shadowed.  Two of one name within one file, or in two files of one folder, is an error
 * of that plugin.  Nothing else is ever loaded, and
 * a file or folder that others may write to is refused.  Plugins stay loaded to the end.
 */
#ifndef LAB_HOST_PLUGIN_H
#define LAB_HOST_PLUGIN_H
#include "abi/lab_plugin.h"
#include "abi/lab_task.h"
#include "base/hash.h"

struct plugin_file {                 /* one file that was looked at */
    char *path;                      /* resolved: absolute, no links */
    const struct lab_plugin *plugin; /* NULL if refused */
    char  refusal[1024];             /* "" or one line: what was found, what was expected, what to do */
    char  sha256[HASH_HEX];          /* of the file */
    int   given;                     /* named by the user: a refusal is an error, not a note */
    int   place;                     /* which part of the search path it is from */
};
enum { PLUGIN_NAME_MAX = 41 };       /* bytes of an encoder's or task's name: [encoder.NAME] is a section, and those have 49 */
enum plugin_kind { PLUGIN_ENCODER, PLUGIN_TASK };
struct plugin_entry {                /* one encoder or task */
    enum plugin_kind kind;
    const char *name;
    const struct lab_encoder *encoder;          /* or NULL */
    const struct lab_task *task;                /* or NULL */
    int file;                                   /* index into registry.file */
    int shadowed_by;                            /* index into registry.entry, -1: in use */
};
struct registry {
    struct plugin_file *file;   size_t n_file, cap_file;
    struct plugin_entry *entry; size_t n_entry, cap_entry;
};

/* Loads everything from the search path.  given: the user's --plugin paths, n_given of them.
 * -1 if one of those is refused or missing, or out of memory; a refusal elsewhere only shows in file[]. */
int  registry_load(struct registry *, const char *const *given, int n_given, struct lab_err *err);
/* Loads exactly these files and no other (the worker: its run's two plugins). */
int  registry_load_files(struct registry *, const char *const *paths, int n, struct lab_err *err);
void registry_free(struct registry *);

/* The encoder or task whose name is nearest to what was typed; NULL: none is near. */
const char *registry_nearest(const struct registry *, const char *name);
/* NULL with a message that lists the known names and the nearest one. */
const struct plugin_entry *registry_find(const struct registry *, enum plugin_kind, const char *name, struct lab_err *err);
/* Fills order (room for n_entry) with the entries of one kind by name, a shadowed one after what shadows it; returns how many. */
size_t registry_sorted(const struct registry *, enum plugin_kind, size_t *order);
/* A refused file that bears the name, most likely what was meant; or NULL. */
const struct plugin_file *registry_refused(const struct registry *, const char *name);

/* Judges one entry point's answer as the loader does; for tests and `lab check`. */
int plugin_validate(const struct lab_plugin *, struct lab_err *err);
/* dlopen + entry + validate of one file; *out NULL on refusal. */
int plugin_open(const char *path, const struct lab_plugin **out, struct lab_err *err);
#endif
