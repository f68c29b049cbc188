/* sched -- see sched.h.
 *
 * One loop: start what is missing while there is room, wait for anything to happen, take
 * what the workers sent, commit.  Records are gathered in memory and entered about every
 * second in one short transaction, so that other programs get at the database in between;
 * at once when a checkpoint was saved, which is of use only with all that was told before.
 * Each run is looked up again just before it starts: another `lab run` may have done it.
 * What another one is doing now goes to the end of the queue, until it is done or given up.
 * A database that cannot be written ends nothing: workers go on, and what they found waits, in memory and in files.
 */
#include "run/sched.h"
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "exp/ceiling.h"
#include "exp/ckpt.h"
#include "exp/env.h"
#include "exp/work.h"
#include "run/desk.h"
#include "run/progress.h"
#include "run/shelf.h"
#include "run/signals.h"

enum { COMMIT_RECORDS = 1000, TICK_MS = 250, STOP_S = 10,
       LOCK_MS = 1000,               /* to wait at a time for another program's lock: signals wait with us */
       LOCK_S = 60, FAULT_S = 3,     /* when nobody works any more: for a lock, for a database that fails otherwise, */
       STOPPED_S = 2 };              /* and when asked to stop */
#define SECOND_NS INT64_C(1000000000)
#define START_NS (SECOND_NS / 10)    /* at a stretch: done runs by the thousand are passed over, and signals wait meanwhile */

struct ceiling_job { size_t first, run; struct option_list lengths; };  /* any run of the task: it tells the task's options */

struct outage { int64_t since_ns, retry_ns; int told; struct lab_err why; };     /* of the database; since 0: there is none */

struct sched {
    struct store *store;
    const struct sweep *sweep;
    const struct sched_options *options;
    struct sched_report *report;
    int64_t *run_id;                 /* of each run of the sweep */
    double *cost;                    /* of each run (exp/cost.h), 0: none; while it is not known how far it came */
    double *queued_s, *desk_s;       /* seconds that each run of the queue, and each worker, still takes: scratch of time_left */
    struct ceiling_job *ceiling; size_t n_ceiling, cap_ceiling, next_ceiling;
    size_t *queue, head, n_queued;   /* a ring of runs to be looked at */
    size_t fresh; int64_t look_ns;   /* how many of them to look at now; when to look at all again */
    struct desk *desk; int n_desk;
    struct pollfd *poll;
    struct signals signals;
    int stopping;                    /* the signal that the user sent, 0 = none */
    int64_t committed_ns;
    struct outage outage;
    enum { NOTHING, SAVED, ENDED } unpublished;      /* what was committed that options->publish does not know of yet */
    struct str checkpoints; struct shelf shelf;      /* where; text of shelf */
    struct progress progress;
    struct live_worker *live;        /* of the workers that train, for the eyes */
    double steps;                    /* of runs that have ended ... */
    double spent, spent_s;           /* ... and of the last of them, what they cost, and the seconds that they took */
};

/* ---- what a run needs ---- */

/* FOLDER-OF-DATABASE/KIND/KEY16SUFFIX: sixteen digits are unique, and short enough for every file system. */
static void path_beside(struct str *out, const struct store *store, const char *kind, const char *key, const char *suffix)
{
    const char *db = store_path(store), *slash = strrchr(db, '/');
    str_addn(out, db, slash ? (size_t)(slash - db) + 1 : 0);
    str_printf(out, "%s/%.16s%s", kind, key, suffix);
}

static int has_weights(const struct store *store, const struct run_config *config)
{
    struct str path = { 0 };
    path_beside(&path, store, "weights", config->key, ".safetensors");
    int has = !path.failed && access(path.text, R_OK) == 0;
    str_free(&path);
    return has;
}

/* Does the database have all that this file asks for at a length: the test, and if the model can, the same continued alone? */
static int has_evals(struct store *store, const struct run_config *c, int length, int *has, struct lab_err *err)
{
    const struct eval_options *e = &c->eval;
    int alone = config_continues(c) ? e->free_sequences < e->sequences ? e->free_sequences : e->sequences : 0;
    struct store_eval want[] = { { "test", length, e->sequences, e->seed }, { "free", length, alone, e->seed } };
    *has = 1;
    for (int i = 0; i < 1 + (alone > 0) && *has; i++) if (store_has_eval(store, c->key, &want[i], has, err) != 0) return -1;
    return 0;
}

int sched_need(struct store *store, const struct run_config *config, enum sched_need *need, struct option_list *lengths,
               struct lab_err *err)
{
    struct store_status status = { .state = STORE_PENDING };
    *need = SCHED_TRAIN;
    *lengths = config->eval.lengths;
    if (store && store_run_status(store, config->key, &status, err) != 0) return -1;
    if (status.state != STORE_DONE) return 0;
    lengths->n = 0;
    for (int i = 0; i < config->eval.lengths.n; i++) {
        int has = 0, length = config->eval.lengths.v[i];
        if (has_evals(store, config, length, &has, err) != 0) return -1;
        if (!has) lengths->v[lengths->n++] = length;
    }
    *need = lengths->n ? SCHED_EVALUATE : SCHED_NOTHING;
    if (lengths->n && !has_weights(store, config)) {
        *need = SCHED_TRAIN;         /* what was trained is gone: all of it again */
        *lengths = config->eval.lengths;
    }
    return 0;
}

/* Was what is done done by another build, plugin or kind of machine than would do it now?  In what they differ, or "". */
static int staleness(struct sched *s, const struct run_config *config, const struct store_status *status, char fields[STORE_FIELDS],
                     struct lab_err *err)
{
    struct str json = { 0 };
    *fields = '\0';
    if (status->state != STORE_DONE) return 0;
    env_json(&json, config);
    int rc = json.failed ? lab_fail(err, "out of memory for the provenance of a run")
                         : store_differs(s->store, status->attempt_id, json.text, fields, err);
    str_free(&json);
    return rc;
}

