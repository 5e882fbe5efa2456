/* The processes that descend from this process, which is their subreaper. */
#ifndef RLOCK_CLIENT_TREE_H
#define RLOCK_CLIENT_TREE_H

#include <stdbool.h>
#include <sys/types.h>

struct tree_count {
    int reached; /* processes that took the signal */
    int refused; /* processes of another user: kill(2) says EPERM */
};

/* 0: there is no such process. */
pid_t tree_parent(pid_t pid);

/* False: /proc is not mounted, and tree_signal() would find nobody. */
bool tree_is_visible(void);

/* Sends the signal to every descendant of this process that /proc shows, through pidfds, so
 * that no other process with a reused id gets the signal. Processes that are forked meanwhile
 * may be missed. Zombies are not counted. */
struct tree_count tree_signal(int signal);

#endif
