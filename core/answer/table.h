/* table -- rows of text as an aligned table, CSV, Markdown, JSON, HTML or LaTeX. One style for every command.
 *
 * Widths count characters on the terminal, not bytes; control characters in a cell are shown, never sent.
 */
#ifndef LAB_ANSWER_TABLE_H
#define LAB_ANSWER_TABLE_H
#include "base/str.h"

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_MARKDOWN, TABLE_JSON,
                    TABLE_HTML,      /* thead and tbody, for the caller's <table> */
                    TABLE_LATEX };   /* a tabular in the style of the package booktabs */
struct table { int n_col; char **cell; size_t n_cell, cap_cell; unsigned char *number; size_t cap_number; int failed; };

void table_init(struct table *, int n_col);          /* the first n_col cells are the header */
void table_add(struct table *, const char *text);    /* text, aligned left; NULL is SQL's NULL */
void table_number(struct table *, const char *text); /* a number already written out, aligned right */
void table_write(const struct table *, enum table_format, struct str *out);
/* TABLE_TEXT in lines of at most so many columns, 0: any.  Long texts go over several lines, names in the header too, and the
 * columns for which there is still no room follow below, behind the first ones again. */
void table_text(const struct table *, size_t columns, struct str *out);
/* Words in lines of at most so many columns, all but the first indented; ends in a newline. */
void table_paragraph(struct str *out, const char *text, size_t columns, size_t indent);
void table_html(struct str *out, const char *text);  /* text alone, for HTML */
void table_free(struct table *);

/* Appends text as a terminal may have it: what it would obey is shown as \xNN. */
void table_show(struct str *out, const char *text);
/* How many of the n bytes of such text take at most so many columns. */
size_t table_fit(const char *text, size_t n, size_t columns);
#endif
