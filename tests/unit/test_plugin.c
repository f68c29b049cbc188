/* test_plugin -- every refusal of the loader has its fixture and its words; the registry finds, shadows and forgets nothing. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "host/plugin.h"

#define FIXTURES TEST_BUILD "/tests/plugins/"
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };                          /* a crash is then reported and ends with status 1 */
#else
enum { SANITIZED = 0 };
#endif

/* ---- fixtures: each is refused, and in these words ---- */

static const struct { const char *fixture, *words, *cure; } refused[] = {
    { "bad_unresolved", "not a shared object that can be loaded: undefined symbol: bad_unresolved_function", "" },
    { "bad_no_entry", "exports no lab_plugin_entry", "LAB_PLUGIN" },
    { "bad_null", "lab_plugin_entry returned NULL", "LAB_PLUGIN" },
    { "bad_magic", "magic is 0x464c457f, expected 0x4c414231", "build it with lab_plugin.h" },
    { "bad_major", "abi_major is 2, this lab's is 1", "rebuild it against this lab's lab_plugin.h" },
    { "bad_minor", "abi_minor is 2, this lab offers up to 1", "update lab, or build the plugin with -DLAB_ABI_MINOR=1" },
    { "bad_plugin_size", "struct lab_plugin: size is 72 bytes, this lab expects 64", "rebuild" },
    { "bad_encoder_size", "encoder 'bad_encoder_size': size is 184 bytes, this lab expects 176", "rebuild" },
    { "bad_task_size", "task 'bad_task': size is 88 bytes, this lab expects 96", "rebuild" },
    { "bad_name", "name is '', expected 1 to 63 of a-z, 0-9 and _", "rename it in LAB_PLUGIN" },
    { "bad_encoder_name", "encoder: name is 'Bad Name', expected 1 to 41 of a-z, 0-9 and _", "" },
    { "bad_encoder_long", "encoder: name 'a_name_of_forty_two_characters_is_too_long' has 42 bytes, the limit is 41", "" },
    { "bad_empty", "brings neither encoders nor tasks", "give LAB_PLUGIN(...) a NULL-terminated list" },
    { "bad_encoder_flags", "encoder 'bad_encoder_flags': flags are 0x101, ABI 1.1 knows 0x7", "clear the others" },
    { "bad_no_backward", "encoder 'bad_no_backward': embed has no backward", "write embed_bwd" },
    { "bad_no_forward", "encoder 'bad_no_forward': embed_bwd has no forward", "write embed or leave both out" },
    { "bad_twice", "encoder 'bad_twice' stands twice in this plugin", "rename one" },
    { "bad_task_init", "task 'bad_task': no init", "write one that fills struct lab_task_info" },
    { "bad_task_sample", "task 'bad_task': no sample", "" },
    { "bad_task_solve", "task 'bad_task': LAB_TASK_EXCHANGEABLE without solve", "write solve or clear the flag" },
    { "bad_option_name", "encoder 'bad_option_name': option 'Width': a name is 1 to 63 of a-z, 0-9 and _", "" },
    { "bad_option_twice", "option width: stands twice in the table", "rename one" },
    { "bad_option_type", "option width: type 9 is unknown", "0 (LAB_T_INT) to 4 (LAB_T_STR) are" },
    { "bad_option_offset", "option width: offset 4096 and size 4 reach beyond self_size 16", "set self_size to the sizeof" },
    { "bad_option_bounds", "option width: no value lies between its bounds 65 and 64", "" },
    { "bad_option_default", "option width: its default is refused: width = '65': expected a whole number, 1..64", "" },
    { "bad_option_choices", "option norm: an ENUM without choices", "list them as" },
    { "bad_option_help", "option width: no help", "give one line" },
};

static void open_refused(const char *path, const char *words)
{
    const struct lab_plugin *p = (const void *)1;
    struct lab_err err = { "" };
    if (plugin_open(path, &p, &err) != -1) fail_msg("%s was taken; wanted \"%s\"", path, words);
    if (!strstr(err.msg, words)) fail_msg("%s: wanted \"%s\", got \"%s\"", path, words, err.msg);
    assert_null(strchr(err.msg, '\n'));
    assert_null(p);
}

static void each_fixture_is_refused_in_its_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, FIXTURES "%s.so", refused[i].fixture);
        open_refused(path, refused[i].words);
        open_refused(path, refused[i].cure);
    }
}

