/* conf -- see conf.h.  inih splits lines into section, key and value; this file decides what inih gets to see.
 *
 * Left alone, inih 55 cuts lines (comments too) after 199 bytes, takes an indented line
 * for a continuation and ':' for '=', and passes duplicates and text after `]`, all with
 * return code 0.  So next_line checks each line first and hands over nothing but
 * `[section]` and `key=value`, without comments and blanks; the first line that it
 * cannot vouch for ends the reading.
 */
#include "exp/conf.h"
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/str.h"

enum { TEXT_LIMIT = 1 << 20,         /* bytes of a file: a sanity bound, a long experiment has some 2000 */
       LINE_LIMIT = INI_MAX_LINE - 1,/* bytes of `key=value`: what inih keeps of a line */
       SECTION_LIMIT = 49,           /* bytes of a section's name: likewise */
       ENTRY_LIMIT = 4096 };         /* keys, and sections: duplicates are searched linearly */
#define BLANKS " \t"

struct span { const char *p; size_t n; };            /* a piece of the text, without NUL */
struct reader {
    struct conf *conf;
    struct lab_err *err;
    const char *at, *end;                            /* what is still unread */
    int line, failed;
};

/* ---- messages ---- */

static int vfail(const struct conf_entry *e, struct lab_err *err, const char *fmt, va_list ap)
{
    struct lab_err what;
    vsnprintf(what.msg, sizeof what.msg, fmt, ap);
    return e->line ? lab_fail(err, "%s:%d: %s", e->file, e->line, what.msg) : lab_fail(err, "%s: %s", e->file, what.msg);
}

int conf_fail(const struct conf_entry *e, struct lab_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfail(e, err, fmt, ap);
    va_end(ap);
    return -1;
}

__attribute__((format(printf, 2, 3)))
static int refuse(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfail(&(struct conf_entry){ .file = r->conf->path, .line = r->line }, r->err, fmt, ap);
    va_end(ap);
    r->failed = 1;
    return -1;
}

/* Bytes of s that fit in a message, cut between characters: for "%.*s". */
static int shown(struct span s) { return (int)str_utf8(s.p, s.n < 60 ? s.n : 60); }

/* ---- checks of a piece of text; NULL, or what is wrong with it and what to do about it ---- */

struct fault { const char *what, *in_file, *in_argument; };

static struct span trim(struct span s)
{
    while (s.n && strchr(BLANKS, s.p[s.n - 1])) s.n--;
    while (s.n && strchr(BLANKS, *s.p)) s.p++, s.n--;
    return s;
}

static const struct fault *bad_bytes(struct span s)
{
    static const struct fault nul = { "a NUL byte", "save the file as plain UTF-8 text", "leave it out" },
        carriage_return = { "a carriage return inside the line", "end lines with a line feed", "leave it out" },
        control = { "a control character", "remove it", "remove it" },
        not_utf8 = { "bytes that are not UTF-8", "save the file as UTF-8", "write it in UTF-8, as a terminal in a UTF-8 locale does" };
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\0') return &nul;
        if (s.p[i] == '\r') return &carriage_return;
        if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7f) return &control;
    }
    return str_utf8(s.p, s.n) == s.n ? NULL : &not_utf8;
}

static int is_name(struct span s)
{
    size_t i = 0;
    while (i < s.n && s.p[i] && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", s.p[i])) i++;
    return s.n > 0 && i == s.n;
}

/* Where ` ;` starts a comment, or s.n. */
static size_t comment_at(struct span s)
{
    for (size_t i = 1; i < s.n; i++)
        if (s.p[i] == ';' && strchr(BLANKS, s.p[i - 1])) return i;
    return s.n;
}

static const struct fault *bad_value(struct span s)
{
    static const struct fault hash = { "'#', which does not start a comment here", "put it on a line of its own or write ` ;`", "leave it out" },
        comment = { "` ;`, which starts a comment", "leave it out", "leave it out" };
    if (memchr(s.p, '#', s.n)) return &hash;
    return (s.n && *s.p == ';') || comment_at(s) < s.n ? &comment : NULL;
}

/* ---- entries ---- */

const struct conf_entry *conf_find(const struct conf *c, const char *section, const char *key)
{
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->entry[i].key, key) && !strcmp(c->entry[i].section, section)) return &c->entry[i];
    return NULL;
}

