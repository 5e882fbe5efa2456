/* Clients that ask for as much as the documents allow, and for one more; one that looks at the
 * locks of the others; and one whom nobody is in the way. */
#include <string.h>

#include "tests/sim/clients.h"

enum { PATH_SIZE = 1024, LOCKS_OF_A_LEASE = 32, SESSION_LOCKS = 1000, READS_OF_AN_OWNER = 100 };

/* A session, and how much of one thing it has. */
struct filling {
    struct client *client;
    struct session session;
    const char *subject;
    int64_t began_ns, had, most;
};

/* False: whether it was granted is not known, or it was not. `more`: how many things. */
static bool ask_for(struct filling *filling, const char *path, int64_t more)
{
    char token[TOKEN_TEXT_SIZE];
    struct plain put = {.method = "PUT",
                        .path = path,
                        .lease_token = token,
                        .session_token = filling->session.token,
                        .how = {.ttl_ms = -1}};

    make_token(chance_of(filling->client), token);
    enum result result = ask_plain(&filling->client->caller, &put);
    bool is_granted = result == RESULT_OK;
    if (!is_granted && put.status != 429)
        return false;
    record("limit",
           "\"subject\":\"%s\",\"t_begin\":%lld,\"t_end\":%lld,\"had\":%lld,"
           "\"most\":%lld,\"granted\":%s",
           filling->subject, (long long)filling->began_ns, (long long)now_ns(),
           (long long)(filling->had + more - 1), (long long)filling->most,
           is_granted ? "true" : "false");
    filling->had += is_granted ? more : 0;
    return is_granted;
}

/* Locks by the dozen: a lease of several counts each. */
static bool take_locks(struct filling *filling, int64_t count)
{
    char path[PATH_SIZE] = "multi-locks?";

    if (count == 1)
        snprintf(path, sizeof(path), "locks/{full}-%lld", (long long)filling->had);
    for (int64_t i = 0; count > 1 && i < count; i++)
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "%slocks={full}-%lld",
                 i > 0 ? "&" : "", (long long)(filling->had + i));
    return ask_for(filling, path, count);
}

static void fill_session(struct filling *filling)
{
    filling->subject = "locks of a session";
    filling->most = SESSION_LOCKS;
    world.filled = SESSION_LOCKS;
    while (filling->had + LOCKS_OF_A_LEASE <= SESSION_LOCKS)
        if (!take_locks(filling, LOCKS_OF_A_LEASE))
            return;
    if (take_locks(filling, SESSION_LOCKS + 1 - filling->had))
        return; /* one more than there should be */
    if (take_locks(filling, SESSION_LOCKS - filling->had))
        take_locks(filling, 1);
}

static void read_again(struct filling *filling)
{
    filling->subject = "reads of an owner";
    filling->most = READS_OF_AN_OWNER;
    for (int i = 0; i <= READS_OF_AN_OWNER; i++)
        if (!ask_for(filling, "locks/full-read?kind=read&owner=reader", 1))
            return;
}

/* In a cluster the slot of so many keys would be open for half a minute when it moves: longer
 * than any real slot. */
void run_filler(struct client *client)
{
    while (!world.is_stopping && world.topology != TOPOLOGY_CLUSTER) {
        struct filling filling = {.client = client,
                                  .session = {.ttl_ms = SESSION_TTL_MAX_MS * world.pace}};
        nap(client, 12000, 30000);
        filling.began_ns = now_ns();
        make_token(chance_of(client), filling.session.token);
        if (ask_session_open(&client->caller, &filling.session) != RESULT_OK)
            continue;
        if (world.topology == TOPOLOGY_QUORUM || likely(client, 50)) /* it has no owners */
            fill_session(&filling);
        else
            read_again(&filling);
        ask_session_end(&client->caller, &filling.session);
        /* The census looks at them for so long, also when the clients have ended. */
        task_sleep(2 * CLOCK_NS_PER_S * world.pace);
        world.filled = 0;
    }
}

void run_looker(struct client *client)
{
    while (!world.is_stopping) {
        size_t at = chance_below(chance_of(client), LOCK_COUNT);
        if (strcmp(lock_names[at].kind, "permit") != 0)
            ask_look(&client->caller, at < PLAIN ? plain_names[at] : lock_names[at].name);
        nap(client, 50, 500);
    }
}

void run_bystander(struct client *client)
{
    static const struct how how = {.ttl_ms = 1000, .is_double = true, .is_bystander = true};

    while (!world.is_stopping) {
        struct lease lease = lease_make(&client->caller, "lock", client->caller.name, NULL);
        if (ask_acquire(&lease, &how) == RESULT_OK)
            lease_use(&lease);
        give_back(client, &lease);
        nap(client, 100, 900);
    }
}