/* ---- the plan ---- */

static enum sched_share share_of(const struct sched *s, size_t run)
{
    return s->options->share ? (enum sched_share)s->options->share[run] : SCHED_OURS;
}

static int enter_run(struct sched *s, int64_t sweep_id, size_t i, struct lab_err *err)
{
    const struct run_config *c = &s->sweep->run[i].config;
    struct model_setup setup;
    size_t parameters;
    config_model_setup(c, &setup);
    if (model_count(&setup, &parameters, err) != 0) return -1;
    struct store_run run = { .key = c->key, .encoder = c->encoder->name, .task = c->task->name, .variant = c->variant,
                             .task_key = c->task_key, .config = c->json, .seed = c->seed, .parameters = (int64_t)parameters,
                             .chance = c->task_info.chance };
    if (store_put_run(s->store, &run, &s->run_id[i], err) != 0) return -1;
    return store_put_cell(s->store, sweep_id, (int64_t)i, s->run_id[i], s->sweep->run[i].label, err);
}

static int enter_plan(struct sched *s, struct lab_err *err)
{
    const struct sweep *sweep = s->sweep;
    int64_t sweep_id;
    if (store_begin(s->store, err) != 0) return -1;
    if (store_put_sweep(s->store, sweep->conf->sha256, sweep->name, sweep->question, sweep->conf->path, sweep->conf->text,
                        &sweep_id, err) != 0) return -1;
    for (size_t i = 0; i < sweep->n; i++) if (share_of(s, i) == SCHED_OURS && enter_run(s, sweep_id, i, err) != 0) return -1;
    return store_commit(s->store, err);
}

int sched_enter(struct store *store, const struct sweep *sweep, struct lab_err *err)
{
    struct sched_options all = { .jobs = 0 };
    struct sched s = { .store = store, .sweep = sweep, .options = &all, .run_id = mem_alloc(sweep->n * sizeof *s.run_id, err) };
    int rc = s.run_id ? enter_plan(&s, err) : -1;
    if (rc != 0) store_rollback(store);
    free(s.run_id);
    return rc;
}

/* Runs wait in a ring: what another process is doing goes to its end. */
static void put_back(struct sched *s, size_t run) { s->queue[(s->head + s->n_queued++) % s->sweep->n] = run; }

static double expected_cost(const struct run_config *c, enum sched_need need, const struct option_list *lengths)
{
    struct cost cost = cost_of(c);
    if (need == SCHED_TRAIN) return cost_total(&cost, c);
    double sum = cost.start;
    for (int i = 0; i < lengths->n; i++) sum += cost_test(c, lengths->v[i]);
    return sum;
}

/* The queue; what it needs is for the time left alone: each run is looked up again when its turn comes. */
static int plan_runs(struct sched *s, struct lab_err *err)
{
    char fields[STORE_FIELDS], example[STORE_FIELDS] = "";
    int stale = 0;
    for (size_t i = 0; i < s->sweep->n; i++) {
        const struct run_config *c = &s->sweep->run[i].config;
        struct store_status status;
        struct option_list lengths;
        enum sched_need need;
        s->report->already += share_of(s, i) == SCHED_ELSEWHERE;
        if (share_of(s, i) != SCHED_OURS) continue;
        if (s->options->only && !s->options->only[i]) continue;
        if (store_run_status(s->store, c->key, &status, err) != 0 || sched_need(s->store, c, &need, &lengths, err) != 0 ||
            staleness(s, c, &status, fields, err) != 0) return -1;
        if (*fields && !stale++) memcpy(example, fields, sizeof example);
        if (*fields && s->options->rerun_stale) need = SCHED_TRAIN, lengths = c->eval.lengths;
        if (need != SCHED_NOTHING && (status.state != STORE_FAILED || s->options->only)) s->cost[i] = expected_cost(c, need, &lengths);
        put_back(s, i);
    }
    s->report->total = (int)s->n_queued + s->report->already;
    if (stale && !s->options->rerun_stale)
        progress_note(&s->progress, "%d of %d runs were done by another build, plugin or machine (different %s); `--rerun-stale` trains them again",
                      stale, s->report->total, example);
    return 0;
}

static int contains(const struct option_list *list, int32_t value)
{
    for (int i = 0; i < list->n; i++) if (list->v[i] == value) return 1;
    return 0;
}

/* The job of the run's task; of its runs one that is not causal stands for all, for it has more ceilings. */
static struct ceiling_job *ceiling_job(struct sched *s, size_t run, struct lab_err *err)
{
    const struct run_config *c = &s->sweep->run[run].config;
    for (size_t i = 0; i < s->n_ceiling; i++) {
        if (strcmp(s->sweep->run[s->ceiling[i].run].config.task_key, c->task_key)) continue;
        if (!c->model.causal) s->ceiling[i].run = run;
        return &s->ceiling[i];
    }
    if (mem_grow(&s->ceiling, &s->cap_ceiling, s->n_ceiling + 1, sizeof *s->ceiling, err) != 0) return NULL;
    s->ceiling[s->n_ceiling] = (struct ceiling_job){ .first = run, .run = run };
    return &s->ceiling[s->n_ceiling++];
}

/* Is a ceiling that bounds this run not in the database yet? */
static int lacks_ceiling(struct sched *s, const struct run_config *c, int length, int *lacks, struct lab_err *err)
{
    *lacks = 0;
    for (int kind = 0; kind < CEILING_KINDS && !*lacks; kind++) {
        int found;
        double value, error;
        if (!ceiling_applies(kind, c->task, c->model.causal)) continue;
        if (store_ceiling(s->store, c->task_key, length, ceiling_name[kind], &found, &value, &error, err) != 0) return -1;
        *lacks = !found;
    }
    return 0;
}

