/* slurm_jobs -- see slurm_jobs.h.
 *
 * PLAN/slurm.jobs has one line a job, "array JOB OFFSET INDEXES" or "merge JOB", only ever appended to.  A line is on
 * disk before the next job is submitted: whatever ends lab, no job of a plan is forgotten.
 */
#include "run/slurm_jobs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/whole.h"
#include "run/program.h"

enum { PATIENCE_S = 60 };            /* a controller that is not there is given up by Slurm's programs after 10 */

/* ---- what was submitted ---- */

static int path_of(struct str *out, const struct slurm_jobs *jobs, const char *name)
{
    str_printf(out, "%s/%s", jobs->folder, name);
    return out->failed ? -1 : 0;
}

struct placing { struct slurm_jobs *jobs; int64_t job, offset; };

static int place(void *ctx, int64_t index)
{
    struct placing *p = ctx;
    int64_t task = p->offset + index;
    if (task < 0 || task >= p->jobs->tasks) return -1;
    p->jobs->task[task] = (struct slurm_element){ .job = p->job, .index = index };
    return 0;
}

static int add_array(struct slurm_jobs *jobs, int64_t job, int64_t offset, struct lab_err *err)
{
    if (mem_grow(&jobs->array, &jobs->cap, jobs->n + 1, sizeof *jobs->array, err) != 0) return -1;
    jobs->array[jobs->n].job = job;
    jobs->array[jobs->n++].offset = offset;
    return 0;
}

/* -1 with a message only if memory is out; 1: the line cannot be read. */
static int take_line(struct slurm_jobs *jobs, const char *line, struct lab_err *err)
{
    int64_t job, offset;
    int used = 0;
    if (sscanf(line, "merge %18" SCNd64, &job) == 1) { jobs->merge = job; return 0; }
    if (sscanf(line, "array %18" SCNd64 " %9" SCNd64 " %n", &job, &offset, &used) != 2 || !used) return 1;
    if (add_array(jobs, job, offset, err) != 0) return -1;
    return slurm_indexes(line + used, place, &(struct placing){ jobs, job, offset }) == 0 ? 0 : 1;
}

static int take_lines(struct slurm_jobs *jobs, FILE *f, const char *path, struct lab_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    for (int number = 1; rc == 0 && getline(&line, &cap, f) > 0; number++) {
        if (*line == '#') continue;
        rc = take_line(jobs, line, err);
        if (rc > 0) rc = lab_fail(err, "%s:%d: is no job of a plan of %" PRId64 " tasks", path, number, jobs->tasks);
    }
    free(line);
    return rc;
}

int slurm_jobs_open(struct slurm_jobs *jobs, const char *folder, int64_t tasks, int exclusive, struct lab_err *err)
{
    struct str path = { 0 };
    FILE *f = NULL;
    int rc = -1;
    *jobs = (struct slurm_jobs){ .tasks = tasks, .lock = -1 };
    jobs->folder = mem_strdup(folder, err);
    jobs->task = jobs->folder ? mem_alloc((size_t)tasks * sizeof *jobs->task, err) : NULL;
    if (!jobs->task) goto out;
    if (path_of(&path, jobs, "slurm.jobs") != 0) { lab_fail(err, "out of memory"); goto out; }
    jobs->lock = open(path.text, exclusive ? O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666);
    if (jobs->lock < 0 && (exclusive || errno != ENOENT)) { lab_fail(err, "%s: %s", path.text, strerror(errno)); goto out; }
    if (exclusive && flock(jobs->lock, LOCK_EX | LOCK_NB) != 0) {
        lab_fail(err, "%s: another `lab slurm` is submitting this plan", folder);
        goto out;
    }
    f = jobs->lock >= 0 ? fopen(path.text, "re") : NULL;
    rc = f ? take_lines(jobs, f, path.text, err) : 0;
out:
    if (f) fclose(f);
    str_free(&path);
    if (rc != 0) slurm_jobs_release(jobs);
    return rc;
}

void slurm_jobs_release(struct slurm_jobs *jobs)
{
    if (jobs->lock >= 0) close(jobs->lock);
    free(jobs->folder);
    free(jobs->task);
    free(jobs->array);
    *jobs = (struct slurm_jobs){ .lock = -1 };
}

