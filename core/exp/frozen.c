/* frozen -- see frozen.h.  plan.json is ours alone: its reader knows its few keys and refuses any other. */
#include "exp/frozen.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "base/mem.h"
#include "base/str.h"
#include "base/whole.h"
#include "exp/env.h"

static const char *const part[] = { "plan.ini", "runs.jsonl", "plan.json", "shards", "checkpoints", "weights", "logs" };
enum { INI, RUNS, HEAD, FIRST_FOLDER, N_PART = sizeof part / sizeof *part, FORMAT = 1 };

static void path_of(struct str *out, const char *folder, int which) { str_printf(out, "%s/%s", folder, part[which]); }

/* ---- plan.json, read ---- */

enum kind { TEXT, STAMP, DIGEST, NUMBER, TEXTS };
static const struct row { const char *key; enum kind kind; size_t at, count_at; } rows[] = {
    { "name", TEXT, offsetof(struct frozen_head, name), 0 },
    { "path", TEXT, offsetof(struct frozen_head, path), 0 },
    { "lab", TEXT, offsetof(struct frozen_head, lab), 0 },
    { "created", STAMP, offsetof(struct frozen_head, created), 0 },
    { "hash", DIGEST, offsetof(struct frozen_head, hash), 0 },
    { "runs", NUMBER, offsetof(struct frozen_head, runs), 0 },
    { "tasks", NUMBER, offsetof(struct frozen_head, tasks), 0 },
    { "set", TEXTS, offsetof(struct frozen_head, set), offsetof(struct frozen_head, n_set) },
    { "plugin", TEXTS, offsetof(struct frozen_head, plugin), offsetof(struct frozen_head, n_plugin) } };
enum { N_ROW = sizeof rows / sizeof *rows };

struct reader { const char *at; struct lab_err *err; };

static int take(struct reader *r, char c)
{
    r->at += strspn(r->at, " \t\r\n");
    if (*r->at != c) return 0;
    r->at++;
    return 1;
}

/* Bytes of what comes next that a message shows. */
static int shown(const struct reader *r)
{
    int n = (int)strcspn(r->at, "\r\n");
    return n < 20 ? n : (int)str_utf8(r->at, 20);
}

static int expect(struct reader *r, char c)
{
    return take(r, c) ? 0 : lab_fail(r->err, "expected '%c' before '%.*s'", c, shown(r), r->at);
}

/* The character behind a backslash, as str_json writes it; 0: none of its. */
static char escaped(struct reader *r)
{
    static const char from[] = "\"\\nt", to[] = "\"\\\n\t";
    char c = *r->at, digits[5] = "";
    const char *known = c ? strchr(from, c) : NULL;
    if (known) return r->at++, to[known - from];
    if (c != 'u' || strlen(r->at) < 5) return 0;
    memcpy(digits, r->at + 1, 4);
    r->at += 5;
    long code = strtol(digits, NULL, 16);
    return code > 0 && code < 0x80 ? (char)code : '?';
}

static char *text(struct reader *r)
{
    struct str s = { 0 };
    if (expect(r, '"') != 0) return NULL;
    while (*r->at && *r->at != '"') {
        char c = *r->at++;
        if (c == '\\' && !(c = escaped(r))) break;
        str_addn(&s, &c, 1);
    }
    char *copy = s.failed || *r->at != '"' ? NULL : mem_strdup(str_text(&s), r->err);
    if (*r->at != '"') lab_fail(r->err, "a text does not end");
    else if (s.failed) lab_fail(r->err, "out of memory");
    else r->at++;
    str_free(&s);
    return copy;
}

static int number(struct reader *r, int64_t *out)
{
    char *end;
    r->at += strspn(r->at, " \t\r\n");
    errno = 0;
    *out = strtoll(r->at, &end, 10);
    if (end == r->at || errno || *out < 0) return lab_fail(r->err, "expected a whole number before '%.*s'", shown(r), r->at);
    r->at = end;
    return 0;
}