static int plan_ceilings(struct sched *s, struct lab_err *err)
{
    for (size_t r = 0; r < s->sweep->n; r++) {
        const struct run_config *c = &s->sweep->run[r].config;
        struct ceiling_job *job = ceiling_job(s, r, err);
        if (!job) return -1;
        /* of several machines the one that has the first run of a task computes its ceilings */
        if (share_of(s, job->first) == SCHED_OTHERS) continue;
        for (int i = 0; i < c->eval.lengths.n; i++) {
            int lacks, length = c->eval.lengths.v[i];
            if (contains(&job->lengths, length) || job->lengths.n == OPTION_LIST_MAX) continue;
            if (lacks_ceiling(s, c, length, &lacks, err) != 0) return -1;
            if (lacks) job->lengths.v[job->lengths.n++] = length;
        }
    }
    return 0;
}

/* ---- a database that cannot be written ----
 *
 * It may come back: a lock is let go, somebody makes room.  Until then it is tried every second, and nothing new is started. */

static int is_out(const struct sched *s) { return s->outage.since_ns != 0; }
static int may_try(const struct sched *s) { return clock_ns() >= s->outage.retry_ns; }

static void go_out(struct sched *s, const struct lab_err *why)
{
    struct outage *o = &s->outage;
    int64_t now = clock_ns();
    store_rollback(s->store);
    o->why = *why;
    o->retry_ns = now + SECOND_NS;
    if (!o->since_ns) o->since_ns = now;
    if (o->told || (store_was_busy(s->store) && now - o->since_ns < 5 * SECOND_NS)) return;      /* others write, too: nothing to tell */
    o->told = 1;
    progress_note(&s->progress, "%s; training goes on, what it finds waits", why->msg);
}

static void come_back(struct sched *s)
{
    if (s->outage.told) progress_note(&s->progress, "%s: can be written again", store_path(s->store));
    s->outage = (struct outage){ .since_ns = 0 };
}

enum { REASON = sizeof ((struct desk *)0)->reason + sizeof ((struct desk *)0)->note + 2 };
static struct store_end end_of(const struct desk *d, const char *status, char reason[REASON])
{
    int done = !strcmp(status, "done"), how = d->worker.status, gone = d->ended;
    snprintf(reason, REASON, "%s%s%s", done ? "" : d->reason, !done && *d->note ? "; " : "", d->note);
    return (struct store_end){ .status = status, .reason = *reason ? reason : NULL, .result_sha256 = *d->result ? d->result : NULL,
                               .active_ns = d->active_ns ? d->active_ns : clock_ns() - d->begun_ns,
                               .last_step = done ? d->config->train.steps : d->step,
                               .exit_code = gone && WIFEXITED(how) ? WEXITSTATUS(how) : -1,
                               .term_signal = gone && WIFSIGNALED(how) ? WTERMSIG(how) : 0 };
}

/* What a desk was told goes into a file, for whoever opens the database next if we do not live to enter it. */
static void keep(struct sched *s, struct desk *d)
{
    char reason[REASON], path[SPILL_PATH];
    struct lab_err why;
    if (d->kind == WORK_CEILING || (d->kind == WORK_EVALUATE && (!d->ended || d->verdict != DESK_DONE))) return;
    struct store_end end = end_of(d, desk_status[d->ended ? d->verdict : DESK_INTERRUPTED], reason);
    if (!d->ended) end.reason = "lab ended while the database could not be written";
    struct spill spill = { d->attempt, d->told, d->record, d->n, d->kind == WORK_TRAIN ? &end : NULL };
    if (spill_write(s->store, &spill, path, &why) == 0) {
        if (*d->kept && strcmp(d->kept, path)) spill_remove(d->kept);
        memcpy(d->kept, path, sizeof path);
        return;
    }
    progress_note(&s->progress, "%s", why.msg);
}

static void drop_kept(struct desk *d)
{
    if (*d->kept) spill_remove(d->kept);
    d->kept[0] = '\0';
}

/* ---- starting ---- */

static void describe(const struct sched *s, size_t run, char *out, size_t size)
{
    const struct sweep_run *r = &s->sweep->run[run];
    snprintf(out, size, "%s %s seed %lld%s%s", r->config.task->name, r->config.encoder->name, (long long)r->config.seed,
             *r->label ? " " : "", r->label);
}

static struct desk *free_desk(struct sched *s)
{
    for (int i = 0; i < s->n_desk; i++) if (!s->desk[i].busy) return &s->desk[i];
    return NULL;
}

/* 0, or -1 with the reason why the worker did not start. */
static int start_worker(struct sched *s, struct desk *d, const struct option_list *lengths, struct lab_err *err)
{
    const char *log_key = d->kind == WORK_CEILING ? d->config->task_key : d->config->key;
    const struct limits_options *limits = &d->config->limits;
    struct str text = { 0 }, weights = { 0 }, checkpoint = { 0 }, log = { 0 };
    path_beside(&weights, s->store, "weights", d->config->key, ".safetensors");
    shelf_base(&checkpoint, &s->shelf, d->config->key, d->attempt);
    if (d->kind == WORK_TRAIN) shelf_make(&s->shelf, d->config->key);
    if (s->options->shared) str_printf(&log, "%s/logs/%.16s.%.8s.log", s->options->shared, log_key, d->kind == WORK_TRAIN ? d->attempt : "task");
    else path_beside(&log, s->store, "logs", log_key, ".log");
    work_write(&text, &(struct work_job){ d->kind, d->config, str_text(&weights), str_text(&checkpoint), d->attempt, d->resume,
                                          d->from_step, *lengths });
    int rc = weights.failed || checkpoint.failed || log.failed ? lab_fail(err, "out of memory for a worker's job")
           : worker_start(&d->worker, s->options->program ? s->options->program : "/proc/self/exe", &text, log.text, limits->memory, err);
    d->busy = rc == 0;
    d->deadline_ns = limits->time > 0 ? clock_ns() + (int64_t)(limits->time * 1e9) : 0;
    str_free(&text);
    str_free(&weights);
    str_free(&checkpoint);
    str_free(&log);
    return rc;
}

