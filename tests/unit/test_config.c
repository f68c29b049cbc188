/* test_config -- one run's configuration: its identity, what changes it, and every way to be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "exp/config.h"
#include "fake_plugins.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

struct built { struct conf conf; struct run_config config; };

static int try_build(struct built *b, const struct registry *registry, const char *text, struct lab_err *err)
{
    *b = (struct built){ 0 };
    OK(conf_read_text(&b->conf, "f.ini", text, strlen(text), &err));
    if (config_build(&b->config, b->conf.entry, b->conf.n, registry, err) == 0) return 0;
    conf_free(&b->conf);
    assert_int_equal(fake_live, 0);
    return -1;
}

static void build(struct built *b, const char *text)
{
    struct lab_err err = { "" };
    if (try_build(b, fake_registry(), text, &err) != 0) fail_msg("refused: %s\n%s", err.msg, text);
}

static void release(struct built *b)
{
    config_free(&b->config);
    conf_free(&b->conf);
}

/* ---- identity: against JSON written by hand and hashes computed elsewhere (Python's hashlib) ---- */

static void identity_is_the_hash_of_canonical_json(void **state)
{
    (void)state;
    static const char text[] =
        "[run]\nencoder = rich\ntask = echo\nseed = 2147483647\n"
        "[model]\nd_model = 48\nheads = 6\nlayers = 3\nd_ff = 96\nnorm = pre\nnorm_type = rmsnorm\nactivation = gelu\ncausal = yes\n"
        "tied = yes\ndropout = 0.1\nembed_scale = one\nembed_std = 0.02\n"
        "[train]\nlength = 2..9\nsteps = 100000\nbatch = 32\nlr = 3e-4\nbeta1 = 0.95\nbeta2 = 0.99\neps = 1e-6\nweight_decay = 1e-2\n"
        "clip = 1\nwarmup = 50\nschedule = cosine\nlog_every = 7\n"
        "[encoder.rich]\nsize = 12\nrate = -2.5e-7\nhalf = yes\nkind = hard\nlabel = a \"b\" \\ c\n"
        "[task.echo]\nvocab = 11\nodd = yes\nnoise = 0.30000000000000004\n";
    static const char json[] =
        "{\"encoder\":{\"name\":\"rich\",\"options\":{\"half\":true,\"kind\":\"hard\",\"label\":\"a \\\"b\\\" \\\\ c\",\"rate\":-2.5e-07,\"size\":12}},"
        "\"model\":{\"activation\":\"gelu\",\"causal\":true,\"d_ff\":96,\"d_model\":48,\"dropout\":0.1,\"embed_scale\":\"one\",\"embed_std\":0.02,"
        "\"heads\":6,\"layers\":3,\"norm\":\"pre\",\"norm_type\":\"rmsnorm\",\"tied\":true},\"seed\":2147483647,"
        "\"task\":{\"name\":\"echo\",\"options\":{\"noise\":0.30000000000000004,\"odd\":true,\"text\":\"\",\"vocab\":11},\"version\":7},"
        "\"train\":{\"batch\":32,\"beta1\":0.95,\"beta2\":0.99,\"clip\":1,\"eps\":1e-06,\"grow_every\":100,\"length\":[2,9],"
        "\"length_law\":\"uniform\",\"lr\":0.0003,\"per\":\"batch\",\"schedule\":\"cosine\","
        "\"steps\":100000,\"tau\":0.9,\"warmup\":50,\"weight_decay\":0.01}}";
    struct built b;
    build(&b, text);
    assert_string_equal(b.config.json, json);
    assert_string_equal(b.config.key, "c96620ea51adbee54a5d62b2cd2ff2ba49502f8955708bf2424f3096fe298b44");
    assert_string_equal(b.config.variant, "6b61025aa91c0d14f50cd3d45e5fb5e58debd744d1b897910c86afffbf917737");
    assert_string_equal(b.config.task_key, "aa9a8620b454ceb1e6336e68c68f23237ebc853d212be7f49a02797191c78b5d");
    release(&b);
}

