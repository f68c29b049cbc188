/* cmd_slurm -- lab slurm script|submit|status|cancel|resume: an experiment on a cluster that Slurm runs.
 *
 * The sweep is frozen into a folder, its tasks are elements of a job array, and a merge job behind the array brings what
 * they published into the results database.  Nothing of lab stays behind on the machine that submits.
 * (`lab slurm status` is cmd_slurm_status.c.)
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/slurm.h"
#include "exp/frozen.h"
#include "run/shards.h"
#include "run/slurm_jobs.h"

enum { CPUS = 4, MOST_TASKS = 100, RESTARTS = 10 };  /* unless told otherwise */
enum { FOLDER_NAME_MOST = 64 };      /* of an experiment, in the name of its plan's folder */

struct choice {                      /* of the command line */
    struct cli_many set, plugin;
    const char *folder, *db, *time, *partition;
    int64_t tasks, cpus, at_once, restarts;
    char *const *option; int n_option;               /* behind -- */
};

/* ---- which plan ---- */

/* Where the plan of an experiment file is kept unless -o names a folder: a short name that every shell and file system takes. */
static int default_folder(struct str *out, const struct conf *conf, struct lab_err *err)
{
    const struct conf_entry *entry = conf_find(conf, "experiment", "name");
    const char *name = entry ? entry->value : "plan";
    str_add(out, "results/plans/");
    for (int i = 0; name[i] && i < FOLDER_NAME_MOST; i++)
        str_addn(out, isalnum((unsigned char)name[i]) || (i && strchr("._", name[i])) ? &name[i] : "-", 1);
    str_printf(out, "-%.12s", conf->sha256);
    return out->failed ? lab_fail(err, "out of memory") : 0;
}

int slurm_find_plan(struct str *folder, const char *argument, const struct cli_many *set, struct lab_err *err)
{
    struct stat st;
    struct conf conf;
    if (stat(argument, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (set->n) return lab_fail(err, "--set changes an experiment file; a plan is frozen");
        str_add(folder, argument);
        return folder->failed ? lab_fail(err, "out of memory") : 0;
    }
    if (cli_conf(&conf, argument, set, err) != 0) return -1;
    int rc = default_folder(folder, &conf, err);
    conf_free(&conf);
    if (rc == 0 && stat(folder->text, &st) != 0 && errno == ENOENT)
        return lab_fail(err, "%s was never frozen: there is no %s; `lab slurm submit` does it, or name the folder of its plan",
                        argument, folder->text);
    return rc;
}

/* ---- freezing ---- */

static int absolute(struct str *out, const char *path, struct lab_err *err)
{
    char here[PATH_MAX];
    if (path[0] != '/') {
        if (!getcwd(here, sizeof here)) return lab_fail(err, "the current folder has no name: %s", strerror(errno));
        str_printf(out, "%s/", here);
    }
    str_add(out, path);
    return out->failed ? lab_fail(err, "out of memory") : 0;
}

static int own_path(char path[PATH_MAX], struct lab_err *err)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n < 0) return lab_fail(err, "where this program lies is not known: %s", strerror(errno));
    path[n] = '\0';
    return 0;
}

/* How many tasks a plan was submitted in, 0: it never was. */
static int64_t submitted_tasks(const char *folder)
{
    struct frozen_head head;
    struct str path = { 0 };
    struct lab_err ignored;
    struct stat st;
    int64_t tasks = 0;
    str_printf(&path, "%s/slurm.jobs", folder);
    if (!path.failed && stat(path.text, &st) == 0 && st.st_size > 0 && frozen_head_read(&head, folder, &ignored) == 0) {
        tasks = head.tasks;
        frozen_head_release(&head);
    }
    str_free(&path);
    return tasks;
}

static int write_beside(const char *folder, const char *name, const struct str *text, struct lab_err *err)
{
    struct str path = { 0 };
    str_printf(&path, "%s/%s", folder, name);
    int rc = path.failed || text->failed ? lab_fail(err, "out of memory for a script") : cli_write(path.text, text, err);
    str_free(&path);
    return rc;
}