/* ---- checkpoints ---- */

struct choice {                      /* of a checkpoint to go on from */
    struct sched *s;
    struct desk *d;
    int64_t env_id;
    const char *name;
    struct lab_err *err;
    struct ckpt_mark best;           /* step 0: none */
    char path[CKPT_PATH];
    int unusable;                    /* sound ones of which too little is known */
};

static int consider(void *ctx, const char *path)
{
    struct choice *c = ctx;
    struct ckpt_mark mark;
    struct lab_err why;
    int usable = 0, found = ckpt_check(path, c->d->config->key, &mark, &why);
    if (found < 0) {
        progress_note(&c->s->progress, "%s: %s", c->name, why.msg);
        desk_note(c->d, "%s", why.msg);
    }
    if (found != 0) return 0;
    if (store_is_saved(c->s->store, c->s->run_id[c->d->run], c->env_id, mark.attempt, mark.step, &usable, c->err) != 0) return -1;
    c->unusable += !usable;
    if (usable && mark.step > c->best.step) {
        c->best = mark;
        snprintf(c->path, sizeof c->path, "%s", path);
    }
    return 0;
}

/* The newest checkpoint that is sound and of which all that was told before is in the database. */
static int choose_checkpoint(struct sched *s, struct desk *d, int64_t env_id, const char *name, struct lab_err *err)
{
    struct choice c = { .s = s, .d = d, .env_id = env_id, .name = name, .err = err };
    struct str base = { 0 };
    struct lab_err why;
    if (shelf_each(&s->shelf, d->config->key, consider, &c) != 0) return -1;
    shelf_base(&base, &s->shelf, d->config->key, d->attempt);
    if (c.best.step && !base.failed && (d->resume = shelf_slot(base.text, c.path, &why)) < 0) {
        progress_note(&s->progress, "%s starts anew: %s", name, why.msg);
        desk_note(d, "%s", why.msg);
    }
    str_free(&base);
    if (!c.best.step && c.unusable)
        progress_note(&s->progress, "%s starts anew: its checkpoint is of another lab, plugin, machine or database, or ran ahead of this one", name);
    if (d->resume < 0) return 0;
    d->from_step = d->step = c.best.step;
    return store_attempt_continue(s->store, d->attempt_id, c.best.attempt, c.best.step, err);
}

/* ---- how long it still takes ---- */

static double seconds_at(const struct desk *d) { return (double)(clock_ns() - d->begun_ns) / 1e9; }

static int is_timed(const struct desk *d) { return d->busy && d->kind != WORK_CEILING; }

/* Seconds that one of cost.h takes here, from all that was done in this session; 0: nothing is known yet. */
static double pace(const struct sched *s)
{
    double spent = s->spent, seconds = s->spent_s;
    for (int i = 0; i < s->n_desk; i++) {
        const struct desk *d = &s->desk[i];
        if (is_timed(d) && d->step > d->from_step) spent += desk_spent(d), seconds += seconds_at(d);
    }
    return spent > 0 ? seconds / spent : 0;
}

/* The last few runs of each worker count: what else the machine does changes. */
static void learn_pace(struct sched *s, const struct desk *d)
{
    double kept = 1 - 1 / (4.0 * s->n_desk);
    s->spent = kept * s->spent + d->all;
    s->spent_s = kept * s->spent_s + seconds_at(d);
}

/* A run shows its own pace the better the farther it is. */
static double desk_left(const struct desk *d, double pace)
{
    double prior = 0.1 * d->all, spent = desk_spent(d), own = (seconds_at(d) + prior * pace) / (spent + prior);
    return is_timed(d) && d->all > spent ? (spent > 0 ? own : pace) * (d->all - spent) : 0;
}

/* Seconds; -1: not known.  What other processes do of this sweep is counted as if it were left to us. */
static double time_left(struct sched *s)
{
    double p = pace(s);
    if (p <= 0 || s->stopping) return -1;
    for (int i = 0; i < s->n_desk; i++) s->desk_s[i] = desk_left(&s->desk[i], p);
    for (size_t i = 0; i < s->n_queued; i++) s->queued_s[i] = p * s->cost[s->queue[(s->head + i) % s->sweep->n]];
    return live_left(s->desk_s, s->n_desk, s->queued_s, s->n_queued);
}

/* ---- claiming ---- */

/* A run of less than a second gives no other sign of life.  It stands neither in the queue nor at a desk yet. */
static int first_beat(struct sched *s, const struct desk *d, struct lab_err *err)
{
    double left = time_left(s);
    if (left < 0) return 0;
    return store_attempt_beat(s->store, d->attempt_id, d->from_step, 0, left + pace(s) * s->cost[d->run] / s->n_desk, err);
}

static int begin_attempt(struct sched *s, struct desk *d, const char *name, struct lab_err *err)
{
    struct str json = { 0 };
    int64_t env_id;
    env_json(&json, d->config);
    int rc = json.failed ? lab_fail(err, "out of memory for the provenance of a run") : store_put_env(s->store, json.text, &env_id, err);
    /* Our own process id: as long as we live the attempt is looked after, whatever becomes of the worker. */
    if (rc == 0) rc = store_attempt_begin(s->store, s->run_id[d->run], env_id, getpid(), &d->attempt_id, err);
    if (rc == 0) rc = store_attempt_uuid(s->store, d->attempt_id, d->attempt, err);
    if (rc == 0) rc = choose_checkpoint(s, d, env_id, name, err);
    if (rc == 0) rc = first_beat(s, d, err);
    str_free(&json);
    return rc;
}