/* Results in people's databases hang on this one: a change of it makes every run they have a stranger.  The plugins have one option. */
static void the_defaults_have_the_key_they_always_had(void **state)
{
    (void)state;
    static const char *const file[] = { TEST_BUILD "/plugins/encoders/none.so", TEST_BUILD "/plugins/tasks/reverse.so" };
    struct registry registry;
    struct built b;
    OK(registry_load_files(&registry, file, 2, &err));
    OK(try_build(&b, &registry, "[run]\nencoder = none\ntask = reverse\n", &err));
    assert_string_equal(b.config.json,
        "{\"encoder\":{\"name\":\"none\",\"options\":{}},"
        "\"model\":{\"activation\":\"relu\",\"causal\":false,\"d_ff\":256,\"d_model\":64,\"dropout\":0,\"embed_scale\":\"sqrt\",\"embed_std\":0,"
        "\"heads\":4,\"layers\":2,\"norm\":\"post\",\"norm_type\":\"layernorm\",\"tied\":false},\"seed\":0,"
        "\"task\":{\"name\":\"reverse\",\"options\":{\"vocab\":10},\"version\":1},"
        "\"train\":{\"batch\":64,\"beta1\":0.9,\"beta2\":0.999,\"clip\":0,\"eps\":1e-08,\"grow_every\":100,\"length\":[8,8],"
        "\"length_law\":\"uniform\",\"lr\":0.001,\"per\":\"batch\",\"schedule\":\"constant\","
        "\"steps\":2000,\"tau\":0.9,\"warmup\":0,\"weight_decay\":0}}");
    assert_string_equal(b.config.key, "e5ab9f7bb1bb29395ed1cdb3abc57fd6550a8892239918a9434ae132b565640c");
    release(&b);
    registry_free(&registry);
}

/* ---- what changes the identity ---- */

#define BASE "[run]\nencoder = rich\ntask = echo\nseed = 3\n"
static const char base[] = BASE;

struct keys { char key[HASH_HEX], variant[HASH_HEX], task_key[HASH_HEX]; };

static struct keys keys_of(const char *text)
{
    struct built b;
    struct keys k;
    build(&b, text);
    memcpy(k.key, b.config.key, HASH_HEX);
    memcpy(k.variant, b.config.variant, HASH_HEX);
    memcpy(k.task_key, b.config.task_key, HASH_HEX);
    release(&b);
    return k;
}

static void spelling_changes_nothing(void **state)
{
    (void)state;
    static const char *const same[] = {
        BASE "[train]\nlr = 0.001\n", BASE "[train]\nlr = 1e-3\n", BASE "[train]\nlr = +1.0E-03\nsteps = 002000\n",
        BASE "; a comment\n[train]   ; another\nbatch = 64 ; a third\nlength = 8..8\nclip = -0\n",
        "[task.echo]\nvocab = 10\n[run]\nseed = +03\ntask = echo\nencoder = rich\n[model]\ntied = false\ncausal = no\n",
        BASE "[train]\nlog_every = 77\n",
        BASE "[experiment]\nname = x\nquestion = why?\n[sweep]\nmodel.layers = 9\n",
        BASE "[eval]\nlengths = 3, 5..9\nsequences = 17\nevery = 0\nevery_sequences = 3\nseed = 99\n",
        BASE "[encoder.needy]\nrows = 5\n[task.other]\nvocab = 7\n" };
    struct keys expected = keys_of(base);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct keys k = keys_of(same[i]);
        if (memcmp(&k, &expected, sizeof k)) fail_msg("another identity:\n%s", same[i]);
    }
}

