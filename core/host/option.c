/* option -- see option.h.
 *
 * A type is one row of the table `types`; nothing else in lab knows how a value is spelled.
 * To add a type: its id in the header, its functions and its row here.
 * A value is stored only after all of it was understood, so a refused text changes nothing.
 */
#include "host/option.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"

enum { ROWS_MAX = 256, CHOICES_MAX = 64, CHOICES_TEXT = 512 };

struct type {
    int32_t id;
    const char *name;                /* for `lab info` */
    const char *kind;                /* what a value is, in a message in front of its domain */
    uint32_t size, align;            /* of the value in *self */
    int  (*parse)(const struct lab_option *, void *at, const char *text, struct lab_err *);
    void (*print)(struct str *, const struct lab_option *, const void *at);
    void (*print_json)(struct str *, const struct lab_option *, const void *at);
    void (*domain)(struct str *, const struct lab_option *);
};
static const struct type *type_of(const struct lab_option *row);

/* ---- messages ---- */

/* A value as a message shows it: cut to a sane length between characters, control characters as '?'. */
static const char *shown(const char *text, char out[72])
{
    enum { LONGEST = 60 };
    size_t n = strnlen(text, LONGEST + 1), cut = n > LONGEST ? str_utf8(text, LONGEST) : n;
    for (size_t i = 0; i < cut; i++) out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    strcpy(out + cut, n > LONGEST ? "..." : "");
    return out;
}

