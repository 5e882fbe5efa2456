/* How many connections each client address has, of all workers together. */
#ifndef RLOCKD_SERVER_HTTP_ADDRESSES_H
#define RLOCKD_SERVER_HTTP_ADDRESSES_H

#include <stdbool.h>
#include <sys/socket.h>

struct addresses;
struct address;

/* `connections_max`: of one address; 0: any number. NULL: out of memory. */
struct addresses *addresses_new(int connections_max);
void addresses_free(struct addresses *addresses);

/* Counts a connection from this address; NULL when it has as many as it may, or memory is
 * short. Of IPv6 the first 64 bits count: the rest is the client's to choose. */
struct address *addresses_enter(struct addresses *addresses, const struct sockaddr *client);
int address_connections(const struct address *address);
/* For each address that addresses_enter() gave. */
void addresses_leave(struct addresses *addresses, struct address *address);

#endif