/* A value of the row that is not its default and that everything else allows. */
static void other_value(char out[64], const struct lab_option *row)
{
    double low = fmax(row->lo, -10), high = fmin(row->hi, 10);
    switch (row->type) {
    case LAB_T_INT: snprintf(out, 64, "%d", 2 * atoi(row->def) <= row->hi && atoi(row->def) ? 2 * atoi(row->def) : (int)row->hi); break;
    case LAB_T_REAL: snprintf(out, 64, "%.17g", (low + 2 * high) / 3); break;
    case LAB_T_BOOL: snprintf(out, 64, "%s", strcmp(row->def, "no") ? "no" : "yes"); break;
    case LAB_T_ENUM: snprintf(out, 64, "%s", strrchr(row->choices, '|') + 1); break;
    case LAB_T_STR: snprintf(out, 64, "other"); break;
    default: snprintf(out, 64, "5"); break;
    }
}

enum { KEY = 1, VARIANT = 2, TASK = 4 };

static void check_table(const char *section, const struct lab_option *table, const char *without, int changed)
{
    const struct keys old = keys_of(base);
    for (; table->name; table++) {
        char text[256], value[64];
        if (!strcmp(table->name, "select")) continue;                /* a test of its own */
        other_value(value, table);
        /* the task's `odd` refuses even vocabularies */
        snprintf(text, sizeof text, BASE "[%s]\n%s = %s\n%s", section, table->name, value, strcmp(table->name, "odd") ? "" : "vocab = 11\n");
        struct keys k = keys_of(text);
        int found = (strcmp(k.key, old.key) ? KEY : 0) | (strcmp(k.variant, old.variant) ? VARIANT : 0) | (strcmp(k.task_key, old.task_key) ? TASK : 0);
        int expected = without && !strcmp(without, table->name) ? 0 : changed;
        if (found != expected) fail_msg("%s.%s = %s changes %d, expected %d", section, table->name, value, found, expected);
    }
}

static void each_key_changes_the_identity(void **state)
{
    (void)state;
    check_table("model", config_model_table, NULL, KEY | VARIANT);
    check_table("train", config_train_table, "log_every", KEY | VARIANT);
    check_table("encoder.rich", fake_rich_options, NULL, KEY);
    check_table("task.echo", fake_task_options, NULL, KEY | TASK);
    check_table("eval", config_eval_table + 1, NULL, 0);             /* after `lengths`, which has no default */
    check_table("limits", config_limits_table, NULL, 0);
    const struct keys old = keys_of(base), seed = keys_of("[run]\nencoder = rich\ntask = echo\nseed = 4\n"),
                      encoder = keys_of("[run]\nencoder = plain\ntask = echo\nseed = 3\n"),
                      task = keys_of("[run]\nencoder = rich\ntask = small\nseed = 3\n");
    assert_string_not_equal(seed.key, old.key);
    assert_string_equal(seed.variant, old.variant);
    assert_string_equal(seed.task_key, old.task_key);
    assert_string_not_equal(encoder.key, old.key);
    assert_string_equal(encoder.variant, old.variant);
    assert_string_equal(encoder.task_key, old.task_key);
    assert_string_not_equal(task.key, old.key);
    assert_string_equal(task.variant, old.variant);
    assert_string_not_equal(task.task_key, old.task_key);
}

/* [positions] came later: as long as ids are sequential it is in no key. */
static void positions_count_once_they_are_not_sequential(void **state)
{
    (void)state;
    const struct keys old = keys_of(base), unused = keys_of(BASE "[positions]\nmax = 999\n"),
                      random = keys_of(BASE "[positions]\nsource = random\nmax = 999\n"),
                      wider = keys_of(BASE "[positions]\nsource = random\nmax = 1000\n");
    assert_memory_equal(&unused, &old, sizeof old);
    assert_string_not_equal(random.key, old.key);
    assert_string_not_equal(random.variant, old.variant);
    assert_string_equal(random.task_key, old.task_key);
    assert_string_not_equal(wider.key, random.key);
    assert_string_not_equal(wider.variant, random.variant);
}

