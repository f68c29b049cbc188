/* plan -- prints what an experiment asks for and what of it is still missing. */
#ifndef LAB_CLI_PLAN_H
#define LAB_CLI_PLAN_H
#include "cli/cmd.h"
#include "exp/sweep.h"

/* db: path of the database, which need not exist.  Returns an exit code; what fails was said on stderr. */
int plan_show(const struct cmd *, const struct sweep *, const char *db, int json);
#endif
