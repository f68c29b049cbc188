/* plan -- prints what an experiment asks for and what of it is still missing. */
#ifndef LAB_CLI_PLAN_H
#define LAB_CLI_PLAN_H
#include "exp/sweep.h"

/* db: path of the database, which need not exist.  Returns an exit code; EXIT_DONE unless the database fails. */
int plan_print(const struct sweep *, const char *db, int json, struct lab_err *err);
#endif
