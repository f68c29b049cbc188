/* config -- see config.h.  Everything that could stop a run is found here, before anything starts. */
#include "exp/config.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/str.h"
#include "nn/attn.h"

const struct lab_option config_model_table[] = {
    LAB_INT(struct model_options, d_model, "64", 1, 65536, "width of the residual stream; a multiple of heads"),
    LAB_INT(struct model_options, heads, "4", 1, 1024, "attention heads, each of d_model / heads"),
    LAB_INT(struct model_options, layers, "2", 1, 1000, "attention and feed-forward pairs"),
    LAB_INT(struct model_options, d_ff, "256", 1, 262144, "width of the feed-forward part"),
    LAB_ENUM(struct model_options, norm, "post", "post|pre", "normalise after each branch, or before it and once at the end"),
    LAB_ENUM(struct model_options, norm_type, "layernorm", "layernorm|rmsnorm", "with mean and bias, or neither"),
    LAB_ENUM(struct model_options, activation, "relu", "relu|gelu|swiglu", "of the feed-forward part; gelu is the exact one"),
    LAB_BOOL(struct model_options, causal, "no", "each position sees itself and what is before it, not after"),
    LAB_BOOL(struct model_options, tied, "no", "the head's weight is the token embedding, without bias"),
    LAB_REAL(struct model_options, dropout, "0", 0, 0.99, "probability, on embeddings, attention weights and both branches"),
    LAB_ENUM(struct model_options, embed_scale, "sqrt", "sqrt|one", "token embedding times sqrt(d_model), or as it is"),
    LAB_REAL(struct model_options, embed_std, "0", 0, 100, "start of the token embedding, standard deviation; 0: d_model^-0.5"),
    LAB_OPTIONS_END };
const struct lab_option config_train_table[] = {
    OPTION_RANGE_ROW(struct train_options, length, "8", 1, 1000000, "of the training sequences; a range is drawn anew each step"),
    LAB_ENUM(struct train_options, length_law, "uniform", "uniform|reverse_exponential|growing",
             "of a range: equally likely, in proportion to tau^length, or the longest growing from the shortest on"),
    LAB_ENUM(struct train_options, per, "batch", "batch|example", "draw one length for all sequences of a step, or pad each to the longest"),
    LAB_REAL(struct train_options, tau, "0.9", 1e-3, 1e3, "of length_law = reverse_exponential"),
    LAB_INT(struct train_options, grow_every, "100", 1, 100000000, "steps until the longest grows by one, with length_law = growing"),
    LAB_INT(struct train_options, steps, "2000", 1, 100000000, "optimiser steps"),
    LAB_INT(struct train_options, batch, "64", 1, 1000000, "sequences a step"),
    LAB_REAL(struct train_options, lr, "1e-3", 0, 100, "learning rate"),
    LAB_REAL(struct train_options, beta1, "0.9", 0, 0.999999, "decay of AdamW's mean of gradients"),
    LAB_REAL(struct train_options, beta2, "0.999", 0, 0.999999, "decay of AdamW's mean of squares"),
    LAB_REAL(struct train_options, eps, "1e-8", 1e-30, 1, "added to AdamW's root of squares"),
    LAB_REAL(struct train_options, weight_decay, "0", 0, 10, "AdamW's, on matrices; not on biases and norms"),
    LAB_REAL(struct train_options, clip, "0", 0, 1e9, "largest norm of the gradient; 0: no clipping"),
    LAB_INT(struct train_options, warmup, "0", 0, 100000000, "steps over which the learning rate rises"),
    LAB_ENUM(struct train_options, schedule, "constant", "constant|cosine|linear", "of the learning rate after the warm-up; the last two fall to 0"),
    LAB_INT(struct train_options, log_every, "10", 1, 100000000, "steps to a point of the loss curve (its mean over them)"),
    LAB_OPTIONS_END };
const struct lab_option config_eval_table[] = {
    OPTION_LIST_ROW(struct eval_options, lengths, NULL, 1, 1000000, "to evaluate at; without it the longest training length"),
    LAB_INT(struct eval_options, sequences, "1000", 1, 100000000, "at the end, for each length"),
    LAB_INT(struct eval_options, free_sequences, "100", 0, 100000000,
            "of those, how many a causal model also continues alone from the prompt, if the task has one"),
    LAB_INT(struct eval_options, every, "250", 0, 100000000, "steps between evaluations during training; 0: none"),
    LAB_INT(struct eval_options, every_sequences, "200", 1, 100000000, "of those, for each length"),
    LAB_INT(struct eval_options, seed, "1", 0, 2147483647, "of the evaluation data, one set for all runs"),
    LAB_ENUM(struct eval_options, select, "last", "last|best_valid|best_longer",
             "weights to keep: the last, or those with the best token accuracy in validation at trained or at longer lengths; never by test"),
    LAB_OPTIONS_END };
