/* cmd_plot -- lab plot [FILE.ini]: pictures of an experiment; in the terminal, or through gnuplot into a file. */
#include <stdio.h>
#include <string.h>
#include "answer/plot.h"
#include "cli/cmd.h"

static int draw(const struct cmd *cmd, const struct plot *plot, const char *format, const char *path)
{
    struct str out = { 0 };
    struct lab_err err = { "" };
    if (strcmp(format, "text") != 0) return cli_draw(cmd, plot, format, path);
    for (size_t i = 0; i < plot->n; i++) str_add(&out, i ? "\n" : ""), chart_text(&plot->chart[i], cli_columns(path), &out);
    int rc = out.failed ? lab_fail(&err, "out of memory while drawing") : cli_write(path, &out, &err);
    str_free(&out);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, EXIT_SOME_FAILED, &err);
}

static int nothing(const struct cmd *cmd, enum plot_kind kind)
{
    struct lab_err err;
    lab_fail(&err, kind == PLOT_RANKS ? "a rank diagram needs two tasks that were trained at the same length"
                   : "there is nothing to draw yet: no run of this experiment is done");
    return cli_fail(cmd, EXIT_USAGE, &err);
}

static int plot_study(const struct cmd *cmd, struct cli_study *source, const struct compare_options *options, int kind, const char *format,
                      const char *path)
{
    struct compare c = { 0 };
    struct plot plot = { 0 };
    int code = EXIT_DATABASE, rc = compare_build(&c, &source->study, options);
    if (kind < 0) kind = (int)plot_choose(&source->study);
    if (rc == 0) rc = plot_add(&plot, &c, (enum plot_kind)kind);
    if (rc != 0) code = cli_fail(cmd, rc == COMPARE_REFUSED ? EXIT_USAGE : EXIT_DATABASE, &source->err);
    else code = plot.n ? draw(cmd, &plot, format, path) : nothing(cmd, (enum plot_kind)kind);
    plot_free(&plot);
    compare_release(&c);
    return code;
}

int cmd_plot(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_study source = { .db = CLI_DEFAULT_DB };
    struct compare_options options = { .allow_mixed = 1 };   /* a picture tests nothing */
    const char *kind_name = NULL, *format = NULL, *path = NULL;
    int kind = -1, code;
    const struct cli_option option[] = {
        { "--kind", 0, CLI_TEXT, "KIND", "length, loss, heatmap, position, ranks or seeds (default: what fits)", &kind_name },
        CLI_FORMAT(&format), CLI_OUTPUT(&path),
        { "--task", 0, CLI_TEXT, "TASK", "this task alone", &options.task },
        { "--metric", 0, CLI_TEXT, "METRIC", "token_accuracy (default), sequence_accuracy or loss", &options.metric },
        CLI_DB(&source.db), CLI_SET(&source.set), CLI_END };
    struct lab_err err;
    if ((code = cli_parse(cmd, option, &argc, argv)) != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if (cli_format(&format, path, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if (kind_name && (kind = cli_choose("--kind", kind_name, plot_names, &err)) < 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if ((code = cli_study_open(cmd, &source, argc, argv)) == EXIT_DONE) code = plot_study(cmd, &source, &options, kind, format, path);
    cli_study_close(&source);
    return code;
}
