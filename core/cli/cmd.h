/* cmd -- what every command shares: its row in the table, its options, exit codes, common set-up.
 *
 * To add a command: write cmd_<name>.c with one function, declare it here, add its row
 * to the table in main.c.  `lab --help`, `lab NAME --help` and completion come from the row.
 */
#ifndef LAB_CLI_CMD_H
#define LAB_CLI_CMD_H
#include "abi/lab_plugin.h"
#include "answer/plot.h"
#include "answer/study.h"
#include "exp/conf.h"
#include "host/plugin.h"
#include "store/store.h"

enum { EXIT_DONE = 0, EXIT_SOME_FAILED = 1, EXIT_USAGE = 2, EXIT_DATABASE = 3, EXIT_CONFLICT = 4,
       EXIT_INTERRUPTED = 75, EXIT_SECOND_INTERRUPT = 130 };

struct cmd {
    const char *name, *arguments, *summary, *example;
    int (*run)(const struct cmd *, int argc, char **argv);   /* argv[0] is the command's name; returns the exit code */
    int hidden;                      /* not in --help: for lab itself */
};

enum cli_kind { CLI_FLAG,            /* into int */
                CLI_TEXT,            /* into const char * */
                CLI_INT,             /* into int64_t, at least 0 */
                CLI_MANY };          /* into struct cli_many: may be given again and again */
struct cli_many { const char *value[64]; int n; };
struct cli_option {
    const char *name;                /* "--db"; NULL ends the table */
    char letter;                     /* 'n' for -n, 0 = none */
    enum cli_kind kind;
    const char *argument;            /* "FILE" in help */
    const char *help;
    void *into;
};
#define CLI_END { NULL, 0, 0, NULL, NULL, NULL }
#define CLI_DB(into)     { "--db", 0, CLI_TEXT, "FILE", "results database (default results/lab.db)", into }
#define CLI_JSON(into)   { "--json", 0, CLI_FLAG, NULL, "print JSON", into }
#define CLI_SET(into)    { "--set", 0, CLI_MANY, "SECTION.KEY=VALUE", "override one key of the experiment file", into }
#define CLI_PLUGIN(into) { "--plugin", 0, CLI_MANY, "FILE|FOLDER", "load plugins from here first", into }
#define CLI_FORMAT(into) { "--format", 0, CLI_TEXT, "FORMAT", "text, svg, png or pdf (default: by the file's name, else text)", into }
#define CLI_OUTPUT(into) { "--output", 'o', CLI_TEXT, "FILE", "write to this file (default: standard output)", into }
#define CLI_DEFAULT_DB "results/lab.db"

/* Takes the options out of argv; what is left are the arguments, *argc of them from argv[1] on.  `--` ends options.
 * 0 go on; 1 help was printed (exit 0); -1 usage error, already printed (exit EXIT_USAGE). */
int cli_parse(const struct cmd *, const struct cli_option *, int *argc, char **argv);
/* "lab NAME: message" on stderr; returns code. */
int cli_fail(const struct cmd *, int code, const struct lab_err *err);
/* The experiment file with its overrides, read. */
int cli_conf(struct conf *, const char *path, const struct cli_many *set, struct lab_err *err);
/* Of a command that may be given one: argv[1], if there; else conf stays as it was.  --set without a file is refused. */
int cli_conf_if_named(struct conf *, int argc, char **argv, const struct cli_many *set, struct lab_err *err);
/* All plugins, loaded. */
int cli_registry(struct registry *, const struct cli_many *plugin, struct lab_err *err);

/* What commands that read results share: a database, and the study of a file or of the sweep entered last. */
struct cli_study { const char *db; struct cli_many set; struct store *store; struct study study; struct lab_err err; };
/* argv[1], if there, is the experiment file.  EXIT_DONE, or the exit code, its message printed; cli_study_close follows. */
int  cli_study_open(const struct cmd *, struct cli_study *, int argc, char **argv);
void cli_study_close(struct cli_study *);
/* To a file, replaced as a whole or not at all; NULL or "-": to standard output. */
int  cli_write(const char *path, const struct str *, struct lab_err *err);

/* Pictures.  The format, by the file's name if *format is NULL: 0 or -1. */
int  cli_format(const char **format, const char *path, struct lab_err *err);
int  cli_choose(const char *option, const char *name, const char *const *list, struct lab_err *err);   /* its place; -1: not there */
int  cli_terminal(void);             /* columns; 0: standard output is no terminal */
int  cli_wide(const struct str *, size_t columns);           /* is some line of the text wider? */
int  cli_columns(const char *path);  /* that a picture as text may take; path: where it goes, NULL is standard output */
int  cli_draw(const struct cmd *, const struct plot *, const char *format, const char *path);          /* through gnuplot; the exit code */

int cmd_run(const struct cmd *, int, char **);
int cmd_plan(const struct cmd *, int, char **);
int cmd_results(const struct cmd *, int, char **);
int cmd_compare(const struct cmd *, int, char **);
int cmd_plot(const struct cmd *, int, char **);
int cmd_report(const struct cmd *, int, char **);
int cmd_export(const struct cmd *, int, char **);
int cmd_status(const struct cmd *, int, char **);
int cmd_retry(const struct cmd *, int, char **);
int cmd_gc(const struct cmd *, int, char **);
int cmd_fsck(const struct cmd *, int, char **);
int cmd_doctor(const struct cmd *, int, char **);
int cmd_slurm(const struct cmd *, int, char **);
int cmd_query(const struct cmd *, int, char **);
int cmd_list(const struct cmd *, int, char **);
int cmd_info(const struct cmd *, int, char **);
int cmd_inspect(const struct cmd *, int, char **);
int cmd_sample(const struct cmd *, int, char **);
int cmd_bench(const struct cmd *, int, char **);
int cmd_check(const struct cmd *, int, char **);
int cmd_new(const struct cmd *, int, char **);
int cmd_work(const struct cmd *, int, char **);
int cmd_merge(const struct cmd *, int, char **);
int cmd_worker(const struct cmd *, int, char **);
#endif