/* Fills the three texts of an entry from one block, which starts at ->section. */
static int fill_entry(struct conf_entry *e, struct span section, struct span key, struct span value, struct lab_err *err)
{
    char *block = mem_alloc(section.n + key.n + value.n + 3, err);
    if (!block) return -1;
    e->section = memcpy(block, section.p, section.n);
    e->key = memcpy(block + section.n + 1, key.p, key.n);
    e->value = memcpy(block + section.n + 1 + key.n + 1, value.p, value.n);
    return 0;
}

static void free_entry(struct conf_entry *e) { free((char *)e->section); }

static int add_entry(struct conf *c, const struct conf_entry *e, struct lab_err *err)
{
    if (mem_grow(&c->entry, &c->cap, c->n + 1, sizeof *c->entry, err) != 0) return -1;
    c->entry[c->n++] = *e;
    return 0;
}

static struct span span_of(const char *text) { return (struct span){ text, strlen(text) }; }

/* inih calls this for every `key=value`; 0 means error there. */
static int on_key(void *ctx, const char *section, const char *key, const char *value)
{
    struct reader *r = ctx;
    if (r->failed) return 0;
    const struct conf_entry *old = conf_find(r->conf, section, key);
    struct conf_entry e = { .file = r->conf->path, .line = r->line };
    if (old) return refuse(r, "[%s] %s was given before, on line %d; remove one of the two", section, key, old->line), 0;
    if (r->conf->n == ENTRY_LIMIT) return refuse(r, "too many keys; the limit is %d", ENTRY_LIMIT), 0;
    if (fill_entry(&e, span_of(section), span_of(key), span_of(value), r->err) != 0) return r->failed = 1, 0;
    if (add_entry(r->conf, &e, r->err) != 0) return free_entry(&e), r->failed = 1, 0;
    return 1;
}

/* ---- the reader: one line in, one clean line out ---- */

static int note_heading(struct reader *r, struct span name)
{
    struct conf *c = r->conf;
    struct conf_entry e = { .file = c->path, .line = r->line };
    for (size_t i = 0; i < c->n_heading; i++) {
        const struct conf_entry *h = &c->heading[i];
        if (strlen(h->section) == name.n && !memcmp(h->section, name.p, name.n))
            return refuse(r, "section [%s] was opened before, on line %d; put its keys together", h->section, h->line);
    }
    if (c->n_heading == ENTRY_LIMIT) return refuse(r, "too many sections; the limit is %d", ENTRY_LIMIT);
    if (mem_grow(&c->heading, &c->cap_heading, c->n_heading + 1, sizeof *c->heading, r->err) != 0) return r->failed = 1, -1;
    if (fill_entry(&e, name, (struct span){ "", 0 }, (struct span){ "", 0 }, r->err) != 0) return r->failed = 1, -1;
    c->heading[c->n_heading++] = e;
    return 0;
}

static int section_line(struct reader *r, struct span s, char *out, size_t room)
{
    const char *close = memchr(s.p, ']', s.n);
    if (!close) return refuse(r, "section '%.*s' does not end; close it with ']'", shown(s), s.p);
    struct span name = { s.p + 1, (size_t)(close - s.p - 1) };
    struct span rest = trim((struct span){ close + 1, (size_t)(s.p + s.n - close - 1) });
    if (rest.n && *rest.p != ';')
        return refuse(r, "'%.*s' stands after ']'; only a comment, ` ; ...`, may", shown(rest), rest.p);
    if (!is_name(name))
        return refuse(r, "section [%.*s]: a name is made of letters, digits, '_', '-' and '.', without blanks", shown(name), name.p);
    if (name.n > SECTION_LIMIT || name.n + 3 > room)
        return refuse(r, "section [%.*s...] has %zu bytes; the limit is %d", shown(name), name.p, name.n, SECTION_LIMIT);
    snprintf(out, room, "[%.*s]", (int)name.n, name.p);
    return note_heading(r, name);
}

