/* The trusted proxies: they may name the address of the client behind them, for the log. */
#ifndef RLOCKD_SERVER_HTTP_PROXIES_H
#define RLOCKD_SERVER_HTTP_PROXIES_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

struct proxies;

/* `list`: addresses and networks (10.0.0.0/8, fd00::/8) with commas between them. NULL after
 * one line in `error`. */
struct proxies *proxies_parse(const char *list, char *error, size_t error_size);
void proxies_free(struct proxies *proxies);

/* Writes the client's address: the peer's address, unless the peer is one of `proxies` (NULL:
 * none). Then it is the last address of X-Forwarded-For, or without that header of Forwarded
 * (RFC 7239), that is not one of `proxies`. Either header may be NULL. An entry that is no
 * address ends the search. */
void proxies_client(const struct proxies *proxies, const struct sockaddr *peer,
                    const char *x_forwarded_for, const char *forwarded,
                    char client[INET6_ADDRSTRLEN]);

#endif