/* Why a run is not started although it may need something: 1, and what is to happen is seen to. */
static int is_left_alone(struct sched *s, size_t run, const struct store_status *status, const char *name)
{
    if (status->state == STORE_RUNNING) return put_back(s, run), 1;
    if (status->state == STORE_FAILED && !s->options->only) {
        progress_note(&s->progress, "FAILED before: %s: %s; `lab %s` runs it again", name, status->reason,
                      s->options->shared ? "work --retry" : "retry");
        return s->report->failed++, 1;
    }
    return 0;
}

/* Are the weights in the folder those that the result was measured with?  A database beside this one may have trained the run, too. */
static int are_its_weights(const struct sched *s, const struct desk *d, int *are, struct lab_err *err)
{
    struct str path = { 0 };
    struct lab_err unread;
    char kept[HASH_HEX], found[HASH_HEX] = "";
    if (store_weights(s->store, d->attempt_id, kept, err) != 0) return -1;
    path_beside(&path, s->store, "weights", d->config->key, ".safetensors");
    *are = !*kept || (!path.failed && hash_file(path.text, found, &unread) == 0 && !strcmp(kept, found));
    str_free(&path);
    return 0;
}

/* Looks a run up and begins the attempt it needs, if any.  Within a transaction. */
static int claim(struct sched *s, struct desk *d, enum sched_need *need, struct option_list *lengths, struct lab_err *err)
{
    struct store_status status;
    char name[160], fields[STORE_FIELDS] = "";
    int are_its = 1;
    *need = SCHED_NOTHING;
    describe(s, d->run, name, sizeof name);
    if (store_run_status(s->store, d->config->key, &status, err) != 0) return -1;
    if (is_left_alone(s, d->run, &status, name)) return 0;
    if (sched_need(s->store, d->config, need, lengths, err) != 0) return -1;
    d->attempt_id = status.attempt_id;               /* where later evaluations go */
    if (*need == SCHED_EVALUATE && are_its_weights(s, d, &are_its, err) != 0) return -1;
    if (!are_its) *need = SCHED_TRAIN, *lengths = d->config->eval.lengths;
    if (status.state == STORE_DONE) shelf_remove(&s->shelf, d->config->key);       /* a kill may have come between */
    if (s->options->rerun_stale && staleness(s, d->config, &status, fields, err) != 0) return -1;
    if (*fields) *need = SCHED_TRAIN, *lengths = d->config->eval.lengths;
    if (*need == SCHED_NOTHING) s->report->already++;
    if (*need == SCHED_EVALUATE) return store_attempt_uuid(s->store, d->attempt_id, d->attempt, err);
    if (*need == SCHED_NOTHING) return 0;
    if (status.state == STORE_DONE) {
        if (!*fields) progress_note(&s->progress, "%s lacks an evaluation and its weights %s: it is trained again", name, are_its ? "are gone" : "were changed");
        if (store_supersede(s->store, status.attempt_id, err) != 0) return -1;
    }
    return begin_attempt(s, d, name, err);
}

/* 1: too late, it had been taken for lost. */
static int end_attempt(struct sched *s, const struct desk *d, const char *status, struct lab_err *err)
{
    char reason[REASON];
    struct store_end end = end_of(d, status, reason);
    return store_attempt_end(s->store, d->attempt_id, &end, err);
}

static int start_run(struct sched *s, struct desk *d, size_t run, struct lab_err *err)
{
    enum sched_need need;
    struct option_list lengths;
    struct store_status status;
    struct lab_err why;
    desk_clear(d, WORK_TRAIN, run, &s->sweep->run[run].config);
    if (store_run_status(s->store, d->config->key, &status, err) != 0) return -1;
    if (status.state == STORE_RUNNING) return put_back(s, run), 0;       /* without a transaction: we may come here every second */
    if (store_begin(s->store, err) != 0 || claim(s, d, &need, &lengths, err) != 0 || store_commit(s->store, err) != 0) return -1;
    if (need == SCHED_NOTHING) return 0;
    d->kind = need == SCHED_TRAIN ? WORK_TRAIN : WORK_EVALUATE;
    desk_expect(d, &lengths);
    if (start_worker(s, d, &lengths, &why) == 0) return 0;
    /* No fault of the run: it is to be continued once there are processes and memory again. */
    progress_note(&s->progress, "%s", why.msg);
    memcpy(d->reason, why.msg, sizeof d->reason);
    s->report->interrupted++;
    if (need == SCHED_TRAIN && end_attempt(s, d, "interrupted", &why) < 0) progress_note(&s->progress, "%s", why.msg);    /* our own end will tell */
    return 0;
}

static void start_ceiling(struct sched *s, struct desk *d, const struct ceiling_job *job)
{
    struct lab_err why;
    if (!job->lengths.n) return;                     /* all in the database */
    desk_clear(d, WORK_CEILING, job->run, &s->sweep->run[job->run].config);
    if (start_worker(s, d, &job->lengths, &why) == 0) return;
    progress_note(&s->progress, "no ceiling: %s", why.msg);
    s->report->lacking++;
}

/* 1: there may be more, but signals and workers come first. */
static int start_what_fits(struct sched *s)
{
    struct lab_err why;
    struct desk *d;
    int64_t until = clock_ns() + START_NS;
    while (!s->stopping && may_try(s) && (d = free_desk(s))) {
        if (clock_ns() >= until) return 1;
        if (s->next_ceiling < s->n_ceiling) {
            start_ceiling(s, d, &s->ceiling[s->next_ceiling++]);
            continue;
        }
        if (!s->fresh && clock_ns() >= s->look_ns) s->fresh = s->n_queued, s->look_ns = clock_ns() + SECOND_NS;
        if (!s->fresh) return 0;
        size_t run = s->queue[s->head];
        s->head = (s->head + 1) % s->sweep->n;
        s->n_queued--, s->fresh--;
        if (start_run(s, d, run, &why) == 0) { come_back(s); continue; }
        put_back(s, run);
        go_out(s, &why);
    }
    return 0;
}

