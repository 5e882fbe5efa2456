/* The settings of one run, from the command line and the environment. */
#ifndef RLOCK_CLIENT_SETTINGS_H
#define RLOCK_CLIENT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/guard.h"

/* As many locks as one lease may hold. */
enum { NAMES_MAX = 32 };

struct settings {
    const char *names[NAMES_MAX]; /* the first operand, then those of --also */
    size_t name_count;
    char **argv; /* operands after the name; with a NULL at the end */

    int64_t wait_ms; /* BOOTTIME_NEVER: without an end */
    int busy_status;
    const char *kind;
    bool permit;
    int64_t ttl_ms, grace_ms; /* -1: not given */
    int64_t max_time_ms, at_least_ms;
    int signal;
    enum descendants descendants;
    const char *note, *shell;

    int pid;      /* 0: not given */
    int ready_fd; /* -1: not given */
    const char *lease_file;

    const char *urls; /* NULL: neither --url nor RLOCK_URL was given */
    bool trusts_any;  /* servers are not checked: only for requests without a secret */
    const char *token_file, *ca, *cert, *key;
    int64_t connect_timeout_ms;
    bool quiet, verbose, json;

    const char *fencing_token, *reason; /* NULL: not given */
    bool yes;
    int64_t every_ms;
};

#endif
