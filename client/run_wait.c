/* The wait for a lease: with one token, told to people, ended by signals. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/command.h"
#include "client/holder.h"
#include "server/base/notify.h"
#include "client/run.h"
#include "client/say.h"
#include "client/status.h"
#include "client/values.h"

enum {
    MARGIN_MIN_MS = 100, /* between KILL and the deadline */
    MARGIN_MAX_MS = 500,
    /* The server's watchdog leaves a lease 60 % of its time at least: docs/guide.md. Where that
     * leaves less than this before the first signal, rlock renews the lease itself. */
    WATCHDOG_LEFT_PERCENT = 60,
    PROOF_ROOM_MS = 1000,
    AT_ONCE_MS = 200, /* from the session's last keep-alive to the grant */
    WATCHDOG_DEFAULT_MS = 30000,
    ANEW_MAX = 3, /* how often it begins anew when the wait is over */
};

int64_t run_margin_ms(const struct settings *settings)
{
    int64_t margin = settings->ttl_ms / 50;

    return margin < MARGIN_MIN_MS   ? MARGIN_MIN_MS
           : margin > MARGIN_MAX_MS ? MARGIN_MAX_MS
                                    : margin;
}

int64_t run_kill_at(const struct run *run)
{
    return run->lease.deadline - run_margin_ms(run->settings);
}

int64_t run_first_at(const struct run *run)
{
    return run_kill_at(run) - run->settings->grace_ms;
}

