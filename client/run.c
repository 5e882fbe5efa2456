/* rlock run: waits for the lock, runs COMMAND below a guard while the lock is proven, releases
 * the lock. */
#include "client/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/command.h"
#include "client/holder.h"
#include "client/notify.h"
#include "client/say.h"
#include "client/status.h"
#include "client/tree.h"
#include "client/verbs.h"

enum {
    MARGIN_MIN_MS = 100, /* between KILL and the deadline */
    MARGIN_MAX_MS = 500,
    PROOF_MIN_MS = 300, /* for the answer to a proof */
    PROOF_MAX_MS = 3000,
    RENEWAL_MS = 2000, /* the longest pause between renewals, which notice a loss */
    ORPHANS_AGAIN_US = 10000,
    ROUND_PAUSE_MS = 250, /* between proofs that nobody answered */
    GRACE_DEFAULT_MS = 5000,
    /* The server's watchdog leaves a lease 60 % of its time at least: docs/guide.md. Where that
     * leaves less than this before the first signal, rlock renews the lease itself. */
    WATCHDOG_LEFT_PERCENT = 60,
    PROOF_ROOM_MS = 1000,
    AT_ONCE_MS = 200, /* from the session's last keep-alive to the grant */
    WATCHDOG_DEFAULT_MS = 30000,
    NOTE_SIZE = 257, /* the server takes 256 bytes */
};

static int64_t margin_ms(const struct settings *settings)
{
    int64_t margin = settings->ttl_ms / 50;

    return margin < MARGIN_MIN_MS   ? MARGIN_MIN_MS
           : margin > MARGIN_MAX_MS ? MARGIN_MAX_MS
                                    : margin;
}

static int64_t kill_at(const struct run *run)
{
    return run->lease.deadline - margin_ms(run->settings);
}

static int64_t first_at(const struct run *run)
{
    return kill_at(run) - run->settings->grace_ms;
}

static bool check_times(struct settings *settings)
{
    if (settings->grace_ms < 0) {
        settings->grace_ms = settings->ttl_ms < 3 * GRACE_DEFAULT_MS ? settings->ttl_ms / 3
                                                                     : GRACE_DEFAULT_MS;
    }
    if (settings->grace_ms > settings->ttl_ms * 3 / 4) {
        say("--grace has to be at most three quarters of --ttl");
        return false;
    }
    return true;
}

/* Names and texts go into JSON, which is UTF-8. */
static bool check_names(const struct settings *settings)
{
    for (size_t i = 0; i < settings->name_count; i++) {
        json_t *text = json_string(settings->names[i]);
        bool is_name = text && json_string_length(text) > 0 &&
                       !strpbrk(settings->names[i], "\n\r");
        json_decref(text);
        if (!is_name) {
            say("a name of a lock has to be UTF-8, and not empty");
            return false;
        }
    }
    if (settings->permit && settings->name_count > 1) {
        say("--permit is for one name, without --also");
        return false;
    }
    const char *held = command_held_outside(settings);
    if (held) {
        say("%s is held by the run around this one, so this run would wait for itself", held);
    }
    return !held;
}

/* user@host PID argv[0]: never COMMAND's arguments, which may be secret. */
static bool make_note(struct settings *settings, const char *command, char note[NOTE_SIZE])
{
    const struct passwd *user = getpwuid(geteuid());
    char host[64] = "";
    bool is_own = !settings->note;

    if (is_own) {
        gethostname(host, sizeof(host) - 1);
        snprintf(note, NOTE_SIZE, "%s@%s %d %s", user ? user->pw_name : "?", host,
                 (int)getpid(), command);
        settings->note = note;
    }
    json_t *text = json_string(settings->note);
    bool is_text = text != NULL;
    json_decref(text);
    if (!is_text && is_own) { /* COMMAND's name is no UTF-8, or was cut in a character */
        settings->note = "";
        return true;
    }
    if (!is_text) {
        say("--note has to be UTF-8");
    }
    return is_text;
}

/* ---- the wait */

static enum lease_keeper keeper_of(const struct settings *settings, int64_t watchdog_ms)
{
    int64_t left_ms = watchdog_ms * WATCHDOG_LEFT_PERCENT / 100;
    bool fits = settings->grace_ms + margin_ms(settings) + PROOF_ROOM_MS <= left_ms;

