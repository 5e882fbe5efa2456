/* Where a request comes from: the address of its client, behind trusted proxies. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

#include "server/http/http_internal.h"
#include "server/http/proxies.h"

_Static_assert((int)HTTP_CLIENT_SIZE == (int)INET6_ADDRSTRLEN, "any address fits");

void http_client_address(const struct http_request *request, char client[HTTP_CLIENT_SIZE])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    client[0] = '\0';
    if (info != NULL && info->client_addr != NULL)
        proxies_client(request->server->options.trusted_proxies, info->client_addr,
                       request->headers[HTTP_X_FORWARDED_FOR], request->headers[HTTP_FORWARDED],
                       client);
}

void http_client_network(const struct http_request *request, char client[HTTP_CLIENT_SIZE])
{
    struct in6_addr address;

    http_client_address(request, client);
    if (inet_pton(AF_INET6, client, &address) != 1)
        return;
    memset(address.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &address, client, HTTP_CLIENT_SIZE);
}
