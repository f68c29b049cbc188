/* task -- see task.h. */
#include "run/task.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "base/scratch.h"
#include "exp/frozen.h"
#include "run/signals.h"
#include "store/merge.h"

enum { PATIENCE = 4,                 /* publishing may take a fifth of the time, however small the runs and slow the disk */
       CHECKPOINTS_S = 30,           /* between publishing for checkpoints: 16 workers save one each minute */
       FINAL_TRIES = 3, RETRY_S = 10 };
#define SECOND_NS INT64_C(1000000000)

struct task {
    const struct task_options *options;
    struct task_report *report;
    struct lab_err *err;
    struct frozen plan;
    int64_t count;
    struct store *store;
    char folder[WHOLE_PATH];         /* on a disk of this machine */
    unsigned char *share, *only;
    int64_t not_before_ns;           /* when to publish next ... */
    int64_t published_ns, pause_ns;  /* ... for a checkpoint a pause after the last time, 0: never yet */
};

/* ---- shards ---- */

static int is_shard(const char *name)
{
    size_t n = strlen(name);
    return *name != '.' && n > 3 && !strcmp(name + n - 3, ".db");
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int task_shards_read(struct task_shards *shards, const char *plan, struct lab_err *err)
{
    struct str path = { 0 };
    int rc = 0;
    *shards = (struct task_shards){ NULL, 0, 0 };
    str_printf(&path, "%s/shards", plan);
    DIR *d = path.failed ? NULL : opendir(path.text);
    if (!d) rc = lab_fail(err, "%s: its shards cannot be listed: %s", plan, strerror(errno));
    for (struct dirent *e; rc == 0 && (e = readdir(d)); ) {
        if (!is_shard(e->d_name)) continue;
        str_clear(&path);
        str_printf(&path, "%s/shards/%s", plan, e->d_name);
        rc = mem_grow(&shards->path, &shards->cap, shards->n + 1, sizeof *shards->path, err);
        if (rc == 0 && !(shards->path[shards->n] = mem_strdup(str_text(&path), err))) rc = -1;
        if (rc == 0) shards->n++;
    }
    if (d) closedir(d);
    str_free(&path);
    if (rc != 0) task_shards_free(shards);
    else if (shards->n) qsort(shards->path, shards->n, sizeof *shards->path, by_text);
    return rc;
}

void task_shards_free(struct task_shards *shards)
{
    for (size_t i = 0; i < shards->n; i++) free(shards->path[i]);
    free(shards->path);
    *shards = (struct task_shards){ NULL, 0, 0 };
}

/* "3of8_r0_1a2b3c4d.db": of a plan cut as now, another share's shard holds nothing of ours. */
static int may_matter(const struct task *t, const char *path)
{
    long long index, count;
    if (sscanf(strrchr(path, '/') + 1, "%lldof%lld_", &index, &count) != 2) return 1;
    return count != t->count || index == t->options->index;
}

/* ---- before: what is still to be done ---- */

static int want_share(struct task *t)
{
    for (size_t i = (size_t)t->options->index; i < t->plan.sweep.n; i += (size_t)t->count)
        if (merge_want(t->store, t->plan.sweep.run[i].config.key, t->err) != 0) return -1;
    return 0;
}

/* A shard that cannot be read costs the time of its runs, no more: they are done again. */
static int ask_shards(struct task *t, const struct task_shards *shards, int open)
{
    for (size_t i = 0; i < shards->n; i++) {
        if (!may_matter(t, shards->path[i])) continue;
        int rc = (open ? merge_wanted : merge_strike_done)(t->store, shards->path[i], t->err);
        if (rc < 0) return -1;
        if (rc > 0 && !open) fprintf(stderr, "lab: %s; it is left out\n", t->err->msg);
    }
    return 0;
}

/* The last two checkpoints of a run are kept, and one of which the shards do not know is of no use when a machine dies: half the time
 * between two is soon enough. */
static int mark_share(struct task *t)
{
    t->pause_ns = CHECKPOINTS_S * SECOND_NS;
    for (size_t i = (size_t)t->options->index; i < t->plan.sweep.n; i += (size_t)t->count) {
        int wanted;
        if (merge_is_wanted(t->store, t->plan.sweep.run[i].config.key, &wanted, t->err) != 0) return -1;
        t->share[i] = wanted ? SCHED_OURS : SCHED_ELSEWHERE;
        t->only[i] = (unsigned char)wanted;
        int64_t half_ns = (int64_t)(t->plan.sweep.run[i].config.limits.checkpoint * 5e8);
        if (half_ns < t->pause_ns) t->pause_ns = half_ns;
    }
    return 0;
}

static int find_out(struct task *t)
{
    struct task_shards shards;
    if (want_share(t) != 0 || task_shards_read(&shards, t->options->plan, t->err) != 0) return -1;
    int rc = ask_shards(t, &shards, 0);
    int told = rc == 0 && t->options->db ? merge_strike_done(t->store, t->options->db, t->err) : 0;
    if (told != 0) rc = told > 0 ? TASK_REFUSED : -1;
    if (rc == 0) rc = ask_shards(t, &shards, 1);
    if (rc == 0) rc = mark_share(t);
    task_shards_free(&shards);
    return rc;
}

/* ---- publishing ---- */

/* Weights go first: whoever reads that a run is done finds them. */
static int publish_weights(struct task *t, struct lab_err *err)
{
    struct str from = { 0 }, to = { 0 };
    int rc = 0;
    str_printf(&from, "%s/weights", t->folder);
    DIR *d = from.failed ? NULL : opendir(from.text);
    for (struct dirent *e; d && rc == 0 && (e = readdir(d)); ) {
        size_t n = strlen(e->d_name);
        if (n < 12 || strcmp(e->d_name + n - 12, ".safetensors")) continue;
        str_clear(&from);
        str_clear(&to);
        str_printf(&from, "%s/weights/%s", t->folder, e->d_name);
        str_printf(&to, "%s/weights/%s", t->options->plan, e->d_name);
        rc = from.failed || to.failed ? lab_fail(err, "out of memory") : whole_copy(from.text, to.text, err);
        if (rc == 0) unlink(from.text);
    }
    if (d) closedir(d);
    str_free(&from);
    str_free(&to);
    return rc;
}

static int publish(struct task *t, struct lab_err *err)
{
    struct str copy = { 0 }, to = { 0 };
    str_printf(&copy, "%s/copy.db", t->folder);
    str_printf(&to, "%s/shards/%s", t->options->plan, t->report->shard);
    int rc = copy.failed || to.failed ? lab_fail(err, "out of memory") : publish_weights(t, err);
    if (rc == 0) rc = merge_copy(t->store, copy.text, err);
    if (rc == 0) rc = whole_copy(copy.text, to.text, err);
    str_free(&copy);
    str_free(&to);
    return rc;
}

/* A shared disk that is full or away for a while must not end the runs: they wait in our own database. */
static int publish_if_time(void *ctx, int urgent)
{
    struct task *t = ctx;
    struct lab_err why;
    int64_t begin = clock_ns();
    if (begin < t->not_before_ns || (!urgent && t->published_ns && begin < t->published_ns + t->pause_ns)) return 1;
    int rc = publish(t, &why);
    int64_t end = clock_ns();
    t->published_ns = end;
    t->not_before_ns = end + (rc == 0 ? PATIENCE * (end - begin) : RETRY_S * SECOND_NS);
    if (rc != 0) fprintf(stderr, "lab: not published yet: %s\n", why.msg);
    return rc != 0;
}

static int publish_last(struct task *t)
{
    struct lab_err why;
    for (int i = 1; publish(t, &why) != 0; i++) {
        if (i == FINAL_TRIES) return lab_fail(t->err, "nothing is lost, but it could not be published (%s): `lab merge` takes %s/shard.db", why.msg, t->folder);
        sleep(1);
    }
    return 0;
}

/* ---- a database of one's own ---- */

static int take_text(void *ctx, int n, const struct store_value *v)
{
    (void)n;
    snprintf(ctx, STORE_UUID, "%s", v[0].text);
    return 1;
}

static int name_shard(struct task *t)
{
    char uuid[STORE_UUID] = "";
    const char *restart = getenv("SLURM_RESTART_COUNT");
    struct store_rows rows = { NULL, take_text, uuid };
    int64_t r = 0;
    if (store_query(t->store, "SELECT value FROM meta WHERE key = 'db_uuid'", NULL, 0, 0, &rows, t->err) != 0) return -1;
    if (restart) str_to_int(restart, 0, INT32_MAX, &r);
    snprintf(t->report->shard, sizeof t->report->shard, "%lldof%lld_r%lld_%.8s.db", (long long)t->options->index, (long long)t->count,
             (long long)r, uuid);
    return 0;
}

static int open_store(struct task *t)
{
    struct str path = { 0 };
    if (scratch_make(t->folder, "task", t->err) != 0) return -1;
    str_printf(&path, "%s/shard.db", t->folder);
    int rc = path.failed ? lab_fail(t->err, "out of memory") : store_open(&t->store, path.text, STORE_WRITE, t->err);
    str_free(&path);
    return rc == 0 ? name_shard(t) : -1;
}

/* ---- the whole ---- */

static int take_number(void *ctx, int n, const struct store_value *v)
{
    (void)n;
    *(int64_t *)ctx = v[0].integer;
    return 1;
}

static int count_attempts(struct task *t, int64_t *n)
{
    struct store_rows rows = { NULL, take_number, n };
    return store_query(t->store, "SELECT count(*) FROM attempt", NULL, 0, 0, &rows, t->err) == 0 ? 0 : -1;
}

static int do_share(struct task *t)
{
    struct sched_options options = { .jobs = t->options->jobs, .quiet = t->options->quiet, .share = t->share, .shared = t->options->plan,
                                     .only = t->options->retry ? t->only : NULL, .publish = publish_if_time, .publish_ctx = t };
    int64_t before = 0, after = 0;   /* attempts; those before are copies from other shards */
    if (count_attempts(t, &before) != 0 || sched_run(t->store, &t->plan.sweep, &options, &t->report->runs, t->err) != 0 ||
        count_attempts(t, &after) != 0) return -1;
    if (after > before) return publish_last(t);
    t->report->shard[0] = '\0';
    return 0;
}

static int check_share(struct task *t)
{
    t->count = t->options->count ? t->options->count : t->plan.head.tasks;
    if (t->options->index < t->count) return 0;
    return lab_fail(t->err, "%s: there is no task %lld of %lld: tasks are numbered from 0", t->options->plan,
                    (long long)t->options->index, (long long)t->count);
}

static int prepare(struct task *t)
{
    if (frozen_read(&t->plan, t->options->plan, t->err) != 0 || check_share(t) != 0) return TASK_REFUSED;
    if (!(t->share = mem_alloc(t->plan.sweep.n, t->err)) || !(t->only = mem_alloc(t->plan.sweep.n, t->err))) return -1;
    return 0;
}

int task_run(const struct task_options *options, struct task_report *report, struct lab_err *err)
{
    struct task t = { .options = options, .report = report, .err = err };
    struct signals signals;
    *report = (struct task_report){ .shard = "" };
    err->msg[0] = '\0';
    if (signals_open(&signals, err) != 0) return -1;             /* from now on a signal ends nothing half: the scheduler will find it */
    int rc = prepare(&t), done = 0;
    if (rc == 0) rc = open_store(&t) == 0 ? find_out(&t) : -1;
    if (rc == 0) rc = do_share(&t), done = rc == 0;
    store_close(t.store);
    if (done || !*report->shard || rc == TASK_REFUSED) scratch_remove(t.folder);
    frozen_release(&t.plan);
    free(t.share);
    free(t.only);
    signals_close(&signals);
    return rc;
}
