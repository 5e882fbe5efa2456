/* The check of Host, Origin and Sec-Fetch-Site. */
#include "server/http/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "server/base/text.h"
#include "server/http/cors.h"

enum { HOST_SIZE = 256 }; /* DNS allows 253 bytes in a name */

bool origin_names_are_valid(const char *list)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    const char *entry;

    while (*list != '\0') {
        size_t len = text_next_entry(&list, &entry);
        if (len == 0 || len >= HOST_SIZE || strspn(entry, allowed) < len)
            return false;
    }
    return true;
}

static bool is_listed(const char *list, const char *name)
{
    size_t name_len = strlen(name);
    const char *entry;

    while (*list != '\0') {
        size_t len = text_next_entry(&list, &entry);
        if (len == name_len && strncasecmp(entry, name, len) == 0)
            return true;
    }
    return false;
}

/* Copies the host of `authority`, which is a host with an optional port, without the brackets
 * of an IPv6 address. False: `authority` has another form. */
static bool take_host(const char *authority, char host[HOST_SIZE], bool *in_brackets)
{
    *in_brackets = *authority == '[';
    const char *begin = authority + *in_brackets;
    size_t len = strcspn(begin, *in_brackets ? "]" : ":");
    const char *end = begin + len + (*in_brackets && begin[len] == ']');

    if (len == 0 || len >= HOST_SIZE || (*end != '\0' && *end != ':') ||
        (*in_brackets && end == begin + len))
        return false;
    memcpy(host, begin, len);
    host[len] = '\0';
    return true;
}

/* Whether no foreign DNS server can make the name of `authority` one of this server. */
static bool is_safe(const struct origin_rules *rules, const char *authority)
{
    unsigned char address[sizeof(struct in6_addr)];
    char host[HOST_SIZE];
    bool in_brackets;

    if (!take_host(authority, host, &in_brackets))
        return false;
    if (in_brackets)
        return inet_pton(AF_INET6, host, address) == 1;
    return strcasecmp(host, "localhost") == 0 || inet_pton(AF_INET, host, address) == 1 ||
           strcasecmp(host, rules->listen_host) == 0 || is_listed(rules->server_names, host);
}

/* Bytes of `authority` without the port, if that is `port`. */
static size_t len_without_port(const char *authority, const char *port)
{
    size_t len = strlen(authority), port_len = strlen(port);

    return len > port_len && strcmp(authority + len - port_len, port) == 0 ? len - port_len
                                                                           : len;
}

/* Whether a page of `origin` came from this server, as the browser has it. Browsers leave the
 * port out where the scheme implies it; a proxy may put it into Host. Without TLS of this
 * server a proxy may have added TLS. */
static bool is_own(const struct origin_rules *rules, const char *origin, const char *host)
{
    static const struct {
        const char *prefix, *port;
    } schemes[] = {{"https://", ":443"}, {"http://", ":80"}};

    for (size_t i = 0; i < (rules->has_tls ? 1 : 2); i++) {
        size_t prefix_len = strlen(schemes[i].prefix);
        if (strncasecmp(origin, schemes[i].prefix, prefix_len) != 0)
            continue;
        const char *authority = origin + prefix_len;
        size_t len = len_without_port(authority, schemes[i].port);
        return len == len_without_port(host, schemes[i].port) &&
               strncasecmp(authority, host, len) == 0;
    }
    return false;
}

/* Of a request without an Origin. Browsers send Sec-Fetch-Site to addresses of this machine and
 * to servers with TLS, other programs send none. */
static bool is_foreign_site(const struct origin_headers *headers, bool opens_page)
{
    const char *site = headers->sec_fetch_site, *dest = headers->sec_fetch_dest;

    if (site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
        return false;
    /* A document is shown in a tab of its own, where the page that led to it cannot read it. */
    return !opens_page || dest == NULL || strcmp(dest, "document") != 0;
}

enum origin_outcome origin_check(const struct origin_rules *rules,
                                 const struct origin_headers *headers, bool opens_page)
{
    const char *host = headers->host != NULL ? headers->host : "";
    bool needs_known_host = rules->is_local || rules->server_names[0] != '\0';

    /* Browsers send no empty Host. */
    if (needs_known_host && host[0] != '\0' && !is_safe(rules, host))
        return ORIGIN_WRONG_HOST;
    if (headers->origin == NULL)
        return is_foreign_site(headers, opens_page) ? ORIGIN_FOREIGN : ORIGIN_SERVED;
    if (cors_allowed_origin(rules->cors_origins, headers->origin) != NULL)
        return ORIGIN_SERVED;
    if (!is_own(rules, headers->origin, host))
        return ORIGIN_FOREIGN;
    return is_safe(rules, host) ? ORIGIN_SERVED : ORIGIN_REBINDABLE;
}
