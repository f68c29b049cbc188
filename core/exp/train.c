/* train -- see train.h. */
#include "exp/train.h"
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "exp/ckpt.h"
#include "exp/data.h"
#include "exp/eval.h"

struct session {                     /* what one job holds */
    const struct train_job *job;
    const struct run_config *config;
    struct model model;
    struct data data;
    struct optim_options optim;
    struct ckpt_mark at;             /* where training stands */
    int slot;                        /* of the next checkpoint */
    int64_t saved_step;              /* of the last one */
    struct lab_err no_checkpoint;    /* why the last one could not be saved; "" = it could */
    struct lab_err no_weights;       /* the same of the final weights */
    int64_t started_ns, shown_ns, saved_ns;
    struct lab_err *err;
};

static int stopping(const struct session *s) { return s->job->stop && *s->job->stop; }

static int session_init(struct session *s, const struct train_job *job, int training, struct lab_err *err)
{
    const struct train_options *t = &job->config->train;
    struct model_setup setup;
    *s = (struct session){ .job = job, .config = job->config, .err = err, .started_ns = clock_ns(), .saved_ns = clock_ns() };
    s->optim = (struct optim_options){ t->lr, t->beta1, t->beta2, t->eps, t->weight_decay, t->clip, t->warmup, t->schedule, t->steps };
    config_model_setup(job->config, &setup);
    if (!training) setup.train_batch = 0;
    int tokens = setup.train_batch * setup.train_len;
    if (setup.infer_tokens > tokens) tokens = setup.infer_tokens;
    if (data_init(&s->data, job->config, tokens, err) != 0) return -1;
    if (model_init(&s->model, &setup, err) != 0) return data_release(&s->data), -1;
    return 0;
}

static void session_release(struct session *s)
{
    model_release(&s->model);
    data_release(&s->data);
}

/* ---- what is told ---- */

static int emit_metric(struct session *s, const char *name, int64_t step, double value)
{
    struct record r = { .type = RECORD_METRIC, .step = step, .value = value };
    snprintf(r.name, sizeof r.name, "%s", name);
    return eval_emit(s->job->sink, s->at.result, &r);
}

/* For the eyes: a few times a second. */
static int emit_progress(struct session *s, int64_t step, double loss)
{
    int64_t now = clock_ns();
    if (now - s->shown_ns < 200000000) return 0;
    s->shown_ns = now;
    struct record r = { .type = RECORD_PROGRESS, .step = step, .steps = s->config->train.steps, .value = loss };
    return record_emit(s->job->sink, &r);
}

/* Hands records on and remembers how many tokens were right. */
struct listener { const struct record_sink *to; double accuracy; };
static int listen_in(void *ctx, const struct record *r)
{
    struct listener *l = ctx;
    if (r->type == RECORD_EVAL) l->accuracy = (double)r->n_tok_ok / (double)r->n_tok;
    return record_emit(l->to, r);
}

