/* What each server has said, for the operator who reads a 503: a word for each of them, never
 * the text of an error. */
#include <stdio.h>
#include <string.h>

#include "storage/quorum/calls_internal.h"

/* Longer addresses and reasons are cut. */
enum { ADDRESS_SIZE = 72, REASON_SIZE = 64 };

/* The first word of a script's reply. A number is the reply of a server that did as it was
 * asked. */
static const char *word_of(const struct redis_value *reply)
{
    size_t len;
    const struct redis_value *first = value_count(reply) > 0 ? value_at(reply, 0) : reply;
    const char *word = value_text(first, &len);

    if (value_is_integer(first))
        return "accepted";
    if (len == 0 || len > REASON_SIZE || strspn(word, "abcdefghijklmnopqrstuvwxyz-") != len)
        return "a reply";
    return word;
}

static const char *refusal_text(enum redis_refusal refusal)
{
    switch (refusal) {
    case REDIS_REFUSED_OUT_OF_MEMORY:
        return "out of memory";
    case REDIS_REFUSED_WRONG_TYPE:
        return "another type of key";
    case REDIS_REFUSED_PERMISSION:
        return "a permission is missing";
    case REDIS_QUARANTINED:
    case REDIS_NOT_REFUSED:
    case REDIS_REFUSED_UNAVAILABLE:
    case REDIS_NOT_REPLICATED:
        break;
    }
    return "refused";
}

/* Of a server that was not asked, or where no request is the matter. */
static const char *state_of(const struct quorum_calls *calls, const struct topology_node *node)
{
    const struct quorum_calls_options *options = &calls->options;
    const char *why_not;

    if (!topology_node_is_up(node, &why_not))
        return why_not[0] != '\0' ? why_not : "not connected yet";
    return options->is_quarantined(options->arg, node) ? "quarantine" : "not asked";
}

static const char *said_by(const struct quorum_calls *calls, const struct topology_node *node)
{
    if (calls->ending == NULL)
        return state_of(calls, node);
    const struct round_reply *reply = &calls->ending->round.replies[topology_node_number(node)];
    switch (reply->state) {
    case ROUND_NOT_ASKED:
        return state_of(calls, node);
    case ROUND_ASKED:
        return "no reply";
    case ROUND_UNKNOWN:
        return "connection lost";
    case ROUND_REFUSED:
        return refusal_text(reply->refusal);
    case ROUND_REPLIED:
        break;
    }
    const struct quorum_calls_options *options = &calls->options;
    return options->is_marked(options->arg, node) ? word_of(reply->value) : "just started";
}

void quorum_calls_describe(const struct quorum_calls *calls, char text[QUORUM_HEARD_SIZE])
{
    struct topology *topology = calls->options.topology;
    char address[QUORUM_COUNTS_MEMBER_SIZE];
    size_t len = 0;

    text[0] = '\0';
    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node)) {
        topology_node_address(node, address, sizeof(address));
        len += (size_t)snprintf(text + len, QUORUM_HEARD_SIZE - len, "%s%.*s: %.*s",
                                len > 0 ? "; " : "", ADDRESS_SIZE, address, REASON_SIZE,
                                said_by(calls, node));
    }
}
