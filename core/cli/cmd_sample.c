/* cmd_sample -- lab sample TASK: prints examples, the very ones that training sees.
 *
 * Step s of a run with that seed trains on examples s * batch, s * batch + 1, ... of split train; evaluation has splits
 * and a seed of its own.  Refuses lengths that the task does not take, and --set of anything but this task's options.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "abi/lab_task.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "host/option.h"

static const char *const split_name[] = { [LAB_TRAIN] = "train", [LAB_VALID] = "valid", [LAB_TEST] = "test", NULL };

struct wish {                        /* what the user asked for */
    int64_t length, count, seed, first;
    const char *task, *split_text;
    int split, json;                 /* split: enum lab_split */
    struct cli_many set, plugin;
};
struct sampler {
    const struct lab_task *task;
    void *self;
    int ready;                       /* init done: fini owed */
    struct conf conf;                /* of --set; the options' texts live here */
    struct lab_task_info info;
    int tape;
    struct lab_example example;
    struct arena arena;
};

static int set_options(struct sampler *s, const char *section, const struct cli_many *set, struct lab_err *err)
{
    struct lab_err why;
    for (int i = 0; i < set->n; i++)
        if (conf_override(&s->conf, set->value[i], err) != 0) return -1;
    for (size_t i = 0; i < s->conf.n; i++) {
        const struct conf_entry *e = &s->conf.entry[i];
        if (strcmp(e->section, section) != 0)
            return lab_fail(err, "--set %s.%s: only keys of [%s] matter here", e->section, e->key, section);
        const struct lab_option *row = option_find(s->task->options, e->key);
        const char *near = row ? NULL : option_nearest(s->task->options, e->key);
        if (!row) return lab_fail(err, "--set %s.%s: no such option%s%s%s; see `lab info %s`", section, e->key,
                                  near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "", s->task->name);
        if (option_set(row, s->self, e->value, &why) != 0) return lab_fail(err, "--set [%s] %s", section, why.msg);
    }
    return 0;
}

static int allocate(struct sampler *s, struct lab_err *err)
{
    size_t tape = (size_t)s->tape;
    for (int pass = 0; pass < 2; pass++) {               /* measure, then place */
        if (pass && arena_commit(&s->arena, err) != 0) return -1;
        s->example.in = arena_take(&s->arena, tape * sizeof(int32_t));
        s->example.target = arena_take(&s->arena, tape * sizeof(int32_t));
        s->example.weight = arena_take(&s->arena, tape * sizeof(float));
        s->example.pos = arena_take(&s->arena, tape * sizeof(int32_t));
        s->example.counted = arena_take(&s->arena, tape);
    }
    return 0;
}

static int task_init(struct sampler *s, const struct wish *wish, struct lab_err *err)
{
    const struct lab_task *task = s->task;
    char section[128];
    snprintf(section, sizeof section, "task.%s", task->name);
    s->self = mem_alloc(task->self_size, err);
    if (!s->self || option_defaults(task->options, s->self, NULL, err) != 0) return -1;
    if (set_options(s, section, &wish->set, err) != 0) return -1;
    for (const struct lab_option *row = task->options; row && row->name; row++)
        if (!row->def && !conf_find(&s->conf, section, row->name))
            return lab_fail(err, "%s has no default: give --set %s.%s=VALUE", row->name, section, row->name);
    s->info.size = sizeof s->info;
    if (task->init(s->self, &s->info, err) != 0) return -1;
    s->ready = 1;
    if (wish->length < s->info.min_len || wish->length > s->info.max_len)
        return lab_fail(err, "task %s takes --length %d to %d, not %lld", task->name, s->info.min_len, s->info.max_len,
                        (long long)wish->length);
    s->tape = task->tape ? task->tape(s->self, (int)wish->length) : (int)wish->length;
    return allocate(s, err);
}

static int draw(struct sampler *s, const struct wish *wish, int64_t n, struct lab_err *err)
{
    struct lab_example *e = &s->example;
    for (int t = 0; t < s->tape; t++) e->weight[t] = 1, e->pos[t] = t, e->counted[t] = 1;
    e->prompt = e->slice = 0;
    return s->task->sample(s->self, (uint64_t)wish->seed, wish->split, n, (int)wish->length, e, err);
}

/* ---- printing ---- */

static int widest(const struct sampler *s)
{
    int most = s->info.vocab_in > s->info.vocab_out ? s->info.vocab_in : s->info.vocab_out;
    return snprintf(NULL, 0, "%d", most - 1);
}

