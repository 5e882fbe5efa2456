/* The clients of a run, which tests/faults has, too. Each loops until the run is over; what a
 * client does next is chance from the run's seed and the client's own name. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/clients.h"

enum { FAIR = 2, READ_WRITE = 2 };

const char *plain_names[PLAIN] = {"plain-a", "plain-b", "plain-c"};
static const char *const fair[FAIR] = {"fair-a", "fair-b"};
static const char *const read_write[READ_WRITE] = {"rw-a", "rw-b"};

struct chance *chance_of(struct client *client)
{
    return &client->caller.chance;
}

bool likely(struct client *client, unsigned percent)
{
    return chance_percent(chance_of(client), percent);
}

const char *one_of(struct client *client, const char *const *names, size_t count)
{
    return names[chance_below(chance_of(client), count)];
}

int64_t pick_ttl(struct client *client)
{
    static const int64_t ttls[] = {500, 900, 1500, 2500, 4000};

    return world.pace * ttls[chance_below(chance_of(client), 5)];
}

int64_t pick_wait(struct client *client)
{
    static const int64_t waits[] = {0, 300, 1000, 2500, 4000};

    return world.pace * waits[chance_below(chance_of(client), 5)];
}

/* Sleeps, but not far beyond the end of the run. */
void nap(struct client *client, int64_t least_ms, int64_t most_ms)
{
    task_sleep(chance_between(chance_of(client), least_ms * 1000, most_ms * 1000) * 1000 *
               world.pace);
}

/* --- one lease -------------------------------------------------------------------------------
 */

void give_back(struct client *client, struct lease *lease)
{
    for (int i = 0; i < TRIES; i++) {
        enum result result = ask_release(lease);
        if (result == RESULT_OK || result == RESULT_ENDED)
            return;
        nap(client, 50, 500);
    }
}

bool may_repeat(int64_t sent_ns)
{
    return sent_ns == 0 ||
           now_ns() - sent_ns < (RETRY_WINDOW_MS * world.pace - PAUSE_MAX_MS) * MS;
}

bool data_is_kept_since(int64_t losses)
{
    return losses % 2 == 0 && losses == world.losses;
}

/* Whether it was granted. Asks with the same token until the outcome is known, as long as the
 * token is remembered. */
bool get(struct client *client, struct lease *lease, int64_t ttl_ms, int64_t wait_ms)
{
    const struct how how = {.ttl_ms = ttl_ms, .wait_ms = wait_ms};

    int64_t unknown_ns = 0;

    for (int i = 0; i < TRIES && may_repeat(unknown_ns); i++) {
        int64_t began_ns = now_ns();
        enum result result = ask_acquire(lease, &how);
        if (result == RESULT_OK)
            return true;
        if (result == RESULT_UNKNOWN && unknown_ns == 0)
            unknown_ns = began_ns;
        if (result == RESULT_ENDED || world.is_stopping)
            return false;
        if (result == RESULT_NOT_DONE && lease->status == 423 && likely(client, 70)) {
            if (likely(client, strcmp(lease->kind, "fair") == 0 ? 95 : 50))
                give_back(client, lease);
            return false;
        }
        nap(client, 20, 400);
    }
    return false;
}

/* True: it is over. */
static bool renew_at_times(struct client *client, struct lease *lease, int64_t ttl_ms)
{
    if (!likely(client, 30))
        return false;
    if (ask_renew(lease, ttl_ms >= 0 ? pick_ttl(client) : -1) == RESULT_ENDED)
        return true;
    nap(client, 0, 400);
    lease_use(lease);
    return false;
}

static void overstay(struct client *client, struct lease *lease, int64_t ttl_ms)
{
    task_sleep((ttl_ms >= 0 ? ttl_ms : LEASE_TTL_MAX_MS * world.pace) * MS);
    nap(client, 0, 300);
    lease_use(lease);
    if (likely(client, 60))
        ask_renew(lease, ttl_ms);
}

void work(struct client *client, struct lease *lease, int64_t ttl_ms)
{
    struct how again = {.ttl_ms = ttl_ms};

    lease_use(lease);
    if (likely(client, 40) && ask_acquire(lease, &again) == RESULT_ENDED)
        return;
    nap(client, 0, lease->remaining_ms > 0 ? lease->remaining_ms / world.pace / 4 : 250);
    lease_use(lease);
    if (renew_at_times(client, lease, ttl_ms) || likely(client, 5)) /* dies */
        return;
    int64_t end_ns = now_ns(); /* from here on the lease may end */
    if (likely(client, 6))
        overstay(client, lease, ttl_ms);
    give_back(client, lease);
    if (likely(client, 25))
        ask_release(lease);
    if (likely(client, 25) && may_repeat(end_ns)) { /* a duplicate that was late on its way */
        again.wait_ms = likely(client, 50) ? 300 * world.pace : 0;
        ask_acquire(lease, &again);
    }
}

void cycle(struct client *client, struct lease *lease, int64_t ttl_ms)
{
    if (get(client, lease, ttl_ms, pick_wait(client)))
        work(client, lease, ttl_ms);
}

