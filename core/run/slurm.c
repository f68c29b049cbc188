/* slurm -- see slurm.h. */
#include "run/slurm.h"
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- words ---- */

static int is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    return *text && text[strspn(text, plain)] == '\0';
}

void slurm_quote(struct str *out, const char *text)
{
    if (is_plain(text)) { str_add(out, text); return; }
    str_add(out, "'");
    for (; *text; text++) {
        if (*text == '\'') str_add(out, "'\\''");
        else str_addn(out, text, 1);
    }
    str_add(out, "'");
}

/* One word of a #SBATCH line.  sbatch reads quotes there as a shell does, but obeys backslashes inside them too. */
static void directive_word(struct str *out, const char *text)
{
    struct str escaped = { 0 };
    for (const char *c = text; *c; c++) str_add(&escaped, *c == '\\' ? "\\\\" : (char[]){ *c, '\0' });
    out->failed |= escaped.failed;
    slurm_quote(out, str_text(&escaped));
    str_free(&escaped);
}

static void directive(struct str *out, const char *option, const char *value)
{
    struct str word = { 0 };
    str_printf(&word, "--%s=%s", option, value);
    str_add(out, "#SBATCH ");
    directive_word(out, str_text(&word));
    str_add(out, "\n");
    out->failed |= word.failed;
    str_free(&word);
}

static void directive_number(struct str *out, const char *option, int64_t value) { str_printf(out, "#SBATCH --%s=%" PRId64 "\n", option, value); }

/* Names of jobs stand in lists and file names: what could trouble those becomes a dash. */
static void directive_name(struct str *out, const char *prefix, const char *name)
{
    str_printf(out, "#SBATCH --job-name=%s", prefix);
    for (; *name; name++) str_addn(out, isalnum((unsigned char)*name) || strchr("._", *name) ? name : "-", 1);
    str_add(out, "\n");
}

/* In the pattern of a log's name % begins a field, and %% is a percent sign. */
static void directive_log(struct str *out, const char *plan, const char *pattern)
{
    struct str path = { 0 };
    for (; *plan; plan++) str_add(&path, *plan == '%' ? "%%" : (char[]){ *plan, '\0' });
    str_printf(&path, "/logs/%s", pattern);
    directive(out, "output", str_text(&path));
    out->failed |= path.failed;
    str_free(&path);
}

/* The user's own words, one option a line; a word that is no option is the value of the one before. */
static void directive_options(struct str *out, const struct slurm_job *job)
{
    for (int i = 0; i < job->n_option; i++) {
        str_add(out, job->option[i][0] == '-' ? "#SBATCH " : " ");
        directive_word(out, job->option[i]);
        if (i + 1 == job->n_option || job->option[i + 1][0] == '-') str_add(out, "\n");
    }
}

void slurm_ranges(struct str *out, const unsigned char *wanted, int64_t n)
{
    const char *comma = "";
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i;
        if (!wanted[i]) continue;
        while (i + 1 < n && wanted[i + 1]) i++;
        str_printf(out, "%s%" PRId64, comma, first);
        if (i > first) str_printf(out, "-%" PRId64, i);
        comma = ",";
    }
}

int64_t slurm_seconds(const char *text)
{
    int64_t part[4] = { 0 }, days = 0;
    int n = 0, used = 0;
    const char *dash = strchr(text, '-');
    if (!strcasecmp(text, "unlimited") || !strcasecmp(text, "infinite") || !strcmp(text, "-1")) return -1;
    if (dash) {
        if (sscanf(text, "%6" SCNd64 "%n", &days, &used) != 1 || !isdigit((unsigned char)*text) || text + used != dash) return -2;
        text = dash + 1;
    }
    for (; n < 4; n++, text += *text == ':') {
        if (!isdigit((unsigned char)*text) || sscanf(text, "%9" SCNd64 "%n", &part[n], &used) != 1) return -2;
        text += used;
        if (!*text) { n++; break; }
        if (*text != ':') return -2;
    }
    if (n > 3) return -2;
    if (dash) return ((days * 24 + part[0]) * 60 + part[1]) * 60 + part[2];
    return n == 1 ? part[0] * 60 : n == 2 ? part[0] * 60 + part[1] : (part[0] * 60 + part[1]) * 60 + part[2];
}

