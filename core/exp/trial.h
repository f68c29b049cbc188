/* trial -- makes the first examples of each length before anything starts, so that a task at fault costs no run.
 *
 * In a child process: a task that crashes or hangs here is left to its own worker, which tells more.
 */
#ifndef LAB_EXP_TRIAL_H
#define LAB_EXP_TRIAL_H
#include "exp/config.h"

/* -1: the task of config[*at] said why, or made an example that no model can read; err tells. */
int trial_examples(const struct run_config *const *config, size_t n, size_t *at, struct lab_err *err);
#endif
