/* cmd_list -- lab list: the encoders and tasks at hand, where each is from, and the files that were refused and why.
 * Loads plugins and starts nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answer/table.h"
#include "base/str.h"
#include "base/mem.h"
#include "cli/cmd.h"

static const char *const kind_name[] = { "encoder", "task" };

/* The path from the current folder, if it lies in there. */
static const char *shorter(const char *path)
{
    char here[4096];
    if (!getcwd(here, sizeof here)) return path;
    size_t n = strlen(here);
    return !strncmp(path, here, n) && path[n] == '/' ? path + n + 1 : path;
}

static const struct plugin_file *file_of(const struct registry *r, const struct plugin_entry *e) { return &r->file[e->file]; }

static const char *summary_of(const struct plugin_entry *e)
{
    const char *summary = e->kind == PLUGIN_ENCODER ? e->encoder->summary : e->task->summary;
    return summary ? summary : "";
}

static const char *version_of(const struct registry *r, const struct plugin_entry *e)
{
    const char *version = file_of(r, e)->plugin->version;
    return version ? version : "";
}

static const struct plugin_file *shadow_of(const struct registry *r, const struct plugin_entry *e)
{
    return e->shadowed_by < 0 ? NULL : file_of(r, &r->entry[e->shadowed_by]);
}

static void add_row(struct table *t, const struct registry *r, const struct plugin_entry *e)
{
    struct str note = { 0 };
    const struct plugin_file *shadow = shadow_of(r, e);
    if (shadow) str_printf(&note, "shadowed by %s", shorter(shadow->path));
    table_add(t, e->name);
    table_add(t, version_of(r, e));
    table_add(t, summary_of(e));
    table_add(t, shorter(file_of(r, e)->path));
    table_add(t, str_text(&note));
    t->failed |= note.failed;
    str_free(&note);
}

static void add_table(struct str *out, const struct registry *r, enum plugin_kind kind, size_t *order)
{
    const char *const header[] = { kind_name[kind], "version", "summary", "file", "note" };
    struct table t;
    size_t n = registry_sorted(r, kind, order);
    table_init(&t, 5);
    for (int i = 0; i < 5; i++) table_add(&t, header[i]);
    for (size_t i = 0; i < n; i++) add_row(&t, r, &r->entry[order[i]]);
    if (n) table_write(&t, TABLE_TEXT, out);
    else str_printf(out, "no %s was found; `make` builds them, --plugin names others\n", kind_name[kind]);
    str_add(out, "\n");
    out->failed |= t.failed;
    table_free(&t);
}

/* For a narrow terminal: names and summaries; what else there is, `lab info` tells. */
static void add_short_table(struct str *out, const struct registry *r, enum plugin_kind kind, size_t *order, size_t columns)
{
    struct table t;
    size_t n = registry_sorted(r, kind, order);
    table_init(&t, 2);
    table_add(&t, kind_name[kind]), table_add(&t, "summary");
    for (size_t i = 0; i < n; i++) {
        const struct plugin_entry *e = &r->entry[order[i]];
        struct str text = { 0 };
        str_add(&text, summary_of(e));
        if (shadow_of(r, e)) str_printf(&text, " (%s: shadowed by %s)", shorter(file_of(r, e)->path), shorter(shadow_of(r, e)->path));
        table_add(&t, e->name), table_add(&t, str_text(&text));
        t.failed |= text.failed;
        str_free(&text);
    }
    table_text(&t, columns, out);
    str_add(out, "\n");
    out->failed |= t.failed;
    table_free(&t);
}

static void add_refused(struct str *out, const struct registry *r, size_t columns)
{
    int refused = 0;
    for (size_t i = 0; i < r->n_file; i++) {
        struct str line = { 0 };
        if (r->file[i].plugin) continue;
        if (!refused++) str_add(out, "refused:\n");
        str_printf(&line, "  %s: %s", shorter(r->file[i].path), r->file[i].refusal);
        table_paragraph(out, str_text(&line), columns ? columns : line.len + 1, 4);
        out->failed |= line.failed;
        str_free(&line);
    }
    if (!refused) str_add(out, columns ? "`lab info NAME` tells more, also where it comes from.\n" : "`lab info NAME` tells more.\n");
}

static void add_text(struct str *out, const struct registry *r, size_t *order)
{
    add_table(out, r, PLUGIN_ENCODER, order);
    add_table(out, r, PLUGIN_TASK, order);
    add_refused(out, r, 0);
}

static void add_short_text(struct str *out, const struct registry *r, size_t *order, size_t columns)
{
    add_short_table(out, r, PLUGIN_ENCODER, order, columns);
    add_short_table(out, r, PLUGIN_TASK, order, columns);
    add_refused(out, r, columns);
}

static void add_json_entries(struct str *out, const struct registry *r, enum plugin_kind kind, size_t *order)
{
    const char *between = "";
    size_t n = registry_sorted(r, kind, order);
    str_printf(out, "\"%ss\":[", kind_name[kind]);
    for (size_t i = 0; i < n; i++) {
        const struct plugin_entry *e = &r->entry[order[i]];
        str_printf(out, "%s{\"name\":\"%s\",\"version\":", between, e->name);
        str_json(out, version_of(r, e));
        str_add(out, ",\"summary\":");
        str_json(out, summary_of(e));
        str_add(out, ",\"file\":");
        str_json(out, file_of(r, e)->path);
        str_add(out, ",\"shadowed_by\":");
        if (shadow_of(r, e)) str_json(out, shadow_of(r, e)->path);
        else str_add(out, "null");
        str_add(out, "}");
        between = ",";
    }
    str_add(out, "],");
}

static void add_json(struct str *out, const struct registry *r, size_t *order)
{
    const char *between = "";
    str_add(out, "{");
    add_json_entries(out, r, PLUGIN_ENCODER, order);
    add_json_entries(out, r, PLUGIN_TASK, order);
    str_add(out, "\"refused\":[");
    for (size_t i = 0; i < r->n_file; i++) {
        if (r->file[i].plugin) continue;
        str_printf(out, "%s{\"file\":", between);
        str_json(out, r->file[i].path);
        str_add(out, ",\"reason\":");
        str_json(out, r->file[i].refusal);
        str_add(out, "}");
        between = ",";
    }
    str_add(out, "]}\n");
}

int cmd_list(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_many plugin = { .n = 0 };
    int json = 0;
    const struct cli_option option[] = { CLI_JSON(&json), CLI_PLUGIN(&plugin), CLI_END };
    struct registry registry;
    struct lab_err err;
    struct str out = { 0 };
    int rc = cli_parse(cmd, option, &argc, argv);
    if (rc != 0) return rc > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc > 1) {
        lab_fail(&err, "takes no argument, found '%.80s'; `lab info %.80s` describes it", argv[1], argv[1]);
        return cli_fail(cmd, EXIT_USAGE, &err);
    }
    if (cli_registry(&registry, &plugin, &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    size_t *order = mem_alloc((registry.n_entry + 1) * sizeof *order, &err);
    if (!order) out.failed = 1;
    else if (json) add_json(&out, &registry, order);
    else add_text(&out, &registry, order);
    size_t columns = (size_t)cli_terminal();
    if (order && !json && columns && cli_wide(&out, columns)) str_clear(&out), add_short_text(&out, &registry, order, columns);
    free(order);
    fputs(str_text(&out), stdout);
    if (out.failed) lab_fail(&err, "out of memory: the list is cut"), rc = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    str_free(&out);
    registry_free(&registry);
    return rc;
}