/* ---- into the database ---- */

static int enter_records(struct sched *s, struct desk *d, struct lab_err *err)
{
    const struct run_config *c = d->config;
    for (size_t i = 0; i < d->n; i++) {
        const struct record *r = &d->record[i];
        int rc = r->type == RECORD_CEILING ? store_put_ceiling(s->store, c->task_key, c->task->name, r, err)
                                           : store_put_record(s->store, d->attempt_id, r, err);
        if (rc != 0) return -1;
    }
    return 0;
}

/* A later evaluation joins a run that is done, so it is entered whole or not at all, when its worker has ended. */
static int is_due(const struct desk *d) { return d->busy && !d->ended && d->n && d->kind != WORK_EVALUATE; }

static int is_silent(const struct desk *d) { return d->busy && !d->ended && d->kind == WORK_TRAIN && d->step != d->beat_step; }

static int enter_all(struct sched *s, struct lab_err *err)
{
    double left_s = time_left(s);
    if (store_begin(s->store, err) != 0) return -1;
    for (int i = 0; i < s->n_desk; i++) {
        struct desk *d = &s->desk[i];
        if (is_due(d) && enter_records(s, d, err) != 0) return -1;
        if (d->kind == WORK_TRAIN && (is_due(d) || is_silent(d)) &&
            store_attempt_beat(s->store, d->attempt_id, d->step, d->told + (int64_t)d->n, left_s, err) != 0) return -1;
    }
    return store_commit(s->store, err);
}

static void is_entered(struct desk *d)
{
    if (is_due(d)) d->told += (int64_t)d->n, d->n = 0, d->saved = 0, drop_kept(d);
    d->beat_step = d->step;
}

static void keep_saved(struct sched *s, struct desk *d)
{
    if (!is_due(d) || d->saved != 1) return;
    keep(s, d);
    d->saved = 2;
}

static void commit_if_time(struct sched *s)
{
    struct lab_err why;
    size_t due = 0, silent = 0, saved = 0;
    for (int i = 0; i < s->n_desk; i++) {
        if (is_due(&s->desk[i])) due += s->desk[i].n;
        silent += is_silent(&s->desk[i]);
        saved += s->desk[i].busy && s->desk[i].saved == 1;
    }
    if (!(due + silent) || (!saved && due < COMMIT_RECORDS && clock_ns() - s->committed_ns < SECOND_NS) || (!saved && !may_try(s))) return;
    s->committed_ns = clock_ns();
    int rc = enter_all(s, &why);
    if (rc == 0 && saved && !s->unpublished) s->unpublished = SAVED;
    for (int i = 0; i < s->n_desk; i++) {
        if (rc == 0) is_entered(&s->desk[i]);
        else keep_saved(s, &s->desk[i]);
    }
    if (rc == 0) come_back(s);
    else go_out(s, &why);
}

/* ---- the end of a worker ---- */

static void tell(struct sched *s, const struct desk *d, enum desk_verdict verdict)
{
    char name[160];
    struct sched_report *report = s->report;
    int unasked = 0, ceiling = d->kind == WORK_CEILING, *const failed = ceiling ? &report->lacking : &report->failed;
    int *const count[] = { ceiling ? &unasked : &report->done, failed, &report->interrupted, failed };
    describe(s, d->run, name, sizeof name);
    ++*count[verdict];
    if (verdict == DESK_DONE && d->no_weights) progress_note(&s->progress, "%s: %s", name, d->note);
    if (verdict != DESK_FAILED && verdict != DESK_TIMED_OUT) return;
    const char *what = ceiling ? "no ceiling" : d->kind == WORK_EVALUATE ? "FAILED evaluation" : "FAILED";
    progress_note(&s->progress, "%s: %s: %s%s%s", what, name, d->reason, d->worker.logged ? "; it printed: " : "",
                  d->worker.logged ? d->worker.log_path : "");
}

/* Somebody took us for dead and the run over: what becomes of it is looked up again. */
static void tell_late(struct sched *s, const struct desk *d)
{
    char name[160];
    describe(s, d->run, name, sizeof name);
    progress_note(&s->progress, "%s was taken over by another process: what this one found is kept as evidence only", name);
    put_back(s, d->run);
}

/* 1: too late, it had been taken for lost. */
static int enter_end(struct sched *s, struct desk *d, struct lab_err *err)
{
    int late = 0;
    if (store_begin(s->store, err) != 0) return -1;
    if (d->kind != WORK_EVALUATE && enter_records(s, d, err) != 0) return -1;
    if (d->kind == WORK_EVALUATE && d->verdict == DESK_DONE && store_put_evaluation(s->store, d->attempt_id, d->record, d->n, err) != 0) return -1;
    if (d->kind == WORK_TRAIN) late = end_attempt(s, d, desk_status[d->verdict], err);
    return late < 0 || store_commit(s->store, err) != 0 ? -1 : late;
}

static void leave_desk(struct sched *s, struct desk *d, int late)
{
    if (late) tell_late(s, d);
    else tell(s, d, d->verdict);
    if (d->kind == WORK_TRAIN) s->steps += (double)(d->step - d->from_step);
    if (d->kind != WORK_CEILING && d->verdict == DESK_DONE) learn_pace(s, d);
    if (d->kind == WORK_TRAIN && d->verdict == DESK_DONE && !late) shelf_remove(&s->shelf, d->config->key);
    drop_kept(d);
    s->unpublished = ENDED;
    worker_close(&d->worker);
    d->busy = 0;
}

