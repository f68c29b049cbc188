/* cmd_status -- lab status [FILE.ini]: how far the sweeps are; --watch again and again until nothing is left to do.
 *
 * On a terminal --watch redraws the screen from its upper left corner, every second and whenever the window changes its
 * size: lines are cut at its right, and what does not fit below is counted.  Elsewhere it writes one plain line for each
 * sweep whenever its numbers change.  No colours, so nothing for NO_COLOR to switch off.  Reads only.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "answer/status.h"
#include "answer/table.h"
#include "cli/cmd.h"

struct watch { const struct cmd *cmd; const char *db, *sha256; int live; struct str before; };

static int read_status(struct status *s, const char *db, const char *sha256, struct lab_err *err)
{
    struct store *store;
    if (store_open(&store, db, STORE_READ, err) != 0) return -1;
    int rc = status_read(s, store, sha256, err);
    store_close(store);
    return rc;
}

static int write_out(const struct str *text)
{
    return !text->failed && fwrite(str_text(text), 1, text->len, stdout) == text->len && fflush(stdout) == 0 ? 0 : -1;
}

/* ---- a screen ---- */

static void window_size(int *rows, int *columns)
{
    struct winsize w;
    int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;
    *rows = known ? w.ws_row : 24;
    *columns = known ? w.ws_col : 80;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

/* Every line is cut to the window and clears what stood behind it, and the end clears what stood below. */
static void draw_screen(struct str *out, const char *text, int rows, int columns)
{
    int lines = count_lines(text), room = lines < rows ? lines : rows - 2;   /* the last row stays free for the cursor */
    str_add(out, "\033[H");
    for (int i = 0; i < room; i++) {
        size_t n = strcspn(text, "\n");
        str_addn(out, text, table_fit(text, n, (size_t)columns));
        str_add(out, "\033[K\n");
        text += n + 1;
    }
    if (room < lines) {
        char more[32];
        snprintf(more, sizeof more, "... %d more lines", lines - (room < 0 ? 0 : room));
        str_addn(out, more, table_fit(more, strlen(more), (size_t)columns));
        str_add(out, "\033[K\n");
    }
    str_add(out, "\033[J");
}

static int show_screen(const struct status *s)
{
    struct str text = { 0 }, screen = { 0 };
    int rows, columns;
    window_size(&rows, &columns);
    status_live(s, columns, live_is_utf8(), &text);
    draw_screen(&screen, str_text(&text), rows, columns);
    screen.failed |= text.failed;
    int rc = write_out(&screen);
    str_free(&text);
    str_free(&screen);
    return rc;
}

static int show_changes(struct watch *w, const struct status *s)
{
    struct str now = { 0 };
    for (size_t i = 0; i < s->n; i++) status_line(&s->sweep[i], &now);
    int changed = strcmp(str_text(&now), str_text(&w->before)) != 0;
    int rc = changed ? write_out(&now) : 0;
    str_free(&w->before);
    w->before = now;
    return rc;
}

/* ---- watching ---- */

static void on_resize(int signal) { (void)signal; }

/* A second, or until the window changes: without SA_RESTART the signal ends the sleep. */
static void wait_a_little(void) { nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL); }

static int watch(struct watch *w)
{
    const char *term = getenv("TERM");
    struct sigaction resize = { .sa_handler = on_resize };
    struct status s;
    struct lab_err err;
    int code = EXIT_DONE, over = 0;
    w->live = isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb");
    sigaction(SIGWINCH, &resize, NULL);
    if (w->live) fputs("\033[H\033[2J", stdout);
    while (code == EXIT_DONE && !over) {
        int rc = read_status(&s, w->db, w->sha256, &err);
        if (rc != 0) { code = cli_fail(w->cmd, rc == STATUS_NO_SWEEP ? EXIT_USAGE : EXIT_DATABASE, &err); break; }
        over = (w->live ? show_screen(&s) : show_changes(w, &s)) != 0 || status_is_over(&s);     /* main tells of output that failed */
        status_release(&s);
        if (code == EXIT_DONE && !over) wait_a_little();
    }
    str_free(&w->before);
    return code;
}

static int show_once(const struct cmd *cmd, const char *db, const char *sha256, int json)
{
    struct status s;
    struct lab_err err;
    struct str out = { 0 };
    int rc = read_status(&s, db, sha256, &err);
    if (rc != 0) return cli_fail(cmd, rc == STATUS_NO_SWEEP ? EXIT_USAGE : EXIT_DATABASE, &err);
    if (json) status_json(&s, &out);
    else status_print(&s, &out);
    rc = EXIT_DONE;
    if (write_out(&out) != 0) {
        lab_fail(&err, "the status cannot be written: %s", strerror(errno));
        rc = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    }
    str_free(&out);
    status_release(&s);
    return rc;
}

int cmd_status(const struct cmd *cmd, int argc, char **argv)
{
    const char *db = CLI_DEFAULT_DB;
    struct cli_many set = { .n = 0 };
    int json = 0, again = 0;
    const struct cli_option option[] = {
        CLI_DB(&db),
        { "--watch", 'w', CLI_FLAG, NULL, "show it every second, until every run is done or failed", &again },
        CLI_JSON(&json), CLI_SET(&set), CLI_END };
    struct conf conf = { 0 };
    struct lab_err err = { "" };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (again && json) lab_fail(&err, "--watch is for eyes, --json for programs: choose one");
    else cli_conf_if_named(&conf, argc, argv, &set, &err);
    if (*err.msg) return cli_fail(cmd, EXIT_USAGE, &err);
    const char *sha256 = argc == 2 ? conf.sha256 : NULL;
    int code = again ? watch(&(struct watch){ .cmd = cmd, .db = db, .sha256 = sha256 }) : show_once(cmd, db, sha256, json);
    conf_free(&conf);
    return code;
}
