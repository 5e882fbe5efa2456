/* The list of origins whose web pages may read answers. */
#include "server/http/cors.h"

#include <string.h>

#include "server/base/text.h"

static bool ends_in(const char *text, size_t len, const char *end)
{
    size_t end_len = strlen(end);

    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

/* As a browser writes it (RFC 6454, 6.2): in small letters, without the port of its scheme. */
static bool is_origin(const char *entry, size_t len)
{
    const char *host = memmem(entry, len, "://", 3);

    if (host == NULL || host == entry)
        return len == 1 && *entry == '*';
    host += 3;
    for (size_t i = 0; i < len; i++)
        if (strchr(" ?#@*", entry[i]) != NULL || (entry[i] >= 'A' && entry[i] <= 'Z'))
            return false;
    size_t host_len = len - (size_t)(host - entry);
    return host_len > 0 && memchr(host, '/', host_len) == NULL &&
           !(strncmp(entry, "http:", 5) == 0 && ends_in(entry, len, ":80")) &&
           !(strncmp(entry, "https:", 6) == 0 && ends_in(entry, len, ":443"));
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