/* The usual refusal: `d_model = '6x': expected a whole number, 1..4096`. */
static int refuse(const struct lab_option *row, const char *text, const char *near, struct lab_err *err)
{
    char value[72];
    struct str domain = { 0 };
    option_print_domain(&domain, row);
    lab_fail(err, "%s = '%s': expected %s%s%s%s%s", row->name, shown(text, value), type_of(row)->kind, str_text(&domain),
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    str_free(&domain);
    return -1;
}

/* ---- whole numbers ---- */

static int parse_int(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    int64_t x;
    if (!str_to_int(text, (int64_t)row->lo, (int64_t)row->hi, &x)) return refuse(row, text, NULL, err);
    *(int32_t *)at = (int32_t)x;
    return 0;
}

static void print_int(struct str *out, const struct lab_option *row, const void *at)
{
    (void)row;
    str_printf(out, "%d", *(const int32_t *)at);
}

static void domain_int(struct str *out, const struct lab_option *row)
{
    int below = row->lo > INT32_MIN, above = row->hi < INT32_MAX;
    if (below && above) str_printf(out, "%.0f..%.0f", row->lo, row->hi);
    else if (below) str_printf(out, "at least %.0f", row->lo);
    else if (above) str_printf(out, "at most %.0f", row->hi);
    else str_add(out, "any");
}

/* ---- real numbers ---- */

static int parse_real(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    double x;
    if (!str_to_real(text, &x) || x < row->lo || x > row->hi) return refuse(row, text, NULL, err);
    *(double *)at = x + 0.0;                     /* -0 becomes 0: equal values must print equal */
    return 0;
}

static void print_real(struct str *out, const struct lab_option *row, const void *at)
{
    (void)row;
    str_real(out, *(const double *)at);
}

static void domain_real(struct str *out, const struct lab_option *row)
{
    int below = row->lo > -HUGE_VAL, above = row->hi < HUGE_VAL;
    if (!below && !above) str_add(out, "any");
    if (below && !above) str_add(out, "at least ");
    if (above && !below) str_add(out, "at most ");
    if (below) str_real(out, row->lo);
    if (below && above) str_add(out, " to ");
    if (above) str_real(out, row->hi);
}

/* ---- yes and no ---- */

static int parse_bool(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    static const char *const word[] = { "no", "yes", "false", "true", NULL };     /* odd places mean yes */
    for (int i = 0; word[i]; i++)
        if (!strcmp(text, word[i])) return *(int32_t *)at = i % 2, 0;
    return refuse(row, text, NULL, err);
}

static void print_bool(struct str *out, const struct lab_option *row, const void *at)
{
    (void)row;
    str_add(out, *(const int32_t *)at ? "yes" : "no");
}

static void json_bool(struct str *out, const struct lab_option *row, const void *at)
{
    (void)row;
    str_add(out, *(const int32_t *)at ? "true" : "false");
}

static void domain_bool(struct str *out, const struct lab_option *row)
{
    (void)row;
    str_add(out, "yes | no");
}

/* ---- one of several words ---- */

/* Word i of "a|b|c" and its length; NULL when there are not so many. */
static const char *choice(const char *choices, int i, size_t *n)
{
    for (; choices && i > 0; i--) choices = (choices = strchr(choices, '|')) ? choices + 1 : NULL;
    if (choices) *n = strcspn(choices, "|");
    return choices;
}

static int choice_find(const char *choices, const char *text, size_t length)
{
    size_t n;
    const char *word;
    for (int i = 0; (word = choice(choices, i, &n)); i++)
        if (n == length && !strncmp(word, text, n)) return i;
    return -1;
}

static int parse_enum(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    int i = choice_find(row->choices, text, strlen(text));
    if (i < 0) {
        char words[CHOICES_TEXT], *rest = words;
        const char *list[CHOICES_MAX + 1] = { NULL };
        snprintf(words, sizeof words, "%s", row->choices);
        for (int n = 0; rest && n < CHOICES_MAX; n++) list[n] = strsep(&rest, "|");
        return refuse(row, text, str_nearest(text, list), err);
    }
    *(int32_t *)at = i;
    return 0;
}

static void print_enum(struct str *out, const struct lab_option *row, const void *at)
{
    size_t n = 0;
    const char *word = choice(row->choices, *(const int32_t *)at, &n);
    if (word) str_addn(out, word, n);
}

static void json_enum(struct str *out, const struct lab_option *row, const void *at)
{
    struct str word = { 0 };
    print_enum(&word, row, at);
    str_json(out, str_text(&word));
    out->failed |= word.failed;
    str_free(&word);
}

static void domain_enum(struct str *out, const struct lab_option *row)
{
    size_t n;
    const char *word;
    for (int i = 0; (word = choice(row->choices, i, &n)); i++) {
        if (i) str_add(out, " | ");
        str_addn(out, word, n);
    }
}

/* ---- text ---- */

static int parse_text(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    (void)row, (void)err;
    *(const char **)at = text;
    return 0;
}

static void print_text(struct str *out, const struct lab_option *row, const void *at)
{
    const char *text = *(const char *const *)at;
    (void)row;
    if (text) str_add(out, text);
}

static void json_text(struct str *out, const struct lab_option *row, const void *at)
{
    const char *text = *(const char *const *)at;
    (void)row;
    if (text) str_json(out, text);
    else str_add(out, "null");
}

static void domain_text(struct str *out, const struct lab_option *row)
{
    (void)row;
    str_add(out, "text");
}

/* ---- ranges and lists of whole numbers ---- */

/* "8" or "1..8" with both ends inside the row's bounds: 1, or 0. */
static int read_range(const struct lab_option *row, const char *text, struct option_range *out)
{
    char first[16];
    int64_t lo, hi;
    const char *dots = strstr(text, "..");
    size_t n = dots ? (size_t)(dots - text) : strlen(text);
    if (n >= sizeof first) return 0;
    memcpy(first, text, n);
    first[n] = '\0';
    if (!str_to_int(first, (int64_t)row->lo, (int64_t)row->hi, &lo)) return 0;
    if (!str_to_int(dots ? dots + 2 : first, (int64_t)row->lo, (int64_t)row->hi, &hi) || lo > hi) return 0;
    *out = (struct option_range){ (int32_t)lo, (int32_t)hi };
    return 1;
}

static void print_pair(struct str *out, int32_t lo, int32_t hi)
{
    if (lo == hi) str_printf(out, "%d", lo);
    else str_printf(out, "%d..%d", lo, hi);
}

static int parse_range(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    return read_range(row, text, at) ? 0 : refuse(row, text, NULL, err);
}

static void print_range(struct str *out, const struct lab_option *row, const void *at)
{
    const struct option_range *range = at;
    (void)row;
    print_pair(out, range->lo, range->hi);
}

static void json_range(struct str *out, const struct lab_option *row, const void *at)
{
    const struct option_range *range = at;
    (void)row;
    str_printf(out, "[%d,%d]", range->lo, range->hi);
}

static void domain_range(struct str *out, const struct lab_option *row)
{
    str_add(out, "a number or a rising range, ");
    domain_int(out, row);
}

/* Adds lo..hi to the list, each number once. */
static int list_add(const struct lab_option *row, struct option_list *list, struct option_range range, struct lab_err *err)
{
    for (int64_t x = range.lo; x <= range.hi; x++) {
        for (int i = 0; i < list->n; i++)
            if (list->v[i] == x) return lab_fail(err, "%s: %d is listed twice; name each number once", row->name, (int)x);
        if (list->n == OPTION_LIST_MAX) return lab_fail(err, "%s: too many numbers (limit is %d)", row->name, OPTION_LIST_MAX);
        list->v[list->n++] = (int32_t)x;
    }
    return 0;
}

static int parse_list(const struct lab_option *row, void *at, const char *text, struct lab_err *err)
{
    static const char blank[] = " \t";
    struct option_list list = { 0 };
    struct option_range range;
    for (const char *rest = text; rest; rest = (rest = strchr(rest, ',')) ? rest + 1 : NULL) {
        char item[40];
        rest += strspn(rest, blank);
        size_t n = strcspn(rest, ",");
        while (n && strchr(blank, rest[n - 1])) n--;
        if (!n && *text) return lab_fail(err, "%s: an item of the list is empty; remove the extra comma", row->name);
        int fits = snprintf(item, sizeof item, "%.*s", (int)n, rest) < (int)sizeof item;
        if (!fits || !read_range(row, item, &range)) return refuse(row, item, NULL, err);
        if (list_add(row, &list, range, err) != 0) return -1;
    }
    *(struct option_list *)at = list;
    return 0;
}

/* Never longer than what was read: three or more numbers in a row are written as a range, and no blanks. */
static void print_list(struct str *out, const struct lab_option *row, const void *at)
{
    const struct option_list *list = at;
    (void)row;
    for (int i = 0, last; i < list->n; i = last + 1) {
        for (last = i; last + 1 < list->n && list->v[last + 1] == list->v[last] + 1; last++) {}
        if (last == i + 1) last = i;
        if (i) str_add(out, ",");
        print_pair(out, list->v[i], list->v[last]);
    }
}

static void json_list(struct str *out, const struct lab_option *row, const void *at)
{
    const struct option_list *list = at;
    (void)row;
    str_add(out, "[");
    for (int i = 0; i < list->n; i++) str_printf(out, "%s%d", i ? "," : "", list->v[i]);
    str_add(out, "]");
}

static void domain_list(struct str *out, const struct lab_option *row)
{
    str_add(out, "numbers and rising ranges, ");
    domain_int(out, row);
}

/* ---- the types ---- */

#define OF(T) sizeof(T), _Alignof(T)
static const struct type types[] = {
    { LAB_T_INT, "int", "a whole number, ", OF(int32_t), parse_int, print_int, print_int, domain_int },
    { LAB_T_REAL, "real", "a number, ", OF(double), parse_real, print_real, print_real, domain_real },
    { LAB_T_BOOL, "bool", "", OF(int32_t), parse_bool, print_bool, json_bool, domain_bool },
    { LAB_T_ENUM, "enum", "", OF(int32_t), parse_enum, print_enum, json_enum, domain_enum },
    { LAB_T_STR, "text", "", OF(const char *), parse_text, print_text, json_text, domain_text },
    { OPTION_RANGE, "range", "", OF(struct option_range), parse_range, print_range, json_range, domain_range },
    { OPTION_LIST, "list", "", OF(struct option_list), parse_list, print_list, json_list, domain_list },
};
#undef OF

static const struct type *type_of(const struct lab_option *row)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == row->type) return &types[i];
    return NULL;
}

