/* Clients of semaphores and latches. Permits are lost and won only with Redis' data: so as long
 * as these are there, all of them come back in the end. */
#include "tests/sim/clients.h"

#include <string.h>

#define SEMAPHORE "semaphores/" SEMAPHORE_NAME
#define LATCH "latches/latch-a"

enum { PATH_SIZE = 128, COUNT_MAX = 3 };

static int64_t permits_held;
static bool is_in_doubt; /* the outcome of some request was never known */

/* Asks with the same key until the outcome is known. Redis knows the effect of a key for the
 * retry window only. */
static enum result ask_for_certain(struct client *client, struct plain *plain)
{
    int64_t known_until_ns = now_ns() + RETRY_WINDOW_MS * world.pace * MS;
    enum result result = RESULT_UNKNOWN;

    make_token(chance_of(client), plain->idempotency_key);
    for (int i = 0; i < TRIES; i++) {
        is_in_doubt = is_in_doubt || now_ns() > known_until_ns;
        result = ask_plain(&client->caller, plain);
        if (result == RESULT_ABANDONED)
            plain->how.abandon_ns = 0;
        else if (result == RESULT_OK || plain->status == 423 || plain->status == 404)
            return result;
        nap(client, 20, 400);
    }
    is_in_doubt = true;
    return result;
}

/* --- semaphores ------------------------------------------------------------------------------
 */

static void note_held(int64_t permits)
{
    permits_held += permits;
    if (permits_held > SEMAPHORE_PERMITS && !world.has_lost_data && !is_in_doubt)
        note_leak("permits held at once", -1, permits_held - SEMAPHORE_PERMITS, "");
}

static void give_permits(struct client *client, int64_t permits)
{
    char path[PATH_SIZE];
    struct plain plain = {.method = "POST", .path = path, .how = {.ttl_ms = -1}};

    note_held(-permits);
    snprintf(path, sizeof(path), SEMAPHORE "/release?permits=%lld", (long long)permits);
    if (ask_for_certain(client, &plain) != RESULT_OK)
        is_in_doubt = true;
}

static void take_permits(struct client *client)
{
    static const int64_t after_us[] = {1000, 2000, 50000, 400000};
    int64_t permits = chance_between(chance_of(client), 1, COUNT_MAX);
    char path[PATH_SIZE];
    struct plain plain = {
        .method = "POST", .path = path, .how = {.ttl_ms = -1, .wait_ms = pick_wait(client)}};

    if (likely(client, 20))
        plain.how.abandon_ns = after_us[chance_below(chance_of(client), 4)] * 1000;
    snprintf(path, sizeof(path), SEMAPHORE "/acquire?permits=%lld&wait_ms=%lld",
             (long long)permits, (long long)plain.how.wait_ms);
    if (ask_for_certain(client, &plain) != RESULT_OK)
        return;
    note_held(permits);
    nap(client, 0, 300);
    give_permits(client, permits);
}

void run_semaphore(struct client *client)
{
    while (!world.is_stopping) {
        take_permits(client);
        nap(client, 0, 200);
    }
}

/* Takes all that are free at times, and gives them back. */
void run_drainer(struct client *client)
{
    while (!world.is_stopping) {
        struct plain plain = {.method = "POST",
                              .path = SEMAPHORE "/drain",
                              .how = {.ttl_ms = -1},
                              .member = "permits"};
        if (likely(client, 30))
            plain.how.abandon_ns = MS;
        if (ask_for_certain(client, &plain) == RESULT_OK && plain.number > 0) {
            note_held(plain.number);
            nap(client, 0, 100);
            give_permits(client, plain.number);
        }
        nap(client, 300, 1500);
    }
}

void check_counters(void)
{
    struct caller caller = {.name = "counters"};
    struct plain drop = {.method = "DELETE", .path = LATCH, .how = {.ttl_ms = -1}};
    struct plain plain = {
        .method = "GET", .path = SEMAPHORE, .how = {.ttl_ms = -1}, .member = "available"};

    ask_plain(&caller, &drop);
    if (world.has_lost_data || is_in_doubt || ask_plain(&caller, &plain) != RESULT_OK)
        return;
    note_leak("permits gone or too many", -1, plain.number != SEMAPHORE_PERMITS, "");
}

/* --- latches ---------------------------------------------------------------------------------
 */

void run_latch_waiter(struct client *client)
{
    while (!world.is_stopping) {
        char path[PATH_SIZE];
        struct plain plain = {
            .method = "GET", .path = path, .how = {.ttl_ms = -1, .wait_ms = pick_wait(client)}};
        snprintf(path, sizeof(path), LATCH "?wait_ms=%lld", (long long)plain.how.wait_ms);
        if (likely(client, 15))
            plain.how.abandon_ns = chance_between(chance_of(client), 1, 500) * MS;
        ask_plain(&client->caller, &plain);
        nap(client, 0, 200);
    }
}

/* Closes the latch, and opens it again. */
void run_latch_counter(struct client *client)
{
    char path[PATH_SIZE];

    while (!world.is_stopping) {
        int64_t count = chance_between(chance_of(client), 1, COUNT_MAX);
        struct plain close = {.method = "PUT", .path = path, .how = {.ttl_ms = -1}};
        struct plain down = {
            .method = "POST", .path = LATCH "/count-down", .how = {.ttl_ms = -1}};
        snprintf(path, sizeof(path), LATCH "?count=%lld", (long long)count);
        ask_plain(&client->caller, &close);
        for (int64_t i = 0; i < count; i++) {
            nap(client, 100, 800);
            ask_for_certain(client, &down);
        }
        nap(client, 100, 500);
    }
}
