#include "storage/objects/lease_visits.h"

#include <assert.h>
#include <stdlib.h>

#include "storage/objects/lock_store_internal.h"

/* Scripts under way for all visited sessions of a worker together: enough to fill a round trip,
 * and not more than about a millisecond of Redis' thread, for which other scripts wait. Each
 * session has at least one script under way. */
enum { UNDER_WAY_MAX = 32 };

struct visit {
    struct lease_visits *visits;
    size_t i;
};

struct lease_visits {
    struct lock_store *store;
    struct lease_errand errand;
    const struct lease_ref *refs;
    size_t count, next, under_way;
    lease_visited *visited;
    lease_visits_done *done;
    void *arg;
    struct visit visit[];
};

static void on_reply(void *arg, const struct redis_result *result);

_Static_assert((int)LEASE_CLAIM_KEY_RECORD == (int)LEASE_WATCH_KEY_RECORD &&
                   (int)LEASE_END_KEY_RECORD == (int)LEASE_WATCH_KEY_RECORD &&
                   (int)LEASE_END_KEYS == (int)LEASE_WATCH_KEYS,
               "scripts that visit a lease take the same KEYS");

static void fill_keys(struct store_call *call, const struct lease_ref *ref, bool has_counter)
{
    enum key_kind record = lease_ref_is_set(ref) ? KEY_MEMBER : KEY_LEASE;
    size_t stride = has_counter ? LEASE_CLAIM_KEYS : LEASE_WATCH_KEYS;
    struct lease_ref_name names[LOCKS_MAX];
    char lease_id[LEASE_ID_SIZE];

    lease_ref_id(ref, lease_id);
    lease_ref_names(ref, names);
    for (size_t i = 0; i < ref->lock_count; i++) {
        const struct key_base lock = {names[i].text, names[i].len};
        call_key(call, i * stride + LEASE_WATCH_KEY_LOCK, KEY_OBJECT, lock, NULL);
        call_key(call, i * stride + LEASE_WATCH_KEY_RECORD, record, lock, lease_id);
        if (has_counter)
            call_key(call, i * stride + LEASE_CLAIM_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    }
}

static void send(struct lease_visits *visits, struct visit *visit)
{
    const struct lease_ref *ref = &visits->refs[visit->i];
    const struct lease_errand *errand = &visits->errand;
    struct store_call *call = call_begin(visits->store, errand->script);
    char lease_id[LEASE_ID_SIZE];

    lease_ref_id(ref, lease_id);
    fill_keys(call, ref, errand->has_counter);
    call_string(call, 0, lease_id);
    call_string(call, 1, errand->arguments[0]);
    call_string(call, 2, errand->arguments[1]);
    visits->under_way++;
    call_send(call, on_reply, visit);
}

static size_t most_under_way(const struct lock_store *store)
{
    size_t part = UNDER_WAY_MAX / store->visited_sessions;

    return part > 0 ? part : 1;
}

static void send_some(struct lease_visits *visits)
{
    while (visits->under_way < most_under_way(visits->store) && visits->next < visits->count) {
        struct visit *visit = &visits->visit[visits->next];
        *visit = (struct visit){.visits = visits, .i = visits->next++};
        if (visits->refs[visit->i].lock_count > 0)
            send(visits, visit);
    }
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct visit *visit = arg;
    struct lease_visits *visits = visit->visits;

    visits->under_way--;
    visits->visited(visits->arg, visit->i, result);
    send_some(visits);
    if (visits->under_way > 0)
        return;
    visits->store->visited_sessions--;
    visits->done(visits->arg);
    free(visits);
}

bool lease_visits_start(struct lock_store *store, const struct lease_errand *errand,
                        const struct lease_ref *refs, size_t count, lease_visited *visited,
                        lease_visits_done *done, void *arg)
{
    struct lease_visits *visits = calloc(1, sizeof(*visits) + count * sizeof(visits->visit[0]));

    assert(visits != NULL);
    visits->store = store;
    visits->errand = *errand;
    visits->refs = refs;
    visits->count = count;
    visits->visited = visited;
    visits->done = done;
    visits->arg = arg;
    store->visited_sessions++;
    send_some(visits);
    if (visits->under_way > 0)
        return true;
    store->visited_sessions--;
    free(visits);
    return false;
}
