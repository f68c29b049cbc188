/* cmd_info -- lab info NAME: an encoder, a task, or a section of experiment files, with its options.
 * The rows come from the tables that read the files, so they cannot differ from what is accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer/table.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "exp/config.h"
#include "host/option.h"

/* The host's own sections. */
static const struct section { const char *name, *summary; const struct lab_option *table; size_t size; } section[] = {
    { "model", "the Transformer that is trained", config_model_table, sizeof(struct model_options) },
    { "train", "how it is trained", config_train_table, sizeof(struct train_options) },
    { "eval", "on what it is evaluated", config_eval_table, sizeof(struct eval_options) },
    { "limits", "what a run may use, and how often it is saved", config_limits_table, sizeof(struct limits_options) },
    { "positions", "where position ids come from", config_positions_table, sizeof(struct positions_options) },
};
enum { N_SECTION = sizeof section / sizeof *section };

struct word { uint32_t flag; const char *name, *meaning; };
static const struct word encoder_word[] = {
    { LAB_E_SHIFT_INVARIANT, "shift_invariant", "only differences of positions matter" },
    { LAB_E_LAYER_INVARIANT, "layer_invariant", "its bias is equal in every layer" },
    { LAB_E_CAUSAL_ONLY, "causal_only", "for causal models only" }, { 0, NULL, NULL } };
static const struct word task_word[] = {
    { LAB_TASK_EXCHANGEABLE, "exchangeable", "every order of the input is equally likely, so the order-blind ceiling is known" },
    { LAB_TASK_REORDERS, "reorders", "an example can be put in another order, so the order-blind ceiling is known" },
    { LAB_TASK_CAUSAL, "causal", "made for a causal model: each target is the next token" },
    { LAB_TASK_POSITIONS, "positions", "gives its own position ids" }, { 0, NULL, NULL } };

struct subject {                     /* what is described: an encoder, a task or a section */
    const char *kind, *name, *summary, *cite;
    const struct lab_option *options;
    size_t self_size;
    const struct plugin_file *file;  /* NULL for a section, as the fields below */
    const struct lab_encoder *encoder;
    const struct lab_task *task;
    uint32_t flags;
    const struct word *word;
    void *self;                      /* the default options; owned */
    const char *missing;             /* an option without default, or NULL */
    struct lab_task_info info;       /* of a task with default options ... */
    struct lab_err info_err;         /* ... or why there is none; "" */
};

/* ---- facts ---- */

static void ask_task(struct subject *s)
{
    const struct lab_task *t = s->task;
    s->info.size = sizeof s->info;
    if (s->missing) lab_fail(&s->info_err, "not known until option %s is given", s->missing);
    else if (t->init(s->self, &s->info, &s->info_err) == 0 && t->fini) t->fini(s->self);
}

static int subject_init(struct subject *s, struct lab_err *err)
{
    s->self = mem_alloc(s->self_size, err);
    if (!s->self || option_defaults(s->options, s->self, &s->missing, err) != 0) return -1;
    if (s->task) ask_task(s);
    return 0;
}

static struct subject of_section(const struct section *x)
{
    return (struct subject){ .kind = "section", .name = x->name, .summary = x->summary, .options = x->table,
                             .self_size = x->size };
}

static struct subject of_entry(const struct registry *r, const struct plugin_entry *e)
{
    struct subject s = { .name = e->name, .file = &r->file[e->file], .encoder = e->encoder, .task = e->task };
    if (e->kind == PLUGIN_ENCODER) {
        s.kind = "encoder", s.summary = e->encoder->summary, s.cite = e->encoder->cite, s.options = e->encoder->options;
        s.self_size = e->encoder->self_size, s.flags = e->encoder->flags, s.word = encoder_word;
    } else {
        s.kind = "task", s.summary = e->task->summary, s.cite = e->task->cite, s.options = e->task->options;
        s.self_size = e->task->self_size, s.flags = e->task->flags, s.word = task_word;
    }
    return s;
}

static int hook_names(const struct lab_encoder *e, const char *name[5])
{
    int n = 0;
    if (e->embed) name[n++] = "embed";
    if (e->qk) name[n++] = "qk";
    if (e->bias) name[n++] = "bias";
    if (e->logits) name[n++] = "logits";
    if (e->value) name[n++] = "value";
    return n;
}

/* ---- as text ---- */

