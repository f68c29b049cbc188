/* files -- see files.h. */
#include "store/files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/str.h"
#include "base/whole.h"

enum { KEY = 16 };                   /* digits of a key in a file's name */

const char *const files_folder[FILES_KINDS] = { "weights", "logs", "checkpoints" };

/* left: put aside by fsck.  As what a stopped writer left, it is of use to nobody unless its run is running. */
static const struct { enum files_kind kind; const char *suffix; int left; } known[] = {
    { FILES_WEIGHTS, ".safetensors", 0 }, { FILES_WEIGHTS, ".safetensors.damaged", 1 },
    { FILES_LOG, ".log", 0 },
    { FILES_CHECKPOINT, ".a", 0 }, { FILES_CHECKPOINT, ".b", 0 } };

/* ---- whose: keys that the databases know, sorted ---- */

struct owner { char key[KEY + 1]; enum files_owner owner; };
struct owners { struct owner *item; size_t n, cap; int failed; struct lab_err *err; };

static int by_key(const void *a, const void *b) { return strcmp(((const struct owner *)a)->key, ((const struct owner *)b)->key); }

static int add_owner(struct owners *o, const char *key, enum files_owner owner)
{
    if (mem_grow(&o->item, &o->cap, o->n + 1, sizeof *o->item, o->err) != 0) return o->failed = 1;
    struct owner *new = &o->item[o->n++];
    *new = (struct owner){ .owner = owner };
    snprintf(new->key, sizeof new->key, "%.16s", key);
    return 0;
}

/* A running attempt counts if its process is there: asked when the rows are in. */
static int take_run(void *ctx, int n, const struct store_value *v)
{
    (void)n;
    return add_owner(ctx, v[0].text, v[1].integer ? FILES_OF_DONE : FILES_OF_OPEN);
}

struct running { char (*key)[HASH_HEX]; size_t n, cap; int failed; struct lab_err *err; };

static int take_running(void *ctx, int n, const struct store_value *v)
{
    struct running *r = ctx;
    (void)n;
    if (mem_grow(&r->key, &r->cap, r->n + 1, sizeof *r->key, r->err) != 0) return r->failed = 1;
    snprintf(r->key[r->n++], HASH_HEX, "%s", v[0].text);
    return 0;
}

static int ask_running(struct owners *o, struct store *s, struct lab_err *err)
{
    struct running r = { .err = err };
    struct store_rows rows = { NULL, take_running, &r };
    int rc = store_query(s, "SELECT r.run_key FROM attempt a JOIN run r USING(run_id) WHERE a.status = 'running'", NULL, 0, 0, &rows, err);
    if (r.failed) rc = -1;
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        struct store_status status;
        rc = store_run_status(s, r.key[i], &status, err);
        if (rc == 0 && status.state == STORE_RUNNING && add_owner(o, r.key[i], FILES_OF_RUNNING) != 0) rc = -1;
    }
    free(r.key);
    return rc;
}

static int ask(struct owners *o, struct store *s, struct lab_err *err)
{
    static const char sql[] =
        "SELECT run_key, EXISTS(SELECT 1 FROM attempt a WHERE a.run_id = r.run_id AND a.status = 'done') FROM run r"
        " UNION ALL SELECT DISTINCT task_key, 1 FROM run";       /* ceilings are computed by task, and cost little */
    struct store_rows rows = { NULL, take_run, o };
    o->err = err;
    if (store_query(s, sql, NULL, 0, 0, &rows, err) != 0 || o->failed) return -1;
    return ask_running(o, s, err);
}

/* The strongest claim of any database; NOBODY if there is none. */
static enum files_owner owner_of(const struct owners *o, const char *name)
{
    struct owner wanted = { .owner = FILES_OF_NOBODY };
    enum files_owner best = FILES_OF_NOBODY;
    snprintf(wanted.key, sizeof wanted.key, "%.16s", name);
    const struct owner *found = o->n ? bsearch(&wanted, o->item, o->n, sizeof *o->item, by_key) : NULL;
    if (!found) return best;
    while (found > o->item && !by_key(found - 1, &wanted)) found--;
    for (; found < o->item + o->n && !by_key(found, &wanted); found++) if (found->owner > best) best = found->owner;
    return best;
}

/* ---- the databases of the folder ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Does it begin as lab's databases do?  "SQLite format 3" and the application id; without taking SQLite's locks, for a
 * file that this process has open through SQLite must not be opened and closed beside it. */
static int looks_like_ours(const char *path)
{
    static const unsigned char id[] = { 'L', 'A', 'B', '1' };
    unsigned char head[72] = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0) close(fd);
    return n == sizeof head && !memcmp(head, "SQLite format 3", 16) && !memcmp(head + 68, id, 4);
}

static int is_backup(const char *name) { return strstr(name, ".backup") != NULL; }

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void ask_sibling(struct files *f, struct owners *o, const char *path)
{
    struct store *s;
    struct lab_err why;
    if (store_open(&s, path, STORE_READ, &why) == 0) {
        int rc = ask(o, s, &why);
        store_close(s);
        if (rc == 0) return;
    }
    snprintf(f->unread, sizeof f->unread, "%s", why.msg);
}