static int remember(struct slurm_jobs *jobs, const struct str *line, struct lab_err *err)
{
    if (!line->failed && write(jobs->lock, line->text, line->len) == (ssize_t)line->len && fsync(jobs->lock) == 0) return 0;
    return lab_fail(err, "%s/slurm.jobs: %s; it lacks this line: %s", jobs->folder, strerror(errno), str_text(line));
}

/* ---- Slurm's programs ---- */

static int missing(const char *program, struct lab_err *err)
{
    return lab_fail(err, "%s is not in PATH: Slurm's programs are not installed here, or `module load slurm` is missing; without Slurm, "
                    "`lab work PLAN --task I/N` does a share of a plan", program);
}

/* "sbatch: error: Invalid account": who speaks is said already. */
static const char *without_speaker(const char *words, const char *program)
{
    size_t n = strlen(program);
    if (!strncmp(words, program, n) && !strncmp(words + n, ": ", 2)) words += n + 2;
    return strncmp(words, "error: ", 7) ? words : words + 7;
}

/* 0, or -1 with its own words. */
static int call(struct program *p, char *const argv[], struct lab_err *err)
{
    char words[700];
    int rc = program_run(p, argv, PATIENCE_S, err);
    if (rc == PROGRAM_MISSING) return missing(argv[0], err);
    if (rc != 0) return -1;
    if (program_succeeded(p)) return 0;
    program_complaint(p, words, sizeof words);
    return lab_fail(err, "%s", without_speaker(words, argv[0]));
}

int slurm_jobs_max_array(int64_t *size, struct lab_err *err)
{
    char *const argv[] = { "scontrol", "show", "config", NULL };
    struct program p;
    struct lab_err why;
    int rc = call(&p, argv, &why);
    if (rc != 0) lab_fail(err, "Slurm does not tell its limits: %s", why.msg);
    else if ((*size = slurm_max_array(str_text(&p.out))) < 0) rc = lab_fail(err, "scontrol show config names no MaxArraySize: job arrays are not allowed here");
    program_release(&p);
    return rc;
}

static int submit(char *const argv[], int64_t *job, struct lab_err *err)
{
    struct program p;
    struct lab_err why;
    int rc = call(&p, argv, &why);
    if (rc != 0) lab_fail(err, "sbatch refuses: %s", why.msg);
    else if ((*job = slurm_job_id(str_text(&p.out))) < 0)
        rc = lab_fail(err, "sbatch gives no job id but '%.*s'; look with squeue whether it submitted anything",
                      (int)strcspn(str_text(&p.out), "\n"), str_text(&p.out));
    program_release(&p);
    return rc;
}

int slurm_jobs_submit(struct slurm_jobs *jobs, const char *script, int64_t offset, const unsigned char *wanted, int64_t n, int64_t at_once,
                      int64_t *job, struct lab_err *err)
{
    struct str list = { 0 }, array = { 0 }, line = { 0 };
    char start[24];
    slurm_ranges(&list, wanted, n);
    str_printf(&array, "--array=%s", str_text(&list));
    if (at_once) str_printf(&array, "%%%" PRId64, at_once);
    snprintf(start, sizeof start, "%" PRId64, offset);
    char *const argv[] = { "sbatch", "--parsable", array.text, (char *)script, start, NULL };
    int rc = list.failed || array.failed ? lab_fail(err, "out of memory for an array") : submit(argv, job, err);
    if (rc == 0) {
        str_printf(&line, "array %" PRId64 " %" PRId64 " %s\n", *job, offset, str_text(&list));
        rc = remember(jobs, &line, err);
    }
    if (rc == 0) rc = add_array(jobs, *job, offset, err);
    str_free(&list);
    str_free(&array);
    str_free(&line);
    return rc;
}

