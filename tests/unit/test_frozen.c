/* test_frozen -- a plan that is frozen gives the same runs again, whatever becomes of the user's file; anything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/whole.h"
#include "exp/frozen.h"

static struct lab_err err;
#define OK(call) do { err.msg[0] = '\0'; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)

static const char text[] = "[experiment]\nname = f\n[sweep]\nencoder = none, rope\ntask = reverse\nseed = 0..2   ; three\n[train]\nsteps = 5\n";
static const char encoders[] = TEST_BUILD "/plugins/encoders", tasks[] = TEST_BUILD "/plugins/tasks";
static const char *const given[] = { encoders, tasks };
static char folder[64], plan[128];

static int make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lab_frozen_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(plan, sizeof plan, "%s/a/plan", folder);
    return 0;
}

static int clean(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

struct built { struct conf conf; struct registry registry; struct sweep sweep; };

static void build(struct built *b, const char *set)
{
    OK(conf_read_text(&b->conf, "dir/my.ini", text, strlen(text), &err));
    if (set) OK(conf_override(&b->conf, set, &err));
    OK(registry_load(&b->registry, given, 2, &err));
    OK(sweep_build(&b->sweep, &b->conf, &b->registry, &err));
}

static void release(struct built *b)
{
    sweep_free(&b->sweep);
    registry_free(&b->registry);
    conf_free(&b->conf);
}

static int freeze(const char *set, int64_t in_tasks)
{
    struct built b;
    build(&b, set);
    int rc = frozen_write(plan, &b.sweep, given, 2, in_tasks, &err);
    release(&b);
    return rc;
}

static void refused(int rc, const char *part)
{
    if (rc == 0) fail_msg("was accepted; expected '%s'", part);
    if (!strstr(err.msg, part)) fail_msg("'%s' has no '%s' in it", err.msg, part);
    if (strchr(err.msg, '\n')) fail_msg("more than one line: %s", err.msg);
}

static int reads(void)
{
    struct frozen f;
    int rc = frozen_read(&f, plan, &err);
    if (rc == 0) frozen_release(&f);
    return rc;
}

/* Replaces a text in one of the plan's files. */
static void edit(const char *file, const char *from, const char *to)
{
    char path[256], bytes[65536] = "";
    snprintf(path, sizeof path, "%s/%s", plan, file);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes - 1, f);
    char *at = strstr(bytes, from);
    if (!at) fail_msg("%s: has no '%s'", file, from);
    rewind(f);
    assert_int_equal(ftruncate(fileno(f), 0), 0);
    fwrite(bytes, 1, (size_t)(at - bytes), f);
    fputs(to, f);
    fwrite(at + strlen(from), 1, n - (size_t)(at - bytes) - strlen(from), f);
    fclose(f);
}

static void what_is_read_is_what_was_written(void **state)
{
    (void)state;
    struct built b;
    struct frozen f;
    build(&b, "train.lr=2e-3");
    OK(frozen_write(plan, &b.sweep, given, 2, 3, &err));
    OK(frozen_read(&f, plan, &err));
    assert_int_equal(f.sweep.n, 6);
    assert_int_equal(f.head.runs, 6);
    assert_int_equal(f.head.tasks, 3);
    assert_string_equal(f.head.name, "f");
    assert_int_equal(f.head.n_set, 1);
    assert_string_equal(f.head.set[0], "train.lr=2e-3");
    assert_int_equal(f.head.n_plugin, 2);
    assert_int_equal(f.head.plugin[0][0], '/');
    assert_string_equal(f.conf.path, "dir/my.ini");
    assert_string_equal(f.conf.sha256, b.conf.sha256);       /* the sweep that `lab run` with the same --set enters */
    for (size_t i = 0; i < 6; i++) assert_string_equal(f.sweep.run[i].config.key, b.sweep.run[i].config.key);
    frozen_release(&f);
    release(&b);
}

static void each_run_is_a_line(void **state)
{
    (void)state;
    char path[256], *line = NULL;
    size_t cap = 0, n = 0;
    struct built b;
    build(&b, NULL);
    OK(frozen_write(plan, &b.sweep, given, 2, 1, &err));
    snprintf(path, sizeof path, "%s/runs.jsonl", plan);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; getline(&line, &cap, f) > 0; n++) {
        char want[128];
        snprintf(want, sizeof want, "{\"ordinal\":%zu,\"run_key\":\"%s\",\"config\":{", n, b.sweep.run[n].config.key);
        assert_memory_equal(line, want, strlen(want));
        char hex[HASH_HEX], *config = strstr(line, "\"config\":") + 9;
        hash_bytes(config, strlen(config) - 2, hex);         /* run_key is the hash of the configuration, without "}\n" */
        assert_string_equal(hex, b.sweep.run[n].config.key);
    }
    assert_int_equal(n, 6);
    fclose(f);
    free(line);
    release(&b);
}

