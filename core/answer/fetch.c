/* fetch -- see fetch.h. */
#include "answer/fetch.h"
#include <math.h>
#include <stdio.h>

struct fetch { struct table table; int started; };

static int take_header(void *ctx, int n, const char *const *name)
{
    struct fetch *o = ctx;
    table_init(&o->table, n);
    o->started = 1;
    for (int i = 0; i < n; i++) table_add(&o->table, name[i]);
    return 0;
}

static void take_value(struct table *t, const struct store_value *v)
{
    char number[32];
    struct str real = { 0 };
    switch (v->type) {
    case STORE_NULL: table_add(t, NULL); break;
    case STORE_TEXT: table_add(t, v->text); break;
    case STORE_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)v->integer);
        table_number(t, number);
        break;
    case STORE_REAL:
        str_real(&real, v->real);
        if (isfinite(v->real)) table_number(t, str_text(&real));
        else table_add(t, str_text(&real));          /* JSON has no number for it */
        t->failed |= real.failed;
        str_free(&real);
        break;
    }
}

static int take_row(void *ctx, int n, const struct store_value *value)
{
    struct fetch *o = ctx;
    for (int i = 0; i < n; i++) take_value(&o->table, &value[i]);
    return o->table.failed;
}

int fetch_table(struct store *store, const char *sql, const char *const *args, int n_args, double seconds, struct table *out, struct lab_err *err)
{
    struct fetch f = { .started = 0 };
    const struct store_rows rows = { take_header, take_row, &f };
    int rc = store_query(store, sql, args, n_args, seconds, &rows, err);
    if (rc == 0 && f.table.failed) rc = lab_fail(err, "out of memory: the answer is too large; ask for less (WHERE, LIMIT)");
    if (rc != 0 && f.started) table_free(&f.table);
    if (rc == 0) *out = f.table;
    return rc;
}
