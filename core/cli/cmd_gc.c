/* cmd_gc -- lab gc: removes the files beside the database that no run needs any more, and says how much that gives back.
 *
 * Never removed: what a running or unfinished run wrote, what another database in the folder needs, backups, and names that
 * are not lab's; weights of done runs only with --weights.  While it removes, the database takes no new runs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "answer/table.h"
#include "cli/cmd.h"
#include "store/files.h"

enum group { ORPHANS, CHECKPOINTS, LOGS, WEIGHTS, N_GROUP };
static const char *const group_name[] = { "files of no run", "checkpoints of done runs", "logs of done runs", "weights of done runs" };
struct gc { int dry_run, weights; int64_t n[N_GROUP], bytes[N_GROUP], kept; };

/* -1: it is needed. */
static int group_of(const struct files_item *f, const struct gc *gc)
{
    static const enum group of_done[] = { [FILES_WEIGHTS] = WEIGHTS, [FILES_LOG] = LOGS, [FILES_CHECKPOINT] = CHECKPOINTS };
    if (f->owner == FILES_OF_NOBODY) return ORPHANS;
    if (f->owner != FILES_OF_DONE || (f->kind == FILES_WEIGHTS && !gc->weights)) return -1;
    return of_done[f->kind];
}

static int collect(struct gc *gc, const struct files *files, struct lab_err *err)
{
    for (size_t i = 0; i < files->n; i++) {
        const struct files_item *f = &files->item[i];
        int group = group_of(f, gc);
        if (group < 0) { gc->kept += f->bytes; continue; }
        if (!gc->dry_run && unlink(f->path) != 0 && errno != ENOENT) return lab_fail(err, "%s: cannot be removed: %s", f->path, strerror(errno));
        gc->n[group]++;
        gc->bytes[group] += f->bytes;
    }
    return 0;
}

static void add_size(struct str *out, int64_t bytes)
{
    static const char *const unit[] = { "kB", "MB", "GB", "TB" };
    double x = (double)bytes / 1000;
    int u = 0;
    while (x >= 1000 && u < 3) x /= 1000, u++;
    if (bytes < 1000) str_printf(out, "%d bytes", (int)bytes);
    else str_printf(out, "%.1f %s", x, unit[u]);
}

static void print(const struct gc *gc, struct str *out)
{
    int64_t n = 0, bytes = 0;
    for (int g = 0; g < N_GROUP; g++) {
        if (!gc->n[g]) continue;
        n += gc->n[g], bytes += gc->bytes[g];
        str_printf(out, "%6lld %-25s ", (long long)gc->n[g], group_name[g]);
        add_size(out, gc->bytes[g]);
        str_add(out, "\n");
    }
    str_printf(out, n ? "%s %lld file%s, " : "nothing to remove", gc->dry_run ? "would remove" : "removed", (long long)n, n == 1 ? "" : "s");
    if (n) add_size(out, bytes);
    str_add(out, "; kept ");
    add_size(out, gc->kept);
    str_add(out, "\n");
}

/* Within a transaction, so that no run is entered between looking and removing. */
static int look_and_collect(struct gc *gc, struct store *store, struct files *files, struct lab_err *err)
{
    if (!gc->dry_run && store_begin(store, err) != 0) return -1;
    if (files_read(files, store, err) != 0) return -1;
    int rc = collect(gc, files, err);
    return !gc->dry_run && store_commit(store, err) != 0 ? -1 : rc;
}

static int gc_run(const struct cmd *cmd, struct gc *gc, const char *db)
{
    struct store *store;
    struct files files = { 0 };
    struct str out = { 0 };
    struct lab_err err;
    int there = access(db, F_OK) == 0;               /* to open it for writing would make it */
    if (store_open(&store, db, gc->dry_run || !there ? STORE_READ : STORE_WRITE, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    int rc = look_and_collect(gc, store, &files, &err);
    if (*files.unread) fprintf(stderr, "lab gc: %s; nothing that its runs may need is removed\n", files.unread);
    print(gc, &out);
    if (rc == 0) fputs(str_text(&out), stdout);
    str_free(&out);
    files_release(&files);
    store_close(store);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, EXIT_DATABASE, &err);
}

int cmd_gc(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB;
    struct gc gc = { .dry_run = 0 };
    const struct cli_option option[] = {
        { "--dry-run", 0, CLI_FLAG, NULL, "tell what would be removed, and remove nothing", &gc.dry_run },
        { "--weights", 0, CLI_FLAG, NULL, "weights of done runs too: new lengths then mean training again", &gc.weights },
        CLI_DB(&db), CLI_END };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc > 1) return lab_fail(&err, "takes no argument, found '%.80s'; --db names the database", argv[1]), cli_fail(cmd, EXIT_USAGE, &err);
    return gc_run(cmd, &gc, db);
}
