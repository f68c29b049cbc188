/* str -- see str.h.  Numbers are read and written in the C locale only. */
#include "base/str.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

static int reserve(struct str *s, size_t extra)
{
    struct lab_err ignored;
    if (s->failed || mem_grow(&s->text, &s->cap, s->len + extra + 1, 1, &ignored) != 0) s->failed = 1;
    return s->failed ? -1 : 0;
}

void str_addn(struct str *s, const void *bytes, size_t n)
{
    if (reserve(s, n) != 0) return;
    if (n) memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = '\0';
}

void str_add(struct str *s, const char *text) { str_addn(s, text, strlen(text)); }

void str_printf(struct str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || reserve(s, (size_t)n) != 0) return;
    va_start(ap, fmt);
    vsnprintf(s->text + s->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->len += (size_t)n;
}

void str_clear(struct str *s)
{
    s->len = 0;
    if (s->text) s->text[0] = '\0';
}

void str_free(struct str *s)
{
    free(s->text);
    *s = (struct str){ 0 };
}

const char *str_text(const struct str *s) { return s->text ? s->text : ""; }

void str_real(struct str *s, double x)
{
    char text[40];
    int digits = 1, exponent = 0;
    for (; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x) break;
    }
    const char *e = strchr(text, 'e');               /* nan and inf have none */
    if (e) exponent = atoi(e + 1);
    if (digits > 17) digits = 17;
    /* 10000, not 1e+04: numbers of up to 16 digits are written out */
    snprintf(text, sizeof text, "%.*g", exponent >= digits && exponent < 16 ? exponent + 1 : digits, x);
    str_add(s, text);
}

void str_duration(struct str *s, double seconds)
{
    static const struct { const char *unit, *part; int per_part, parts; } table[] = {      /* a unit has so many parts of so many seconds */
        { "d", "h", 3600, 24 }, { "h", "min", 60, 60 }, { "min", "s", 1, 60 } };
    int64_t whole = seconds < 0 ? 0 : seconds < 1e12 ? (int64_t)(seconds + 0.5) : (int64_t)1e12;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int64_t parts = whole / table[i].per_part;
        if (parts < table[i].parts) continue;
        str_printf(s, "%lld %s %lld %s", (long long)(parts / table[i].parts), table[i].unit, (long long)(parts % table[i].parts), table[i].part);
        return;
    }
    str_printf(s, "%lld s", (long long)whole);
}

int str_to_int(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    const char *digit = text + (*text == '-' || *text == '+');
    if (!*digit || strspn(digit, "0123456789") != strlen(digit)) return 0;
    errno = 0;
    long long x = strtoll(text, NULL, 10);
    if (errno || x < lo || x > hi) return 0;
    *out = x;
    return 1;
}

int str_to_real(const char *text, double *out)
{
    char *end;
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text)) return 0;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x) || (x == 0 && errno == ERANGE)) return 0;
    *out = x;
    return 1;
}

/* Bytes of the UTF-8 sequence at p, 0 if it is none (RFC 3629: no surrogates, no overlong forms). */
static size_t utf8_sequence(const unsigned char *p, size_t n)
{
    static const struct { unsigned char first_lo, first_hi, second_lo, second_hi, bytes; } form[] = {
        { 0x00, 0x7f, 0, 0, 1 },          { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
        { 0xe1, 0xec, 0x80, 0xbf, 3 },    { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
        { 0xf0, 0xf0, 0x90, 0xbf, 4 },    { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 } };
    for (size_t f = 0; f < sizeof form / sizeof *form; f++) {
        if (*p < form[f].first_lo || *p > form[f].first_hi) continue;
        if (form[f].bytes > n) return 0;
        if (form[f].bytes > 1 && (p[1] < form[f].second_lo || p[1] > form[f].second_hi)) return 0;
        for (int i = 2; i < form[f].bytes; i++) if ((p[i] & 0xc0) != 0x80) return 0;
        return form[f].bytes;
    }
    return 0;
}

size_t str_utf8(const char *bytes, size_t n)
{
    size_t at = 0, step;
    while (at < n && (step = utf8_sequence((const unsigned char *)bytes + at, n - at)) > 0) at += step;
    return at;
}

/* File names may hold any bytes, JSON only UTF-8: what is none becomes U+FFFD. */
void str_json(struct str *s, const char *text)
{
    str_add(s, "\"");
    for (size_t step; *text; text += step ? step : 1) {
        step = utf8_sequence((const unsigned char *)text, strnlen(text, 4));
        if (!step) str_add(s, "\\ufffd");
        else if (*text == '"' || *text == '\\') str_printf(s, "\\%c", *text);
        else if (*text == '\n') str_add(s, "\\n");
        else if (*text == '\t') str_add(s, "\\t");
        else if ((unsigned char)*text < 0x20 || *text == 0x7f) str_printf(s, "\\u%04x", *text);
        else str_addn(s, text, step);
    }
    str_add(s, "\"");
}

int str_is_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n >= 1 && n <= 63 && !text[n];
}

/* Optimal string alignment distance: insert, delete, replace, swap neighbours. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    int row[3][LONGEST + 1], la = (int)strlen(a), lb = (int)strlen(b);
    if (la > LONGEST || lb > LONGEST) return INT_MAX;
    for (int j = 0; j <= lb; j++) row[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

const char *str_nearest(const char *text, const char *const *candidates)
{
    const char *best = NULL;
    int best_distance = (int)strlen(text) / 3 + 1;      /* one slip in three letters, at least one */
    for (; *candidates; candidates++) {
        int begins = strlen(text) > 2 && !strncmp(text, *candidates, strlen(text));
        int d = begins ? 0 : distance(text, *candidates);
        if (d < best_distance || (d == best_distance && !best)) best = *candidates, best_distance = d;
    }
    return best;
}