/* What selects the weights changes them: the rule, and of the evaluations those that it looks at. */
static void what_selects_the_weights_is_part_of_them(void **state)
{
    (void)state;
#define BEST(rule, more) BASE "[train]\nlength = 4..8\n[eval]\nselect = " rule "\n" more
    static const struct { const char *text, *like; int same; } with[] = {
        { BASE "[train]\nlength = 4..8\n", BEST("last", "lengths = 8, 12\n"), 1 },
        { BASE "[train]\nlength = 4..8\n", BEST("best_valid", "lengths = 8\n"), 0 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", ""), 1 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", "lengths = 8, 12, 16\nsequences = 7\nfree_sequences = 3\n"), 1 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", "lengths = 6, 8\n"), 0 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", "lengths = 8\nevery = 100\n"), 0 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", "lengths = 8\nevery_sequences = 100\n"), 0 },
        { BEST("best_valid", "lengths = 8\n"), BEST("best_valid", "lengths = 8\nseed = 2\n"), 0 },
        { BEST("best_valid", "lengths = 8, 12\n"), BEST("best_longer", "lengths = 8, 12\n"), 0 },
        { BEST("best_longer", "lengths = 8, 12\n"), BEST("best_longer", "lengths = 6, 12\n"), 1 },
        { BEST("best_longer", "lengths = 12\n"), BEST("best_longer", "lengths = 12, 13\n"), 0 } };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct keys a = keys_of(with[i].text), b = keys_of(with[i].like);
        int same = !strcmp(a.key, b.key), same_variant = !strcmp(a.variant, b.variant);
        if (same != with[i].same || same_variant != with[i].same)
            fail_msg("%s identity, expected %s:\n%s\n%s", with[i].same ? "another" : "the same", with[i].same ? "the same" : "another", with[i].text, with[i].like);
        assert_string_equal(a.task_key, b.task_key);
    }
    struct built b;
    build(&b, BEST("best_longer", "lengths = 8, 12, 16\n"));
    if (!strstr(b.config.json, ",\"seed\":3,\"select\":{\"by\":\"best_longer\",\"every\":250,\"lengths\":[12,16],\"seed\":1,\"sequences\":200},\"task\":"))
        fail_msg("no selection in %s", b.config.json);
    release(&b);
#undef BEST
}

/* ---- any configuration comes back from its settings ---- */

static int64_t between(struct lab_rng *r, double lo, double hi) { return (int64_t)floor(lo + lab_rng_unit(r) * (hi - lo + 1)); }

static void add_list(struct str *out, struct lab_rng *r)
{
    int x = (int)between(r, 1, 30);
    for (int n = (int)between(r, 1, 20); n > 0; n--, x += (int)between(r, 1, 3)) str_printf(out, "%s%d", out->text[out->len - 1] == ' ' ? "" : ",", x);
}

static void add_value(struct str *out, const struct lab_option *row, struct lab_rng *r)
{
    static const char *const words[] = { "", "x", "a b", "a;b", "=", "\"q\"", "\xc3\xa9 \\", "0..3", "x = [y], z" };
    char choices[256], *word = choices;
    switch (row->type) {
    case LAB_T_INT: str_printf(out, "%lld", (long long)between(r, row->lo, fmin(row->hi, 1000))); break;
    case LAB_T_REAL: str_printf(out, "%.17g", fmin(fmax(row->lo, 0) * exp2(40 * lab_rng_unit(r)) + lab_rng_unit(r) * exp2(-40 * lab_rng_unit(r)), row->hi)); break;
    case LAB_T_BOOL: str_add(out, lab_rng_below(r, 2) ? "true" : "no"); break;
    case LAB_T_STR: str_add(out, words[lab_rng_below(r, sizeof words / sizeof *words)]); break;
    case OPTION_RANGE: str_printf(out, "%lld..%lld", (long long)between(r, 1, 50), (long long)between(r, 50, 60)); break;
    case OPTION_LIST: add_list(out, r); break;
    default:
        snprintf(choices, sizeof choices, "%s", row->choices);
        for (int i = (int)lab_rng_below(r, 3); i > 0 && strchr(word, '|'); i--) word = strchr(word, '|') + 1;
        str_printf(out, "%.*s", (int)strcspn(word, "|"), word);
    }
}