const struct lab_option config_limits_table[] = {
    LAB_REAL(struct limits_options, checkpoint, "60", 0, 1e9, "seconds between checkpoints; 0: only when stopped by a signal"),
    LAB_INT(struct limits_options, memory, "4096", 0, 1000000000, "MB of address space of a run; 0: no limit"),
    LAB_REAL(struct limits_options, time, "0", 0, 1e9, "seconds that a run may take at a stretch; 0: no limit"),
    LAB_OPTIONS_END };

enum { STEP_TOKENS = 1 << 27 };      /* of a batch: its examples alone are two gigabytes; indices have 32 bits */

/* ---- where entries go ---- */

struct build {
    struct run_config *c;
    const struct conf_entry *entry;
    size_t n;
    const struct registry *registry;
    struct lab_err *err;
};

static const struct conf_entry *find(const struct build *b, const char *section, const char *key)
{
    for (size_t i = 0; i < b->n; i++)
        if (!strcmp(b->entry[i].key, key) && !strcmp(b->entry[i].section, section)) return &b->entry[i];
    return NULL;
}

/* The entry to blame: [section] key if it was given, else what chose the encoder (or task). */
static const struct conf_entry *blame(const struct build *b, const char *section, const char *key, const char *otherwise)
{
    const struct conf_entry *e = find(b, section, key);
    return e ? e : find(b, "run", otherwise);
}

/* Splits "encoder.t5" into its kind and its name. */
static const char *plugin_section(const char *section, enum plugin_kind *kind)
{
    static const char *const prefix[] = { [PLUGIN_ENCODER] = "encoder.", [PLUGIN_TASK] = "task." };
    for (int k = PLUGIN_ENCODER; k <= PLUGIN_TASK; k++)
        if (!strncmp(section, prefix[k], strlen(prefix[k]))) return *kind = (enum plugin_kind)k, section + strlen(prefix[k]);
    return NULL;
}

static const struct lab_option *table_of(const struct plugin_entry *p) { return p->encoder ? p->encoder->options : p->task->options; }
static size_t self_size(const struct plugin_entry *p) { return p->encoder ? p->encoder->self_size : p->task->self_size; }

static int unknown_key(const struct build *b, const struct conf_entry *e, const struct lab_option *table)
{
    const char *near = option_nearest(table, e->key);
    if (near) return conf_fail(e, b->err, "unknown key '%.60s' in [%s]: did you mean '%s'?", e->key, e->section, near);
    if (!table || !table->name) return conf_fail(e, b->err, "unknown key '%.60s': [%s] has no options", e->key, e->section);
    return conf_fail(e, b->err, "unknown key '%.60s' in [%s]; `lab info %s` lists its keys", e->key, e->section,
                     strchr(e->section, '.') ? strchr(e->section, '.') + 1 : e->section);
}

static int set(const struct build *b, const struct conf_entry *e, const struct lab_option *table, void *self)
{
    struct lab_err why;
    const struct lab_option *row = option_find(table, e->key);
    if (!row) return unknown_key(b, e, table);
    return option_set(row, self, e->value, &why) == 0 ? 0 : conf_fail(e, b->err, "%s", why.msg);
}

/* The options of an encoder or task that this run does not use are checked all the same. */
static int check_unused(const struct build *b, const struct conf_entry *e, const struct plugin_entry *p)
{
    void *scratch = mem_alloc(self_size(p), b->err);
    int rc = scratch ? set(b, e, table_of(p), scratch) : -1;
    free(scratch);
    return rc;
}

static int set_plugin_option(const struct build *b, const struct conf_entry *e, enum plugin_kind kind, const char *name)
{
    struct lab_err why;
    struct run_config *c = b->c;
    const struct plugin_entry *p = registry_find(b->registry, kind, name, &why);
    if (!p) return conf_fail(e, b->err, "section [%s]: %s", e->section, why.msg);
    if (kind == PLUGIN_ENCODER && p->encoder == c->encoder) return set(b, e, table_of(p), c->encoder_self);
    if (kind == PLUGIN_TASK && p->task == c->task) return set(b, e, table_of(p), c->task_self);
    return check_unused(b, e, p);
}

