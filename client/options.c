/* The table of options, and how options are read. */
#include "client/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/boottime.h"
#include "client/say.h"

#define DURATION "has to be a duration such as 500ms, 30, 30s, 5m, 2h or 1d"

/* Limits of the server: openapi.yaml, ttl_ms of a session, and of a lease. */
enum { TTL_MIN_MS = 1000, TTL_MAX_MS = 3600000 };
static const int64_t DURATION_MAX_MS = 366 * 86400000LL;

/* A bare number is seconds. -1: no duration. */
static int64_t read_duration(const char *text)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);

    if (digits == 0 || end != text + digits) { /* as "0x10", "1e3", "1.2.3" */
        return -1;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(end, units[i].unit) == 0) {
            double ms = number * units[i].ms;
            return ms <= (double)DURATION_MAX_MS ? (int64_t)(ms + 0.5) : -1;
        }
    }
    return -1;
}

static const char *set_duration(int64_t *out, const char *text)
{
    int64_t ms = read_duration(text);

    *out = ms;
    return ms < 0 ? DURATION : NULL;
}

static bool read_number(const char *text, int max, int *out)
{
    char *end;

    errno = 0;
    long number = strtol(text, &end, 10);
    *out = (int)number;
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && number <= max;
}

#define SETTER(name) static const char *name(struct settings *settings, const char *argument)

SETTER(set_wait)
{
    return set_duration(&settings->wait_ms, argument);
}

SETTER(set_no_wait)
{
    (void)argument;
    settings->wait_ms = 0;
    return NULL;
}

SETTER(set_busy_status)
{
    return read_number(argument, 255, &settings->busy_status) ? NULL : "has to be 0 to 255";
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
    (void)argument;
    settings->kind = "read";
    return NULL;
}