static int texts(struct reader *r, char ***list, int *n)
{
    size_t cap = 0;
    if (*list) return lab_fail(r->err, "a list is there twice");
    if (expect(r, '[') != 0) return -1;
    while (!take(r, ']')) {
        if ((*n && expect(r, ',') != 0) || mem_grow(list, &cap, (size_t)*n + 1, sizeof **list, r->err) != 0) return -1;
        if (!((*list)[*n] = text(r))) return -1;
        ++*n;
    }
    return 0;
}

static int fixed_text(struct reader *r, char *out, size_t size)
{
    char *s = text(r);
    if (!s) return -1;
    size_t n = strlen(s);
    if (n == size - 1) memcpy(out, s, size);
    free(s);
    return n == size - 1 ? 0 : lab_fail(r->err, "a text has %zu bytes, expected %zu", n, size - 1);
}

static int value(struct reader *r, const struct row *row, struct frozen_head *head)
{
    void *at = (char *)head + row->at;
    switch (row->kind) {
    case TEXT:
        free(*(char **)at);
        return (*(char **)at = text(r)) ? 0 : -1;
    case STAMP: return fixed_text(r, at, sizeof "2026-01-01T00:00:00Z");
    case DIGEST: return fixed_text(r, at, HASH_HEX);
    case NUMBER: return number(r, at);
    case TEXTS: return texts(r, at, (int *)((char *)head + row->count_at));
    }
    return -1;
}

static int entry(struct reader *r, struct frozen_head *head, unsigned *seen, int64_t *format)
{
    char *key = text(r);
    int i = 0, rc;
    if (!key) return -1;
    while (i < N_ROW && strcmp(rows[i].key, key)) i++;
    int is_format = !strcmp(key, "format");
    if (i == N_ROW && !is_format) rc = lab_fail(r->err, "unknown key '%.40s'", key);
    else rc = expect(r, ':');
    free(key);
    if (rc != 0) return -1;
    if (is_format) return number(r, format);
    *seen |= 1u << i;
    return value(r, &rows[i], head);
}

static int parse_head(struct frozen_head *head, const char *json, struct lab_err *err)
{
    struct reader r = { json, err };
    unsigned seen = 0;
    int64_t format = 0;
    if (expect(&r, '{') != 0) return -1;
    do if (entry(&r, head, &seen, &format) != 0) return -1; while (take(&r, ','));
    if (expect(&r, '}') != 0) return -1;
    if (format != FORMAT) return lab_fail(err, "its format is %lld, this lab reads %d: use the lab that froze it", (long long)format, FORMAT);
    for (int i = 0; i < N_ROW; i++) if (!(seen >> i & 1)) return lab_fail(err, "'%s' is missing", rows[i].key);
    if (head->tasks < 1 || head->tasks > FROZEN_MAX_TASKS)
        return lab_fail(err, "tasks is %lld, expected 1 to %d", (long long)head->tasks, FROZEN_MAX_TASKS);
    return 0;
}

static int load(struct str *out, const char *path, struct lab_err *err)
{
    enum { LIMIT = 1 << 20 };
    char piece[4096];
    size_t n;
    FILE *f = fopen(path, "rbe");
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    while (out->len < LIMIT && (n = fread(piece, 1, sizeof piece, f)) > 0) str_addn(out, piece, n);
    int bad = ferror(f);
    fclose(f);
    return bad || out->failed ? lab_fail(err, "%s: cannot be read", path) : 0;
}

int frozen_head_read(struct frozen_head *head, const char *folder, struct lab_err *err)
{
    struct str path = { 0 }, json = { 0 };
    struct lab_err why;
    struct stat st;
    *head = (struct frozen_head){ .name = NULL };
    path_of(&path, folder, HEAD);
    int rc = path.failed ? lab_fail(err, "out of memory") : 0;
    if (rc == 0 && stat(path.text, &st) != 0 && errno == ENOENT)
        rc = lab_fail(err, "%s: is not a plan (it has no plan.json); `lab plan FILE.ini --freeze PLAN` makes one", folder);
    if (rc == 0) rc = load(&json, path.text, err);
    if (rc == 0 && parse_head(head, str_text(&json), &why) != 0) rc = lab_fail(err, "%s: %s", path.text, why.msg);
    if (rc != 0) frozen_head_release(head);
    str_free(&path);
    str_free(&json);
    return rc;
}

