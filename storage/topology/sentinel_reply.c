/* Reads replies and messages of Sentinels. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/topology/sentinels.h"

static bool is_host(const char *text)
{
    struct in6_addr address;

    if (strchr(text, ':') != NULL)
        return inet_pton(AF_INET6, text, &address) == 1;
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-._", *c) == NULL)
            return false;
    return text[0] != '\0';
}

/* The texts need no NUL at their ends. */
static bool read_host(struct redis_host *host, const char *name, size_t name_len,
                      const char *port, size_t port_len)
{
    enum { DIGITS = 5 }; /* of a port, at most */
    char digits[DIGITS + 1];
    int64_t number;

    if (name_len >= sizeof(host->host) || port_len > DIGITS ||
        memchr(name, '\0', name_len) != NULL)
        return false;
    memcpy(host->host, name, name_len);
    host->host[name_len] = '\0';
    memcpy(digits, port, port_len);
    digits[port_len] = '\0';
    if (!is_host(host->host) || !text_parse_int64(digits, &number) || number < 1 ||
        number > UINT16_MAX)
        return false;
    host->port = (uint16_t)number;
    return true;
}

bool sentinel_read_master(const struct redis_value *reply, struct redis_host *master)
{
    size_t host_len, port_len;

    if (value_count(reply) != 2)
        return false;
    const char *host = value_text(value_at(reply, 0), &host_len);
    const char *port = value_text(value_at(reply, 1), &port_len);
    return read_host(master, host, host_len, port, port_len);
}

/* The text behind a name, of names and values in turns; empty: the name is not there. */
static const char *text_of(const struct redis_value *pairs, const char *name, size_t *len)
{
    for (size_t i = 0; i + 1 < value_count(pairs); i += 2)
        if (strcmp(value_text(value_at(pairs, i), len), name) == 0)
            return value_text(value_at(pairs, i + 1), len);
    *len = 0;
    return "";
}

bool sentinel_read_sentinel(const struct redis_value *element, struct redis_host *sentinel)
{
    size_t host_len, port_len;
    const char *host = text_of(element, "ip", &host_len);
    const char *port = text_of(element, "port", &port_len);

    return read_host(sentinel, host, host_len, port, port_len);
}

int64_t sentinel_read_epoch(const struct redis_value *reply)
{
    int64_t epoch;
    size_t len;
    const char *text = text_of(reply, "config-epoch", &len);

    if (strlen(text) != len || !text_parse_int64(text, &epoch) || epoch < 0 ||
        epoch > INT64_MAX / 2 /* it is counted on */)
        return SENTINEL_NO_EPOCH;
    return epoch;
}

bool sentinel_read_switch(const char *message, size_t len, const char *name,
                          struct redis_host *master)
{
    enum { NAME, OLD_HOST, OLD_PORT, NEW_HOST, NEW_PORT, WORDS };
    const char *word[WORDS];
    size_t word_len[WORDS], count = 0;

    for (size_t at = 0; at <= len; count++) {
        const char *end = memchr(message + at, ' ', len - at);
        if (count == WORDS)
            return false;
        word[count] = message + at;
        word_len[count] = end != NULL ? (size_t)(end - word[count]) : len - at;
        at += word_len[count] + 1;
    }
    return count == WORDS && strlen(name) == word_len[NAME] &&
           memcmp(name, word[NAME], word_len[NAME]) == 0 &&
           read_host(master, word[NEW_HOST], word_len[NEW_HOST], word[NEW_PORT],
                     word_len[NEW_PORT]);
}
