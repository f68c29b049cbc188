/* cmd_inspect -- lab inspect: what an encoder does, whether models see order, what a trained run attends to.
 * As text, as JSON, or as a picture.  Trains nothing and changes no database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/inspect.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "exp/sweep.h"
#include "nn/gemm.h"

enum { LENGTH = 24, MOST_LENGTH = 512, MOST_MODEL = 1024,
       FAR = 128, NEAR = 5 };        /* positions beyond the length that are looked at, if the encoder goes so far */

struct wish {
    int64_t length, d_model, heads, example;                 /* the first three: 0 if not given, once they are checked */
    int equivariance, json;
    const char *db, *format, *path;
    struct cli_many set, plugin;
};

/* ---- a model around an encoder ---- */

static int set_number(struct conf *conf, const char *key, int64_t value, struct lab_err *err)
{
    char text[96];
    snprintf(text, sizeof text, "%s=%lld", key, (long long)value);
    return conf_override(conf, text, err);
}

static int set_word(struct conf *conf, const char *key, const char *value, struct lab_err *err)
{
    char text[128];
    snprintf(text, sizeof text, "%s=%.63s", key, value);
    return conf_override(conf, text, err);
}

static int set_sizes(struct conf *conf, const struct wish *wish, struct lab_err *err)
{
    if (wish->d_model && set_number(conf, "model.d_model", wish->d_model, err) != 0) return -1;
    if (wish->heads && set_number(conf, "model.heads", wish->heads, err) != 0) return -1;
    for (int i = 0; i < wish->set.n; i++) if (conf_override(conf, wish->set.value[i], err) != 0) return -1;
    return 0;
}

/* A run of this encoder that nobody will train.  The task is there because a run has one. */
static int describe(struct conf *conf, const struct lab_encoder *e, const struct wish *wish, int64_t length, int64_t farther, struct lab_err *err)
{
    char lengths[96];
    int inside = e->qk || e->bias || e->logits || e->value;  /* what works inside heads wants heads of some size */
    snprintf(lengths, sizeof lengths, farther ? "eval.lengths=%lld,%lld" : "eval.lengths=%lld", (long long)length, (long long)(length + farther));
    if (set_word(conf, "run.encoder", e->name, err) != 0 || set_word(conf, "run.task", "reverse", err) != 0 ||
        set_number(conf, "train.length", length, err) != 0 || conf_override(conf, lengths, err) != 0) return -1;
    if (!wish->equivariance && (set_number(conf, "model.layers", 1, err) != 0 || set_number(conf, "model.d_ff", 1, err) != 0 ||
                                set_number(conf, "model.d_model", inside ? 64 : 16, err) != 0)) return -1;
    if (e->flags & LAB_E_CAUSAL_ONLY && set_word(conf, "model.causal", "yes", err) != 0) return -1;
    return set_sizes(conf, wish, err);
}

static int build(struct conf *conf, struct run_config *config, const struct registry *registry, const struct lab_encoder *e, const struct wish *wish,
                 int64_t length, int64_t farther, struct lab_err *err)
{
    *conf = (struct conf){ .n = 0 };
    int rc = describe(conf, e, wish, length, farther, err);
    if (rc == 0) rc = inspect_build(config, conf, "arguments", "encoder.", registry, err);
    if (rc != 0) conf_free(conf);
    return rc;
}

/* ---- what is asked ---- */

static int inspect_one(struct inspect *in, const struct registry *registry, const struct lab_encoder *e, const struct wish *wish, struct lab_err *err)
{
    struct conf conf;
    struct run_config config;
    struct model_setup setup;
    struct model model;
    int64_t length = wish->length ? wish->length : LENGTH;
    if (build(&conf, &config, registry, e, wish, length, FAR, err) != 0 && build(&conf, &config, registry, e, wish, length, NEAR, err) != 0 &&
        build(&conf, &config, registry, e, wish, length, 0, err) != 0) return -1;
    config_model_setup(&config, &setup);
    setup.train_batch = 0;
    int rc = model_init(&model, &setup, err);
    if (rc == 0) {
        rc = inspect_encoder(in, &config, &model, (int)length, err);
        model_release(&model);
    }
    config_free(&config);
    conf_free(&conf);
    return rc;
}

struct subjects { struct inspect_subject *item; size_t n, cap; char **text; size_t n_text, cap_text; };

static void subjects_free(struct subjects *s)
{
    for (size_t i = 0; i < s->n_text; i++) free(s->text[i]);
    free(s->text), free(s->item);
}

static const char *keep(struct subjects *s, const char *text, struct lab_err *err)
{
    if (mem_grow(&s->text, &s->cap_text, s->n_text + 1, sizeof *s->text, err) != 0) return NULL;
    char *copy = s->text[s->n_text] = mem_strdup(text, err);
    s->n_text += copy != NULL;
    return copy;
}

