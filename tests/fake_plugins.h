/* fake_plugins -- a registry of encoders and tasks that exist in the test alone: sound ones, and one for each fault.
 *
 * fake_live counts instances between init and fini: 0 whenever nothing is built.
 */
#ifndef LAB_TESTS_FAKE_PLUGINS_H
#define LAB_TESTS_FAKE_PLUGINS_H
#include "abi/lab_task.h"
#include <unistd.h>
#include "host/plugin.h"

static int fake_live;
static inline void fake_fini(void *self) { (void)self; fake_live--; }

/* ---- encoders ---- */

struct fake_rich { int32_t size, half, kind; double rate; const char *label; };
struct fake_needy { const char *path; int32_t rows; };
static const struct lab_option fake_rich_options[] = {
    LAB_INT(struct fake_rich, size, "8", 1, 1000, "rows"), LAB_REAL(struct fake_rich, rate, "0.5", -1e9, 1e9, "any"),
    LAB_BOOL(struct fake_rich, half, "no", "either"), LAB_ENUM(struct fake_rich, kind, "soft", "soft|hard|none", "which"),
    LAB_STR(struct fake_rich, label, "as it is", "text"), LAB_OPTIONS_END };
static const struct lab_option fake_needy_options[] = {
    LAB_STR(struct fake_needy, path, NULL, "must be given"), LAB_INT(struct fake_needy, rows, "4", 1, 9, "rows"), LAB_OPTIONS_END };

static inline int fake_rich_init(void *self, const struct lab_dims *d, struct lab_err *err)
{
    const struct fake_rich *r = self;
    if (d->max_len > r->size * 100) return lab_fail(err, "size %d is for %d positions, needed are %d", r->size, r->size * 100, d->max_len);
    fake_live++;
    return 0;
}
static inline int fake_rich_param(const void *self, const struct lab_dims *d, int i, struct lab_param *p)
{
    if (i == 0) *p = (struct lab_param){ .name = "table", .ndim = 2, .dim = { ((const struct fake_rich *)self)->size, d->d_model } };
    return i == 0;
}

/* A param function that fills one parameter from an initializer, the index i and the dims d at hand. */
#define FAKE_PARAM(name, count, ...) \
    static inline int name(const void *self, const struct lab_dims *d, int i, struct lab_param *p) { \
        (void)self, (void)d; \
        if (i < (count)) *p = (struct lab_param){ __VA_ARGS__ }; \
        return i < (count); }
FAKE_PARAM(fake_growing_param, 1, .name = "w", .ndim = 1, .dim = { d->max_len })
FAKE_PARAM(fake_counting_param, d->max_pos / 8, .name = i ? "b" : "a", .ndim = 1, .dim = { 2 })
FAKE_PARAM(fake_twins_param, 2, .name = "w", .ndim = 1, .dim = { 2 })
FAKE_PARAM(fake_misnamed_param, 1, .name = "W 1", .ndim = 1, .dim = { 2 })
FAKE_PARAM(fake_flat_param, 1, .name = "w", .ndim = 0)
FAKE_PARAM(fake_deep_param, 1, .name = "w", .ndim = 5, .dim = { 1, 1, 1, 1 })
FAKE_PARAM(fake_empty_param, 1, .name = "w", .ndim = 2, .dim = { 2, 0 })
FAKE_PARAM(fake_custom_param, 1, .name = "w", .ndim = 1, .dim = { 2 }, .init = LAB_INIT_CUSTOM)
FAKE_PARAM(fake_crowd_param, 17, .name = (const char *[]){ "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q" }[i],
           .ndim = 1, .dim = { 2 })

#define FAKE_ENCODER(id, ...) { .size = sizeof(struct lab_encoder), .name = #id, .summary = "fake", __VA_ARGS__ }
static const struct lab_encoder fake_encoder[] = {
    FAKE_ENCODER(plain, .flags = LAB_E_SHIFT_INVARIANT),
    FAKE_ENCODER(rich, .self_size = sizeof(struct fake_rich), .options = fake_rich_options, .init = fake_rich_init, .fini = fake_fini,
                 .param = fake_rich_param),
    FAKE_ENCODER(needy, .self_size = sizeof(struct fake_needy), .options = fake_needy_options),
    FAKE_ENCODER(forward, .flags = LAB_E_CAUSAL_ONLY),
    FAKE_ENCODER(growing, .param = fake_growing_param), FAKE_ENCODER(counting, .param = fake_counting_param),
    FAKE_ENCODER(twins, .param = fake_twins_param), FAKE_ENCODER(misnamed, .param = fake_misnamed_param),
    FAKE_ENCODER(flat, .param = fake_flat_param), FAKE_ENCODER(deep, .param = fake_deep_param),
    FAKE_ENCODER(empty, .param = fake_empty_param), FAKE_ENCODER(custom, .param = fake_custom_param),
    FAKE_ENCODER(crowd, .param = fake_crowd_param),
};

/* ---- tasks: the target is the input, unless the name says otherwise ---- */

