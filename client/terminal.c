/* Job control: which process group has the terminal. */
#include "client/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

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

void terminal_stop_own_group(const struct terminal *terminal)
{
    /* No shell with job control has started a session's leader, or a child of init. */
    if (terminal->fd < 0 || getsid(0) == getpid() || getppid() == 1) {
        return;
    }
    kill(0, SIGTSTP); /* blocked here; for a script that has started rlock */
    raise(SIGSTOP);
}