static void the_other_real_type_is_refused(void **state)
{
    (void)state;
#ifdef LAB_REAL_DOUBLE
    open_refused(FIXTURES "bad_real.so", "real_size is 4 (float), this lab computes in 8 (double); rebuild with -DLAB_REAL_DOUBLE");
#else
    open_refused(FIXTURES "bad_real.so", "real_size is 8 (double), this lab computes in 4 (float); rebuild without -DLAB_REAL_DOUBLE");
#endif
}

static void no_answer_is_refused(void **state)
{
    struct lab_err err;
    (void)state;
    assert_int_equal(plugin_validate(NULL, &err), -1);
    assert_non_null(strstr(err.msg, "returned NULL"));
}

/* ---- fixtures that load and then misbehave: the 19th training call is fine, the 20th is not ---- */

static const struct lab_encoder *open_encoder(const char *path)
{
    const struct lab_plugin *p;
    struct lab_err err;
    if (plugin_open(path, &p, &err) != 0) fail_msg("%s: %s", path, err.msg);
    return p->encoders[0];
}

/* Calls embed in a child, evaluations in between: what became of it, and what it printed in bytes. */
static int embed_in_child(const char *fixture, int training_calls, long printed[2])
{
    char path[PATH_MAX], name[2][64] = { "/tmp/lab-out-XXXXXX", "/tmp/lab-err-XXXXXX" };
    int fd[2] = { mkstemp(name[0]), mkstemp(name[1]) }, status;
    snprintf(path, sizeof path, FIXTURES "%s.so", fixture);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct lab_encoder *e = open_encoder(path);
        lab_real x[4] = { 0 };
        dup2(fd[0], 1), dup2(fd[1], 2);
        signal(SIGSEGV, SIG_DFL);                /* cmocka catches it */
        alarm(1);                                /* for the one that hangs */
        for (int i = 0; i < 2 * training_calls; i++)
            e->embed(NULL, &(struct lab_call){ .size = sizeof(struct lab_call), .B = 1, .Tq = 1, .d = 4, .train = i % 2 }, x);
        fflush(stdout);
        _exit(isnan((double)x[0]) ? 3 : 4);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 2; i++) printed[i] = (long)lseek(fd[i], 0, SEEK_END), close(fd[i]), unlink(name[i]);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void run_time_fixtures_misbehave_at_their_20th_call(void **state)
{
    static const struct { const char *name; int ends; } bad[] = {
        { "bad_crash", SANITIZED ? 1 : -SIGSEGV }, { "bad_nan", 3 }, { "bad_hang", -SIGALRM }, { "bad_exit", 0 } };
    long printed[2];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(embed_in_child(bad[i].name, 19, printed), 4);
        assert_int_equal(embed_in_child(bad[i].name, 20, printed), bad[i].ends);
    }
    assert_int_equal(embed_in_child("bad_chatty", 1, printed), 4);
    assert_int_equal(printed[0], 2 << 20);
    assert_int_equal(printed[1], 2 << 20);
}

/* ---- files and folders ---- */

static char root[PATH_MAX];                      /* a folder of this test's own */

static void in_root(char out[PATH_MAX], const char *name) { snprintf(out, PATH_MAX, "%.2000s/%.2000s", root, name); }

