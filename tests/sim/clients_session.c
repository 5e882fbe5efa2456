/* Clients with a session. */
#include "tests/sim/clients.h"

#include <string.h>

/* Locks that owners take several times. */
static const struct {
    const char *kind, *locks[2];
} nested[] = {{"lock", {"owned-a", "owned-b"}},
              {"read", {"rw-a", "rw-b"}},
              {"fair", {"fair-a", "fair-b"}}};

/* A session, those who work in it, and what keeps it alive. */
struct life {
    struct client *client;
    struct session session;
    bool is_over, dies;
    int works_over, beats_over;
    struct caller beat;
};

static void keep_alive(void *arg)
{
    struct life *life = arg;

    while (!life->is_over) {
        int64_t wait_ms = chance_percent(&life->beat.chance, 50) ? life->session.ttl_ms / 4 : 0;
        if (ask_keep_alive(&life->beat, &life->session, wait_ms) == RESULT_ENDED)
            return;
        if (life->dies && chance_percent(&life->beat.chance, 20))
            return;
        task_sleep((wait_ms == 0 ? 400 : 20) * MS * world.pace);
    }
}

static struct lease pick_in(struct life *life)
{
    struct client *client = life->client;
    struct lease lease = likely(client, 20) ? pick_several(client) : pick_any(client);

    if (likely(client, 25))
        lease = lease_make(&client->caller, "lock", one_of(client, nested[0].locks, 2), NULL);
    lease.session = &life->session;
    return lease;
}

/* Reentrant leases: one inside the other. */
static void nest(struct life *life)
{
    enum { DEPTH_MAX = 3 };
    struct client *client = life->client;
    struct lease leases[DEPTH_MAX];
    size_t of = chance_below(chance_of(client), 3);
    const char *lock = one_of(client, nested[of].locks, 2), *kind = nested[of].kind;
    int owner = likely(client, 50) ? 1 : 2, depth = likely(client, 50) ? 2 : 3, count = 0;

    while (count < depth) {
        struct lease *lease = &leases[count];
        *lease = lease_make(&client->caller, kind, lock, &life->session);
        snprintf(lease->owner, sizeof(lease->owner), "o%d-%s", owner, lease->kind);
        if (!get(client, lease, -1, (count == 0 ? 1000 : 300) * world.pace))
            break;
        lease_use(lease);
        count++;
    }
    nap(client, 0, 300);
    for (int i = 0; i < count; i++)
        give_back(client, &leases[i]);
}

static void work_in(void *arg)
{
    struct life *life = arg;
    struct client *client = life->client;
    int64_t rounds = chance_between(chance_of(client), 2, 8);

    for (int64_t i = 0; i < rounds && !life->is_over && !world.is_stopping; i++) {
        if (world.topology != TOPOLOGY_QUORUM && likely(client, 40)) {
            nest(life);
            continue;
        }
        struct lease lease = pick_in(life);
        cycle(client, &lease, likely(client, 67) ? -1 : pick_ttl(client));
    }
}

/* RESULT_ENDED: the session was over by its time or by an earlier request. */
static enum result end_session(struct client *client, struct session *session)
{
    enum result result = RESULT_UNKNOWN;

    for (int i = 0; i < TRIES; i++) {
        result = ask_session_end(&client->caller, session);
        if (result == RESULT_OK || result == RESULT_ENDED)
            break;
        nap(client, 50, 400);
    }
    return result;
}

/* A token that an ended session has spent is good in no other session. A session that is over
 * by its time keeps its tokens until the watchdog's next visit, and the answer is 422 so long;
 * of a quorum also while a server has not heard of the session's end. */
static void change_session(struct client *client, struct session *session)
{
    const struct how again = {.ttl_ms = -1,
                              .refusal = world.topology == TOPOLOGY_QUORUM ? 422 : 0};
    struct session other = {.ttl_ms = session->ttl_ms};
    struct lease lease = lease_make(&client->caller, "lock", "owned-a", session);

    make_token(chance_of(client), other.token);
    int64_t losses = world.losses;
    bool held = get(client, &lease, -1, 1000 * world.pace);
    int64_t end_ns = now_ns();
    enum result end = end_session(client, session);
    if (!held || end != RESULT_OK || !data_is_kept_since(losses) ||
        ask_session_open(&client->caller, &other) != RESULT_OK)
        return;
    lease.session = &other;
    if (may_repeat(end_ns) && ask_acquire(&lease, &again) == RESULT_OK)
        give_back(client, &lease);
    end_session(client, &other);
}

static void live(struct client *client, int number)
{
    static const struct how late = {.ttl_ms = -1};
    struct life life = {.client = client, .dies = likely(client, 15)};

    make_token(chance_of(client), life.session.token);
    life.session.ttl_ms = (likely(client, 50) ? 2000 : 3000) * world.pace;
    caller_init(&life.beat, client->caller.name, number);
    if (ask_session_open(&client->caller, &life.session) != RESULT_OK) {
        nap(client, 300, 300);
        return;
    }
    task_start(keep_alive, &life, &life.beats_over);
    task_start(work_in, &life, &life.works_over);
    work_in(&life);
    if (likely(client, 25)) /* while a request of it may still wait */
        end_session(client, &life.session);
    await(&life.works_over, 1);
    life.is_over = true;
    if (likely(client, 15)) {
        change_session(client, &life.session);
    } else if (likely(client, 30)) { /* dies, and holds something */
        struct lease lease = pick_in(&life);
        get(client, &lease, -1, 1000 * world.pace);
    } else if (likely(client, 80)) {
        end_session(client, &life.session);
    }
    await(&life.beats_over, 1);
    if (likely(client, 50)) { /* too late */
        struct lease lease = pick_in(&life);
        ask_acquire(&lease, &late);
    }
}

void run_sessions(struct client *client)
{
    for (int number = 0; !world.is_stopping; number++)
        live(client, number);
}

/* Comes and goes: the end of any session is an event for all that wait. */
void run_visitor(struct client *client)
{
    while (!world.is_stopping) {
        struct session session = {.ttl_ms = 2000 * world.pace};
        make_token(chance_of(client), session.token);
        if (ask_session_open(&client->caller, &session) == RESULT_OK) {
            nap(client, 0, 20);
            end_session(client, &session);
        }
        nap(client, 0, 400);
    }
}

/* Between two visits the lock of a session is forced open, and another lease gets it. The next
 * visit must leave that lease alone, which is so long that a renewal would shorten it; the
 * session ends before a later visit would prolong it. */
static void change_holder(struct client *client, struct session *session)
{
    static const char lock[] = "forced-a";
    const struct how again = {.ttl_ms = LEASE_TTL_MAX_MS * world.pace};
    struct lease lost = lease_make(&client->caller, "lock", lock, session);
    struct lease other = lease_make(&client->caller, "lock", lock, NULL);

    if (!get(client, &lost, -1, 0))
        return;
    nap(client, 600, 900);
    ask_force_unlock(&client->caller, lock);
    if (!get(client, &other, again.ttl_ms, 0))
        return;
    task_sleep(1000 * MS * world.pace);
    ask_session_end(&client->caller, session);
    task_sleep((LEASE_TTL_MAX_MS - 1100) * MS * world.pace);
    if (ask_acquire(&other, &again) != RESULT_ENDED)
        give_back(client, &other);
}

void run_forced(struct client *client)
{
    while (!world.is_stopping) {
        struct session session = {.ttl_ms = 3000 * world.pace};
        make_token(chance_of(client), session.token);
        if (ask_session_open(&client->caller, &session) == RESULT_OK)
            change_holder(client, &session);
        nap(client, 0, 400);
    }
}