static int add_subject(struct subjects *s, const char *name, const char *label, const char *settings, struct lab_err *err)
{
    char text[256];
    if (mem_grow(&s->item, &s->cap, s->n + 1, sizeof *s->item, err) != 0) return -1;
    snprintf(text, sizeof text, "%s%s%s", name, *label ? " " : "", label);
    struct inspect_subject *one = &s->item[s->n];
    if (!(one->name = keep(s, text, err)) || !(one->settings = keep(s, settings, err))) return -1;
    s->n++;
    return 0;
}

static int add_encoder(struct subjects *s, const struct registry *registry, const struct lab_encoder *e, const struct wish *wish, int64_t length,
                       struct lab_err *err)
{
    struct conf conf;
    struct run_config config;
    if (build(&conf, &config, registry, e, wish, length, 0, err) != 0) return -1;
    int rc = add_subject(s, e->name, "", config.settings, err);
    config_free(&config);
    conf_free(&conf);
    return rc;
}

/* Each model of an experiment once, with its first task and seed: another seed shows nothing else. */
static int add_file(struct subjects *s, const char *path, const struct registry *registry, const struct wish *wish, int64_t *length,
                    struct lab_err *err)
{
    struct conf conf;
    struct sweep sweep;
    if (conf_read(&conf, path, err) != 0) return -1;
    int rc = set_sizes(&conf, wish, err);
    if (rc == 0) rc = sweep_build(&sweep, &conf, registry, err);
    if (rc == 0) {
        if (!*length) *length = sweep.run[0].config.train.length.hi;
        for (size_t i = 0; rc == 0 && i < sweep.n; i++) {
            const struct run_config *c = &sweep.run[i].config;
            if (c->seed == sweep.run[0].config.seed && c->task == sweep.run[0].config.task)
                rc = add_subject(s, c->encoder->name, sweep.run[i].label, c->settings, err);
        }
        sweep_free(&sweep);
    }
    conf_free(&conf);
    return rc;
}

static int add_all(struct subjects *s, const struct registry *registry, const struct wish *wish, int64_t length, struct lab_err *err)
{
    size_t *order = mem_alloc((registry->n_entry + 1) * sizeof *order, err);
    size_t n = order ? registry_sorted(registry, PLUGIN_ENCODER, order) : 0;
    int rc = order ? 0 : -1;
    for (int none = 1; none >= 0; none--)                    /* first the one that the others are held against */
        for (size_t i = 0; rc == 0 && i < n; i++) {
            const struct plugin_entry *e = &registry->entry[order[i]];
            if (e->shadowed_by < 0 && (strcmp(e->name, "none") == 0) == none) rc = add_encoder(s, registry, e->encoder, wish, length, err);
        }
    free(order);
    return rc;
}

static int is_file(const char *name) { size_t n = strlen(name); return n > 4 && !strcmp(name + n - 4, ".ini"); }

static int compare_orders(struct inspect *in, const struct registry *registry, char **name, int n, const struct wish *wish, struct lab_err *err)
{
    struct subjects s = { .n = 0 };
    int64_t length = wish->length ? wish->length : 8;
    int rc = 0;
    if (n == 1 && is_file(name[0])) length = wish->length, rc = add_file(&s, name[0], registry, wish, &length, err);
    else if (n == 0) rc = add_all(&s, registry, wish, length, err);
    for (int i = 0; rc == 0 && i < n && !is_file(name[0]); i++) {
        const struct plugin_entry *e = registry_find(registry, PLUGIN_ENCODER, name[i], err);
        rc = e ? add_encoder(&s, registry, e->encoder, wish, length, err) : -1;
    }
    if (rc == 0) rc = inspect_equivariance(in, s.item, s.n, registry, (int)length, err);
    subjects_free(&s);
    return rc;
}

/* A key's start or ENCODER/TASK/SEED; everything else is meant as an encoder. */
static int names_a_run(const char *name)
{
    size_t hex = strspn(name, "0123456789abcdef");
    return strchr(name, '/') != NULL || (hex >= 4 && !name[hex]);
}