/* Each key of the table, but one in four, in an order drawn anew. */
static void add_section(struct str *out, const char *section, const struct lab_option *table, struct lab_rng *r)
{
    int n = 0, at[64];
    while (table[n].name) at[n] = n, n++;
    str_printf(out, "[%s]\n", section);
    for (int i = n - 1; i >= 0; i--) {
        int j = (int)lab_rng_below(r, (uint32_t)i + 1), row = at[j];
        at[j] = at[i];
        if (lab_rng_below(r, 4) == 0 || !strcmp(table[row].name, "odd") || !strcmp(table[row].name, "select")) continue;
        int fits = !strcmp(table[row].name, "heads") || !strcmp(table[row].name, "d_model");
        str_printf(out, "%s = ", table[row].name);
        if (fits) str_printf(out, "%d", table[row].name[0] == 'h' ? 1 << between(r, 0, 6) : 64 * (int)between(r, 1, 9));
        else add_value(out, &table[row], r);
        str_add(out, "\n");
    }
}

static void settings_give_the_same_run_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        struct lab_rng r = lab_rng_at(11, i, 0, 0);
        struct str text = { 0 };
        struct built first, again;
        str_printf(&text, "[run]\nencoder = rich\ntask = echo\nseed = %lld\n", (long long)between(&r, 0, 2147483647.0));
        add_section(&text, "model", config_model_table, &r);
        add_section(&text, "train", config_train_table, &r);
        add_section(&text, "eval", config_eval_table, &r);
        add_section(&text, "limits", config_limits_table, &r);
        add_section(&text, "encoder.rich", fake_rich_options, &r);
        add_section(&text, "task.echo", fake_task_options, &r);
        build(&first, str_text(&text));
        build(&again, first.config.settings);
        assert_string_equal(first.config.json, again.config.json);
        assert_string_equal(first.config.settings, again.config.settings);
        assert_string_equal(first.config.key, again.config.key);
        assert_string_equal(first.config.variant, again.config.variant);
        assert_string_equal(first.config.task_key, again.config.task_key);
        assert_memory_equal(&first.config.model, &again.config.model, sizeof first.config.model);
        assert_memory_equal(&first.config.train, &again.config.train, sizeof first.config.train);
        assert_memory_equal(&first.config.eval, &again.config.eval, sizeof first.config.eval);
        assert_memory_equal(&first.config.limits, &again.config.limits, sizeof first.config.limits);
        release(&first);
        release(&again);
        str_free(&text);
    }
}

/* What fits on a line of the file must fit on a line of the settings, which a worker reads by the same rules. */
static void the_longest_list_comes_back(void **state)
{
    (void)state;
    struct str text = { 0 };
    struct built first, again;
    str_add(&text, "[run]\nencoder = plain\ntask = echo\n[eval]\nlengths=");
    for (int x = 100; x <= 194; x += 2) str_printf(&text, "%s%d", x > 100 ? "," : "", x);       /* 8 + 191 bytes: the limit */
    str_add(&text, "\n");
    build(&first, text.text);
    build(&again, first.config.settings);
    assert_int_equal(again.config.eval.lengths.n, 48);
    assert_memory_equal(&first.config.eval, &again.config.eval, sizeof first.config.eval);
    release(&first);
    release(&again);
    str_free(&text);
}

/* ---- what is filled in ---- */