static void add_options(struct str *out, const struct subject *s, size_t columns)
{
    static const char *const header[] = { "option", "type", "default", "range", "help" };
    struct table t;
    str_printf(out, "\n[%s%s%s]\n", s->file ? s->kind : "", s->file ? "." : "", s->name);
    if (!s->options || !s->options->name) {
        str_add(out, "no options\n");
        return;
    }
    table_init(&t, 5);
    for (int i = 0; i < 5; i++) table_add(&t, header[i]);
    for (const struct lab_option *row = s->options; row->name; row++) {
        struct str text = { 0 };
        table_add(&t, row->name);
        table_add(&t, option_type(row));
        option_print(&text, row, s->self);
        table_add(&t, row->def ? str_text(&text) : s->file ? "must be given" : "-");
        str_clear(&text);
        option_print_domain(&text, row);
        table_add(&t, str_text(&text));
        table_add(&t, row->help);
        t.failed |= text.failed;
        str_free(&text);
    }
    table_text(&t, columns, out);
    out->failed |= t.failed;
    table_free(&t);
}

static void add_hooks(struct str *out, const struct lab_encoder *e)
{
    const char *name[5];
    int n = hook_names(e, name);
    str_add(out, "  hooks    ");
    for (int i = 0; i < n; i++) str_printf(out, "%s%s", i ? ", " : "", name[i]);
    str_add(out, n ? "\n" : "none\n");
}

static void add_task(struct str *out, const struct subject *s)
{
    if (*s->info_err.msg) {
        str_printf(out, "  tokens, lengths, chance: %s\n", s->info_err.msg);
        return;
    }
    str_printf(out, "  tokens   %d in, %d out, with default options\n", s->info.vocab_in, s->info.vocab_out);
    str_printf(out, "  lengths  %d..%d\n  chance   ", s->info.min_len, s->info.max_len);
    str_real(out, s->info.chance);
    str_add(out, " token accuracy\n");
}

static void add_facts(struct str *out, const struct subject *s)
{
    str_printf(out, "%s %s%s%s\n", s->kind, s->name, s->summary ? ": " : "", s->summary ? s->summary : "");
    if (s->cite) str_printf(out, "  paper    %s\n", s->cite);
    if (s->file) {
        const struct lab_plugin *p = s->file->plugin;
        str_printf(out, "  file     %s (sha256 %.16s)\n", s->file->path, s->file->sha256);
        if (p->version) str_printf(out, "  version  %s\n", p->version);
        if (p->license) str_printf(out, "  license  %s\n", p->license);
    }
    if (s->encoder) add_hooks(out, s->encoder);
    if (s->task) add_task(out, s);
    for (const struct word *w = s->word; w && w->name; w++)
        if (s->flags & w->flag) str_printf(out, "  %s: %s\n", w->name, w->meaning);
}

/* columns: of the terminal, 0 elsewhere. */
static void add_text(struct str *out, const struct subject *s, size_t columns)
{
    struct str facts = { 0 };
    add_facts(&facts, s);
    const char *line = str_text(&facts);
    for (char *end; columns && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        table_paragraph(out, line, columns, 11);
    }
    str_add(out, line);
    out->failed |= facts.failed;
    str_free(&facts);
    add_options(out, s, columns);
}

/* ---- as JSON ---- */

static void add_member(struct str *out, const char *key, const char *text)
{
    str_printf(out, ",\"%s\":", key);
    if (text) str_json(out, text);
    else str_add(out, "null");
}

static void add_json_options(struct str *out, const struct subject *s)
{
    str_add(out, ",\"options\":[");
    for (const struct lab_option *row = s->options; row && row->name; row++) {
        struct str domain = { 0 };
        option_print_domain(&domain, row);
        str_printf(out, "%s{\"name\":\"%s\",\"type\":\"%s\",\"default\":", row == s->options ? "" : ",", row->name,
                   option_type(row));
        if (row->def) option_print_json(out, row, s->self);
        else str_add(out, "null");
        add_member(out, "range", str_text(&domain));
        add_member(out, "help", row->help);
        str_add(out, "}");
        out->failed |= domain.failed;
        str_free(&domain);
    }
    str_add(out, "]");
}

static void add_json_plugin(struct str *out, const struct subject *s)
{
    const char *between = "";
    add_member(out, "file", s->file->path);
    add_member(out, "sha256", s->file->sha256);
    add_member(out, "version", s->file->plugin->version);
    add_member(out, "license", s->file->plugin->license);
    str_add(out, ",\"flags\":[");
    for (const struct word *w = s->word; w->name; w++)
        if (s->flags & w->flag) str_printf(out, "%s\"%s\"", between, w->name), between = ",";
    str_add(out, "]");
}

