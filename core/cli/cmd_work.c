/* cmd_work -- lab work: one task of a frozen plan, on whatever machine it is started.
 *
 * Which task it is stands in --task, or a Slurm array tells; nobody else needs to know that others are at work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cmd.h"
#include "cli/run.h"
#include "exp/frozen.h"
#include "run/task.h"

struct choice { const char *task, *db; int64_t jobs, offset; int retry, quiet; };

/* A number from the environment; 1 if it is there. */
static int number(const char *name, int64_t lo, int64_t *out, struct lab_err *err)
{
    const char *text = getenv(name);
    if (!text || !*text) return 0;
    if (str_to_int(text, lo, INT32_MAX, out)) return 1;
    return lab_fail(err, "%s is '%.20s', expected a whole number of at least %d", name, text, (int)lo);
}

/* "3/8"; without it the place in a Slurm array; without that the whole plan. */
static int which_task(const struct choice *c, struct task_options *t, struct lab_err *err)
{
    int64_t offset = c->offset;
    if (c->task) {
        char index[24] = "";
        const char *slash = strchr(c->task, '/');
        if (slash && (size_t)(slash - c->task) < sizeof index) memcpy(index, c->task, (size_t)(slash - c->task));
        if (!slash || !str_to_int(index, 0, FROZEN_MAX_TASKS, &t->index) || !str_to_int(slash + 1, 1, FROZEN_MAX_TASKS, &t->count))
            return lab_fail(err, "--task is '%.40s', expected I/N as in 0/8: the first of eight", c->task);
    } else {
        int array = number("SLURM_ARRAY_TASK_ID", 0, &t->index, err);
        if (!array) t->count = 1;
        else if (array < 0 || number("LAB_TASKS", 1, &t->count, err) < 0 || (!offset && number("LAB_OFFSET", 0, &offset, err) < 0)) return -1;
    }
    if (offset > FROZEN_MAX_TASKS) return lab_fail(err, "--offset is %lld (limit is %d)", (long long)offset, FROZEN_MAX_TASKS);
    t->index += offset;
    return 0;
}

/* Slurm may hand out fewer cores than the machine shows. */
static int which_jobs(const struct choice *c, struct task_options *t, struct lab_err *err)
{
    int64_t jobs = c->jobs, here = sched_cores();
    if (!jobs) {
        int told = number("SLURM_CPUS_PER_TASK", 1, &jobs, err);
        if (told == 0) told = number("SLURM_CPUS_ON_NODE", 1, &jobs, err);
        if (told < 0) return -1;
        if (!told || jobs > here) jobs = here;
    }
    if (jobs > SCHED_MAX_JOBS) {
        if (c->jobs) return lab_fail(err, "--jobs is %lld (limit is %d)", (long long)jobs, SCHED_MAX_JOBS);
        jobs = SCHED_MAX_JOBS;
    }
    t->jobs = (int)jobs;
    return 0;
}

static void tell(const struct task_options *t, const struct task_report *r)
{
    printf("%s: %d run%s, %d done before, %d done now, %d failed, %d open", t->plan, r->runs.total, r->runs.total == 1 ? "" : "s", r->runs.already,
           r->runs.done, r->runs.failed, r->runs.total - r->runs.already - r->runs.done - r->runs.failed);
    if (*r->shard) printf("; published as shards/%s", r->shard);
    printf("\n");
}

int cmd_work(const struct cmd *cmd, int argc, char **argv)
{
    struct choice choice = { .task = NULL };
    const struct cli_option option[] = {
        { "--task", 0, CLI_TEXT, "I/N", "do the runs I, I+N, ... (default: the place in a Slurm array, else all)", &choice.task },
        { "--offset", 0, CLI_INT, "N", "added to I, for arrays in several pieces (default: LAB_OFFSET, else 0)", &choice.offset },
        { "--jobs", 'j', CLI_INT, "N", "runs at once (default: the cores that it was given)", &choice.jobs },
        { "--db", 0, CLI_TEXT, "FILE", "do not do again what is done in this database", &choice.db },
        { "--retry", 0, CLI_FLAG, NULL, "run again what failed, too", &choice.retry },
        { "--quiet", 'q', CLI_FLAG, NULL, "no progress on stderr; failures are still named", &choice.quiet },
        CLI_END };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    struct lab_err err = { "" };
    struct task_report report;
    if (argc != 2) {
        lab_fail(&err, "expected one folder with a plan, found %d; see `lab work --help`", argc - 1);
        return cli_fail(cmd, EXIT_USAGE, &err);
    }
    struct task_options task = { .plan = argv[1], .db = choice.db, .retry = choice.retry, .quiet = choice.quiet };
    if (which_task(&choice, &task, &err) != 0 || which_jobs(&choice, &task, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int rc = task_run(&task, &report, &err);
    if (rc != 0) return cli_fail(cmd, rc == TASK_REFUSED ? EXIT_USAGE : EXIT_DATABASE, &err);
    tell(&task, &report);
    return run_exit_code(&report.runs);
}
