/* Many clients of one front end that want the same few objects, each for no longer than a
 * message takes: what one worker of the front end passes on to another meets waiters that come,
 * hang up and give back. */
#include "tests/sim/clients.h"

enum { GUESTS = 12, TURNS = 15 };

struct guest {
    struct client *client;
    struct caller caller;
    struct front *front;
};

static const struct lock_name wanted[] = {{"lock", "crowd-a"},      {"lock", "crowd-a"},
                                          {"lock", "crowd-a"},      {"permit", PERMITS_NAME},
                                          {"permit", PERMITS_NAME}, {"fair", "fair-b"},
                                          {"write", "rw-b"}};

/* Real time, also in a slow run. */
static void pause_us(struct chance *chance, int64_t least, int64_t most)
{
    task_sleep(chance_between(chance, least, most) * CLOCK_NS_PER_US);
}

static void take_turn(struct guest *guest)
{
    struct chance *chance = &guest->caller.chance;
    const struct lock_name *name;

    do
        name = &wanted[chance_below(chance, sizeof(wanted) / sizeof(wanted[0]))];
    while (!lock_is_offered(name));
    struct lease lease = lease_make(&guest->caller, name->kind, name->name, NULL);
    struct how how = {.ttl_ms = 2000 * world.pace,
                      .wait_ms = chance_between(chance, 10, 200),
                      .front = guest->front};

    if (chance_percent(chance, 10))
        how.abandon_ns = chance_between(chance, 300, 6000) * CLOCK_NS_PER_US;
    enum result result = ask_acquire(&lease, &how);
    if (result == RESULT_OK) {
        lease_use(&lease);
        pause_us(chance, 0, 800);
    }
    if (chance_percent(chance, 90))
        lease.front = guest->front;
    if (result != RESULT_NOT_DONE || chance_percent(chance, 20))
        give_back(guest->client, &lease);
}

static void visit(void *arg)
{
    struct guest *guest = arg;

    for (int i = 0; i < TURNS && !world.is_stopping; i++) {
        take_turn(guest);
        pause_us(&guest->caller.chance, 0, 2000);
    }
}

void run_throng(struct client *client)
{
    static struct guest guests[GUESTS];

    bool has_several = world.fronts[0].worker_count > 1;

    for (int number = 0; has_several && !world.is_stopping; number++) {
        struct front *front = &world.fronts[chance_below(chance_of(client), FRONTS)];
        int over = 0;
        nap(client, 300, 1000);
        for (int i = 0; i < GUESTS; i++) {
            guests[i] = (struct guest){.client = client, .front = front};
            caller_init(&guests[i].caller, client->caller.name, GUESTS * number + i);
            task_start(visit, &guests[i], &over);
        }
        await(&over, GUESTS);
    }
}