void run_cycles(struct client *client)
{
    while (!world.is_stopping) {
        struct lease lease = client->kind->pick(client);
        cycle(client, &lease, pick_ttl(client));
        nap(client, 0, 150);
    }
}

/* --- which lock
 * --------------------------------------------------------------------------------- */

bool lock_is_offered(const struct lock_name *lock)
{
    return world.topology != TOPOLOGY_QUORUM || strcmp(lock->kind, "lock") == 0 ||
           strcmp(lock->kind, "write") == 0;
}

struct lease pick_plain(struct client *client)
{
    return lease_make(&client->caller, "lock", one_of(client, plain_names, PLAIN), NULL);
}

struct lease pick_fair(struct client *client)
{
    return lease_make(&client->caller, "fair", one_of(client, fair, FAIR), NULL);
}

struct lease pick_read_write(struct client *client)
{
    return lease_make(&client->caller, likely(client, 67) ? "read" : "write",
                      one_of(client, read_write, READ_WRITE), NULL);
}

struct lease pick_permit(struct client *client)
{
    return lease_make(&client->caller, "permit", PERMITS_NAME, NULL);
}

struct lease pick_several(struct client *client)
{
    size_t first = chance_below(chance_of(client), PLAIN);
    struct lease lease = lease_make(&client->caller, "lock", plain_names[first], NULL);

    lease.lock_count = likely(client, 50) ? 2 : 3;
    for (size_t i = 1; i < lease.lock_count; i++)
        lease.locks[i] = plain_names[(first + i) % PLAIN];
    return lease;
}

struct lease pick_any(struct client *client)
{
    uint64_t draw = chance_below(chance_of(client), 6);

    if (world.topology == TOPOLOGY_QUORUM && (draw == 2 || draw == 3))
        return pick_several(client); /* neither fair locks nor permits */
    switch (draw) {
    case 0:
    case 1:
        return pick_plain(client);
    case 2:
        return pick_fair(client);
    case 3:
        return pick_permit(client);
    default:
        return pick_read_write(client);
    }
}

/* --- hanging up
 * ----------------------------------------------------------------------------------- */

struct impatience {
    struct client *client;
    struct lease lease;
    int64_t ttl_ms, abandon_ns;
    enum result result;
    int over;
};

static void ask_and_hang_up(void *arg)
{
    struct impatience *impatience = arg;
    const struct how how = {.ttl_ms = impatience->ttl_ms,
                            .wait_ms = pick_wait(impatience->client),
                            .abandon_ns = impatience->abandon_ns};

    impatience->result = ask_acquire(&impatience->lease, &how);
}

void await(const int *over, int count)
{
    while (*over < count)
        task_sleep(5 * MS);
}

/* Hangs up about when it is granted, and at times asks elsewhere with the same token. */
static void be_impatient(struct client *client)
{
    static const int64_t after_us[] = {1000, 2000, 4000, 50000, 400000, 1200000};
    struct impatience first = {.client = client, .lease = pick_any(client)};
    struct lease lease = first.lease;

    first.ttl_ms = pick_ttl(client);
    first.abandon_ns = after_us[chance_below(chance_of(client), 6)] * 1000;
    task_start(ask_and_hang_up, &first, &first.over);
    if (likely(client, 60)) {
        task_sleep(likely(client, 50) ? first.abandon_ns : likely(client, 50) ? MS : 0);
        if (get(client, &lease, first.ttl_ms, 0)) {
            await(&first.over, 1);
            work(client, &lease, first.ttl_ms);
            return;
        }
    }
    await(&first.over, 1);
    if (first.result == RESULT_OK || strcmp(lease.kind, "fair") == 0 || likely(client, 30))
        give_back(client, &lease);
}

void run_impatient(struct client *client)
{
    while (!world.is_stopping) {
        be_impatient(client);
        nap(client, 0, 150);
    }
}

/* Has no right to anything, and at times the operator's. */
void run_stranger(struct client *client)
{
    while (!world.is_stopping) {
        bool plainly = likely(client, 50);
        const char *lock = plainly ? one_of(client, plain_names, PLAIN)
                                   : one_of(client, read_write, READ_WRITE);
        struct lease lease = lease_make(&client->caller, plainly ? "lock" : "write", lock,
                                        NULL);
        if (likely(client, 10))
            ask_force_unlock(&client->caller, lock);
        else if (likely(client, 50))
            ask_renew(&lease, 1000);
        else
            ask_release(&lease);
        nap(client, 100, 800);
    }
}

/* --- all of them
 * ----------------------------------------------------------------------------------------- */

static void run_client(void *arg)
{
    struct client *client = arg;

    client->kind->run(client);
    free(client);
}

int kinds_start(const struct client_kind *kinds, size_t kind_count, int *over)
{
    int count = 0;

    for (size_t i = 0; i < kind_count; i++)
        for (int number = 0; number < kinds[i].count; number++, count++) {
            struct client *client = zalloc(sizeof(*client));
            client->kind = &kinds[i];
            caller_init(&client->caller, kinds[i].name, number);
            task_start(run_client, client, over);
        }
    return count;
}