static int write_scripts(const struct slurm_job *job, const struct choice *choice, int64_t max_array, struct str *array, struct lab_err *err)
{
    struct str merge = { 0 }, db = { 0 };
    int rc = absolute(&db, choice->db, err);
    if (rc == 0) {
        slurm_array_script(array, job, max_array);
        slurm_merge_script(&merge, job, db.text);
        rc = write_beside(job->plan, "array.sh", array, err) == 0 ? write_beside(job->plan, "merge.sh", &merge, err) : -1;
    }
    str_free(&merge);
    str_free(&db);
    return rc;
}

static int64_t choose_tasks(const struct choice *choice, size_t runs)
{
    int64_t n = ((int64_t)runs - 1) / choice->cpus + 1;
    if (choice->tasks) n = choice->tasks;
    else if (n > MOST_TASKS) n = MOST_TASKS;
    return n < (int64_t)runs ? n : (int64_t)runs;
}

/* Makes the plan's folder, which is then plan, and its scripts; *array is that of the array.  anew: it must not have been submitted before. */
static int freeze_sweep(const struct sweep *sweep, const struct choice *choice, int anew, int64_t max_array, char plan[PATH_MAX], struct str *array,
                        struct lab_err *err)
{
    char lab[PATH_MAX];
    struct str folder = { 0 };
    int64_t tasks = choose_tasks(choice, sweep->n), known = 0;
    struct slurm_job job = { .lab = lab, .plan = plan, .name = sweep->name, .runs = (int64_t)sweep->n, .tasks = tasks, .cpus = choice->cpus,
                             .at_once = choice->at_once, .restarts = choice->restarts, .time = choice->time, .partition = choice->partition,
                             .option = choice->option, .n_option = choice->n_option };
    int rc = own_path(lab, err);
    if (rc == 0) rc = choice->folder ? absolute(&folder, choice->folder, err) : default_folder(&folder, sweep->conf, err);
    if (rc != 0) goto out;
    job.plan = folder.text;                          /* for the check: it need not be there yet */
    rc = slurm_check(&job, err);
    job.plan = plan;
    int64_t before = submitted_tasks(folder.text);
    if (rc == 0 && before && anew)
        rc = lab_fail(err, "%s was submitted before; `lab slurm resume` submits what is missing of it", folder.text);
    if (rc == 0 && before && before != tasks)
        rc = lab_fail(err, "%s was submitted in %" PRId64 " tasks, which cannot be changed to %" PRId64 "; -o names another folder",
                      folder.text, before, tasks);
    if (rc == 0) rc = frozen_write(folder.text, sweep, choice->plugin.value, choice->plugin.n, tasks, err);
    if (rc == 0 && !realpath(folder.text, plan)) rc = lab_fail(err, "%s: %s", folder.text, strerror(errno));
    if (rc == 0 && (access(choice->db, F_OK) == 0 || errno != ENOENT)) rc = shards_add_known(plan, choice->db, &known, err);
    if (rc == 0 && known) fprintf(stderr, "lab slurm: %" PRId64 " of %zu runs are done already in %s\n", known, sweep->n, choice->db);
    if (rc == 0) rc = write_scripts(&job, choice, max_array, array, err);
out:
    str_free(&folder);
    return rc;
}

static int freeze(const char *path, const struct choice *choice, int anew, int64_t max_array, char plan[PATH_MAX], struct str *array,
                  struct lab_err *err)
{
    struct conf conf;
    struct registry registry;
    struct sweep sweep;
    int rc = -1;
    if (cli_conf(&conf, path, &choice->set, err) != 0) return -1;
    if (cli_registry(&registry, &choice->plugin, err) == 0) {
        if (sweep_build(&sweep, &conf, &registry, err) == 0) {
            rc = freeze_sweep(&sweep, choice, anew, max_array, plan, array, err);
            sweep_free(&sweep);
        }
        registry_free(&registry);
    }
    conf_free(&conf);
    return rc;
}

/* ---- script, submit ---- */

