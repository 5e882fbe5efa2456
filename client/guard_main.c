/* The guard: is forked, starts COMMAND, obeys rlock, and ends the tree when its deadline comes.
 */
#include "client/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/status.h"
#include "client/streams.h"
#include "client/tree.h"

enum phase {
    PHASE_RUN,  /* COMMAND runs, or what it left behind is waited for */
    PHASE_TERM, /* the tree has had the first signal */
    PHASE_KILL, /* the tree has had KILL, and gets it again until nothing is left */
};

/* How soon KILL is repeated: orphans may arrive while a walk runs. A process in uninterruptible
 * sleep makes it a long wait, so the pause grows. */
enum { KILL_AGAIN_MS = 10, KILL_AGAIN_MAX_MS = 500 };

struct guard {
    const struct guard_plan *plan;
    int socket, signals, timer;
    pid_t command; /* 0 once it has ended */
    int wait_status;
    enum phase phase;
    enum guard_cause cause;
    int64_t first_at, kill_at, max_time_at;
    int64_t act_at; /* in PHASE_TERM and PHASE_KILL: of the next KILL */
    int64_t again_ms;
    int survivors;
    bool is_deserted; /* rlock's end is closed */
    bool is_done;
};

static void tell(struct guard *guard, int what, int number)
{
    struct guard_message message = {
        .what = what, .number = number, .cause = guard->cause, .survivors = guard->survivors};

    if (!guard->is_deserted) {
        bool arrived = guard_send(guard->socket, &message);
        (void)arrived; /* the end of the socket, which take_orders() finds, ends the tree */
    }
}