/* EXIT_DONE, or the exit code, with what went wrong in err. */
static int answer(struct inspect *in, const struct registry *registry, char **name, int n, const struct wish *wish, struct lab_err *err)
{
    struct store *store;
    struct inspect_run run;
    struct lab_err unknown;
    if (wish->equivariance) return compare_orders(in, registry, name, n, wish, err) == 0 ? EXIT_DONE : EXIT_USAGE;
    const struct plugin_entry *e = registry_find(registry, PLUGIN_ENCODER, name[0], &unknown);
    if (e) return inspect_one(in, registry, e->encoder, wish, err) == 0 ? EXIT_DONE : EXIT_USAGE;
    if (!names_a_run(name[0])) return *err = unknown, EXIT_USAGE;
    if (wish->d_model || wish->heads) return lab_fail(err, "a run has its sizes: --d-model and --heads are for encoders"), EXIT_USAGE;
    if (store_open(&store, wish->db, STORE_READ, err) != 0) return EXIT_DATABASE;
    int rc = inspect_find(&run, store, name[0], wish->length, wish->set.value, wish->set.n, registry, err);
    if (rc == 0) {
        rc = inspect_run(in, &run, wish->example, err);
        inspect_forget(&run);
    }
    store_close(store);
    return rc == 0 ? EXIT_DONE : EXIT_USAGE;
}

static int give(const struct cmd *cmd, struct inspect *in, const struct wish *wish)
{
    struct str out = { 0 };
    struct plot plot = { .n = 0 };
    struct lab_err err = { "" };
    int code = EXIT_SOME_FAILED, rc = 0;
    if (!wish->json && strcmp(wish->format, "text") != 0) {
        rc = inspect_plot(in, &plot, &err);
        if (rc == 0 && plot.n == 0) rc = lab_fail(&err, "there is nothing to draw: this encoder has no hooks"), code = EXIT_USAGE;
        if (rc == 0) code = cli_draw(cmd, &plot, wish->format, wish->path);
        plot_free(&plot);
        return rc == 0 ? code : cli_fail(cmd, code, &err);
    }
    if (wish->json) inspect_json(in, &out);
    else inspect_text(in, cli_columns(wish->path), &out);
    rc = out.failed ? lab_fail(&err, "out of memory while writing the answer") : cli_write(wish->path, &out, &err);
    str_free(&out);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, code, &err);
}

static int check(struct wish *wish, int n, struct lab_err *err)
{
    const struct { const char *name; int64_t *value; } size[] = {
        { "--length", &wish->length }, { "--d-model", &wish->d_model }, { "--heads", &wish->heads } };
    for (int i = 0; i < 3; i++) {
        if (*size[i].value == 0) return lab_fail(err, "%s 0: at least 1", size[i].name);
        if (*size[i].value < 0) *size[i].value = 0;
    }
    if (!wish->equivariance && n != 1)
        return lab_fail(err, n ? "one ENCODER or RUN at a time" : "which ENCODER or RUN? `lab list` shows the encoders");
    if (wish->length > MOST_LENGTH) return lab_fail(err, "--length %lld: more than %d positions cannot be shown",
                                                    (long long)wish->length, MOST_LENGTH);
    if (wish->d_model > MOST_MODEL) return lab_fail(err, "--d-model %lld: the limit is %d here", (long long)wish->d_model, MOST_MODEL);
    if (wish->json && wish->format) return lab_fail(err, "--json and --format: choose one");
    return 0;
}

int cmd_inspect(const struct cmd *cmd, int argc, char **argv)
{
    struct wish wish = { .length = -1, .d_model = -1, .heads = -1, .db = CLI_DEFAULT_DB };
    struct registry registry;
    struct inspect in;
    struct lab_err err;
    const struct cli_option option[] = {
        { "--length", 0, CLI_INT, "N", "positions (default 24; of a run: its training length)", &wish.length },
        { "--d-model", 0, CLI_INT, "N", "width of the model around an encoder", &wish.d_model },
        { "--heads", 0, CLI_INT, "N", "attention heads (default 4)", &wish.heads },
        { "--equivariance", 0, CLI_FLAG, NULL, "does a model see order? with ENCODER ..., of FILE.ini, or with each", &wish.equivariance },
        { "--example", 0, CLI_INT, "N", "of a run: which one of the test set (default 0)", &wish.example },
        CLI_FORMAT(&wish.format), CLI_OUTPUT(&wish.path), CLI_DB(&wish.db), CLI_SET(&wish.set), CLI_JSON(&wish.json),
        CLI_PLUGIN(&wish.plugin), CLI_END };
    int code = cli_parse(cmd, option, &argc, argv);
    if (code != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if (check(&wish, argc - 1, &err) != 0 || (!wish.json && cli_format(&wish.format, wish.path, &err) != 0) ||
        cli_registry(&registry, &wish.plugin, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    gemm_one_thread();
    inspect_init(&in, wish.json);
    code = answer(&in, &registry, argv + 1, argc - 1, &wish, &err);
    code = code == EXIT_DONE ? give(cmd, &in, &wish) : cli_fail(cmd, code, &err);
    inspect_release(&in);
    registry_free(&registry);
    return code;
}