int slurm_jobs_submit_merge(struct slurm_jobs *jobs, const char *script, const int64_t *behind, size_t n, struct lab_err *err)
{
    struct str dependency = { 0 }, line = { 0 };
    str_add(&dependency, "--dependency=afterany");
    for (size_t i = 0; i < n; i++) str_printf(&dependency, ":%" PRId64, behind[i]);
    char *const argv[] = { "sbatch", "--parsable", n ? dependency.text : "--dependency=", (char *)script, NULL };
    int rc = dependency.failed ? lab_fail(err, "out of memory") : submit(argv, &jobs->merge, err);
    if (rc == 0) {
        str_printf(&line, "merge %" PRId64 "\n", jobs->merge);
        rc = remember(jobs, &line, err);
    }
    str_free(&dependency);
    str_free(&line);
    return rc;
}

int slurm_jobs_cancel(const int64_t *job, size_t n, struct lab_err *err)
{
    struct program p = { .status = 0 };
    struct lab_err why;
    char (*text)[24] = mem_alloc(n * sizeof *text, err);
    char **argv = text ? mem_alloc((n + 2) * sizeof *argv, err) : NULL;
    int rc = argv ? 0 : -1;
    if (rc == 0) {
        argv[0] = "scancel";
        for (size_t i = 0; i < n; i++) {
            snprintf(text[i], sizeof text[i], "%" PRId64, job[i]);
            argv[i + 1] = text[i];
        }
        rc = call(&p, argv, &why);
        if (rc != 0) lab_fail(err, "scancel refuses: %s", why.msg);
        program_release(&p);
    }
    free(text);
    free(argv);
    return rc;
}

/* ---- asking ---- */

static int take_state(void *ctx, const struct slurm_task *t)
{
    struct slurm_jobs *jobs = ctx;
    if (t->index < 0 && t->job == jobs->merge) jobs->merge_state = t->state;
    for (size_t i = 0; t->index >= 0 && i < jobs->n; i++) {
        int64_t task = jobs->array[i].offset + t->index;
        if (jobs->array[i].job != t->job || task >= jobs->tasks) continue;
        struct slurm_element *e = &jobs->task[task];
        if (e->job != t->job || e->index != t->index) return 0;          /* it was submitted again since */
        e->state = t->state;
        e->status = t->status;
        snprintf(e->word, sizeof e->word, "%s", t->word);
    }
    return 0;
}

static void add_jobs(struct str *out, const struct slurm_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++) str_printf(out, "%s%" PRId64, i ? "," : "", jobs->array[i].job);
    if (jobs->merge) str_printf(out, ",%" PRId64, jobs->merge);
}

static int ask(const struct slurm_jobs *jobs, int accounting, const char *states, struct str *out, struct lab_err *err)
{
    struct str ids = { 0 };
    struct program p;
    add_jobs(&ids, jobs);
    char *const sacct[] = { "sacct", "--allocations", "--noheader", "--parsable2", "--format=JobID,State,ExitCode", "--jobs", ids.text, NULL };
    char *const squeue[] = { "squeue", "--noheader", "--array", "--states", (char *)states, "--Format=JobArrayID:|,State:|,exit_code",
                             "--jobs", ids.text, NULL };
    int rc = ids.failed ? lab_fail(err, "out of memory") : call(&p, accounting ? sacct : squeue, err);
    if (!ids.failed && rc == 0) str_addn(out, p.out.text ? p.out.text : "", p.out.len);
    if (!ids.failed) program_release(&p);
    str_free(&ids);
    /* That is what squeue says of jobs that all ended long ago. */
    if (rc != 0 && !accounting && strstr(err->msg, "Invalid job id")) rc = 0;
    return rc;
}

static int understand(struct slurm_jobs *jobs, const char *text, const char *source, struct lab_err *err)
{
    if (slurm_tasks(text, take_state, jobs) == 0) return 0;
    return lab_fail(err, "%s answered what lab cannot read: '%.80s'", source, text);
}