/* 0 go on; else the exit code, plus one. */
static int parse_choice(const struct cmd *cmd, struct choice *choice, int *argc, char **argv)
{
    *choice = (struct choice){ .db = CLI_DEFAULT_DB, .cpus = CPUS, .restarts = RESTARTS };
    const struct cli_option option[] = {
        { "--tasks", 'n', CLI_INT, "N", "elements of the job array (default: one for every --cpus runs, at most 100)", &choice->tasks },
        { "--cpus", 'c', CLI_INT, "N", "cores of a task, each does one run at a time (default 4)", &choice->cpus },
        { "--time", 't', CLI_TEXT, "TIME", "time limit of a task, as sbatch takes it; it is requeued until its runs are done", &choice->time },
        { "--partition", 'p', CLI_TEXT, "NAME", "partition", &choice->partition },
        { "--at-once", 0, CLI_INT, "N", "so many tasks may run at the same time (default: as many as Slurm starts)", &choice->at_once },
        { "--restarts", 0, CLI_INT, "N", "how often a task that was stopped requeues itself (default 10)", &choice->restarts },
        { "--output", 'o', CLI_TEXT, "PLANDIR", "folder of the plan, on a disk that all nodes see (default: one in results/plans)", &choice->folder },
        CLI_DB(&choice->db), CLI_SET(&choice->set), CLI_PLUGIN(&choice->plugin), CLI_END };
    struct lab_err err = { "" };
    int end = 1;
    while (end < *argc && strcmp(argv[end], "--")) end++;
    choice->option = argv + end + 1;
    choice->n_option = end < *argc ? *argc - end - 1 : 0;
    *argc = end;
    int parsed = cli_parse(cmd, option, argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE + 1 : EXIT_USAGE + 1;
    if (*argc != 2) lab_fail(&err, "expected one experiment file, found %d; see `lab %s --help`", *argc - 1, cmd->name);
    else if (choice->cpus < 1) lab_fail(&err, "--cpus is 0, expected at least 1");
    else if (choice->tasks > FROZEN_MAX_TASKS) lab_fail(&err, "--tasks is %" PRId64 " (limit is %d)", choice->tasks, FROZEN_MAX_TASKS);
    return *err.msg ? cli_fail(cmd, EXIT_USAGE, &err) + 1 : 0;
}

static int script(const struct cmd *cmd, int argc, char **argv)
{
    struct choice choice;
    struct lab_err err, ignored;
    struct str array = { 0 };
    char plan[PATH_MAX];
    int64_t max_array;
    int over = parse_choice(cmd, &choice, &argc, argv);
    if (over) return over - 1;
    if (slurm_jobs_max_array(&max_array, &ignored) != 0) max_array = INT64_MAX;      /* a script can be written anywhere */
    int code = EXIT_DONE;
    if (freeze(argv[1], &choice, 0, max_array, plan, &array, &err) != 0 || cli_write(NULL, &array, &err) != 0) code = cli_fail(cmd, EXIT_USAGE, &err);
    else fprintf(stderr, "lab %s: this is %s/array.sh; merge.sh there is for afterwards\n", cmd->name, plan);
    str_free(&array);
    return code;
}

/* ---- submitting ---- */

/* The %P of the script's own array line: how many may run at once, 0 = any number. */
static int64_t script_at_once(const char *path)
{
    char line[256];
    int64_t at_once = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) if (sscanf(line, "#SBATCH --array=%*[0-9,-]%%%9" SCNd64, &at_once) == 1) break;
    if (f) fclose(f);
    return at_once;
}

static void tell_array(const char *list, int64_t job, int64_t offset)
{
    printf("job %" PRId64 ": array %s", job, list);
    if (offset) printf(", which is tasks %" PRId64 " and on", offset);
    printf("\n");
}