int config_check_section(const struct conf_entry *e, const struct registry *registry, struct lab_err *err)
{
    static const char *const known[] = { "experiment", "sweep", "train", "eval", "model", "positions", "limits", "paper", NULL };
    enum plugin_kind kind;
    struct lab_err why;
    const char *name = plugin_section(e->section, &kind);
    if (name) return registry_find(registry, kind, name, &why) ? 0 : conf_fail(e, err, "section [%s]: %s", e->section, why.msg);
    for (int i = 0; known[i]; i++) if (!strcmp(e->section, known[i])) return 0;
    const char *near = str_nearest(e->section, known);
    return conf_fail(e, err, "unknown section [%s]%s%s%s; known: experiment, sweep, train, eval, model, positions, limits, paper, encoder.NAME, task.NAME",
                     e->section, near ? ": did you mean [" : "", near ? near : "", near ? "]?" : "");
}

static int place(const struct build *b, const struct conf_entry *e)
{
    enum plugin_kind kind;
    const char *name = plugin_section(e->section, &kind);
    if (name) return set_plugin_option(b, e, kind, name);
    if (!strcmp(e->section, "model")) return set(b, e, config_model_table, &b->c->model);
    if (!strcmp(e->section, "train")) return set(b, e, config_train_table, &b->c->train);
    if (!strcmp(e->section, "eval")) return set(b, e, config_eval_table, &b->c->eval);
    if (!strcmp(e->section, "limits")) return set(b, e, config_limits_table, &b->c->limits);
    if (!strcmp(e->section, "positions")) return set(b, e, config_positions_table, &b->c->positions);
    return strcmp(e->section, "run") ? config_check_section(e, b->registry, b->err) : 0;      /* the rest is sweep's, or the answer's */
}

/* ---- the run's encoder and task ---- */

static int choose(const struct build *b, enum plugin_kind kind, const char *key, const struct plugin_entry **p, void **self)
{
    struct lab_err why;
    const struct conf_entry *e = find(b, "run", key);
    if (!e) return lab_fail(b->err, "no %s was chosen; set %s in [sweep]", key, key);
    *p = registry_find(b->registry, kind, e->value, &why);
    if (!*p) return conf_fail(e, b->err, "%s", why.msg);
    *self = mem_alloc(self_size(*p), b->err);
    if (!*self) return -1;
    return option_defaults(table_of(*p), *self, NULL, &why) == 0 ? 0 : conf_fail(e, b->err, "%s %s: %s", key, (*p)->name, why.msg);
}

static int choose_both(const struct build *b)
{
    struct run_config *c = b->c;
    const struct plugin_entry *encoder, *task;
    if (choose(b, PLUGIN_ENCODER, "encoder", &encoder, &c->encoder_self) != 0) return -1;
    c->encoder = encoder->encoder;
    c->encoder_file = &b->registry->file[encoder->file];
    if (choose(b, PLUGIN_TASK, "task", &task, &c->task_self) != 0) return -1;
    c->task = task->task;
    c->task_file = &b->registry->file[task->file];
    return 0;
}

static int set_seed(const struct build *b)
{
    const struct conf_entry *e = find(b, "run", "seed");
    if (e && !str_to_int(e->value, 0, 2147483647, &b->c->seed))
        return conf_fail(e, b->err, "seed = '%.60s': expected a whole number, 0..2147483647", e->value);
    return 0;
}

/* A key without default must be given. */
static int check_given(const struct build *b, const struct lab_option *table, const char *kind, const char *name)
{
    char section[96];
    snprintf(section, sizeof section, "%s.%.63s", kind, name);
    for (; table && table->name; table++)
        if (!table->def && !find(b, section, table->name))
            return conf_fail(find(b, "run", kind), b->err, "%s %s needs %s: set it in [%s]", kind, name, table->name, section);
    return 0;
}

/* ---- what must fit together ---- */

static int check_length(const struct build *b, const char *section, const char *key, int length)
{
    const struct run_config *c = b->c;
    if (length >= c->task_info.min_len && length <= c->task_info.max_len) return 0;
    return conf_fail(blame(b, section, key, "task"), b->err, "%s.%s: length %d is outside task %s's range %d..%d", section, key, length,
                     c->task->name, (int)c->task_info.min_len, (int)c->task_info.max_len);
}

