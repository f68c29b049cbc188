/* cmd_report -- lab report [FILE.ini] -o report.html: an experiment as one page that needs nothing else. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "answer/report.h"
#include "cli/cmd.h"

enum { WATCH_S = 2 };                /* between two looks at the database */

struct choice { const char *baseline, *path; int watch; };

/* Reads everything anew, so that --watch sees what has come since.  *open_runs: not done, and not failed. */
static int write_once(const struct cmd *cmd, struct cli_study *source, const struct choice *choice, int argc, char **argv, int *open_runs)
{
    struct str out = { 0 };
    struct lab_err err;
    int code = cli_study_open(cmd, source, argc, argv);
    *open_runs = 0;
    if (code != EXIT_DONE) return code;
    for (size_t i = 0; i < source->study.n_run; i++) {
        const struct study_run *run = &source->study.run[i];
        *open_runs += strcmp(run->text[STUDY_STATUS], "done") && !study_is_failure(run);
    }
    int rc = report_write(&source->study, choice->baseline, &out);
    if (rc != 0) code = cli_fail(cmd, rc == COMPARE_REFUSED ? EXIT_USAGE : EXIT_DATABASE, &source->err);
    else if (cli_write(choice->path, &out, &err) != 0) code = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    str_free(&out);
    return code;
}

int cmd_report(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_study source = { .db = CLI_DEFAULT_DB };
    struct choice choice = { .path = "report.html" };
    int code, open_runs;
    const struct cli_option option[] = {
        { "--output", 'o', CLI_TEXT, "FILE", "where the page goes (default report.html; - is standard output)", &choice.path },
        { "--baseline", 0, CLI_TEXT, "ENCODER", "what the others are compared with (default: the file's first)", &choice.baseline },
        { "--watch", 0, CLI_FLAG, NULL, "write it again and again until no run is open", &choice.watch },
        CLI_DB(&source.db), CLI_SET(&source.set), CLI_END };
    if ((code = cli_parse(cmd, option, &argc, argv)) != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    do {
        code = write_once(cmd, &source, &choice, argc, argv, &open_runs);
        cli_study_close(&source);
    } while (code == EXIT_DONE && choice.watch && open_runs > 0 && sleep(WATCH_S) == 0);
    if (code == EXIT_DONE && strcmp(choice.path, "-")) printf("%s\n", choice.path);
    return code;
}