static void print_ids(const int32_t *id, int n, const char *between, int width, const char *unscored)
{
    for (int t = 0; t < n; t++) {
        printf("%s", t ? between : "");
        if (id[t] < 0) printf("%*s", width, unscored);
        else printf("%*d", width, id[t]);
    }
}

static void print_text(const struct sampler *s, int64_t n)
{
    int width = widest(s);
    printf("%-8lld in      ", (long long)n);
    print_ids(s->example.in, s->tape, " ", width, ".");
    printf("\n%-8s target  ", "");
    print_ids(s->example.target, s->tape, " ", width, ".");
    printf("\n");
}

static void print_json(const struct sampler *s, const struct wish *wish, int64_t n)
{
    printf("%s\n  {\"n\": %lld, \"length\": %d, \"split\": \"%s\", \"seed\": %lld, \"input\": [", n == wish->first ? "" : ",",
           (long long)n, (int)wish->length, split_name[wish->split], (long long)wish->seed);
    print_ids(s->example.in, s->tape, ", ", 0, "null");
    printf("], \"target\": [");
    print_ids(s->example.target, s->tape, ", ", 0, "null");
    if (s->task->flags & LAB_TASK_POSITIONS) {
        printf("], \"pos\": [");
        print_ids(s->example.pos, s->tape, ", ", 0, "null");
    }
    printf("]}");
}

/* ---- the command ---- */

static int parse(const struct cmd *cmd, struct wish *wish, int argc, char **argv)
{
    *wish = (struct wish){ .length = 8, .count = 5, .split_text = split_name[LAB_TRAIN] };
    const struct cli_option option[] = {
        { "--length", 0, CLI_INT, "N", "of the examples (default 8)", &wish->length },
        { "--count", 'n', CLI_INT, "N", "how many (default 5)", &wish->count },
        { "--first", 0, CLI_INT, "N", "number of the first one (default 0)", &wish->first },
        { "--seed", 0, CLI_INT, "N", "of the run; of [eval] for the other splits (default 0)", &wish->seed },
        { "--split", 0, CLI_TEXT, "NAME", "train, valid or test (default train)", &wish->split_text },
        CLI_SET(&wish->set), CLI_JSON(&wish->json), CLI_PLUGIN(&wish->plugin), CLI_END };
    struct lab_err err;
    int status = cli_parse(cmd, option, &argc, argv);
    if (status != 0) return status;
    if (argc != 2) return lab_fail(&err, argc < 2 ? "which task? see `lab list`" : "one task at a time"), cli_fail(cmd, -1, &err);
    wish->task = argv[1];
    if (wish->first > INT64_MAX - wish->count)
        return lab_fail(&err, "--first %lld: the last of these examples would have no number", (long long)wish->first),
               cli_fail(cmd, -1, &err);
    while (split_name[wish->split] && strcmp(split_name[wish->split], wish->split_text) != 0) wish->split++;
    if (!split_name[wish->split])
        return lab_fail(&err, "--split %s: it is train, valid or test", wish->split_text), cli_fail(cmd, -1, &err);
    return 0;
}

static int print_all(struct sampler *s, const struct wish *wish, struct lab_err *err)
{
    if (wish->json) printf("[");
    for (int64_t n = wish->first; n - wish->first < wish->count; n++) {
        if (draw(s, wish, n, err) != 0) return -1;
        if (wish->json) print_json(s, wish, n);
        else print_text(s, n);
    }
    if (wish->json) printf("\n]\n");
    return 0;
}

int cmd_sample(const struct cmd *cmd, int argc, char **argv)
{
    struct wish wish;
    struct lab_err err;
    struct registry registry = { 0 };
    struct sampler s = { 0 };
    int code = parse(cmd, &wish, argc, argv), failed;
    if (code != 0) return code > 0 ? EXIT_DONE : EXIT_USAGE;
    if (cli_registry(&registry, &wish.plugin, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    const struct plugin_entry *entry = registry_find(&registry, PLUGIN_TASK, wish.task, &err);
    if (entry) s.task = entry->task;
    failed = !entry || task_init(&s, &wish, &err) != 0 || print_all(&s, &wish, &err) != 0;
    if (s.ready && s.task->fini) s.task->fini(s.self);
    arena_free(&s.arena);
    free(s.self);
    conf_free(&s.conf);
    registry_free(&registry);
    return failed ? cli_fail(cmd, EXIT_USAGE, &err) : EXIT_DONE;
}
