/* fuzz_conf -- experiment files: read, overridden by their own last line, built into a sweep with rope and reverse. */
#include "fuzz/fuzz.h"
#include <string.h>
#include "exp/sweep.h"

static const struct registry *plugins(void)
{
    static const char *const path[] = { TEST_BUILD "/plugins/encoders/rope.so", TEST_BUILD "/plugins/tasks/reverse.so" };
    static struct registry registry;
    struct lab_err err;
    if (!registry.n_file && registry_load_files(&registry, path, 2, &err) != 0) fprintf(stderr, "%s\n", err.msg), exit(1);
    return &registry;
}

/* What was read is found again, and every message says where. */
static void check_entries(const struct conf *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct conf_entry *e = &c->entry[i];
        MUST(*e->section && *e->key && e->value);
        MUST(conf_find(c, e->section, e->key) == e);
        MUST(e->line >= 1 || !strcmp(e->file, "--set"));
    }
}

/* Long ranges make runs by the thousand, which is allowed and takes its time. */
static int has_long_range(const struct conf *c)
{
    for (size_t i = 0; i < c->n; i++)
        for (const char *p = c->entry[i].value; (p = strstr(p, "..")); p += 2) if (strspn(p + 2, "+-0123456789") > 1) return 1;
    return 0;
}

static void check_sweep(const struct conf *c)
{
    struct sweep sweep;
    struct lab_err err = { "" };
    if (has_long_range(c)) return;
    if (sweep_build(&sweep, c, plugins(), &err) != 0) { MUST(*err.msg); return; }
    MUST(sweep.n >= 1 && sweep.n <= sweep.n_combinations);
    for (size_t i = 0; i < sweep.n; i++) MUST(strlen(sweep.run[i].config.key) == HASH_HEX - 1);
    sweep_free(&sweep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf c;
    struct lab_err err = { "" };
    if (conf_read_text(&c, "f.ini", (const char *)data, size, &err) != 0) {
        MUST(!strncmp(err.msg, "f.ini:", 6));
        return 0;
    }
    check_entries(&c);
    check_sweep(&c);
    const char *last = memrchr(c.text, '\n', c.length);
    if (last && conf_override(&c, last + 1, &err) == 0) check_entries(&c), check_sweep(&c);
    conf_free(&c);
    return 0;
}
