/* fixture.h -- a sound plugin, of which each bad_*.c spoils exactly one thing.
 *
 * FIXTURE(name, statement) defines the entry: it makes a plugin and an encoder of that
 * name, runs the statement that spoils it, and returns it.
 */
#ifndef FIXTURE_H
#define FIXTURE_H
#include "lab_plugin.h"
#include "lab_task.h"

struct self { int32_t width, norm; double base; };
static struct lab_option option[] = {
    LAB_INT(struct self, width, "8", 1, 64, "a whole number"),
    LAB_ENUM(struct self, norm, "post", "post|pre", "a word"),
    LAB_REAL(struct self, base, "10000", 1, 1e6, "a number"),
    LAB_OPTIONS_END };

static void embed(const void *self, const struct lab_call *c, lab_real *x);      /* each fixture, or FIXTURE_SOUND */
static void embed_bwd(const void *self, const struct lab_call *c, const lab_real *dx) { (void)self, (void)c, (void)dx; }

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    (void)self, (void)err;
    info->vocab_in = info->vocab_out = 2, info->min_len = 1, info->max_len = 64, info->max_slice = 1, info->version = 1;
    info->chance = 0.5;
    return 0;
}
static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *out, struct lab_err *err)
{
    (void)self, (void)seed, (void)split, (void)n, (void)err;
    for (int t = 0; t < len; t++) out->in[t] = out->target[t] = 0;
    return 0;
}

static struct lab_encoder encoder = { .size = sizeof encoder, .summary = "a fixture of the tests",
                                      .self_size = sizeof(struct self), .embed = embed, .embed_bwd = embed_bwd };
static struct lab_task task = { .size = sizeof task, .name = "bad_task", .summary = "a fixture of the tests",
                                .self_size = sizeof(struct self), .init = init, .sample = sample };
static const struct lab_encoder *encoders[3] = { &encoder };
static const struct lab_task *tasks[3] = { &task };
static struct lab_plugin plugin = { .magic = LAB_MAGIC, .size = sizeof plugin, .abi_major = LAB_ABI_MAJOR,
                                    .abi_minor = LAB_ABI_MINOR, .real_size = sizeof(lab_real), .version = "1",
                                    .license = "MIT", .encoders = encoders };

#define FIXTURE(id, statement) \
    LAB_EXPORT const struct lab_plugin *lab_plugin_entry(void); \
    const struct lab_plugin *lab_plugin_entry(void) { \
        plugin.name = encoder.name = #id; \
        (void)option, (void)tasks; \
        statement; \
        return &plugin; }
/* For fixtures whose hooks are not what is wrong with them. */
#define FIXTURE_SOUND(id, statement) \
    static void embed(const void *self, const struct lab_call *c, lab_real *x) { (void)self, (void)c, (void)x; } \
    FIXTURE(id, statement)

/* The calls of a hook in training, this one included: the fixtures that misbehave do so from the 20th on. */
enum { FIXTURE_CALL = 20 };
static inline int fixture_calls(const struct lab_call *c)
{
    static int calls;
    return calls += c->train != 0;
}
#endif
