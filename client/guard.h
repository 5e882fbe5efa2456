/* The guard: a process between rlock and COMMAND that ends everything COMMAND started when the
 * lock cannot be proven any more, also while rlock is stopped or after rlock was killed. It
 * knows nothing of HTTP: deadlines come through a socket, and the socket's end ends the tree.
 */
#ifndef RLOCK_CLIENT_GUARD_H
#define RLOCK_CLIENT_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The fate of processes that COMMAND leaves behind when it ends. */
enum descendants { DESCENDANTS_KILL, DESCENDANTS_WAIT, DESCENDANTS_LEAVE };

/* Signal settings that this process changed, and that COMMAND gets back. */
struct signal_state {
    sigset_t mask;
    struct sigaction pipe, tty_output;
};

/* In the place of errno in GUARD_NOT_BEGUN: the lock had to be proven again by then. */
enum { GUARD_TOO_LATE = -1 };

enum guard_kept { GUARD_KEPT_PROCESS, GUARD_KEPT_INPUT, GUARD_KEPT_OUTPUT, GUARD_KEPT };

/* COMMAND: a program, or with `path` NULL a function whose result is the exit status. */
struct guard_work {
    char *path, **argv; /* for execve(2) */
    int (*body)(void *context);
    /* Takes the first signal in the place of COMMAND's default action. */
    void (*on_first_signal)(int signal);
    void *context;
    int kept[GUARD_KEPT]; /* descriptors that the function needs; -1: none */
};

struct guard_plan {
    struct guard_work work;
    char **environment;
    int terminal; /* whose foreground group COMMAND's becomes, or -1 */
    int signal;   /* the first signal to a tree that has to end */
    enum descendants descendants;
    int64_t grace_ms;             /* between that signal and KILL */
    int64_t max_time_ms;          /* BOOTTIME_NEVER: no limit */
    int64_t first_at, kill_at;    /* boottime_ms(): of the first signal, of KILL */
    struct signal_state *signals; /* to restore */
};

/* From rlock to its guard. */
enum guard_order {
    GUARD_DEADLINE, /* the lock was proven: first_at, kill_at */
    GUARD_LOST,     /* end the tree now, KILL after the grace, no later than kill_at */
    GUARD_SIGNAL,   /* `number` to COMMAND's process group */
    GUARD_KILL,     /* KILL to the tree */
};

/* From the guard to rlock. */
enum guard_news {
    GUARD_STARTED,   /* number: COMMAND's process id, which is its process group's, too */
    GUARD_NOT_BEGUN, /* number: errno of execve(), or GUARD_TOO_LATE */
    GUARD_NO_FORK,   /* number: errno of fork() */
    GUARD_STOPPED,   /* number: the signal that stopped COMMAND */
    GUARD_ENDED,     /* number: COMMAND's wait status; cause; the last message */
};

enum guard_cause {
    CAUSE_NONE,     /* COMMAND ended by itself, or of a signal that was handed on */
    CAUSE_DEADLINE, /* the lock could not be proven in time */
    CAUSE_LOST,     /* GUARD_LOST came */
    CAUSE_MAX_TIME,
    CAUSE_ORPHANED, /* rlock died */
};

struct guard_message {
    int what; /* guard_order or guard_news */
    int number;
    int cause;
    int survivors; /* processes of other users, which could not be ended */
    int64_t first_at, kill_at;
};

/* Forks the guard, which starts COMMAND. `*socket` is rlock's end, non-blocking. -1: errno of
 * fork(2) or socketpair(2). */
pid_t guard_start(const struct guard_plan *plan, int *socket)
    __attribute__((warn_unused_result));

/* Closes the output of COMMAND, whose reader waits for its end, in a process that has started
 * COMMAND, or the guard. */
void guard_leave_output(const struct guard_plan *plan);

/* False when the guard is gone. */
bool guard_send(int socket, const struct guard_message *message);

/* 1: a message; 0: none yet; -1: the guard is gone. */
int guard_receive(int socket, struct guard_message *message)
    __attribute__((warn_unused_result));

#endif