static void the_same_plan_again_is_fine(void **state)
{
    struct frozen_head head;
    char created[FROZEN_TIME];
    (void)state;
    OK(freeze(NULL, 3));
    OK(frozen_head_read(&head, plan, &err));
    strcpy(created, head.created);
    frozen_head_release(&head);
    OK(freeze(NULL, 8));
    OK(frozen_head_read(&head, plan, &err));
    assert_int_equal(head.tasks, 8);
    assert_string_equal(head.created, created);
    frozen_head_release(&head);
}

static void another_plan_is_refused(void **state)
{
    char path[256];
    (void)state;
    OK(freeze(NULL, 1));
    refused(freeze("train.steps=6", 1), "holds another plan (f, 6 runs");
    refused(freeze("eval.every=7", 1), "holds another plan");        /* the same runs, otherwise evaluated */
    OK(reads());
    snprintf(plan, sizeof plan, "%s", folder);
    snprintf(path, sizeof path, "%s/mine", folder);
    fclose(fopen(path, "w"));
    refused(freeze(NULL, 1), "is not empty (");
}

/* A writer that was killed left all but plan.json. */
static void half_a_plan_is_none_and_is_mended(void **state)
{
    char path[256];
    (void)state;
    refused(reads(), "is not a plan");
    OK(freeze(NULL, 1));
    snprintf(path, sizeof path, "%s/plan.json", plan);
    unlink(path);
    refused(reads(), "is not a plan (it has no plan.json)");
    OK(freeze(NULL, 1));
    OK(reads());
}

static void what_was_changed_is_refused(void **state)
{
    static const struct { const char *file, *from, *to, *refusal; } table[] = {
        { "plan.ini", "steps = 5", "steps = 6", "run 0 (reverse none seed 0) is " },
        { "plan.ini", "0..2", "0..3", "run 3 (reverse none seed 3) is " },
        { "plan.ini", "three", "drei", "do not belong together" },
        { "plan.ini", "[train]", "[train", "does not end" },
        { "plan.json", "\"format\": 1", "\"format\": 2", "its format is 2, this lab reads 1" },
        { "plan.json", "\"runs\"", "\"rums\"", "unknown key 'rums'" },
        { "plan.json", "\"tasks\": 3", "\"tasks\": 0", "tasks is 0, expected 1 to" },
        { "plan.json", "\"tasks\": 3", "\"tasks\": -3", "expected a whole number" },
        { "plan.json", "\"set\": []", "\"set\": [\"train.lr\"]", "is not SECTION.KEY=VALUE" },
        { "plan.json", "\"set\": []", "\"set\": [\"train.lr=1\"]", "run 0 (reverse none seed 0) is " },
        { "plan.json", "\"set\": []", "\"set\": [\"a", "expected ',' before" },
        { "plan.json", "plugins/tasks", "plugins/nothing", "nothing" },
        { "plan.json", "{", "", "expected '{'" } };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        snprintf(plan, sizeof plan, "%s/%zu", folder, i);
        OK(freeze(NULL, 3));
        edit(table[i].file, table[i].from, table[i].to);
        refused(reads(), table[i].refusal);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    OK(freeze(NULL, 1));
    int failed = 0;
    for (long n = 1; ; n += 7) {
        struct frozen f;
        mem_fail_at(n);
        int rc = frozen_read(&f, plan, &err);
        mem_fail_at(0);
        if (rc == 0) { frozen_release(&f); break; }
        failed++;
    }
    assert_true(failed > 10);
}

static void files_are_whole_or_not_there(void **state)
{
    char path[256], hex[2][HASH_HEX];
    struct whole w;
    struct stat st;
    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    OK(whole_open(&w, path, &err));
    fputs("half", w.file);
    assert_int_not_equal(stat(path, &st), 0);
    whole_abandon(&w);
    assert_int_not_equal(stat(path, &st), 0);
    assert_int_not_equal(stat(w.temporary, &st), 0);
    OK(whole_open(&w, path, &err));
    fputs("whole", w.file);
    OK(whole_close(&w, &err));
    snprintf(plan, sizeof plan, "%s/copy", folder);
    OK(whole_copy(path, plan, &err));
    OK(hash_file(path, hex[0], &err));
    OK(hash_file(plan, hex[1], &err));
    assert_string_equal(hex[0], hex[1]);
    assert_int_equal(stat(plan, &st), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    refused(whole_open(&w, "/proc/nothing/file", &err), "/proc/nothing/file: cannot be written");
    OK(whole_open(&w, "/tmp/lab_frozen_full", &err));
    fclose(w.file);
    unlink(w.temporary);
    assert_non_null(w.file = fopen("/dev/full", "w"));       /* a full disk tells of itself at the end */
    fputs("lost", w.file);
    refused(whole_close(&w, &err), "cannot be written: No space left on device");
    assert_int_not_equal(stat("/tmp/lab_frozen_full", &st), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)
int main(void)
{
    const struct CMUnitTest list[] = {
        TEST(what_is_read_is_what_was_written), TEST(each_run_is_a_line), TEST(the_same_plan_again_is_fine), TEST(another_plan_is_refused),
        TEST(half_a_plan_is_none_and_is_mended), TEST(what_was_changed_is_refused), TEST(every_allocation_may_fail), TEST(files_are_whole_or_not_there) };
    return cmocka_run_group_tests(list, NULL, NULL);
}
