/* inspect_model -- whole models under inspection: what shuffling the input changes, and what a trained run attends to. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/inspect.h"
#include "base/mem.h"
#include "base/rng.h"
#include "exp/ckpt.h"
#include "exp/data.h"
#include "exp/eval.h"

/* ---- a model and its data, for inference alone ---- */

struct bench { struct conf conf; struct run_config config; struct model model; struct data data; };

static int bench_make(struct model *m, struct data *d, const struct run_config *config, struct lab_err *err)
{
    struct model_setup setup;
    config_model_setup(config, &setup);
    setup.train_batch = 0;
    if (data_init(d, config, setup.infer_tokens, err) != 0) return -1;
    if (model_init(m, &setup, err) == 0) return 0;
    data_release(d);
    return -1;
}

int inspect_build(struct run_config *config, const struct conf *conf, const char *whose, const char *set, const struct registry *registry,
                  struct lab_err *err)
{
    struct conf_entry *entry = mem_alloc((conf->n + 1) * sizeof *entry, err);
    for (size_t i = 0; entry && i < conf->n; i++) {          /* they came by conf_override, but nobody typed them */
        entry[i] = conf->entry[i];
        if (strncmp(entry[i].section, set, strlen(set)) != 0) entry[i].file = whose;
    }
    int rc = entry ? config_build(config, entry, conf->n, registry, err) : -1;
    free(entry);
    return rc;
}

/* ---- does shuffling the input only shuffle the output? ---- */

enum { SEQUENCES = 4, SEED = 1 };

/* From settings, with two keys changed. */
static int open_bench(struct bench *b, const char *settings, int causal, int length, const struct registry *registry, struct lab_err *err)
{
    char lengths[48];
    snprintf(lengths, sizeof lengths, "eval.lengths=%d", length);
    if (conf_read_text(&b->conf, "settings", settings, strlen(settings), err) != 0) return -1;
    if (conf_override(&b->conf, causal ? "model.causal=yes" : "model.causal=no", err) != 0 || conf_override(&b->conf, lengths, err) != 0 ||
        config_build(&b->config, b->conf.entry, b->conf.n, registry, err) != 0) return conf_free(&b->conf), -1;
    if (bench_make(&b->model, &b->data, &b->config, err) == 0) return 0;
    config_free(&b->config);
    conf_free(&b->conf);
    return -1;
}

static void close_bench(struct bench *b)
{
    model_release(&b->model);
    data_release(&b->data);
    config_free(&b->config);
    conf_free(&b->conf);
}

/* Parameters of the encoder that start at zero, or nearly, would hide what it can do: draw them all. */
static void enliven(struct model *m)
{
    const struct model_setup *s = &m->setup;
    struct lab_rng r = lab_rng_at(SEED, 0x11fe, 0, 0);
    for (int i = 0; i < m->n_param; i++) {
        struct model_param *p = &m->param[i];
        struct lab_param q = { 0 };
        if (p->encoder_index < 0 || !s->encoder->param(s->encoder_self, &s->dims, p->encoder_index, &q) || q.flags & LAB_P_FROZEN) continue;
        for (size_t k = 0; k < p->size; k++) p->value[k] += (lab_real)rng_normal(&r);
    }
}

static void draw_order(int *order, int T)
{
    struct lab_rng r = lab_rng_at(SEED, 0x5f1e, (uint32_t)T, 0);
    for (int t = 0; t < T; t++) order[t] = t;
    for (int t = T - 1; t > 0; t--) {                        /* Sattolo's: nobody stays where he was */
        int other = (int)lab_rng_below(&r, (uint32_t)t), swap = order[t];
        order[t] = order[other], order[other] = swap;
    }
}

