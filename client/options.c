/* The table of options. */
#include "client/options.h"

#include <limits.h>
#include <signal.h>
#include <string.h>

#include "client/boottime.h"
#include "client/values.h"

#define DURATION "has to be a duration such as 500ms, 30, 30s, 5m, 2h or 1d"

/* Every setter has these parameters, whichever it needs. */
#define SETTER(name)                                                                           \
    static const char *name(struct settings *settings __attribute__((unused)),                 \
                            void *field __attribute__((unused)),                               \
                            const char *argument __attribute__((unused)))

SETTER(set_text)
{
    *(const char **)field = argument;
    return NULL;
}

SETTER(set_flag)
{
    *(bool *)field = true;
    return NULL;
}

SETTER(set_duration)
{
    int64_t *ms = field;

    *ms = value_duration(argument);
    return *ms < 0 ? DURATION : NULL;
}

SETTER(set_utf8)
{
    *(const char **)field = argument;
    return strlen(argument) > 256     ? "has to be at most 256 bytes"
           : !value_is_utf8(argument) ? "has to be UTF-8"
                                      : NULL;
}

SETTER(set_number)
{
    return value_number(argument, INT_MAX, field) ? NULL : "has to be a number";
}

SETTER(set_pid)
{
    int *pid = field;

    return value_number(argument, INT_MAX, pid) && *pid > 0 ? NULL : "has to be a process id";
}

SETTER(set_no_wait)
{
    settings->wait_ms = 0;
    return NULL;
}

SETTER(set_busy_status)
{
    return value_number(argument, 255, field) ? NULL : "has to be 0 to 255";
}

SETTER(set_kind)
{
    static const char *const kinds[] = {"lock", "fair", "read", "write"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(argument, kinds[i]) == 0) {
            settings->kind = kinds[i];
            return NULL;
        }
    }
    return "has to be lock, fair, read or write";
}

SETTER(set_shared)
{
    settings->kind = "read";
    return NULL;
}

SETTER(set_fair)
{
    settings->kind = "fair";
    return NULL;
}

SETTER(set_also)
{
    if (settings->name_count == NAMES_MAX) {
        return "was given too often: one lease holds at most 32 locks";
    }
    settings->names[settings->name_count++] = argument;
    return NULL;
}

SETTER(set_signal)
{
    const char *name = strncmp(argument, "SIG", 3) == 0 ? argument + 3 : argument;

    if (value_number(argument, SIGRTMAX, field) && settings->signal > 0) {
        return NULL;
    }
    for (int signal = 1; signal < NSIG; signal++) {
        const char *known = sigabbrev_np(signal);
        if (known && strcmp(name, known) == 0) {
            settings->signal = signal;
            return NULL;
        }
    }
    return "has to be a signal such as TERM, INT or 15";
}

SETTER(set_max_time)
{
    const char *problem = set_duration(settings, field, argument);

    if (settings->max_time_ms == 0) { /* as timeout(1) has it */
        settings->max_time_ms = BOOTTIME_NEVER;
    }
    return problem;
}

SETTER(set_descendants)
{
    static const char *const words[] = {[DESCENDANTS_KILL] = "kill",
                                        [DESCENDANTS_WAIT] = "wait",
                                        [DESCENDANTS_LEAVE] = "leave"};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strcmp(argument, words[i]) == 0) {
            settings->descendants = (enum descendants)i;
            return NULL;
        }
    }
    return "has to be kill, wait or leave";
}

SETTER(set_fencing_token)
{
    settings->fencing_token = argument;
    return argument[0] && argument[strspn(argument, "0123456789")] == '\0'
               ? NULL
               : "has to be a number";
}

/* Subcommands that wait for a grant; that hold it while a process runs; that keep its token in
 * a file; that wait for anything; that print what they were told. */
enum {
    GRANTED = FOR_RUN | FOR_HOLD | FOR_ACQUIRE,
    KEPT = FOR_RUN | FOR_HOLD,
    FILED = FOR_ACQUIRE | FOR_RENEW | FOR_RELEASE,
    WAITS = GRANTED | FOR_WAIT | FOR_SEMAPHORE | FOR_LATCH,
    LOOKS = FOR_SHOW | FOR_LS | FOR_SESSIONS | FOR_SEMAPHORE | FOR_PERMITS | FOR_LATCH,
};

#define FIELD(name) offsetof(struct settings, name)

