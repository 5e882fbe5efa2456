/* Sessions in a circle, each of which holds a lock and waits for that of the next one: a
 * deadlock, in which the request that waits last has to be refused. */
#include "tests/sim/clients.h"

enum { RING_MAX = 5 };

static const char *const ring[RING_MAX] = {"ring-a", "ring-b", "ring-c", "ring-d", "ring-e"};

struct member {
    struct client *client;
    struct caller caller;
    struct session session;
    struct lease own, next;
    int64_t after_ms;
};

/* Waits for the lock of the next member, and gives everything back. */
static void wait_in_ring(void *arg)
{
    struct member *member = arg;
    struct how how = {.ttl_ms = 3000 * world.pace, .wait_ms = 9000 * world.pace};

    task_sleep(member->after_ms * MS * world.pace);
    if (ask_acquire(&member->next, &how) == RESULT_OK)
        lease_use(&member->next);
    give_back(member->client, &member->next);
    give_back(member->client, &member->own);
}

static bool join(struct client *client, struct member *member, int number, int count, int round)
{
    struct how how = {.ttl_ms = 20000 * world.pace, .wait_ms = 0};

    *member = (struct member){.client = client,
                              .session = {.ttl_ms = 30000 * world.pace, .refuses = true},
                              .after_ms = chance_between(chance_of(client), 0, 400)};
    caller_init(&member->caller, client->caller.name, RING_MAX * round + number);
    make_token(chance_of(client), member->session.token);
    if (ask_session_open(&client->caller, &member->session) != RESULT_OK)
        return false;
    member->own = lease_make(&member->caller, "lock", ring[number], &member->session);
    member->next = lease_make(&member->caller, "lock", ring[(number + 1) % count],
                              &member->session);
    return ask_acquire(&member->own, &how) == RESULT_OK;
}

void run_ring(struct client *client)
{
    static const int sizes[] = {2, 3, 5};
    static struct member members[RING_MAX];

    for (int round = 0; !world.is_stopping; round++) {
        int count = sizes[chance_below(chance_of(client), 3)], joined = 0, over = 0;
        while (joined < count && join(client, &members[joined], joined, count, round))
            joined++;
        for (int i = 0; joined == count && i < count; i++)
            task_start(wait_in_ring, &members[i], &over);
        if (joined == count)
            await(&over, count);
        for (int i = 0; i < count && i <= joined; i++)
            ask_session_end(&client->caller, &members[i].session);
        nap(client, 500, 3000);
    }
}
