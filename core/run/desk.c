/* desk -- see desk.h. */
#include "run/desk.h"
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/mem.h"

/* What stays is the worker's buffer and the room for records. */
void desk_clear(struct desk *d, enum work_kind kind, size_t run, const struct run_config *config)
{
    d->kind = kind, d->run = run, d->config = config, d->attempt_id = 0, d->n = 0, d->told = 0;
    d->started = d->done = d->stopped = d->failed = d->saved = d->timed_out = d->ended = d->no_weights = 0;
    d->reason[0] = d->result[0] = d->note[0] = d->attempt[0] = d->kept[0] = '\0';
    d->resume = -1, d->from_step = 0;
    d->active_ns = d->step = 0, d->beat_step = -1, d->begun_ns = clock_ns();
    d->all = d->tested = 0;
    d->live.n_loss = 0;
}

void desk_expect(struct desk *d, const struct option_list *lengths)
{
    d->cost = cost_of(d->config);
    d->all = d->cost.start;
    if (d->kind == WORK_TRAIN) d->all += cost_steps(&d->cost, d->config, (double)d->from_step, d->config->train.steps);
    for (int i = 0; i < lengths->n; i++) d->all += cost_test(d->config, lengths->v[i]);
}

double desk_spent(const struct desk *d)
{
    if (!d->started) return 0;
    return d->cost.start + (d->kind == WORK_TRAIN ? cost_steps(&d->cost, d->config, (double)d->from_step, (double)d->step) : 0) + d->tested;
}

void desk_note(struct desk *d, const char *fmt, ...)
{
    va_list ap;
    size_t n = strlen(d->note);
    if (n) n += (size_t)snprintf(d->note + n, sizeof d->note - n, "; ");
    if (n >= sizeof d->note) return;
    va_start(ap, fmt);
    vsnprintf(d->note + n, sizeof d->note - n, fmt, ap);
    va_end(ap);
}

/* ---- what the worker sends ---- */

static int is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list)) list++;
    return *list != NULL;
}
static const char *const metrics[] = { "loss", "token_accuracy", "sequence_accuracy", "grad_norm", "lr", NULL };
static const char *const splits[] = { "valid", "test", "free", "longer", NULL };

/* Would the database take it?  A worker whose memory a plugin has damaged must not end the sweep. */
static int is_plausible(const struct desk *d, const struct record *r)
{
    int counts = r->n_tok > 0 && r->n_tok_ok >= 0 && r->n_tok_ok <= r->n_tok && r->length > 0 && r->step >= 0;
    if ((d->kind == WORK_CEILING) != (r->type == RECORD_CEILING)) return 0;
    switch (r->type) {
    case RECORD_METRIC: return is_one_of(r->name, metrics);
    case RECORD_ARTIFACT: return r->n_tok >= 0;
    case RECORD_CHECKPOINT: return 1;
    case RECORD_SELECTED: return r->step > 0;
    case RECORD_EVAL_SLICE: if (!strcmp(r->split, "longer")) return 0;      /* fall through */
    case RECORD_EVAL: return counts && is_one_of(r->split, splits) && r->position >= 0 && r->n > 0 && r->n_exact >= 0 && r->n_exact <= r->n;
    case RECORD_EVAL_POSITION: return counts && (!strcmp(r->split, "valid") || !strcmp(r->split, "test")) && r->position >= 0;
    case RECORD_UNTRAINED: return r->position >= 0 && r->n > 0 && r->n <= r->length - r->position;
    case RECORD_CEILING: return (!strcmp(r->name, "order_blind") || !strcmp(r->name, "majority")) && r->length > 0 && r->n > 0 &&
                                isfinite(r->value) && isfinite(r->error);
    default: return 0;
    }
}

/* Text from a plugin may hold anything, also what a terminal would obey, and may have been cut within a character. */
static void take_text(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n + 1);
    for (size_t at = 0; (at += str_utf8(text + at, n - at)) < n; at++) to[at] = '?';
    for (size_t i = 0; i < n; i++) if ((unsigned char)to[i] < 0x20 || to[i] == 0x7f) to[i] = '?';
}

static void take_reason(struct desk *d, const char *text)
{
    take_text(d->reason, text);
    d->failed = 1;
}

