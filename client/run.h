/* The state of one run: it waits, it holds the lock while COMMAND runs, it ends. */
#ifndef RLOCK_CLIENT_RUN_H
#define RLOCK_CLIENT_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/guard.h"
#include "client/lease.h"
#include "client/terminal.h"

enum {
    RUN_NOTE_SIZE = 257,      /* the server takes 256 bytes */
    RUN_ROUND_PAUSE_MS = 250, /* between proofs that nobody answered */
    RUN_PROOF_MAX_MS = 3000,  /* for the answer to a proof */
};

enum run_phase { RUN_WAITS, RUN_HOLDS, RUN_ENDS };

/* The work that the lock is held for: a program, or a function in a child of the guard. */
struct work {
    const char *name;        /* for the note */
    struct guard_work child; /* of the guard */
    int first_signal;        /* to the child when it has to end */

    /* May be NULL. While rlock waits: true when nobody needs the lock any more. */
    bool (*is_over)(void *context);
    /* May be NULL. After the grant, before the child begins. */
    void (*granted)(void *context, json_t *grant);
    /* May be NULL. A signal that rlock has not handed on, or the death of the guard, has ended
     * the child, and the lock is about to be released. */
    void (*killed)(void *context);
};

struct run {
    struct settings *settings;
    const struct work *work; /* NULL: for no process */
    struct http *http;
    struct lease lease;
    const char *token; /* of the lease, which rlock does not keep alive; NULL: a new one */
    struct terminal terminal;
    struct signal_state signals;
    int signal_fd;
    enum run_phase phase;
    char note[RUN_NOTE_SIZE];

    int signal;         /* RUN_WAITS, RUN_ENDS: the signal that has ended the wait, or would */
    int64_t told_at;    /* RUN_WAITS: when the service manager last heard of it; 0: never */
    int64_t asked_at;   /* when the last cancellation, INT or TERM, began; 0: none */
    sigset_t handed_on; /* RUN_HOLDS: the signals that COMMAND was to have */
    int end_signals;    /* RUN_ENDS: how many INT and TERM came */

    int guard_socket; /* -1: no guard, or its end was noticed */
    pid_t guard, command;
    bool has_ended;             /* the last message of the guard came */
    bool guard_died;            /* without that message */
    struct guard_message last;  /* GUARD_ENDED */
    int exec_error, fork_error; /* errno or GUARD_TOO_LATE, or 0 */
    bool is_unproven;           /* rlock itself had to end the tree */
    bool is_lost;               /* the server said so */
    int64_t lost_at;            /* RUN_HOLDS: when; boottime_ms() */
};

/* Holds the lock of the settings while the work lasts. Returns rlock's exit status. */
int run_work(struct settings *settings, const struct work *work);

/* Checks names, makes the note, opens the way to the servers and takes signals. `name` is for
 * the note. False: a message was written, and *status is the exit status. run_close() is due in
 * both cases. */
bool run_open(struct run *run, const char *name, int *status)
    __attribute__((warn_unused_result));
void run_close(struct run *run);

/* Waits for the lease as long as the settings say. After anything but LEASE_HELD
 * lease_give_up() is due. LEASE_LOST: the lease of `token` has ended. */
enum lease_outcome run_wait(struct run *run);

/* Says why there is no lease, and returns the exit status. */
int run_end_of_wait(struct run *run, enum lease_outcome outcome);

/* When the first signal is due, and KILL, before the deadline of the lease: boottime_ms(). */
int64_t run_margin_ms(const struct settings *settings);
int64_t run_kill_at(const struct run *run);
int64_t run_first_at(const struct run *run);

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
