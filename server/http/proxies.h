/* The proxies that may say for whom they ask: the address of the client behind them, for the
 * log.
 */
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

/* Writes the client's address. That is the peer's, unless the peer is one of `proxies` (NULL:
 * none): then the last address of X-Forwarded-For, or of Forwarded (RFC 7239) where there is no
 * X-Forwarded-For, that is not one of `proxies` itself. Either header may be NULL. What is no
 * address ends the search. */
void proxies_client(const struct proxies *proxies, const struct sockaddr *peer,
                    const char *x_forwarded_for, const char *forwarded,
                    char client[INET6_ADDRSTRLEN]);

#endif
