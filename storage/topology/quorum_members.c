/* The connections to the servers of a quorum. Two hosts of the URL may be one server, by two
 * names: then it would vote twice, so only one of both counts. */
#include <stdio.h>
#include <string.h>

#include "storage/topology/quorum_internal.h"

static const struct quorum_member *same_server(const struct quorum_member *member)
{
    const struct quorum *quorum = member->quorum;
    const char *run_id = topology_node_server(&member->node)->run_id;

    for (size_t i = 0; i < quorum->count; i++) {
        const struct quorum_member *other = &quorum->members[i];
        if (other != member && other->is_up &&
            strcmp(topology_node_server(&other->node)->run_id, run_id) == 0)
            return other;
    }
    return NULL;
}

static void on_up(void *arg)
{
    struct quorum_member *member = arg;
    struct quorum *quorum = member->quorum;
    const struct quorum_member *other = same_server(member);

    member->twin = other;
    if (other != NULL) {
        redis_link_reconnect(member->node.commands, "another host of the URL is this server");
        return;
    }
    member->is_up = true;
    subscriber_check(member->node.subscriber);
    quorum->topology.options.up(quorum->topology.options.arg);
}

static void on_down(void *arg)
{
    struct quorum_member *member = arg;
    struct quorum *quorum = member->quorum;

    member->is_up = false;
    quorum->topology.options.down(quorum->topology.options.arg);
}

static bool start(struct quorum_member *member)
{
    struct quorum *quorum = member->quorum;
    const struct topology_options *options = &quorum->topology.options;
    const struct redis_host *host = &options->url->hosts[member->number];
    const struct redis_link_options commands = {.url = &member->url,
                                                .loop = options->loop,
                                                .metrics = options->metrics,
                                                .probe = options->probe,
                                                .is_quorum_member = true,
                                                .up = on_up,
                                                .down = on_down,
                                                .arg = member};
    const struct subscriber_options messages = {
        .heartbeat_channel = options->heartbeat_channel};

    return redis_url_of_server(&member->url, options->url, host->host, host->port) == 0 &&
           topology_node_start(&member->node, &commands, &messages) == 0;
}

bool quorum_members_start(struct quorum *quorum)
{
    quorum->count = quorum->topology.options.url->host_count;
    for (size_t i = 0; i < quorum->count; i++) {
        quorum->members[i].quorum = quorum;
        quorum->members[i].number = i;
    }
    for (size_t i = 0; i < quorum->count; i++)
        if (!start(&quorum->members[i]))
            return false;
    return true;
}

void quorum_members_stop(struct quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++) {
        quorum->members[i].is_up = false;
        if (quorum->members[i].node.commands != NULL)
            redis_link_stop(quorum->members[i].node.commands);
    }
}

void quorum_members_free(struct quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++)
        topology_node_release(&quorum->members[i].node);
}

/* --- which of them count ------------------------------------------------------------------ */

static const struct quorum_member *member_of(const struct topology_node *node)
{
    return (const struct quorum_member *)node;
}

size_t topology_node_number(const struct topology_node *node)
{
    return member_of(node)->number;
}

bool topology_node_is_up(const struct topology_node *node, const char **why_not)
{
    bool is_up = member_of(node)->is_up && redis_link_is_up(node->commands);

    if (why_not != NULL)
        *why_not = is_up ? topology_node_trouble(node) : redis_link_last_reason(node->commands);
    return is_up;
}

bool topology_node_takes_writes(const struct topology_node *node)
{
    return topology_node_is_up(node, NULL) && !redis_link_refuses_writes(node->commands);
}

void topology_node_address(const struct topology_node *node, char *text, size_t size)
{
    const struct redis_host *host = &member_of(node)->url.hosts[0];
    bool is_v6 = strchr(host->host, ':') != NULL;

    snprintf(text, size, is_v6 ? "[%s]:%d" : "%s:%d", host->host, host->port);
}

size_t quorum_members_up(const struct quorum *quorum)
{
    size_t count = 0;

    for (size_t i = 0; i < quorum->count; i++)
        count += topology_node_takes_writes(&quorum->members[i].node);
    return count;
}

bool quorum_members_have_twins(const struct quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++)
        if (quorum->members[i].twin != NULL)
            return true;
    return false;
}

/* Also while a host that is the same server as another one is connected to again, or cannot be
 * reached. */
static const char *trouble_of(const struct quorum_member *member, char *text, size_t size)
{
    char address[REDIS_URL_HOST_SIZE + 8];
    const char *why_not;

    if (member->twin == NULL) {
        (void)topology_node_is_up(&member->node, &why_not);
        return why_not;
    }
    topology_node_address(&member->twin->node, address, sizeof(address));
    snprintf(text, size, "this is the server of %s: a server has one vote", address);
    return text;
}

const char *quorum_members_trouble(struct quorum *quorum)
{
    size_t up = quorum_members_up(quorum), size = sizeof(quorum->why_not), len = 0;
    char address[REDIS_URL_HOST_SIZE + 8], text[REDIS_URL_HOST_SIZE + 80];
    const char *why_not;

    quorum->why_not[0] = '\0';
    if (up < quorum->count)
        len = (size_t)snprintf(quorum->why_not, size, "%zu of %zu Redis servers can be used",
                               up, quorum->count);
    for (size_t i = 0; i < quorum->count && len < size; i++) {
        const struct topology_node *node = &quorum->members[i].node;
        why_not = trouble_of(&quorum->members[i], text, sizeof(text));
        if (why_not[0] == '\0')
            continue;
        topology_node_address(node, address, sizeof(address));
        len += (size_t)snprintf(quorum->why_not + len, size - len, "%s%s: %s",
                                len > 0 ? "; " : "", address, why_not);
    }
    return quorum->why_not;
}
