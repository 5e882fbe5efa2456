/* A semaphore that is deleted and made anew while a request that nobody waits for any more may
 * have acquired permits of it: the new one has as many as it was made with, and no more. */
#include "tests/sim/clients.h"

#define SEMAPHORE "semaphores/" ANEW_NAME

enum { LOOKS = 2 };

static int64_t checks;

static bool ask_for(struct client *client, const char *method, const char *path)
{
    struct plain plain = {.method = method, .path = path, .how = {.ttl_ms = -1}};

    return ask_plain(&client->caller, &plain) == RESULT_OK;
}

static bool make_anew(struct client *client)
{
    char path[64];

    snprintf(path, sizeof(path), SEMAPHORE "?permits=%d", ANEW_PERMITS);
    return ask_for(client, "DELETE", SEMAPHORE) && ask_for(client, "PUT", path);
}

/* Keeps what it gets, or hangs up; never asks again. Its front end withdraws the permits that
 * nobody hears of, late if a fault keeps it from Redis or Redis' answers from it. */
static void acquire_and_leave(void *arg)
{
    static const int64_t after_us[] = {100, 200, 100000, 500000};
    struct client *client = arg;
    struct plain plain = {
        .method = "POST", .path = SEMAPHORE "/acquire?permits=2", .how = {.ttl_ms = -1}};

    plain.how.abandon_ns = after_us[chance_below(chance_of(client), 4)] * 1000;
    ask_plain(&client->caller, &plain);
}

static void look(struct client *client, int64_t losses)
{
    struct plain plain = {
        .method = "GET", .path = SEMAPHORE, .how = {.ttl_ms = -1}, .member = "available"};

    if (ask_plain(&client->caller, &plain) != RESULT_OK || !data_is_kept_since(losses))
        return;
    checks++;
    if (plain.number > ANEW_PERMITS)
        note_leak("permits of a deleted semaphore", -1, plain.number - ANEW_PERMITS, "");
}

static void play(struct client *client)
{
    int64_t losses = world.losses;
    int over = 0;

    if (!make_anew(client))
        return;
    task_start(acquire_and_leave, client, &over);
    nap(client, 1, 300);
    bool is_anew = make_anew(client);
    for (int i = 0; i < LOOKS && is_anew; i++) {
        nap(client, 0, 200);
        look(client, losses);
    }
    await(&over, 1);
    if (is_anew)
        look(client, losses);
}

void run_anew(struct client *client)
{
    while (!world.is_stopping) {
        play(client);
        nap(client, 0, 300);
    }
}

void note_checks_anew(void)
{
    note_checks("permits of a deleted semaphore", checks);
}