struct fake_task { int32_t vocab, odd; double noise; const char *text; };
static const struct lab_option fake_task_options[] = {
    LAB_INT(struct fake_task, vocab, "10", 2, 1000, "tokens"), LAB_BOOL(struct fake_task, odd, "no", "refuses even vocabularies"),
    LAB_REAL(struct fake_task, noise, "0.25", 0, 1, "any"), LAB_STR(struct fake_task, text, "", "text"), LAB_OPTIONS_END };
static const struct lab_option fake_task_required[] = {
    LAB_INT(struct fake_task, vocab, NULL, 2, 1000, "tokens"), LAB_OPTIONS_END };

#define FAKE_INFO(id, out, lo, hi) \
    static inline int id(void *self, struct lab_task_info *info, struct lab_err *err) { \
        int vocab = ((const struct fake_task *)self)->vocab; \
        if (((const struct fake_task *)self)->odd && vocab % 2 == 0) return lab_fail(err, "vocab is %d; give an odd one", vocab); \
        info->vocab_in = vocab, info->vocab_out = (out), info->min_len = (lo), info->max_len = (hi); \
        info->max_slice = 1, info->version = 7, info->chance = 1.0 / vocab; \
        fake_live++; \
        return 0; }
FAKE_INFO(fake_echo_init, vocab, 1, 100000)
FAKE_INFO(fake_short_init, vocab, 2, 16)
FAKE_INFO(fake_translate_init, vocab + 5, 1, 1000)
FAKE_INFO(fake_silent_init, 0, 1, 1000)
FAKE_INFO(fake_backward_init, vocab, 9, 8)

static inline int fake_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    struct lab_rng r = lab_rng_at(seed, (uint32_t)split, (uint32_t)n, (uint32_t)len);
    (void)err;
    for (int t = 0; t < len; t++) e->target[t] = e->in[t] = (int32_t)lab_rng_below(&r, (uint32_t)((const struct fake_task *)self)->vocab);
    return 0;
}
static inline int fake_loud_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    fake_sample(self, seed, split, n, len, e, err);
    if (len > 8) e->in[len - 1] = ((const struct fake_task *)self)->vocab;
    return 0;
}
static inline int fake_crash_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    (void)self, (void)seed, (void)split, (void)n, (void)len, (void)e, (void)err;
    _exit(1);
}
static inline int fake_no_tape(const void *self, int len) { (void)self, (void)len; return 0; }
static inline int fake_long_tape(const void *self, int len) { (void)self; return len > 4 ? 2000000000 : len; }
static inline int fake_double_tape(const void *self, int len) { (void)self; return 2 * len + 1; }

#define FAKE_TASK(id, how, ...) { .size = sizeof(struct lab_task), .name = #id, .summary = "fake", .self_size = sizeof(struct fake_task), \
    .init = how, .fini = fake_fini, __VA_ARGS__ }
static const struct lab_task fake_task[] = {
    FAKE_TASK(echo, fake_echo_init, .sample = fake_sample, .options = fake_task_options),
    FAKE_TASK(other, fake_echo_init, .sample = fake_sample, .options = fake_task_required),
    FAKE_TASK(next, fake_echo_init, .sample = fake_sample, .options = fake_task_options, .flags = LAB_TASK_CAUSAL),
    FAKE_TASK(small, fake_short_init, .sample = fake_sample, .options = fake_task_options),
    FAKE_TASK(translate, fake_translate_init, .sample = fake_sample, .options = fake_task_options),
    FAKE_TASK(twice, fake_echo_init, .sample = fake_sample, .options = fake_task_options, .tape = fake_double_tape),
    FAKE_TASK(loud, fake_echo_init, .options = fake_task_options, .sample = fake_loud_sample),
    FAKE_TASK(crash, fake_echo_init, .options = fake_task_options, .sample = fake_crash_sample),
    FAKE_TASK(silent, fake_silent_init, .sample = fake_sample, .options = fake_task_options),
    FAKE_TASK(backward, fake_backward_init, .sample = fake_sample, .options = fake_task_options),
    FAKE_TASK(tapeless, fake_echo_init, .sample = fake_sample, .options = fake_task_options, .tape = fake_no_tape),
    FAKE_TASK(endless, fake_echo_init, .sample = fake_sample, .options = fake_task_options, .tape = fake_long_tape),
};

/* ---- the registry ---- */

enum { FAKE_ENCODERS = sizeof fake_encoder / sizeof *fake_encoder, FAKE_TASKS = sizeof fake_task / sizeof *fake_task };
static inline const struct registry *fake_registry(void)
{
    static char path[] = "/fake.so";
    static struct plugin_file file = { .path = path };
    static struct plugin_entry entry[FAKE_ENCODERS + FAKE_TASKS];
    static struct registry r = { .file = &file, .n_file = 1, .entry = entry, .n_entry = FAKE_ENCODERS + FAKE_TASKS };
    for (int i = 0; i < FAKE_ENCODERS; i++)
        entry[i] = (struct plugin_entry){ .kind = PLUGIN_ENCODER, .name = fake_encoder[i].name, .encoder = &fake_encoder[i], .shadowed_by = -1 };
    for (int i = 0; i < FAKE_TASKS; i++)
        entry[FAKE_ENCODERS + i] = (struct plugin_entry){ .kind = PLUGIN_TASK, .name = fake_task[i].name, .task = &fake_task[i], .shadowed_by = -1 };
    return &r;
}
#endif