    return settings->at_least_ms > 0 || !fits ? KEEPER_RENEWAL : KEEPER_SESSION;
}

/* A grant alone proves little after a wait: the session may have ended meanwhile, and much of
 * the time until the deadline may have passed. */
static enum lease_outcome prove_first(struct run *run)
{
    enum lease_outcome outcome = LEASE_HELD;
    bool was_at_once = run->lease.granted_at - run->lease.kept_at < AT_ONCE_MS;

    if (run->lease.keeper == KEEPER_RENEWAL ? first_at(run) - boottime_ms() > PROOF_ROOM_MS
                                            : was_at_once) {
        return outcome;
    }
    do {
        outcome = lease_prove(&run->lease, 0, PROOF_MAX_MS);
    } while (outcome == LEASE_UNREACHABLE && boottime_ms() < run->lease.deadline &&
             http_pause(run->http, boottime_ms() + ROUND_PAUSE_MS));
    return outcome == LEASE_UNREACHABLE && run->signal ? LEASE_INTERRUPTED : outcome;
}

/* The lease's keeper may prove wrong when the grant tells the time of the server's watchdog. */
static enum lease_outcome acquire_once(struct run *run, enum lease_keeper *keeper,
                                       int64_t until)
{
    struct settings *settings = run->settings;
    bool is_told = (!settings->quiet && say_has_status()) || settings->verbose ||
                   notify_is_wanted();

    if (!lease_init(&run->lease, run->http, settings, *keeper)) {
        return LEASE_INVALID;
    }
    enum lease_outcome outcome = lease_acquire(&run->lease, until,
                                               is_told ? holder_tell : NULL);
    if (outcome == LEASE_HELD && *keeper == KEEPER_SESSION) {
        *keeper = keeper_of(settings, lease_watchdog_ms(&run->lease));
    }
    return outcome == LEASE_HELD && *keeper != run->lease.keeper ? LEASE_LOST : outcome;
}

static enum lease_outcome acquire(struct run *run, int64_t until)
{
    enum lease_keeper keeper = keeper_of(run->settings, WATCHDOG_DEFAULT_MS);

    for (;;) {
        enum lease_outcome outcome = acquire_once(run, &keeper, until);
        if (outcome == LEASE_HELD) {
            outcome = prove_first(run);
        }
        if (outcome != LEASE_LOST) {
            return outcome;
        }
        lease_give_up(&run->lease);
        lease_release_memory(&run->lease);
        if (!http_pause(run->http, boottime_ms() + ROUND_PAUSE_MS)) {
            return LEASE_INTERRUPTED;
        }
    }
}

/* The exit status of a wait without a grant. */
static int end_of_wait(struct run *run, enum lease_outcome outcome)
{
    struct settings *settings = run->settings;
    const char *name = settings->names[0];

    run->phase = RUN_ENDS;
    lease_give_up(&run->lease);
    say_status_end();
    switch (outcome) {
    case LEASE_INTERRUPTED:
        say("%s: not acquired: ended by signal %d while it waited", name, run->signal);
        return STATUS_SIGNAL + run->signal;
    case LEASE_BUSY:
        if (!settings->quiet) {
            say("%s: not acquired in time: %s", name, run->lease.detail);
        }
        return settings->busy_status;
    case LEASE_REFUSED:
        say("%s: refused by the server: %s", name, run->lease.detail);
        return STATUS_REFUSED;
    case LEASE_UNREACHABLE:
        say("%s: not acquired: no server could be reached: %s", name, run->lease.detail);
        return STATUS_UNREACHABLE;
    case LEASE_INVALID:
        say("%s: %s", name, *run->lease.detail ? run->lease.detail : "no memory");
        return *run->lease.detail ? STATUS_USAGE : STATUS_FAULT;
    case LEASE_LOST:
    case LEASE_HELD:
        break;
    }
    say("%s: not acquired: %s", name, run->lease.detail);
    return STATUS_FAULT;
}

/* ---- COMMAND */