static void lengths_and_dims_are_on_the_tape(void **state)
{
    (void)state;
    struct built b;
    build(&b, "[run]\nencoder = plain\ntask = twice\n[train]\nlength = 3..6\n[eval]\nlengths = 20, 4\n[model]\nheads = 8\n");
    assert_int_equal(config_tape(&b.config, 20), 41);
    assert_int_equal(b.config.dims.train_len, 13);
    assert_int_equal(b.config.dims.max_len, 41);
    assert_int_equal(b.config.dims.d_head, 8);
    struct model_setup setup;
    config_model_setup(&b.config, &setup);
    assert_int_equal(setup.train_len, 13);
    assert_int_equal(setup.infer_len, 41);
    assert_int_equal(setup.train_batch, 64);
    assert_true(setup.infer_tokens >= setup.infer_len);
    release(&b);
    build(&b, "[run]\nencoder = plain\ntask = echo\n[train]\nlength = 3..6\n");
    assert_int_equal(b.config.eval.lengths.n, 1);
    assert_int_equal(b.config.eval.lengths.v[0], 6);
    assert_int_equal(b.config.seed, 0);
    release(&b);
}

/* ---- what is refused ---- */

#define RUN(encoder, task) "[run]\nencoder = " encoder "\ntask = " task "\nseed = 0\n"       /* lines 1 to 4 */
static const struct { const char *text, *message; } refused[] = {
    { "[run]\ntask = echo\n", "no encoder was chosen; set encoder in [sweep]" },
    { "[run]\nencoder = plain\n", "no task was chosen; set task in [sweep]" },
    { RUN("plane", "echo"), "f.ini:2: unknown encoder 'plane': did you mean 'plain'?; known: counting, crowd" },
    { RUN("plain", "ecko"), "f.ini:3: unknown task 'ecko': did you mean 'echo'?; known: backward, crash" },
    { "[run]\nencoder = plain\ntask = echo\nseed = 0..\n", "f.ini:4: seed = '0..': expected a whole number, 0..2147483647" },
    { "[run]\nencoder = plain\ntask = echo\nseed = -1\n", "f.ini:4: seed = '-1'" },
    { "[run]\nencoder = plain\ntask = echo\nseed = 2147483648\n", "f.ini:4: seed = '2147483648'" },
    { RUN("plain", "echo") "[model]\nd_modl = 4\n", "f.ini:6: unknown key 'd_modl' in [model]: did you mean 'd_model'?" },
    { RUN("plain", "echo") "[model]\nzzzzz = 4\n", "f.ini:6: unknown key 'zzzzz' in [model]; `lab info model` lists its keys" },
    { RUN("plain", "echo") "[encoder.rich]\nzzzzz = 4\n", "f.ini:6: unknown key 'zzzzz' in [encoder.rich]; `lab info rich` lists its keys" },
    { RUN("plain", "echo") "[encoder.plain]\nsize = 4\n", "f.ini:6: unknown key 'size': [encoder.plain] has no options" },
    { RUN("plain", "echo") "[encoder.rich]\nsize = 0\n", "f.ini:6: size = '0': expected a whole number, 1..1000" },
    { RUN("plain", "echo") "[encoder.ritch]\nsize = 4\n", "f.ini:6: section [encoder.ritch]: unknown encoder 'ritch': did you mean 'rich'?" },
    { RUN("plain", "echo") "[task.rich]\nsize = 4\n", "f.ini:6: section [task.rich]: unknown task 'rich'" },
    { RUN("plain", "echo") "[modle]\nd_model = 4\n", "f.ini:6: unknown section [modle]: did you mean [model]?; known: experiment, sweep" },
    { RUN("plain", "echo") "[zzzzz]\nd_model = 4\n", "f.ini:6: unknown section [zzzzz]; known: experiment, sweep, train, eval, model, " },
    { RUN("plain", "echo") "[train]\nlr = 1e-3x\n", "f.ini:6: lr = '1e-3x': expected a number, 0 to 100" },
    { RUN("plain", "echo") "[train]\nlr = nan\n", "f.ini:6: lr = 'nan'" },
    { RUN("plain", "echo") "[train]\nlr = inf\n", "f.ini:6: lr = 'inf'" },
    { RUN("plain", "echo") "[train]\nlr = 0x1p-3\n", "f.ini:6: lr = '0x1p-3'" },
    { RUN("plain", "echo") "[train]\nsteps = 0\n", "f.ini:6: steps = '0': expected a whole number, 1..100000000" },
    { RUN("plain", "echo") "[train]\nsteps = 10.5\n", "f.ini:6: steps = '10.5'" },
    { RUN("plain", "echo") "[train]\nlength = 8..4\n", "f.ini:6: length = '8..4'" },
    { RUN("plain", "echo") "[train]\nschedule = cosin\n", "f.ini:6: schedule = 'cosin': expected constant | cosine | linear; did you mean 'cosine'?" },
    { RUN("plain", "echo") "[eval]\nlengths = 8, 8\n", "f.ini:6: lengths: 8 is listed twice" },
    { RUN("plain", "echo") "[eval]\nlengths = 8, , 9\n", "f.ini:6: lengths: an item of the list is empty" },
    { RUN("plain", "echo") "[model]\nd_model = 64\nheads = 5\n", "f.ini:7: model.d_model = 64 is not a multiple of model.heads = 5" },
    { RUN("plain", "echo") "[model]\nd_model = 63\n", "f.ini:6: model.d_model = 63 is not a multiple of model.heads = 4" },
    { RUN("forward", "echo"), "f.ini:2: encoder forward is defined for causal models only; set model.causal = yes" },
    { RUN("forward", "echo") "[model]\ncausal = no\n", "f.ini:6: encoder forward is defined for causal models only" },
    { RUN("plain", "next"), "f.ini:3: task next predicts the next token, which a bidirectional model sees; set model.causal = yes" },
    { RUN("plain", "translate") "[model]\ntied = yes\n", "f.ini:6: model.tied = yes needs one vocabulary, but task translate reads 10 tokens and predicts 15" },
    { RUN("needy", "echo"), "f.ini:2: encoder needy needs path: set it in [encoder.needy]" },
    { RUN("plain", "other"), "f.ini:3: task other needs vocab: set it in [task.other]" },
    { RUN("plain", "echo") "[task.echo]\nodd = yes\n", "f.ini:3: task echo: vocab is 10; give an odd one" },
    { RUN("plain", "small") "[train]\nlength = 1..9\n", "f.ini:6: train.length: length 1 is outside task small's range 2..16" },
    { RUN("plain", "small") "[train]\nlength = 4..17\n", "f.ini:6: train.length: length 17 is outside task small's range 2..16" },
    { RUN("plain", "small") "[eval]\nlengths = 8, 17\n", "f.ini:6: eval.lengths: length 17 is outside task small's range 2..16" },
    { RUN("plain", "echo") "[eval]\nselect = test\n", "f.ini:6: select = 'test': expected last | best_valid | best_longer" },
    { RUN("plain", "echo") "[eval]\nselect = best_test\n", "f.ini:6: select = 'best_test': expected last | best_valid | best_longer" },
    { RUN("plain", "echo") "[eval]\nlengths = 12\nselect = best_valid\n", "f.ini:7: eval.select = best_valid needs a trained length in eval.lengths; training is at 8..8" },
    { RUN("plain", "echo") "[eval]\nlengths = 8\nselect = best_longer\n", "f.ini:7: eval.select = best_longer needs a longer length in eval.lengths; training is at 8..8" },
    { RUN("plain", "echo") "[eval]\nselect = best_valid\nevery = 0\n", "f.ini:6: eval.select = best_valid chooses between the evaluations during training, and there is none: set eval.every to 1..2000" },
    { RUN("rich", "echo") "[eval]\nlengths = 8, 801\n", "f.ini:2: encoder rich: size 8 is for 800 positions, needed are 801" },
    { RUN("plain", "echo") "[train]\nbatch = 1000000\nlength = 10000\n", "f.ini:6: train.batch = 1000000 sequences of 10000 tokens are more than" },
    { RUN("plain", "silent"), "f.ini:3: task silent describes itself with vocabularies 10, 0, lengths 1..1000, 1 slices and chance 0.1: the plugin is at fault" },
    { RUN("plain", "backward"), "f.ini:3: task backward describes itself with vocabularies 10, 10, lengths 9..8" },
    { RUN("plain", "tapeless"), "f.ini:3: task tapeless: an example of length 8 has 0 tokens" },
    { RUN("plain", "endless"), "f.ini:3: task endless: an example of length 8 has 2000000000 tokens" },
    { RUN("growing", "echo"), "f.ini:2: encoder growing: parameter 0 depends on the evaluation lengths: the plugin is at fault" },
    { RUN("counting", "echo"), "f.ini:2: encoder counting: parameter 1 depends on the evaluation lengths" },
    { RUN("twins", "echo"), "f.ini:2: encoder twins: two parameters are named w: the plugin is at fault" },
    { RUN("misnamed", "echo"), "f.ini:2: encoder misnamed: parameter 0 has no name of 1 to 63 of a-z, 0-9 and _" },
    { RUN("flat", "echo"), "f.ini:2: encoder flat: parameter w has 0 dimensions, expected 1 to 4" },
    { RUN("deep", "echo"), "f.ini:2: encoder deep: parameter w has 5 dimensions, expected 1 to 4" },
    { RUN("empty", "echo"), "f.ini:2: encoder empty: parameter w has a dimension of 0" },
    { RUN("custom", "echo"), "f.ini:2: encoder custom: parameter w wants param_init, which is missing" },
    { RUN("crowd", "echo"), "f.ini:2: encoder crowd: more than 16 parameters" },
};

