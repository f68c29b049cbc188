/* cmd_slurm_status -- lab slurm status PLAN|FILE.ini: Slurm's view of the tasks beside ours, and where they disagree.
 *
 * Ours is what stands in the published shards; a task that works shows only there.  Slurm is asked at most once a minute,
 * also under --watch.  Changes nothing but the plan's note of what Slurm said last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "answer/table.h"
#include "base/mem.h"
#include "cli/slurm.h"
#include "exp/frozen.h"
#include "run/shards.h"
#include "run/slurm_jobs.h"

enum { SHOWN = 20 };                 /* tasks of a table for people */

struct view {
    const char *folder;
    struct frozen_head head;
    struct slurm_jobs jobs;
    struct shards shards;
    struct shards_count all;
    int64_t count[SLURM_STATES], active, never;      /* tasks by Slurm's state; never: not submitted */
    char silent[1024];               /* why Slurm told nothing, "" if it did */
};

static void view_release(struct view *v)
{
    shards_release(&v->shards);
    slurm_jobs_release(&v->jobs);
    frozen_head_release(&v->head);
}

static int view_read(struct view *v, const char *folder, struct lab_err *err)
{
    struct lab_err why;
    *v = (struct view){ .folder = folder, .jobs = { .lock = -1 } };
    if (frozen_head_read(&v->head, folder, err) != 0) return -1;
    if (slurm_jobs_open(&v->jobs, folder, v->head.tasks, 0, err) != 0) goto fail;
    if (slurm_jobs_ask(&v->jobs, &why) != 0) snprintf(v->silent, sizeof v->silent, "%s", why.msg);
    if (shards_read(&v->shards, folder, err) != 0) goto fail;        /* after Slurm: what ended by then has published by now */
    v->all = shards_of_task(&v->shards, 0, 1);
    for (int64_t t = 0; t < v->head.tasks; t++) {
        v->never += !v->jobs.task[t].job;
        if (v->jobs.task[t].job) v->count[v->jobs.task[t].state]++;
    }
    v->active = v->count[SLURM_PENDING] + v->count[SLURM_RUNNING];
    return 0;
fail:
    view_release(v);
    return -1;
}

/* Nothing can change any more without somebody's doing. */
static int is_over(const struct view *v) { return !v->all.missing || (!v->active && !*v->silent); }

/* ---- one task ---- */

enum verdict { FINE, STOPPED, DISAGREE };

/* What is to be said of a task: nothing, that it stopped, or that the two views contradict each other. */
static enum verdict judge(const struct view *v, const struct slurm_element *e, const struct shards_count *c, char *text, size_t size)
{
    const char *runs = c->missing == 1 ? "1 run is not" : NULL;
    char many[48];
    snprintf(many, sizeof many, "%" PRId64 " runs are not", c->missing);
    if (!runs) runs = many;
    *text = '\0';
    if (!e->job || *v->silent || slurm_is_active(e->state)) return FINE;
    switch (e->state) {
    case SLURM_DONE:
        if (c->missing) return snprintf(text, size, "Slurm says completed, but %s published", runs), DISAGREE;
        return FINE;
    case SLURM_UNKNOWN:
        if (c->missing) return snprintf(text, size, "Slurm has forgotten it, and %s published", runs), DISAGREE;
        return FINE;
    default:
        if (!c->missing && !c->failed) return snprintf(text, size, "Slurm says %s, but every run is published", slurm_state_name[e->state]), DISAGREE;
        if (c->missing) return snprintf(text, size, "%s; %s published: `lab slurm resume` goes on", slurm_state_name[e->state], runs), STOPPED;
        return FINE;                                 /* it failed because runs failed */
    }
}

static void put_number(struct table *t, int64_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, x);
    table_number(t, text);
}

static void put_element(struct table *t, const struct slurm_element *e)
{
    char text[48] = "";
    if (e->job) snprintf(text, sizeof text, "%" PRId64 "_%" PRId64, e->job, e->index);
    table_add(t, text);
}

