/* cli_picture -- what the commands that draw have in common: the format, the width of the terminal, gnuplot. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "answer/plot.h"
#include "cli/cmd.h"

enum { NARROW = 40, WIDE = 100, USUAL = 78 };                /* columns */

static const char *const format_names[] = { "text", "svg", "png", "pdf", NULL };

int cli_choose(const char *option, const char *name, const char *const *list, struct lab_err *err)
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

int cli_format(const char **format, const char *path, struct lab_err *err)
{
    if (!*format) *format = format_of(path);
    if (cli_choose("--format", *format, format_names, err) < 0) return -1;
    int binary = !strcmp(*format, "png") || !strcmp(*format, "pdf");
    if (binary && !path && isatty(STDOUT_FILENO)) return lab_fail(err, "a %s is not for the terminal; choose a file with -o", *format);
    return 0;
}

int cli_terminal(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
}

int cli_wide(const struct str *text, size_t columns)
{
    for (const char *line = str_text(text); *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        if (table_fit(line, n, columns) < n) return 1;
        line += n;
    }
    return 0;
}

int cli_columns(const char *path)
{
    int columns = path ? 0 : cli_terminal();
    return columns == 0 ? USUAL : columns < NARROW ? NARROW : columns > WIDE ? WIDE : columns;
}

int cli_draw(const struct cmd *cmd, const struct plot *plot, const char *format, const char *path)
{
    struct str out = { 0 }, script = { 0 };
    struct lab_err err = { "" };
    gnuplot_script(plot, format, &script);
    int rc = gnuplot_run(&script, &out, &err);
    if (rc == 0) rc = cli_write(path, &out, &err);
    str_free(&out), str_free(&script);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, rc == GNUPLOT_MISSING ? EXIT_USAGE : EXIT_SOME_FAILED, &err);
}
