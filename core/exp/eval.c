/* eval -- see eval.h. */
#include "exp/eval.h"
#include <stdlib.h>
#include <string.h>

static const char *const split_name[] = { "train", "valid", "test" };

struct slice { int64_t n, exact, tokens, right; };
struct tally {                       /* of one length */
    int64_t exact, tokens, right, trained;
    double loss;                     /* nat, summed over the trained targets */
    int64_t *scored, *correct;       /* [T] by position */
    struct slice *slice;             /* [max_slice] */
    int32_t *guess;                  /* [T] of one sequence */
    int32_t *strayed;                /* [B] free running */
    uint8_t *has_strayed;            /* [B] */
};

static int32_t best(const lab_real *logits, int V)
{
    int32_t at = 0;
    for (int v = 1; v < V; v++) if (logits[v] > logits[at]) at = v;
    return at;
}

static int32_t guess_at(const struct model *m, const struct data *d, int i, int t)
{
    return best(m->logits + ((size_t)i * d->batch.T + t) * m->setup.vocab_out, m->setup.vocab_out);
}

static void count_one(struct tally *t, const struct model *m, const struct data *d, int i)
{
    const struct lab_task *task = d->config->task;
    size_t row = (size_t)i * d->batch.T;
    const int32_t *target = d->target + row;
    struct slice one = { 1, 1, 0, 0 };
    for (int p = 0; p < d->batch.T; p++) {
        t->guess[p] = guess_at(m, d, i, p);
        t->trained += target[p] >= 0;
        if (target[p] < 0 || !d->counted[row + p]) continue;
        int right = t->guess[p] == target[p];
        t->scored[p]++, one.tokens++;
        t->correct[p] += right, one.right += right;
        one.exact &= right;
    }
    if (task->score) {
        struct lab_example e = { .in = d->token + row, .target = d->target + row, .weight = d->weight + row, .counted = d->counted + row,
                                 .pos = d->pos + (size_t)i * d->batch.pos_stride, .prompt = d->prompt[i], .slice = d->slice[i] };
        one.exact = task->score(d->config->task_self, d->length[i], &e, t->guess) == 1;
    }
    struct slice *slice = &t->slice[d->slice[i]];
    slice->n++, slice->exact += one.exact, slice->tokens += one.tokens, slice->right += one.right;
    t->exact += one.exact, t->tokens += one.tokens, t->right += one.right;
}

int eval_emit(const struct record_sink *sink, char *result, const struct record *r)
{
    if (result) record_sum(result, r);
    return record_emit(sink, r);
}

/* Writes the guess of place t of sequence i behind it, if the model answers there; 1: the tape says something else now. */
static int write_guess(const struct model *m, struct data *d, int i, int t)
{
    int32_t *next = d->token + (size_t)i * d->batch.T + t + 1, before = *next;
    if (t < d->prompt[i] - 1 || !d->prompt[i] || d->target[(size_t)i * d->batch.T + t] < 0) return 0;
    return (*next = guess_at(m, d, i, t)) != before;
}

/* Greedy decoding.  The forward over the right answer is what the model reads until its first mistake: only from there on is a
 * sequence decoded, place by place, with the keys and values that are known.  Positions are those of the tape: all of them are laid
 * out before anything is written. */
static void continue_alone(struct model *m, struct data *d, struct tally *tally)
{
    const struct model_batch *b = &d->batch;
    int32_t *strayed = tally->strayed;   /* the sequences that have left the right answer */
    int n = 0, end = 0;              /* end: behind the last place that is answered at */
    model_forward(m, b, 0, 0);
    for (int i = 0; i < b->B; i++) tally->has_strayed[i] = 0;
    for (int i = 0; i < b->B * b->T; i++) if (b->target[i] >= 0 && i % b->T >= end) end = i % b->T + 1;
    for (int t = 0; t < end; t++) {
        if (n) model_decode(m, b, strayed, n, t);
        for (int i = 0; i < b->B && t + 1 < b->T; i++)
            if (write_guess(m, d, i, t) && !tally->has_strayed[i]) tally->has_strayed[i] = 1, strayed[n++] = i;
    }
}

struct told { const struct eval_request *request; const char *split; const struct record_sink *sink; char *result; };