static int check_model(const struct build *b)
{
    const struct run_config *c = b->c;
    const struct model_options *m = &c->model;
    if (m->d_model % m->heads)
        return conf_fail(blame(b, "model", find(b, "model", "heads") ? "heads" : "d_model", "encoder"), b->err,
                         "model.d_model = %d is not a multiple of model.heads = %d; change one of them", (int)m->d_model, (int)m->heads);
    if (!m->causal && (c->encoder->flags & LAB_E_CAUSAL_ONLY))
        return conf_fail(blame(b, "model", "causal", "encoder"), b->err,
                         "encoder %s is defined for causal models only; set model.causal = yes", c->encoder->name);
    if (!m->causal && (c->task->flags & LAB_TASK_CAUSAL))
        return conf_fail(blame(b, "model", "causal", "task"), b->err,
                         "task %s predicts the next token, which a bidirectional model sees; set model.causal = yes", c->task->name);
    if (m->tied && c->task_info.vocab_in != c->task_info.vocab_out)
        return conf_fail(blame(b, "model", "tied", "task"), b->err,
                         "model.tied = yes needs one vocabulary, but task %s reads %d tokens and predicts %d", c->task->name,
                         (int)c->task_info.vocab_in, (int)c->task_info.vocab_out);
    return 0;
}

static int init_task(const struct build *b)
{
    struct lab_err why;
    struct run_config *c = b->c;
    c->task_info = (struct lab_task_info){ .size = sizeof c->task_info };
    if (c->task->init(c->task_self, &c->task_info, &why) != 0)
        return conf_fail(find(b, "run", "task"), b->err, "task %s: %s", c->task->name, why.msg);
    c->task_ready = 1;
    if (c->task_info.max_slice < 1) c->task_info.max_slice = 1;      /* a task without slices has one */
    const struct lab_task_info *i = &c->task_info;
    if (i->vocab_in < 1 || i->vocab_out < 1 || i->min_len < 1 || i->max_len < i->min_len || i->max_slice < 1 || !(i->chance >= 0 && i->chance <= 1))
        return conf_fail(find(b, "run", "task"), b->err,
                         "task %s describes itself with vocabularies %d, %d, lengths %d..%d, %d slices and chance %g: the plugin is at fault",
                         c->task->name, (int)i->vocab_in, (int)i->vocab_out, (int)i->min_len, (int)i->max_len, (int)i->max_slice, i->chance);
    return 0;
}

static int check_lengths(const struct build *b)
{
    struct run_config *c = b->c;
    if (c->eval.lengths.n == 0) c->eval.lengths = (struct option_list){ 1, { c->train.length.hi } };
    if (check_length(b, "train", "length", c->train.length.lo) != 0 || check_length(b, "train", "length", c->train.length.hi) != 0) return -1;
    for (int i = 0; i < c->eval.lengths.n; i++) if (check_length(b, "eval", "lengths", c->eval.lengths.v[i]) != 0) return -1;
    return 0;
}

/* What selects must be measured in training. */
static int check_select(const struct build *b)
{
    static const char *const rule[] = { "last", "best_valid", "best_longer" }, *const kind[] = { "", "a trained", "a longer" };
    const struct run_config *c = b->c;
    const struct eval_options *e = &c->eval;
    int has = e->select == SELECT_LAST;
    for (int i = 0; i < e->lengths.n; i++) has |= config_selects(c, e->lengths.v[i]);
    if (!has)
        return conf_fail(blame(b, "eval", "select", "task"), b->err, "eval.select = %s needs %s length in eval.lengths; training is at %d..%d",
                         rule[e->select], kind[e->select], (int)c->train.length.lo, (int)c->train.length.hi);
    if (e->select != SELECT_LAST && (e->every == 0 || e->every > c->train.steps))
        return conf_fail(blame(b, "eval", "select", "task"), b->err, "eval.select = %s chooses between the evaluations during training, and there is "
                         "none: set eval.every to 1..%d", rule[e->select], (int)c->train.steps);
    return 0;
}