/* score, if not NULL: the mean token accuracy over the lengths that select, each counting the same. */
static int evaluate(struct session *s, int split, int64_t sequences, int64_t step, double *score, const volatile sig_atomic_t *stop)
{
    const struct option_list *lengths = &s->config->eval.lengths;
    struct listener heard = { s->job->sink, 0 };
    struct record_sink ear = { listen_in, &heard };
    double sum = 0;
    for (int i = 0, n = 0; i < lengths->n; i++) {
        struct eval_request q = { split, lengths->v[i], sequences, step, split == LAB_TEST, 0 };
        int rc = eval_run(&s->model, &s->data, &q, &ear, s->at.result, stop, s->err);
        if (rc != 0) return rc;
        if (score && config_selects(s->config, lengths->v[i])) sum += heard.accuracy, *score = sum / ++n;
        q.sequences = s->config->eval.free_sequences < sequences ? s->config->eval.free_sequences : sequences;
        q.free_running = 1, q.by_position = 0;
        if (split != LAB_TEST || q.sequences == 0 || !config_continues(s->config)) continue;
        rc = eval_run(&s->model, &s->data, &q, s->job->sink, s->at.result, stop, s->err);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Rows of the encoder's parameters whose gradient was zero in every step: Adam's second moment remembers. */
static int emit_untrained(struct session *s)
{
    for (int i = 0; i < s->model.n_param; i++) {
        const struct model_param *p = &s->model.param[i];
        if (p->encoder_index < 0 || !p->v || p->ndim < 2) continue;
        size_t width = p->size / (size_t)p->dim[0];
        for (int row = 0, first = -1; row <= p->dim[0]; row++) {
            int touched = row == p->dim[0];
            for (size_t c = 0; c < width && !touched; c++) touched = p->v[(size_t)row * width + c] != 0;
            if (!touched && first < 0) first = row;
            if (!touched || first < 0) continue;
            struct record r = { .type = RECORD_UNTRAINED, .length = p->dim[0], .position = first, .n = row - first };
            snprintf(r.name, sizeof r.name, "%.63s", p->name);
            if (record_emit(s->job->sink, &r) != 0) return -1;
            first = -1;
        }
    }
    return 0;
}

/* ---- checkpoints ---- */

/* A checkpoint that cannot be saved costs nothing but time, should the run be stopped: training goes on. */
static int checkpoint(struct session *s)
{
    char path[CKPT_PATH];
    const char *base = s->job->checkpoint;
    if (!base || !*base || s->saved_step == s->at.step) return 0;
    s->saved_ns = clock_ns();
    if (ckpt_path(path, base, s->slot, &s->no_checkpoint) != 0 ||
        ckpt_save(path, &s->model, s->config->key, &s->at, &s->no_checkpoint) != 0) {
        fprintf(stderr, "no checkpoint after step %lld: %s\n", (long long)s->at.step, s->no_checkpoint.msg);
        return 0;
    }
    s->no_checkpoint.msg[0] = '\0';
    s->slot = (s->slot + 1) % CKPT_SLOTS;
    s->saved_step = s->at.step;
    return record_emit(s->job->sink, &(struct record){ .type = RECORD_CHECKPOINT, .step = s->at.step });
}

static int is_checkpoint_due(const struct session *s)
{
    double seconds = s->config->limits.checkpoint;
    return seconds > 0 && (double)(clock_ns() - s->saved_ns) >= seconds * 1e9;
}

/* err: why there is no checkpoint, or "". */
static enum train_status stopped(struct session *s)
{
    checkpoint(s);
    *s->err = s->no_checkpoint;
    return TRAIN_STOPPED;
}

static int resume(struct session *s)
{
    char path[CKPT_PATH];
    int from = s->job->resume;
    if (from >= 0) {
        if (ckpt_path(path, s->job->checkpoint, from, s->err) != 0 || ckpt_load(path, &s->model, s->config->key, &s->at, s->err) != 0) return -1;
        if (s->at.step != s->job->from_step)
            return lab_fail(s->err, "%s: stands at step %lld, expected %lld: is it used by another database, too?", path,
                            (long long)s->at.step, (long long)s->job->from_step);
        s->slot = (from + 1) % CKPT_SLOTS;           /* what we go on from is the last to be overwritten */
        s->saved_step = s->at.step;
    }
    snprintf(s->at.attempt, sizeof s->at.attempt, "%s", s->job->attempt && *s->job->attempt ? s->job->attempt : "-");
    return 0;
}

/* ---- training ---- */

static enum train_status finish(struct session *s)
{
    struct record done = { .type = RECORD_DONE, .step = s->config->train.steps, .active_ns = clock_ns() - s->started_ns };
    memcpy(done.sha256, s->at.result, sizeof done.sha256);
    memcpy(done.text, s->no_weights.msg, sizeof done.text);
    return record_emit(s->job->sink, &done) == 0 ? TRAIN_DONE : TRAIN_STOPPED;
}

/* An evaluation in training, after step i.  Its weights are put aside if they are the best so far; of equals the first stay. */
static int validate(struct session *s, int64_t i)
{
    double score = -1;
    int rc = evaluate(s, LAB_VALID, s->config->eval.every_sequences, i, &score, NULL);
    if (rc != 0 || s->config->eval.select == SELECT_LAST || (s->at.best_step && score <= s->at.best)) return rc;
    s->at.best = score;
    s->at.best_step = i;
    model_keep(&s->model);
    return 0;
}

/* One step: its loss, or nan with the reason in err. */
static double step(struct session *s, int64_t i)
{
    if (data_train(&s->data, i, s->err) != 0) return NAN;
    double loss = model_step(&s->model, &s->data.batch, (uint32_t)i);
    if (!isfinite(loss)) return lab_fail(s->err, "loss is %s at step %lld", isnan(loss) ? "nan" : "inf", (long long)i + 1), NAN;
    double norm = optim_step(&s->model, &s->optim, i);
    if (!isfinite(norm)) return lab_fail(s->err, "gradient is %s at step %lld", isnan(norm) ? "nan" : "inf", (long long)i + 1), NAN;
    return loss;
}

static enum train_status train_loop(struct session *s)
{
    const struct train_options *t = &s->config->train;
    const struct eval_options *e = &s->config->eval;
    struct ckpt_mark *at = &s->at;
    while (at->step < t->steps) {
        double loss = step(s, at->step);
        if (isnan(loss)) return TRAIN_FAILED;
        int64_t i = ++at->step;
        at->window += loss;
        at->in_window++;
        if (i % t->log_every == 0 || i == t->steps) {
            if (emit_metric(s, "loss", i, at->window / (double)at->in_window) != 0) return TRAIN_STOPPED;
            at->window = 0, at->in_window = 0;
        }
        if (emit_progress(s, i, loss) != 0) return TRAIN_STOPPED;
        /* An evaluation is part of its step: a checkpoint knows no half of one. */
        int rc = e->every > 0 && i % e->every == 0 ? validate(s, i) : 0;
        if (rc != 0) return rc < 0 ? TRAIN_FAILED : TRAIN_STOPPED;
        if (stopping(s)) return stopped(s);
        if (is_checkpoint_due(s) && checkpoint(s) != 0) return TRAIN_STOPPED;
    }
    return TRAIN_DONE;
}

/* What the run is from here on: the weights that eval.select says.  A checkpoint that is saved later comes to the same. */
static enum train_status settle(struct session *s)
{
    struct record r = { .type = RECORD_SELECTED, .step = s->at.best_step, .value = s->at.best };
    if (s->config->eval.select == SELECT_LAST) return TRAIN_DONE;
    model_take(&s->model);
    return record_emit(s->job->sink, &r) == 0 ? TRAIN_DONE : TRAIN_STOPPED;
}

/* What was learned counts without its weights: only later evaluations want them. */
static enum train_status save(struct session *s)
{
    struct record r = { .type = RECORD_ARTIFACT, .name = "weights", .step = s->config->train.steps };
    if (!s->job->weights) return TRAIN_DONE;
    if (ckpt_write(s->job->weights, &s->model, s->config->json, r.sha256, &r.n_tok, &s->no_weights) != 0) return TRAIN_DONE;
    snprintf(r.text, sizeof r.text, "%.511s", s->job->weights);
    return record_emit(s->job->sink, &r) == 0 ? TRAIN_DONE : TRAIN_STOPPED;
}

static enum train_status test_and_finish(struct session *s)
{
    struct ckpt_mark trained = s->at;
    int rc = evaluate(s, LAB_TEST, s->config->eval.sequences, s->config->train.steps, NULL, s->job->stop);
    if (rc == 0) return finish(s);
    s->at = trained;                 /* stopped: whoever goes on from there evaluates all of it again */
    return rc < 0 ? TRAIN_FAILED : stopped(s);
}

enum train_status train_run(const struct train_job *job, struct lab_err *err)
{
    struct session s;
    if (session_init(&s, job, 1, err) != 0) return TRAIN_FAILED;
    enum train_status status = resume(&s) == 0 ? train_loop(&s) : TRAIN_FAILED;
    if (status == TRAIN_DONE) status = settle(&s);
    if (status == TRAIN_DONE) status = save(&s);
    if (status == TRAIN_DONE && emit_untrained(&s) != 0) status = TRAIN_STOPPED;
    if (status == TRAIN_DONE) status = test_and_finish(&s);
    session_release(&s);
    return status;
}

enum train_status train_evaluate(const struct train_job *job, struct lab_err *err)
{
    struct session s;
    if (session_init(&s, job, 0, err) != 0) return TRAIN_FAILED;
    enum train_status status = ckpt_read(job->weights, &s.model, job->config->json, err) == 0 ? test_and_finish(&s) : TRAIN_FAILED;
    session_release(&s);
    return status;
}