/* The time for a proof's answer: a fraction of what is left, so that several may fail. */
static int64_t proof_timeout(int64_t left_ms)
{
    int64_t timeout = left_ms / 4;

    return timeout < PROOF_MIN_MS   ? PROOF_MIN_MS
           : timeout > PROOF_MAX_MS ? PROOF_MAX_MS
                                    : timeout;
}

static void prove_once(struct run *run, bool *was_answered)
{
    int64_t left = first_at(run) - boottime_ms();
    int64_t hang = left / 3 < run->settings->ttl_ms * 2 / 5 ? left / 3
                                                            : run->settings->ttl_ms * 2 / 5;

    hang = *was_answered && hang > 0 ? hang : 0;
    if (run->lease.keeper == KEEPER_RENEWAL && hang &&
        !http_pause(run->http, boottime_ms() + (hang < RENEWAL_MS ? hang : RENEWAL_MS))) {
        return;
    }
    switch (lease_prove(&run->lease, hang, proof_timeout(left))) {
    case LEASE_HELD:
        *was_answered = true;
        run_order(run, (struct guard_message){.what = GUARD_DEADLINE,
                                              .first_at = first_at(run),
                                              .kill_at = kill_at(run)});
        break;
    case LEASE_LOST:
    case LEASE_INVALID:
        run->is_lost = true;
        run_order(run, (struct guard_message){.what = GUARD_LOST});
        break;
    case LEASE_UNREACHABLE:
    case LEASE_REFUSED: /* an API token that is exchanged: there is time to ask again */
    case LEASE_BUSY:
        *was_answered = false;
        if (!http_pause(run->http, boottime_ms() + ROUND_PAUSE_MS)) {
            return;
        }
        break;
    case LEASE_INTERRUPTED:
        break;
    }
}