static double difference(const lab_real *a, const lab_real *b, int d)
{
    double most = 0;
    for (int i = 0; i < d; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* shuffled: largest difference between outputs of shuffled tokens and shuffled outputs.  twice: between the outputs for one
 * token in two places. */
struct order_seen { double shuffled, twice; };

static int measure_order(struct bench *b, int length, struct order_seen *seen, struct lab_err *err)
{
    struct model *m = &b->model;
    int T = config_tape(&b->config, length), d = m->setup.options.d_model, n = m->setup.infer_tokens / T;
    int B = n < SEQUENCES ? n : SEQUENCES, *order = mem_alloc((size_t)T * sizeof *order, err), rc = -1;
    size_t all = (size_t)B * T;
    int32_t *token = mem_alloc(all * sizeof *token, err);
    lab_real *hidden = mem_alloc(all * d * sizeof *hidden, err);
    if (!order || !token || !hidden || data_eval(&b->data, LAB_TEST, length, 0, B, NULL, err) != 0) goto out;
    *seen = (struct order_seen){ 0, 0 };
    draw_order(order, T);
    for (int i = 0; i < B && T > 3; i++) b->data.token[i * T + 3] = b->data.token[i * T];
    memcpy(token, b->data.token, all * sizeof *token);
    model_forward(m, &b->data.batch, 0, 0);
    memcpy(hidden, m->hidden, all * d * sizeof *hidden);
    for (int i = 0; i < B && T > 3; i++) seen->twice = fmax(seen->twice, difference(hidden + (size_t)i * T * d, hidden + ((size_t)i * T + 3) * d, d));
    for (size_t i = 0; i < all; i++) b->data.token[i] = token[i / T * T + (size_t)order[i % T]];
    model_forward(m, &b->data.batch, 0, 0);
    for (size_t i = 0; i < all; i++)
        seen->shuffled = fmax(seen->shuffled, difference(m->hidden + i * d, hidden + (i / T * T + (size_t)order[i % T]) * d, d));
    rc = 0;
out:
    free(order), free(token), free(hidden);
    return rc;
}

int inspect_equivariance(struct inspect *in, const struct inspect_subject *subject, size_t n, const struct registry *registry, int length,
                         struct lab_err *err)
{
    static const char *const column[] = { "encoder", "bidirectional", "causal", "one token, two places" };
    struct inspect_part *p = inspect_add(in, "equivariance", "largest difference between outputs of shuffled input and shuffled outputs");
    double *map = mem_alloc(n * 2 * sizeof *map, err), most = 0;
    if (!map) return -1;
    inspect_columns(p, 4, column);
    for (size_t i = 0; i < n; i++) {
        double twice = NAN;
        int refused = 0;
        inspect_word(p, "%s", subject[i].name);
        for (int causal = 0; causal < 2; causal++) {
            struct bench b = { .conf = { 0 } };
            struct order_seen seen = { NAN, NAN };
            int opened = open_bench(&b, subject[i].settings, causal, length, registry, err) == 0;
            if (opened) enliven(&b.model);
            int rc = opened ? measure_order(&b, length, &seen, err) : 0;
            if (opened) close_bench(&b);
            refused += !opened;
            if (rc != 0 || refused == 2) return free(map), -1;           /* one kind of model may be none of its business, not both */
            inspect_number(in, p, "%.1e", map[2 * i + causal] = seen.shuffled);
            if (!causal) twice = seen.twice;
            most = fmax(most, isnan(seen.shuffled) ? 0 : seen.shuffled);
        }
        inspect_number(in, p, "%.1e", twice);
    }
    inspect_subject(in, "Does a model see order?  The tokens of %d examples of length %d are shuffled, positions stay. A model that sees no order "
                    "gives the same outputs, shuffled alike.", SEQUENCES, length);
    inspect_note(in, p, "1e-6 is rounding: no order is seen. A causal model sees some without any encoder: its mask tells how much came before. "
                 "One token, two places: how far apart the outputs for one token at 0 and at 3 are (bidirectional). "
                 "Weights are those of the start, parameters of encoders drawn at random.");
    struct chart *c = &p->chart;
    p->drawn = 1;
    chart_init(c, CHART_GRID);
    chart_set(c, &c->title, "outputs of shuffled input against shuffled outputs: largest difference");
    chart_size(c, (int)n, 2);
    if (!c->failed) {
        c->hi = most > 0 ? most : 1;
        chart_set(c, &c->column[0], "bidirectional"), chart_set(c, &c->column[1], "causal");
        for (size_t i = 0; i < n; i++) chart_set(c, &c->row[i], subject[i].name);
        memcpy(c->value, map, n * 2 * sizeof *map);
    }
    free(map);
    return in->failed || c->failed ? lab_fail(err, "out of memory while looking at shuffled input") : 0;
}

/* ---- finding a run ---- */

/* A run's configuration as the keys of an experiment file, from its canonical JSON.  -> keeps numbers as they are spelled. */
static const char keys_sql[] =
    "WITH run AS (SELECT config FROM runs WHERE run_key = ?1), part(section, place) AS ("
    " SELECT 'model', '$.model' UNION ALL SELECT 'train', '$.train' UNION ALL SELECT 'positions', '$.positions'"
    " UNION ALL SELECT 'encoder.' || json_extract(config, '$.encoder.name'), '$.encoder.options' FROM run"
    " UNION ALL SELECT 'task.' || json_extract(config, '$.task.name'), '$.task.options' FROM run)"
    "SELECT section, key, CASE type WHEN 'true' THEN 'yes' WHEN 'false' THEN 'no' WHEN 'text' THEN value"
    " WHEN 'array' THEN replace(trim(value, '[]'), ',', '..') ELSE config -> fullkey END"
    " FROM run, part, json_each(config, place)"
    " UNION ALL SELECT 'eval', CASE key WHEN 'by' THEN 'select' WHEN 'sequences' THEN 'every_sequences' ELSE key END,"
    " CASE type WHEN 'array' THEN trim(value, '[]') ELSE value END FROM run, json_each(config, '$.select')"
    " UNION ALL SELECT 'run', 'encoder', json_extract(config, '$.encoder.name') FROM run"
    " UNION ALL SELECT 'run', 'task', json_extract(config, '$.task.name') FROM run"
    " UNION ALL SELECT 'run', 'seed', json_extract(config, '$.seed') FROM run";

static const char find_sql[] =
    "SELECT run_key, state, encoder, task, seed, label FROM runs WHERE substr(run_key, 1, length(?1)) = ?1"
    " OR encoder || '/' || task || '/' || seed = ?1 ORDER BY state <> 'done', label";

struct finder { struct inspect_run *run; char key[HASH_HEX], state[32]; int n, done, trained; struct str others; struct lab_err *err; int failed; };

static const char *text_of(const struct store_value *v) { return v->type == STORE_TEXT ? v->text : ""; }

static int take_run(void *ctx, int n, const struct store_value *v)
{
    struct finder *f = ctx;
    (void)n;
    f->done += !strcmp(text_of(&v[1]), "done");
    if (f->n++ == 0) {
        snprintf(f->key, sizeof f->key, "%s", text_of(&v[0])), snprintf(f->state, sizeof f->state, "%s", text_of(&v[1]));
        struct str name = { 0 };
        str_printf(&name, "%s on %s, seed %lld%s%s", text_of(&v[2]), text_of(&v[3]), (long long)v[4].integer,
                   *text_of(&v[5]) ? ", " : "", text_of(&v[5]));
        f->run->name = name.text;            /* NULL: it does without one */
    }
    if (f->n <= 4) str_printf(&f->others, "%s%.16s%s%s%s", f->n > 1 ? ", " : "", text_of(&v[0]), *text_of(&v[5]) ? " (" : "",
                              text_of(&v[5]), *text_of(&v[5]) ? ")" : "");
    return 0;
}

static int choose_run(struct finder *f, struct store *store, const char *name, struct lab_err *err)
{
    const struct store_rows rows = { NULL, take_run, f };
    if (store_query(store, find_sql, &name, 1, 0, &rows, err) != 0) return -1;
    if (f->n == 0)
        return lab_fail(err, "no run '%.100s' in %s: give the start of a key, or ENCODER/TASK/SEED; lab query \"SELECT run_key, encoder, task, seed, label FROM runs\" lists them",
                        name, store_path(store));
    if (f->n > 1)
        return lab_fail(err, "'%.100s' is %d runs: give the start of a key: %s%s", name, f->n, str_text(&f->others), f->n > 4 ? ", ..." : "");
    if (!f->done) return lab_fail(err, "run %.16s (%s) is %s: it has no final weights to look into", f->key,
                                  f->run->name ? f->run->name : "", f->state);
    return 0;
}

static int take_key(void *ctx, int n, const struct store_value *v)
{
    struct finder *f = ctx;
    char number[32];
    struct str assignment = { 0 };
    (void)n;
    snprintf(number, sizeof number, "%lld", (long long)v[2].integer);
    str_printf(&assignment, "%s.%s=%s", text_of(&v[0]), text_of(&v[1]), v[2].type == STORE_INTEGER ? number : text_of(&v[2]));
    f->failed = assignment.failed ? lab_fail(f->err, "out of memory") : conf_override(&f->run->conf, str_text(&assignment), f->err);
    str_free(&assignment);
    return f->failed;
}

static int check_set(const char *const *set, int n, struct lab_err *err)
{
    for (int i = 0; i < n; i++)
        if (strncmp(set[i], "eval.", 5) != 0 || !strncmp(set[i], "eval.lengths", 12))
            return lab_fail(err, "--set %.80s: a run is what it is; only keys of [eval] matter here, and --length", set[i]);
    return 0;
}

/* The run as it was trained, built anew from what the database holds: with the same key, or it is not the same run. */
static int rebuild(struct finder *f, struct store *store, const char *whose, const struct registry *registry)
{
    struct inspect_run *run = f->run;
    struct run_config config;
    const char *key = f->key;
    const struct store_rows rows = { NULL, take_key, f };
    if (store_query(store, keys_sql, &key, 1, 0, &rows, f->err) != 0 || f->failed) return -1;
    if (inspect_build(&config, &run->conf, whose, "-", registry, f->err) != 0) return -1;
    int same = !strcmp(config.key, key);
    if (!same) lab_fail(f->err, "%s cannot be built anew: with the plugins that are here its settings are run %.16s", whose, config.key);
    snprintf(run->key, sizeof run->key, "%s", key);
    run->json = same ? mem_strdup(config.json, f->err) : NULL;
    f->trained = config.train.length.hi;
    config_free(&config);
    return run->json ? 0 : -1;
}

/* The same model for other evaluations; what selected its weights is past. */
static int prepare(struct finder *f, const char *whose, int64_t length, const char *const *set, int n_set, const struct registry *registry)
{
    struct inspect_run *run = f->run;
    char lengths[48];
    snprintf(lengths, sizeof lengths, "eval.lengths=%lld", (long long)(length ? length : f->trained));
    if (conf_override(&run->conf, "eval.select=last", f->err) != 0 || conf_override(&run->conf, lengths, f->err) != 0) return -1;
    for (int i = 0; i < n_set; i++) if (conf_override(&run->conf, set[i], f->err) != 0) return -1;
    return inspect_build(&run->config, &run->conf, whose, "eval", registry, f->err);
}

static int find_weights(struct inspect_run *run, const struct store *store, struct lab_err *err)
{
    const char *db = store_path(store), *slash = strrchr(db, '/');
    if (asprintf(&run->weights, "%.*sweights/%.16s.safetensors", slash ? (int)(slash - db + 1) : 0, db, run->key) < 0)
        return run->weights = NULL, lab_fail(err, "out of memory");
    if (access(run->weights, R_OK) == 0) return 0;
    return lab_fail(err, "the weights of run %.16s are gone (%s: %s): its results stay, but there is nothing to look into", run->key,
                    run->weights, strerror(errno));
}

int inspect_find(struct inspect_run *run, struct store *store, const char *name, int64_t length, const char *const *set, int n_set,
                 const struct registry *registry, struct lab_err *err)
{
    struct finder f = { .run = run, .err = err };
    char whose[32];
    *run = (struct inspect_run){ .name = NULL };
    int rc = check_set(set, n_set, err);
    if (rc == 0) rc = choose_run(&f, store, name, err);
    snprintf(whose, sizeof whose, "run %.16s", f.key);
    if (rc == 0) rc = rebuild(&f, store, whose, registry);
    if (rc == 0) rc = prepare(&f, whose, length, set, n_set, registry);
    if (rc == 0) rc = find_weights(run, store, err);
    if (rc == 0 && f.others.failed) rc = lab_fail(err, "out of memory");
    if (rc != 0) inspect_forget(run);
    str_free(&f.others);
    return rc;
}

void inspect_forget(struct inspect_run *run)
{
    if (run->config.encoder) config_free(&run->config);
    conf_free(&run->conf);
    free(run->json), free(run->name), free(run->weights);
    *run = (struct inspect_run){ .name = NULL };
}

/* ---- what a run attends to, and where it errs ---- */

struct counts { int64_t *n, *right; int T; };

static int take_count(void *ctx, const struct record *r)
{
    struct counts *c = ctx;
    if (r->type == RECORD_EVAL_POSITION && r->position < c->T) c->n[r->position] = r->n_tok, c->right[r->position] = r->n_tok_ok;
    return 0;
}

static int best(const lab_real *logits, int V)
{
    int at = 0;
    for (int v = 1; v < V; v++) if (logits[v] > logits[at]) at = v;
    return at;
}

/* Position by position: the example, the model's answer, and how often it is right there. */
static void show_positions(struct inspect *in, const struct inspect_run *run, const struct model *m, const struct data *d, const struct counts *c)
{
    static const char *const column[] = { "position", "input", "target", "answer", "right", "accuracy", "of" };
    struct inspect_part *p = inspect_add(in, "positions", "the example, and how often each position is right");
    int V = m->setup.vocab_out;
    p->drawn = 1;
    chart_init(&p->chart, CHART_LINES);
    chart_set(&p->chart, &p->chart.title, "how often each position is right");
    chart_set(&p->chart, &p->chart.x_name, "position"), chart_set(&p->chart, &p->chart.y_name, "accuracy");
    p->chart.y_lo = 0, p->chart.y_hi = 1;
    struct chart_series *line = chart_series(&p->chart, "accuracy", 0, CHART_MEAN);
    inspect_columns(p, 7, column);
    for (int t = 0; t < c->T; t++) {
        int target = d->target[t], answer = best(m->logits + (size_t)t * V, V);
        double rate = c->n[t] ? (double)c->right[t] / (double)c->n[t] : NAN;
        inspect_number(in, p, "%.0f", t), inspect_number(in, p, "%.0f", d->token[t]);
        inspect_number(in, p, "%.0f", target < 0 ? NAN : target), inspect_number(in, p, "%.0f", target < 0 ? NAN : answer);
        table_add(&p->table, target < 0 ? NULL : target == answer ? "yes" : "no");
        inspect_number(in, p, "%.3f", rate), inspect_number(in, p, "%.0f", c->n[t] ? (double)c->n[t] : NAN);
        chart_point(&p->chart, line, t, rate);
    }
    inspect_note(in, p, "accuracy: over %d sequences of the test set", (int)run->config.eval.sequences);
}

static void show_attention(struct inspect *in, const struct model *m, const lab_real *weights, int T)
{
    int L = m->setup.options.layers, H = m->setup.options.heads;
    struct lab_err ignored;
    double *map = mem_alloc((size_t)T * T * sizeof *map, &ignored);
    if (!map) { in->failed = 1; return; }
    for (int l = 0; l < L; l++)
        for (int h = 0; h < H; h++) {
            char name[48], title[64];
            for (int i = 0; i < T * T; i++) map[i] = (double)weights[((size_t)l * H + h) * T * T + i];
            snprintf(name, sizeof name, "attention.%d.%d", l, h);
            snprintf(title, sizeof title, "layer %d, head %d", l, h);
            struct inspect_part *p = inspect_map(in, name, title, T, T, 0, 1, map);
            p->beside = l + h > 0;
            chart_set(&p->chart, &p->chart.x_name, "key"), chart_set(&p->chart, &p->chart.y_name, "query");
            if (l == L - 1 && h == H - 1)
                inspect_note(in, p, "attention weights: down: query, across: key; shades from 0 (blank) to 1 (@); each row sums to 1");
        }
    free(map);
}

static int learns(const struct model *m)                     /* does its encoder? */
{
    for (int i = 0; i < m->n_param; i++) if (m->param[i].encoder_index >= 0) return 1;
    return 0;
}

int inspect_run(struct inspect *in, const struct inspect_run *run, int64_t example, struct lab_err *err)
{
    const struct run_config *c = &run->config;
    int length = c->eval.lengths.v[0], T = config_tape(c, length), rc = -1;
    size_t square = (size_t)c->model.layers * c->model.heads * T * T;
    struct model m;
    struct data d;
    struct counts counts = { .n = mem_alloc((size_t)T * sizeof(int64_t), err), .right = mem_alloc((size_t)T * sizeof(int64_t), err), .T = T };
    lab_real *weights = mem_alloc(square * sizeof *weights, err);
    if (!counts.n || !counts.right || !weights || bench_make(&m, &d, c, err) != 0) goto out;
    const struct record_sink sink = { take_count, &counts };
    const struct eval_request q = { LAB_TEST, length, c->eval.sequences, c->train.steps, 1, 0 };
    if (ckpt_read(run->weights, &m, run->json, err) != 0 || eval_run(&m, &d, &q, &sink, NULL, NULL, err) != 0) goto out_bench;
    if (data_eval(&d, LAB_TEST, length, example, 1, NULL, err) != 0) goto out_bench;
    m.attention = weights;
    model_forward(&m, &d.batch, 0, 0);
    m.attention = NULL;
    inspect_subject(in, "run %.16s: %s, trained at length %s%d; here length %d, example %lld of the test set.", run->key, run->name ? run->name : "",
                    c->train.length.lo < c->train.length.hi ? "up to " : "", (int)c->train.length.hi, length, (long long)example);
    show_positions(in, run, &m, &d, &counts);
    show_attention(in, &m, weights, T);
    rc = learns(&m) ? inspect_encoder(in, c, &m, T, err) : 0;
    if (rc == 0 && in->failed) rc = lab_fail(err, "out of memory while looking into run %.16s", run->key);
out_bench:
    model_release(&m);
    data_release(&d);
out:
    free(counts.n), free(counts.right), free(weights);
    return rc;
}
