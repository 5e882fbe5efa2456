/* server/http/proxies.c, cors.c and origin.c: lists of the settings, and headers of requests.
 * The input is ten lines: trusted proxies, the peer's address, X-Forwarded-For, Forwarded, CORS
 * origins, an Origin, server names, Host, Sec-Fetch-Site and Sec-Fetch-Dest. An empty header is
 * one that is missing. */
#include <arpa/inet.h>

#include "server/http/cors.h"
#include "server/http/origin.h"
#include "server/http/proxies.h"
#include "tests/fuzz/fuzz.h"

static const struct sockaddr *peer_of(const char *text, struct sockaddr_storage *room)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)room;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)room;

    memset(room, 0, sizeof(*room));
    if (inet_pton(AF_INET, text, &ipv4->sin_addr) == 1)
        ipv4->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &ipv6->sin6_addr) == 1)
        ipv6->sin6_family = AF_INET6;
    else
        room->ss_family = AF_UNIX;
    return (const struct sockaddr *)room;
}

static void check_client(const struct proxies *proxies, const char *peer_text,
                         const char *x_forwarded_for, const char *forwarded)
{
    struct sockaddr_storage room;
    const struct sockaddr *peer = peer_of(peer_text, &room);
    char client[INET6_ADDRSTRLEN], alone[INET6_ADDRSTRLEN];
    struct in6_addr parsed;

    proxies_client(NULL, peer, x_forwarded_for, forwarded, alone);
    proxies_client(proxies, peer, x_forwarded_for[0] ? x_forwarded_for : NULL,
                   forwarded[0] ? forwarded : NULL, client);
    CHECK((client[0] == '\0') == (peer->sa_family == AF_UNIX));
    if (client[0] != '\0')
        CHECK(inet_pton(AF_INET, client, &parsed) == 1 ||
              inet_pton(AF_INET6, client, &parsed) == 1);
    if (proxies == NULL) /* nobody but the peer is believed */
        CHECK(strcmp(client, alone) == 0);
}

static void check_origin(const char *origins, const char *origin)
{
    bool is_valid = cors_list_is_valid(origins);
    const char *allowed = cors_allowed_origin(origins, origin);

    if (allowed != NULL && is_valid)
        CHECK(strcmp(allowed, "*") == 0 || strcmp(allowed, origin) == 0);
}

static const char *header_of(const char *line)
{
    return line[0] != '\0' ? line : NULL;
}

/* `lines`: CORS origins, Origin, server names, Host, Sec-Fetch-Site, Sec-Fetch-Dest. */
static void check_page(char *const lines[6])
{
    const struct origin_headers headers = {.origin = header_of(lines[1]),
                                           .host = header_of(lines[3]),
                                           .sec_fetch_site = header_of(lines[4]),
                                           .sec_fetch_dest = header_of(lines[5])};
    const struct origin_headers program = {.host = headers.host};
    struct origin_rules rules = {
        .cors_origins = lines[0], .server_names = lines[2], .listen_host = "::"};
    bool everywhere = origin_check(&rules, &headers, false) == ORIGIN_SERVED;

    (void)origin_names_are_valid(lines[2]);
    if (lines[2][0] == '\0')
        CHECK(origin_check(&rules, &program, false) == ORIGIN_SERVED);
    rules.is_local = true; /* stricter in all */
    if (origin_check(&rules, &headers, false) == ORIGIN_SERVED) {
        CHECK(everywhere);
        CHECK(origin_check(&rules, &headers, true) == ORIGIN_SERVED);
        CHECK(origin_check(&rules, &program, false) == ORIGIN_SERVED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *lines[10], error[200] = "";

    for (size_t i = 0; i < 10; i++)
        lines[i] = fuzz_line(&input);
    struct proxies *proxies = proxies_parse(lines[0], error, sizeof(error));
    CHECK((proxies == NULL) == (error[0] != '\0'));
    check_client(proxies, lines[1], lines[2], lines[3]);
    check_client(NULL, lines[1], lines[2], lines[3]);
    check_origin(lines[4], lines[5]);
    check_page(lines + 4);
    if (proxies != NULL)
        proxies_free(proxies);
    for (size_t i = 0; i < 10; i++)
        free(lines[i]);
    return 0;
}
