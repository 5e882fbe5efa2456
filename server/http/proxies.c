/* The list of trusted networks, and the client's address behind a proxy. */
#include "server/http/proxies.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/text.h"

enum { PROXIES_MAX = 64, ADDRESS_BITS = 128, IPV4_PREFIX_BITS = 96 };

/* IPv4 as ::ffff:a.b.c.d. */
struct network {
    struct in6_addr address;
    int bits;
};

struct proxies {
    size_t count;
    struct network networks[PROXIES_MAX];
};

struct span {
    const char *text;
    size_t len;
};

static void map_ipv4(const struct in_addr *from, struct in6_addr *to)
{
    *to = (struct in6_addr){.s6_addr = {[10] = 0xFF, [11] = 0xFF}};
    memcpy(to->s6_addr + 12, from, sizeof(*from));
}

/* One address without port or brackets. */
static bool parse_address(const char *text, size_t len, struct in6_addr *address)
{
    char copy[INET6_ADDRSTRLEN];
    struct in_addr ipv4;

    if (len >= sizeof(copy))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (inet_pton(AF_INET, copy, &ipv4) == 1) {
        map_ipv4(&ipv4, address);
        return true;
    }
    return inet_pton(AF_INET6, copy, address) == 1;
}

static void trim(struct span *span)
{
    while (span->len > 0 && (*span->text == ' ' || *span->text == '\t')) {
        span->text++;
        span->len--;
    }
    while (span->len > 0 &&
           (span->text[span->len - 1] == ' ' || span->text[span->len - 1] == '\t'))
        span->len--;
}

/* --- the setting -------------------------------------------------------------------------- */

static bool parse_network(struct span span, struct network *network)
{
    const char *slash = memchr(span.text, '/', span.len);
    size_t address_len = slash ? (size_t)(slash - span.text) : span.len;
    char bits_text[8] = "";
    int64_t bits = 0;

    if (!parse_address(span.text, address_len, &network->address))
        return false;
    bool is_ipv4 = memchr(span.text, ':', address_len) == NULL;
    int64_t bits_max = is_ipv4 ? ADDRESS_BITS - IPV4_PREFIX_BITS : ADDRESS_BITS;
    if (slash == NULL) {
        network->bits = ADDRESS_BITS;
        return true;
    }
    size_t bits_len = span.len - address_len - 1;
    if (bits_len >= sizeof(bits_text))
        return false;
    memcpy(bits_text, slash + 1, bits_len);
    if (!text_parse_int64(bits_text, &bits) || bits < 0 || bits > bits_max)
        return false;
    network->bits = (int)bits + (is_ipv4 ? IPV4_PREFIX_BITS : 0);
    return true;
}

struct proxies *proxies_parse(const char *list, char *error, size_t error_size)
{
    struct proxies *proxies = calloc(1, sizeof(*proxies));

    if (proxies == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    while (*list != '\0') {
        struct span span = {list, strcspn(list, ",")};
        list += span.len + (list[span.len] == ',');
        trim(&span);
        if (proxies->count == PROXIES_MAX ||
            !parse_network(span, &proxies->networks[proxies->count])) {
            snprintf(error, error_size,
                     "must be at most %d addresses or networks such as 10.0.0.0/8, with commas "
                     "between them",
                     PROXIES_MAX);
            free(proxies);
            return NULL;
        }
        proxies->count++;
    }
    return proxies;
}

void proxies_free(struct proxies *proxies)
{
    free(proxies);
}

/* --- the client of a request -------------------------------------------------------------- */

static bool is_in(const struct network *network, const struct in6_addr *address)
{
    size_t bytes = (size_t)network->bits / 8;
    int mask = 0xFF00 >> (network->bits % 8) & 0xFF;

    return memcmp(network->address.s6_addr, address->s6_addr, bytes) == 0 &&
           (mask == 0 ||
            ((network->address.s6_addr[bytes] ^ address->s6_addr[bytes]) & mask) == 0);
}

static bool is_trusted(const struct proxies *proxies, const struct in6_addr *address)
{
    for (size_t i = 0; i < proxies->count; i++)
        if (is_in(&proxies->networks[i], address))
            return true;
    return false;
}

/* The value of `for=` in one element of Forwarded; empty where it has none. */
static struct span forwarded_for(struct span element)
{
    while (element.len > 0) {
        const char *end = memchr(element.text, ';', element.len);
        struct span pair = {element.text, end ? (size_t)(end - element.text) : element.len};
        size_t step = pair.len + (end != NULL);
        trim(&pair);
        if (pair.len > 4 && strncasecmp(pair.text, "for=", 4) == 0)
            return (struct span){pair.text + 4, pair.len - 4};
        element.text += step;
        element.len -= step;
    }
    return element;
}

/* An address as proxies write it: with a port or none, in brackets, in quotes. */
static bool parse_node(struct span node, struct in6_addr *address)
{
    if (node.len >= 2 && node.text[0] == '"' && node.text[node.len - 1] == '"') {
        node.text++;
        node.len -= 2;
    }
    if (node.len > 0 && node.text[0] == '[') {
        const char *end = memchr(node.text, ']', node.len);
        return end != NULL &&
               parse_address(node.text + 1, (size_t)(end - node.text) - 1, address);
    }
    const char *colon = memchr(node.text, ':', node.len);
    bool has_port = colon != NULL && memrchr(node.text, ':', node.len) == colon;
    return parse_address(node.text, has_port ? (size_t)(colon - node.text) : node.len, address);
}

/* From the last element, which the nearest proxy has written, to the first. */
static void follow(const struct proxies *proxies, const char *list, bool is_forwarded,
                   struct in6_addr *client)
{
    size_t len = strlen(list);
    struct in6_addr address;

    while (len > 0 && is_trusted(proxies, client)) {
        const char *comma = memrchr(list, ',', len);
        size_t before = comma ? (size_t)(comma - list) : 0;
        size_t start = comma ? before + 1 : 0;
        struct span element = {list + start, len - start};
        trim(&element);
        if (is_forwarded)
            element = forwarded_for(element);
        if (!parse_node(element, &address))
            return;
        *client = address;
        len = before;
    }
}

static void format_address(const struct in6_addr *address, char text[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        inet_ntop(AF_INET, address->s6_addr + 12, text, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}

void proxies_client(const struct proxies *proxies, const struct sockaddr *peer,
                    const char *x_forwarded_for, const char *forwarded,
                    char client[INET6_ADDRSTRLEN])
{
    struct in6_addr address;

    client[0] = '\0';
    if (peer->sa_family == AF_INET)
        map_ipv4(&((const struct sockaddr_in *)(const void *)peer)->sin_addr, &address);
    else if (peer->sa_family == AF_INET6)
        address = ((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    else
        return;
    if (proxies != NULL && x_forwarded_for != NULL)
        follow(proxies, x_forwarded_for, false, &address);
    else if (proxies != NULL && forwarded != NULL)
        follow(proxies, forwarded, true, &address);
    format_address(&address, client);
}