/* The tasks of which something is to be said; how many did not fit. */
static int64_t print_tasks(const struct view *v, struct str *out)
{
    static const char *const header[] = { "task", "job", "Slurm", "runs", "done", "failed", "missing", "" };
    struct table t;
    int64_t shown = 0, more = 0;
    table_init(&t, sizeof header / sizeof *header);
    for (size_t i = 0; i < sizeof header / sizeof *header; i++) table_add(&t, header[i]);
    for (int64_t i = 0; i < v->head.tasks; i++) {
        const struct slurm_element *e = &v->jobs.task[i];
        struct shards_count c = shards_of_task(&v->shards, i, v->head.tasks);
        char text[160];
        if (judge(v, e, &c, text, sizeof text) == FINE) continue;
        if (shown == SHOWN) { more++; continue; }
        shown++;
        put_number(&t, i);
        put_element(&t, e);
        table_add(&t, *e->word ? e->word : "-");
        put_number(&t, c.runs), put_number(&t, c.done), put_number(&t, c.failed), put_number(&t, c.missing);
        table_add(&t, text);
    }
    if (shown) str_add(out, "\n"), table_write(&t, TABLE_TEXT, out);
    table_free(&t);
    return more;
}

/* ---- all of it ---- */

static void print_slurm(const struct view *v, struct str *out)
{
    static const enum slurm_state order[SLURM_STATES] = { SLURM_DONE, SLURM_RUNNING, SLURM_PENDING, SLURM_INTERRUPTED, SLURM_TIMEOUT, SLURM_FAILED,
                                                          SLURM_LOST, SLURM_UNKNOWN };
    const char *comma = "";
    str_add(out, "Slurm:     ");
    if (!v->jobs.n) { str_add(out, "never submitted; `lab slurm submit` does it\n"); return; }
    if (*v->silent) { table_show(out, v->silent), str_add(out, "\n"); return; }
    for (int s = 0; s < SLURM_STATES; s++) {
        if (!v->count[order[s]]) continue;
        str_printf(out, "%s%" PRId64 " task%s %s", comma, v->count[order[s]], v->count[order[s]] == 1 ? "" : "s", slurm_state_name[order[s]]);
        comma = ", ";
    }
    if (v->never) str_printf(out, "%s%" PRId64 " never submitted", comma, v->never);
    str_printf(out, " (%s", v->jobs.source);
    if (v->jobs.age_s) str_printf(out, ", %" PRId64 " s ago", v->jobs.age_s);
    str_add(out, ")\n");
    if (v->jobs.merge) str_printf(out, "merge:     job %" PRId64 ", %s\n", v->jobs.merge, slurm_state_name[v->jobs.merge_state]);
}

static void print(const struct view *v, struct str *out)
{
    table_show(out, v->head.name);
    str_printf(out, ": %" PRId64 " run%s in %" PRId64 " task%s, plan ", v->head.runs, v->head.runs == 1 ? "" : "s", v->head.tasks,
               v->head.tasks == 1 ? "" : "s");
    table_show(out, v->folder);
    str_printf(out, "\npublished: %" PRId64 " done, %" PRId64 " failed, %" PRId64 " missing (%zu shard%s)\n", v->all.done,
               v->all.failed, v->all.missing,
               v->shards.files, v->shards.files == 1 ? "" : "s");
    print_slurm(v, out);
    if (*v->shards.unread) str_add(out, "unread:    "), table_show(out, v->shards.unread), str_add(out, "\n");
    int64_t more = print_tasks(v, out);
    if (more) str_printf(out, "... and %" PRId64 " more; --json has them all\n", more);
}

static void json_text(struct str *out, const char *key, const char *text)
{
    str_printf(out, ", \"%s\": ", key);
    str_json(out, text);
}

