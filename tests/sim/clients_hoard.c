/* A client with more leases in one session than one script of the watchdog takes, and than one
 * script writes the results of. */
#include <string.h>

#include "tests/sim/clients.h"

/* Keep-alives of a session: some come when the first lease would be over, were it not renewed.
 */
enum { KEEP_ALIVES = 6, DROPS_AFTER = 2, NAME_SIZE = 24, PATH_SIZE = 128 };

static char names[HOARD][NAME_SIZE];
static struct lease leases[HOARD];

static int get_all(struct client *client, const struct session *session)
{
    static const struct how how = {.ttl_ms = -1};

    for (int i = 0; i < HOARD; i++) {
        snprintf(names[i], sizeof(names[i]), "hoard-%d", i);
        leases[i] = lease_make(&client->caller, "lock", names[i], session);
        if (world.is_stopping || ask_acquire(&leases[i], &how) != RESULT_OK)
            return i;
    }
    return HOARD;
}

/* Behind the back of all front ends: the next keep-alive finds the lease lost. */
static void drop(const struct lease *lease)
{
    char path[PATH_SIZE];
    const char *words[] = {"DEL", lease->locks[0], path, NULL};
    int64_t began_ns = now_ns();

    snprintf(path, sizeof(path), "rlockd:lease:{%s}:%s", lease->locks[0], lease->id);
    tell_redis(words);
    record("op",
           "\"client\":\"%s\",\"op\":\"force\",\"t_inv\":%lld,\"t_ret\":%lld,"
           "\"status\":200,\"outcome\":\"ok\",\"lock\":\"%s\"",
           lease->caller->name, (long long)began_ns, (long long)now_ns(), lease->locks[0]);
}

static void drop_some(struct client *client, int count)
{
    unsigned percent = likely(client, 50) ? 100 : 10;

    for (int i = 0; i < count; i++)
        if (likely(client, percent))
            drop(&leases[i]);
}

void run_hoarder(struct client *client)
{
    while (!world.is_stopping) {
        struct session session = {.ttl_ms = SESSION_TTL_MAX_MS * world.pace};
        nap(client, 1000, 9000);
        make_token(chance_of(client), session.token);
        if (ask_session_open(&client->caller, &session) != RESULT_OK)
            continue;
        int count = get_all(client, &session), beats = 0;
        while (beats < KEEP_ALIVES &&
               ask_keep_alive(&client->caller, &session, 0) == RESULT_OK) {
            nap(client, 900, 1300);
            if (++beats == DROPS_AFTER && likely(client, 50))
                drop_some(client, count);
        }
        ask_session_end(&client->caller, &session);
    }
}
