/* shelf -- see shelf.h. */
#include "run/shelf.h"
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/whole.h"

/* Of a run: a folder if the shelf is shared, else what its files begin with.  Sixteen digits are unique, and short enough for every file system. */
static void place_of(struct str *out, const struct shelf *shelf, const char *key) { str_printf(out, "%s/%.16s", shelf->folder, key); }

void shelf_base(struct str *out, const struct shelf *shelf, const char *key, const char *attempt)
{
    place_of(out, shelf, key);
    if (shelf->shared) str_printf(out, "/%s", attempt);
    else str_printf(out, ".%.8s", shelf->database);
}

void shelf_make(const struct shelf *shelf, const char *key)
{
    struct str path = { 0 };
    if (shelf->shared) place_of(&path, shelf, key);
    if (path.len && !path.failed) mkdir(path.text, 0777);        /* a worker that cannot write there says so */
    str_free(&path);
}

static int is_checkpoint(const char *name)
{
    size_t n = strlen(name);
    return *name != '.' && n > 2 && (!strcmp(name + n - 2, ".a") || !strcmp(name + n - 2, ".b"));
}

static int each_own(const struct shelf *shelf, const char *key, int (*take)(void *, const char *), void *ctx)
{
    struct str base = { 0 };
    struct lab_err why;
    char path[CKPT_PATH];
    int rc = 0;
    shelf_base(&base, shelf, key, "");
    for (int slot = 0; slot < CKPT_SLOTS && rc == 0 && !base.failed; slot++)
        if (ckpt_path(path, base.text, slot, &why) == 0) rc = take(ctx, path);
    str_free(&base);
    return rc;
}

/* only: 1 checkpoints, 0 every file. */
static int each_shared(const struct shelf *shelf, const char *key, int only, int (*take)(void *, const char *), void *ctx)
{
    struct str folder = { 0 }, path = { 0 };
    place_of(&folder, shelf, key);
    DIR *d = folder.failed ? NULL : opendir(folder.text);
    int rc = 0;
    for (struct dirent *e; d && rc == 0 && (e = readdir(d)); ) {
        if (only ? !is_checkpoint(e->d_name) : !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        str_clear(&path);
        str_printf(&path, "%s/%s", folder.text, e->d_name);
        if (!path.failed) rc = take(ctx, path.text);
    }
    if (d) closedir(d);
    str_free(&folder);
    str_free(&path);
    return rc;
}

int shelf_each(const struct shelf *shelf, const char *key, int (*take)(void *ctx, const char *path), void *ctx)
{
    return shelf->shared ? each_shared(shelf, key, 1, take, ctx) : each_own(shelf, key, take, ctx);
}

int shelf_slot(const char *base, const char *path, struct lab_err *err)
{
    char own[CKPT_PATH];
    for (int slot = 0; slot < CKPT_SLOTS; slot++) {
        if (ckpt_path(own, base, slot, err) != 0) return -1;
        if (!strcmp(own, path)) return slot;
    }
    if (ckpt_path(own, base, 0, err) != 0) return -1;
    return whole_copy(path, own, err) == 0 ? 0 : -1;
}

static int remove_one(void *ctx, const char *path)
{
    (void)ctx;
    unlink(path);
    return 0;
}

void shelf_remove(const struct shelf *shelf, const char *key)
{
    struct str path = { 0 };
    if (shelf->shared) {
        each_shared(shelf, key, 0, remove_one, NULL);
        place_of(&path, shelf, key);
        if (!path.failed) rmdir(path.text);
    } else {
        shelf_base(&path, shelf, key, "");
        if (!path.failed) ckpt_remove(path.text);
    }
    str_free(&path);
}