/* ---- scripts ---- */

static int has_control(const char *text)
{
    for (; *text; text++) if (iscntrl((unsigned char)*text)) return 1;
    return 0;
}

/* Is it --name, --name=..., or the letter's -x...? */
static int is_option(const char *word, const char *name, char letter)
{
    size_t n = strlen(name);
    if (letter && word[0] == '-' && word[1] == letter) return 1;
    return !strncmp(word, "--", 2) && !strncmp(word + 2, name, n) && (word[2 + n] == '=' || !word[2 + n]);
}

static int gives(const struct slurm_job *job, const char *name, char letter)
{
    for (int i = 0; i < job->n_option; i++) if (is_option(job->option[i], name, letter)) return 1;
    return 0;
}

static int check_options(const struct slurm_job *job, struct lab_err *err)
{
    static const struct { const char *name; char letter; const char *why; } ours[] = {
        { "array", 'a', "it follows from --tasks and --at-once" }, { "output", 'o', "logs go to the folder of the plan" },
        { "wrap", 0, "the script is lab's" }, { "ntasks", 'n', "an element of the array is one task; ask for cores with --cpus" },
        { "wait", 'W', "nothing needs to wait for the array; see `lab slurm status --watch`" },
        { "parsable", 0, "lab asks for it itself" } };
    for (int i = 0; i < job->n_option; i++) {
        const char *word = job->option[i];
        if (has_control(word)) return lab_fail(err, "an option for sbatch has a control character in it");
        if (word[0] != '-' && (i == 0 || job->option[i - 1][0] != '-' || strchr(job->option[i - 1], '=')))
            return lab_fail(err, "'%.80s' is no option for sbatch: after -- expected --name=value", word);
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
            if (is_option(word, ours[k].name, ours[k].letter)) return lab_fail(err, "'%.80s' cannot be given to sbatch: %s", word, ours[k].why);
    }
    return 0;
}

int slurm_check(const struct slurm_job *job, struct lab_err *err)
{
    int64_t seconds = job->time ? slurm_seconds(job->time) : -1;
    if (has_control(job->plan) || strchr(job->plan, '\\') || has_control(job->lab))
        return lab_fail(err, "a folder or program with a backslash or a control character in its name cannot be given to Slurm");
    if (seconds == -2) return lab_fail(err, "--time is '%.40s', expected minutes, hours:minutes:seconds or days-hours:minutes", job->time);
    if (seconds >= 0 && seconds < SLURM_LEAST_S && !gives(job, "signal", 0))
        return lab_fail(err, "--time %s leaves no time to work: the warning comes %d s before the end or earlier; ask for at least %d minutes",
                        job->time, SLURM_WARNING_S, SLURM_LEAST_S / 60);
    if (job->partition && has_control(job->partition)) return lab_fail(err, "--partition has a control character in it");
    return check_options(job, err);
}

/* Array and merge have these in common. */
static void head(struct str *out, const struct slurm_job *job)
{
    str_add(out, "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --open-mode=append\n#SBATCH --requeue\n");
    if (job->time) directive(out, "time", job->time);
    if (job->partition) directive(out, "partition", job->partition);
}

static void variable(struct str *out, const char *name, const char *value)
{
    str_printf(out, "%s=", name);
    slurm_quote(out, value);
    str_add(out, "\n");
}

