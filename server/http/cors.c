/* The headers of cross-origin answers, and the answers to preflight requests. */
#include "server/http/cors.h"

#include <string.h>

#include "server/base/text.h"
#include "server/http/http.h"

static const char request_headers[] =
    "Authorization, Content-Type, Idempotency-Key, If-Match, Lease-Token, Prefer, "
    "Session-Token, X-Request-Id, traceparent";

static bool is_origin(const char *entry, size_t len)
{
    const char *host = memmem(entry, len, "://", 3);

    if (host == NULL || host == entry)
        return len == 1 && *entry == '*';
    host += 3;
    size_t host_len = len - (size_t)(host - entry);
    return host_len > 0 && memchr(host, '/', host_len) == NULL &&
           memchr(entry, ' ', len) == NULL && memchr(host, '*', host_len) == NULL;
}

bool cors_list_is_valid(const char *list)
{
    const char *entry;

    while (*list != '\0') {
        size_t len = text_next_entry(&list, &entry);
        if (!is_origin(entry, len))
            return false;
    }
    return true;
}

const char *cors_allowed_origin(const char *list, const char *origin)
{
    const char *entry;

    while (*list != '\0') {
        size_t len = text_next_entry(&list, &entry);
        if (len == 1 && *entry == '*')
            return "*";
        if (strlen(origin) == len && memcmp(origin, entry, len) == 0)
            return origin;
    }
    return NULL;
}

void cors_reply_preflight(struct http_request *request, const char *methods)
{
    http_reply_header(request, "Access-Control-Allow-Methods", methods);
    http_reply_header(request, "Access-Control-Allow-Headers", request_headers);
    http_reply_header(request, "Access-Control-Max-Age", "600");
    http_reply_static(request, 204, NULL, "", 0);
}