const struct option_row option_rows[] = {
    {'w', "wait", "D", NULL, NULL, "for ever", WAITS, "how long to wait", set_duration,
     FIELD(wait_ms)},
    {'n', "no-wait", NULL, NULL, NULL, NULL, WAITS, "do not wait: the same as --wait 0",
     set_no_wait, 0},
    {'E', "busy-status", "N", NULL, NULL, "75", WAITS,
     "exit status when the wait was in vain; 0 to 255", set_busy_status, FIELD(busy_status)},
    {'s', "shared", NULL, NULL, NULL, NULL, GRANTED, "the same as --kind read", set_shared, 0},
    {0, "fair", NULL, NULL, NULL, NULL, GRANTED, "the same as --kind fair", set_fair, 0},
    {0, "kind", "K", "lock fair read write", NULL, "lock", GRANTED,
     "kind of the lock: lock, fair, read or write", set_kind, 0},
    {0, "also", "NAME", NULL, NULL, NULL, KEPT,
     "another lock, all or none of them; may be repeated", set_also, 0},
    {0, "permit", NULL, NULL, NULL, NULL, GRANTED,
     "a permit of the permit semaphore NAME instead of a lock", set_flag, FIELD(permit)},
    {'t', "ttl", "D", NULL, NULL, "30s", KEPT,
     "how long other clients wait when this machine dies; 1s to 1h", set_duration,
     FIELD(ttl_ms)},
    {'t', "ttl", "D", NULL, NULL, "8h; with renew, that of acquire", FOR_ACQUIRE | FOR_RENEW,
     "the lock is free after this time, unless it is renewed or released before", set_duration,
     FIELD(ttl_ms)},
    {0, "lease-file", "FILE", "FILE", NULL, NULL, FILED,
     "the file that keeps the lease's secret token, so that every repetition is safe", set_text,
     FIELD(lease_file)},
    {'k', "grace", "D", NULL, NULL, "5s, at most a third of --ttl", KEPT,
     "from the first signal to KILL; at most three quarters of --ttl", set_duration,
     FIELD(grace_ms)},
    {0, "signal", "SIG", "TERM INT HUP QUIT USR1 USR2", NULL, "TERM", KEPT,
     "the first signal to a COMMAND that has to end, or to the process of --pid", set_signal,
     FIELD(signal)},
    {0, "pid", "PID", NULL, NULL, NULL, FOR_HOLD,
     "hold the lock while this process runs, and signal it when the lock is lost", set_pid,
     FIELD(pid)},
    {0, "ready-fd", "N", NULL, NULL, NULL, FOR_HOLD,
     "print the grant to this descriptor, and close it, instead of standard output", set_number,
     FIELD(ready_fd)},
    {'T', "max-time", "D", NULL, NULL, "none", FOR_RUN,
     "end COMMAND after this time, with exit status 124; 0: no limit", set_max_time,
     FIELD(max_time_ms)},
    {0, "at-least", "D", NULL, NULL, "0", KEPT,
     "other clients get the lock no sooner than this after the grant, also when COMMAND was "
     "faster; rlock itself does not wait for it",
     set_duration, FIELD(at_least_ms)},
    {0, "descendants", "WHAT", "kill wait leave", NULL, "kill", FOR_RUN,
     "what becomes of processes that COMMAND leaves behind: kill, wait or leave",
     set_descendants, 0},
    {0, "note", "TEXT", NULL, NULL, "user@host, process id, name of COMMAND", GRANTED,
     "shown to clients that look or wait", set_utf8, FIELD(note)},
    {'c', "shell", "STRING", NULL, NULL, NULL, FOR_RUN,
     "run STRING by $SHELL, or sh, instead of COMMAND", set_text, FIELD(shell)},
    {0, "reason", "TEXT", NULL, NULL, NULL, FOR_FORCE,
     "why the lock is freed: told to its holder, and written to the server's log", set_utf8,
     FIELD(reason)},
    {0, "fencing-token", "N", NULL, NULL, NULL, FOR_FORCE,
     "free only the grant with this fencing token", set_fencing_token, 0},
    {'y', "yes", NULL, NULL, NULL, NULL, FOR_FORCE, "do not ask", set_flag, FIELD(yes)},
    {0, "json", NULL, NULL, NULL, NULL, LOOKS, "print the server's JSON", set_flag,
     FIELD(json)},
    {0, "every", "D", NULL, NULL, "2s", FOR_TOP, "how often to look", set_duration,
     FIELD(every_ms)},
    {0, "url", "LIST", NULL, "RLOCK_URL", "http://localhost:7400", FOR_ALL,
     "servers, with commas between them, tried in turn", set_text, FIELD(urls)},
    {0, "token-file", "FILE", "FILE", "RLOCK_TOKEN_FILE", NULL, FOR_ALL,
     "file with the API token", set_text, FIELD(token_file)},
    {0, "ca", "FILE", "FILE", "RLOCK_CA", NULL, FOR_ALL,
     "certificates of authorities that servers are checked with", set_text, FIELD(ca)},
    {0, "cert", "FILE", "FILE", "RLOCK_CERT", NULL, FOR_ALL, "this client's certificate",
     set_text, FIELD(cert)},
    {0, "key", "FILE", "FILE", "RLOCK_KEY", NULL, FOR_ALL, "the key of that certificate",
     set_text, FIELD(key)},
    {0, "connect-timeout", "D", NULL, "RLOCK_CONNECT_TIMEOUT", "30s", FOR_ALL,
     "give up when no server has answered for this long; a --wait that ends counts instead",
     set_duration, FIELD(connect_timeout_ms)},
    {'q', "quiet", NULL, NULL, NULL, NULL, GRANTED,
     "no status line, and no message when the wait was in vain", set_flag, FIELD(quiet)},
    {'v', "verbose", NULL, NULL, NULL, NULL, GRANTED,
     "a line when the wait begins, at the grant, and at each server that does not answer",
     set_flag, FIELD(verbose)},
};
const size_t option_count = sizeof(option_rows) / sizeof(*option_rows);