static void json_task(const struct view *v, int64_t i, struct str *out)
{
    const struct slurm_element *e = &v->jobs.task[i];
    struct shards_count c = shards_of_task(&v->shards, i, v->head.tasks);
    char text[160];
    enum verdict verdict = judge(v, e, &c, text, sizeof text);
    str_printf(out, "{\"task\": %" PRId64 ", \"job\": ", i);
    if (e->job) str_printf(out, "\"%" PRId64 "_%" PRId64 "\"", e->job, e->index);
    else str_add(out, "null");
    json_text(out, "slurm", e->word);
    json_text(out, "state", e->job ? slurm_state_name[e->state] : "never submitted");
    str_printf(out, ", \"exit_code\": %d, \"runs\": %" PRId64 ", \"done\": %" PRId64 ", \"failed\": %" PRId64 ", \"missing\": %" PRId64 ", \"disagree\": %s",
               e->status, c.runs, c.done, c.failed, c.missing, verdict == DISAGREE ? "true" : "false");
    json_text(out, "note", text);
    str_add(out, "}");
}

static void print_json(const struct view *v, struct str *out)
{
    str_add(out, "{\"name\": ");
    str_json(out, v->head.name);
    json_text(out, "plan", v->folder);
    str_printf(out, ", \"runs\": %" PRId64 ", \"done\": %" PRId64 ", \"failed\": %" PRId64 ", \"missing\": %" PRId64, v->all.runs,
               v->all.done, v->all.failed,
               v->all.missing);
    json_text(out, "source", v->jobs.source);
    json_text(out, "silent", v->silent);
    json_text(out, "unread", v->shards.unread);
    str_printf(out, ", \"age_s\": %" PRId64 ", \"jobs\": [", v->jobs.age_s);
    for (size_t i = 0; i < v->jobs.n; i++) str_printf(out, "%s%" PRId64, i ? ", " : "", v->jobs.array[i].job);
    str_printf(out, "], \"merge\": %" PRId64 ", \"tasks\": [", v->jobs.merge);
    for (int64_t i = 0; i < v->head.tasks; i++) {
        str_add(out, i ? ",\n  " : "\n  ");
        json_task(v, i, out);
    }
    str_add(out, "]}\n");
}

static int show(const struct view *v, int json, struct lab_err *err)
{
    struct str out = { 0 };
    (json ? print_json : print)(v, &out);
    int rc = cli_write(NULL, &out, err);
    str_free(&out);
    return rc;
}

/* On a terminal from the upper left corner; elsewhere one after the other. */
static int watch(const struct cmd *cmd, const char *folder)
{
    int live = isatty(STDOUT_FILENO), over = 0, code = EXIT_DONE;
    while (code == EXIT_DONE && !over) {
        struct view v;
        struct lab_err err;
        if (view_read(&v, folder, &err) != 0) return cli_fail(cmd, EXIT_DATABASE, &err);
        if (live) fputs("\033[H\033[2J", stdout);
        if (show(&v, 0, &err) != 0) code = cli_fail(cmd, EXIT_SOME_FAILED, &err);
        over = is_over(&v);
        view_release(&v);
        if (code == EXIT_DONE && !over) nanosleep(&(struct timespec){ .tv_sec = SLURM_ASK_S }, NULL);
    }
    return code;
}

static int show_once(const struct cmd *cmd, const char *folder, int json)
{
    struct view v;
    struct lab_err err;
    if (view_read(&v, folder, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    int code = show(&v, json, &err) == 0 ? EXIT_DONE : cli_fail(cmd, EXIT_SOME_FAILED, &err);
    view_release(&v);
    return code;
}

int cmd_slurm_status(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_many set = { .n = 0 };
    int json = 0, again = 0;
    const struct cli_option option[] = {
        { "--watch", 'w', CLI_FLAG, NULL, "show it every minute, until no task is queued or running", &again },
        CLI_JSON(&json), CLI_SET(&set), CLI_END };
    struct str folder = { 0 };
    struct lab_err err = { "" };
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) lab_fail(&err, "expected a plan or its experiment file, found %d; see `lab %s --help`", argc - 1, cmd->name);
    else if (again && json) lab_fail(&err, "--watch is for eyes, --json for programs: choose one");
    else slurm_find_plan(&folder, argv[1], &set, &err);
    int code = *err.msg ? cli_fail(cmd, EXIT_USAGE, &err) : again ? watch(cmd, folder.text) : show_once(cmd, folder.text, json);
    str_free(&folder);
    return code;
}
