/* One redis-server process, from fork to the last line of its log. embedded.c decides when a
 * process is started and ended. */
#ifndef RLOCKD_STORAGE_REDIS_CHILD_H
#define RLOCKD_STORAGE_REDIS_CHILD_H

#include "storage/redis/url.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* The socket's path has the tightest limit; its directory and the files beside it fit in this.
 */
#define REDIS_CHILD_PATH_SIZE (REDIS_URL_PATH_SIZE + 16)

struct redis_child {
    char executable[PATH_MAX];
    const char *name;                      /* as which it is executed */
    char directory[REDIS_CHILD_PATH_SIZE]; /* absolute, like the next two */
    char log_path[REDIS_CHILD_PATH_SIZE];
    char socket_path[REDIS_URL_PATH_SIZE];
    int lock_fd;     /* the only descriptor that the process inherits */
    pid_t pid;       /* 0: there is no process */
    off_t log_start; /* where in the log the process began */
};

/* Looks for redis-server, then valkey-server, on the PATH, then for the same programs under the
 * names that they have without a service. */
int redis_child_find_executable(struct redis_child *child) __attribute__((warn_unused_result));

/* Forks; -1 with errno when that fails. That the program cannot be executed shows when the
 * process ends. The kernel ends it (SIGTERM) when the calling thread ends. */
int redis_child_start(struct redis_child *child) __attribute__((warn_unused_result));

/* True, once, when the process has ended. Does not wait. */
bool redis_child_reap(struct redis_child *child, int *status)
    __attribute__((warn_unused_result));

/* Writes how the process ended, and its last log line, as one line of ASCII. */
void redis_child_describe_end(const struct redis_child *child, int status, char *out,
                              size_t out_size);

enum redis_child_state { REDIS_CHILD_NO_SOCKET, REDIS_CHILD_NOT_READY, REDIS_CHILD_READY };

/* Asks by PING whether it serves yet; waits up to half a second for the answer. */
enum redis_child_state redis_child_probe(const struct redis_child *child);

#endif
