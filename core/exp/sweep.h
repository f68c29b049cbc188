/* sweep -- from an experiment file to the plan: every combination of the axes is one run.
 *
 * Runs stand in the order of the file's axes (the last varies fastest); combinations
 * that come to the same run_key are one run.
 */
#ifndef LAB_EXP_SWEEP_H
#define LAB_EXP_SWEEP_H
#include "exp/config.h"

struct sweep_run {
    struct run_config config;
    char *label;                     /* values of the axes other than encoder, task, seed: "model.embed_std=1"; "" if none */
};
struct sweep {
    const char *name, *question;     /* point into conf */
    const struct conf *conf;
    struct sweep_run *run; size_t n, cap;
    size_t n_combinations;           /* before equal ones were joined */
    char **value; size_t n_value, cap_value;     /* the axes' values as text; options may point into them */
};
/* conf and registry must outlive the sweep. On failure nothing is left to free. */
int  sweep_build(struct sweep *, const struct conf *, const struct registry *, struct lab_err *err);
void sweep_free(struct sweep *);
#endif
