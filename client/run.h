/* What `rlock run` knows while it waits, runs COMMAND and ends. */
#ifndef RLOCK_CLIENT_RUN_H
#define RLOCK_CLIENT_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/guard.h"
#include "client/lease.h"
#include "client/terminal.h"

enum run_phase { RUN_WAITS, RUN_HOLDS, RUN_ENDS };

struct run {
    struct settings *settings;
    struct http *http;
    struct lease lease;
    struct terminal terminal;
    struct signal_state signals;
    int signal_fd;
    enum run_phase phase;

    int signal;       /* RUN_WAITS: the signal that ended the wait */
    int64_t asked_at; /* RUN_HOLDS: of the last INT or TERM; 0: none */
    int end_signals;  /* RUN_ENDS: how many INT and TERM came */

    int guard_socket; /* -1: no guard, or its end was noticed */
    pid_t guard, command;
    bool has_ended;             /* the last message of the guard came */
    bool guard_died;            /* without that message */
    struct guard_message last;  /* GUARD_ENDED */
    int exec_error, fork_error; /* errno, or 0 */
    bool is_unproven;           /* rlock itself had to end the tree */
    bool is_lost;               /* the server said so */
};

/* Blocks the signals that rlock takes from a descriptor, and ignores SIGPIPE and SIGTTOU.
 * False: a message was written. */
bool run_events_start(struct run *run) __attribute__((warn_unused_result));

/* Ctrl-Z is for COMMAND from now on. */
void run_events_hold(struct run *run);

/* Takes signals and the guard's messages: an http_watch_fn. True: the request or pause that is
 * under way has to end. */
bool run_events_take(void *context);

/* Sends the guard an order; a guard that is gone is noticed by run_events_take(). */
void run_order(struct run *run, struct guard_message message);

#endif