static const void *place(const struct lab_option *row, const void *self) { return (const char *)self + row->off; }

/* ---- one row ---- */

const struct lab_option *option_find(const struct lab_option *table, const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name)) return table;
    return NULL;
}

const char *option_nearest(const struct lab_option *table, const char *name)
{
    const char *names[ROWS_MAX + 1] = { NULL };
    for (int n = 0; table && table->name && n < ROWS_MAX; table++) names[n++] = table->name;
    return str_nearest(name, names);
}

int option_set(const struct lab_option *row, void *self, const char *text, struct lab_err *err)
{
    return type_of(row)->parse(row, (char *)self + row->off, text, err);
}

void option_print(struct str *out, const struct lab_option *row, const void *self)
{
    type_of(row)->print(out, row, place(row, self));
}

void option_print_json(struct str *out, const struct lab_option *row, const void *self)
{
    type_of(row)->print_json(out, row, place(row, self));
}

const char *option_type(const struct lab_option *row) { return type_of(row)->name; }
void option_print_domain(struct str *out, const struct lab_option *row) { type_of(row)->domain(out, row); }

/* ---- a whole table ---- */

int option_defaults(const struct lab_option *table, void *self, const char **missing, struct lab_err *err)
{
    if (missing) *missing = NULL;
    for (; table && table->name; table++) {
        if (table->def && option_set(table, self, table->def, err) != 0) return -1;
        if (!table->def && missing && !*missing) *missing = table->name;
    }
    return 0;
}