/* The tasks that are wanted, in as many arrays as the limit asks for, and the merge job behind them and behind those that go on. */
static int submit_tasks(struct slurm_jobs *jobs, const unsigned char *wanted, int64_t max_array, struct lab_err *err)
{
    struct str array = { 0 }, merge = { 0 };
    int64_t *behind = mem_alloc((jobs->n + (size_t)(jobs->tasks / max_array) + 1) * sizeof *behind, err);
    size_t n = 0, active = jobs->n;
    int rc = behind ? 0 : -1;
    str_printf(&array, "%s/array.sh", jobs->folder);
    str_printf(&merge, "%s/merge.sh", jobs->folder);
    if (rc == 0 && (array.failed || merge.failed)) rc = lab_fail(err, "out of memory");
    for (size_t i = 0; rc == 0 && i < active; i++) {
        int is_active = 0;
        for (int64_t t = 0; t < jobs->tasks; t++) is_active |= jobs->task[t].job == jobs->array[i].job && slurm_is_active(jobs->task[t].state);
        if (is_active) behind[n++] = jobs->array[i].job;
    }
    for (int64_t offset = 0; rc == 0 && offset < jobs->tasks; offset += max_array) {
        int64_t here = jobs->tasks - offset < max_array ? jobs->tasks - offset : max_array, job;
        struct str list = { 0 };
        slurm_ranges(&list, wanted + offset, here);
        if (list.len) {
            rc = slurm_jobs_submit(jobs, array.text, offset, wanted + offset, here, script_at_once(array.text), &job, err);
            if (rc == 0) tell_array(list.text, job, offset), behind[n++] = job;
        }
        str_free(&list);
    }
    if (rc == 0) rc = slurm_jobs_submit_merge(jobs, merge.text, behind, n, err);
    if (rc == 0) printf("job %" PRId64 ": merges what they publish\n", jobs->merge);
    free(behind);
    str_free(&array);
    str_free(&merge);
    return rc;
}

/* Which tasks lack runs and are in nobody's hands? */
static int choose_missing(const struct slurm_jobs *jobs, unsigned char *wanted, int64_t *n, int64_t *active, struct lab_err *err)
{
    struct shards shards;
    if (shards_read(&shards, jobs->folder, err) != 0) return -1;
    if (*shards.unread) fprintf(stderr, "lab slurm: its runs count as missing: %s\n", shards.unread);
    for (int64_t t = 0; t < jobs->tasks; t++) {
        int lacks = shards_of_task(&shards, t, jobs->tasks).missing > 0, busy = slurm_is_active(jobs->task[t].state);
        wanted[t] = lacks && !busy;
        *n += wanted[t];
        *active += busy;
    }
    shards_release(&shards);
    return 0;
}

/* *n of them; *active are queued or running already. */
static int submit_missing(struct slurm_jobs *jobs, int64_t max_array, int64_t *n, int64_t *active, struct lab_err *err)
{
    unsigned char *wanted = mem_alloc((size_t)jobs->tasks, err);
    int rc = wanted ? choose_missing(jobs, wanted, n, active, err) : -1;
    if (rc == 0 && *n) rc = submit_tasks(jobs, wanted, max_array, err);
    free(wanted);
    return rc;
}

static void tell_how_to_go_on(const char *plan)
{
    struct str s = { 0 };
    slurm_quote(&s, plan);
    printf("look:     lab slurm status %s\nstop:     lab slurm cancel %s\ngo on:    lab slurm resume %s\n", str_text(&s), str_text(&s), str_text(&s));
    str_free(&s);
}

static int submit_all(const char *plan, int64_t max_array, int *started, struct lab_err *err)
{
    struct frozen_head head;
    struct slurm_jobs jobs;
    int64_t n = 0, active = 0;
    int rc = -1;
    if (frozen_head_read(&head, plan, err) != 0) return -1;
    if (slurm_jobs_open(&jobs, plan, head.tasks, 1, err) == 0) {
        if (jobs.n) rc = lab_fail(err, "%s was submitted meanwhile, as job %" PRId64, plan, jobs.array[jobs.n - 1].job);
        else rc = submit_missing(&jobs, max_array, &n, &active, err);
        *started = jobs.n > 0;
        slurm_jobs_release(&jobs);
    }
    if (rc == 0 && !n) printf("nothing to submit: every run is done\n");
    else if (rc == 0) {
        printf("%s: %" PRId64 " runs in %" PRId64 " tasks\n", head.name, head.runs, head.tasks);
        tell_how_to_go_on(plan);
    }
    frozen_head_release(&head);
    return rc;
}

