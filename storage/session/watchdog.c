/* The rounds of the watchdog through the partitions of the indices. */
#include "storage/session/watchdog.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/notes/notes.h"
#include "storage/session/visit.h"

enum {
    /* Members that one call claims, of all partitions that it asks. Their visits end before
     * the next call: the scripts of others wait behind one of the watchdog's. */
    CLAIMS_MAX = SESSIONS_VISIT_MAX,
    /* Members that are visited at a time by rounds that last longer than the pause between
     * them. */
    VISITS_MAX = 2 * CLAIMS_MAX,
    /* Between two rounds: a session's end is noticed within a second, also with short timeouts.
     */
    ROUND_MAX_MS = 500,
    ROUNDS_PER_TIMEOUT = 12,
    /* A partition is asked when its next member is to be visited, as far as this front end
     * knows, and at least every so often, for members of front ends that died. By then a visit
     * has ended, too, or its front end has: a claim lasts as long. */
    LOOK_MAX_MS = 5000,
    LOOKS_PER_TIMEOUT = 6
};

struct partition {
    bool is_asked;   /* index_claim.lua is under way */
    bool has_more;   /* it may have members that are to be visited */
    int64_t next_ns; /* when the next visit may be due */
};

/* The rounds through one index. */
struct rounds {
    struct watchdog *watchdog;
    enum visit_index index;
    void (*visit)(struct store *store, const char *member, const char claim[VISIT_CLAIM_SIZE],
                  visit_done *done, void *arg);
    bool visits_together; /* sessions whose keys are in one place */
    size_t visits;        /* under way, or to come from a claim that is under way */
    size_t visits_max;    /* of this round */
    size_t first;         /* partition that the next call asks first: each has its turn */
    int64_t from_ns;      /* of loop_now_ns(): before, other front ends make the visits */
    struct partition partitions[INDEX_PARTITIONS];
};

struct watchdog {
    struct store *store;
    struct timer round;
    int64_t round_ms, look_ms;
    struct rounds rounds[INDICES];
};

static void claim_members(struct rounds *rounds);

static void on_visited(void *arg)
{
    struct rounds *rounds = arg;

    rounds->visits--;
    claim_members(rounds);
}

/* Sessions are visited together that are in one partition: then they were found together. */
static void visit_sessions(struct rounds *rounds, const struct redis_value *found,
                           const char claim[VISIT_CLAIM_SIZE])
{
    char ids[SESSIONS_VISIT_MAX][SESSION_ID_SIZE];
    size_t count = 0;

    for (size_t i = 0; i < value_count(found); i++) {
        char id[SESSION_ID_SIZE];
        lock_copy_text(value_at(found, i), id, sizeof(id));
        rounds->visits++;
        if (count > 0 && (count == SESSIONS_VISIT_MAX || id[0] != ids[0][0])) {
            sessions_visit(rounds->watchdog->store, ids, count, claim, on_visited, rounds);
            count = 0;
        }
        memcpy(ids[count++], id, sizeof(id));
    }
    if (count > 0)
        sessions_visit(rounds->watchdog->store, ids, count, claim, on_visited, rounds);
}

static void visit_claimed(struct rounds *rounds, const struct redis_value *reply)
{
    const struct redis_value *found = value_at(reply, INDEX_CLAIM_REPLY_FOUND);
    char claim[VISIT_CLAIM_SIZE], member[KEY_NAME_MAX + 1];

    snprintf(claim, sizeof(claim), "%" PRId64,
             value_integer(value_at(reply, INDEX_CLAIM_REPLY_CLAIM)));
    if (rounds->visits_together) {
        visit_sessions(rounds, found, claim);
        return;
    }
    for (size_t i = 0; i < value_count(found); i++) {
        lock_copy_text(value_at(found, i), member, sizeof(member));
        rounds->visits++;
        rounds->visit(rounds->watchdog->store, member, claim, on_visited, rounds);
    }
}

/* `in_ms` negative: it is unknown when. A visit that was set while the partition was asked is
 * not in the reply: it stays expected. */
static void expect_next(const struct watchdog *watchdog, struct partition *partition,
                        int64_t in_ms)
{
    if (in_ms < 0 || in_ms > watchdog->look_ms)
        in_ms = watchdog->look_ms;
    int64_t at_ns = loop_now_ns(store_loop(watchdog->store)) + in_ms * CLOCK_NS_PER_MS;
    if (at_ns < partition->next_ns)
        partition->next_ns = at_ns;
}

/* The partitions that one call asks. */
struct claim_call {
    struct rounds *rounds;
    size_t count;
    size_t numbers[INDEX_PARTITIONS];
};

static void on_claimed(void *arg, const struct redis_result *result)
{
    struct claim_call *call = arg;
    struct rounds *rounds = call->rounds;
    const struct redis_value *found = value_at(result->reply, INDEX_CLAIM_REPLY_FOUND);
    const struct redis_value *next_visits = value_at(result->reply,
                                                     INDEX_CLAIM_REPLY_NEXT_VISITS);
    bool is_done = result->outcome == REDIS_DONE;

    rounds->visits -= CLAIMS_MAX;
    for (size_t i = 0; i < call->count; i++) {
        struct partition *partition = &rounds->partitions[call->numbers[i]];
        int64_t in_ms = value_integer(value_at(next_visits, i));
        partition->is_asked = false;
        /* When Redis did not answer, the next round tries again, and so does each front end. */
        partition->has_more = is_done && value_count(found) > 0 && in_ms == 0;
        expect_next(rounds->watchdog, partition, is_done ? in_ms : 0);
    }
    free(call);
    if (is_done)
        visit_claimed(rounds, result->reply);
    claim_members(rounds);
}

