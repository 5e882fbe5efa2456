/* The terminal's foreground group, which rlock hands to COMMAND and takes back. */
#ifndef RLOCK_CLIENT_TERMINAL_H
#define RLOCK_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd; /* of the controlling terminal, or -1 */
    /* COMMAND's group gets the terminal from the start. Otherwise, in a pipeline, only when it
     * wants to read or set it, for another process of the pipeline may be reading. */
    bool is_handed_over;
};

struct terminal terminal_open(void);

/* Is rlock's own group in the foreground? */
bool terminal_is_ours(const struct terminal *terminal);

/* Makes `group` the foreground group, if `from` is now. SIGTTOU has to be ignored. */
bool terminal_hand_over(const struct terminal *terminal, pid_t from, pid_t group);

/* Stops rlock's group, as Ctrl-Z would have, and returns when it goes on. Without a terminal,
 * or where nobody could continue rlock, returns at once. */
void terminal_stop_own_group(const struct terminal *terminal);

#endif