int slurm_jobs_queue(struct slurm_jobs *jobs, struct lab_err *err)
{
    static const char *const active = "PENDING,RUNNING,SUSPENDED,CONFIGURING,COMPLETING,STOPPED,STAGE_OUT,SIGNALING,REQUEUED,REQUEUE_HOLD,"
                                      "REQUEUE_FED,SPECIAL_EXIT,RESIZING";
    struct str text = { 0 };
    struct lab_err why;
    int rc = 0;
    if (jobs->n) {
        rc = ask(jobs, 0, active, &text, &why);
        if (rc != 0) lab_fail(err, "Slurm does not tell what is queued: %s", why.msg);
        else rc = understand(jobs, str_text(&text), "squeue", err);
    }
    str_free(&text);
    return rc;
}

static int knows_all(const struct slurm_jobs *jobs)
{
    for (int64_t i = 0; i < jobs->tasks; i++) if (jobs->task[i].job && jobs->task[i].state == SLURM_UNKNOWN) return 0;
    return !jobs->merge || jobs->merge_state != SLURM_UNKNOWN;
}

/* PLAN/slurm.seen: "squeue 1764445566\n" and the answer. */
static int recall(struct slurm_jobs *jobs, const char *path)
{
    struct stat submitted, seen;
    struct str text = { 0 };
    char piece[4096], source[16] = "";
    long long when = 0;
    size_t n;
    int used = 0, rc = -1;
    struct lab_err ignored;
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) str_addn(&text, piece, n);
    int current = fstat(fileno(f), &seen) == 0 && fstat(jobs->lock, &submitted) == 0 &&
                  (seen.st_mtim.tv_sec > submitted.st_mtim.tv_sec ||
                   (seen.st_mtim.tv_sec == submitted.st_mtim.tv_sec && seen.st_mtim.tv_nsec > submitted.st_mtim.tv_nsec));
    fclose(f);
    if (current && sscanf(str_text(&text), "%15s %lld%n", source, &when, &used) == 2 && text.text[used] == '\n') {
        jobs->age_s = (int64_t)time(NULL) - when;
        if (jobs->age_s >= 0 && jobs->age_s < SLURM_ASK_S) rc = understand(jobs, text.text + used + 1, path, &ignored);
    }
    if (rc == 0) snprintf(jobs->source, sizeof jobs->source, "%s", source);
    str_free(&text);
    return rc;
}

/* It is no loss if this cannot be written: then Slurm is asked again. */
static void keep(const char *path, const char *source, const struct str *text)
{
    struct whole w;
    struct lab_err ignored;
    if (whole_open(&w, path, &ignored) != 0) return;
    fprintf(w.file, "%s %lld\n", source, (long long)time(NULL));
    fwrite(str_text(text), 1, text->len, w.file);
    whole_close(&w, &ignored);
}

/* Accounting knows what ended long ago, the controller what was submitted just now: the second is asked for what the first lacks. */
static int ask_both(struct slurm_jobs *jobs, struct str *text, struct lab_err *err)
{
    struct lab_err ignored;
    size_t before;
    int accounting = ask(jobs, 1, NULL, text, &ignored) == 0;
    if (accounting && understand(jobs, str_text(text), "sacct", err) != 0) return -1;
    snprintf(jobs->source, sizeof jobs->source, "%s", accounting ? "sacct" : "squeue");
    if (accounting && knows_all(jobs)) return 0;
    if (text->len && text->text[text->len - 1] != '\n') str_add(text, "\n");
    before = text->len;
    if (ask(jobs, 0, "all", text, err) != 0) return -1;
    if (accounting && text->len > before) snprintf(jobs->source, sizeof jobs->source, "sacct+squeue");
    return understand(jobs, str_text(text) + before, "squeue", err);
}

int slurm_jobs_ask(struct slurm_jobs *jobs, struct lab_err *err)
{
    struct str path = { 0 }, text = { 0 };
    struct lab_err why;
    int rc = 0;
    jobs->age_s = 0;
    if (!jobs->n) return 0;
    if (path_of(&path, jobs, "slurm.seen") != 0) return lab_fail(err, "out of memory");
    if (recall(jobs, path.text) != 0) {
        rc = ask_both(jobs, &text, &why);
        if (rc != 0) lab_fail(err, "Slurm does not answer: %s", why.msg), *jobs->source = '\0';
        else keep(path.text, jobs->source, &text);
    }
    str_free(&path);
    str_free(&text);
    return rc;
}