/* Its worker is gone.  If the database does not take what it left, it stays at its desk. */
static void end_desk(struct sched *s, struct desk *d)
{
    struct lab_err why;
    int first = !d->ended;
    if (!first && !may_try(s)) return;
    if (first) {
        desk_read(d);                                /* the last of it */
        d->verdict = desk_judge(d, s->stopping);
        d->ended = 1;
    }
    int late = enter_end(s, d, &why);
    if (late >= 0) {
        come_back(s);
        leave_desk(s, d, late);
        return;
    }
    go_out(s, &why);
    if (first) keep(s, d);
}

/* ---- the loop ---- */

static int n_busy(const struct sched *s)
{
    int n = 0;
    for (int i = 0; i < s->n_desk; i++) n += s->desk[i].busy;
    return n;
}

static int n_working(const struct sched *s)
{
    int n = 0;
    for (int i = 0; i < s->n_desk; i++) n += s->desk[i].busy && !s->desk[i].ended;
    return n;
}

static void fill_live(const struct sched *s, struct desk *d, double pace)
{
    struct live_worker *w = &d->live;
    double seconds = seconds_at(d);
    describe(s, d->run, w->name, sizeof w->name);
    w->step = d->step, w->steps = d->config->train.steps;
    w->rate = seconds > 0 ? (double)(d->step - d->from_step) / seconds : 0;
    w->left = pace > 0 && !s->stopping ? desk_left(d, pace) : -1;
}

static struct progress_now progress_now(struct sched *s)
{
    struct progress_now now = { s->report->total, s->report->already + s->report->done, s->report->failed, s->steps, time_left(s), s->live, 0 };
    double p = pace(s);
    for (int i = 0; i < s->n_desk; i++) {
        struct desk *d = &s->desk[i];
        if (!is_timed(d)) continue;
        now.steps += (double)(d->step - d->from_step);
        fill_live(s, d, p);
        s->live[now.n_worker++] = d->live;
    }
    return now;
}

static void wait_for_news(struct sched *s, int at_most_ms)
{
    int n = 0;
    s->poll[n++] = (struct pollfd){ .fd = s->signals.fd, .events = POLLIN };
    for (int i = 0; i < s->n_desk; i++) {
        if (!s->desk[i].busy || s->desk[i].ended) continue;
        s->poll[n++] = (struct pollfd){ .fd = s->desk[i].worker.record_fd, .events = POLLIN };       /* -1 is passed over */
        s->poll[n++] = (struct pollfd){ .fd = s->desk[i].worker.output_fd, .events = POLLIN };
    }
    poll(s->poll, (nfds_t)n, at_most_ms);
}

static void stop(struct sched *s, int signal)
{
    int at_once = s->stopping != 0;
    /* a terminal that closes may send several; a warning is no order */
    if (at_once && (signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2)) return;
    s->report->signals++;
    if (!at_once) progress_note(&s->progress, "stopping: workers finish their step (again: at once)");
    if (!at_once) s->stopping = signal;
    for (int i = 0; i < s->n_desk; i++) {
        if (!s->desk[i].busy) continue;
        worker_signal(&s->desk[i].worker, at_once ? SIGKILL : SIGTERM);
        s->desk[i].worker.kill_ns = clock_ns() + STOP_S * SECOND_NS;
    }
}

/* Ctrl-Z: we and the workers, whose groups the terminal does not know, sleep until SIGCONT.  That time counts for nothing. */
static void pause_all(struct sched *s)
{
    int64_t since = clock_ns();
    progress_clear(&s->progress);
    for (int i = 0; i < s->n_desk; i++) if (s->desk[i].busy) worker_signal(&s->desk[i].worker, SIGSTOP);
    kill(getpid(), SIGSTOP);
    int64_t away = clock_ns() - since;
    for (int i = 0; i < s->n_desk; i++) {
        struct desk *d = &s->desk[i];
        if (!d->busy) continue;
        if (d->deadline_ns) d->deadline_ns += away;
        if (d->worker.kill_ns) d->worker.kill_ns += away;
        d->begun_ns += away;
        worker_signal(&d->worker, SIGCONT);
    }
}

static void take_signals(struct sched *s)
{
    for (int signal; (signal = signals_next(&s->signals)); ) {
        if (signal == SIGTSTP) pause_all(s);
        else if (signal != SIGCHLD && signal != SIGWINCH) stop(s, signal);
    }
}

static void check_time(struct desk *d)
{
    int64_t now = clock_ns();
    if (d->deadline_ns && now > d->deadline_ns && !d->timed_out) {
        d->timed_out = 1;
        worker_signal(&d->worker, SIGTERM);
        d->worker.kill_ns = now + STOP_S * SECOND_NS;
    }
    if (d->worker.kill_ns && now > d->worker.kill_ns) worker_signal(&d->worker, SIGKILL);
}

static void look_around(struct sched *s)
{
    take_signals(s);
    for (int i = 0; i < s->n_desk; i++) {
        struct desk *d = &s->desk[i];
        if (!d->busy) continue;
        if (!d->ended) {
            desk_read(d);
            check_time(d);
        }
        if (d->ended || worker_reap(&d->worker)) end_desk(s, d);
    }
    commit_if_time(s);
    if (s->unpublished && s->options->publish && !s->options->publish(s->options->publish_ctx, s->unpublished == ENDED)) s->unpublished = NOTHING;
}

/* Nobody works any more, and the database does not come back. */
static int gives_up(const struct sched *s)
{
    int64_t patience = s->stopping ? STOPPED_S : store_was_busy(s->store) ? LOCK_S : FAULT_S;
    return is_out(s) && clock_ns() - s->outage.since_ns > patience * SECOND_NS;
}