static void each_fault_is_named_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct built b;
        struct lab_err err = { "" };
        if (try_build(&b, fake_registry(), refused[i].text, &err) == 0) fail_msg("accepted:\n%s", refused[i].text);
        if (strncmp(err.msg, refused[i].message, strlen(refused[i].message))) fail_msg("found    %s\nexpected %s", err.msg, refused[i].message);
        if (strchr(err.msg, '\n')) fail_msg("more than one line: %s", err.msg);
    }
}

static void what_the_faults_stand_beside_is_accepted(void **state)
{
    (void)state;
    static const char *const good[] = { RUN("forward", "next") "[model]\ncausal = yes\n", RUN("plain", "translate"),
        RUN("needy", "other") "[encoder.needy]\npath =\n[task.other]\nvocab = 2\n", RUN("rich", "small") "[train]\nlength = 2..16\n",
        RUN("plain", "echo") "[train]\nlength = 100000\nbatch = 1342\n" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct built b;
        build(&b, good[i]);
        release(&b);
    }
}

/* ---- memory ---- */

static void lost_memory_loses_nothing_else(void **state)
{
    (void)state;
    struct conf conf;
    struct run_config c;
    long n = 1;
    OK(conf_read_text(&conf, "f.ini", base, strlen(base), &err));
    for (int rc = -1; rc != 0; n++) {
        struct lab_err err = { "" };
        mem_fail_at(n);
        rc = config_build(&c, conf.entry, conf.n, fake_registry(), &err);
        mem_fail_at(0);
        if (rc == 0) config_free(&c);
        else if (!strstr(err.msg, "memory")) fail_msg("allocation %ld: '%s'", n, err.msg);
        assert_int_equal(fake_live, 0);
    }
    assert_true(n > 5);                                              /* two instances and three texts at least */
    conf_free(&conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_is_the_hash_of_canonical_json),
        cmocka_unit_test(the_defaults_have_the_key_they_always_had),
        cmocka_unit_test(spelling_changes_nothing),
        cmocka_unit_test(each_key_changes_the_identity),
        cmocka_unit_test(positions_count_once_they_are_not_sequential),
        cmocka_unit_test(what_selects_the_weights_is_part_of_them),
        cmocka_unit_test(settings_give_the_same_run_back),
        cmocka_unit_test(the_longest_list_comes_back),
        cmocka_unit_test(lengths_and_dims_are_on_the_tape),
        cmocka_unit_test(each_fault_is_named_with_its_line),
        cmocka_unit_test(what_the_faults_stand_beside_is_accepted),
        cmocka_unit_test(lost_memory_loses_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
