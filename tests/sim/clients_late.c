/* A permit whose holder releases it when it has just expired, while another client of the same
 * front end waits for it: the release must not hand over what is gone. */
#include "tests/sim/clients.h"

enum { SCENES = 4, TTL_MS = 400 };

struct next {
    struct lease lease;
    struct how how;
    enum result result;
    int over;
};

static void wait_for_permit(void *arg)
{
    struct next *next = arg;

    next->result = ask_acquire(&next->lease, &next->how);
}

static void be_late(struct client *client)
{
    struct front *front = &world.fronts[chance_below(chance_of(client), FRONTS)];
    struct lease lease = lease_make(&client->caller, "permit", LATE_NAME, NULL);
    struct how how = {.ttl_ms = TTL_MS, .is_double = true, .front = front};
    struct next next = {.lease = lease_make(&client->caller, "permit", LATE_NAME, NULL),
                        .how = how};

    if (ask_acquire(&lease, &how) != RESULT_OK)
        return;
    int64_t over_ns = now_ns() + TTL_MS * MS;
    next.how.wait_ms = 2 * TTL_MS;
    task_start(wait_for_permit, &next, &next.over);
    task_sleep(over_ns - now_ns() +
               chance_between(chance_of(client), 10, 1500) * CLOCK_NS_PER_US);
    lease.front = front;
    ask_release(&lease);
    await(&next.over, 1);
    if (next.result != RESULT_NOT_DONE)
        give_back(client, &next.lease);
}

void run_late(struct client *client)
{
    while (!world.is_stopping) {
        nap(client, 1000, 9000);
        for (int i = 0; i < SCENES && !world.is_stopping; i++)
            be_late(client);
    }
}
