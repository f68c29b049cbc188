/* bench -- see bench.h. */
#include "exp/bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "exp/data.h"
#include "nn/gemm.h"
#include "nn/peak.h"

typedef lab_real real;
enum { MIN_ROUNDS = 3, MAX_ROUNDS = 500, A_TURN = 8, MAX_SAMPLES = MAX_ROUNDS * A_TURN };
#define BLOCK_NS 25e6                /* runs in a row: long for the clock, short beside what disturbs */
#define TURN_NS  500e6               /* a row's samples in a row, before the next row's turn */

/* Waiting for a core is not counted, whoever holds it. */
static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* ---- the floor ---- */

struct linear { int out, in; };

static int linears(const struct model_setup *s, struct linear *out)
{
    const struct model_options *o = &s->options;
    int n = 0, d = o->d_model, f = o->d_ff;
    for (int l = 0; l < o->layers; l++) {
        out[n++] = (struct linear){ 3 * d, d };
        out[n++] = (struct linear){ d, d };
        out[n++] = (struct linear){ o->activation == MODEL_SWIGLU ? 2 * f : f, d };
        out[n++] = (struct linear){ d, f };
    }
    out[n++] = (struct linear){ s->vocab_out, d };
    return n;
}

/* y [N,out] = x w^T up to the head; then from the head down dw [out,in] += dy^T x and dx [N,in] = dy w. */
int bench_products(const struct model_setup *s, int tokens, struct bench_product *p)
{
    struct linear list[4 * s->options.layers + 1];
    int n = linears(s, list), k = 0;
    for (int i = 0; i < n; i++) p[k++] = (struct bench_product){ 0, 1, tokens, list[i].out, list[i].in, 0, NULL, NULL, NULL };
    for (int i = n - 1; i >= 0; i--) {
        p[k++] = (struct bench_product){ 1, 0, list[i].out, list[i].in, tokens, 1, NULL, NULL, NULL };
        p[k++] = (struct bench_product){ 0, 0, tokens, list[i].in, list[i].out, 0, NULL, NULL, NULL };
    }
    return k;
}

struct floor {
    struct arena arena;
    struct bench_product *whole, *chunk, *rest;      /* of the batch; of a chunk of it; of the last, shorter one */
    int n, chunks, tokens_left;
};

/* Inputs of each layer and its weights have memory of their own, as in the model; outputs and gradients share theirs. */
static void place(struct floor *f, const struct model_setup *s, size_t tokens)
{
    struct linear list[4 * s->options.layers + 1];
    int n = linears(s, list), widest = 0;
    for (int i = 0; i < n; i++) widest = list[i].out > widest ? list[i].out : list[i].in > widest ? list[i].in : widest;
#define TAKE(count) arena_take(&f->arena, (count) * sizeof(real))
    real *y = TAKE(tokens * (size_t)widest), *dy = TAKE(tokens * (size_t)widest), *dx = TAKE(tokens * (size_t)widest);
    for (int i = 0; i < n; i++) {
        size_t size = (size_t)list[i].out * (size_t)list[i].in;
        real *x = TAKE(tokens * (size_t)list[i].in), *w = TAKE(size), *dw = TAKE(size);
        for (size_t j = 0; w && j < size; j++) w[j] = (real)0.01 * (real)(j % 7);
        for (size_t j = 0; x && j < tokens * (size_t)list[i].in; j++) x[j] = (real)0.01 * (real)(j % 5);
        struct bench_product *set[] = { f->whole, f->chunk, f->rest };
        for (int k = 0; x && k < 3; k++) {
            struct bench_product *forward = &set[k][i], *back = &set[k][n + 2 * (n - 1 - i)];
            forward->a = x, forward->b = w, forward->c = y;
            back[0].a = dy, back[0].b = x, back[0].c = dw;
            back[1].a = dy, back[1].b = w, back[1].c = dx;
        }
    }
#undef TAKE
    for (size_t j = 0; dy && j < tokens * (size_t)widest; j++) dy[j] = (real)1e-6 * (real)(j % 3);
}

static void floor_release(struct floor *f)
{
    free(f->whole);
    arena_free(&f->arena);
}

static int floor_init(struct floor *f, const struct model *m, int B, int T, struct lab_err *err)
{
    const struct model_setup *s = &m->setup;
    int chunk = model_chunk(m, T);
    *f = (struct floor){ .n = 3 * (4 * s->options.layers + 1), .chunks = B / chunk, .tokens_left = B % chunk * T };
    f->whole = mem_alloc(3 * (size_t)f->n * sizeof *f->whole, err);
    if (!f->whole) return -1;
    f->chunk = f->whole + f->n, f->rest = f->chunk + f->n;
    bench_products(s, B * T, f->whole);
    bench_products(s, chunk * T, f->chunk);
    bench_products(s, f->tokens_left, f->rest);
    place(f, s, (size_t)B * (size_t)T);
    if (arena_commit(&f->arena, err) != 0) return floor_release(f), -1;
    place(f, s, (size_t)B * (size_t)T);
    return 0;
}