static void add_json_task(struct str *out, const struct subject *s)
{
    if (*s->info_err.msg) {
        add_member(out, "defaults_refused", s->info_err.msg);
        return;
    }
    str_printf(out, ",\"vocab_in\":%d,\"vocab_out\":%d,\"min_len\":%d,\"max_len\":%d,\"chance\":", s->info.vocab_in,
               s->info.vocab_out, s->info.min_len, s->info.max_len);
    str_real(out, s->info.chance);
}

static void add_json(struct str *out, const struct subject *s)
{
    str_printf(out, "{\"kind\":\"%s\",\"name\":\"%s\"", s->kind, s->name);
    add_member(out, "summary", s->summary);
    add_member(out, "cite", s->cite);
    if (s->file) add_json_plugin(out, s);
    if (s->encoder) {
        const char *name[5];
        int n = hook_names(s->encoder, name);
        str_add(out, ",\"hooks\":[");
        for (int i = 0; i < n; i++) str_printf(out, "%s\"%s\"", i ? "," : "", name[i]);
        str_add(out, "]");
    }
    if (s->task) add_json_task(out, s);
    add_json_options(out, s);
    str_add(out, "}");
}

/* ---- the command ---- */

/* Everything of that name: a task may be called as an encoder is.  -1: out of memory. */
static int add_subjects(struct str *out, const struct registry *r, const char *name, int json, int *found, struct lab_err *err)
{
    size_t n_all = N_SECTION + r->n_entry;
    for (size_t i = 0; i < n_all; i++) {
        const struct plugin_entry *e = i < N_SECTION ? NULL : &r->entry[i - N_SECTION];
        if (strcmp(e ? e->name : section[i].name, name) || (e && e->shadowed_by >= 0)) continue;
        struct subject s = e ? of_entry(r, e) : of_section(&section[i]);
        int rc = subject_init(&s, err);
        if (rc == 0 && (*found)++) str_add(out, json ? "," : "\n");
        if (rc == 0 && json) add_json(out, &s);
        else if (rc == 0) add_text(out, &s, (size_t)cli_terminal());
        free(s.self);
        if (rc != 0) return -1;
    }
    return 0;
}

static int unknown(const struct registry *r, const char *name, struct lab_err *err)
{
    const char **known = mem_alloc((N_SECTION + r->n_entry + 1) * sizeof *known, err);
    const struct plugin_file *refused = registry_refused(r, name);
    struct str list = { 0 };
    size_t n = 0;
    if (!known) return -1;
    for (size_t i = 0; i < r->n_entry; i++) if (r->entry[i].shadowed_by < 0) known[n++] = r->entry[i].name;
    for (size_t i = 0; i < N_SECTION; i++) known[n++] = section[i].name;
    for (size_t i = 0; i < n; i++) str_printf(&list, "%s%s", i ? ", " : "", known[i]);
    const char *near = str_nearest(name, known);
    if (refused)
        lab_fail(err, "'%.80s' is not available: %s: %s", name, refused->path, refused->refusal);
    else
        lab_fail(err, "unknown name '%.80s'%s%s%s; known: %s", name, near ? ": did you mean '" : "", near ? near : "",
                 near ? "'?" : "", str_text(&list));
    str_free(&list);
    free(known);
    return -1;
}

int cmd_info(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_many plugin = { .n = 0 };
    int json = 0, found = 0;
    const struct cli_option option[] = { CLI_JSON(&json), CLI_PLUGIN(&plugin), CLI_END };
    struct registry registry;
    struct lab_err err;
    struct str out = { 0 };
    int rc = cli_parse(cmd, option, &argc, argv);
    if (rc != 0) return rc > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        lab_fail(&err, "needs one NAME, found %d; `lab list` shows them", argc - 1);
        return cli_fail(cmd, EXIT_USAGE, &err);
    }
    if (cli_registry(&registry, &plugin, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    if (json) str_add(&out, "[");
    rc = add_subjects(&out, &registry, argv[1], json, &found, &err);
    if (json) str_add(&out, "]\n");
    if (rc == 0 && !found) rc = unknown(&registry, argv[1], &err);
    if (rc == 0 && out.failed) rc = lab_fail(&err, "out of memory");
    if (rc == 0) fputs(str_text(&out), stdout);
    str_free(&out);
    registry_free(&registry);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, EXIT_USAGE, &err);
}