/* Raises *longest to the longest tape of these lengths. */
static int measure_tapes(const struct build *b, int lo, int hi, int *longest)
{
    for (int length = lo; length <= hi; length++) {
        int T = config_tape(b->c, length);
        if (T < 1 || T > STEP_TOKENS)
            return conf_fail(find(b, "run", "task"), b->err, "task %s: an example of length %d has %d tokens, expected 1..%d: the plugin is at fault",
                             b->c->task->name, length, T, STEP_TOKENS);
        if (T > *longest) *longest = T;
    }
    return 0;
}

static int fill_dims(const struct build *b)
{
    struct run_config *c = b->c;
    const struct model_options *m = &c->model;
    c->dims = (struct lab_dims){ .size = sizeof c->dims, .n_layer = m->layers, .n_head = m->heads, .d_model = m->d_model,
                                 .d_head = m->d_model / m->heads, .causal = m->causal };
    if (measure_tapes(b, c->train.length.lo, c->train.length.hi, &c->dims.train_len) != 0) return -1;
    c->dims.max_len = c->dims.train_len;
    for (int i = 0; i < c->eval.lengths.n; i++)
        if (measure_tapes(b, c->eval.lengths.v[i], c->eval.lengths.v[i], &c->dims.max_len) != 0) return -1;
    c->dims.max_pos = c->task_info.max_pos > c->dims.max_len ? c->task_info.max_pos : c->dims.max_len;
    if (c->positions.source != POSITIONS_SEQUENTIAL && c->positions.max > c->dims.max_pos) c->dims.max_pos = c->positions.max;
    if ((int64_t)c->train.batch * c->dims.train_len > STEP_TOKENS)
        return conf_fail(blame(b, "train", "batch", "task"), b->err, "train.batch = %d sequences of %d tokens are more than a step takes "
                         "(the limit is %d tokens); lower train.batch or train.length", (int)c->train.batch, (int)c->dims.train_len, STEP_TOKENS);
    return 0;
}

/* Is parameter i fit for use?  name: of those before it. */
static int judge_param(const struct build *b, int i, const struct lab_param *p, const char *const *name, struct lab_err *why)
{
    if (i == ATTN_PARAMS) return lab_fail(why, "more than %d parameters", ATTN_PARAMS);
    if (!p->name || !str_is_name(p->name)) return lab_fail(why, "parameter %d has no name of 1 to 63 of a-z, 0-9 and _", i);
    if (p->ndim < 1 || p->ndim > 4) return lab_fail(why, "parameter %s has %d dimensions, expected 1 to 4", p->name, (int)p->ndim);
    for (int k = 0; k < p->ndim; k++)
        if (p->dim[k] < 1) return lab_fail(why, "parameter %s has a dimension of %d", p->name, (int)p->dim[k]);
    if (p->init == LAB_INIT_CUSTOM && !b->c->encoder->param_init) return lab_fail(why, "parameter %s wants param_init, which is missing", p->name);
    for (int k = 0; k < i; k++) if (!strcmp(name[k], p->name)) return lab_fail(why, "two parameters are named %s", p->name);
    return 0;
}

/* The source must have room for the longest sequence it is asked for, and a task that writes its own ids leaves it nothing to do. */
static int check_positions(const struct build *b)
{
    const struct run_config *c = b->c;
    const struct positions_options *o = &c->positions;
    int longest = o->eval ? c->dims.max_len : c->dims.train_len;
    if (o->source == POSITIONS_SEQUENTIAL) return 0;
    if (c->task->flags & LAB_TASK_POSITIONS)
        return conf_fail(blame(b, "positions", "source", "task"), b->err,
                         "task %s gives its own position ids; leave positions.source at sequential", c->task->name);
    if (o->max < longest)
        return conf_fail(blame(b, "positions", "max", "task"), b->err,
                         "positions.max = %d has no room for sequences of %d positions: set positions.max = %d or more%s", (int)o->max, longest,
                         longest, longest > c->dims.train_len ? ", or positions.eval = no" : "");
    return 0;
}

/* An encoder's parameters: well-formed, of different names, and of one shape however long the evaluation is. */
static int check_params(const struct build *b)
{
    const struct run_config *c = b->c;
    const struct lab_encoder *e = c->encoder;
    const char *name[ATTN_PARAMS];
    struct lab_dims longer = c->dims;
    struct lab_err why;
    longer.max_len = c->dims.max_len * 2;
    longer.max_pos = c->dims.max_pos * 2;
    for (int i = 0, more = 1; e->param && more; i++) {
        struct lab_param p = { 0 }, q = { 0 };
        more = e->param(c->encoder_self, &c->dims, i, &p);
        int same = more == e->param(c->encoder_self, &longer, i, &q) && p.ndim == q.ndim && !memcmp(p.dim, q.dim, sizeof p.dim);
        if (!same) lab_fail(&why, "parameter %d depends on the evaluation lengths", i);
        if (!same || (more && judge_param(b, i, &p, name, &why) != 0))
            return conf_fail(find(b, "run", "encoder"), b->err, "encoder %s: %s: the plugin is at fault", e->name, why.msg);
        if (more) name[i] = p.name;
    }
    return 0;
}