void frozen_head_release(struct frozen_head *head)
{
    for (int i = 0; i < head->n_set; i++) free(head->set[i]);
    for (int i = 0; i < head->n_plugin; i++) free(head->plugin[i]);
    free(head->set);
    free(head->plugin);
    free(head->name);
    free(head->path);
    free(head->lab);
    *head = (struct frozen_head){ .name = NULL };
}

/* ---- the runs, as lines and as a hash ---- */

static void run_line(struct str *out, const struct sweep *s, size_t i)
{
    const struct run_config *c = &s->run[i].config;
    str_clear(out);
    str_printf(out, "{\"ordinal\":%zu,\"run_key\":\"%s\",\"config\":%s}\n", i, c->key, c->json);
}

/* Of all that the runs follow from; lines to file, too, unless that is NULL. */
static int walk(const struct sweep *s, FILE *file, char hash[HASH_HEX], struct lab_err *err)
{
    struct str line = { 0 };
    struct hash h;
    hash_init(&h);
    hash_add(&h, s->conf->sha256, HASH_HEX - 1);
    for (size_t i = 0; i < s->n && !line.failed; i++) {
        run_line(&line, s, i);
        hash_add(&h, str_text(&line), line.len);
        if (file) fwrite(str_text(&line), 1, line.len, file);        /* whole_close tells of errors */
    }
    hash_end(&h, hash);
    int failed = line.failed;
    str_free(&line);
    return failed ? lab_fail(err, "out of memory for the runs of a plan") : 0;
}

/* ---- writing ---- */

static void add_texts(struct str *out, const char *key, char *const *list, int n)
{
    str_printf(out, ",\n  \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        if (i) str_add(out, ", ");
        str_json(out, list[i]);
    }
    str_add(out, "]");
}

static void add_text(struct str *out, const char *key, const char *text)
{
    str_printf(out, ",\n  \"%s\": ", key);
    str_json(out, text);
}

static void print_head(struct str *out, const struct frozen_head *head)
{
    str_printf(out, "{\n  \"format\": %d", FORMAT);
    add_text(out, "lab", head->lab);
    add_text(out, "name", head->name);
    add_text(out, "path", head->path);
    add_text(out, "created", head->created);
    add_text(out, "hash", head->hash);
    str_printf(out, ",\n  \"runs\": %lld,\n  \"tasks\": %lld", (long long)head->runs, (long long)head->tasks);
    add_texts(out, "set", head->set, head->n_set);
    add_texts(out, "plugin", head->plugin, head->n_plugin);
    str_add(out, "\n}\n");
}

static int put(const char *folder, int which, const void *bytes, size_t n, struct lab_err *err)
{
    struct str path = { 0 };
    struct whole w;
    path_of(&path, folder, which);
    int rc = path.failed ? lab_fail(err, "out of memory") : whole_open(&w, path.text, err);
    if (rc == 0) {
        fwrite(bytes, 1, n, w.file);
        rc = whole_close(&w, err);
    }
    str_free(&path);
    return rc;
}

static int put_head(const char *folder, const struct frozen_head *head, struct lab_err *err)
{
    struct str json = { 0 };
    print_head(&json, head);
    int rc = json.failed ? lab_fail(err, "out of memory") : put(folder, HEAD, json.text, json.len, err);
    str_free(&json);
    return rc;
}

static int put_runs(const char *folder, const struct sweep *s, char hash[HASH_HEX], struct lab_err *err)
{
    struct str path = { 0 };
    struct whole w;
    path_of(&path, folder, RUNS);
    int rc = path.failed ? lab_fail(err, "out of memory") : whole_open(&w, path.text, err);
    str_free(&path);
    if (rc != 0) return -1;
    if (walk(s, w.file, hash, err) == 0) return whole_close(&w, err);
    whole_abandon(&w);
    return -1;
}

