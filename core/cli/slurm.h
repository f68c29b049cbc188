/* slurm -- what the parts of `lab slurm` share: which plan is meant. */
#ifndef LAB_CLI_SLURM_H
#define LAB_CLI_SLURM_H
#include "cli/cmd.h"

/* PLAN|FILE.ini: a folder is a plan, anything else an experiment file whose plan stands in the default folder. */
int slurm_find_plan(struct str *folder, const char *argument, const struct cli_many *set, struct lab_err *err);

int cmd_slurm_status(const struct cmd *, int argc, char **argv);
#endif
