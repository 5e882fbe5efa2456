/* The rounds of the watchdog through the partitions of the index. */
#include "storage/objects/watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/objects/session_internal.h"
#include "storage/objects/session_visit.h"

enum {
    /* Sessions that are visited at a time, each with a batch of leases: a few thousand scripts
     * in Redis' queue at most. */
    VISITS_MAX = 32,
    CLAIMS_MAX = 8, /* sessions that one call claims */
    /* Between two rounds: a session's end is noticed within a second, also with short timeouts.
     */
    ROUND_MAX_MS = 500,
    ROUNDS_PER_TIMEOUT = 12,
    /* A partition is asked when its next session is to be visited, as far as this front end
     * knows, and at least every so often, for sessions of front ends that died. By then a visit
     * has ended, too, or its front end has: a claim lasts as long. */
    LOOK_MAX_MS = 5000,
    LOOKS_PER_TIMEOUT = 6
};

struct watchdog;

struct partition {
    struct watchdog *watchdog;
    bool is_asked;   /* index_claim.lua is under way */
    bool has_more;   /* it may have sessions that are to be visited */
    int64_t next_ns; /* when the next visit may be due */
};

struct watchdog {
    struct lock_store *store;
    struct timer round;
    int64_t round_ms, look_ms;
    size_t visits; /* under way, or to come from a claim that is under way */
    size_t first;  /* partition that is asked first: each has its turn */
    struct partition partitions[SESSION_PARTITIONS];
};

static void claim_sessions(struct watchdog *watchdog);

static void on_visited(void *arg)
{
    struct watchdog *watchdog = arg;

    watchdog->visits--;
    claim_sessions(watchdog);
}

static void visit_claimed(struct watchdog *watchdog, const struct redis_value *reply)
{
    const struct redis_value *found = value_at(reply, 1);
    char claim[SESSION_CLAIM_SIZE], session_id[SESSION_ID_SIZE];

    snprintf(claim, sizeof(claim), "%" PRId64, value_integer(value_at(reply, 0)));
    for (size_t i = 0; i < value_count(found); i++) {
        lock_copy_text(value_at(found, i), session_id, sizeof(session_id));
        watchdog->visits++;
        session_visit(watchdog->store, session_id, claim, on_visited, watchdog);
    }
}

static void expect_next(struct partition *partition, int64_t in_ms)
{
    int64_t look_ms = partition->watchdog->look_ms;
    struct loop *loop = partition->watchdog->store->options.loop;

    if (in_ms < 0 || in_ms > look_ms)
        in_ms = look_ms;
    partition->next_ns = loop_now_ns(loop) + in_ms * CLOCK_NS_PER_MS;
}

static void on_claimed(void *arg, const struct redis_result *result)
{
    struct partition *partition = arg;
    struct watchdog *watchdog = partition->watchdog;

    partition->is_asked = false;
    watchdog->visits -= CLAIMS_MAX;
    /* When Redis did not answer, the next round tries again, and so does every front end. */
    partition->has_more = result->outcome == REDIS_DONE &&
                          value_count(value_at(result->reply, 1)) >= CLAIMS_MAX;
    if (result->outcome == REDIS_DONE) {
        expect_next(partition, value_integer(value_at(result->reply, 2)));
        visit_claimed(watchdog, result->reply);
    }
    claim_sessions(watchdog);
}

static void claim_some(struct watchdog *watchdog, size_t number)
{
    struct partition *partition = &watchdog->partitions[number];
    struct store_call *call = call_begin(watchdog->store, SCRIPT_INDEX_CLAIM);

    session_index_key(call, number);
    call_number(call, INDEX_CLAIM_ARG_LIMIT, CLAIMS_MAX);
    call_number(call, INDEX_CLAIM_ARG_CLAIM_MS, watchdog->look_ms);
    partition->is_asked = true;
    watchdog->visits += CLAIMS_MAX;
    call_send(call, on_claimed, partition);
}

/* As many partitions as there is room for their sessions. */
static void claim_sessions(struct watchdog *watchdog)
{
    for (size_t i = 0; i < SESSION_PARTITIONS; i++) {
        if (watchdog->visits + CLAIMS_MAX > VISITS_MAX)
            return;
        size_t number = (watchdog->first + i) % SESSION_PARTITIONS;
        struct partition *partition = &watchdog->partitions[number];
        if (partition->has_more && !partition->is_asked)
            claim_some(watchdog, number);
    }
}

static void take_round(void *arg)
{
    struct watchdog *watchdog = arg;
    struct loop *loop = watchdog->store->options.loop;

    timer_arm(loop_timers(loop), &watchdog->round,
              loop_now_ns(loop) + watchdog->round_ms * CLOCK_NS_PER_MS);
    watchdog->first++;
    for (size_t i = 0; i < SESSION_PARTITIONS; i++)
        if (watchdog->partitions[i].next_ns <= loop_now_ns(loop))
            watchdog->partitions[i].has_more = true;
    claim_sessions(watchdog);
}

void watchdog_expect(struct watchdog *watchdog, size_t number, int64_t in_ms)
{
    struct partition *partition = &watchdog->partitions[number];
    struct loop *loop = watchdog->store->options.loop;
    int64_t at_ns = loop_now_ns(loop) + in_ms * CLOCK_NS_PER_MS;

    if (at_ns < partition->next_ns)
        partition->next_ns = at_ns;
}

struct watchdog *watchdog_new(struct lock_store *store)
{
    struct watchdog *watchdog = calloc(1, sizeof(*watchdog));

    if (watchdog == NULL)
        return NULL;
    watchdog->store = store;
    watchdog->round_ms = store->options.config->watchdog_timeout_ms / ROUNDS_PER_TIMEOUT;
    if (watchdog->round_ms > ROUND_MAX_MS)
        watchdog->round_ms = ROUND_MAX_MS;
    watchdog->look_ms = store->options.config->watchdog_timeout_ms / LOOKS_PER_TIMEOUT;
    if (watchdog->look_ms > LOOK_MAX_MS)
        watchdog->look_ms = LOOK_MAX_MS;
    for (size_t i = 0; i < SESSION_PARTITIONS; i++)
        watchdog->partitions[i].watchdog = watchdog;
    store->watchdog = watchdog;
    watchdog->round = (struct timer){.fire = take_round, .arg = watchdog};
    take_round(watchdog);
    return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
    timer_cancel(loop_timers(watchdog->store->options.loop), &watchdog->round);
    watchdog->store->watchdog = NULL;
    free(watchdog);
}
