/* cmd_fsck -- lab fsck: is the database sound, and what can be put right?  Without --repair it changes nothing. */
#include <stdio.h>
#include <unistd.h>
#include "answer/table.h"
#include "cli/cmd.h"
#include "store/fsck.h"

static const char *const level_name[] = { [FSCK_OK] = "ok", [FSCK_MENDED] = "mended", [FSCK_NOTE] = "note", [FSCK_BAD] = "BAD" };
struct telling { int json, n, count[FSCK_BAD + 1], failed; };   /* failed: a finding could not be told */

/* As it is found, for looking at every page may take a while. */
static void tell(void *ctx, const struct fsck_finding *f)
{
    struct telling *t = ctx;
    struct str out = { 0 };
    t->count[f->level]++;
    if (t->json) {
        str_printf(&out, "%s{\"check\": \"%s\", \"state\": \"%s\", \"found\": ", t->n++ ? ",\n" : "\n", f->check, level_name[f->level]);
        str_json(&out, f->text);
        str_add(&out, ", \"advice\": ");
        if (f->advice) str_json(&out, f->advice);
        else str_add(&out, "null");
        str_add(&out, "}");
    } else {
        str_printf(&out, "%-6s %-12s ", level_name[f->level], f->check);
        table_show(&out, f->text);
        if (f->advice) str_printf(&out, "\n                    -> %s", f->advice);
        str_add(&out, "\n");
    }
    t->failed |= out.failed;
    fputs(str_text(&out), stdout);
    fflush(stdout);
    str_free(&out);
}

static int check(struct telling *t, const char *db, int repair, struct lab_err *err)
{
    struct store *store;
    struct fsck_listener listener = { tell, t };
    int there = access(db, F_OK) == 0;               /* to open it for writing would make it */
    if (store_open(&store, db, repair && there ? STORE_WRITE : STORE_READ, err) != 0) return -1;
    if (*store_notice(store)) fprintf(stderr, "lab fsck: %s\n", store_notice(store));
    int rc = fsck_run(store, repair, &listener, err);
    if (rc == 0 && t->failed) rc = lab_fail(err, "out of memory: not every finding is shown");
    store_close(store);
    return rc;
}

int cmd_fsck(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB;
    struct telling t = { .json = 0 };
    int repair = 0;
    const struct cli_option option[] = {
        CLI_DB(&db), { "--repair", 0, CLI_FLAG, NULL, "mend what can be made again from what is there", &repair }, CLI_JSON(&t.json), CLI_END };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc > 1) return lab_fail(&err, "takes no argument, found '%.80s'; --db names the database", argv[1]), cli_fail(cmd, EXIT_USAGE, &err);
    if (t.json) fputs("[", stdout);
    int rc = check(&t, db, repair, &err);
    if (t.json) fputs(t.n ? "\n]\n" : "]\n", stdout);
    if (rc != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    if (!t.json) printf("\n%s: %s\n", db, t.count[FSCK_BAD] ? "NOT sound" : t.count[FSCK_MENDED] ? "sound again" : "sound");
    return t.count[FSCK_BAD] ? EXIT_SOME_FAILED : EXIT_DONE;
}
