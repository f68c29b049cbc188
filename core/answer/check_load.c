/* check_load -- the tests of a file, and of what its encoders and tasks say about themselves. */
#include <string.h>
#include "answer/check_test.h"
#include "answer/object.h"
#include "base/clock.h"
#include "host/option.h"
#include "host/plugin.h"

enum { LOAD_MS = 500 };              /* a plugin is loaded by every command and every worker */

/* The loader's message ends in the cure, behind a semicolon. */
static void fail_to_load(struct check_case *c, const char *message)
{
    char seen[sizeof ((struct lab_err *)0)->msg];
    snprintf(seen, sizeof seen, "%s", message);
    char *cure = strstr(seen, "; ");
    if (cure) *cure = '\0';
    check_fail(c, "a plugin for this lab", cure ? cure + 2 : "the file is no plugin, or one that was linked wrongly", "%s", seen);
}

static const struct lab_plugin *load(struct check_case *c)
{
    const struct lab_plugin *p;
    struct lab_err err;
    check_doing(c, "loading the file");
    if (plugin_open(c->path, &p, &err) != 0) check_doing(c, "%s", ""), fail_to_load(c, err.msg);
    check_doing(c, "%s", "");
    return p;
}

static void add_entry(struct check_answer *a, int subject, const char *name)
{
    if (a->n_entry == CHECK_ENTRIES) return;
    a->entry[a->n_entry].subject = subject;
    snprintf(a->entry[a->n_entry++].name, sizeof a->entry->name, "%s", name);
}

static void test_file(struct check_case *c)
{
    const struct lab_plugin *p = load(c);
    struct check_answer *a = c->answer;
    snprintf(a->plugin, sizeof a->plugin, "plugin %.63s, version %.40s, ABI %u.%u, %s", p->name, p->version ? p->version : "?",
             p->abi_major, p->abi_minor, sizeof(lab_real) == sizeof(float) ? "float" : "double");
    for (int i = 0; p->encoders && p->encoders[i]; i++) add_entry(a, CHECK_THE_ENCODER, p->encoders[i]->name);
    for (int i = 0; p->tasks && p->tasks[i]; i++) add_entry(a, CHECK_THE_TASK, p->tasks[i]->name);
    if (a->n_entry == CHECK_ENTRIES) check_note(c, "only the first %d encoders and tasks are checked", CHECK_ENTRIES);
}

static void test_exports(struct check_case *c)
{
    struct str names = { 0 };
    if (object_exports(c->path, &names) != 0) check_skip(c, "the file has no section headers to count its symbols by");
    if (!strcmp(str_text(&names), "lab_plugin_entry")) return;
    check_fail(c, "one export, lab_plugin_entry", "functions that are not static; or compile with -fvisibility=hidden",
               "exports: %.300s", str_text(&names));
}

static int is_system_library(const char *name, size_t n)
{
    static const char *const known[] = { "libm.so.", "libc.so.", "libmvec.so.", "ld-linux", "libgcc_s.so.",
#ifdef __SANITIZE_ADDRESS__
                                         "libasan.so.", "libubsan.so.",
#endif
                                         NULL };
    for (int i = 0; known[i]; i++)
        if (n > strlen(known[i]) && !strncmp(name, known[i], strlen(known[i]))) return 1;
    return 0;
}

static void test_libraries(struct check_case *c)
{
    struct object object;
    struct str needed = { 0 };
    load(c);
    if (object_find(&object, c->path) != 0) check_skip(c, "the dynamic linker does not tell");
    object_needed(&object, &needed);
    for (const char *name = str_text(&needed); *name; name += strspn(name, " ")) {
        size_t n = strcspn(name, " ");
        if (!is_system_library(name, n))
            check_fail(c, "nothing but the C and mathematics libraries", "a -l too many; a plugin must load on any machine that has lab",
                       "needs %.*s", (int)n, name);
        name += n;
    }
}

static void test_time(struct check_case *c)
{
    int64_t start = clock_ns();
    load(c);
    double ms = (double)(clock_ns() - start) / 1e6;
    check_note(c, "%.1f ms", ms);
    if (ms > LOAD_MS) check_fail(c, "loaded within half a second", "work in a constructor; do it in init", "%.0f ms", ms);
}

const struct check_test check_load_tests[] = {
    { "load.file", "does the loader take it?  entry, versions, sizes, real type, hooks in pairs, option tables", NULL, test_file, 0 },
    { "load.exports", "is lab_plugin_entry the only name that it exports?", "load.file", test_exports, 0 },
    { "load.libraries", "does it need only the C and mathematics libraries?", "load.file", test_libraries, 0 },
    { "load.time", "is it loaded within half a second?", "load.file", test_time, 0 },
    { NULL, NULL, NULL, NULL, 0 } };

/* ---- words and options: of encoders and of tasks ---- */

static void check_line(struct check_case *c, const char *what, const char *text, int must)
{
    enum { LONGEST = 400 };
    const char *cause = "`lab list` and `lab info` print it as it is";
    if (!text || !*text) {
        if (must) check_fail(c, "a line of text", cause, "no %s", what);
        return;
    }
    if (strlen(text) > LONGEST) check_fail(c, "a line of at most 400 bytes", cause, "%s has %zu", what, strlen(text));
    if (str_utf8(text, strlen(text)) != strlen(text)) check_fail(c, "UTF-8", cause, "%s is not", what);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) check_fail(c, "one line without control characters", cause, "byte 0x%02x in %s", *p, what);
}

void check_words(struct check_case *c)
{
    check_line(c, "summary", c->encoder ? c->encoder->summary : c->task->summary, 1);
    check_line(c, "cite", c->encoder ? c->encoder->cite : c->task->cite, 0);
}

/* Written out and read back, a value is the same; beyond its bounds it is refused. */
static void check_value(struct check_case *c, const struct lab_option *row, void *self, const char *text, int fits)
{
    struct str again = { 0 };
    struct lab_err err;
    int taken = option_set(row, self, text, &err) == 0;
    if (taken != fits)
        check_fail(c, fits ? "a bound that is itself allowed" : "a value outside the bounds to be refused", "bounds that a double cannot tell apart",
                   "%s = %s is %s", row->name, text, taken ? "taken" : "refused");
    if (taken) option_print(&again, row, self);
    if (taken && option_set(row, self, str_text(&again), &err) != 0)
        check_fail(c, "a value that can be written down and read back", "bounds that a decimal number cannot meet", "%s", err.msg);
}

void check_options(struct check_case *c)
{
    const struct lab_option *table = c->encoder ? c->encoder->options : c->task->options;
    _Alignas(16) static char self[1 << 16];
    if (!table || !table->name) check_skip(c, "no options");
    if ((c->encoder ? c->encoder->self_size : c->task->self_size) > sizeof self) check_skip(c, "self is too large to try");
    for (const struct lab_option *row = table; row->name; row++) {
        char text[3][40];
        check_line(c, row->name, row->help, 1);
        if (row->def) check_value(c, row, self, row->def, 1);
        if (row->type != LAB_T_INT) continue;
        snprintf(text[0], sizeof text[0], "%.0f", row->lo), snprintf(text[1], sizeof text[1], "%.0f", row->hi);
        snprintf(text[2], sizeof text[2], "%.0f", row->hi + 1);
        for (int i = 0; i < 3; i++) check_value(c, row, self, text[i], i < 2);
    }
    if (option_find(table, "no_such_option")) check_fail(c, "an unknown name to be unknown", "a row without end", "no_such_option is found");
}

