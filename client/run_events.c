/* Signals and the guard's messages, while rlock waits, holds and ends. */
#include "client/run.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/boottime.h"
#include "server/base/notify.h"
#include "client/say.h"

static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

enum {
    SIGNALS_TO_GIVE_UP_RELEASE = 2,
    AGAIN_MS = 500, /* docs/command.md, Signals */
    TELL_MS = 5000, /* at most as often, and no later than http_watch_fn is called again */
    START_US = 60000000,
};

/* By nohup(1), or by a shell without job control that has started rlock in the background.
 * Blocked, the signal would come all the same. */
static bool is_ignored(int signal)
{
    struct sigaction action;

    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static sigset_t taken_signals(bool with_stop)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(handed_on) / sizeof(*handed_on); i++) {
        if (!is_ignored(handed_on[i])) {
            sigaddset(&set, handed_on[i]);
        }
    }
    if (with_stop) {
        sigaddset(&set, SIGTSTP);
    }
    return set;
}

bool run_events_start(struct run *run)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    sigset_t set = taken_signals(false);

    sigaction(SIGPIPE, &ignore, &run->signals.pipe);
    sigaction(SIGTTOU, &ignore, &run->signals.tty_output);
    sigaction(SIGCHLD, &usual, NULL); /* ignored, it would hide how children end */
    sigprocmask(SIG_BLOCK, &set, &run->signals.mask);
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signal_fd < 0) {
        say("signalfd: %s", strerror(errno));
    }
    return run->signal_fd >= 0;
}

void run_events_hold(struct run *run)
{
    sigset_t set = taken_signals(true);

    sigprocmask(SIG_BLOCK, &set, NULL);
    signalfd(run->signal_fd, &set, 0);
}

void run_order(struct run *run, struct guard_message message)
{
    if (run->guard_socket >= 0) {
        bool arrived = guard_send(run->guard_socket, &message);
        (void)arrived; /* its end of the socket tells */
    }
}

static bool asks_to_end(int signal)
{
    return signal == SIGINT || signal == SIGTERM;
}

/* One cancellation may come twice: to rlock's process group, and once more from make or
 * timeout(1), which hand the signal on to rlock. */
static bool is_same_cancellation(const struct run *run)
{
    int64_t grace_ms = run->settings->grace_ms;
    int64_t again_ms = grace_ms < 2 * AGAIN_MS ? grace_ms / 2 : AGAIN_MS;

    return run->asked_at && boottime_ms() - run->asked_at < again_ms;
}

/* A second INT or TERM within the grace is KILL. */
static void hand_on(struct run *run, int signal)
{
    if (asks_to_end(signal) && !is_same_cancellation(run)) {
        int64_t now = boottime_ms();
        if (run->asked_at && now - run->asked_at <= run->settings->grace_ms) {
            sigaddset(&run->handed_on, SIGKILL);
            run_order(run, (struct guard_message){.what = GUARD_KILL});
            return;
        }
        run->asked_at = now;
    }
    sigaddset(&run->handed_on, signal);
    run_order(run, (struct guard_message){.what = GUARD_SIGNAL, .number = signal});
}

static void take_signal(struct run *run, int signal)
{
    switch (run->phase) {
    case RUN_WAITS:
        run->signal = signal;
        break;
    case RUN_HOLDS:
        hand_on(run, signal);
        break;
    case RUN_ENDS:
        run->signal = run->signal ? run->signal : signal;
        if (asks_to_end(signal) && !is_same_cancellation(run)) {
            run->asked_at = boottime_ms();
            run->end_signals++;
        }
        break;
    }
}

/* As the first process of a container, or with a guard that was killed, rlock gets orphans. */
static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

/* COMMAND stopped. Because it wants the terminal in a pipeline: it gets the terminal. Because
 * of Ctrl-Z: rlock stops, too, and the guard, which does not, watches the deadline meanwhile.
 */
static void command_stopped(struct run *run, int signal)
{
    struct guard_message go_on = {.what = GUARD_SIGNAL, .number = SIGCONT};
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;

    if (signal == SIGSTOP || run->terminal.fd < 0) {
        return; /* whoever stopped COMMAND will continue it */
    }
    if (!wants_terminal || !terminal_hand_over(&run->terminal, getpgrp(), run->command)) {
        terminal_hand_over(&run->terminal, run->command, getpgrp());
        terminal_stop_own_group(&run->terminal);
        if (run->terminal.is_handed_over || wants_terminal) {
            terminal_hand_over(&run->terminal, getpgrp(), run->command);
        }
    }
    run_order(run, go_on);
}

static void take_news(struct run *run, const struct guard_message *news)
{
    switch ((enum guard_news)news->what) {
    case GUARD_STARTED:
        run->command = news->number;
        notify("READY=1\nSTATUS=holding %s", run->settings->names[0]);
        break;
    case GUARD_NOT_BEGUN:
        run->exec_error = news->number;
        break;
    case GUARD_NO_FORK:
        run->fork_error = news->number;
        break;
    case GUARD_STOPPED:
        command_stopped(run, news->number);
        break;
    case GUARD_ENDED:
        run->has_ended = true;
        run->last = *news;
        break;
    }
}

static void hear_guard(struct run *run)
{
    struct guard_message news;
    int taken;

    while (run->guard_socket >= 0 && (taken = guard_receive(run->guard_socket, &news)) != 0) {
        if (taken > 0) {
            take_news(run, &news);
            continue;
        }
        run->guard_died = !run->has_ended;
        close(run->guard_socket);
        run->guard_socket = -1;
        http_watch_fd(run->http, WATCH_GUARD, -1);
    }
}

/* A unit that waits has not started, for which the service manager has a time of its own. It
 * may take longer as long as it says so: sd_notify(3). */
static void tell_of_wait(struct run *run)
{
    int64_t now = boottime_ms();

    if (run->told_at == 0 || now - run->told_at >= TELL_MS) {
        run->told_at = now;
        notify("EXTEND_TIMEOUT_USEC=%d", START_US);
    }
}

static bool is_over(const struct work *work)
{
    return work && work->is_over && work->is_over(work->child.context);
}

bool run_events_take(void *context)
{
    struct run *run = context;
    struct signalfd_siginfo taken;

    while (read(run->signal_fd, &taken, sizeof(taken)) == (ssize_t)sizeof(taken)) {
        if (taken.ssi_signo == SIGCHLD) {
            reap();
        } else {
            take_signal(run, (int)taken.ssi_signo);
        }
    }
    hear_guard(run);
    switch (run->phase) {
    case RUN_WAITS:
        tell_of_wait(run);
        return run->signal != 0 || is_over(run->work);
    case RUN_HOLDS:
        return run->has_ended || run->guard_died;
    case RUN_ENDS:
        break;
    }
    return run->end_signals >= SIGNALS_TO_GIVE_UP_RELEASE;
}