SETTER(set_fair)
{
    (void)argument;
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

SETTER(set_permit)
{
    (void)argument;
    settings->permit = true;
    return NULL;
}

SETTER(set_ttl)
{
    const char *problem = set_duration(&settings->ttl_ms, argument);

    if (!problem && (settings->ttl_ms < TTL_MIN_MS || settings->ttl_ms > TTL_MAX_MS)) {
        problem = "has to be 1s to 1h";
    }
    return problem;
}

SETTER(set_grace)
{
    return set_duration(&settings->grace_ms, argument);
}

SETTER(set_signal)
{
    const char *name = strncmp(argument, "SIG", 3) == 0 ? argument + 3 : argument;

    if (read_number(argument, SIGRTMAX, &settings->signal) && settings->signal > 0) {
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
    const char *problem = set_duration(&settings->max_time_ms, argument);

    if (settings->max_time_ms == 0) { /* as timeout(1) has it */
        settings->max_time_ms = BOOTTIME_NEVER;
    }
    return problem;
}

SETTER(set_at_least)
{
    return set_duration(&settings->at_least_ms, argument);
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

SETTER(set_note)
{
    settings->note = argument;
    return strlen(argument) > 256 ? "has to be at most 256 bytes" : NULL;
}

SETTER(set_shell)
{
    settings->shell = argument;
    return NULL;
}

SETTER(set_urls)
{
    settings->urls = argument;
    return NULL;
}

SETTER(set_token_file)
{
    settings->token_file = argument;
    return NULL;
}

SETTER(set_ca)
{
    settings->ca = argument;
    return NULL;
}

SETTER(set_cert)
{
    settings->cert = argument;
    return NULL;
}

SETTER(set_key)
{
    settings->key = argument;
    return NULL;
}

SETTER(set_connect_timeout)
{
    return set_duration(&settings->connect_timeout_ms, argument);
}

SETTER(set_quiet)
{
    (void)argument;
    settings->quiet = true;
    return NULL;
}

SETTER(set_verbose)
{
    (void)argument;
    settings->verbose = true;
    return NULL;
}

SETTER(set_json)
{
    (void)argument;
    settings->json = true;
    return NULL;
}

SETTER(set_fencing_token)
{
    settings->fencing_token = argument;
    return argument[0] && argument[strspn(argument, "0123456789")] == '\0'
               ? NULL
               : "has to be a number";
}

SETTER(set_yes)
{
    (void)argument;
    settings->yes = true;
    return NULL;
}

const struct option_row option_rows[] = {
    {'w', "wait", "D", NULL, NULL, "for ever", FOR_RUN, "how long to wait", set_wait},
    {'n', "no-wait", NULL, NULL, NULL, NULL, FOR_RUN, "do not wait: the same as --wait 0",
     set_no_wait},
    {'E', "busy-status", "N", NULL, NULL, "75", FOR_RUN,
     "exit status when the wait was in vain; 0 to 255", set_busy_status},
    {'s', "shared", NULL, NULL, NULL, NULL, FOR_RUN, "the same as --kind read", set_shared},
    {0, "fair", NULL, NULL, NULL, NULL, FOR_RUN, "the same as --kind fair", set_fair},
    {0, "kind", "K", "lock fair read write", NULL, "lock", FOR_RUN,
     "kind of the lock: lock, fair, read or write", set_kind},
    {0, "also", "NAME", NULL, NULL, NULL, FOR_RUN,
     "another lock, all or none of them; may be repeated", set_also},
    {0, "permit", NULL, NULL, NULL, NULL, FOR_RUN,
     "a permit of the permit semaphore NAME instead of a lock", set_permit},
    {'t', "ttl", "D", NULL, NULL, "30s", FOR_RUN,
     "how long other clients wait when this machine dies; 1s to 1h", set_ttl},
    {'k', "grace", "D", NULL, NULL, "5s, at most a third of --ttl", FOR_RUN,
     "from the first signal to KILL; at most three quarters of --ttl", set_grace},
    {0, "signal", "SIG", "TERM INT HUP QUIT USR1 USR2", NULL, "TERM", FOR_RUN,
     "the first signal to a COMMAND that has to end", set_signal},
    {'T', "max-time", "D", NULL, NULL, "none", FOR_RUN,
     "end COMMAND after this time, with exit status 124; 0: no limit", set_max_time},
    {0, "at-least", "D", NULL, NULL, "0", FOR_RUN,
     "other clients get the lock no sooner than this after the grant, also when COMMAND was "
     "faster; rlock itself does not wait for it",
     set_at_least},
    {0, "descendants", "WHAT", "kill wait leave", NULL, "kill", FOR_RUN,
     "what becomes of processes that COMMAND leaves behind: kill, wait or leave",
     set_descendants},
    {0, "note", "TEXT", NULL, NULL, "user@host, process id, name of COMMAND", FOR_RUN,
     "shown to clients that look or wait", set_note},
    {'c', "shell", "STRING", NULL, NULL, NULL, FOR_RUN,
     "run STRING by $SHELL, or sh, instead of COMMAND", set_shell},
    {0, "fencing-token", "N", NULL, NULL, NULL, FOR_FORCE,
     "free only the grant with this fencing token", set_fencing_token},
    {'y', "yes", NULL, NULL, NULL, NULL, FOR_FORCE, "do not ask", set_yes},
    {0, "json", NULL, NULL, NULL, NULL, FOR_SHOW | FOR_LS, "print the server's JSON", set_json},
    {0, "url", "LIST", NULL, "RLOCK_URL", "http://localhost:7400", FOR_ALL,
     "servers, with commas between them, tried in turn", set_urls},
    {0, "token-file", "FILE", "FILE", "RLOCK_TOKEN_FILE", NULL, FOR_ALL,
     "file with the API token", set_token_file},
    {0, "ca", "FILE", "FILE", "RLOCK_CA", NULL, FOR_ALL,
     "certificates of authorities that servers are checked with", set_ca},
    {0, "cert", "FILE", "FILE", "RLOCK_CERT", NULL, FOR_ALL, "this client's certificate",
     set_cert},
    {0, "key", "FILE", "FILE", "RLOCK_KEY", NULL, FOR_ALL, "the key of that certificate",
     set_key},
    {0, "connect-timeout", "D", NULL, NULL, "30s", FOR_ALL,
     "give up when no server has answered for this long", set_connect_timeout},
    {'q', "quiet", NULL, NULL, NULL, NULL, FOR_RUN,
     "no status line, and no message when the wait was in vain", set_quiet},
    {'v', "verbose", NULL, NULL, NULL, NULL, FOR_RUN,
     "a line when the wait begins, at the grant, and at each server that does not answer",
     set_verbose},
};
const size_t option_count = sizeof(option_rows) / sizeof(*option_rows);

enum { OPTIONS_ROOM = 64, LONG_ONLY = 256 };

static bool set(const struct option_row *row, struct settings *settings, const char *argument,
                const char *said)
{
    const char *problem = row->set(settings, argument);

    if (problem) {
        say("%s %s", said, problem);
    }
    return !problem;
}

static bool read_variables(const struct subcommand *subcommand, struct settings *settings)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *value = row->variable ? getenv(row->variable) : NULL;
        if (value && *value && row->takers & subcommand->bit &&
            !set(row, settings, value, row->variable)) {
            return false;
        }
    }
    return true;
}

/* getopt_long()'s tables; the value of a row is its index after LONG_ONLY. */
static void make_tables(const struct subcommand *subcommand, struct option *longs, char *shorts)
{
    *shorts++ = '+'; /* options end at the first operand */
    *shorts++ = ':';
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->takers & subcommand->bit)) {
            continue;
        }
        *longs++ = (struct option){row->name, row->argument != NULL, NULL, LONG_ONLY + (int)i};
        if (row->short_name) {
            *shorts++ = row->short_name;
            if (row->argument) {
                *shorts++ = ':';
            }
        }
    }
    *shorts = '\0';
    *longs = (struct option){0};
}