void slurm_array_script(struct str *out, const struct slurm_job *job, int64_t max_array)
{
    int64_t n = job->tasks < max_array ? job->tasks : max_array;
    str_add(out, "#!/bin/bash\n");
    directive_name(out, "lab-", job->name);
    str_printf(out, "#SBATCH --array=0-%" PRId64, n - 1);
    if (job->at_once) str_printf(out, "%%%" PRId64, job->at_once);
    str_add(out, "\n");
    head(out, job);
    directive_number(out, "cpus-per-task", job->cpus);
    directive_log(out, job->plan, "%A_%a.out");
    str_printf(out, "#SBATCH --signal=USR1@%d\n", SLURM_WARNING_S);
    directive_options(out, job);
    str_printf(out, "\n# %" PRId64 " run%s in %" PRId64 " task%s.  `lab slurm submit` hands this in and `lab slurm status` shows what came of it;\n"
                    "# by hand: sbatch SCRIPT [OFFSET], where OFFSET is the task that index 0 of this array stands for.\n",
               job->runs, job->runs == 1 ? "" : "s", job->tasks, job->tasks == 1 ? "" : "s");
    variable(out, "lab", job->lab);
    variable(out, "plan", job->plan);
    str_printf(out, "tasks=%" PRId64 "\nrestarts=%" PRId64 "\n", job->tasks, job->restarts);
    str_add(out, "element=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\n"
                 "export LAB_OFFSET=${1:-${LAB_OFFSET:-0}}\n"
                 "\n"
                 "srun --ntasks=1 --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" --export=ALL \\\n"
                 "    \"$lab\" work \"$plan\" --task $((SLURM_ARRAY_TASK_ID + LAB_OFFSET))/$tasks\n"
                 "code=$?\n"
                 "\n"
                 "# 75: stopped by a signal, everything is saved.  Requeue, unless the job is being cancelled: that would bring it back.\n"
                 "if [ $code -eq 75 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt $restarts ] &&\n"
                 "   [ \"$(squeue --noheader --jobs=\"$element\" --format=%T)\" = RUNNING ]; then\n"
                 "    scontrol requeue \"$element\"\n"
                 "fi\n"
                 "exit $code\n");
}

void slurm_merge_script(struct str *out, const struct slurm_job *job, const char *db)
{
    str_add(out, "#!/bin/bash\n");
    directive_name(out, "lab-merge-", job->name);
    head(out, job);
    directive_number(out, "cpus-per-task", 1);
    directive_log(out, job->plan, "merge_%j.out");
    directive_options(out, job);
    str_add(out, "\n# Everything that the tasks have published, into the results database.  Doing it again changes nothing.\nexec ");
    slurm_quote(out, job->lab);
    str_add(out, " merge ");
    slurm_quote(out, db);
    str_add(out, " ");
    slurm_quote(out, job->plan);
    str_add(out, "\n");
}

/* ---- answers ---- */

int64_t slurm_job_id(const char *text)
{
    int64_t id;
    int used = 0;
    if (!isdigit((unsigned char)*text) || sscanf(text, "%18" SCNd64 "%n", &id, &used) != 1 || id <= 0) return -1;
    return text[used] && !strchr(";\n", text[used]) ? -1 : id;           /* behind ; stands the cluster's name */
}

int64_t slurm_max_array(const char *text)
{
    int64_t size;
    const char *at = strstr(text, "MaxArraySize");
    return at && sscanf(at, "MaxArraySize = %18" SCNd64, &size) == 1 && size > 0 ? size : -1;
}

const char *const slurm_state_name[SLURM_STATES] = { "unknown", "pending", "running", "done", "failed", "interrupted", "timeout", "lost" };