/* What a worker could not save, and why. */
static int take_unsaved(struct desk *d, const char *what, const char *why)
{
    char text[sizeof ((struct record *)0)->text];
    take_text(text, why);
    if (*text) desk_note(d, "no %s: %s", what, text);
    return *text != '\0';
}

static int take(void *ctx, const struct record *r, struct lab_err *err)
{
    struct desk *d = ctx;
    if (r->type == RECORD_START) {
        if (d->started || strcmp(r->sha256, d->config->key))
            return lab_fail(err, "the worker took up run %.16s, its job was %.16s", r->sha256, d->config->key);
        return d->started = 1, 0;
    }
    if (r->type == RECORD_FAILED) return take_reason(d, r->text), 0;
    if (r->type == RECORD_STOPPED) return take_unsaved(d, "checkpoint", r->text), d->stopped = 1, 0;
    if (!d->started || d->done) return lab_fail(err, "the worker sent a result %s", d->done ? "after its end" : "before it named its run");
    if (r->step > d->step) d->step = r->step;
    if (r->type == RECORD_PROGRESS) return 0;
    if (r->type == RECORD_DONE) {
        memcpy(d->result, r->sha256, sizeof d->result);
        d->active_ns = r->active_ns;
        d->no_weights = take_unsaved(d, "weights", r->text);
        return d->done = 1, 0;
    }
    if (r->type == RECORD_CHECKPOINT) d->saved = 1;
    if (r->type == RECORD_METRIC && !strcmp(r->name, "loss")) live_loss(&d->live, r->value);
    if (!is_plausible(d, r)) return lab_fail(err, "the worker sent a result that cannot be (record type %d)", (int)r->type);
    if (mem_grow(&d->record, &d->cap, d->n + 1, sizeof *d->record, err) != 0) return -1;
    if (r->type == RECORD_EVAL && !strcmp(r->split, "test")) d->tested += cost_test(d->config, (int)r->length);
    d->record[d->n++] = *r;
    return 0;
}

void desk_read(struct desk *d)
{
    struct worker_sink sink = { take, d };
    struct lab_err err;
    worker_read_output(&d->worker);
    if (d->failed || worker_read(&d->worker, &sink, &err) == 0) return;
    take_reason(d, err.msg);                         /* whatever else it says is not believed */
    worker_signal(&d->worker, SIGKILL);
}

/* ---- what became of it ---- */

const char *const desk_status[] = { "done", "failed", "interrupted", "timeout" };

/* A plugin that gets no memory mostly crashes next: the numbers show it. */
static void add_memory(struct desk *d)
{
    int limit = d->config->limits.memory;
    size_t n = strlen(d->reason);
    if (limit && d->worker.peak_mb >= limit / 2)
        snprintf(d->reason + n, sizeof d->reason - n, "; out of memory? it held %d MB, limits.memory is %d MB", (int)d->worker.peak_mb, limit);
}

enum desk_verdict desk_judge(struct desk *d, int stopping)
{
    const struct worker *w = &d->worker;
    char end[160];
    if (d->failed) return DESK_FAILED;
    if (d->done && WIFEXITED(w->status) && WEXITSTATUS(w->status) == 0 && !w->n_in) return DESK_DONE;
    if (d->timed_out) {
        snprintf(d->reason, sizeof d->reason, "took longer than limits.time = %g s%s", d->config->limits.time,
                 d->stopped ? "" : ", and did not stop when asked to");
        return DESK_TIMED_OUT;
    }
    if (d->stopped || (stopping && WIFSIGNALED(w->status))) {
        snprintf(d->reason, sizeof d->reason, "%s%s", stopping ? "SIG" : "stopped", stopping ? sigabbrev_np(stopping) : "");
        return DESK_INTERRUPTED;
    }
    worker_describe(w, end, sizeof end);
    const char *when = d->done ? " after its result" : w->n_in ? " in the middle of a record" :
                       WIFEXITED(w->status) ? " without a result" : "";
    int is_kill = WIFSIGNALED(w->status) && WTERMSIG(w->status) == SIGKILL;
    snprintf(d->reason, sizeof d->reason, "%s%s%s", end, when, is_kill ? "; the system does that when memory runs out" : "");
    add_memory(d);
    return DESK_FAILED;
}
