/* The table of client addresses and their counts of connections. */
#include "server/http/addresses.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { IPV4_SIZE = 4, IPV6_NETWORK_SIZE = 8 };

struct address {
    UT_hash_handle hh;
    atomic_int connections;                   /* changed under the mutex, read without */
    unsigned char key[1 + IPV6_NETWORK_SIZE]; /* length of the part that counts, and the part */
};

struct addresses {
    pthread_mutex_t mutex; /* a connection begins or ends: no hot path */
    int connections_max;
    struct address *table;
};

struct addresses *addresses_new(int connections_max)
{
    struct addresses *addresses = calloc(1, sizeof(*addresses));

    if (addresses == NULL)
        return NULL;
    pthread_mutex_init(&addresses->mutex, NULL);
    addresses->connections_max = connections_max;
    return addresses;
}

void addresses_free(struct addresses *addresses)
{
    struct address *address, *next;

    HASH_ITER(hh, addresses->table, address, next) {
        HASH_DEL(addresses->table, address);
        free(address);
    }
    pthread_mutex_destroy(&addresses->mutex);
    free(addresses);
}

static void make_key(struct address *address, const struct sockaddr *client)
{
    const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)client)->sin6_addr;
    const void *bytes = ipv6->s6_addr;
    unsigned char len = IPV6_NETWORK_SIZE;

    if (client->sa_family != AF_INET6) {
        bytes = &((const struct sockaddr_in *)client)->sin_addr;
        len = IPV4_SIZE;
    } else if (IN6_IS_ADDR_V4MAPPED(ipv6)) {
        bytes = ipv6->s6_addr + sizeof(ipv6->s6_addr) - IPV4_SIZE;
        len = IPV4_SIZE;
    }
    memset(address->key, 0, sizeof(address->key));
    address->key[0] = len;
    memcpy(address->key + 1, bytes, len);
}

/* The entry of the address, made when there is none. NULL: out of memory. */
static struct address *find_or_add(struct addresses *addresses, const struct sockaddr *client)
{
    struct address wanted, *found;

    make_key(&wanted, client);
    HASH_FIND(hh, addresses->table, wanted.key, sizeof(wanted.key), found);
    if (found != NULL)
        return found;
    found = calloc(1, sizeof(*found));
    if (found == NULL)
        return NULL;
    memcpy(found->key, wanted.key, sizeof(found->key));
    HASH_ADD(hh, addresses->table, key, sizeof(found->key), found);
    return found;
}

struct address *addresses_enter(struct addresses *addresses, const struct sockaddr *client)
{
    pthread_mutex_lock(&addresses->mutex);
    struct address *address = find_or_add(addresses, client);
    if (address != NULL && addresses->connections_max > 0 &&
        address->connections >= addresses->connections_max)
        address = NULL;
    if (address != NULL)
        address->connections++;
    pthread_mutex_unlock(&addresses->mutex);
    return address;
}

int address_connections(const struct address *address)
{
    return atomic_load_explicit(&address->connections, memory_order_relaxed);
}

void addresses_leave(struct addresses *addresses, struct address *address)
{
    pthread_mutex_lock(&addresses->mutex);
    if (--address->connections == 0) {
        HASH_DEL(addresses->table, address);
        free(address);
    }
    pthread_mutex_unlock(&addresses->mutex);
}
