/* COMMAND's file and environment. */
#ifndef RLOCK_CLIENT_COMMAND_H
#define RLOCK_CLIENT_COMMAND_H

#include <stdbool.h>

#include "client/lease.h"
#include "client/settings.h"

/* COMMAND as execve(2) wants it; with --shell a shell with its arguments. The caller frees
 * `*path` and `*argv`, which may be NULL, but not the texts of argv. Returns 0, or the exit
 * status after a message. */
int command_find(const struct settings *settings, char **path, char ***argv)
    __attribute__((warn_unused_result));

/* One of the names is held by an outer run, as RLOCK_HELD says: this run would wait for itself.
 * NULL: none. */
const char *command_held_outside(const struct settings *settings);

/* Puts what COMMAND learns of its lock into this process' environment. False: no memory. */
bool command_set_environment(const struct lease *lease) __attribute__((warn_unused_result));

#endif
