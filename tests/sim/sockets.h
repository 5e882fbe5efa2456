/* The sockets between front ends and the simulated Redis: what the product's hiredis calls
 * (socket, connect, read, write, close, ...) comes here by the linker's --wrap, as do the clock
 * and the source of random bytes. */
#ifndef RLOCKD_TESTS_SIM_SOCKETS_H
#define RLOCKD_TESTS_SIM_SOCKETS_H

#include "tests/sim/front.h"
#include "tests/sim/servers.h"

/* The events that epoll would report; an unknown descriptor has none. */
uint32_t socket_events(int fd);

void sockets_init(uint64_t seed);
/* The server's process answers nobody, or does again. */
void sockets_pause(struct server *server, bool is_paused);

/* The front end's process is gone: all its sockets are closed. */
void sockets_close_all(struct front *front);
/* Resets every connection of the front end; returns how many. */
int64_t sockets_reset_all(struct front *front);
/* Those to one server. NULL: to any. */
int64_t sockets_reset(struct front *front, const struct server *server);
/* Redis closes connections: those of subscribers, or the others. Returns how many. */
int64_t sockets_kill(bool subscribers);
/* The trouble of a front end's connections to Redis has changed: what was held back goes on. */
void sockets_heal(struct front *front);

/* How long a message takes. */
int64_t latency_ns(struct chance *chance);

#endif