/* The database, or a file of its own: to close one of those would undo the locks that this process has on it. */
static int is_own(const char *name, const char *path, const char *db)
{
    static const char *const suffix[] = { "-wal", "-shm", "-journal", "-lock" };
    size_t n = strlen(base_of(db));
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
        if (!strncmp(name, base_of(db), n) && !strcmp(name + n, suffix[i])) return 1;
    return same_file(path, db);
}

static int ask_siblings(struct files *f, struct owners *o, const char *db, struct lab_err *err)
{
    struct str folder = { 0 }, path = { 0 };
    str_addn(&folder, db, (size_t)(base_of(db) - db));
    DIR *dir = folder.failed ? NULL : opendir(folder.len ? folder.text : ".");
    for (struct dirent *e; dir && (e = readdir(dir)); ) {
        struct stat st;
        str_clear(&path);
        str_printf(&path, "%s%s", str_text(&folder), e->d_name);
        if (path.failed || is_backup(e->d_name) || stat(path.text, &st) != 0 || !S_ISREG(st.st_mode) || is_own(e->d_name, path.text, db)) continue;
        if (looks_like_ours(path.text)) ask_sibling(f, o, path.text);
    }
    int failed = folder.failed || path.failed;
    int rc = failed ? lab_fail(err, "%s: out of memory for the names beside it", db) :
             dir ? 0 : lab_fail(err, "%s: its folder cannot be read: %s", db, strerror(errno));
    if (dir) closedir(dir);
    str_free(&folder);
    str_free(&path);
    return rc;
}

/* ---- the files ---- */

static int by_path(const void *a, const void *b) { return strcmp(((const struct files_item *)a)->path, ((const struct files_item *)b)->path); }

/* What follows the key; of a checkpoint what follows ".DATABASE", eight digits. */
static const char *suffix_of(const char *name, enum files_kind kind)
{
    const char *rest = name + KEY;
    return kind == FILES_CHECKPOINT && *rest == '.' && strspn(rest + 1, "0123456789abcdef") == 8 ? rest + 9 : rest;
}

static int add_item(struct files *f, const struct owners *o, enum files_kind kind, const char *folder, const char *name, struct lab_err *err)
{
    struct str path = { 0 };
    struct stat st;
    size_t k = 0, n = strlen(name);
    const char *of = whole_of(name, &n);             /* n: of the file's own name */
    char own[NAME_MAX + 1];
    snprintf(own, sizeof own, "%.*s", (int)n, of ? of : name);
    if (strspn(own, "0123456789abcdef") != KEY) return 0;
    while (k < sizeof known / sizeof *known && (known[k].kind != kind || strcmp(known[k].suffix, suffix_of(own, kind)))) k++;
    if (k == sizeof known / sizeof *known) return 0;
    str_printf(&path, "%s/%s", folder, name);
    if (path.failed || lstat(path.text, &st) != 0 || !S_ISREG(st.st_mode) || mem_grow(&f->item, &f->cap, f->n + 1, sizeof *f->item, err) != 0) {
        int rc = path.failed || errno == ENOMEM ? lab_fail(err, "out of memory: could not list %s", folder) : 0;
        str_free(&path);
        return rc;
    }
    enum files_owner owner = owner_of(o, own);
    if ((of || known[k].left) && owner != FILES_OF_RUNNING) owner = FILES_OF_NOBODY;
    if (owner == FILES_OF_NOBODY && *f->unread) owner = FILES_OF_OPEN;
    f->item[f->n++] = (struct files_item){ path.text, kind, owner, st.st_size };
    return 0;
}

static int list_folder(struct files *f, const struct owners *o, enum files_kind kind, const char *db, struct lab_err *err)
{
    struct str folder = { 0 };
    str_addn(&folder, db, (size_t)(base_of(db) - db));
    str_add(&folder, files_folder[kind]);
    int rc = folder.failed ? lab_fail(err, "%s: out of memory for the names beside it", db) : 0;
    DIR *dir = rc == 0 ? opendir(folder.text) : NULL;            /* it need not be there */
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir)); ) rc = add_item(f, o, kind, folder.text, e->d_name, err);
    if (dir) closedir(dir);
    str_free(&folder);
    return rc;
}

int files_read(struct files *f, struct store *s, struct lab_err *err)
{
    struct owners o = { .err = err };
    *f = (struct files){ 0 };
    int rc = ask(&o, s, err);
    if (rc == 0) rc = ask_siblings(f, &o, store_path(s), err);
    if (rc == 0 && o.failed) rc = -1;
    if (o.n) qsort(o.item, o.n, sizeof *o.item, by_key);
    for (int kind = 0; rc == 0 && kind < FILES_KINDS; kind++) rc = list_folder(f, &o, (enum files_kind)kind, store_path(s), err);
    if (f->n) qsort(f->item, f->n, sizeof *f->item, by_path);
    free(o.item);
    if (rc != 0) files_release(f);
    return rc;
}

void files_release(struct files *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->item[i].path);
    free(f->item);
    *f = (struct files){ 0 };
}
