/* The parser of a node's map of slots. */
#include "storage/topology/cluster_slots.h"

#include <string.h>

#include "server/base/text.h"

/* Copies a host; an empty host means the host that was asked. False: too long, or not known. */
static bool copy_host(char out[REDIS_URL_HOST_SIZE], const char *text, size_t len,
                      const char *asked)
{
    if (len == 0) {
        text = asked;
        len = strlen(asked);
    }
    if (len == 0 || len >= REDIS_URL_HOST_SIZE || memchr(text, '\0', len) != NULL ||
        (len == 1 && text[0] == '?'))
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* `[host, port, …]` */
static bool read_host(struct redis_host *host, const struct redis_value *value,
                      const char *asked)
{
    int64_t port = value_integer(value_at(value, 1));
    size_t len;
    const char *text = value_text(value_at(value, 0), &len);

    if (port < 1 || port > UINT16_MAX || !copy_host(host->host, text, len, asked))
        return false;
    host->port = (uint16_t)port;
    return true;
}

static bool is_same(const struct redis_host *a, const struct redis_host *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* The index of a master in the map, which gets a new entry if need be. Searches from the last
 * master, because ranges of one master often follow each other. CLUSTER_NO_MASTER: too many
 * masters. */
static uint16_t find_master(struct cluster_slots *slots, const struct redis_host *host)
{
    for (size_t i = slots->master_count; i-- > 0;)
        if (is_same(&slots->masters[i], host))
            return (uint16_t)i;
    if (slots->master_count == CLUSTER_MASTERS_MAX)
        return CLUSTER_NO_MASTER;
    slots->masters[slots->master_count] = *host;
    return (uint16_t)slots->master_count++;
}

static void read_replicas(struct cluster_slots *slots, const struct redis_value *range,
                          const char *asked)
{
    for (size_t i = 3; i < value_count(range); i++) {
        struct redis_host *next = &slots->replicas[slots->replica_count];
        if (slots->replica_count == CLUSTER_REPLICAS_MAX)
            return;
        if (read_host(next, value_at(range, i), asked))
            slots->replica_count++;
    }
}

/* `[first slot, last slot, master, replica…]`. A master whose host is not known (NULL or "?" in
 * place of its name) leaves the slots without one. */
static bool read_range(struct cluster_slots *slots, const struct redis_value *range,
                       const char *asked)
{
    int64_t first = value_integer(value_at(range, 0)), last = value_integer(value_at(range, 1));
    const struct redis_value *node = value_at(range, 2);
    struct redis_host host;

    if (value_count(range) < 3 || !value_is_integer(value_at(range, 0)) ||
        !value_is_integer(value_at(range, 1)) || first < 0 || last >= REDIS_SLOTS ||
        first > last || value_count(node) < 2)
        return false;
    uint16_t master = read_host(&host, node, asked) ? find_master(slots, &host)
                                                    : (uint16_t)CLUSTER_NO_MASTER;
    for (int64_t slot = first; slot <= last; slot++) {
        if (slots->master_of[slot] != CLUSTER_NO_MASTER)
            return false; /* the map names two nodes for one slot */
        slots->master_of[slot] = master;
    }
    read_replicas(slots, range, asked);
    return true;
}

bool cluster_slots_read(struct cluster_slots *slots, const struct redis_value *reply,
                        const char *asked)
{
    slots->master_count = 0;
    slots->replica_count = 0;
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++)
        slots->master_of[slot] = CLUSTER_NO_MASTER;
    if (value_count(reply) > REDIS_SLOTS)
        return false;
    for (size_t i = 0; i < value_count(reply); i++)
        if (!read_range(slots, value_at(reply, i), asked))
            return false;
    return slots->master_count > 0;
}

enum cluster_redirection cluster_redirection_read(const char *error, const char *asked,
                                                  uint16_t *slot, struct redis_host *to)
{
    const char *text = redis_error_cause(error);
    enum cluster_redirection redirection = strncmp(text, "MOVED ", 6) == 0 ? CLUSTER_MOVED
                                                                           : CLUSTER_ASK;
    int64_t number = 0, port = 0;

    if (redirection == CLUSTER_ASK && strncmp(text, "ASK ", 4) != 0)
        return CLUSTER_NOT_REDIRECTED;
    text = strchr(text, ' ') + 1;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != ' ')
        return CLUSTER_NOT_REDIRECTED;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (text[i] - '0');
    const char *host = text + digits + 1;
    size_t len = strcspn(host, " \r\n");
    const char *colon = memrchr(host, ':', len); /* an IPv6 address has more of them */
    if (colon == NULL || number >= REDIS_SLOTS)
        return CLUSTER_NOT_REDIRECTED;
    for (const char *digit = colon + 1; digit < host + len && port <= UINT16_MAX; digit++) {
        if (*digit < '0' || *digit > '9')
            return CLUSTER_NOT_REDIRECTED;
        port = port * 10 + (*digit - '0');
    }
    if (port < 1 || port > UINT16_MAX ||
        !copy_host(to->host, host, (size_t)(colon - host), asked))
        return CLUSTER_NOT_REDIRECTED;
    to->port = (uint16_t)port;
    *slot = (uint16_t)number;
    return redirection;
}