enum slurm_state slurm_state(const char *word, int status)
{
    static const struct { const char *word; enum slurm_state state; } table[] = {
        { "PENDING", SLURM_PENDING }, { "CONFIGURING", SLURM_PENDING }, { "REQUEUED", SLURM_PENDING }, { "REQUEUE_HOLD", SLURM_PENDING },
        { "REQUEUE_FED", SLURM_PENDING }, { "RESV_DEL_HOLD", SLURM_PENDING }, { "SPECIAL_EXIT", SLURM_PENDING },
        { "RUNNING", SLURM_RUNNING }, { "COMPLETING", SLURM_RUNNING }, { "SUSPENDED", SLURM_RUNNING }, { "STOPPED", SLURM_RUNNING },
        { "SIGNALING", SLURM_RUNNING }, { "RESIZING", SLURM_RUNNING }, { "STAGE_OUT", SLURM_RUNNING },
        { "COMPLETED", SLURM_DONE }, { "FAILED", SLURM_FAILED }, { "OUT_OF_MEMORY", SLURM_FAILED }, { "CANCELLED", SLURM_INTERRUPTED },
        { "PREEMPTED", SLURM_INTERRUPTED }, { "REVOKED", SLURM_INTERRUPTED }, { "TIMEOUT", SLURM_TIMEOUT }, { "DEADLINE", SLURM_TIMEOUT },
        { "NODE_FAIL", SLURM_LOST }, { "BOOT_FAIL", SLURM_LOST } };
    size_t n = strcspn(word, " +");                  /* "CANCELLED by 1234", "CANCELLED+" */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].word) == n && !strncmp(table[i].word, word, n))
            return table[i].state == SLURM_FAILED && status == 75 ? SLURM_INTERRUPTED : table[i].state;
    return SLURM_UNKNOWN;
}

/* sacct's "3:0", squeue's 768. */
static int exit_status(const char *text)
{
    int status, signal;
    if (sscanf(text, "%d:%d", &status, &signal) == 2) return status;
    return sscanf(text, "%d", &status) == 1 ? status >> 8 & 0xff : 0;
}

int slurm_indexes(const char *list, int (*take)(void *ctx, int64_t index), void *ctx)
{
    if (*list == '[') list++;
    for (;;) {
        int64_t first, last, step = 1;
        int used = 0;
        if (!isdigit((unsigned char)*list) || sscanf(list, "%9" SCNd64 "%n", &first, &used) != 1) return -1;
        list += used, last = first;
        if (*list == '-') {
            if (sscanf(list, "-%9" SCNd64 "%n", &last, &used) != 1) return -1;
            list += used;
        }
        if (*list == ':' && (sscanf(list, ":%9" SCNd64 "%n", &step, &used) != 1 || step < 1)) return -1;
        if (*list == ':') list += used;
        for (int64_t i = first; i <= last; i += step) if (take(ctx, i) != 0) return -1;
        if (*list != ',') return 0;
        list++;
    }
}

struct each { struct slurm_task *task; int (*take)(void *ctx, const struct slurm_task *); void *ctx; };

static int take_index(void *ctx, int64_t index)
{
    struct each *each = ctx;
    each->task->index = index;
    return each->take(each->ctx, each->task);
}

static int take_line(const char *line, size_t n, int (*take)(void *, const struct slurm_task *), void *ctx)
{
    struct slurm_task t = { .index = -1 };
    const char *word = memchr(line, '|', n);        /* and what follows */
    const char *status = word ? memchr(word + 1, '|', n - (size_t)(word + 1 - line)) : NULL;
    char id[4096];
    int used = 0;
    if (!n) return 0;
    if (!status || (size_t)(word - line) >= sizeof id) return -1;
    snprintf(id, sizeof id, "%.*s", (int)(word - line), line);
    snprintf(t.word, sizeof t.word, "%.*s", (int)(status - word - 1), word + 1);
    if (!isdigit((unsigned char)*id) || sscanf(id, "%18" SCNd64 "%n", &t.job, &used) != 1) return -1;
    if (strchr(id, '.')) return 0;                   /* a step */
    t.status = exit_status(status + 1);
    t.state = slurm_state(t.word, t.status);
    if (id[used] == '_') return slurm_indexes(id + used + 1, take_index, &(struct each){ &t, take, ctx });
    return id[used] ? -1 : take(ctx, &t);
}

int slurm_tasks(const char *text, int (*take)(void *, const struct slurm_task *), void *ctx)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (take_line(text, n, take, ctx) != 0) return -1;
        text += n + (text[n] == '\n');
    }
    return 0;
}