static void multiply(const struct bench_product *p, int n)
{
    for (; n > 0; n--, p++)
        gemm(p->ta, p->tb, p->m, p->n, p->k, 1, p->a, p->ta ? p->m : p->k, p->b, p->tb ? p->k : p->n, p->beta, p->c, p->n);
}

/* ---- what is measured, by turns ---- */

struct subject {                     /* a row while it is measured */
    struct bench_row *row;
    struct run_config config;        /* the row's, at its longest length: shares what that one owns */
    struct model model;
    struct data data;
    struct floor floor;
    struct optim_options optim;
    int64_t step;
    int block[3];                    /* of each kind: runs in a row, about BLOCK_NS together */
    int samples;                     /* of step and floor, taken so far */
    double *step_ns, *floor_ns;      /* [MAX_SAMPLES] for one run */
    double *chunked_ns, *turn_ns;    /* [MAX_ROUNDS] for one run, and for a step: the median of a turn */
    int64_t part[TIMES_PARTS];
    struct lab_err *err;
};
enum kind { STEP, FLOOR, CHUNKED };

static int run_step(struct subject *s)
{
    times_to(TIMES_DATA);
    if (data_train(&s->data, s->step, s->err) != 0) return -1;
    times_to(TIMES_REST);
    double loss = model_step(&s->model, &s->data.batch, (uint32_t)s->step);
    times_to(TIMES_OPTIMISER);
    double norm = optim_step(&s->model, &s->optim, s->step++);
    times_to(TIMES_REST);
    if (isfinite(loss) && isfinite(norm)) return 0;
    return lab_fail(s->err, "the loss stopped being finite at step %lld; lower train.lr", (long long)s->step);
}
static int run_floor(struct subject *s)
{
    multiply(s->floor.whole, s->floor.n);
    return 0;
}
static int run_chunked(struct subject *s)
{
    for (int i = 0; i < s->floor.chunks; i++) multiply(s->floor.chunk, s->floor.n);
    if (s->floor.tokens_left) multiply(s->floor.rest, s->floor.n);
    return 0;
}
static int (*const run_kind[])(struct subject *) = { run_step, run_floor, run_chunked };

/* Nanoseconds of one run, over a block of them; before a block of several, one brings its own data into the cache. */
static int measure(struct subject *s, enum kind kind, double *ns)
{
    if (s->block[kind] > 1 && run_kind[kind](s) != 0) return -1;
    double start = cpu_ns();
    for (int i = 0; i < s->block[kind]; i++) if (run_kind[kind](s) != 0) return -1;
    *ns = (cpu_ns() - start) / s->block[kind];
    return 0;
}

static int subject_init(struct subject *s, struct bench_row *row, struct lab_err *err)
{
    const struct train_options *t = &row->config->train;
    struct model_setup setup;
    *s = (struct subject){ .row = row, .config = *row->config, .block = { 1, 1, 1 }, .err = err };
    s->config.train.length.lo = s->config.train.length.hi;
    s->optim = (struct optim_options){ t->lr, t->beta1, t->beta2, t->eps, t->weight_decay, t->clip, t->warmup, t->schedule, t->steps };
    config_model_setup(&s->config, &setup);
    setup.infer_tokens = 0;
    int T = config_tape(&s->config, s->config.train.length.hi);
    if (!(s->step_ns = mem_alloc(2 * (MAX_SAMPLES + MAX_ROUNDS) * sizeof(double), err))) return -1;
    s->floor_ns = s->step_ns + MAX_SAMPLES, s->chunked_ns = s->floor_ns + MAX_SAMPLES, s->turn_ns = s->chunked_ns + MAX_ROUNDS;
    if (data_init(&s->data, &s->config, t->batch * T, err) != 0) goto no_data;
    if (model_init(&s->model, &setup, err) != 0) goto no_model;
    if (floor_init(&s->floor, &s->model, t->batch, T, err) != 0) goto no_floor;
    row->tokens = t->batch * T;
    row->flops = 0;
    for (int i = 0; i < s->floor.n; i++) {
        const struct bench_product *p = &s->floor.whole[i];
        row->flops += 2.0 * p->m * p->n * p->k;
    }
    return 0;
no_floor:
    model_release(&s->model);
no_model:
    data_release(&s->data);
no_data:
    free(s->step_ns);
    return -1;
}

static void subject_release(struct subject *s)
{
    floor_release(&s->floor);
    model_release(&s->model);
    data_release(&s->data);
    free(s->step_ns);
}

/* How many runs make a block. */
static int calibrate(struct subject *s)
{
    for (int kind = 0; kind < 3; kind++) {
        double ns;
        if (measure(s, kind, &ns) != 0) return -1;
        s->block[kind] = ns > 0 && BLOCK_NS / ns > 1 ? (int)(BLOCK_NS / ns) : 1;
    }
    return 0;
}

