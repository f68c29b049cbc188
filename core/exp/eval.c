/* eval -- see eval.h. */
#include "exp/eval.h"
#include <stdlib.h>

static const char *const split_name[] = { "train", "valid", "test" };

struct tally {                       /* of one length */
    int64_t exact, tokens, right;
    double loss;                     /* nat, summed over tokens */
    int64_t *scored, *correct;       /* [T] by position */
    int32_t *guess;                  /* [T] of one sequence */
};

static int32_t best(const lab_real *logits, int V)
{
    int32_t at = 0;
    for (int v = 1; v < V; v++) if (logits[v] > logits[at]) at = v;
    return at;
}

static void count(struct tally *t, const struct model *m, const struct data *d, int length)
{
    const struct model_batch *b = &d->batch;
    const struct lab_task *task = d->config->task;
    for (int i = 0; i < b->B; i++) {
        const int32_t *target = b->target + (size_t)i * b->T;
        int all = 1;
        for (int p = 0; p < b->T; p++) {
            t->guess[p] = best(m->logits + ((size_t)i * b->T + p) * m->setup.vocab_out, m->setup.vocab_out);
            if (target[p] < 0) continue;
            int right = t->guess[p] == target[p];
            t->scored[p]++, t->tokens++;
            t->correct[p] += right, t->right += right;
            all &= right;
        }
        if (task->score) {
            struct lab_example e = { .in = d->token + (size_t)i * b->T, .target = d->target + (size_t)i * b->T,
                                     .weight = d->weight + (size_t)i * b->T, .pos = d->pos + (size_t)i * b->pos_stride, .slice = d->slice[i] };
            all = task->score(d->config->task_self, length, &e, t->guess) == 1;
        }
        t->exact += all;
    }
}

int eval_emit(const struct record_sink *sink, struct hash *result, const struct record *r)
{
    unsigned char frame[RECORD_FRAME_MAX];
    if (result) hash_add(result, frame, record_encode(r, frame));
    return record_emit(sink, r);
}

static int report(const struct tally *t, int T, const struct eval_request *q, const char *data_sha256, const struct record_sink *sink, struct hash *result)
{
    struct record r = { .type = RECORD_EVAL, .step = q->step, .length = q->length, .n = q->sequences, .n_exact = t->exact,
                        .n_tok = t->tokens, .n_tok_ok = t->right, .value = t->tokens ? t->loss / (double)t->tokens : 0 };
    snprintf(r.split, sizeof r.split, "%s", split_name[q->split]);
    snprintf(r.sha256, sizeof r.sha256, "%s", data_sha256);
    if (eval_emit(sink, result, &r) != 0) return -1;
    for (int p = 0; p < T && q->by_position; p++) {
        if (!t->scored[p]) continue;
        struct record at = { .type = RECORD_EVAL_POSITION, .step = q->step, .length = q->length, .position = p, .n_tok = t->scored[p], .n_tok_ok = t->correct[p] };
        snprintf(at.split, sizeof at.split, "%s", split_name[q->split]);
        if (eval_emit(sink, result, &at) != 0) return -1;
    }
    return 0;
}

int eval_run(struct model *m, struct data *d, const struct eval_request *q, const struct record_sink *sink, struct hash *result,
             const volatile sig_atomic_t *stop, struct lab_err *err)
{
    int T = config_tape(d->config, q->length), rc = -1;
    int most = m->setup.infer_tokens / T > 0 ? m->setup.infer_tokens / T : 1;
    struct tally t = { 0 };
    struct hash data_hash;
    char hex[HASH_HEX];
    t.scored = mem_alloc((size_t)T * sizeof *t.scored, err);
    t.correct = mem_alloc((size_t)T * sizeof *t.correct, err);
    t.guess = mem_alloc((size_t)T * sizeof *t.guess, err);
    if (!t.scored || !t.correct || !t.guess) goto out;
    hash_init(&data_hash);
    for (int64_t first = 0; first < q->sequences; first += most) {
        int n = (int)(q->sequences - first < most ? q->sequences - first : most);
        int64_t before = t.tokens;
        if (data_eval(d, q->split, q->length, first, n, &data_hash, err) != 0) goto out;
        d->batch.weight = NULL;      /* losses are compared per token, whatever the task weighs in training */
        model_forward(m, &d->batch, 0, 0);
        count(&t, m, d, q->length);
        t.loss += model_loss(m, &d->batch) * (double)(t.tokens - before);
        if (stop && *stop) { rc = 1; goto out; }
    }
    hash_end(&data_hash, hex);
    rc = report(&t, T, q, hex, sink, result) != 0;
out:
    free(t.scored);
    free(t.correct);
    free(t.guess);
    return rc;
}