static int key_line(struct reader *r, struct span s, char *out, size_t room)
{
    size_t split = 0;
    s.n = comment_at(s);
    s = trim(s);
    while (split < s.n && s.p[split] != '=' && s.p[split] != ':') split++;
    if (split == s.n) return refuse(r, "'%.*s' has no '='; write key = value", shown(s), s.p);
    struct span key = trim((struct span){ s.p, split });
    struct span value = trim((struct span){ s.p + split + 1, s.n - split - 1 });
    if (s.p[split] == ':') return refuse(r, "'%.*s' has ':' after the key; write key = value", shown(s), s.p);
    if (!key.n) return refuse(r, "'%.*s' has no key before '='; write key = value", shown(s), s.p);
    if (!is_name(key))
        return refuse(r, "key '%.*s': a name is made of letters, digits, '_', '-' and '.', without blanks", shown(key), key.p);
    if (!r->conf->n_heading) return refuse(r, "'%.*s' stands before the first [section]; put it under one", shown(s), s.p);
    const struct fault *fault = bad_value(value);
    if (fault) return refuse(r, "the value of '%.*s' holds %s; %s", shown(key), key.p, fault->what, fault->in_file);
    if (key.n + 1 + value.n >= room)
        return refuse(r, "'%.*s' and its value take %zu bytes; the limit is %zu: shorten it (a range, 0..9, may replace a list)",
                      shown(key), key.p, key.n + 1 + value.n, room - 1);
    snprintf(out, room, "%.*s=%.*s", (int)key.n, key.p, (int)value.n, value.p);
    return 0;
}

/* inih's reader: the next line that holds something, cleaned, into out; NULL at the end and after an error. */
static char *next_line(char *out, int room, void *ctx)
{
    struct reader *r = ctx;
    while (!r->failed && r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        struct span raw = { r->at, (size_t)((stop ? stop : r->end) - r->at) };
        r->at += raw.n + (stop != NULL);
        r->line++;
        if (raw.n && raw.p[raw.n - 1] == '\r') raw.n--;
        const struct fault *fault = bad_bytes(raw);
        if (fault) return refuse(r, "the line holds %s; %s", fault->what, fault->in_file), NULL;
        struct span s = trim(raw);
        if (!s.n || *s.p == ';' || *s.p == '#') continue;
        if (s.p != raw.p)
            return refuse(r, "blanks before '%.*s'; start it in the first column (no value goes on over lines)", shown(s), s.p), NULL;
        if ((*s.p == '[' ? section_line : key_line)(r, s, out, (size_t)room) != 0) return NULL;
        return out;
    }
    return NULL;
}

/* ---- whole files ---- */

/* SHA-256 of the text, and of the overrides in the order of the entries. */
static void identify(struct conf *c)
{
    struct hash h;
    hash_init(&h);
    hash_add(&h, c->text, c->length);
    for (size_t i = 0; i < c->n; i++) {
        const struct conf_entry *e = &c->entry[i];
        if (e->line) continue;
        hash_add(&h, e->section, strlen(e->section) + 1);
        hash_add(&h, e->key, strlen(e->key) + 1);
        hash_add(&h, e->value, strlen(e->value) + 1);
    }
    hash_end(&h, c->sha256);
}

static int parse(struct conf *c, struct lab_err *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    struct reader r = { .conf = c, .err = err, .at = c->text, .end = c->text + c->length };
    if (c->length >= 3 && !memcmp(c->text, bom, 3)) r.at += 3;
    int rc = ini_parse_stream(next_line, &r, on_key, &r);
    if (r.failed) return -1;
    if (rc != 0) return lab_fail(err, "%s: the INI parser stopped with code %d at its line %d", c->path, rc, r.line);
    identify(c);
    return 0;
}

