/* cmd_plot -- lab plot [FILE.ini]: pictures of an experiment; in the terminal, or through gnuplot into a file. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "answer/plot.h"
#include "cli/cmd.h"

enum { NARROW = 40, WIDE = 100, USUAL = 78 };                /* columns */

static const char *const format_names[] = { "text", "svg", "png", "pdf", NULL };

/* The place of a name in a list that ends in NULL; -1: not there, with a hint in err. */
static int choose(const char *option, const char *name, const char *const *list, struct lab_err *err)
{
    struct str all = { 0 };
    const char *near = str_nearest(name, list);
    for (int i = 0; list[i]; i++) {
        if (!strcmp(list[i], name)) return str_free(&all), i;
        str_printf(&all, "%s%s", i ? ", " : "", list[i]);
    }
    lab_fail(err, "%s is '%s'%s%s%s; known: %s", option, name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "", str_text(&all));
    str_free(&all);
    return -1;
}

/* What the file's name says, if --format says nothing. */
static const char *format_of(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (int i = 1; dot && format_names[i]; i++) if (!strcmp(dot + 1, format_names[i])) return format_names[i];
    return "text";
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return USUAL;
    return size.ws_col < NARROW ? NARROW : size.ws_col > WIDE ? WIDE : size.ws_col;
}

static int draw(const struct cmd *cmd, const struct plot *plot, const char *format, const char *path)
{
    struct str out = { 0 }, script = { 0 };
    struct lab_err err = { "" };
    int rc = 0;
    if (!strcmp(format, "text")) {
        for (size_t i = 0; i < plot->n; i++) str_add(&out, i ? "\n" : ""), chart_text(&plot->chart[i], path ? USUAL : terminal_columns(), &out);
        if (out.failed) rc = lab_fail(&err, "out of memory while drawing");
    } else {
        gnuplot_script(plot, format, &script);
        rc = gnuplot_run(&script, &out, &err);
    }
    if (rc == 0) rc = cli_write(path, &out, &err);
    str_free(&out), str_free(&script);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, rc == GNUPLOT_MISSING ? EXIT_USAGE : EXIT_SOME_FAILED, &err);
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
        { "--format", 0, CLI_TEXT, "FORMAT", "text, svg, png or pdf (default: by the file's name, else text)", &format },
        { "--output", 'o', CLI_TEXT, "FILE", "write to this file (default: standard output)", &path },
        { "--task", 0, CLI_TEXT, "TASK", "this task alone", &options.task },
        { "--metric", 0, CLI_TEXT, "METRIC", "token_accuracy (default), sequence_accuracy or loss", &options.metric },
        CLI_DB(&source.db), CLI_SET(&source.set), CLI_END };
    struct lab_err err;
    if ((code = cli_parse(cmd, option, &argc, argv)) != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if (!format) format = format_of(path);
    if (choose("--format", format, format_names, &err) < 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if (kind_name && (kind = choose("--kind", kind_name, plot_names, &err)) < 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int binary = !strcmp(format, "png") || !strcmp(format, "pdf");
    if (binary && !path && isatty(STDOUT_FILENO)) {
        lab_fail(&err, "a %s is not for the terminal; choose a file with -o", format);
        return cli_fail(cmd, EXIT_USAGE, &err);
    }
    if ((code = cli_study_open(cmd, &source, argc, argv)) == EXIT_DONE) code = plot_study(cmd, &source, &options, kind, format, path);
    cli_study_close(&source);
    return code;
}