static const struct option_row *row_of(int value)
{
    for (size_t i = 0; i < option_count; i++) {
        if (value == LONG_ONLY + (int)i || value == option_rows[i].short_name) {
            return &option_rows[i];
        }
    }
    return NULL;
}

static bool read_options(const struct subcommand *subcommand, int argc, char **argv,
                         struct settings *settings)
{
    struct option longs[OPTIONS_ROOM];
    char shorts[2 * OPTIONS_ROOM], said[64];
    int value;

    make_tables(subcommand, longs, shorts);
    opterr = 0;
    while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const struct option_row *row = row_of(value);
        if (!row || value == ':') {
            say(value == ':' ? "%s needs an argument" : "no such option: %s", argv[optind - 1]);
            return false;
        }
        snprintf(said, sizeof(said), "--%s", row->name);
        if (!set(row, settings, optarg, said)) {
            return false;
        }
    }
    return true;
}

bool options_read(const struct subcommand *subcommand, int argc, char **argv,
                  struct settings *settings)
{
    *settings = (struct settings){.name_count = 1,
                                  .wait_ms = BOOTTIME_NEVER,
                                  .busy_status = 75,
                                  .kind = "lock",
                                  .ttl_ms = 30000,
                                  .grace_ms = -1,
                                  .max_time_ms = BOOTTIME_NEVER,
                                  .signal = SIGTERM,
                                  .urls = "http://localhost:7400",
                                  .connect_timeout_ms = 30000};
    if (!read_variables(subcommand, settings) ||
        !read_options(subcommand, argc, argv, settings)) {
        return false;
    }
    int operands = argc - optind;
    if (operands < subcommand->operands_min || operands > subcommand->operands_max) {
        say("usage: rlock %s [OPTIONS] %s", subcommand->name, subcommand->operands);
        return false;
    }
    settings->names[0] = operands > 0 ? argv[optind++] : "";
    if (optind < argc && strcmp(argv[optind], "--") == 0) {
        optind++;
    }
    settings->argv = argv + optind;
    return true;
}
