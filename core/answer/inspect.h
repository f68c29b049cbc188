/* inspect -- shows what an encoder does, whether a model sees order, and what a trained run attends to.
 *
 * An answer is a list of parts: a table, a map, or both as a picture; each is printed as text, as JSON and drawn through
 * gnuplot.  Which parts an encoder has follows from the hooks it fills and from what comes out of them, never from its name,
 * so plugins of others are shown like our own.  Trains nothing and changes no database.
 */
#ifndef LAB_ANSWER_INSPECT_H
#define LAB_ANSWER_INSPECT_H
#include "answer/plot.h"
#include "exp/config.h"
#include "nn/model.h"
#include "store/store.h"

/* ---- an answer ---- */

struct inspect_part {
    char *name;                      /* for programs: "table", "bias.3" */
    char *title, *note;              /* note: may be NULL */
    struct table table;              /* n_col 0: none */
    struct chart chart;              /* if drawn; as text only where there is no table */
    int drawn, beside;               /* beside: a map that goes next to the one before, if there is room */
};
struct inspect {
    char *subject;
    struct inspect_part *part; size_t n, cap;
    int exact;                       /* numbers for programs: all digits */
    int failed;                      /* memory ran out */
};
void inspect_init(struct inspect *, int exact);
void inspect_release(struct inspect *);
void inspect_subject(struct inspect *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The new part, until the next one is added. */
struct inspect_part *inspect_add(struct inspect *, const char *name, const char *title);
void inspect_note(struct inspect *, struct inspect_part *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void inspect_columns(struct inspect_part *, int n, const char *const *name);
void inspect_number(const struct inspect *, struct inspect_part *, const char *format, double);      /* NaN: an empty cell */
void inspect_word(struct inspect_part *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A map of values [rows, columns] between lo and hi; rows are called "p 0", ... "p10", columns 0, 1, ... */
struct inspect_part *inspect_map(struct inspect *, const char *name, const char *title, int rows, int columns, double lo, double hi,
                                 const double *value);

void inspect_text(const struct inspect *, int columns, struct str *out);
void inspect_json(const struct inspect *, struct str *out);
/* The pictures, moved out of the answer into a plot.  0, or -1 out of memory. */
int  inspect_plot(struct inspect *, struct plot *, struct lab_err *err);

/* ---- what is shown; 0 or -1 ---- */

/* The encoder of this configuration with the model's parameters, at positions 0 .. length-1. */
int inspect_encoder(struct inspect *, const struct run_config *, const struct model *, int length, struct lab_err *err);

/* config_build; messages about entries name `whose`, but --set where the section begins with `set`. */
int inspect_build(struct run_config *, const struct conf *, const char *whose, const char *set, const struct registry *, struct lab_err *err);

/* Outputs of shuffled input against shuffled outputs, bidirectional and causal.  settings: of a run, as in run_config. */
struct inspect_subject { const char *name, *settings; };
int inspect_equivariance(struct inspect *, const struct inspect_subject *, size_t n, const struct registry *, int length, struct lab_err *err);

/* A done run of the database, by the start of its key or as ENCODER/TASK/SEED, ready to be evaluated at this length (0: the
 * longest in training).  set: values for keys of [eval].  Then its weights, as training left them. */
/* key, json: as it was trained */
struct inspect_run { struct conf conf; struct run_config config; char key[HASH_HEX], *json, *name, *weights; };
int  inspect_find(struct inspect_run *, struct store *, const char *name, int64_t length, const char *const *set, int n_set,
                  const struct registry *, struct lab_err *err);       /* on failure nothing is left to release */
void inspect_forget(struct inspect_run *);
int  inspect_run(struct inspect *, const struct inspect_run *, int64_t example, struct lab_err *err);
#endif