/* What was submitted stays submitted, and can be gone on with. */
static int fail_submitting(const struct cmd *cmd, int started, struct lab_err *err)
{
    fflush(stdout);
    cli_fail(cmd, EXIT_SOME_FAILED, err);
    if (started) fprintf(stderr, "lab %s: the jobs above were submitted; `lab slurm resume` submits the rest\n", cmd->name);
    return started ? EXIT_SOME_FAILED : EXIT_USAGE;
}

static int submit(const struct cmd *cmd, int argc, char **argv)
{
    struct choice choice;
    struct lab_err err;
    struct str array = { 0 };
    char plan[PATH_MAX];
    int64_t max_array;
    int started = 0, over = parse_choice(cmd, &choice, &argc, argv);
    if (over) return over - 1;
    int code = EXIT_DONE;
    if (slurm_jobs_max_array(&max_array, &err) != 0 || freeze(argv[1], &choice, 1, max_array, plan, &array, &err) != 0)
        code = cli_fail(cmd, EXIT_USAGE, &err);
    else if (submit_all(plan, max_array, &started, &err) != 0) code = fail_submitting(cmd, started, &err);
    str_free(&array);
    return code;
}

/* ---- resume, cancel ---- */

struct plan { struct str folder; struct frozen_head head; struct slurm_jobs jobs; };

static void plan_close(struct plan *p)
{
    slurm_jobs_release(&p->jobs);
    frozen_head_release(&p->head);
    str_free(&p->folder);
}

static int plan_open(struct plan *p, const char *argument, const struct cli_many *set, struct lab_err *err)
{
    *p = (struct plan){ .jobs = { .lock = -1 } };
    if (slurm_find_plan(&p->folder, argument, set, err) == 0 && frozen_head_read(&p->head, p->folder.text, err) == 0 &&
        slurm_jobs_open(&p->jobs, p->folder.text, p->head.tasks, 1, err) == 0) return 0;
    plan_close(p);
    return -1;
}

/* For a command whose arguments are PLAN|FILE.ini and --set: 0 and *plan open, or its exit code, plus one. */
static int parse_plan(const struct cmd *cmd, int argc, char **argv, struct plan *plan)
{
    struct cli_many set = { .n = 0 };
    const struct cli_option option[] = { CLI_SET(&set), CLI_END };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE + 1 : EXIT_USAGE + 1;
    if (argc != 2) lab_fail(&err, "expected a plan or its experiment file, found %d; see `lab %s --help`", argc - 1, cmd->name);
    else if (plan_open(plan, argv[1], &set, &err) == 0) return 0;
    return cli_fail(cmd, EXIT_USAGE, &err) + 1;
}

static int resume_plan(struct plan *p, int *started, struct lab_err *err)
{
    int64_t max_array, n = 0, active = 0;
    size_t before = p->jobs.n;
    int rc = slurm_jobs_max_array(&max_array, err) == 0 && slurm_jobs_queue(&p->jobs, err) == 0
           ? submit_missing(&p->jobs, max_array, &n, &active, err) : -1;
    *started = p->jobs.n > before;
    if (rc == 0 && !n) printf("nothing to submit: %s\n", active ? "what is missing is queued or running" : "every run is done or has failed");
    else if (rc == 0) printf("%s: %" PRId64 " of %" PRId64 " tasks submitted again\n", p->head.name, n, p->head.tasks);
    if (rc == 0 && active) printf("%" PRId64 " task%s still queued or running\n", active, active == 1 ? " is" : "s are");
    return rc;
}

static int resume(const struct cmd *cmd, int argc, char **argv)
{
    struct plan plan;
    struct lab_err err;
    int started = 0, over = parse_plan(cmd, argc, argv, &plan);
    if (over) return over - 1;
    int code = resume_plan(&plan, &started, &err) == 0 ? EXIT_DONE : fail_submitting(cmd, started, &err);
    plan_close(&plan);
    return code;
}