/* Names go into JSON. */
static bool check_names(const struct settings *settings)
{
    for (size_t i = 0; i < settings->name_count; i++) {
        const char *name = settings->names[i];
        if (!*name || !value_is_utf8(name) || strpbrk(name, "\n\r")) {
            say("the name of a lock has to be UTF-8 without line breaks, and not empty");
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
static void make_note(struct run *run, const char *name)
{
    const struct passwd *user = getpwuid(geteuid());
    char host[64] = "";

    if (run->settings->note) {
        return;
    }
    gethostname(host, sizeof(host) - 1);
    snprintf(run->note, sizeof(run->note), "%s@%s %d %s", user ? user->pw_name : "?", host,
             (int)getpid(), name);
    if (!value_is_utf8(run->note)) { /* COMMAND's name is no UTF-8, or was cut in a character */
        run->note[0] = '\0';
    }
    run->settings->note = run->note;
}

bool run_open(struct run *run, const char *name, int *status)
{
    run->guard_socket = run->signal_fd = -1;
    *status = STATUS_USAGE;
    if (!check_names(run->settings)) {
        return false;
    }
    make_note(run, name);
    run->http = http_new(run->settings, status);
    if (!run->http) {
        return false;
    }
    http_watch(run->http, run_events_take, run);
    *status = STATUS_FAULT;
    if (!run_events_start(run)) {
        return false;
    }
    http_watch_fd(run->http, WATCH_SIGNALS, run->signal_fd);
    return true;
}

void run_close(struct run *run)
{
    lease_release_memory(&run->lease);
    if (run->http) {
        http_free(run->http);
    }
}

/* ---- the wait */

static enum lease_keeper keeper_of(const struct settings *settings, int64_t watchdog_ms)
{
    int64_t left_ms = watchdog_ms * WATCHDOG_LEFT_PERCENT / 100;
    bool fits = settings->grace_ms + run_margin_ms(settings) + PROOF_ROOM_MS <= left_ms;

    return settings->at_least_ms > 0 || !fits ? KEEPER_RENEWAL : KEEPER_SESSION;
}

/* A grant alone proves little after a wait: the session may have ended meanwhile, and much of
 * the time until the deadline may have passed. */
static enum lease_outcome prove_first(struct run *run)
{
    enum lease_outcome outcome = LEASE_HELD;
    bool was_at_once = run->lease.granted_at - run->lease.kept_at < AT_ONCE_MS;
    int64_t left_ms = run_first_at(run) - boottime_ms();

    if (run->lease.keeper == KEEPER_RENEWAL ? left_ms > PROOF_ROOM_MS
                                            : was_at_once && left_ms > 0) {
        return outcome;
    }
    do {
        outcome = lease_prove(&run->lease, 0, RUN_PROOF_MAX_MS);
        if (outcome == LEASE_HELD && boottime_ms() >= run_first_at(run)) {
            snprintf(run->lease.detail, sizeof(run->lease.detail),
                     "answers come too late for --ttl and --grace");
            outcome = LEASE_UNREACHABLE;
        }
    } while (outcome == LEASE_UNREACHABLE && boottime_ms() < run->lease.deadline &&
             http_pause(run->http, boottime_ms() + RUN_ROUND_PAUSE_MS));
    if (outcome != LEASE_UNREACHABLE) {
        return outcome;
    }
    return run->signal ? LEASE_INTERRUPTED : LEASE_LOST; /* no longer than until its deadline */
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
    if (run->token) {
        snprintf(run->lease.token, sizeof(run->lease.token), "%s", run->token);
    }
    enum lease_outcome outcome = lease_acquire(&run->lease, until,
                                               is_told ? holder_tell : NULL);
    if (outcome == LEASE_HELD && *keeper == KEEPER_SESSION) {
        *keeper = keeper_of(settings, lease_watchdog_ms(&run->lease));
    }
    return outcome == LEASE_HELD && *keeper != run->lease.keeper ? LEASE_LOST : outcome;
}

enum lease_outcome run_wait(struct run *run)
{
    int64_t wait_ms = run->settings->wait_ms;
    int64_t until = wait_ms == BOOTTIME_NEVER ? BOOTTIME_NEVER : boottime_ms() + wait_ms;
    enum lease_keeper keeper = run->token ? KEEPER_RENEWAL
                                          : keeper_of(run->settings, WATCHDOG_DEFAULT_MS);
    int anew = 0;

    for (;;) {
        enum lease_outcome outcome = acquire_once(run, &keeper, until);
        if (run->token) {
            return outcome;
        }
        if (outcome == LEASE_HELD) {
            outcome = prove_first(run);
        }
        if (outcome != LEASE_LOST) {
            return outcome;
        }
        if (boottime_ms() >= until && ++anew > ANEW_MAX) {
            return LEASE_UNREACHABLE;
        }
        run->phase = RUN_ENDS; /* only a second signal interrupts the give-up */
        lease_give_up(&run->lease);
        run->phase = RUN_WAITS;
        if (run->signal) {
            return LEASE_INTERRUPTED;
        }
        lease_release_memory(&run->lease);
        if (!http_pause(run->http, boottime_ms() + RUN_ROUND_PAUSE_MS)) {
            return LEASE_INTERRUPTED;
        }
    }
}

int run_end_of_wait(struct run *run, enum lease_outcome outcome)
{
    struct settings *settings = run->settings;
    const char *name = settings->names[0];

    run->phase = RUN_ENDS;
    say_status_end();
    switch (outcome) {
    case LEASE_INTERRUPTED:
        if (run->signal == 0) {
            say("%s: not acquired: nobody needs the lock any more", name);
            return settings->busy_status;
        }
        say("%s: not acquired: ended by signal %d (%s) while it waited", name, run->signal,
            strsignal(run->signal));
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
        say("%s: not acquired: no server is available: %s", name, run->lease.detail);
        return STATUS_UNREACHABLE;
    case LEASE_INVALID:
        say("%s: %s", name, *run->lease.detail ? run->lease.detail : "no memory");
        return *run->lease.detail ? STATUS_USAGE : STATUS_FAULT;
    case LEASE_LOST:
    case LEASE_HELD: /* but no memory for what comes next */
        break;
    }
    say("%s: not acquired: %s", name, run->lease.detail);
    return STATUS_FAULT;
}