static int init_encoder(const struct build *b)
{
    struct lab_err why;
    struct run_config *c = b->c;
    if (fill_dims(b) != 0 || check_positions(b) != 0) return -1;
    if (c->encoder->init && c->encoder->init(c->encoder_self, &c->dims, &why) != 0)
        return conf_fail(find(b, "run", "encoder"), b->err, "encoder %s: %s", c->encoder->name, why.msg);
    c->encoder_ready = 1;
    return check_params(b);
}

/* ---- identity ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct lab_option *const *)a)->name, (*(const struct lab_option *const *)b)->name);
}

/* {"a":1,...}: every option of the table, sorted, but the one named `without`. */
static void options_json(struct str *out, const struct lab_option *table, const void *self, const char *without)
{
    const struct lab_option *row[256];
    size_t n = 0;
    for (; table && table->name && n < sizeof row / sizeof *row; table++) row[n++] = table;
    qsort(row, n, sizeof *row, by_name);
    str_add(out, "{");
    for (size_t i = 0, first = 1; i < n; i++) {
        if (without && !strcmp(row[i]->name, without)) continue;
        str_printf(out, "%s\"%s\":", first ? "" : ",", row[i]->name);
        option_print_json(out, row[i], self);
        first = 0;
    }
    str_add(out, "}");
}

static void section_settings(struct str *out, const char *section, const struct lab_option *table, const void *self)
{
    str_printf(out, "[%s]\n", section);
    for (; table && table->name; table++) {
        str_printf(out, "%s = ", table->name);
        option_print(out, table, self);
        str_add(out, "\n");
    }
}

/* All that the selected weights depend on beside the training: the rule, and the evaluations that it looks at. */
static void select_json(struct str *out, const struct run_config *c)
{
    const struct eval_options *e = &c->eval;
    str_add(out, ",\"select\":{\"by\":");
    option_print_json(out, option_find(config_eval_table, "select"), e);
    str_printf(out, ",\"every\":%d,\"lengths\":[", (int)e->every);
    for (int i = 0, n = 0; i < e->lengths.n; i++)
        if (config_selects(c, e->lengths.v[i])) str_printf(out, "%s%d", n++ ? "," : "", (int)e->lengths.v[i]);
    str_printf(out, "],\"seed\":%d,\"sequences\":%d}", (int)e->seed, (int)e->every_sequences);
}

static void hash_text(const struct str *s, char hex[HASH_HEX]) { hash_bytes(str_text(s), s->len, hex); }

static int identify(struct run_config *c, struct lab_err *err)
{
    struct str json = { 0 }, part = { 0 }, settings = { 0 };
    char section[96];
    str_printf(&json, "{\"encoder\":{\"name\":\"%s\",\"options\":", c->encoder->name);
    options_json(&json, c->encoder->options, c->encoder_self, NULL);
    str_add(&json, "},\"model\":");
    size_t model = json.len;
    options_json(&json, config_model_table, &c->model, NULL);
    if (c->positions.source != POSITIONS_SEQUENTIAL) {               /* only then, so that older keys stay what they were */
        str_add(&json, ",\"positions\":");
        options_json(&json, config_positions_table, &c->positions, NULL);
    }
    str_addn(&part, str_text(&json) + model, json.len - model);
    str_printf(&json, ",\"seed\":%lld", (long long)c->seed);
    size_t select = json.len;
    if (c->eval.select != SELECT_LAST) select_json(&json, c);        /* likewise */
    str_addn(&part, str_text(&json) + select, json.len - select);
    str_add(&json, ",\"task\":");
    size_t task = json.len;
    str_printf(&json, "{\"name\":\"%s\",\"options\":", c->task->name);
    options_json(&json, c->task->options, c->task_self, NULL);
    str_printf(&json, ",\"version\":%d}", (int)c->task_info.version);
    hash_bytes(str_text(&json) + task, json.len - task, c->task_key);
    str_add(&json, ",\"train\":");
    size_t train = json.len;
    options_json(&json, config_train_table, &c->train, "log_every");
    str_addn(&part, str_text(&json) + train, json.len - train);
    str_add(&json, "}");
    hash_text(&json, c->key);
    hash_text(&part, c->variant);
    str_printf(&settings, "[run]\nencoder = %s\ntask = %s\nseed = %lld\n", c->encoder->name, c->task->name, (long long)c->seed);
    section_settings(&settings, "model", config_model_table, &c->model);
    section_settings(&settings, "train", config_train_table, &c->train);
    section_settings(&settings, "eval", config_eval_table, &c->eval);
    section_settings(&settings, "limits", config_limits_table, &c->limits);
    section_settings(&settings, "positions", config_positions_table, &c->positions);
    snprintf(section, sizeof section, "encoder.%.63s", c->encoder->name);
    section_settings(&settings, section, c->encoder->options, c->encoder_self);
    snprintf(section, sizeof section, "task.%.63s", c->task->name);
    section_settings(&settings, section, c->task->options, c->task_self);
    int failed = json.failed || part.failed || settings.failed;
    c->json = json.text;
    c->settings = settings.text;
    str_free(&part);
    return failed ? lab_fail(err, "out of memory for the configuration of a run") : 0;
}