static int cancel_plan(struct plan *p, struct lab_err *err)
{
    size_t n = 0;
    int64_t tasks = 0, *job = mem_alloc(p->jobs.n * sizeof *job, err);
    int rc = job ? slurm_jobs_queue(&p->jobs, err) : -1;
    for (size_t i = 0; rc == 0 && i < p->jobs.n; i++) {
        int64_t here = 0;
        for (int64_t t = 0; t < p->head.tasks; t++) here += p->jobs.task[t].job == p->jobs.array[i].job && slurm_is_active(p->jobs.task[t].state);
        if (here) job[n++] = p->jobs.array[i].job;
        tasks += here;
    }
    if (rc == 0 && n) rc = slurm_jobs_cancel(job, n, err);
    if (rc == 0 && !n) printf("nothing to cancel: no task is queued or running\n");
    else if (rc == 0) printf("%" PRId64 " task%s cancelled; what they published is merged, and `lab slurm resume` goes on\n", tasks,
                             tasks == 1 ? "" : "s");
    free(job);
    return rc;
}

static int cancel(const struct cmd *cmd, int argc, char **argv)
{
    struct plan plan;
    struct lab_err err;
    int over = parse_plan(cmd, argc, argv, &plan);
    if (over) return over - 1;
    int code = cancel_plan(&plan, &err) == 0 ? EXIT_DONE : cli_fail(cmd, EXIT_SOME_FAILED, &err);
    plan_close(&plan);
    return code;
}

/* ---- the command ---- */

static const struct cmd part[] = {
    { "slurm script", "FILE.ini", "freeze an experiment into a plan and print its batch script; options for sbatch follow --",
      "lab slurm script experiments/extrapolate.ini --tasks 8 --time 2:00:00 -- --mem-per-cpu=1G", script, 0 },
    { "slurm submit", "FILE.ini", "freeze and submit an experiment; a job behind it merges; options for sbatch follow --",
      "lab slurm submit experiments/extrapolate.ini --tasks 8 --time 2:00:00 --partition short", submit, 0 },
    { "slurm status", "PLAN|FILE.ini", "show what Slurm says of the tasks beside what they have published",
      "lab slurm status experiments/extrapolate.ini --watch", cmd_slurm_status, 0 },
    { "slurm cancel", "PLAN|FILE.ini", "cancel the tasks that are queued or running", "lab slurm cancel experiments/extrapolate.ini", cancel, 0 },
    { "slurm resume", "PLAN|FILE.ini", "submit again what is missing and in nobody's hands", "lab slurm resume experiments/extrapolate.ini", resume, 0 } };
enum { N_PART = sizeof part / sizeof *part, PREFIX = sizeof "slurm " - 1 };

static void print_help(const struct cmd *cmd)
{
    printf("usage: lab slurm %s\n\n%s.\n\n", cmd->arguments, cmd->summary);
    for (int i = 0; i < N_PART; i++) printf("  %-7s %s\n", part[i].name + PREFIX, part[i].summary);
    printf("\n`lab slurm PART --help` tells more.\n\nexample:\n  %s\n", cmd->example);
}

int cmd_slurm(const struct cmd *cmd, int argc, char **argv)
{
    const char *names[N_PART + 1] = { NULL };
    struct lab_err err;
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) return print_help(cmd), EXIT_DONE;
    for (int i = 0; i < N_PART; i++) {
        names[i] = part[i].name + PREFIX;
        if (argc > 1 && !strcmp(argv[1], names[i])) return part[i].run(&part[i], argc - 1, argv + 1);
    }
    const char *near = argc > 1 ? str_nearest(argv[1], names) : NULL;
    if (argc < 2) lab_fail(&err, "expected script, submit, status, cancel or resume; see `lab slurm --help`");
    else lab_fail(&err, "unknown part '%.40s'%s%s%s; see `lab slurm --help`", argv[1], near ? " (did you mean '" : "", near ? near : "",
                  near ? "'?)" : "");
    return cli_fail(cmd, EXIT_USAGE, &err);
}
