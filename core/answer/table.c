/* table -- see table.h.
 *
 * Text, Markdown, HTML and LaTeX are for eyes: whatever a terminal would obey instead of show is written as \xNN.
 * CSV and JSON are for programs: every byte survives, quoted.  Asks no locale, so output is the same everywhere.
 */
#include "answer/table.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

enum { GAP = 2 };                    /* blanks between columns */

void table_init(struct table *t, int n_col) { *t = (struct table){ .n_col = n_col }; }

static void add(struct table *t, const char *text, int number)
{
    struct lab_err ignored;
    char *copy = NULL;
    if (t->failed) return;
    if (mem_grow(&t->cell, &t->cap_cell, t->n_cell + 1, sizeof *t->cell, &ignored) != 0 ||
        mem_grow(&t->number, &t->cap_number, t->n_cell + 1, 1, &ignored) != 0 || (text && !(copy = mem_strdup(text, &ignored)))) {
        t->failed = 1;
        return;
    }
    t->number[t->n_cell] = (unsigned char)number;
    t->cell[t->n_cell++] = copy;
}

void table_add(struct table *t, const char *text) { add(t, text, 0); }
void table_number(struct table *t, const char *text) { add(t, text, 1); }

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->n_cell; i++) free(t->cell[i]);
    free(t->cell);
    free(t->number);
    *t = (struct table){ 0 };
}

/* ---- cells; a last row that was not filled up ends in NULLs ---- */

static size_t n_rows(const struct table *t) { return (t->n_cell + (size_t)t->n_col - 1) / (size_t)t->n_col; }

static const char *cell_at(const struct table *t, size_t row, int col)
{
    size_t i = row * (size_t)t->n_col + (size_t)col;
    return i < t->n_cell ? t->cell[i] : NULL;
}

static int is_number(const struct table *t, size_t row, int col)
{
    size_t i = row * (size_t)t->n_col + (size_t)col;
    return i < t->n_cell && t->cell[i] && t->number[i];
}

/* A header stands over numbers when there are some, and nothing else but NULL. */
static int number_column(const struct table *t, int col)
{
    int some = 0;
    for (size_t row = 1; row < n_rows(t); row++) {
        if (cell_at(t, row, col) && !is_number(t, row, col)) return 0;
        some |= is_number(t, row, col);
    }
    return some;
}

/* ---- characters ---- */

/* Columns that a character takes where it is not one (Unicode 15: East_Asian_Width W and F; marks that sit on
 * another character).  -1: a terminal would act on it, such as a line separator or a change of direction. */
static const struct { uint32_t first, last; int columns; } width_range[] = {
    { 0x0000, 0x001f, -1 }, { 0x007f, 0x009f, -1 }, { 0x0300, 0x036f, 0 }, { 0x0483, 0x0489, 0 },
    { 0x0591, 0x05bd, 0 }, { 0x0610, 0x061a, 0 }, { 0x061c, 0x061c, -1 }, { 0x064b, 0x065f, 0 },
    { 0x0670, 0x0670, 0 }, { 0x06d6, 0x06dc, 0 }, { 0x093c, 0x093c, 0 }, { 0x0941, 0x0948, 0 }, { 0x094d, 0x094d, 0 },
    { 0x0e31, 0x0e31, 0 }, { 0x0e34, 0x0e3a, 0 }, { 0x0e47, 0x0e4e, 0 }, { 0x1100, 0x115f, 2 }, { 0x1160, 0x11ff, 0 },
    { 0x1ab0, 0x1aff, 0 }, { 0x1dc0, 0x1dff, 0 }, { 0x200b, 0x200d, 0 }, { 0x200e, 0x200f, -1 },
    { 0x2028, 0x202e, -1 }, { 0x2060, 0x2064, 0 }, { 0x2066, 0x206f, -1 }, { 0x20d0, 0x20f0, 0 },
    { 0x231a, 0x231b, 2 }, { 0x2329, 0x232a, 2 }, { 0x23e9, 0x23ec, 2 }, { 0x2705, 0x2705, 2 }, { 0x274c, 0x274c, 2 },
    { 0x2e80, 0x3029, 2 }, { 0x302a, 0x302d, 0 }, { 0x302e, 0x303e, 2 }, { 0x3041, 0x3096, 2 }, { 0x3099, 0x309a, 0 },
    { 0x309b, 0x3247, 2 }, { 0x3250, 0x4dbf, 2 }, { 0x4e00, 0xa4cf, 2 }, { 0xa960, 0xa97c, 2 }, { 0xac00, 0xd7a3, 2 },
    { 0xd7b0, 0xd7fb, 0 }, { 0xf900, 0xfaff, 2 }, { 0xfe00, 0xfe0f, 0 }, { 0xfe10, 0xfe19, 2 }, { 0xfe20, 0xfe2f, 0 },
    { 0xfe30, 0xfe6b, 2 }, { 0xfeff, 0xfeff, 0 }, { 0xff01, 0xff60, 2 }, { 0xffe0, 0xffe6, 2 },
    { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 }, { 0x1f900, 0x1f9ff, 2 }, { 0x20000, 0x3fffd, 2 },
    { 0xe0000, 0xe007f, -1 }, { 0xe0100, 0xe01ef, 0 },
};

