#include "cli/cmd.h"
int cmd_sample(const struct cmd *c, int argc, char **argv) { (void)c; (void)argc; (void)argv; return EXIT_USAGE; }