static int check_place(const struct lab_option *row, const struct type *type, size_t self_size, struct lab_err *err)
{
    if ((size_t)row->off + type->size > self_size)
        return lab_fail(err, "option %s: offset %u and size %u reach beyond self_size %zu; set self_size to the sizeof of the "
                        "struct that the table writes to", row->name, row->off, type->size, self_size);
    if (row->off % type->align)
        return lab_fail(err, "option %s: offset %u is no multiple of %u, its type's alignment; use the LAB_INT, LAB_REAL ... "
                        "macros", row->name, row->off, type->align);
    return 0;
}

static int check_bounds(const struct lab_option *row, struct lab_err *err)
{
    int whole = row->type == LAB_T_INT;
    if (!whole && row->type != LAB_T_REAL) return 0;
    if (!(row->lo <= row->hi))                   /* also when one is nan */
        return lab_fail(err, "option %s: no value lies between its bounds %g and %g", row->name, row->lo, row->hi);
    if (whole && (row->lo < INT32_MIN || row->hi > INT32_MAX || row->lo != floor(row->lo) || row->hi != floor(row->hi)))
        return lab_fail(err, "option %s: its bounds %.17g and %.17g must be whole numbers of 32 bits", row->name, row->lo,
                        row->hi);
    return 0;
}

static int check_choices(const struct lab_option *row, struct lab_err *err)
{
    size_t n;
    const char *word;
    if (row->type != LAB_T_ENUM) return 0;
    if (!row->choices || !*row->choices)
        return lab_fail(err, "option %s: an ENUM without choices; list them as \"a|b|c\"", row->name);
    if (strlen(row->choices) >= CHOICES_TEXT)
        return lab_fail(err, "option %s: its choices are too long (limit is %d bytes)", row->name, CHOICES_TEXT - 1);
    for (int i = 0; (word = choice(row->choices, i, &n)); i++) {
        if (i == CHOICES_MAX) return lab_fail(err, "option %s: too many choices (limit is %d)", row->name, CHOICES_MAX);
        if (!n || strcspn(word, " \t,;\"") < n)
            return lab_fail(err, "option %s: choice %d of \"%s\" is empty or holds a blank, comma, semicolon or quote", row->name,
                            i + 1, row->choices);
        if (choice_find(row->choices, word, n) != i)
            return lab_fail(err, "option %s: \"%s\" names choice %d twice", row->name, row->choices, i + 1);
    }
    return 0;
}

static int check_default(const struct lab_option *row, struct lab_err *err)
{
    union { int32_t whole; double real; const char *text; } value;
    struct lab_err why;
    if (!row->def || type_of(row)->parse(row, &value, row->def, &why) == 0) return 0;
    return lab_fail(err, "option %s: its default is refused: %.300s", row->name, why.msg);
}

static int check_row(const struct lab_option *row, size_t self_size, struct lab_err *err)
{
    const struct type *type = type_of(row);
    char value[72];
    if (!str_is_name(row->name))
        return lab_fail(err, "option '%s': a name is 1 to 63 of a-z, 0-9 and _", shown(row->name, value));
    if (!type || row->type >= OPTION_RANGE)
        return lab_fail(err, "option %s: type %d is unknown; %d (LAB_T_INT) to %d (LAB_T_STR) are", row->name, row->type,
                        LAB_T_INT, LAB_T_STR);
    if (!row->help || !*row->help) return lab_fail(err, "option %s: no help; give one line for `lab info`", row->name);
    if (check_place(row, type, self_size, err) || check_bounds(row, err) || check_choices(row, err)) return -1;
    return check_default(row, err);
}

/* A row must not share its name or its bytes with one before it. */
static int check_unique(const struct lab_option *table, int row, struct lab_err *err)
{
    const struct lab_option *b = &table[row];
    for (const struct lab_option *a = table; a < b; a++) {
        if (!strcmp(a->name, b->name)) return lab_fail(err, "option %s: stands twice in the table; rename one", b->name);
        if (a->off < b->off + type_of(b)->size && b->off < a->off + type_of(a)->size)
            return lab_fail(err, "option %s: offset %u overlaps option %s at offset %u; give each a field of its own", b->name,
                            b->off, a->name, a->off);
    }
    return 0;
}

int option_check_table(const struct lab_option *table, size_t self_size, struct lab_err *err)
{
    for (int i = 0; table && table[i].name; i++) {
        if (i == ROWS_MAX)
            return lab_fail(err, "the option table has no end (limit is %d rows); close it with LAB_OPTIONS_END", ROWS_MAX);
        if (check_row(&table[i], self_size, err) != 0 || check_unique(table, i, err) != 0) return -1;
    }
    return 0;
}