/* What a user must know: what failed, what was saved, what to do. */
static int tell_outage(struct sched *s, struct lab_err *err)
{
    char path[STORE_PATH];
    struct lab_err why;
    struct str text = { 0 };
    int n = 0;
    const char *where = "";
    for (int i = 0; i < s->n_desk; i++) if (s->desk[i].busy && *s->desk[i].kept) n++, where = s->desk[i].kept;
    str_add(&text, s->outage.why.msg);
    if (store_moved(s->store)) {
        int saved = store_rescue(s->store, path, &why) == 0, back = saved && !strcmp(path, store_path(s->store));
        str_printf(&text, "; what it held %s %s", back ? "was put back:" : saved ? "was saved as" : "is lost:", saved ? path : why.msg);
    }
    if (n) str_printf(&text, "; %d run%s that ended meanwhile wait%s in %.*s: the next `lab run` on this database enters %s", n, n == 1 ? "" : "s",
                      n == 1 ? "s" : "", (int)(strrchr(where, '/') - where), where, n == 1 ? "it" : "them");
    lab_fail(err, "%s", str_text(&text));
    str_free(&text);
    return -1;
}

static int loop(struct sched *s, struct lab_err *err)
{
    for (int told = 0;;) {
        int more = start_what_fits(s);
        if (!n_busy(s) && !is_out(s) && (s->stopping || !s->n_queued)) return 0;
        if (!n_working(s) && gives_up(s)) return tell_outage(s, err);
        if (!more && !n_busy(s) && !is_out(s) && !told++)
            progress_note(&s->progress, "%zu run%s in the hands of another process: waiting for it", s->n_queued, s->n_queued == 1 ? " is" : "s are");
        wait_for_news(s, more ? 0 : TICK_MS);
        look_around(s);
        if (!progress_is_due(&s->progress)) continue;
        struct progress_now now = progress_now(s);
        progress_show(&s->progress, &now);
    }
}

/* Desks that the database did not take: what they hold is in files. */
static void clear_desks(struct sched *s)
{
    for (int i = 0; i < s->n_desk; i++) if (s->desk[i].busy) worker_close(&s->desk[i].worker);
}

/* ---- set-up ---- */

int sched_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int make_room(struct sched *s, struct lab_err *err)
{
    int jobs = s->options->jobs > 0 ? s->options->jobs : sched_cores();
    s->n_desk = jobs < SCHED_MAX_JOBS ? jobs : SCHED_MAX_JOBS;
    s->desk = mem_alloc((size_t)s->n_desk * sizeof *s->desk, err);
    s->poll = s->desk ? mem_alloc((size_t)(2 * s->n_desk + 1) * sizeof *s->poll, err) : NULL;
    s->run_id = s->poll ? mem_alloc(s->sweep->n * sizeof *s->run_id, err) : NULL;
    s->cost = s->run_id ? mem_alloc(s->sweep->n * sizeof *s->cost, err) : NULL;
    s->queued_s = s->cost ? mem_alloc(s->sweep->n * sizeof *s->queued_s, err) : NULL;
    s->desk_s = s->queued_s ? mem_alloc((size_t)s->n_desk * sizeof *s->desk_s, err) : NULL;
    s->live = s->desk_s ? mem_alloc((size_t)s->n_desk * sizeof *s->live, err) : NULL;
    s->queue = s->live ? mem_alloc(s->sweep->n * sizeof *s->queue, err) : NULL;
    return s->queue ? 0 : -1;
}

static void release(struct sched *s)
{
    for (int i = 0; s->desk && i < s->n_desk; i++) free(s->desk[i].record);
    free(s->desk);
    free(s->poll);
    free(s->run_id);
    free(s->cost);
    free(s->queued_s);
    free(s->desk_s);
    free(s->live);
    free(s->queue);
    free(s->ceiling);
    str_free(&s->checkpoints);
}

static int find_shelf(struct sched *s, struct lab_err *err)
{
    if (s->options->shared) str_printf(&s->checkpoints, "%s/checkpoints", s->options->shared);
    else path_beside(&s->checkpoints, s->store, "checkpoints", "", "");
    if (s->checkpoints.failed) return lab_fail(err, "out of memory for the path of checkpoints");
    s->shelf = (struct shelf){ s->checkpoints.text, s->options->shared != NULL, store_uuid(s->store) };
    return 0;
}

static void make_folder(const struct store *store, const char *kind)
{
    struct str path = { 0 };
    path_beside(&path, store, kind, "", "");
    if (!path.failed) mkdir(path.text, 0777);        /* a worker that cannot write there says so */
    str_free(&path);
}

int sched_run(struct store *store, const struct sweep *sweep, const struct sched_options *options, struct sched_report *report,
              struct lab_err *err)
{
    struct sched s = { .store = store, .sweep = sweep, .options = options, .report = report };
    int rc = -1;
    *report = (struct sched_report){ 0 };
    if (make_room(&s, err) != 0 || find_shelf(&s, err) != 0) goto out;
    if (enter_plan(&s, err) != 0 || plan_runs(&s, err) != 0 || plan_ceilings(&s, err) != 0 || signals_open(&s.signals, err) != 0) goto out;
    make_folder(store, "weights");
    if (!options->shared) make_folder(store, "checkpoints");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);          /* the workers': one thread a run */
    setenv("OMP_NUM_THREADS", "1", 1);
    progress_start(&s.progress, options->quiet);
    store_patience(store, LOCK_MS);
    rc = loop(&s, err);
    store_patience(store, 0);
    clear_desks(&s);
    report->interrupted += (int)s.n_queued;
    struct progress_now now = progress_now(&s);
    progress_end(&s.progress, &now);
    signals_close(&s.signals);
out:
    release(&s);
    return rc;
}
