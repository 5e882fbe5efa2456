/* The claim of the one worker that makes the census, and its rounds. */
#include "storage/census/census.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/loop.h"
#include "storage/census/census_internal.h"
#include "storage/census/waited.h"
#include "storage/census/publish.h"
#include "storage/census/walk.h"
#include "storage/store/store_call.h"

/* How often a worker asks for the claim and for the counts. A walk over few locks begins as
 * often. */
#define ROUND_NS (2 * CLOCK_NS_PER_S)

enum {
    /* A worker that dies is replaced after so long. */
    CLAIM_MS = 8000,
    COUNTS_SIZE = 200
};

struct census {
    struct store *store;
    const char *worker_id;
    struct timer round;
    bool is_asked;                   /* census_claim.lua is under way */
    bool is_mine;                    /* the claim, when it was last asked for */
    bool is_prepared;                /* the holders of the last picture count as seen */
    bool is_busy[CENSUS_WAITED + 1]; /* a picture is being made or written */
    struct seen seen;
    struct walk walk;
    struct waited waited;
};

/* The metrics that the counts of a picture are, in their order. */
static const enum metric held_metrics[] = {
    METRIC_LOCKS,    METRIC_LOCKS_FAIR,      METRIC_LOCKS_READ, METRIC_LOCKS_WRITE,
    METRIC_SESSIONS, METRIC_LONG_HELD_LOCKS, METRIC_OLDEST_HOLD};
static const enum metric waited_metrics[] = {METRIC_LONG_WAITED_LOCKS, METRIC_OLDEST_WAIT};

static void set_metrics(struct census *census, const enum metric *metrics, size_t count,
                        const struct redis_value *counts)
{
    size_t len;
    const char *text = value_text(counts, &len);

    for (size_t i = 0; i < count; i++) {
        char *end = (char *)text;
        metrics_set(store_metrics(census->store), metrics[i], strtoll(text, &end, 10));
        text = end;
    }
}

/* --- the pictures ------------------------------------------------------------------------- */

static int64_t oldest_s(const struct census_picture *picture, int64_t now_ms)
{
    return picture->count > 0 ? (now_ms - picture->entries[0].since_ms) / 1000 : 0;
}

static void on_held_published(void *arg)
{
    struct census *census = arg;

    census->is_busy[CENSUS_HELD] = false;
}

static void on_waited_published(void *arg)
{
    struct census *census = arg;

    census->is_busy[CENSUS_WAITED] = false;
}

static void on_walked(void *arg, bool is_complete)
{
    struct census *census = arg;
    const struct walk *walk = &census->walk;
    char counts[COUNTS_SIZE];

    if (!is_complete) {
        on_held_published(census);
        return;
    }
    snprintf(counts, sizeof(counts),
             "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
             walk->locks[WALK_LOCK], walk->locks[WALK_FAIR], walk->locks[WALK_READ],
             walk->locks[WALK_WRITE], walk->sessions, walk->long_count,
             oldest_s(&walk->picture, walk_now_ms(walk)));
    const struct publication publication = {
        .kind = CENSUS_HELD,
        .picture = &walk->picture,
        .counts = counts,
        .worker_id = census->worker_id,
        .long_ms = store_config(census->store)->long_hold_ms};
    census_publish(census->store, &publication, on_held_published, census);
}

static void on_waits_seen(void *arg, bool is_complete)
{
    struct census *census = arg;
    const struct waited *waited = &census->waited;
    char counts[COUNTS_SIZE];

    if (!is_complete) {
        on_waited_published(census);
        return;
    }
    snprintf(counts, sizeof(counts), "%" PRId64 " %" PRId64, waited->long_count,
             oldest_s(&waited->picture, waited_now_ms(waited)));
    const struct publication publication = {
        .kind = CENSUS_WAITED,
        .picture = &waited->picture,
        .counts = counts,
        .worker_id = census->worker_id,
        .long_ms = store_config(census->store)->long_wait_ms};
    census_publish(census->store, &publication, on_waited_published, census);
}

/* --- the claim ---------------------------------------------------------------------------- */