/* Reads at most TEXT_LIMIT + 1 bytes. */
static int load(struct conf *c, const char *path, struct lab_err *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    c->text = mem_alloc(TEXT_LIMIT + 2, err);
    if (!c->text) return fclose(f), -1;
    errno = 0;
    c->length = fread(c->text, 1, TEXT_LIMIT + 1, f);
    int bad = ferror(f), why = errno;
    fclose(f);
    return bad ? lab_fail(err, "%s: cannot be read: %s", path, strerror(why)) : 0;
}

static int keep(struct conf *c, const char *text, size_t length, struct lab_err *err)
{
    c->text = mem_alloc(length + 1, err);
    if (!c->text) return -1;
    c->length = length;
    memcpy(c->text, text, length);
    return 0;
}

static int read_any(struct conf *c, const char *name, const char *text, size_t length, struct lab_err *err)
{
    *c = (struct conf){ .path = mem_strdup(name, err) };
    if (!c->path) return -1;
    if ((text ? keep(c, text, length, err) : load(c, name, err)) != 0) goto fail;
    if (c->length > TEXT_LIMIT) {
        lab_fail(err, "%s: larger than %d bytes, the limit for an experiment file", name, TEXT_LIMIT);
        goto fail;
    }
    if (parse(c, err) != 0) goto fail;
    return 0;
fail:
    conf_free(c);
    return -1;
}

int conf_read(struct conf *c, const char *path, struct lab_err *err) { return read_any(c, path, NULL, 0, err); }

int conf_read_text(struct conf *c, const char *name, const char *text, size_t length, struct lab_err *err)
{
    return read_any(c, name, text, length, err);
}

int conf_override(struct conf *c, const char *assignment, struct lab_err *err)
{
    const char *equals = strchr(assignment, '=');
    struct span head = trim((struct span){ assignment, equals ? (size_t)(equals - assignment) : 0 });
    int dotted = head.n > 6 && (!memcmp(head.p, "sweep.", 6) || !memcmp(head.p, "paper.", 6));       /* the keys of these have dots */
    const char *dot = dotted ? head.p + 5 : memrchr(head.p, '.', head.n);
    if (!dot) return lab_fail(err, "--set: '%.60s' is not SECTION.KEY=VALUE", assignment);
    struct span section = { head.p, (size_t)(dot - head.p) }, key = { dot + 1, head.n - section.n - 1 };
    struct span value = trim(span_of(equals + 1));
    struct conf_entry *e = &(struct conf_entry){ .file = "--set" };
    const struct fault *fault = bad_bytes(span_of(assignment));
    if (fault) return conf_fail(e, err, "the argument holds %s; %s", fault->what, fault->in_argument);
    if (!is_name(section) || !is_name(key)) return conf_fail(e, err, "'%.60s' is not SECTION.KEY=VALUE", assignment);
    if ((fault = bad_value(value))) return conf_fail(e, err, "%.*s holds %s; %s", shown(head), head.p, fault->what, fault->in_argument);
    if (section.n > SECTION_LIMIT || key.n + 1 + value.n > LINE_LIMIT)
        return conf_fail(e, err, "%.*s: the limit is %d bytes for a section and %d for a key with its value", shown(head), head.p,
                         SECTION_LIMIT, LINE_LIMIT);
    if (fill_entry(e, section, key, value, err) != 0) return -1;
    struct conf_entry *old = (struct conf_entry *)conf_find(c, e->section, e->key);
    if (old) {
        free_entry(old);
        *old = *e;
    } else if (add_entry(c, e, err) != 0) {
        free_entry(e);
        return -1;
    }
    identify(c);
    return 0;
}

void conf_free(struct conf *c)
{
    for (size_t i = 0; i < c->n; i++) free_entry(&c->entry[i]);
    for (size_t i = 0; i < c->n_heading; i++) free_entry(&c->heading[i]);
    free(c->entry);
    free(c->heading);
    free(c->text);
    free(c->path);
    *c = (struct conf){ 0 };
}
