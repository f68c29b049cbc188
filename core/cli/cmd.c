/* cmd -- see cmd.h. */
#include "cli/cmd.h"
#include <stdio.h>
#include <string.h>
#include "base/str.h"

static void print_help(const struct cmd *cmd, const struct cli_option *option)
{
    const char *stop = cmd->summary[strlen(cmd->summary) - 1] == '?' ? "" : ".";
    printf("usage: lab %s %s%s[OPTIONS]\n\n%s%s\n", cmd->name, cmd->arguments, *cmd->arguments ? " " : "", cmd->summary, stop);
    if (option->name) printf("\n");
    for (; option->name; option++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s", option->letter ? (char[]){ '-', option->letter, ',', ' ', 0 } : "",
                 option->name, option->argument ? " " : "", option->argument ? option->argument : "");
        printf("  %-26s %s\n", left, option->help);
    }
    printf("\nexample:\n  %s\n", cmd->example);
}

static int usage_error(const struct cmd *cmd, const char *what, const char *arg, const char *hint)
{
    fprintf(stderr, "lab %s: %s '%s'%s%s%s; see `lab %s --help`\n", cmd->name, what, arg, *hint ? " (" : "", hint, *hint ? ")" : "", cmd->name);
    return -1;
}

static const struct cli_option *find(const struct cli_option *option, const char *arg, size_t n)
{
    for (; option->name; option++) {
        if (strlen(option->name) == n && !strncmp(option->name, arg, n)) return option;
        if (option->letter && n == 2 && arg[0] == '-' && arg[1] == option->letter) return option;
    }
    return NULL;
}

static int unknown_option(const struct cmd *cmd, const struct cli_option *option, const char *arg)
{
    const char *names[65] = { NULL };
    char hint[96] = "";
    for (int n = 0; option->name && n < 64; option++) names[n++] = option->name;
    const char *near = str_nearest(arg, names);
    if (near) snprintf(hint, sizeof hint, "did you mean %s?", near);
    return usage_error(cmd, "unknown option", arg, hint);
}

static int store_value(const struct cmd *cmd, const struct cli_option *option, const char *value)
{
    struct cli_many *many = option->into;
    switch (option->kind) {
    case CLI_FLAG:
        *(int *)option->into = 1;
        return 0;
    case CLI_TEXT:
        *(const char **)option->into = value;
        return 0;
    case CLI_INT:
        if (str_to_int(value, 0, INT64_MAX, option->into)) return 0;
        return usage_error(cmd, "not a whole number of at least 0:", value, option->name);
    case CLI_MANY:
        if (many->n == sizeof many->value / sizeof *many->value) return usage_error(cmd, "too often", option->name, "the limit is 64");
        many->value[many->n++] = value;
        return 0;
    }
    return -1;
}

int cli_parse(const struct cmd *cmd, const struct cli_option *option, int *argc, char **argv)
{
    int kept = 1, literal = 0;
    for (int i = 1; i < *argc; i++) {
        char *arg = argv[i];
        if (literal || arg[0] != '-' || !arg[1]) { argv[kept++] = arg; continue; }
        if (!strcmp(arg, "--")) { literal = 1; continue; }
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) return print_help(cmd, option), 1;
        size_t named = arg[1] == '-' ? strcspn(arg, "=") : 2;                       /* --jobs=4 and -j4 have their value with them */
        const char *attached = arg[named] ? arg + named + (arg[named] == '=') : NULL;
        const struct cli_option *o = find(option, arg, named);
        if (!o) return unknown_option(cmd, option, arg);
        if (o->kind == CLI_FLAG && attached) return usage_error(cmd, "no value goes with", o->name, "");
        if (o->kind != CLI_FLAG && !attached && i + 1 == *argc) return usage_error(cmd, "a value is missing after", o->name, o->argument);
        const char *value = o->kind == CLI_FLAG ? NULL : attached ? attached : argv[++i];
        if (value && !*value) return usage_error(cmd, "an empty value came with", o->name, o->argument);      /* an unset variable of a script */
        if (store_value(cmd, o, value) != 0) return -1;
    }
    *argc = kept;
    return 0;
}

int cli_fail(const struct cmd *cmd, int code, const struct lab_err *err)
{
    fprintf(stderr, "lab %s: %s\n", cmd->name, err->msg);
    return code;
}

int cli_conf(struct conf *conf, const char *path, const struct cli_many *set, struct lab_err *err)
{
    if (conf_read(conf, path, err) != 0) return -1;
    for (int i = 0; i < set->n; i++)
        if (conf_override(conf, set->value[i], err) != 0) return conf_free(conf), -1;
    return 0;
}

int cli_conf_if_named(struct conf *conf, int argc, char **argv, const struct cli_many *set, struct lab_err *err)
{
    if (argc > 2) return lab_fail(err, "one experiment file at most");
    if (argc < 2 && set->n) return lab_fail(err, "--set changes an experiment file; name the file too");
    return argc == 2 ? cli_conf(conf, argv[1], set, err) : 0;
}

int cli_registry(struct registry *registry, const struct cli_many *plugin, struct lab_err *err)
{
    return registry_load(registry, plugin->value, plugin->n, err);
}
