/* fetch -- the rows of a query as a table, types kept: numbers stay numbers, NULL stays NULL. */
#ifndef LAB_ANSWER_FETCH_H
#define LAB_ANSWER_FETCH_H
#include "answer/table.h"
#include "store/store.h"

/* As store_query.  On success the table holds a header and the rows; the caller frees it. */
int fetch_table(struct store *, const char *sql, const char *const *args, int n_args, double seconds, struct table *, struct lab_err *err);
#endif
