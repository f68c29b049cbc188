/* option -- option tables: parse a value as its row says, check it, store it, print it back.
 *
 * One row of a struct lab_option table is all that a key needs: its type, bounds,
 * default, help, and where it lives.  The same code serves plugins' options and the
 * host's own sections.  Messages name the value, what was expected, and never the
 * file: the caller puts file:line in front.
 */
#ifndef LAB_HOST_OPTION_H
#define LAB_HOST_OPTION_H
#include "abi/lab_plugin.h"
#include "base/str.h"

/* Types that only the host uses, beside enum lab_opt_type. */
enum { OPTION_RANGE = 100,           /* struct option_range: "8" or "1..8" */
       OPTION_LIST };                /* struct option_list: "8, 12, 16..18": whole numbers, ascending order not required */

struct option_range { int32_t lo, hi; };
#define OPTION_LIST_MAX 512
struct option_list  { int32_t n, v[OPTION_LIST_MAX]; };

#define OPTION_RANGE_ROW(S, f, def, lo, hi, help) {#f, OPTION_RANGE, LAB_OFF(S, f, struct option_range), def, lo, hi, NULL, help}
#define OPTION_LIST_ROW(S, f, def, lo, hi, help)  {#f, OPTION_LIST,  LAB_OFF(S, f, struct option_list),  def, lo, hi, NULL, help}

const struct lab_option *option_find(const struct lab_option *table, const char *name);   /* NULL: no such row; table may be NULL */
const char *option_nearest(const struct lab_option *table, const char *name);             /* "did you mean", or NULL */

/* Parses text as the row says into *self.  A LAB_T_STR keeps the pointer: text must outlive self. */
int option_set(const struct lab_option *row, void *self, const char *text, struct lab_err *err);

/* Stores every default.  A row without default is left zero; its name goes to *missing (may be NULL) if the first. */
int option_defaults(const struct lab_option *table, void *self, const char **missing, struct lab_err *err);

/* Appends the stored value in its canonical spelling: it parses back to the same bits. */
void option_print(struct str *out, const struct lab_option *row, const void *self);
/* The same as a JSON value: number, true/false, string or array. */
void option_print_json(struct str *out, const struct lab_option *row, const void *self);
/* "int", "real", "bool", "enum", "text", "range" or "list". */
const char *option_type(const struct lab_option *row);
/* The range or choices for people: "1..64", "0 to 1", "a | b | c", "yes | no". */
void option_print_domain(struct str *out, const struct lab_option *row);

/* Is the table of a plugin fit for use with a self of that size?  Names, types, offsets, bounds, defaults, choices. */
int option_check_table(const struct lab_option *table, size_t self_size, struct lab_err *err);
#endif
