/* rig -- one run from its settings, as a test wants it: data and model without a sweep, a worker or a database.  A mistake fails the test. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H
#include <string.h>
#include "exp/eval.h"
#include "nn/optim.h"

struct rig {
    struct registry registry;        /* of rig_open */
    struct conf conf;
    struct run_config config;
    struct data data;
    struct model model;
};

/* Into a rig of zeros.  settings: an experiment file with [run] encoder, task and seed instead of axes. */
static inline void rig_init(struct rig *r, const struct registry *registry, const char *settings)
{
    struct model_setup setup;
    struct lab_err err;
    if (conf_read_text(&r->conf, "rig", settings, strlen(settings), &err) != 0 ||
        config_build(&r->config, r->conf.entry, r->conf.n, registry, &err) != 0) fail_msg("%s", err.msg);
    config_model_setup(&r->config, &setup);
    if (data_init(&r->data, &r->config, setup.infer_tokens + setup.train_batch * setup.train_len, &err) != 0 ||
        model_init(&r->model, &setup, &err) != 0) fail_msg("%s", err.msg);
}

static inline void rig_release(struct rig *r)
{
    model_release(&r->model);
    data_release(&r->data);
    config_free(&r->config);
    conf_free(&r->conf);
}

/* The same of one encoder and one task, whose plugins alone are loaded; seed 3. */
static inline void rig_open(struct rig *r, const char *encoder, const char *task_file, const char *task, const char *settings)
{
    char encoder_path[256], task_path[256], text[2048];
    struct lab_err err;
    snprintf(encoder_path, sizeof encoder_path, TEST_BUILD "/plugins/encoders/%s.so", encoder);
    snprintf(task_path, sizeof task_path, TEST_BUILD "/plugins/tasks/%s.so", task_file);
    const char *file[] = { encoder_path, task_path };
    snprintf(text, sizeof text, "[run]\nencoder = %s\ntask = %s\nseed = 3\n%s", encoder, task, settings);
    *r = (struct rig){ .registry = { 0 } };
    if (registry_load_files(&r->registry, file, 2, &err) != 0) fail_msg("%s", err.msg);
    rig_init(r, &r->registry, text);
}

static inline void rig_close(struct rig *r)
{
    rig_release(r);
    registry_free(&r->registry);
}

static inline void rig_learn(struct rig *r, int steps, double lr)
{
    struct lab_err err;
    struct optim_options o = { .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .steps = steps };
    for (int i = 0; i < steps; i++) {
        if (data_train(&r->data, i, &err) != 0) fail_msg("%s", err.msg);
        model_step(&r->model, &r->data.batch, (uint32_t)i);
        optim_step(&r->model, &o, i);
    }
}
#endif
