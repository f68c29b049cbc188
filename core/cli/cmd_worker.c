/* cmd_worker -- lab worker: a worker process. The supervisor starts it; people have no use for it. */
#include "cli/cmd.h"
#include "exp/work.h"

int cmd_worker(const struct cmd *cmd, int argc, char **argv)
{
    const struct cli_option none[] = { CLI_END };
    int parsed = cli_parse(cmd, none, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    return work_main(0, 3);
}
