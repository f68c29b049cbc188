/* cmd_new -- lab new encoder|task NAME: writes a plugin that builds, passes `lab check` and trains as it stands.
 *
 * In lab's source tree it becomes plugins/encoders/NAME.c (or tasks), which make finds; with --outside, a folder NAME with
 * its own Makefile.  Refuses names that no plugin may bear, that are taken, and to write over anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/str.h"
#include "cli/cmd.h"
#include "skeleton.h"

static const struct { const char *word; enum plugin_kind kind; const char *folder, *skeleton, *axis; } kinds[] = {
    { "encoder", PLUGIN_ENCODER, "plugins/encoders", SKELETON_ENCODER_C, "sweep.encoder=none" },
    { "task", PLUGIN_TASK, "plugins/tasks", SKELETON_TASK_C, "sweep.task=reverse" } };
enum { N_KIND = sizeof kinds / sizeof *kinds };

static int check_name(const char *name, struct lab_err *err)
{
    if (str_is_name(name) && strlen(name) <= PLUGIN_NAME_MAX) return 0;
    return lab_fail(err, "'%.80s' is no name for a plugin: 1 to %d of a-z, 0-9 and _", name, PLUGIN_NAME_MAX);
}

/* Two encoders of one name: which of them a run meant would be anybody's guess. */
static int check_taken(int kind, const char *name, const struct cli_many *plugin, struct lab_err *err)
{
    struct registry r;
    struct lab_err ignored;
    if (cli_registry(&r, plugin, err) != 0) return -1;
    const struct plugin_entry *e = registry_find(&r, kinds[kind].kind, name, &ignored);
    if (e) lab_fail(err, "the %s '%s' exists already, in %s; choose another name", kinds[kind].word, name, r.file[e->file].path);
    registry_free(&r);
    return e ? -1 : 0;
}

static void fill_in(struct str *out, const char *skeleton, const char *name, const char *include)
{
    for (const char *at; (at = strchr(skeleton, '@')); skeleton = at + 1) {
        str_addn(out, skeleton, (size_t)(at - skeleton));
        if (!strncmp(at, "@NAME@", 6)) str_add(out, name), at += 5;
        else if (!strncmp(at, "@INCLUDE@", 9)) str_add(out, include), at += 8;
        else str_add(out, "@");
    }
    str_add(out, skeleton);
}

static int write_file(const char *path, const char *skeleton, const char *name, const char *include, struct lab_err *err)
{
    struct str text = { 0 };
    int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) return lab_fail(err, "%s is there already; remove it or choose another name", path);
    if (fd < 0) return lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
    fill_in(&text, skeleton, name, include);
    if (text.failed || write(fd, text.text, text.len) != (ssize_t)text.len) rc = lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
    if (close(fd) != 0 && rc == 0) rc = lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
    if (rc != 0) unlink(path);
    str_free(&text);
    return rc;
}

/* The headers of this very lab: where it was built, where it was installed; else whatever pkg-config says. */
static void find_include(char out[PATH_MAX])
{
    static const char *const from_program[] = { "../../core/abi", "core/abi", "../include/lab" };
    char program[PATH_MAX] = "", header[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) *strrchr(program, '/') = '\0';
    for (size_t i = 0; n > 0 && i < sizeof from_program / sizeof *from_program; i++) {
        snprintf(header, sizeof header, "%s/%s/lab_plugin.h", program, from_program[i]);
        if (!realpath(header, out)) continue;
        *strrchr(out, '/') = '\0';
        return;
    }
    snprintf(out, PATH_MAX, "$(shell pkg-config --variable=includedir lab-plugin)");
}

static int write_inside(int kind, const char *name, struct lab_err *err)
{
    char path[256];
    if (access("core/abi/lab_plugin.h", F_OK) != 0 || access(kinds[kind].folder, F_OK) != 0)
        return lab_fail(err, "there is no %s here: go to the top of lab's source, or give --outside", kinds[kind].folder);
    snprintf(path, sizeof path, "%s/%s.c", kinds[kind].folder, name);
    if (write_file(path, kinds[kind].skeleton, name, "", err) != 0) return -1;
    printf("%s\n\nbuild, check and train it:\n  make\n  ./lab check %s\n  ./lab run experiments/extrapolate.ini --set %s,%s\n", path, name,
           kinds[kind].axis, name);
    return 0;
}

static int write_outside(int kind, const char *name, struct lab_err *err)
{
    char source[160], makefile[160], include[PATH_MAX];
    snprintf(source, sizeof source, "%s/%s.c", name, name);
    snprintf(makefile, sizeof makefile, "%s/Makefile", name);
    find_include(include);
    if (mkdir(name, 0755) != 0)
        return errno == EEXIST ? lab_fail(err, "%s is there already; remove it or choose another name", name)
                               : lab_fail(err, "%s: cannot be made: %s", name, strerror(errno));
    if (write_file(source, kinds[kind].skeleton, name, "", err) != 0 || write_file(makefile, SKELETON_MAKEFILE, name, include, err) != 0) return -1;
    printf("%s\n%s\n\nbuild, check and train it:\n  make -C %s\n  lab check %s/%s.so\n  lab run FILE.ini --plugin %s/%s.so --set %s,%s\n", source, makefile,
           name, name, name, name, name, kinds[kind].axis, name);
    return 0;
}

int cmd_new(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_many plugin = { .n = 0 };
    int outside = 0, kind = 0;
    const struct cli_option option[] = {
        { "--outside", 0, CLI_FLAG, NULL, "make a folder NAME with a Makefile, for a plugin outside lab's source", &outside },
        CLI_PLUGIN(&plugin), CLI_END };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    while (argc > 1 && kind < N_KIND && strcmp(argv[1], kinds[kind].word)) kind++;
    if (argc != 3 || kind == N_KIND)
        return lab_fail(&err, "say what and its name: `lab new encoder NAME` or `lab new task NAME`"), cli_fail(cmd, EXIT_USAGE, &err);
    if (check_name(argv[2], &err) != 0 || check_taken(kind, argv[2], &plugin, &err) != 0 ||
        (outside ? write_outside : write_inside)(kind, argv[2], &err) != 0) return cli_fail(cmd, EXIT_USAGE, &err);
    return EXIT_DONE;
}