/* The overrides among the entries, as --set took them. */
static int overrides(struct frozen_head *head, const struct conf *conf, struct lab_err *err)
{
    size_t cap = 0;
    for (size_t i = 0; i < conf->n; i++) {
        const struct conf_entry *e = &conf->entry[i];
        struct str s = { 0 };
        if (e->line) continue;
        str_printf(&s, "%s.%s=%s", e->section, e->key, e->value);
        char *copy = s.failed ? NULL : mem_strdup(s.text, err);
        str_free(&s);
        if (!copy || mem_grow(&head->set, &cap, (size_t)head->n_set + 1, sizeof *head->set, err) != 0) return free(copy), -1;
        head->set[head->n_set++] = copy;
    }
    return 0;
}

static int plugins(struct frozen_head *head, const char *const *plugin, int n, struct lab_err *err)
{
    char path[PATH_MAX];
    head->plugin = mem_alloc((size_t)n * sizeof *head->plugin, err);
    if (!head->plugin) return -1;
    for (int i = 0; i < n; i++) {
        if (!realpath(plugin[i], path)) return lab_fail(err, "%s: %s", plugin[i], strerror(errno));
        if (str_utf8(path, strlen(path)) != strlen(path)) return lab_fail(err, "%s: the path of a plugin must be UTF-8 to stand in a plan", path);
        if (!(head->plugin[i] = mem_strdup(path, err))) return -1;
        head->n_plugin++;
    }
    return 0;
}