static void close_on_exec(void)
{
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
        return;
    }
    long count = sysconf(_SC_OPEN_MAX); /* before Linux 5.11 */
    for (int fd = 3; fd < count && fd < 65536; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static void call_body(const struct guard *guard)
{
    const struct guard_plan *plan = guard->plan;
    struct sigaction first = {.sa_handler = plan->work.on_first_signal};
    sigset_t mask = plan->signals->mask;

    sigdelset(&mask, plan->signal); /* whoever has started rlock may have blocked it */
    prctl(PR_SET_NAME, "rlock-holder");
    close(guard->socket);
    close(guard->signals);
    close(guard->timer);
    sigaction(plan->signal, &first, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    _exit(plan->work.body(plan->work.context));
}

/* A program without a format that the kernel knows is a script of the shell: execvp(3). */
static void exec_script(const struct guard_plan *plan)
{
    size_t count = 0;

    while (plan->work.argv[count]) {
        count++;
    }
    char **argv = calloc(count + 2, sizeof(*argv));
    if (!argv) {
        return;
    }
    argv[0] = (char *)"/bin/sh"; /* execve() leaves the texts as they are */
    argv[1] = plan->work.path;
    memcpy(argv + 2, plan->work.argv + 1, (count - 1) * sizeof(*argv));
    execve(argv[0], argv, plan->environment);
    free(argv);
}

static void __attribute__((noreturn)) not_begun(const struct guard *guard, int error)
{
    struct guard_message message = {.what = GUARD_NOT_BEGUN, .number = error};

    guard_send(guard->socket, &message);
    _exit(STATUS_NOT_FOUND);
}

/* In the child: becomes COMMAND. */
static void exec_command(const struct guard *guard, pid_t parent)
{
    const struct guard_plan *plan = guard->plan;

    setpgid(0, 0);
    if (plan->terminal >= 0) {
        tcsetpgrp(plan->terminal, getpid()); /* SIGTTOU is ignored here */
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* the guard died before its death could be noticed */
        _exit(STATUS_FAULT);
    }
    if (boottime_ms() >= guard->first_at) { /* the machine may have been suspended */
        not_begun(guard, GUARD_TOO_LATE);
    }
    if (plan->work.body) {
        call_body(guard);
    }
    close_on_exec();
    sigaction(SIGPIPE, &plan->signals->pipe, NULL);
    sigaction(SIGTTOU, &plan->signals->tty_output, NULL);
    sigprocmask(SIG_SETMASK, &plan->signals->mask, NULL);
    execve(plan->work.path, plan->work.argv, plan->environment);
    if (errno == ENOEXEC) {
        exec_script(plan);
    }
    not_begun(guard, errno);
}

static void start_command(struct guard *guard)
{
    pid_t self = getpid();

    guard->command = fork();
    if (guard->command == 0) {
        exec_command(guard, self);
    }
    if (guard->command < 0) {
        guard->command = 0;
        tell(guard, GUARD_NO_FORK, errno);
        guard->is_done = true;
        return;
    }
    setpgid(guard->command, guard->command); /* whichever of the two comes first */
    tell(guard, GUARD_STARTED, guard->command);
}

/* KILL to all, and again soon. */
static void kill_tree(struct guard *guard)
{
    struct tree_count count = tree_signal(SIGKILL);

    guard->survivors = count.refused;
    guard->phase = PHASE_KILL;
    guard->act_at = boottime_ms() + guard->again_ms;
    guard->again_ms *= guard->again_ms < KILL_AGAIN_MAX_MS ? 2 : 1;
    /* The processes that are left are other users', and no KILL of ours will end them. */
    guard->is_done = count.reached == 0 && count.refused > 0;
    if (guard->is_done && guard->command) {
        guard->wait_status = SIGKILL;
    }
}

/* The first signal to all, with CONT for those that are stopped, or KILL if it is time. */
static void end_tree(struct guard *guard, enum guard_cause cause)
{
    int64_t now = boottime_ms();

    if (guard->phase == PHASE_RUN) {
        guard->phase = PHASE_TERM;
        guard->cause = cause;
        guard->act_at = now + guard->plan->grace_ms;
        tree_signal(guard->plan->signal);
        tree_signal(SIGCONT);
    }
    if (guard->phase == PHASE_TERM && guard->act_at > guard->kill_at) {
        guard->act_at = guard->kill_at;
    }
}

static void obey(struct guard *guard, const struct guard_message *message)
{
    switch ((enum guard_order)message->what) {
    case GUARD_DEADLINE:
        guard->first_at = message->first_at;
        guard->kill_at = message->kill_at;
        break;
    case GUARD_LOST:
        end_tree(guard, CAUSE_LOST);
        break;
    case GUARD_SIGNAL:
        if (guard->command) {
            kill(-guard->command, message->number);
        } else if (guard->phase == PHASE_RUN) { /* --descendants wait */
            tree_signal(message->number);
        }
        break;
    case GUARD_KILL:
        kill_tree(guard);
        break;
    }
}

static void take_orders(struct guard *guard)
{
    struct guard_message message;
    int taken;

    while (!guard->is_deserted && (taken = guard_receive(guard->socket, &message)) != 0) {
        if (taken < 0) {
            guard->is_deserted = true;
            end_tree(guard, CAUSE_ORPHANED);
            return;
        }
        obey(guard, &message);
    }
}

/* COMMAND has ended. The processes that it left behind are ended, waited for or left alone. */
static void command_ended(struct guard *guard, int wait_status)
{
    guard->command = 0;
    guard->wait_status = wait_status;
    if (guard->phase != PHASE_RUN || guard->plan->descendants == DESCENDANTS_WAIT) {
        return;
    }
    if (guard->plan->descendants == DESCENDANTS_LEAVE) {
        guard->is_done = true;
        return;
    }
    siginfo_t child = {0}; /* nothing is left: the rule, which needs no walk */
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0) {
        end_tree(guard, CAUSE_NONE);
    }
}

/* Nobody else waits for children in this process. */
static void reap(struct guard *guard)
{
    int status;
    pid_t child;

    while ((child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (child != guard->command) {
            continue;
        }
        if (WIFSTOPPED(status)) {
            tell(guard, GUARD_STOPPED, WSTOPSIG(status));
        } else {
            command_ended(guard, status);
        }
    }
    guard->is_done = guard->is_done || (child < 0 && errno == ECHILD);
}

static int64_t next_time(const struct guard *guard)
{
    int64_t at = guard->first_at < guard->max_time_at ? guard->first_at : guard->max_time_at;

    return guard->phase == PHASE_RUN ? at : guard->act_at;
}

static void look_at_clock(struct guard *guard)
{
    int64_t now = boottime_ms();

    if (guard->phase == PHASE_RUN && now >= guard->first_at) {
        end_tree(guard, CAUSE_DEADLINE);
    } else if (guard->phase == PHASE_RUN && now >= guard->max_time_at) {
        end_tree(guard, CAUSE_MAX_TIME);
    }
    if (guard->phase != PHASE_RUN && now >= guard->act_at) {
        kill_tree(guard);
    }
}

/* An absolute time of CLOCK_BOOTTIME, so that the end of a suspend finds it passed. */
static void set_timer(struct guard *guard)
{
    int64_t at = next_time(guard);
    struct itimerspec when = {
        .it_value = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 + 1}};

    if (at == BOOTTIME_NEVER) {
        when = (struct itimerspec){0};
    }
    timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void turn(struct guard *guard)
{
    struct pollfd polled[] = {
        {.fd = guard->signals, .events = POLLIN},
        {.fd = guard->timer, .events = POLLIN},
        {.fd = guard->is_deserted ? -1 : guard->socket, .events = POLLIN}};
    struct signalfd_siginfo taken;
    uint64_t expired;

    set_timer(guard);
    poll(polled, 3, -1);
    while (read(guard->signals, &taken, sizeof(taken)) > 0) {
    }
    while (read(guard->timer, &expired, sizeof(expired)) > 0) {
    }
    take_orders(guard);
    look_at_clock(guard);
    reap(guard);
}

/* Connections of rlock would stay open here after rlock has died. */
static void close_others(const struct guard_plan *plan, int socket)
{
    int kept[GUARD_KEPT + 2] = {socket, plan->terminal};
    enum { COUNT = sizeof(kept) / sizeof(*kept) };
    unsigned next = STDERR_FILENO + 1;

    memcpy(kept + 2, plan->work.kept, sizeof(plan->work.kept));
    for (;;) {
        unsigned lowest = ~0U;
        for (int i = 0; i < COUNT; i++) {
            bool is_left = kept[i] >= 0 && (unsigned)kept[i] >= next;
            lowest = is_left && (unsigned)kept[i] < lowest ? (unsigned)kept[i] : lowest;
        }
        if (lowest == ~0U) {
            close_range(next, ~0U, 0);
            return;
        }
        close_range(next, lowest - 1, 0); /* an empty range is EINVAL, and harmless */
        next = lowest + 1;
    }
}

/* The guard's own life, in the forked process. */
static void __attribute__((noreturn)) guard_main(const struct guard_plan *plan, int socket)
{
    struct guard guard = {.plan = plan,
                          .socket = socket,
                          .first_at = plan->first_at,
                          .kill_at = plan->kill_at,
                          .max_time_at = BOOTTIME_NEVER,
                          .again_ms = KILL_AGAIN_MS};
    sigset_t all;

    close_others(plan, socket);
    setpgid(0, 0); /* signals to rlock's group, and the terminal's, are not for the guard */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rlock-guard");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    guard.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    guard.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (guard.signals < 0 || guard.timer < 0) {
        tell(&guard, GUARD_NO_FORK, errno);
        _exit(STATUS_NO_FORK);
    }
    if (plan->max_time_ms != BOOTTIME_NEVER) {
        guard.max_time_at = boottime_ms() + plan->max_time_ms;
    }
    start_command(&guard);
    streams_leave(STDIN_FILENO, STDERR_FILENO);
    guard_leave_output(plan);
    while (!guard.is_done) {
        turn(&guard);
    }
    tell(&guard, GUARD_ENDED, guard.wait_status);
    _exit(0);
}

void guard_leave_output(const struct guard_plan *plan)
{
    if (plan->work.kept[GUARD_KEPT_OUTPUT] > STDERR_FILENO) {
        close(plan->work.kept[GUARD_KEPT_OUTPUT]);
    }
}

pid_t guard_start(const struct guard_plan *plan, int *socket)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    pid_t guard = fork();
    if (guard == 0) {
        close(ends[0]);
        guard_main(plan, ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (guard < 0) {
        close(ends[0]);
        errno = error;
        return -1;
    }
    *socket = ends[0];
    return guard;
}
