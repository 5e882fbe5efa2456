/* The list of origins whose web pages may read answers. */
#include "server/http/cors.h"

#include <string.h>

#include "server/base/text.h"

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
