/* Clients whose release overtakes their acquire, and many that come at once. */
#include <string.h>

#include "tests/sim/clients.h"

enum { CROWD = 70, VISITORS = 12, HOLDS = 4, PATH_SIZE = 160 };

/* --- a release that overtakes its acquire ----------------------------------------------------
 */

struct overtaken {
    struct lease lease;
    struct how how;
    int over;
};

static void ask_slowly(void *arg)
{
    struct overtaken *overtaken = arg;

    ask_acquire(&overtaken->lease, &overtaken->how);
}

void run_overtaker(struct client *client)
{
    static const int64_t after_us[] = {0, 100, 300, 1000, 100000, 900000};

    while (!world.is_stopping) {
        struct overtaken overtaken = {.lease = pick_any(client)};
        struct lease lease = overtaken.lease;
        overtaken.how = (struct how){.ttl_ms = pick_ttl(client), .wait_ms = pick_wait(client)};
        task_start(ask_slowly, &overtaken, &overtaken.over);
        task_sleep(after_us[chance_below(chance_of(client), 6)] * 1000);
        give_back(client, &lease);
        await(&overtaken.over, 1);
        if (overtaken.lease.held_until_ns != 0)
            give_back(client, &overtaken.lease);
        nap(client, 0, 300);
    }
}

/* --- many at once ----------------------------------------------------------------------------
 */

struct one {
    struct client *client;
    struct caller caller;
    struct lease lease;
    struct how how;
};

static void take_turn(void *arg)
{
    struct one *one = arg;

    if (ask_acquire(&one->lease, &one->how) == RESULT_OK || one->lease.status == 0)
        give_back(one->client, &one->lease);
}

/* All wait for one lock at one front end, and each releases it at once. */
static void rush(struct client *client, int number)
{
    static struct one ones[CROWD];
    struct front *front = &world.fronts[chance_below(chance_of(client), FRONTS)];
    int over = 0;

    for (int i = 0; i < CROWD; i++) {
        struct one *one = &ones[i];
        one->client = client;
        caller_init(&one->caller, client->caller.name, CROWD * number + i);
        one->lease = lease_make(&one->caller, "lock", "crowd-a", NULL);
        one->how = (struct how){
            .ttl_ms = 2000 * world.pace, .wait_ms = 3000 * world.pace, .front = front};
        task_start(take_turn, one, &over);
    }
    await(&over, CROWD);
}

/* A session of the first partition of the index, and leases of it that the watchdog keeps, of
 * locks that nobody else wants. */
struct visited {
    struct session session;
    char tokens[HOLDS][TOKEN_TEXT_SIZE];
};

static void ask_for_each(struct client *client, struct visited *visited, int number,
                         const char *method)
{
    for (int i = 0; i < HOLDS; i++) {
        char path[PATH_SIZE];
        struct plain plain = {.method = method,
                              .path = path,
                              .lease_token = visited->tokens[i],
                              .how = {.ttl_ms = -1}};
        if (strcmp(method, "PUT") == 0)
            plain.session_token = visited->session.token;
        snprintf(path, sizeof(path), "locks/many-%d", HOLDS * number + i);
        ask_plain(&client->caller, &plain);
    }
}

static void open_one(struct client *client, struct visited *visited, int number)
{
    struct session *session = &visited->session;

    session->ttl_ms = 2000 * world.pace;
    do {
        make_token(chance_of(client), session->token);
        token_session_id(session->token, session->public_id);
    } while (session->public_id[0] != '0');
    for (int i = 0; i < HOLDS; i++)
        make_token(chance_of(client), visited->tokens[i]);
    if (ask_session_open(&client->caller, session) == RESULT_OK)
        ask_for_each(client, visited, number, "PUT");
}

/* Many sessions that the watchdog visits and that end at one time. At times their leases are
 * released about when the watchdog comes. */
static void open_many(struct client *client)
{
    static struct visited all[VISITORS];

    for (int i = 0; i < VISITORS; i++)
        open_one(client, &all[i], i);
    if (likely(client, 40))
        return;
    nap(client, 1000, 1300);
    for (int i = 0; i < VISITORS; i++)
        ask_for_each(client, &all[i], i, "DELETE");
}

void run_crowd(struct client *client)
{
    for (int number = 0; !world.is_stopping; number++) {
        nap(client, 1000, 8000);
        if (world.topology == TOPOLOGY_QUORUM || likely(client, 50))
            rush(client, number);
        else
            open_many(client);
    }
}
