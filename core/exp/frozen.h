/* frozen -- a plan for many machines: what is to be run, fixed once, in a folder that all of them see.
 *
 *   plan.ini     the experiment file, byte for byte
 *   plan.json    what else the runs follow from (--set, --plugin), name, number of runs and tasks, hash; a few lines
 *   runs.jsonl   one line a run: its place, run_key and canonical configuration
 *   shards/ checkpoints/ weights/ logs/     empty at first; `lab work` fills them, logs/ is also for a scheduler's output
 *
 * The hash is over the file, its overrides and runs.jsonl.  Nobody reads the user's file again: frozen_read builds the
 * runs from the folder and refuses when this program would run anything else than what was frozen.
 * All files are written whole or not at all (temporary name, fsync, rename), plan.json last: a folder without it is no plan.
 */
#ifndef LAB_EXP_FROZEN_H
#define LAB_EXP_FROZEN_H
#include "exp/sweep.h"

enum { FROZEN_TIME = 24, FROZEN_MAX_TASKS = 1000000 };
struct frozen_head {                 /* plan.json: cheap to read */
    char *name;                      /* of the experiment */
    char *path;                      /* of the experiment file, as it was given */
    char *lab;                       /* version of the lab that froze it */
    char created[FROZEN_TIME];       /* "2026-11-29T19:45:00Z" */
    char hash[HASH_HEX];
    int64_t runs;
    int64_t tasks;                   /* into how many shares it is cut unless told otherwise: task i of N does the runs i, i + N, ... */
    char **set;    int n_set;        /* "section.key=value", in order */
    char **plugin; int n_plugin;     /* absolute paths, searched before all others */
};
struct frozen {
    char *folder;
    struct frozen_head head;
    struct conf conf;                /* path is the experiment file's, so that the sweep is the one that `lab run` would enter */
    struct registry registry;
    struct sweep sweep;              /* points into conf and registry */
};

/* Freezes a sweep into folder, which is made if missing.  plugin: the user's --plugin paths.  A folder that holds the same plan
 * already is fine (tasks is then what is given now); one that holds another plan, or anything else, is refused. */
int  frozen_write(const char *folder, const struct sweep *, const char *const *plugin, int n_plugin, int64_t tasks, struct lab_err *err);

/* On failure nothing is left to release. */
int  frozen_head_read(struct frozen_head *, const char *folder, struct lab_err *err);
void frozen_head_release(struct frozen_head *);
int  frozen_read(struct frozen *, const char *folder, struct lab_err *err);
void frozen_release(struct frozen *);
#endif