static int fill_head(struct frozen_head *head, const struct sweep *s, const char *const *plugin, int n_plugin, int64_t tasks, struct lab_err *err)
{
    time_t now = time(NULL);
    struct tm tm;
    *head = (struct frozen_head){ .runs = (int64_t)s->n, .tasks = tasks };
    strftime(head->created, sizeof head->created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    head->name = mem_strdup(s->name, err);
    head->path = mem_strdup(s->conf->path, err);
    head->lab = mem_strdup(LAB_VERSION, err);
    if (!head->name || !head->path || !head->lab) return -1;
    return overrides(head, s->conf, err) == 0 && plugins(head, plugin, n_plugin, err) == 0 ? walk(s, NULL, head->hash, err) : -1;
}

static int same_texts(char *const *a, int n_a, char *const *b, int n_b)
{
    int i = 0;
    while (i < n_a && i < n_b && !strcmp(a[i], b[i])) i++;
    return i == n_a && i == n_b;
}

/* 1: the folder holds this plan already; 0: it is free for one; -1: it is not. */
static int occupied(const char *folder, const struct frozen_head *want, struct lab_err *err)
{
    struct frozen_head have;
    struct str path = { 0 };
    path_of(&path, folder, HEAD);
    struct stat st;
    int there = !path.failed && stat(path.text, &st) == 0, rc = 1;
    str_free(&path);
    if (there) {
        if (frozen_head_read(&have, folder, err) != 0) return -1;
        if (strcmp(have.hash, want->hash) || !same_texts(have.plugin, have.n_plugin, want->plugin, want->n_plugin))
            rc = lab_fail(err, "%s: holds another plan (%s, %lld runs, frozen %s); choose another folder, or remove this one", folder, have.name,
                          (long long)have.runs, have.created);
        else if (have.tasks != want->tasks) {
            have.tasks = want->tasks;
            rc = put_head(folder, &have, err) == 0 ? 1 : -1;
        }
        frozen_head_release(&have);
        return rc;
    }
    DIR *d = opendir(folder);
    rc = 0;
    for (struct dirent *e; d && rc == 0 && (e = readdir(d)); ) {     /* what an earlier try left is ours */
        int i = 0;
        while (i < N_PART && strcmp(part[i], e->d_name)) i++;
        if (i == N_PART && *e->d_name != '.') rc = lab_fail(err, "%s: is not empty (%s); choose a new folder for the plan", folder, e->d_name);
    }
    if (d) closedir(d);
    return rc;
}

static int make_folders(const char *folder, struct lab_err *err)
{
    for (int i = FIRST_FOLDER; i < N_PART; i++) {
        struct str path = { 0 };
        path_of(&path, folder, i);
        int rc = path.failed ? lab_fail(err, "out of memory") : whole_folder(path.text, err);
        str_free(&path);
        if (rc != 0) return -1;
    }
    return 0;
}

int frozen_write(const char *folder, const struct sweep *s, const char *const *plugin, int n_plugin, int64_t tasks, struct lab_err *err)
{
    struct frozen_head head;
    char hash[HASH_HEX];
    int rc = fill_head(&head, s, plugin, n_plugin, tasks, err) == 0 ? occupied(folder, &head, err) : -1;
    if (rc == 0)
        rc = make_folders(folder, err) == 0 && put(folder, INI, s->conf->text, s->conf->length, err) == 0 && put_runs(folder, s, hash, err) == 0 ?
             put_head(folder, &head, err) : -1;
    frozen_head_release(&head);
    return rc < 0 ? -1 : 0;
}

/* ---- reading ---- */

/* Which run is not what was frozen?  The hash has said that something is not. */
static int name_difference(const struct frozen *f, struct lab_err *err)
{
    struct str path = { 0 }, line = { 0 };
    char *have = NULL;
    size_t cap = 0, i = 0;
    path_of(&path, f->folder, RUNS);
    FILE *file = path.failed ? NULL : fopen(path.text, "rbe");
    for (; file && i < f->sweep.n && getline(&have, &cap, file) > 0; i++) {
        run_line(&line, &f->sweep, i);
        if (strcmp(str_text(&line), have)) break;
    }
    const char *key = have ? strstr(have, "\"run_key\":\"") : NULL;
    if (i < f->sweep.n && key)
        lab_fail(err, "%s: with this lab and its plugins run %zu (%s %s seed %lld) is %.12s, but %.12s was frozen (by lab %s); work on it with that lab, "
                 "or freeze a new plan", f->folder, i, f->sweep.run[i].config.task->name, f->sweep.run[i].config.encoder->name,
                 (long long)f->sweep.run[i].config.seed, f->sweep.run[i].config.key, key + 11, f->head.lab);
    else lab_fail(err, "%s: plan.ini, plan.json and runs.jsonl do not belong together (%zu runs, %lld were frozen); freeze a new plan", f->folder,
                  f->sweep.n, (long long)f->head.runs);
    if (file) fclose(file);
    free(have);
    str_free(&path);
    str_free(&line);
    return -1;
}

static int read_conf(struct frozen *f, struct lab_err *err)
{
    struct str path = { 0 }, text = { 0 };
    path_of(&path, f->folder, INI);
    int rc = path.failed ? lab_fail(err, "out of memory") : load(&text, path.text, err);
    if (rc == 0) rc = conf_read_text(&f->conf, f->head.path, str_text(&text), text.len, err);
    for (int i = 0; rc == 0 && i < f->head.n_set; i++) rc = conf_override(&f->conf, f->head.set[i], err);
    str_free(&path);
    str_free(&text);
    return rc;
}

static int build(struct frozen *f, struct lab_err *err)
{
    struct lab_err why;
    char hash[HASH_HEX];
    if (registry_load(&f->registry, (const char *const *)f->head.plugin, f->head.n_plugin, err) != 0) return -1;
    if (sweep_build(&f->sweep, &f->conf, &f->registry, &why) != 0) return lab_fail(err, "%s: this lab cannot run the plan: %s", f->folder, why.msg);
    if (walk(&f->sweep, NULL, hash, err) != 0) return -1;
    return strcmp(hash, f->head.hash) ? name_difference(f, err) : 0;
}

int frozen_read(struct frozen *f, const char *folder, struct lab_err *err)
{
    *f = (struct frozen){ .folder = mem_strdup(folder, err) };
    if (f->folder && frozen_head_read(&f->head, folder, err) == 0 && read_conf(f, err) == 0 && build(f, err) == 0) return 0;
    frozen_release(f);
    return -1;
}

void frozen_release(struct frozen *f)
{
    sweep_free(&f->sweep);
    registry_free(&f->registry);
    conf_free(&f->conf);
    frozen_head_release(&f->head);
    free(f->folder);
    *f = (struct frozen){ .folder = NULL };
}