static void make_folder(const char *name)
{
    char path[PATH_MAX];
    in_root(path, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[PATH_MAX];
    in_root(path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* A copy is another file to the loader, with code of its own. */
static void copy_fixture(const char *fixture, const char *name, double share)
{
    static char bytes[1 << 22];
    char path[PATH_MAX];
    snprintf(path, sizeof path, FIXTURES "%s.so", fixture);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_true(n > 0 && n < sizeof bytes);
    fclose(f);
    write_file(name, bytes, (size_t)((double)n * share));
}

static int enter(void **state)
{
    char made[] = "/tmp/lab-plugin-XXXXXX";
    (void)state;
    unsetenv("LAB_PLUGIN_PATH");
    return mkdtemp(made) && realpath(made, root) ? 0 : -1;
}

static int leave(void **state)
{
    char command[PATH_MAX + 16];
    (void)state;
    unsetenv("LAB_PLUGIN_PATH");
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void what_is_no_shared_object(void **state)
{
    char path[PATH_MAX];
    (void)state;
    write_file("text.so", "just text\n", 10);
    write_file("empty.so", "", 0);
    copy_fixture("good_alibi", "cut.so", 0.01);
    in_root(path, "text.so"), open_refused(path, "not a shared object that can be loaded: ");
    in_root(path, "empty.so"), open_refused(path, "not a shared object that can be loaded: file too short");
    in_root(path, "cut.so"), open_refused(path, "not a shared object that can be loaded: ");
    in_root(path, "none.so"), open_refused(path, "cannot be read: No such file or directory");
    open_refused(root, "not a file");
}

static void a_bare_name_is_a_file_of_the_current_folder(void **state)
{
    char before[PATH_MAX];
    (void)state;
    copy_fixture("good_alibi", "bare.so", 1);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(root), 0);
    const struct lab_encoder *e = open_encoder("bare.so");
    assert_int_equal(chdir(before), 0);
    assert_string_equal(e->name, "good_alibi");
}

static void what_others_may_write_is_refused(void **state)
{
    char path[PATH_MAX];
    struct lab_err err;
    struct registry r;
    const char *given[] = { root };
    (void)state;
    copy_fixture("good_alibi", "open.so", 1);
    in_root(path, "open.so");
    assert_int_equal(chmod(path, 0757), 0);
    open_refused(path, "others may write to it (mode 0757, expected no more than 0755)");
    open_refused(path, "chmod go-w /tmp/lab-plugin-");
    if (geteuid() == 0) {                        /* only root may give a file away */
        assert_int_equal(chmod(path, 0775) | chown(path, 1001, 1001), 0);
        open_encoder(path);                      /* the owner's private group */
        assert_int_equal(chown(path, 1001, 100), 0);
        open_refused(path, "others may write to it (mode 0775");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(chmod(path, 0755) | chmod(root, 0777), 0);
    assert_int_equal(registry_load(&r, given, 1, &err), -1);
    assert_non_null(strstr(err.msg, "others may write to it (mode 0777"));
    open_refused(path, "its folder: others may write to it (mode 0777");
    assert_int_equal(chmod(root, 01777), 0);     /* sticky: nobody can put another file in its place */
    open_encoder(path);
    assert_int_equal(chmod(root, 0777), 0);
    setenv("LAB_PLUGIN_PATH", root, 1);          /* not named by the user: a note, and nothing is loaded from it */
    assert_int_equal(registry_load(&r, NULL, 0, &err), 0);
    assert_int_equal(r.n_entry, 0);
    assert_string_equal(r.file[0].path, root);
    assert_non_null(strstr(r.file[0].refusal, "others may write to it"));
    registry_free(&r);
}

/* ---- the registry ---- */

static const char *file_of(const struct registry *r, const struct plugin_entry *e)
{
    const char *path = r->file[e->file].path;
    assert_memory_equal(path, root, strlen(root));
    return path + strlen(root) + 1;
}

static const struct plugin_entry *find(const struct registry *r, enum plugin_kind kind, const char *name)
{
    struct lab_err err = { "" };
    const struct plugin_entry *e = registry_find(r, kind, name, &err);
    if (!e) fail_msg("%s", err.msg);
    return e;
}

static void load(struct registry *r, const char *const *given, int n)
{
    struct lab_err err = { "" };
    if (registry_load(r, given, n, &err) != 0) fail_msg("%s", err.msg);
}

static void the_first_found_wins_and_shadows(void **state)
{
    char first[PATH_MAX], second[2 * PATH_MAX];
    struct registry r;
    const char *given[] = { first };
    (void)state;
    make_folder("first"), make_folder("second"), make_folder("second/encoders"), make_folder("second/tasks");
    copy_fixture("good_alibi", "first/a.so", 1);
    copy_fixture("good_alibi", "second/encoders/b.so", 1);
    copy_fixture("bad_nan", "second/encoders/a.so", 1);
    copy_fixture("good_task", "second/tasks/c.so", 1);
    in_root(first, "first");
    snprintf(second, sizeof second, ":%s/second:", root);      /* empty parts are not the current folder */
    setenv("LAB_PLUGIN_PATH", second, 1);
    load(&r, given, 1);
    assert_int_equal(r.n_file, 4);
    assert_int_equal(r.n_entry, 4);
    assert_string_equal(file_of(&r, find(&r, PLUGIN_ENCODER, "good_alibi")), "first/a.so");
    assert_string_equal(file_of(&r, find(&r, PLUGIN_ENCODER, "bad_nan")), "second/encoders/a.so");
    assert_string_equal(file_of(&r, find(&r, PLUGIN_TASK, "good_task")), "second/tasks/c.so");
    assert_string_equal(file_of(&r, &r.entry[2]), "second/encoders/b.so");         /* in the order of their names */
    assert_int_equal(r.entry[2].shadowed_by, 0);
    assert_int_equal(r.entry[0].shadowed_by, -1);
    registry_free(&r);
}

static void one_name_in_two_files_of_a_folder_is_an_error(void **state)
{
    struct registry r;
    const char *given[] = { root };
    (void)state;
    copy_fixture("good_alibi", "a.so", 1);
    copy_fixture("good_alibi", "b.so", 1);
    load(&r, given, 1);
    assert_int_equal(r.n_entry, 1);
    assert_non_null(strstr(r.file[1].refusal, "encoder 'good_alibi' is also in "));
    assert_non_null(strstr(r.file[1].refusal, "/a.so; remove or rename one of the two"));
    registry_free(&r);
}

static void a_file_is_loaded_once(void **state)
{
    char path[PATH_MAX], link[PATH_MAX];
    struct registry r;
    (void)state;
    copy_fixture("good_alibi", "a.so", 1);
    in_root(path, "a.so"), in_root(link, "z.so");
    assert_int_equal(symlink("a.so", link), 0);
    setenv("LAB_PLUGIN_PATH", root, 1);
    load(&r, (const char *[]){ path, root, root, link }, 4);
    assert_int_equal(r.n_file, 1);
    assert_int_equal(r.n_entry, 1);
    registry_free(&r);
}

static void what_the_user_names_must_load(void **state)
{
    static const struct { const char *name, *words; } given[] = {
        { "refused.so", "/refused.so: magic is" },
        { "absent.so", "/absent.so: No such file or directory" },
        { "hollow", "/hollow: holds no plugin: no *.so here, in encoders/ or in tasks/" } };
    (void)state;
    copy_fixture("good_alibi", "a.so", 1);
    copy_fixture("bad_magic", "refused.so", 1);
    make_folder("hollow");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        char path[PATH_MAX];
        struct registry r;
        struct lab_err err = { "" };
        in_root(path, given[i].name);
        assert_int_equal(registry_load(&r, (const char *[]){ path }, 1, &err), -1);
        if (!strstr(err.msg, given[i].words)) fail_msg("wanted \"%s\", got \"%s\"", given[i].words, err.msg);
        assert_int_equal(r.n_file + r.n_entry, 0);
    }
    struct registry r;                           /* in a folder that was named, a bad file is a note */
    load(&r, (const char *[]){ root }, 1);
    assert_int_equal(r.n_entry, 1);
    assert_non_null(strstr(r.file[1].refusal, "magic is"));
    registry_free(&r);
    setenv("LAB_PLUGIN_PATH", "/nowhere/at/all", 1);
    load(&r, NULL, 0);
    assert_string_equal(r.file[0].path, "/nowhere/at/all");
    assert_string_equal(r.file[0].refusal, "No such file or directory");
    registry_free(&r);
}

static void exactly_these_files(void **state)
{
    static const char *const paths[] = { FIXTURES "good_alibi.so", FIXTURES "good_task.so", FIXTURES "good_alibi.so" };
    struct registry r;
    struct lab_err err = { "" };
    (void)state;
    copy_fixture("bad_nan", "a.so", 1);
    setenv("LAB_PLUGIN_PATH", root, 1);
    if (registry_load_files(&r, paths, 3, &err) != 0) fail_msg("%s", err.msg);
    assert_int_equal(r.n_file, 2);
    assert_int_equal(r.n_entry, 2);
    assert_int_equal(r.file[0].path[0], '/');    /* resolved: a worker may start elsewhere */
    registry_free(&r);
    assert_int_equal(registry_load_files(&r, (const char *[]){ FIXTURES "bad_major.so" }, 1, &err), -1);
    assert_non_null(strstr(err.msg, "bad_major.so: abi_major is 2"));
    assert_int_equal(r.n_file, 0);
}

static void the_hash_is_the_file_s(void **state)
{
    char expected[HASH_HEX] = "";
    struct registry r;
    struct lab_err err;
    (void)state;
    assert_int_equal(registry_load_files(&r, (const char *[]){ FIXTURES "good_alibi.so" }, 1, &err), 0);
    FILE *f = popen("sha256sum " FIXTURES "good_alibi.so", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%64s", expected), 1);
    pclose(f);
    assert_string_equal(r.file[0].sha256, expected);
    registry_free(&r);
}

static void unknown_names_are_answered(void **state)
{
    static const char *const paths[] = { FIXTURES "good_alibi.so", FIXTURES "bad_nan.so", FIXTURES "good_task.so" };
    static const struct { enum plugin_kind kind; const char *name, *message; } ask[] = {
        { PLUGIN_ENCODER, "good_alibbi", "unknown encoder 'good_alibbi': did you mean 'good_alibi'?; known: bad_nan, good_alibi" },
        { PLUGIN_ENCODER, "rotary", "unknown encoder 'rotary'; known: bad_nan, good_alibi" },
        { PLUGIN_ENCODER, "good_task", "unknown encoder 'good_task'; known: bad_nan, good_alibi" },
        { PLUGIN_TASK, "god_task", "unknown task 'god_task': did you mean 'good_task'?; known: good_task" } };
    struct registry r = { 0 };
    struct lab_err err = { "" };
    (void)state;
    assert_null(registry_find(&r, PLUGIN_TASK, "copy", &err));
    assert_string_equal(err.msg, "unknown task 'copy': none were found; `make` builds them, --plugin names others");
    assert_int_equal(registry_load_files(&r, paths, 3, &err), 0);
    for (size_t i = 0; i < sizeof ask / sizeof *ask; i++) {
        assert_null(registry_find(&r, ask[i].kind, ask[i].name, &err));
        assert_string_equal(err.msg, ask[i].message);
    }
    registry_free(&r);
    copy_fixture("bad_magic", "mine.so", 1);     /* a file of that name was refused: that is the news */
    load(&r, (const char *[]){ root }, 1);
    assert_null(registry_find(&r, PLUGIN_ENCODER, "mine", &err));
    assert_non_null(strstr(err.msg, "encoder 'mine' is not available: /tmp/lab-plugin-"));
    assert_non_null(strstr(err.msg, "/mine.so: magic is 0x464c457f"));
    registry_free(&r);
}

static void lost_memory_leaves_nothing_behind(void **state)
{
    struct registry r;
    struct lab_err err;
    int rc = -1;
    (void)state;
    copy_fixture("good_alibi", "a.so", 1);
    copy_fixture("bad_magic", "b.so", 1);
    copy_fixture("good_task", "c.so", 1);
    for (long n = 1; rc != 0; n++) {
        assert_true(n < 100);
        mem_fail_at(n);
        rc = registry_load(&r, (const char *[]){ root }, 1, &err);
        mem_fail_at(0);
        if (rc != 0) assert_non_null(strstr(err.msg, "out of memory"));
        if (rc != 0) assert_int_equal(r.n_file + r.n_entry, 0);
    }
    assert_int_equal(r.n_file, 3);
    registry_free(&r);
}

/* ---- what a plugin may export ---- */

static void a_second_export_is_found_out(void **state)
{
    (void)state;
    if (SANITIZED) skip();                       /* sanitizers add names and libraries of their own */
    assert_int_equal(system("sh tests/check_exports.sh " FIXTURES "good_alibi.so " FIXTURES "good_task.so >/dev/null"), 0);
    assert_int_not_equal(system("sh tests/check_exports.sh " FIXTURES "bad_exports.so >/dev/null"), 0);
    assert_int_not_equal(system("sh tests/check_exports.sh " FIXTURES "bad_no_entry.so >/dev/null"), 0);
    assert_int_not_equal(system("sh tests/check_exports.sh /nowhere.so >/dev/null 2>&1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fixture_is_refused_in_its_words),
        cmocka_unit_test(the_other_real_type_is_refused),
        cmocka_unit_test(no_answer_is_refused),
        cmocka_unit_test(run_time_fixtures_misbehave_at_their_20th_call),
        cmocka_unit_test_setup_teardown(what_is_no_shared_object, enter, leave),
        cmocka_unit_test_setup_teardown(a_bare_name_is_a_file_of_the_current_folder, enter, leave),
        cmocka_unit_test_setup_teardown(what_others_may_write_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(the_first_found_wins_and_shadows, enter, leave),
        cmocka_unit_test_setup_teardown(one_name_in_two_files_of_a_folder_is_an_error, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_is_loaded_once, enter, leave),
        cmocka_unit_test_setup_teardown(what_the_user_names_must_load, enter, leave),
        cmocka_unit_test_setup_teardown(exactly_these_files, enter, leave),
        cmocka_unit_test(the_hash_is_the_file_s),
        cmocka_unit_test_setup_teardown(unknown_names_are_answered, enter, leave),
        cmocka_unit_test_setup_teardown(lost_memory_leaves_nothing_behind, enter, leave),
        cmocka_unit_test(a_second_export_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
