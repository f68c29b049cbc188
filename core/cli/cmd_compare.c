/* cmd_compare -- lab compare [FILE.ini]: every encoder against a baseline, seed by seed, with intervals and exact tests. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "answer/compare.h"
#include "cli/cmd.h"

static int print(const struct cmd *cmd, const struct compare *c, int json)
{
    struct str out = { 0 };
    struct lab_err err;
    (json ? compare_json : compare_write)(c, &out);
    int code = EXIT_DATABASE;
    if (out.failed) cli_fail(cmd, code, (lab_fail(&err, "out of memory while writing the tables"), &err));
    else if (cli_write(NULL, &out, &err) != 0) cli_fail(cmd, code = EXIT_SOME_FAILED, &err);
    else code = EXIT_DONE;
    str_free(&out);
    return code;
}

int cmd_compare(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_study source = { .db = CLI_DEFAULT_DB };
    struct compare_options options = { 0 };
    int json = 0, code;
    const struct cli_option option[] = {
        { "--baseline", 0, CLI_TEXT, "ENCODER", "what the others are compared with (default: the file's first)", &options.baseline },
        { "--task", 0, CLI_TEXT, "TASK", "this task alone", &options.task },
        { "--length", 0, CLI_TEXT, "LENGTHS", "such as '>8', 12..32 or 12,16 (default: all past training)", &options.lengths },
        { "--metric", 0, CLI_TEXT, "METRIC", "token_accuracy (default), sequence_accuracy or loss", &options.metric },
        { "--allow-mixed", 0, CLI_FLAG, NULL, "compare even other data, budgets or code, and say so", &options.allow_mixed },
        CLI_DB(&source.db), CLI_SET(&source.set), CLI_JSON(&json), CLI_END };
    struct compare c = { 0 };
    if ((code = cli_parse(cmd, option, &argc, argv)) != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if ((code = cli_study_open(cmd, &source, argc, argv)) == EXIT_DONE) {
        int rc = compare_build(&c, &source.study, &options);
        code = rc == 0 ? print(cmd, &c, json) : cli_fail(cmd, rc < 0 ? EXIT_DATABASE : EXIT_USAGE, &source.err);
        compare_release(&c);
    }
    cli_study_close(&source);
    return code;
}
