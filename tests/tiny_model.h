/* tiny_model -- a small model for tests of the whole model, with one of the five encoders or with every_hook.h's.
 *
 * The five come from their plugins, as in a run.  Include after <cmocka.h>: whatever fails here fails the test.
 */
#ifndef LAB_TESTS_TINY_MODEL_H
#define LAB_TESTS_TINY_MODEL_H
#include <stdlib.h>
#include <string.h>
#include "host/option.h"
#include "host/plugin.h"
#include "nn/model.h"
#include "every_hook.h"

#define TINY_OPTIONS 8
struct tiny_spec {
    const char *encoder, *option[TINY_OPTIONS];      /* "key=value", of the encoder */
    struct model_options model;
    int32_t vocab_in, vocab_out, B, T, max_pos;
    uint64_t seed;
};
struct tiny {
    struct tiny_spec spec;
    const struct lab_encoder *encoder;
    void *self;
    struct model model;
};

static inline const struct lab_encoder *tiny_encoder(const char *name)
{
    const struct lab_plugin *plugin;
    struct lab_err err;
    char path[256];
    if (!strcmp(name, every_hook.name)) return &every_hook;
    snprintf(path, sizeof path, TEST_BUILD "/plugins/encoders/%s.so", name);
    if (plugin_open(path, &plugin, &err)) fail_msg("%s", err.msg);
    return plugin->encoders[0];
}

static inline void tiny_option(const struct lab_encoder *encoder, void *self, const char *key, const char *value)
{
    struct lab_err err;
    const struct lab_option *row = option_find(encoder->options, key);
    if (!row) fail_msg("encoder %s has no option `%s`", encoder->name, key);
    if (option_set(row, self, value, &err)) fail_msg("%s.%s: %s", encoder->name, key, err.msg);
}

/* Fills everything that model_init needs; the encoder's init is done. */
static inline void tiny_setup(struct tiny *tiny, const struct tiny_spec *spec, struct model_setup *setup)
{
    struct lab_err err;
    const struct model_options *o = &spec->model;
    tiny->spec = *spec;
    tiny->encoder = tiny_encoder(spec->encoder);
    tiny->self = calloc(1, tiny->encoder->self_size + 1);
    if (tiny->encoder->options && option_defaults(tiny->encoder->options, tiny->self, NULL, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < TINY_OPTIONS && spec->option[i]; i++) {
        char key[64];
        const char *equals = strchr(spec->option[i], '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - spec->option[i]), spec->option[i]);
        tiny_option(tiny->encoder, tiny->self, key, equals + 1);
    }
    *setup = (struct model_setup){
        .options = *o, .vocab_in = spec->vocab_in, .vocab_out = spec->vocab_out,
        .encoder = tiny->encoder, .encoder_self = tiny->self,
        .dims = { .size = sizeof(struct lab_dims), .n_layer = o->layers, .n_head = o->heads, .d_model = o->d_model,
                  .d_head = o->d_model / o->heads, .train_len = spec->T, .max_len = spec->T,
                  .max_pos = spec->max_pos ? spec->max_pos : spec->T, .causal = o->causal },
        .train_batch = spec->B, .train_len = spec->T, .infer_tokens = spec->B * spec->T, .infer_len = spec->T,
        .seed = spec->seed,
    };
    if (tiny->encoder->init && tiny->encoder->init(tiny->self, &setup->dims, &err)) fail_msg("%s", err.msg);
}

static inline void tiny_open(struct tiny *tiny, const struct tiny_spec *spec)
{
    struct model_setup setup;
    struct lab_err err;
    tiny_setup(tiny, spec, &setup);
    if (model_init(&tiny->model, &setup, &err)) fail_msg("%s", err.msg);
}

static inline void tiny_close_encoder(struct tiny *tiny)
{
    if (tiny->encoder->fini) tiny->encoder->fini(tiny->self);
    free(tiny->self);
}
static inline void tiny_close(struct tiny *tiny)
{
    model_release(&tiny->model);
    tiny_close_encoder(tiny);
}

static inline struct model_param *tiny_param(struct model *model, const char *name)      /* NULL: none of that name */
{
    for (int i = 0; i < model->n_param; i++)
        if (!strcmp(model->param[i].name, name)) return &model->param[i];
    return NULL;
}
#endif
