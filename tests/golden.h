/* golden -- reads a golden file: lines of `name [dims...] [/stride] : values`, as tests/golden/make_golden.py writes them.
 *
 * Include after <cmocka.h>: whatever is wrong with a file fails the test that reads it.
 */
#ifndef LAB_TESTS_GOLDEN_H
#define LAB_TESTS_GOLDEN_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct golden_line {
    char *name, *text;               /* the values as written */
    double *value;                   /* NULL if the text is a word */
    size_t n, stride;                /* values kept; of the flattened tensor, every stride-th */
    int ndim, dim[4];
};
struct golden { struct golden_line *line; size_t n; };

/* Splits "name dims /stride : values"; text is cut up in place. */
static inline void golden_parse(struct golden_line *out, char *text)
{
    char *colon = strstr(text, " : ");
    if (!colon) fail_msg("golden line without ` : `: %.60s", text);
    *colon = 0;
    char *rest = text, *word = strsep(&rest, " ");
    *out = (struct golden_line){ .name = strdup(word), .text = strdup(colon + 3), .stride = 1 };
    while ((word = strsep(&rest, " "))) {
        if (*word == '/') out->stride = strtoul(word + 1, NULL, 10);
        else if (out->ndim < 4) out->dim[out->ndim++] = atoi(word);
        else fail_msg("%s: more than 4 dimensions", out->name);
    }
    size_t expected = 1;
    for (int i = 0; i < out->ndim; i++) expected *= (size_t)out->dim[i];
    expected = (expected + out->stride - 1) / out->stride;
    if (!out->ndim) return;
    out->value = calloc(expected, sizeof *out->value);
    char *at = out->text, *end;
    for (double x = strtod(at, &end); end != at; x = strtod(at = end, &end))
        if (out->n < expected) out->value[out->n++] = x;
        else fail_msg("%s: more than %zu values", out->name, expected);
    if (out->n != expected || *at) fail_msg("%s: %zu values, its dimensions ask for %zu", out->name, out->n, expected);
}

static inline void golden_read(struct golden *g, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("cannot read %s (tests run in the top folder)", path);
    char *text = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&text, &cap, f)) > 0; g->n++) {
        if (text[n - 1] == '\n') text[n - 1] = 0;
        g->line = realloc(g->line, (g->n + 1) * sizeof *g->line);
        golden_parse(&g->line[g->n], text);
    }
    free(text);
    fclose(f);
}

static inline void golden_free(struct golden *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->line[i].name), free(g->line[i].text), free(g->line[i].value);
    free(g->line);
    *g = (struct golden){ 0 };
}

/* The line called prefix+name, or NULL. */
static inline const struct golden_line *golden_find(const struct golden *g, const char *prefix, const char *name)
{
    size_t k = strlen(prefix);
    for (size_t i = 0; i < g->n; i++)
        if (!strncmp(g->line[i].name, prefix, k) && !strcmp(g->line[i].name + k, name)) return &g->line[i];
    return NULL;
}

/* The same, but it must be there. */
static inline const struct golden_line *golden_get(const struct golden *g, const char *prefix, const char *name)
{
    const struct golden_line *line = golden_find(g, prefix, name);
    if (!line) fail_msg("golden file has no line `%s%s`", prefix, name);
    return line;
}
#endif
