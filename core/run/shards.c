/* shards -- see shards.h. */
#include "run/shards.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/str.h"
#include "store/store.h"

/* ---- the plan's runs ---- */

/* A line begins {"ordinal":3,"run_key":"..." */
static int take_keys(struct shards *s, FILE *f, const char *path, struct lab_err *err)
{
    size_t cap = 0, size = 0;
    char *line = NULL;
    int rc = 0;
    while (rc == 0 && getline(&line, &size, f) > 0) {
        size_t ordinal;
        rc = mem_grow(&s->key, &cap, s->runs + 1, sizeof *s->key, err);
        if (rc == 0 && (sscanf(line, "{\"ordinal\":%zu,\"run_key\":\"%64[0-9a-f]\"", &ordinal, s->key[s->runs]) != 2 || ordinal != s->runs))
            rc = lab_fail(err, "%s:%zu: is no run of a plan; freeze it again into a new folder", path, s->runs + 1);
        s->runs++;
    }
    free(line);
    return rc;
}

static int read_keys(struct shards *s, const char *folder, struct lab_err *err)
{
    struct str path = { 0 };
    str_printf(&path, "%s/runs.jsonl", folder);
    FILE *f = path.failed ? NULL : fopen(path.text, "rbe");
    int rc = f ? take_keys(s, f, path.text, err) : lab_fail(err, "%s: cannot be read: %s", str_text(&path), strerror(errno));
    if (f) fclose(f);
    str_free(&path);
    return rc;
}

static int by_key(const void *a, const void *b, void *keys)
{
    const char (*key)[HASH_HEX] = keys;
    return strcmp(key[*(const size_t *)a], key[*(const size_t *)b]);
}

static int sort_keys(struct shards *s, struct lab_err *err)
{
    s->state = mem_alloc(s->runs, err);
    s->sorted = s->state ? mem_alloc(s->runs * sizeof *s->sorted, err) : NULL;
    if (!s->sorted) return -1;
    for (size_t i = 0; i < s->runs; i++) s->sorted[i] = i;
    qsort_r(s->sorted, s->runs, sizeof *s->sorted, by_key, s->key);
    return 0;
}

/* The place of a key among the sorted, or s->runs. */
static size_t find(const struct shards *s, const char *key)
{
    size_t lo = 0, hi = s->runs;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        int order = strcmp(s->key[s->sorted[middle]], key);
        if (order == 0) return s->sorted[middle];
        if (order < 0) lo = middle + 1;
        else hi = middle;
    }
    return s->runs;
}

/* ---- what was published ---- */

static int take_run(void *ctx, int n, const struct store_value *v)
{
    struct shards *s = ctx;
    if (n != 2 || v[0].type != STORE_TEXT || v[1].type != STORE_TEXT) return 0;
    size_t run = find(s, v[0].text);
    int state = !strcmp(v[1].text, "done") ? SHARDS_DONE : !strcmp(v[1].text, "failed") || !strcmp(v[1].text, "timeout") ? SHARDS_FAILED : SHARDS_MISSING;
    if (run < s->runs && state > s->state[run]) s->state[run] = (unsigned char)state;
    return 0;
}

static void read_shard(struct shards *s, const char *path)
{
    struct store *store;
    struct lab_err why;
    struct store_rows rows = { NULL, take_run, s };
    int rc = store_open(&store, path, STORE_READ, &why);
    if (rc == 0) {
        rc = store_query(store, "SELECT run_key, state FROM runs", NULL, 0, 0, &rows, &why);
        store_close(store);
    }
    if (rc == 0) s->files++;
    else snprintf(s->unread, sizeof s->unread, "%s", why.msg);
}

static int read_folder(struct shards *s, const char *folder, struct lab_err *err)
{
    struct str path = { 0 };
    str_printf(&path, "%s/shards", folder);
    DIR *d = path.failed ? NULL : opendir(path.text);
    size_t stem = path.len;
    int rc = d ? 0 : lab_fail(err, "%s: cannot be read: %s", str_text(&path), strerror(errno));
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (e->d_name[0] == '.' || n < 4 || strcmp(e->d_name + n - 3, ".db")) continue;
        path.len = stem;
        str_printf(&path, "/%s", e->d_name);
        if (!path.failed) read_shard(s, path.text);
    }
    if (d) closedir(d);
    if (path.failed) rc = lab_fail(err, "out of memory for the shards of a plan");
    str_free(&path);
    return rc;
}

int shards_read(struct shards *s, const char *folder, struct lab_err *err)
{
    *s = (struct shards){ .runs = 0 };
    int rc = read_keys(s, folder, err) == 0 && sort_keys(s, err) == 0 ? read_folder(s, folder, err) : -1;
    if (rc != 0) shards_release(s);
    return rc;
}

void shards_release(struct shards *s)
{
    free(s->key);
    free(s->state);
    free(s->sorted);
    *s = (struct shards){ .runs = 0 };
}

struct shards_count shards_of_task(const struct shards *s, int64_t task, int64_t tasks)
{
    struct shards_count c = { 0 };
    for (size_t i = (size_t)task; i < s->runs; i += (size_t)tasks) {
        c.runs++;
        c.done += s->state[i] == SHARDS_DONE;
        c.failed += s->state[i] == SHARDS_FAILED;
        c.missing += s->state[i] == SHARDS_MISSING;
    }
    return c;
}