static int columns_of(uint32_t c)
{
    for (size_t i = 0; i < sizeof width_range / sizeof *width_range && width_range[i].first <= c; i++)
        if (c <= width_range[i].last) return width_range[i].columns;
    return 1;
}

/* The character at text, its bytes to *n; 0 (which no cell holds) for bytes that are not UTF-8. */
static uint32_t decode(const char *text, size_t *n)
{
    const unsigned char *p = (const unsigned char *)text;
    *n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (str_utf8(text, strnlen(text, *n)) != *n) return *n = 1, 0;
    uint32_t c = *n == 1 ? p[0] : p[0] & (0xffu >> (*n + 1));
    for (size_t i = 1; i < *n; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

/* Appends text as a terminal may have it; returns the columns it takes there.  A Markdown cell ends at |. */
static size_t show(struct str *out, const char *text, int markdown)
{
    size_t columns = 0, n;
    for (; text && *text; text += n) {
        int w = columns_of(decode(text, &n));
        if (w < 0)
            for (size_t i = 0; i < n; i++) str_printf(out, "\\x%02x", (unsigned char)text[i]), columns += 4;
        else {
            if (markdown && *text == '|') str_add(out, "\\"), w++;
            str_addn(out, text, n);
            columns += (size_t)w;
        }
    }
    return columns;
}

static size_t shown_width(const char *text, int markdown)
{
    struct str scratch = { 0 };
    size_t columns = show(&scratch, text, markdown);
    str_free(&scratch);
    return columns;
}

void table_show(struct str *out, const char *text) { show(out, text, 0); }

size_t table_fit(const char *text, size_t n, size_t columns)
{
    size_t at = 0, bytes;
    for (size_t used = 0; at < n; at += bytes) {
        int w = columns_of(decode(text + at, &bytes));
        if (w > 0) used += (size_t)w;
        if (used > columns) break;
    }
    return at;
}

/* ---- the formats ---- */

static void repeat(struct str *out, const char *text, size_t n)
{
    while (n-- > 0) str_add(out, text);
}

static void trim_line(struct str *out)
{
    while (out->len && out->text[out->len - 1] == ' ') out->text[--out->len] = '\0';
    str_add(out, "\n");
}

static size_t column_width(const struct table *t, int col, int markdown)
{
    size_t width = markdown ? 3 : 1;                         /* a Markdown rule has three dashes at least */
    for (size_t row = 0; row < n_rows(t); row++) {
        size_t w = shown_width(cell_at(t, row, col), markdown);
        if (w > width) width = w;
    }
    return width;
}

static void padded(struct str *out, const char *text, size_t width, int right, int markdown)
{
    size_t blanks = width - shown_width(text, markdown);
    if (right) repeat(out, " ", blanks);
    show(out, text, markdown);
    if (!right) repeat(out, " ", blanks);
}

static void write_text(const struct table *t, const size_t *width, const int *right, struct str *out)
{
    for (size_t row = 0; row < n_rows(t); row++) {
        for (int col = 0; col < t->n_col; col++) {
            repeat(out, " ", col ? GAP : 0);
            padded(out, cell_at(t, row, col), width[col], row ? is_number(t, row, col) : right[col], 0);
        }
        trim_line(out);
        for (int col = 0; row == 0 && col < t->n_col; col++) {
            repeat(out, " ", col ? GAP : 0);
            repeat(out, "-", width[col]);
        }
        if (row == 0) str_add(out, "\n");
    }
}

/* ---- text in few columns ---- */

/* Bytes of text that a line of `columns` takes: whole words; a name that is longer is cut behind _ / or a comma, or anywhere.
 * At least one character, so that every text comes to its end. */
static size_t take_line(const char *text, size_t columns)
{
    size_t n = table_fit(text, strlen(text), columns), end = n, bytes;
    if (!text[n] || text[n] == ' ') return n;
    while (end > 0 && text[end - 1] != ' ') end--;
    if (end == 0) for (end = n; end > 0 && !strchr("_/,", text[end - 1]); end--) { }
    if (end == 0) end = n;
    if (end == 0) decode(text, &bytes), end = bytes;
    return end;
}

static const char *next_line(const char *text, size_t taken)
{
    for (text += taken; *text == ' '; text++) { }
    return text;
}

void table_paragraph(struct str *out, const char *text, size_t columns, size_t indent)
{
    for (size_t first = 1; *text; first = 0) {
        size_t n = take_line(text, first || columns <= indent ? columns : columns - indent);
        repeat(out, " ", first ? 0 : indent);
        str_addn(out, text, n);
        trim_line(out);
        text = next_line(text, n);
    }
}

static size_t longest_piece(const char *text)                /* of a name, which may be cut behind _ */
{
    size_t most = 1, n = 0;
    for (; text && *text; text++) {
        n += *text != ' ';
        if (n > most) most = n;
        if (*text == ' ' || *text == '_') n = 0;
    }
    return most;
}

/* The least that a column can do with: its numbers are never cut, its texts into pieces of a few words. */
static size_t least_width(const struct table *t, int col, int number, size_t natural)
{
    enum { FEW = 12 };
    size_t least = longest_piece(cell_at(t, 0, col));
    for (size_t row = 1; number && row < n_rows(t); row++) {
        size_t w = shown_width(cell_at(t, row, col), 0);
        if (w > least) least = w;
    }
    if (!number && least < FEW) least = FEW;
    return least < natural ? least : natural;
}

/* Makes the widest column narrower, again and again, until the line fits or nothing gives way. */
static void narrow(const struct table *t, size_t columns, size_t *width, const size_t *least)
{
    size_t total = (size_t)(t->n_col - 1) * GAP;
    for (int col = 0; col < t->n_col; col++) total += width[col];
    for (; total > columns; total--) {
        int widest = -1;
        for (int col = 0; col < t->n_col; col++)
            if (width[col] > least[col] && (widest < 0 || width[col] >= width[widest])) widest = col;
        if (widest < 0) return;
        width[widest]--;
    }
}

struct fold { const struct table *t; const size_t *width; const int *right; int *col, n; };      /* col: those of this block */

/* A row of the table in as many lines as its longest cell takes. */
static void fold_row(const struct fold *f, size_t row, const char **rest, struct str *shown, struct str *out)
{
    int more = 1;
    for (int i = 0; i < f->n; i++) {
        str_clear(&shown[i]);
        table_show(&shown[i], cell_at(f->t, row, f->col[i]));
        rest[i] = str_text(&shown[i]), out->failed |= shown[i].failed;
    }
    for (int line = 0; more; line++) {
        more = 0;
        for (int i = 0; i < f->n; i++) {
            int c = f->col[i], right = row ? is_number(f->t, row, c) : f->right[c];
            size_t n = take_line(rest[i], f->width[c]), end = n;
            while (end > 0 && rest[i][end - 1] == ' ') end--;
            struct str piece = { 0 };
            str_addn(&piece, rest[i], end);
            repeat(out, " ", i ? GAP : 0);
            padded(out, str_text(&piece), f->width[c], right, 0);
            out->failed |= piece.failed;
            str_free(&piece);
            rest[i] = next_line(rest[i], n);
            more |= *rest[i] != '\0';
        }
        trim_line(out);
    }
}

static void fold_block(const struct fold *f, const char **rest, struct str *shown, struct str *out)
{
    for (size_t row = 0; row < n_rows(f->t); row++) {
        fold_row(f, row, rest, shown, out);
        for (int i = 0; row == 0 && i < f->n; i++) {
            repeat(out, " ", i ? GAP : 0);
            repeat(out, "-", f->width[f->col[i]]);
        }
        if (row == 0) str_add(out, "\n");
    }
}

static int rows_differ(const struct table *t, int n_col)     /* already by these first columns?  The first rows stand for all */
{
    enum { MANY = 200 };
    for (size_t a = 1; a < n_rows(t) && a < MANY; a++)
        for (size_t b = 1; b < a; b++) {
            int same = 1;
            for (int col = 0; same && col < n_col; col++) {
                const char *x = cell_at(t, a, col), *y = cell_at(t, b, col);
                same = !strcmp(x ? x : "", y ? y : "");
            }
            if (same) return 0;
        }
    return 1;
}

/* How many columns tell which row it is, and are repeated in each block: few enough to leave room for others. */
static int key_columns(const struct table *t, size_t columns, const size_t *width)
{
    size_t used = 0;
    int n = 0;
    while (n < t->n_col - 1 && used + width[n] + GAP <= columns * 2 / 3) {
        used += width[n++] + GAP;
        if (rows_differ(t, n)) break;
    }
    return n;
}

static void write_folded(const struct table *t, size_t columns, const size_t *width, const int *right, int *col, const char **rest,
                         struct str *shown, struct str *out)
{
    int keys = key_columns(t, columns, width), next = 0;
    while (next < t->n_col) {
        struct fold f = { t, width, right, col, 0 };
        size_t used = 0;
        if (next) str_add(out, "\n");
        for (int i = 0; next && i < keys; i++) col[f.n++] = i, used += width[i] + GAP;
        do used += width[next] + GAP, col[f.n++] = next++;
        while (next < t->n_col && used + width[next] <= columns);
        fold_block(&f, rest, shown, out);
    }
}

void table_text(const struct table *t, size_t columns, struct str *out)
{
    struct lab_err ignored;
    size_t n = (size_t)t->n_col, total = (n - 1) * GAP;
    size_t *width = mem_alloc(2 * n * sizeof *width, &ignored), *least = width ? width + n : NULL;
    int *right = mem_alloc(2 * n * sizeof *right, &ignored);
    const char **rest = mem_alloc(n * sizeof *rest, &ignored);
    struct str *shown = mem_alloc(n * sizeof *shown, &ignored);
    if (t->failed || !width || !right || !rest || !shown) { out->failed = 1; goto done; }
    for (int col = 0; col < t->n_col; col++) {
        right[col] = number_column(t, col);
        total += width[col] = column_width(t, col, 0);
        least[col] = least_width(t, col, right[col], width[col]);
    }
    if (columns == 0 || total <= columns) { write_text(t, width, right, out); goto done; }
    narrow(t, columns, width, least);
    write_folded(t, columns, width, right, right + n, rest, shown, out);
done:
    for (size_t i = 0; shown && i < n; i++) str_free(&shown[i]);
    free(width), free(right), free(rest), free(shown);
}

static void write_markdown(const struct table *t, const size_t *width, const int *right, struct str *out)
{
    for (size_t row = 0; row < n_rows(t); row++) {
        for (int col = 0; col < t->n_col; col++) {
            str_add(out, col ? " " : "| ");
            padded(out, cell_at(t, row, col), width[col], row ? is_number(t, row, col) : right[col], 1);
            str_add(out, " |");
        }
        str_add(out, "\n");
        for (int col = 0; row == 0 && col < t->n_col; col++) {
            str_add(out, col ? " " : "| ");
            repeat(out, "-", width[col] - (right[col] ? 1 : 0));
            str_add(out, right[col] ? ": |" : " |");
        }
        if (row == 0) str_add(out, "\n");
    }
}

/* Quoted as in RFC 4180, but lines end in LF alone, which Unix tools expect.  NULL is an empty field, an empty text is "". */
static void write_csv(const struct table *t, struct str *out)
{
    for (size_t row = 0; row < n_rows(t); row++)
        for (int col = 0; col < t->n_col; col++) {
            const char *text = cell_at(t, row, col);
            if (text && (!*text || strpbrk(text, ",\"\r\n"))) {
                str_add(out, "\"");
                for (; *text; text++) str_addn(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
                str_add(out, "\"");
            } else if (text) {
                str_add(out, text);
            }
            str_add(out, col + 1 < t->n_col ? "," : "\n");
        }
}

/* JSON must be UTF-8, and has no word for an infinite number. */
static void json_value(struct str *out, const char *text, int number)
{
    double finite;
    struct str shown = { 0 };
    if (!text) str_add(out, "null");
    else if (number && str_to_real(text, &finite)) str_add(out, text);
    else if (str_utf8(text, strlen(text)) == strlen(text)) str_json(out, text);
    else show(&shown, text, 0), str_json(out, str_text(&shown));
    if (shown.failed) out->failed = 1;
    str_free(&shown);
}

static void write_json(const struct table *t, struct str *out)
{
    str_add(out, "[");
    for (size_t row = 1; row < n_rows(t); row++) {
        str_add(out, row > 1 ? ",\n" : "\n");
        for (int col = 0; col < t->n_col; col++) {
            str_add(out, col ? ", " : "{");
            json_value(out, cell_at(t, 0, col) ? cell_at(t, 0, col) : "", 0);
            str_add(out, ": ");
            json_value(out, cell_at(t, row, col), is_number(t, row, col));
        }
        str_add(out, "}");
    }
    str_add(out, n_rows(t) > 1 ? "\n]\n" : "]\n");
}

/* Every character that means something to the format, and what stands for it. */
struct escape { const char *text, *instead; };
static const struct escape html_escape[] = { { "&", "&amp;" }, { "<", "&lt;" }, { ">", "&gt;" }, { "\"", "&quot;" }, { NULL, NULL } };
static const struct escape latex_escape[] = {
    { "&", "\\&" }, { "%", "\\%" }, { "$", "\\$" }, { "#", "\\#" }, { "_", "\\_" }, { "{", "\\{" }, { "}", "\\}" },
    { "~", "\\textasciitilde{}" }, { "^", "\\textasciicircum{}" }, { "\\", "\\textbackslash{}" }, { "<", "\\textless{}" },
    { ">", "\\textgreater{}" }, { "\u00b1", "$\\pm$" }, { NULL, NULL } };

static void escaped(struct str *out, const char *text, const struct escape *table)
{
    struct str shown = { 0 };
    show(&shown, text, 0);
    for (const char *at = str_text(&shown); *at; ) {
        const struct escape *e = table;
        while (e->text && strncmp(e->text, at, strlen(e->text))) e++;
        if (e->text) str_add(out, e->instead);
        else str_addn(out, at, 1);
        at += e->text ? strlen(e->text) : 1;
    }
    out->failed |= shown.failed;
    str_free(&shown);
}

void table_html(struct str *out, const char *text) { escaped(out, text, html_escape); }

static void write_html(const struct table *t, const int *right, struct str *out)
{
    str_add(out, "<thead>\n");
    for (size_t row = 0; row < n_rows(t); row++) {
        str_add(out, "<tr>");
        for (int col = 0; col < t->n_col; col++) {
            int number = row ? is_number(t, row, col) : right[col];
            const char *tag = row == 0 ? "th scope=\"col\"" : col == 0 ? "th scope=\"row\"" : "td";
            str_printf(out, "<%s%s>", tag, number ? " class=\"n\"" : "");
            escaped(out, cell_at(t, row, col), html_escape);
            str_add(out, row == 0 || col == 0 ? "</th>" : "</td>");
        }
        str_add(out, row == 0 ? "</tr>\n</thead>\n<tbody>\n" : "</tr>\n");
    }
    str_add(out, "</tbody>\n");
}

static void write_latex(const struct table *t, const int *right, struct str *out)
{
    str_add(out, "% needs \\usepackage{booktabs}\n\\begin{tabular}{");
    for (int col = 0; col < t->n_col; col++) str_add(out, right[col] ? "r" : "l");
    str_add(out, "}\n\\toprule\n");
    for (size_t row = 0; row < n_rows(t); row++) {
        for (int col = 0; col < t->n_col; col++) {
            str_add(out, col ? " & " : "");
            escaped(out, cell_at(t, row, col), latex_escape);
        }
        str_add(out, row ? " \\\\\n" : " \\\\\n\\midrule\n");
    }
    str_add(out, "\\bottomrule\n\\end{tabular}\n");
}

void table_write(const struct table *t, enum table_format format, struct str *out)
{
    struct lab_err ignored;
    size_t *width = mem_alloc((size_t)t->n_col * sizeof *width, &ignored);
    int *right = mem_alloc((size_t)t->n_col * sizeof *right, &ignored);
    if (t->failed || !width || !right) { out->failed = 1; goto done; }
    for (int col = 0; col < t->n_col; col++) {
        right[col] = number_column(t, col);
        width[col] = column_width(t, col, format == TABLE_MARKDOWN);
    }
    switch (format) {
    case TABLE_TEXT:     write_text(t, width, right, out); break;
    case TABLE_MARKDOWN: write_markdown(t, width, right, out); break;
    case TABLE_CSV:      write_csv(t, out); break;
    case TABLE_JSON:     write_json(t, out); break;
    case TABLE_HTML:     write_html(t, right, out); break;
    case TABLE_LATEX:    write_latex(t, right, out); break;
    }
done:
    free(width);
    free(right);
}