static void claim_some(struct rounds *rounds, const size_t *numbers, size_t count)
{
    struct store_call *script = call_begin(rounds->watchdog->store, SCRIPT_INDEX_CLAIM);
    struct claim_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->rounds = rounds;
    call->count = count;
    for (size_t i = 0; i < count; i++) {
        call->numbers[i] = numbers[i];
        rounds->partitions[numbers[i]].is_asked = true;
        rounds->partitions[numbers[i]].next_ns = INT64_MAX;
        index_key(script, INDEX_CLAIM_KEY_INDEX + i, rounds->index, numbers[i]);
    }
    call_number(script, INDEX_CLAIM_ARG_LIMIT, CLAIMS_MAX);
    call_number(script, INDEX_CLAIM_ARG_CLAIM_MS, rounds->watchdog->look_ms);
    rounds->visits += CLAIMS_MAX;
    rounds->first++;
    call_send(script, on_claimed, call);
}

/* One call asks all partitions, in a cluster one, for each is in a slot of its own. As many
 * calls as there is room for their members. */
static void claim_members(struct rounds *rounds)
{
    const struct store *store = rounds->watchdog->store;
    size_t numbers[INDEX_PARTITIONS], count = 0;

    for (size_t i = 0; i < INDEX_PARTITIONS; i++) {
        size_t number = (rounds->first + i) % INDEX_PARTITIONS;
        if (rounds->partitions[number].has_more && !rounds->partitions[number].is_asked)
            numbers[count++] = number;
    }
    size_t at_once = topology_is_cluster(store_topology(store)) ? 1 : count;
    for (size_t i = 0; i < count && rounds->visits + CLAIMS_MAX <= rounds->visits_max;
         i += at_once)
        claim_some(rounds, numbers + i, at_once);
}

static void begin_round(struct rounds *rounds, int64_t now_ns)
{
    if (now_ns < rounds->from_ns)
        return;
    for (size_t i = 0; i < INDEX_PARTITIONS; i++)
        if (rounds->partitions[i].next_ns <= now_ns)
            rounds->partitions[i].has_more = true;
    rounds->visits_max = rounds->visits > 0 ? VISITS_MAX : CLAIMS_MAX;
    claim_members(rounds);
}

static void take_round(void *arg)
{
    struct watchdog *watchdog = arg;
    struct loop *loop = store_loop(watchdog->store);

    timer_arm(loop_timers(loop), &watchdog->round,
              loop_now_ns(loop) + watchdog->round_ms * CLOCK_NS_PER_MS);
    for (enum visit_index index = 0; index < INDICES; index++)
        begin_round(&watchdog->rounds[index], loop_now_ns(loop));
}

/* A member of this partition is to be visited so soon. */
static void expect_visit(void *arg, enum visit_index index, size_t number, int64_t in_ms)
{
    struct watchdog *watchdog = arg;

    if (in_ms <= watchdog->look_ms) /* else a look comes first */
        expect_next(watchdog, &watchdog->rounds[index].partitions[number], in_ms);
}

struct watchdog *watchdog_new(struct store *store)
{
    struct watchdog *watchdog = calloc(1, sizeof(*watchdog));

    if (watchdog == NULL)
        return NULL;
    watchdog->store = store;
    watchdog->round_ms = store_config(store)->watchdog_timeout_ms / ROUNDS_PER_TIMEOUT;
    if (watchdog->round_ms > ROUND_MAX_MS)
        watchdog->round_ms = ROUND_MAX_MS;
    watchdog->look_ms = store_config(store)->watchdog_timeout_ms / LOOKS_PER_TIMEOUT;
    if (watchdog->look_ms > LOOK_MAX_MS)
        watchdog->look_ms = LOOK_MAX_MS;
    bool is_quorum = topology_quorum_nodes(store_topology(store)) > 0;
    watchdog->rounds[INDEX_SESSIONS] = (struct rounds){
        .watchdog = watchdog,
        .index = INDEX_SESSIONS,
        .visit = session_visit,
        .visits_together = !is_quorum && !topology_is_cluster(store_topology(store))};
    /* A front end that has just started spares every place, for it does not know for how long
     * Redis was away (call_lost_ms()). Its visits would only keep others from theirs. */
    watchdog->rounds[INDEX_QUEUES] = (struct rounds){
        .watchdog = watchdog,
        .index = INDEX_QUEUES,
        .visit = queue_visit,
        .from_ns = is_quorum
                       ? INT64_MAX
                       : loop_now_ns(store_loop(store)) + REDIS_BACK_MS * CLOCK_NS_PER_MS};
    index_watch(store, expect_visit, watchdog);
    watchdog->round = (struct timer){.fire = take_round, .arg = watchdog};
    take_round(watchdog);
    return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
    timer_cancel(loop_timers(store_loop(watchdog->store)), &watchdog->round);
    index_watch(watchdog->store, NULL, NULL);
    free(watchdog);
}
