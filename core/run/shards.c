/* shards -- see shards.h. */
#include "run/shards.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/scratch.h"
#include "base/str.h"
#include "run/task.h"
#include "store/merge.h"

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
    int state = !strcmp(v[1].text, "done") ? SHARDS_DONE
              : !strcmp(v[1].text, "failed") || !strcmp(v[1].text, "timeout") ? SHARDS_FAILED : SHARDS_MISSING;
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
    struct task_shards shards;
    if (task_shards_read(&shards, folder, err) != 0) return -1;
    for (size_t i = 0; i < shards.n; i++) read_shard(s, shards.path[i]);
    task_shards_free(&shards);
    return 0;
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

/* ---- what was done before ---- */

/* Two databases in a folder of their own: one asks which runs are done elsewhere, the other takes those over. */
struct known { char folder[WHOLE_PATH]; struct store *asks, *takes; };

static int known_path(const struct known *k, const char *name, char path[WHOLE_PATH], struct lab_err *err)
{
    return snprintf(path, WHOLE_PATH, "%s/%s", k->folder, name) < WHOLE_PATH ? 0 : lab_fail(err, "%s: is too long", k->folder);
}

static int known_open(struct known *k, struct lab_err *err)
{
    char path[WHOLE_PATH];
    if (scratch_make(k->folder, "known", err) != 0) return -1;
    if (known_path(k, "asks.db", path, err) != 0 || store_open(&k->asks, path, STORE_WRITE, err) != 0) return -1;
    return known_path(k, "takes.db", path, err) == 0 ? store_open(&k->takes, path, STORE_WRITE, err) : -1;
}

static void known_close(struct known *k)
{
    store_close(k->asks);
    store_close(k->takes);
    scratch_remove(k->folder);
}

static int take_known(struct known *k, const struct shards *s, const char *db, int64_t *n, struct lab_err *err)
{
    for (size_t i = 0; i < s->runs; i++) if (merge_want(k->asks, s->key[i], err) != 0) return -1;
    if (merge_strike_done(k->asks, db, err) != 0) return -1;
    for (size_t i = 0; i < s->runs; i++) {
        int open;
        if (merge_is_wanted(k->asks, s->key[i], &open, err) != 0 || (!open && merge_want(k->takes, s->key[i], err) != 0)) return -1;
        *n += !open;
    }
    return *n ? merge_wanted(k->takes, db, err) : 0;
}

static int publish_known(struct known *k, const char *folder, struct lab_err *err)
{
    char copy[WHOLE_PATH], shard[WHOLE_PATH];
    if (snprintf(shard, sizeof shard, "%s/shards/known.db", folder) >= WHOLE_PATH) return lab_fail(err, "%s: is too long", folder);
    return known_path(k, "copy.db", copy, err) == 0 && merge_copy(k->takes, copy, err) == 0 ? whole_copy(copy, shard, err) : -1;
}

int shards_add_known(const char *folder, const char *db, int64_t *n, struct lab_err *err)
{
    struct shards s = { .runs = 0 };
    struct known k = { .asks = NULL, .takes = NULL };
    *n = 0;
    int rc = read_keys(&s, folder, err) == 0 && known_open(&k, err) == 0 ? take_known(&k, &s, db, n, err) : -1;
    if (rc == 0 && *n) rc = publish_known(&k, folder, err);
    known_close(&k);
    shards_release(&s);
    return rc == 0 ? 0 : -1;
}

/* ---- counting ---- */

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