/* Ends what a guard that was killed has left to this process; some may arrive meanwhile. */
static void end_orphans(void)
{
    for (;;) {
        struct tree_count count = tree_signal(SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (count.reached == 0) {
            return;
        }
        usleep(ORPHANS_AGAIN_US);
    }
}

/* COMMAND's ends of pipes must not stay open in rlock. */
static void leave_stdio(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
}

static int start_guard(struct run *run, char *path, char **argv)
{
    struct guard_plan plan = {.path = path,
                              .argv = argv,
                              .environment = environ,
                              .terminal = run->terminal.is_handed_over ? run->terminal.fd : -1,
                              .signal = run->settings->signal,
                              .descendants = run->settings->descendants,
                              .grace_ms = run->settings->grace_ms,
                              .max_time_ms = run->settings->max_time_ms,
                              .first_at = first_at(run),
                              .kill_at = kill_at(run),
                              .signals = &run->signals};

    run->guard = guard_start(&plan, &run->guard_socket);
    if (run->guard < 0) {
        run->fork_error = errno;
        run->guard_socket = -1;
        return -1;
    }
    http_watch_fds(run->http, run->signal_fd, run->guard_socket);
    leave_stdio();
    return 0;
}

/* Ctrl-C has reached COMMAND's group only: a script that has started rlock in its own group,
 * and the rest of a pipeline, have to learn of it, too. */
static void pass_on_ctrl_c(const struct run *run)
{
    int status = run->last.number;

    if (run->terminal.is_handed_over && run->has_ended && !run->asked_at &&
        WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) {
        kill(0, SIGINT); /* blocked here */
    }
}

/* Between the guard's KILL and the deadline. */
static int64_t last_resort_at(const struct run *run)
{
    return run->lease.deadline - margin_ms(run->settings) / 2;
}

/* Runs COMMAND, and returns when nothing is left of it that has to end. */
static void hold(struct run *run, char *path, char **argv)
{
    bool was_answered = true;

    run->phase = RUN_HOLDS;
    run_events_hold(run);
    if (start_guard(run, path, argv) != 0) {
        return;
    }
    while (!run->has_ended && !run->guard_died) {
        if (!run->is_lost) {
            prove_once(run, &was_answered);
        } else if (!http_pause(run->http, last_resort_at(run))) {
            break;
        }
        if (boottime_ms() >= last_resort_at(run)) { /* the guard was stopped */
            run->is_unproven = true;
            tree_signal(SIGKILL);
        }
    }
    if (run->guard_died) {
        end_orphans();
    }
    terminal_hand_over(&run->terminal, run->command, getpgrp());
    pass_on_ctrl_c(run);
}

/* ---- the end */

static int status_of_command(const struct run *run)
{
    int status = run->last.number;

    if (run->exec_error) {
        say("cannot execute COMMAND: %s", strerror(run->exec_error));
        return run->exec_error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    if (run->last.cause == CAUSE_MAX_TIME) {
        say("%s: COMMAND was ended: --max-time is over", run->settings->names[0]);
        return STATUS_MAX_TIME;
    }
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int status_of_loss(const struct run *run)
{
    const char *how = run->is_lost ? "was lost" : "could not be proven in time";

    if (run->last.survivors > 0) {
        say("%d processes of other users could not be ended, and run without the lock",
            run->last.survivors);
    }
    say("%s: the lock %s before COMMAND had ended: %s", run->settings->names[0], how,
        *run->lease.detail ? run->lease.detail : "rlock did not get to ask a server");
    return STATUS_LOST;
}

/* Releases the lock, which may tell that it was lost. */
static int end_of_hold(struct run *run)
{
    const char *name = run->settings->names[0];
    bool unproven = run->last.cause == CAUSE_DEADLINE || run->is_unproven;

    run->phase = RUN_ENDS;
    if (run->is_lost || unproven) {
        lease_give_up(&run->lease);
        return status_of_loss(run);
    }
    enum lease_outcome outcome = lease_release(&run->lease, run->lease.deadline);
    if (outcome == LEASE_LOST) {
        run->is_lost = true;
        return status_of_loss(run);
    }
    if (outcome != LEASE_HELD) {
        say("%s: the release is unknown (%s); the lock ends by itself within %lld s", name,
            run->lease.detail, (long long)(run->settings->ttl_ms + 999) / 1000);
    }
    if (run->fork_error) {
        say("cannot start COMMAND: %s", strerror(run->fork_error));
        return STATUS_NO_FORK;
    }
    if (run->guard_died) {
        say("%s: rlock's guard was killed, and COMMAND with it", name);
        return STATUS_FAULT;
    }
    return status_of_command(run);
}

static int hold_and_end(struct run *run, char *path, char **argv)
{
    say_status_end();
    if (!command_set_environment(&run->lease)) {
        return end_of_wait(run, LEASE_INVALID);
    }
    if (run->settings->verbose) {
        say("%s: acquired by lease %s", run->settings->names[0], run->lease.lease_id);
    }
    hold(run, path, argv);
    return end_of_hold(run);
}

static int run_with(struct run *run, char *path, char **argv)
{
    int64_t wait_ms = run->settings->wait_ms;
    int64_t until = wait_ms == BOOTTIME_NEVER ? BOOTTIME_NEVER : boottime_ms() + wait_ms;

    http_watch(run->http, run_events_take, run);
    http_watch_fds(run->http, run->signal_fd, -1);
    notify("STATUS=waiting for %s", run->settings->names[0]);
    enum lease_outcome outcome = acquire(run, until);
    int status = outcome == LEASE_HELD ? hold_and_end(run, path, argv)
                                       : end_of_wait(run, outcome);
    lease_release_memory(&run->lease);
    return status;
}

static int run_command(struct settings *settings, char *path, char **argv)
{
    struct run run = {.settings = settings, .guard_socket = -1};
    char note[NOTE_SIZE];
    int status;

    if (!check_times(settings) || !check_names(settings) ||
        !make_note(settings, argv[0], note)) {
        return STATUS_USAGE;
    }
    run.http = http_new(settings, &status);
    if (!run.http) {
        return status;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* for what a killed guard leaves behind */
    run.terminal = terminal_open();
    status = run_events_start(&run) ? run_with(&run, path, argv) : STATUS_FAULT;
    http_free(run.http);
    return status;
}

int verb_run(struct settings *settings)
{
    char *path = NULL, **argv = NULL;
    int status = command_find(settings, &path, &argv);

    if (status == 0) {
        status = run_command(settings, path, argv);
    }
    free(path);
    free(argv);
    return status;
}
