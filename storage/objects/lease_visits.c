/* The queue of visits: how many scripts are under way, and whose visit is the next. */
#include "storage/objects/lease_visits.h"

#include <assert.h>
#include <stdlib.h>

#include <utlist.h>

#include "storage/objects/lock_store_internal.h"

/* Scripts under way for all sessions of a worker, a script for several locks counted as many.
 * Of the watchdog and of sessions that end: enough to fill a round trip, and no more than a
 * millisecond or so of Redis' thread that the scripts of others wait for. Of looks, which any
 * client may ask for as often as it likes: a fraction of that. */
static const size_t under_way_max[VISIT_LINES] = {[VISIT_DUTIES] = 32, [VISIT_LOOKS] = 8};

struct visit {
    struct lease_visits *visits;
    size_t i;
};

struct lease_visits {
    struct lock_store *store;
    struct lease_visit_job job;
    const struct lease_ref *refs;
    size_t count, next, under_way;
    lease_visited *visited;
    lease_visits_done *done;
    void *arg;
    struct lease_visits *prev, *next_in_line; /* utlist: while there is more to send */
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

static struct visit_line *line_of(const struct lease_visits *visits)
{
    return &visits->store->visit_lines[visits->job.line];
}

/* The next ref that is one. */
static void skip_no_refs(struct lease_visits *visits)
{
    while (visits->next < visits->count && visits->refs[visits->next].lock_count == 0)
        visits->next++;
}

static void send_next(struct lease_visits *visits)
{
    struct visit *visit = &visits->visit[visits->next];
    const struct lease_ref *ref = &visits->refs[visits->next];
    const struct lease_visit_job *job = &visits->job;
    struct store_call *call = call_begin(visits->store, job->script);
    char lease_id[LEASE_ID_SIZE];

    *visit = (struct visit){.visits = visits, .i = visits->next++};
    lease_ref_id(ref, lease_id);
    fill_keys(call, ref, job->has_counter);
    call_string(call, 0, lease_id);
    call_string(call, 1, job->arguments[0]);
    call_string(call, 2, job->arguments[1]);
    visits->under_way++;
    line_of(visits)->under_way += ref->lock_count;
    call_send(call, on_reply, visit);
    skip_no_refs(visits);
}

/* In turns, one script for each of the sessions that are visited. */
static void send_some(struct visit_line *line, size_t max)
{
    while (line->waiting != NULL) {
        struct lease_visits *visits = line->waiting;
        size_t lock_count = visits->refs[visits->next].lock_count;
        if (line->under_way > 0 && line->under_way + lock_count > max)
            return;
        DL_DELETE2(line->waiting, visits, prev, next_in_line);
        send_next(visits);
        if (visits->next < visits->count)
            DL_APPEND2(line->waiting, visits, prev, next_in_line);
    }
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct visit *visit = arg;
    struct lease_visits *visits = visit->visits;
    struct visit_line *line = line_of(visits);
    size_t max = under_way_max[visits->job.line];

    visits->under_way--;
    line->under_way -= visits->refs[visit->i].lock_count;
    visits->visited(visits->arg, visit->i, result);
    if (visits->under_way == 0 && visits->next == visits->count) {
        visits->done(visits->arg);
        free(visits);
    }
    send_some(line, max);
}

bool lease_visits_start(struct lock_store *store, const struct lease_visit_job *job,
                        const struct lease_ref *refs, size_t count, lease_visited *visited,
                        lease_visits_done *done, void *arg)
{
    struct lease_visits *visits = calloc(1, sizeof(*visits) + count * sizeof(visits->visit[0]));

    assert(visits != NULL);
    visits->store = store;
    visits->job = *job;
    visits->refs = refs;
    visits->count = count;
    visits->visited = visited;
    visits->done = done;
    visits->arg = arg;
    skip_no_refs(visits);
    if (visits->next == visits->count) {
        free(visits);
        return false;
    }
    struct visit_line *line = line_of(visits);
    DL_APPEND2(line->waiting, visits, prev, next_in_line);
    send_some(line, under_way_max[job->line]);
    return true;
}
