/* Job control: which process group has the terminal. */
#include "client/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "client/tree.h"

struct terminal terminal_open(void)
{
    struct terminal terminal = {.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};

    terminal.is_handed_over = terminal_is_ours(&terminal) && isatty(STDIN_FILENO) &&
                              isatty(STDOUT_FILENO);
    return terminal;
}

bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool terminal_hand_over(const struct terminal *terminal, pid_t from, pid_t group)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == from &&
           tcsetpgrp(terminal->fd, group) == 0;
}

/* POSIX.1: nobody would continue an orphaned process group. The first process above the group
 * is the shell, with job control, that has started it; if there is none, that process is of
 * another session. */
static bool is_orphaned(void)
{
    pid_t parent = getppid();

    while (parent > 0 && getpgid(parent) == getpgrp()) {
        parent = tree_parent(parent);
    }
    return parent <= 0 || getsid(parent) != getsid(0);
}

void terminal_stop_own_group(const struct terminal *terminal)
{
    if (terminal->fd < 0 || is_orphaned()) {
        return;
    }
    kill(0, SIGTSTP); /* blocked here; for a script that has started rlock */
    raise(SIGSTOP);
}