/* What another front end has seen goes on. */
static void on_last_picture(void *arg, const struct census_reading *reading)
{
    struct census *census = arg;

    census->is_busy[CENSUS_HELD] = false;
    if (reading->outcome != CALL_DONE || !census->is_mine)
        return; /* the next round asks again */
    census->is_prepared = true;
    for (size_t i = 0; i < reading->picture->count; i++) {
        const struct census_entry *entry = &reading->picture->entries[i];
        if (entry->at_least)
            seen_since(&census->seen, entry->name, entry->who, entry->since_ms);
    }
}

static void make_pictures(struct census *census, int64_t now_ms)
{
    if (!census->is_busy[CENSUS_HELD]) {
        census->is_busy[CENSUS_HELD] = true;
        if (census->is_prepared) {
            walk_start(&census->walk, now_ms, on_walked, census);
        } else {
            seen_forget(&census->seen); /* by the last step of a walk that was given up */
            census_read(census->store, CENSUS_HELD, on_last_picture, census);
        }
    }
    if (!census->is_busy[CENSUS_WAITED]) {
        census->is_busy[CENSUS_WAITED] = true;
        waited_start(&census->waited, now_ms, on_waits_seen, census);
    }
}

static void lose_claim(struct census *census)
{
    walk_give_up(&census->walk);
    waited_give_up(&census->waited);
    seen_forget(&census->seen);
    census->is_prepared = false;
}

static void on_claimed(void *arg, const struct redis_result *result)
{
    struct census *census = arg;
    const struct redis_value *reply = result->reply;

    census->is_asked = false;
    if (result->outcome != REDIS_DONE)
        return; /* what is under way finds out by itself whether Redis is there */
    set_metrics(census, held_metrics, sizeof(held_metrics) / sizeof(held_metrics[0]),
                value_at(reply, CENSUS_CLAIM_REPLY_HELD_COUNTS));
    set_metrics(census, waited_metrics, sizeof(waited_metrics) / sizeof(waited_metrics[0]),
                value_at(reply, CENSUS_CLAIM_REPLY_WAITED_COUNTS));
    census->is_mine = value_integer(value_at(reply, CENSUS_CLAIM_REPLY_IS_MINE)) == 1;
    if (census->is_mine)
        make_pictures(census, value_integer(value_at(reply, CENSUS_CLAIM_REPLY_NOW_MS)));
    else
        lose_claim(census);
}

static void ask(struct census *census)
{
    struct store_call *call = call_begin(census->store, SCRIPT_CENSUS_CLAIM);

    census->is_asked = true;
    census_key(call, census->store, CENSUS_CLAIM_KEY_CENSUS);
    call_string(call, CENSUS_CLAIM_ARG_WORKER_ID, census->worker_id);
    call_number(call, CENSUS_CLAIM_ARG_CLAIM_MS, CLAIM_MS);
    call_send(call, on_claimed, census);
}

static void take_round(void *arg)
{
    struct census *census = arg;
    struct loop *loop = store_loop(census->store);

    timer_arm(loop_timers(loop), &census->round, loop_now_ns(loop) + ROUND_NS);
    if (!census->is_asked)
        ask(census);
}

/* --- life --------------------------------------------------------------------------------- */

struct census *census_new(struct store *store, const char *worker_id)
{
    struct census *census = calloc(1, sizeof(*census));

    if (census == NULL)
        return NULL;
    census->store = store;
    census->worker_id = worker_id;
    seen_init(&census->seen, SEEN_MAX);
    walk_init(&census->walk, store, &census->seen);
    waited_init(&census->waited, store);
    census->round = (struct timer){.fire = take_round, .arg = census};
    timer_arm(loop_timers(store_loop(store)), &census->round,
              loop_now_ns(store_loop(store)) + ROUND_NS / 2);
    return census;
}

void census_free(struct census *census)
{
    timer_cancel(loop_timers(store_loop(census->store)), &census->round);
    walk_release(&census->walk);
    waited_release(&census->waited);
    seen_forget(&census->seen);
    free(census);
}
