/* main -- lab: the table of commands, and nothing else. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "cli/cmd.h"
#include "exp/env.h"

static const struct cmd command[] = {
    { "run", "FILE.ini", "do what is missing of an experiment, then print the answer", "lab run experiments/extrapolate.ini", cmd_run, 0 },
    { "plan", "FILE.ini", "show the runs of an experiment and what is missing", "lab plan experiments/extrapolate.ini --set train.steps=500", cmd_plan, 0 },
    { "retry", "[FILE.ini]", "run again what failed, and nothing else", "lab retry --dry-run", cmd_retry, 0 },
    { "status", "[FILE.ini]", "show what is done, what is being done and by whom, what stopped and why", "lab status --watch", cmd_status, 0 },
    { "results", "[FILE.ini]", "print the answer of an experiment again", "lab results experiments/extrapolate.ini", cmd_results, 0 },
    { "compare", "[FILE.ini]", "compare encoders seed by seed, with intervals and tests", "lab compare --baseline sinusoidal --length '>8'", cmd_compare, 0 },
    { "plot", "[FILE.ini]", "draw an experiment, in the terminal or into a file", "lab plot --kind length -o lengths.svg", cmd_plot, 0 },
    { "report", "[FILE.ini]", "write an experiment as one HTML page", "lab report experiments/extrapolate.ini -o report.html", cmd_report, 0 },
    { "export", "[FILE.ini]", "write the numbers as CSV, JSON, Markdown or LaTeX", "lab export --view by_length --format latex -o table.tex", cmd_export, 0 },
    { "query", "[SQL|@NAME]", "ask the database, read-only; without arguments, list the saved queries", "lab query @compare_encoders", cmd_query, 0 },
    { "list", "", "list encoders and tasks, and where they come from", "lab list", cmd_list, 0 },
    { "info", "NAME", "describe an encoder, a task or a section of experiment files, with its options", "lab info rope", cmd_info, 0 },
    { "inspect", "ENCODER|RUN|--equivariance", "see what an encoder does, and what a trained run attends to", "lab inspect sinusoidal", cmd_inspect, 0 },
    { "sample", "TASK", "print examples, the very ones that training sees", "lab sample reverse --length 8 -n 5 --seed 0", cmd_sample, 0 },
    { "fsck", "", "look whether the database is sound, and mend what can be mended", "lab fsck --repair", cmd_fsck, 0 },
    { "gc", "", "remove files beside the database that no run needs any more", "lab gc --dry-run", cmd_gc, 0 },
    { "doctor", "", "look whether this machine and what is installed let lab do its work", "lab doctor", cmd_doctor, 0 },
    { "bench", "[FILE.ini]", "time a training step against its matrix products", "lab bench experiments/extrapolate.ini", cmd_bench, 0 },
    { "new", "encoder|task NAME", "write a plugin to start from: it builds, passes the check and trains", "lab new encoder nearby", cmd_new, 0 },
    { "check", "FILE.so|NAME ...", "judge plugins: does each keep the promises of the plugin header?", "lab check rope", cmd_check, 0 },
    { "slurm", "script|submit|status|cancel|resume ...", "run an experiment on a cluster, as a job array of Slurm", "lab slurm submit experiments/extrapolate.ini --tasks 8 --time 2:00:00", cmd_slurm, 0 },
    { "work", "PLAN", "do one machine's share of a frozen plan", "lab work plans/extrapolate --task 0/4", cmd_work, 0 },
    { "merge", "OUT SHARD ...", "take over results from other databases, or from the shards of a plan", "lab merge results/lab.db plans/extrapolate", cmd_merge, 0 },
    { "worker", "", "a worker: one job on standard input", "", cmd_worker, 1 },
};
enum { N_COMMAND = sizeof command / sizeof *command };

static void print_help(void)
{
    printf("lab %s: does this positional encoding still work past the training length?\n\nusage: lab COMMAND ...\n\n", LAB_VERSION);
    for (int i = 0; i < N_COMMAND; i++)
        if (!command[i].hidden) printf("  %-9s %s\n", command[i].name, command[i].summary);
    printf("\n`lab COMMAND --help` tells more, with an example.  A first one:\n  lab run experiments/extrapolate.ini\n");
}

static int unknown(const char *name)
{
    const char *names[N_COMMAND + 1] = { NULL };
    for (int i = 0, n = 0; i < N_COMMAND; i++) if (!command[i].hidden) names[n++] = command[i].name;
    const char *near = str_nearest(name, names);
    fprintf(stderr, "lab: unknown command '%s'%s%s%s; see `lab --help`\n", name, near ? " (did you mean '" : "",
            near ? near : "", near ? "'?)" : "");
    return EXIT_USAGE;
}

/* An answer that did not reach its reader is none, whichever command gave it.  A worker's output is its log, and worth no run. */
static int check_output(const char *name, int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    if (code == EXIT_DONE) fprintf(stderr, "lab %s: the answer could not be written: %s\n", name, errno ? strerror(errno) : "output error");
    return code == EXIT_DONE ? EXIT_SOME_FAILED : code;
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN);        /* a file that may not grow (ulimit -f) is a write that fails, and is told as one */
    char *of_command[] = { argv[0], NULL, (char *)"--help", NULL };          /* `lab help run` is `lab run --help` */
    if (argc > 2 && !strcmp(argv[1], "help")) of_command[1] = argv[2], argv = of_command, argc = 3;
    if (argc < 2) return print_help(), EXIT_USAGE;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) return print_help(), check_output("--help", EXIT_DONE);
    if (!strcmp(argv[1], "--version")) return printf("lab %s\n", LAB_VERSION), check_output("--version", EXIT_DONE);
    for (int i = 0; i < N_COMMAND; i++) {
        if (strcmp(argv[1], command[i].name)) continue;
        int code = command[i].run(&command[i], argc - 1, argv + 1);
        return command[i].hidden ? code : check_output(command[i].name, code);
    }
    return unknown(argv[1]);
}
