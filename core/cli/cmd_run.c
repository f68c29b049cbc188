/* cmd_run -- lab run FILE.ini: does what is missing of an experiment, then prints the answer.
 *
 * Everything is read, checked and built before the database is opened and the first
 * worker starts: what is wrong with a file costs no run.
 */
#include <stdio.h>
#include "answer/results.h"
#include "cli/cmd.h"
#include "cli/plan.h"
#include "cli/run.h"
#include "exp/sweep.h"

struct choice {                      /* of the command line */
    struct cli_many set, plugin;
    const char *db;
    int64_t jobs;
    int dry_run, rerun_stale, quiet;
};

int run_exit_code(const struct sched_report *report)
{
    if (report->interrupted) return report->signals > 1 ? EXIT_SECOND_INTERRUPT : EXIT_INTERRUPTED;
    return report->failed || report->lacking ? EXIT_SOME_FAILED : EXIT_DONE;
}

int run_open(const struct cmd *cmd, struct store **store, const char *db)
{
    struct lab_err err;
    if (store_open(store, db, STORE_WRITE, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    if (*store_notice(*store)) fprintf(stderr, "lab %s: %s\n", cmd->name, store_notice(*store));
    return EXIT_DONE;
}

int run_sweep(const struct cmd *cmd, struct store *store, const struct sweep *sweep, const struct sched_options *options)
{
    struct sched_report report;
    struct lab_err err;
    if (sched_run(store, sweep, options, &report, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    if (report.signals > 1) return run_exit_code(&report);           /* in a hurry: no answer */
    if (results_print(store, sweep->conf->sha256, stdout, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
    return run_exit_code(&report);
}

static int open_and_run(const struct cmd *cmd, const struct sweep *sweep, const struct choice *choice)
{
    struct sched_options options = { .jobs = (int)choice->jobs, .rerun_stale = choice->rerun_stale, .quiet = choice->quiet };
    struct store *store;
    int code = run_open(cmd, &store, choice->db);
    if (code != EXIT_DONE) return code;
    code = run_sweep(cmd, store, sweep, &options);
    store_close(store);
    return code;
}

static int build_and_run(const struct cmd *cmd, const struct conf *conf, const struct registry *registry, const struct choice *choice)
{
    struct sweep sweep;
    struct lab_err err;
    if (sweep_build(&sweep, conf, registry, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int code = choice->dry_run ? plan_show(cmd, &sweep, choice->db, 0) : open_and_run(cmd, &sweep, choice);
    sweep_free(&sweep);
    return code;
}

static int run_file(const struct cmd *cmd, const char *path, const struct choice *choice)
{
    struct conf conf;
    struct registry registry;
    struct lab_err err;
    if (cli_conf(&conf, path, &choice->set, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int code = EXIT_USAGE;
    if (cli_registry(&registry, &choice->plugin, &err) != 0) cli_fail(cmd, code, &err);
    else {
        code = build_and_run(cmd, &conf, &registry, choice);
        registry_free(&registry);
    }
    conf_free(&conf);
    return code;
}

int cmd_run(const struct cmd *cmd, int argc, char **argv)
{
    struct choice choice = { .db = CLI_DEFAULT_DB };
    const struct cli_option option[] = {
        { "--jobs", 'j', CLI_INT, "N", "runs at once (default: the number of cores)", &choice.jobs },
        CLI_DB(&choice.db), CLI_SET(&choice.set), CLI_PLUGIN(&choice.plugin),
        { "--dry-run", 0, CLI_FLAG, NULL, "show the plan and start nothing", &choice.dry_run },
        { "--rerun-stale", 0, CLI_FLAG, NULL, "train again what was done by another build, plugin or kind of machine", &choice.rerun_stale },
        { "--quiet", 'q', CLI_FLAG, NULL, "no progress on stderr; failures are still named", &choice.quiet },
        CLI_END };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    struct lab_err err = { "" };
    if (argc != 2) lab_fail(&err, "expected one experiment file, found %d; see `lab run --help`", argc - 1);
    else if (choice.jobs > SCHED_MAX_JOBS) lab_fail(&err, "--jobs is %lld (limit is %d)", (long long)choice.jobs, SCHED_MAX_JOBS);
    return *err.msg ? cli_fail(cmd, EXIT_USAGE, &err) : run_file(cmd, argv[1], &choice);
}
