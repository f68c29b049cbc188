/* cmd_check -- lab check: judges plugins against the promises of lab_plugin.h, each test in a process of its own.
 * Trains nothing, and opens no database. */
#include <stdio.h>
#include <unistd.h>
#include "answer/check.h"
#include "cli/cmd.h"

struct wish { int list, only_failed, json; int64_t seed; struct cli_many plugin; };

/* A file is taken as it is: nothing but its own tests may load it.  A name is looked for among the plugins. */
static int find_path(const char *what, const struct cli_many *plugin, char path[PATH_MAX], struct lab_err *err)
{
    struct registry r;
    const struct plugin_entry *e = NULL;
    struct lab_err why;
    if (access(what, F_OK) == 0) return snprintf(path, PATH_MAX, "%s", what), 0;
    if (!str_is_name(what)) return lab_fail(err, "%.200s: no such file; give FILE.so or a NAME of `lab list`", what);
    if (cli_registry(&r, plugin, err) != 0) return -1;
    for (int kind = PLUGIN_ENCODER; !e && kind <= PLUGIN_TASK; kind++) e = registry_find(&r, kind, what, &why);
    const struct plugin_file *refused = e ? NULL : registry_refused(&r, what);
    const char *found = e ? r.file[e->file].path : refused ? refused->path : NULL;
    const char *near = found ? NULL : registry_nearest(&r, what);
    if (found) snprintf(path, PATH_MAX, "%s", found);
    else lab_fail(err, "'%s' is neither a file nor an encoder or task%s%s%s; see `lab list`", what, near ? " (did you mean '" : "",
                  near ? near : "", near ? "'?)" : "");
    registry_free(&r);
    return found ? 0 : -1;
}

static int check(const char *what, const struct wish *wish, struct str *out, int *failed, struct lab_err *err)
{
    const struct check_options options = { .seed = (uint64_t)wish->seed };
    struct check_report report;
    char path[PATH_MAX];
    if (find_path(what, &wish->plugin, path, err) != 0 || check_file(&report, path, &options, err) != 0) return -1;
    if (wish->json) check_json(&report, wish->only_failed, out);
    else if (!wish->only_failed || report.failed) check_print(&report, wish->only_failed, out);
    *failed += report.failed > 0;
    check_release(&report);
    return 0;
}

int cmd_check(const struct cmd *cmd, int argc, char **argv)
{
    struct wish wish = { .seed = 0 };
    const struct cli_option option[] = {
        { "--list", 0, CLI_FLAG, NULL, "print the tests and what each asks", &wish.list },
        { "--only-failed", 0, CLI_FLAG, NULL, "print only what failed", &wish.only_failed },
        { "--seed", 0, CLI_INT, "N", "of the numbers that the hooks are given (default 0)", &wish.seed },
        CLI_JSON(&wish.json), CLI_PLUGIN(&wish.plugin), CLI_END };
    struct lab_err err;
    struct str out = { 0 };
    int failed = 0, rc = 0, parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (!wish.list && argc < 2) {
        lab_fail(&err, "needs FILE.so or NAME; `lab check --list` tells what is tested");
        return cli_fail(cmd, EXIT_USAGE, &err);
    }
    if (wish.list && argc > 1) return lab_fail(&err, "--list takes no plugin: the tests are the same for all"), cli_fail(cmd, EXIT_USAGE, &err);
    if (wish.list) check_list(&out);
    else if (wish.json) str_add(&out, "[");
    for (int i = 1; i < argc && rc == 0; i++) {
        if (i > 1 && (wish.json || !wish.only_failed)) str_add(&out, wish.json ? ",\n" : "\n");
        rc = check(argv[i], &wish, &out, &failed, &err);
    }
    if (wish.json && !wish.list) str_add(&out, "]\n");
    if (wish.only_failed && !wish.json && !failed && rc == 0) str_printf(&out, "%d plugin%s passed all tests\n", argc - 1, argc == 2 ? "" : "s");
    if (rc == 0 && out.failed) rc = lab_fail(&err, "out of memory: the report is cut");
    if (rc == 0) fputs(str_text(&out), stdout);
    str_free(&out);
    if (rc != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    return failed ? EXIT_SOME_FAILED : EXIT_DONE;
}