/* ---- the whole ---- */

int config_build(struct run_config *c, const struct conf_entry *entry, size_t n, const struct registry *registry, struct lab_err *err)
{
    struct build b = { c, entry, n, registry, err };
    *c = (struct run_config){ .seed = 0 };
    if (option_defaults(config_model_table, &c->model, NULL, err) != 0 || option_defaults(config_train_table, &c->train, NULL, err) != 0 ||
        option_defaults(config_eval_table, &c->eval, NULL, err) != 0 || option_defaults(config_limits_table, &c->limits, NULL, err) != 0 ||
        option_defaults(config_positions_table, &c->positions, NULL, err) != 0 || choose_both(&b) != 0 || set_seed(&b) != 0) goto fail;
    for (size_t i = 0; i < n; i++) if (place(&b, &entry[i]) != 0) goto fail;
    if (check_given(&b, c->encoder->options, "encoder", c->encoder->name) != 0 || check_given(&b, c->task->options, "task", c->task->name) != 0 ||
        init_task(&b) != 0 || check_lengths(&b) != 0 || check_select(&b) != 0 || check_model(&b) != 0 || init_encoder(&b) != 0 ||
        identify(c, err) != 0) goto fail;
    return 0;
fail:
    config_free(c);
    return -1;
}

void config_free(struct run_config *c)
{
    if (c->encoder_ready && c->encoder->fini) c->encoder->fini(c->encoder_self);
    if (c->task_ready && c->task->fini) c->task->fini(c->task_self);
    free(c->encoder_self);
    free(c->task_self);
    free(c->json);
    free(c->settings);
    *c = (struct run_config){ 0 };
}

int config_tape(const struct run_config *c, int length) { return c->task->tape ? c->task->tape(c->task_self, length) : length; }

int config_is_longer(const struct run_config *c, int length) { return length > c->train.length.hi; }

int config_selects(const struct run_config *c, int length)
{
    return c->eval.select == (config_is_longer(c, length) ? SELECT_BEST_LONGER : SELECT_BEST_VALID);
}

int config_continues(const struct run_config *c)
{
    return c->model.causal && (c->task->flags & LAB_TASK_CAUSAL) && c->task_info.vocab_out <= c->task_info.vocab_in;
}

void config_model_setup(const struct run_config *c, struct model_setup *out)
{
    enum { EVAL_TOKENS = 512 };      /* an evaluation batch that stays in the cache */
    *out = (struct model_setup){
        .options = c->model, .vocab_in = c->task_info.vocab_in, .vocab_out = c->task_info.vocab_out, .encoder = c->encoder,
        .encoder_self = c->encoder_self, .dims = c->dims, .train_batch = c->train.batch, .train_len = c->dims.train_len,
        .keeps_best = c->eval.select != SELECT_LAST, .decodes = config_continues(c) && c->eval.free_sequences > 0,
        .infer_tokens = c->dims.max_len > EVAL_TOKENS ? c->dims.max_len : EVAL_TOKENS, .infer_len = c->dims.max_len, .seed = (uint64_t)c->seed };
}
