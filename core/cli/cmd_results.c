/* cmd_results -- lab results [FILE.ini]: the answer again, from the database alone; trains nothing. */
#include <stdio.h>
#include "answer/results.h"
#include "cli/cmd.h"

int cmd_results(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB;
    int json = 0, code = EXIT_DATABASE;
    struct cli_many set = { .n = 0 };
    const struct cli_option option[] = { CLI_DB(&db), CLI_JSON(&json), CLI_SET(&set), CLI_END };
    struct conf conf = { 0 };
    struct store *store = NULL;
    struct lab_err err;

    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed != 0) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (cli_conf_if_named(&conf, argc, argv, &set, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);

    if (store_open(&store, db, STORE_READ, &err) == 0) {
        int rc = (json ? results_json : results_print)(store, argc == 2 ? conf.sha256 : NULL, stdout, &err);
        code = rc == 0 ? EXIT_DONE : rc == STUDY_NO_SWEEP ? EXIT_USAGE : EXIT_DATABASE;
    }
    if (code != EXIT_DONE) cli_fail(cmd, code, &err);
    store_close(store);
    conf_free(&conf);
    return code;
}
