/* rlock run: waits for the lock, runs COMMAND below a guard while the lock is proven, releases
 * the lock. */
#include "client/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/command.h"
#include "server/base/notify.h"
#include "client/say.h"
#include "client/status.h"
#include "client/streams.h"
#include "client/tree.h"
#include "client/verbs/verbs.h"

enum {
    PROOF_MIN_MS = 300, /* for the answer to a proof */
    RENEWAL_MS = 2000,  /* the longest pause between renewals, which notice a loss */
    EARLY_MS = 1000,    /* between proofs that are answered at once */
    ORPHANS_AGAIN_US = 10000,
    GRACE_DEFAULT_MS = 5000,
    TTL_DEFAULT_MS = 30000,
    TTL_MIN_MS = 1000, /* of a session: openapi.yaml */
    TTL_MAX_MS = 3600000,
};

static bool check_times(struct settings *settings)
{
    if (settings->ttl_ms < 0) {
        settings->ttl_ms = TTL_DEFAULT_MS;
    }
    if (settings->ttl_ms < TTL_MIN_MS || settings->ttl_ms > TTL_MAX_MS) {
        say("--ttl has to be 1s to 1h");
        return false;
    }
    if (settings->grace_ms < 0) {
        settings->grace_ms = settings->ttl_ms < 3 * GRACE_DEFAULT_MS ? settings->ttl_ms / 3
                                                                     : GRACE_DEFAULT_MS;
    }
    if (settings->grace_ms > settings->ttl_ms * 3 / 4) {
        say("--grace %g s is too long: at most three quarters of --ttl, here %g s",
            (double)settings->grace_ms / 1000, (double)settings->ttl_ms * 3 / 4000);
        return false;
    }
    return true;
}

/* ---- COMMAND */

/* Between the guard's KILL and the deadline; after a loss as soon as the guard is late. */
static int64_t last_resort_at(const struct run *run)
{
    int64_t margin_ms = run_margin_ms(run->settings);
    int64_t at = run->lease.deadline - margin_ms / 2;
    int64_t after_loss = run->lost_at + run->settings->grace_ms + margin_ms;

    return run->is_lost && after_loss < at ? after_loss : at;
}

/* The last resort comes after a proof or a pause, which therefore last no longer than until
 * then. */
static int64_t until_last_resort(const struct run *run, int64_t ms)
{
    int64_t left = last_resort_at(run) - boottime_ms();

    left = left > 0 ? left : 0;
    return left < ms && !run->is_unproven ? left : ms;
}

/* The time for a proof's answer: a fraction of what is left, so that several may fail. */
static int64_t proof_timeout(int64_t left_ms)
{
    int64_t timeout = left_ms / 4;

    return timeout < PROOF_MIN_MS       ? PROOF_MIN_MS
           : timeout > RUN_PROOF_MAX_MS ? RUN_PROOF_MAX_MS
                                        : timeout;
}

/* A server without a place for a keep-alive that hangs answers at once. */
static void pause_after_early(const struct run *run, int64_t asked_at, int64_t hang)
{
    int64_t next_at = asked_at + (hang < EARLY_MS ? hang : EARLY_MS);

    if (run->lease.keeper == KEEPER_SESSION && boottime_ms() < next_at) {
        bool is_over = http_pause(run->http, next_at);
        (void)is_over; /* else the caller knows why */
    }
}