/* Steps with the timers on; a fraction of the others, since a share needs less care than a ratio. */
static int measure_parts(struct subject *s)
{
    int n = s->block[STEP] / 4 + 1;
    times_start();
    for (int i = 0; i < n; i++) if (run_step(s) != 0) return times_stop(s->part), -1;
    times_stop(s->part);
    return 0;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}
/* Of x, or of x / y. */
static double median(const double *x, const double *y, int n)
{
    double copy[MAX_SAMPLES];
    for (int i = 0; i < n; i++) copy[i] = y ? x[i] / y[i] : x[i];
    qsort(copy, (size_t)n, sizeof *copy, by_size);
    return (copy[(n - 1) / 2] + copy[n / 2]) / 2;
}

/* Step and floor in pairs for a while; their parts and the floor in chunks, once. */
static int take_turn(struct subject *s, int round, double ns)
{
    int first = s->samples;
    double end = cpu_ns() + ns;
    do {
        if (measure(s, STEP, &s->step_ns[s->samples]) != 0 || measure(s, FLOOR, &s->floor_ns[s->samples]) != 0) return -1;
    } while (++s->samples - first < A_TURN && cpu_ns() < end);
    s->turn_ns[round] = median(s->step_ns + first, NULL, s->samples - first);
    return measure(s, CHUNKED, &s->chunked_ns[round]) == 0 ? measure_parts(s) : -1;
}

static void conclude(const struct subject *all, const struct subject *s, int rounds)
{
    struct bench_row *row = s->row;
    int64_t total = 0;
    row->samples = s->samples;
    row->step_ms = median(s->step_ns, NULL, s->samples) / 1e6;
    row->floor_ms = median(s->floor_ns, NULL, s->samples) / 1e6;
    row->floor_chunked_ms = median(s->chunked_ns, NULL, rounds) / 1e6;
    row->ratio = median(s->step_ns, s->floor_ns, s->samples);
    row->to_baseline = row->baseline >= 0 ? median(s->turn_ns, all[row->baseline].turn_ns, rounds) : NAN;
    for (int i = 0; i < TIMES_PARTS; i++) total += s->part[i];
    for (int i = 0; i < TIMES_PARTS; i++) row->part_ms[i] = row->step_ms * (double)s->part[i] / (double)total;
}

/* The best of the rounds: a peak. */
static void measure_peak(double *gflops)
{
    double start = cpu_ns(), operations = peak_run(100000), ns = cpu_ns() - start;
    if (ns > 0 && operations / ns > *gflops) *gflops = operations / ns;
}

static int measure_all(struct subject *s, int n, double seconds, double *peak, int *rounds)
{
    int64_t end = clock_ns() + (int64_t)(seconds * n * 1e9);
    double turn = fmin(TURN_NS, seconds / MIN_ROUNDS * 1e9);
    for (int i = 0; i < n; i++) if (calibrate(&s[i]) != 0) return -1;
    for (*rounds = 0; *rounds < MAX_ROUNDS && (*rounds < MIN_ROUNDS || clock_ns() < end); (*rounds)++) {
        measure_peak(peak);
        for (int i = 0; i < n; i++) if (take_turn(&s[i], *rounds, turn) != 0) return -1;
    }
    return 0;
}

int bench_run(struct bench_row *row, int n, double seconds, double *peak_gflops, struct lab_err *err)
{
    int ready = 0, rounds = 0, rc = -1;
    struct subject *s = mem_alloc((size_t)n * sizeof *s, err);
    if (!s) return -1;
    gemm_one_thread();
    *peak_gflops = 0;
    for (; ready < n; ready++) if (subject_init(&s[ready], &row[ready], err) != 0) goto out;
    if (measure_all(s, n, seconds, peak_gflops, &rounds) != 0) goto out;
    for (int i = 0; i < n; i++) conclude(s, &s[i], rounds);
    rc = 0;
out:
    while (ready-- > 0) subject_release(&s[ready]);
    free(s);
    return rc;
}

int bench_same_model(const struct run_config *a, const struct run_config *b)
{
    const struct model_options *x = &a->model, *y = &b->model;
    int ta = config_tape(a, a->train.length.hi), tb = config_tape(b, b->train.length.hi);
    return x->d_model == y->d_model && x->heads == y->heads && x->layers == y->layers && x->d_ff == y->d_ff && x->norm == y->norm &&
           x->norm_type == y->norm_type && x->activation == y->activation && x->causal == y->causal && x->tied == y->tied &&
           (x->dropout > 0) == (y->dropout > 0) && a->train.batch == b->train.batch && ta == tb &&
           a->task_info.vocab_in == b->task_info.vocab_in && a->task_info.vocab_out == b->task_info.vocab_out;
}