static struct record record_of(const struct told *q, enum record_type type)
{
    struct record r = { .type = type, .step = q->request->step, .length = q->request->length };
    snprintf(r.split, sizeof r.split, "%s", q->split);
    return r;
}

static int report_slices(const struct tally *t, int n, const struct told *q)
{
    for (int i = 0; i < n; i++) {
        const struct slice *s = &t->slice[i];
        if (!s->n || !s->tokens) continue;
        struct record r = record_of(q, RECORD_EVAL_SLICE);
        r.position = i, r.n = s->n, r.n_exact = s->exact, r.n_tok = s->tokens, r.n_tok_ok = s->right;
        if (eval_emit(q->sink, q->result, &r) != 0) return -1;
    }
    return 0;
}

static int report(const struct tally *t, const struct data *d, int T, const char *data_sha256, const struct told *q)
{
    struct record r = record_of(q, RECORD_EVAL);
    int slices = d->config->task_info.max_slice;
    r.n = q->request->sequences, r.n_exact = t->exact, r.n_tok = t->tokens, r.n_tok_ok = t->right;
    r.position = d->config->eval.seed;
    r.value = t->trained ? t->loss / (double)t->trained : 0;
    snprintf(r.sha256, sizeof r.sha256, "%s", data_sha256);
    if (eval_emit(q->sink, q->result, &r) != 0) return -1;
    if (slices > 1 && strcmp(q->split, "longer") && report_slices(t, slices, q) != 0) return -1;         /* a curve has none */
    for (int p = 0; p < T && q->request->by_position; p++) {
        if (!t->scored[p]) continue;
        struct record at = record_of(q, RECORD_EVAL_POSITION);
        at.position = p, at.n_tok = t->scored[p], at.n_tok_ok = t->correct[p];
        if (eval_emit(q->sink, q->result, &at) != 0) return -1;
    }
    return 0;
}

static const char *split_of(const struct eval_request *q, const struct run_config *c)
{
    if (q->free_running) return "free";
    return q->split == LAB_VALID && config_is_longer(c, q->length) ? "longer" : split_name[q->split];
}

int eval_run(struct model *m, struct data *d, const struct eval_request *q, const struct record_sink *sink, char *result,
             const volatile sig_atomic_t *stop, struct lab_err *err)
{
    int T = config_tape(d->config, q->length), slices = d->config->task_info.max_slice, rc = -1;
    int most = m->setup.infer_tokens / T > 0 ? m->setup.infer_tokens / T : 1;
    struct tally t = { 0 };
    struct hash data_hash;
    char hex[HASH_HEX];
    t.scored = mem_alloc((size_t)T * sizeof *t.scored, err);
    t.correct = mem_alloc((size_t)T * sizeof *t.correct, err);
    t.slice = mem_alloc((size_t)slices * sizeof *t.slice, err);
    t.guess = mem_alloc((size_t)T * sizeof *t.guess, err);
    t.strayed = mem_alloc((size_t)most * sizeof *t.strayed, err);
    t.has_strayed = mem_alloc((size_t)most, err);
    if (!t.scored || !t.correct || !t.slice || !t.guess || !t.strayed || !t.has_strayed) goto out;
    hash_init(&data_hash);
    for (int64_t first = 0; first < q->sequences; first += most) {
        int n = (int)(q->sequences - first < most ? q->sequences - first : most);
        int64_t before = t.trained;
        if (data_eval(d, q->split, q->length, first, n, &data_hash, err) != 0) goto out;
        d->batch.weight = NULL;      /* losses are compared per token, whatever the task weighs in training */
        if (q->free_running) continue_alone(m, d, &t);
        else model_forward(m, &d->batch, 0, 0);
        for (int i = 0; i < n; i++) count_one(&t, m, d, i);
        t.loss += model_loss(m, &d->batch) * (double)(t.trained - before);
        if (stop && *stop) { rc = 1; goto out; }
    }
    hash_end(&data_hash, hex);
    rc = report(&t, d, T, hex, &(struct told){ q, split_of(q, d->config), sink, result }) != 0;
out:
    free(t.scored);
    free(t.correct);
    free(t.slice);
    free(t.guess);
    free(t.strayed);
    free(t.has_strayed);
    return rc;
}