static void prove_once(struct run *run, bool *was_answered)
{
    int64_t left = run_first_at(run) - boottime_ms();
    int64_t hang = left / 3 < run->settings->ttl_ms * 2 / 5 ? left / 3
                                                            : run->settings->ttl_ms * 2 / 5;

    hang = *was_answered && hang > 0 ? hang : 0;
    if (run->lease.keeper == KEEPER_RENEWAL && hang &&
        !http_pause(run->http, boottime_ms() + (hang < RENEWAL_MS ? hang : RENEWAL_MS))) {
        return;
    }
    int64_t asked_at = boottime_ms();
    int64_t most = until_last_resort(run, hang + proof_timeout(left));
    switch (lease_prove(&run->lease, hang, most - hang)) {
    case LEASE_HELD:
        *was_answered = true;
        run_order(run, (struct guard_message){.what = GUARD_DEADLINE,
                                              .first_at = run_first_at(run),
                                              .kill_at = run_kill_at(run)});
        pause_after_early(run, asked_at, hang);
        break;
    case LEASE_LOST:
    case LEASE_INVALID:
        run->is_lost = true;
        run->lost_at = boottime_ms();
        run_order(run, (struct guard_message){.what = GUARD_LOST});
        break;
    case LEASE_UNREACHABLE:
    case LEASE_REFUSED: /* an API token that is exchanged: there is time to ask again */
    case LEASE_BUSY:
        *was_answered = false;
        if (!http_pause(run->http,
                        boottime_ms() + until_last_resort(run, RUN_ROUND_PAUSE_MS))) {
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

static int start_guard(struct run *run)
{
    struct terminal *terminal = &run->terminal;

    /* A shell may have sent rlock to the background while it waited. */
    terminal->is_handed_over = terminal->is_handed_over && terminal_is_ours(terminal);
    struct guard_plan plan = {.work = run->work->child,
                              .environment = environ,
                              .terminal = terminal->is_handed_over ? terminal->fd : -1,
                              .signal = run->work->first_signal,
                              .descendants = run->settings->descendants,
                              .grace_ms = run->settings->grace_ms,
                              .max_time_ms = run->settings->max_time_ms,
                              .first_at = run_first_at(run),
                              .kill_at = run_kill_at(run),
                              .signals = &run->signals};

    run->guard = guard_start(&plan, &run->guard_socket);
    if (run->guard < 0) {
        run->fork_error = errno;
        run->guard_socket = -1;
        return -1;
    }
    http_watch_fd(run->http, WATCH_GUARD, run->guard_socket);
    streams_leave(STDIN_FILENO, STDOUT_FILENO);
    guard_leave_output(&plan);
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

/* Runs COMMAND, and returns when nothing is left of it that has to end. */
static void hold(struct run *run)
{
    bool was_answered = true;

    run->phase = RUN_HOLDS;
    run_events_hold(run);
    if (start_guard(run) != 0) {
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
    bool was_killed = run->has_ended && WIFSIGNALED(run->last.number) &&
                      (run->last.cause == CAUSE_NONE ||
                       WTERMSIG(run->last.number) == SIGKILL) &&
                      !sigismember(&run->handed_on, WTERMSIG(run->last.number));
    if (run->work->killed && (run->guard_died || was_killed)) {
        run->work->killed(run->work->child.context);
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

    say("%s: the lock %s before COMMAND had ended: %s", run->settings->names[0], how,
        *run->lease.detail ? run->lease.detail : "rlock did not get to ask a server");
    return STATUS_LOST;
}

/* Releases the lock, which may tell that it was lost. */
static int end_of_hold(struct run *run)
{
    const char *name = run->settings->names[0];
    bool unproven = run->last.cause == CAUSE_DEADLINE || run->is_unproven ||
                    run->exec_error == GUARD_TOO_LATE;

    run->phase = RUN_ENDS;
    if (run->last.survivors > 0) {
        say("%d processes of other users could not be ended, and run without the lock",
            run->last.survivors);
    }
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

static int hold_and_end(struct run *run)
{
    say_status_end();
    if (!command_set_environment(&run->lease)) {
        lease_give_up(&run->lease);
        return run_end_of_wait(run, LEASE_INVALID);
    }
    if (run->settings->verbose) {
        say("%s: acquired by lease %s", run->settings->names[0], run->lease.lease_id);
    }
    if (run->work->granted) {
        run->work->granted(run->work->child.context, run->lease.grant);
    }
    hold(run);
    return end_of_hold(run);
}

static int wait_and_hold(struct run *run)
{
    http_watch_fd(run->http, WATCH_PID, run->work->child.kept[GUARD_KEPT_PROCESS]);
    http_watch_fd(run->http, WATCH_INPUT, run->work->child.kept[GUARD_KEPT_INPUT]);
    notify("STATUS=waiting for %s", run->settings->names[0]);
    enum lease_outcome outcome = run_wait(run);
    http_watch_fd(run->http, WATCH_PID, -1);
    http_watch_fd(run->http, WATCH_INPUT, -1);
    if (outcome == LEASE_HELD) {
        return hold_and_end(run);
    }
    run->phase = RUN_ENDS;
    lease_give_up(&run->lease);
    return run_end_of_wait(run, outcome);
}

int run_work(struct settings *settings, const struct work *work)
{
    struct run run = {.settings = settings, .work = work};
    int status = STATUS_USAGE;

    if (!check_times(settings)) {
        return status;
    }
    if (!tree_is_visible()) {
        say("/proc is not mounted: what COMMAND starts could not be ended");
        return STATUS_FAULT;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* for orphans of a guard that was killed */
    run.terminal = terminal_open();
    if (run_open(&run, work->name, &status)) {
        status = wait_and_hold(&run);
    }
    run_close(&run);
    return status;
}

int verb_run(struct settings *settings)
{
    struct work work = {.first_signal = settings->signal, .child.kept = {-1, -1, -1}};
    int status = command_find(settings, &work.child.path, &work.child.argv);

    if (status == 0) {
        work.name = work.child.argv[0];
        status = run_work(settings, &work);
    }
    free(work.child.path);
    free(work.child.argv);
    return status;
}
