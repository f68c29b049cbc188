/* cli_study -- what the commands that read results have in common: opening a study, and writing an answer away. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/whole.h"
#include "cli/cmd.h"

int cli_study_open(const struct cmd *cmd, struct cli_study *source, int argc, char **argv)
{
    struct conf conf = { 0 };
    struct lab_err *err = &source->err;
    if (cli_conf_if_named(&conf, argc, argv, &source->set, err) != 0) return cli_fail(cmd, EXIT_USAGE, err);
    int found, rc = store_open(&source->store, source->db, STORE_READ, err);
    if (rc == 0) rc = store_scope(source->store, argc == 2 ? conf.sha256 : NULL, &found, err);       /* study_load says when there is none */
    if (rc == 0) rc = study_load(&source->study, source->store, argc == 2 ? conf.sha256 : NULL, err);
    conf_free(&conf);
    return rc == 0 ? EXIT_DONE : cli_fail(cmd, rc == STUDY_NO_SWEEP ? EXIT_USAGE : EXIT_DATABASE, err);
}

void cli_study_close(struct cli_study *source)
{
    study_release(&source->study);
    store_close(source->store);
    source->store = NULL;
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR) return -1;
        if (done > 0) text += done, n -= (size_t)done;
    }
    return 0;
}

static int write_stdout(const struct str *text, struct lab_err *err)
{
    if (fwrite(str_text(text), 1, text->len, stdout) == text->len && fflush(stdout) == 0) return 0;
    return lab_fail(err, "the answer could not be written: %s", strerror(errno));
}

/* /dev/null, a pipe: written as it is. */
static int write_special(const char *path, const struct str *text, struct lab_err *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), ok = fd >= 0 && write_all(fd, str_text(text), text->len) == 0, why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = 0, why = errno;
    return ok ? 0 : lab_fail(err, "%s: cannot be written: %s", path, strerror(why));
}

int cli_write(const char *path, const struct str *text, struct lab_err *err)
{
    struct whole w;
    struct stat old;
    if (!path || !strcmp(path, "-")) return write_stdout(text, err);
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) return write_special(path, text, err);
    if (whole_open(&w, path, err) != 0) return -1;
    whole_put(&w, str_text(text), text->len);
    return whole_close(&w, err);
}
