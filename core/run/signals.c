/* signals -- see signals.h. */
#include "run/signals.h"
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int is_ignored(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int signals_open(struct signals *s, struct lab_err *err)
{
    static const int ignorable[] = { SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP };
    struct sigaction ignore = { .sa_handler = SIG_IGN }, usual = { .sa_handler = SIG_DFL };
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGWINCH);
    for (size_t i = 0; i < sizeof ignorable / sizeof *ignorable; i++) if (!is_ignored(ignorable[i])) sigaddset(&set, ignorable[i]);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) return lab_fail(err, "signals cannot be received: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, &s->mask);
    sigaction(SIGCHLD, &usual, NULL);             /* inherited as ignored, it would take the exit statuses away */
    sigaction(SIGPIPE, &ignore, &s->pipe);        /* a closed stderr must not end the sweep */
    return 0;
}

int signals_next(const struct signals *s)
{
    struct signalfd_siginfo info;
    return read(s->fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

void signals_close(struct signals *s)
{
    while (signals_next(s)) {}
    close(s->fd);
    sigaction(SIGPIPE, &s->pipe, NULL);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

void signals_reset(void)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };
    sigset_t none;
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
