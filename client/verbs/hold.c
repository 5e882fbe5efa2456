/* rlock hold: the lock of a shell, or of a program in a language without a client. A child of
 * the guard watches standard input and the process of --pid, so that the process learns of a
 * loss also when rlock or its guard was killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/run.h"
#include "client/say.h"
#include "client/status.h"
#include "client/streams.h"
#include "client/verbs/verbs.h"

struct hold {
    const struct settings *settings;
    int process; /* pidfd of --pid, or -1 */
    int input;   /* standard input, or -1 where its end says nothing */
    int out;     /* gets the grant */
    char *grant; /* one line of JSON */
};

/* A handler of signals has no other way to them. */
static int process_to_signal = -1, signal_to_send;

static void signal_process(void)
{
    if (process_to_signal >= 0) {
        syscall(SYS_pidfd_send_signal, process_to_signal, signal_to_send, NULL, 0);
    }
}

static void on_first_signal(int signal)
{
    (void)signal;
    signal_process();
    _exit(0);
}

/* No child is left that would do it. */
static void child_was_killed(void *context)
{
    (void)context;
    signal_process();
}

/* A pipe, a socket or a terminal ends when nobody writes any more; a file ends at once. With
 * --pid the terminal is left to the process, for a job in the background may not read it. */
static int find_input(bool has_process)
{
    struct stat input;

    if (fstat(STDIN_FILENO, &input) != 0) {
        return -1;
    }
    bool ends = S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode);
    return ends || (!has_process && isatty(STDIN_FILENO)) ? STDIN_FILENO : -1;
}

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    return fd >= 0 && poll(&polled, 1, 0) > 0;
}

/* Input is thrown away; its end is the end of the hold. */
static bool has_input_ended(struct hold *hold)
{
    char taken[4096];

    if (!is_readable(hold->input)) {
        return false;
    }
    ssize_t len = read(hold->input, taken, sizeof(taken));
    if (len < 0 && errno == EIO) { /* the terminal of another job */
        hold->input = -1;
        return false;
    }
    return len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR);
}

static bool is_over(void *context)
{
    struct hold *hold = context;

    return is_readable(hold->process) || has_input_ended(hold);
}

static void take_grant(void *context, json_t *grant)
{
    struct hold *hold = context;

    hold->grant = json_dumps(grant, JSON_COMPACT);
}

/* A reader sees the end of the grant, as that of a shell's $(…). */
static void print_grant(struct hold *hold)
{
    if (hold->grant) {
        dprintf(hold->out, "%s\n", hold->grant);
    }
    if (hold->out > STDERR_FILENO) {
        close(hold->out);
    }
    streams_leave(STDOUT_FILENO, STDOUT_FILENO);
}

/* The child's life. */
static int wait_for_end(void *context)
{
    struct hold *hold = context;

    print_grant(hold);
    while (!is_over(hold)) {
        struct pollfd polled[] = {{.fd = hold->process, .events = POLLIN},
                                  {.fd = hold->input, .events = POLLIN}};
        poll(polled, 2, -1);
    }
    return 0;
}

static bool open_process(struct hold *hold)
{
    if (hold->settings->pid == 0) {
        return true;
    }
    hold->process = (int)syscall(SYS_pidfd_open, hold->settings->pid, 0);
    if (hold->process < 0) {
        say("--pid %d: %s", hold->settings->pid, strerror(errno));
    }
    return hold->process >= 0;
}

static bool find_ends(struct hold *hold)
{
    if (!open_process(hold)) {
        return false;
    }
    hold->input = find_input(hold->process >= 0);
    if (hold->input < 0 && hold->process < 0) {
        say("without --pid standard input has to be a pipe, a socket or a terminal, whose end "
            "releases the lock");
        return false;
    }
    if (hold->out < 0 || fcntl(hold->out, F_GETFD) < 0) {
        say("--ready-fd %d: %s", hold->out, strerror(EBADF));
        return false;
    }
    return true;
}

int verb_hold(struct settings *settings)
{
    int ready_fd = settings->ready_fd;
    struct hold hold = {.settings = settings,
                        .process = -1,
                        .input = -1,
                        .out = ready_fd < 0 ? STDOUT_FILENO : ready_fd};

    if (!find_ends(&hold)) {
        return STATUS_USAGE;
    }
    process_to_signal = hold.process;
    signal_to_send = settings->signal;
    struct work work = {.name = "hold",
                        .first_signal = SIGRTMIN,
                        .is_over = is_over,
                        .granted = take_grant,
                        .killed = child_was_killed,
                        .child = {.body = wait_for_end,
                                  .on_first_signal = on_first_signal,
                                  .context = &hold,
                                  .kept = {hold.process, hold.input, hold.out}}};
    int status = run_work(settings, &work);
    free(hold.grant);
    return status;
}
