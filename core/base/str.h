/* str -- text: a buffer that grows, and the few questions asked of strings.
 *
 * A struct str starts as {0}, always ends in NUL, and is released with str_free.
 * An allocation that fails is remembered in `failed` (the text stops growing),
 * so that a caller checks once, at the end.
 */
#ifndef LAB_BASE_STR_H
#define LAB_BASE_STR_H
#include <stddef.h>
#include <stdint.h>

struct str { char *text; size_t len, cap; int failed; };

void str_add(struct str *, const char *text);
void str_addn(struct str *, const void *bytes, size_t n);
void str_printf(struct str *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_clear(struct str *);                     /* empty, keeping the memory */
void str_free(struct str *);
const char *str_text(const struct str *);         /* never NULL */

void str_json(struct str *, const char *text);    /* appends text as a quoted JSON string */
void str_real(struct str *, double x);            /* appends the shortest decimal that reads back as x */

void str_duration(struct str *, double seconds);  /* appends "12 s", "3 min 20 s", "5 h 12 min", "3 d 4 h" */

/* Does text hold a whole number in [lo,hi], or a finite decimal number, and nothing else?  1 or 0. */
int str_to_int(const char *text, int64_t lo, int64_t hi, int64_t *out);
int str_to_real(const char *text, double *out);   /* no hex, nan, inf, blanks */

/* Length of the valid UTF-8 at the front of n bytes; n if all are. */
size_t str_utf8(const char *bytes, size_t n);

/* Is text a name as plugins, options and parameters bear it: 1 to 63 of a-z, 0-9 and _? */
int str_is_name(const char *text);

/* The candidate that begins with text (three letters at least), or is nearest to it by edit distance; NULL if none
 * is near enough to be a slip of the pen.  candidates ends in NULL. */
const char *str_nearest(const char *text, const char *const *candidates);
#endif
