/* The listening sockets. */
#ifndef RLOCKD_SERVER_HTTP_LISTEN_H
#define RLOCKD_SERVER_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LISTEN_TEXT_SIZE = 300 };

/* Opens `count` sockets on one address, one for each worker (SO_REUSEPORT when there are more
 * than one). Port 0: a free one, the same for all. `where` gets the address as "host:port".
 * Non-zero with one line in `error` when the address cannot be had, also when another process
 * listens there. */
int listen_open(const char *host, uint16_t port, int *fds, int count,
                char where[LISTEN_TEXT_SIZE], char *error, size_t error_size)
    __attribute__((warn_unused_result));

/* Takes the socket that a service manager passes by LISTEN_FDS (sd_listen_fds(3)), once for
 * each worker: all of them accept from it. 1, and `where` as above; 0: no socket was passed; -1
 * with one line in `error`: not exactly one, or none that listens on TCP. */
int listen_inherit(int *fds, int count, char where[LISTEN_TEXT_SIZE], char *error,
                   size_t error_size) __attribute__((warn_unused_result));

/* Of an accepted connection: the kernel asks whether its client lives (tcp(7), TCP_KEEPIDLE) at
 * another time than it asks the clients of the connections before. */
void listen_spread_keepalive(int fd);

/* Whether only this machine reaches the socket. */
bool listen_is_local(int fd);

#endif
