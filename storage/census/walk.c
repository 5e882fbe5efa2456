/* The walk over all locks, step by step. */
#include "storage/census/walk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/loop.h"
#include "storage/census/census_internal.h"
#include "storage/notes/notes.h"
#include "storage/store/key.h"
#include "storage/store/store_call.h"

enum {
    SCAN_COUNT = 100, /* keys that Redis visits in a step: some hundred microseconds */
    LOOKS_MAX = 32    /* locks in a step: as long, unless they have many readers */
};

/* A step is slow that takes so much longer than the way to Redis and back. */
#define SLOW_NS (2 * CLOCK_NS_PER_MS)

/* A token of a grant by rlockd is its time: Redisson's own tokens are counted from 1. */
#define TOKEN_IS_TIME INT64_C(1000000000000000)

static const char *const kind_names[WALK_KINDS] = {
    [WALK_LOCK] = "lock", [WALK_FAIR] = "fair", [WALK_READ] = "read", [WALK_WRITE] = "write"};

int64_t walk_now_ms(const struct walk *walk)
{
    return walk->began_ms + (clock_ns() - walk->began_ns) / CLOCK_NS_PER_MS;
}

static void finish(struct walk *walk, bool is_complete)
{
    lock_scan_end(&walk->scan);
    walk->is_running = false;
    if (is_complete)
        seen_end_walk(walk->seen);
    walk->done(walk->arg, is_complete);
}

/* --- what a look has found ---------------------------------------------------------------- */

/* Since when the holder holds, as far as its token tells. */
static void read_since(struct walk *walk, struct census_entry *entry, int64_t token)
{
    int64_t now_ms = walk_now_ms(walk);

    entry->at_least = token < TOKEN_IS_TIME;
    entry->since_ms = entry->at_least ? seen_since(walk->seen, entry->name, entry->who, now_ms)
                                      : token / 1000;
    if (entry->since_ms > now_ms)
        entry->since_ms = now_ms;
}

/* SCAN may name a key twice. */
static void count_lock(struct walk *walk, const struct census_entry *entry)
{
    int64_t long_ms = store_config(walk->store)->long_hold_ms;

    if (!picture_add(&walk->picture, entry))
        return;
    for (int kind = 0; kind < WALK_KINDS; kind++)
        if (strcmp(entry->kind, kind_names[kind]) == 0)
            walk->locks[kind]++;
    if (long_ms > 0 && walk_now_ms(walk) - entry->since_ms >= long_ms)
        walk->long_count++;
}

/* Of several readers the one that holds the longest stands for the lock. */
static void note_lock(struct walk *walk, const char *name, const struct redis_value *reply)
{
    const struct redis_value *holders = value_at(reply, CENSUS_LOOK_REPLY_HOLDERS);
    struct census_entry longest = {.since_ms = INT64_MAX}, entry = {0};

    memcpy(entry.name, name, strlen(name) + 1);
    lock_copy_text(value_at(reply, CENSUS_LOOK_REPLY_KIND), entry.kind, sizeof(entry.kind));
    for (size_t at = 0; at + CENSUS_LOOK_REPLY_HOLDER_VALUES <= value_count(holders);
         at += CENSUS_LOOK_REPLY_HOLDER_VALUES) {
        lock_copy_text(value_at(holders, at + CENSUS_LOOK_REPLY_HOLDER_FIELD), entry.who,
                       sizeof(entry.who));
        if (entry.who[0] == '\0')
            continue; /* longer than any holder field that clients are shown */
        read_since(walk, &entry,
                   value_integer(value_at(holders, at + CENSUS_LOOK_REPLY_HOLDER_TOKEN)));
        if (entry.since_ms < longest.since_ms)
            longest = entry;
    }
    if (longest.who[0] != '\0' && longest.kind[0] != '\0')
        count_lock(walk, &longest);
}

/* --- steps -------------------------------------------------------------------------------- */

/* Redis runs the looks of a step without a break, and each may be at a hundred readers: few
 * follow a slow step, and more again those that are not. The way to another node of a cluster
 * may be longer, so the fastest step is forgotten by and by. */
static void choose_pace(struct walk *walk, int64_t took_ns)
{
    bool is_slow = took_ns > walk->fastest_ns && took_ns - walk->fastest_ns > SLOW_NS;

    if (took_ns < walk->fastest_ns)
        walk->fastest_ns = took_ns;
    else
        walk->fastest_ns += (took_ns - walk->fastest_ns) / 8;
    if (is_slow)
        walk->looks_max = 1;
    else if (walk->next_name > 0 && walk->looks_max < LOOKS_MAX) /* not after a scan */
        walk->looks_max *= 2;
}

/* A part of the step that failed ends the walk: a lock that was left out would seem to be
 * free. */
static void end_part(struct walk *walk, enum call_outcome outcome)
{
    if (outcome != CALL_DONE)
        walk->is_given_up = true;
    if (--walk->pending > 0)
        return;
    choose_pace(walk, clock_ns() - walk->step_began_ns);
    census_rest(walk->store, &walk->rest, walk->step_began_ns);
}

/* A look under way; the name lasts as long as its round. */
struct walk_look {
    struct walk *walk;
    const char *name;
};

static void on_looked(void *arg, const struct redis_result *result)
{
    struct walk_look *look = arg;
    struct walk *walk = look->walk;
    enum call_outcome outcome = call_outcome_of(result);

    if (outcome == CALL_DONE && value_count(result->reply) == CENSUS_LOOK_REPLY_VALUES)
        note_lock(walk, look->name, result->reply);
    free(look);
    end_part(walk, outcome == CALL_WRONG_TYPE ? CALL_DONE : outcome);
}

static void look_at(struct walk *walk, const char *name)
{
    struct store_call *call = call_begin(walk->store, SCRIPT_CENSUS_LOOK);
    struct key_base lock = call_object(call, name);
    struct walk_look *look = malloc(sizeof(*look));

    assert(look != NULL);
    *look = (struct walk_look){.walk = walk, .name = name};
    call_key(call, CENSUS_LOOK_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, CENSUS_LOOK_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    call_key(call, CENSUS_LOOK_KEY_QUEUE, KEY_QUEUE, lock, NULL);
    walk->pending++;
    call_send(call, on_looked, look);
}

/* False: no name of the round is left. */
static bool look_at_some(struct walk *walk)
{
    size_t looks = 0;

    walk->step_began_ns = clock_ns();
    while (walk->next_name < walk->scan.name_count && looks < walk->looks_max) {
        look_at(walk, walk->scan.names[walk->next_name++]);
        looks++;
    }
    return looks > 0;
}

static void on_scanned(void *arg, enum call_outcome outcome)
{
    end_part(arg, outcome);
}

static void scan(struct walk *walk)
{
    walk->step_began_ns = clock_ns();
    walk->next_name = 0;
    walk->pending = 1;
    lock_scan_round(&walk->scan, on_scanned, walk);
}

/* --- sessions ----------------------------------------------------------------------------- */

static void on_counted(void *arg, const struct redis_result *result)
{
    struct walk *walk = arg;

    if (result->outcome == REDIS_DONE)
        walk->sessions += value_integer(result->reply);
    else
        walk->is_given_up = true; /* sessions that are not counted would seem to have ended */
    if (--walk->pending == 0)
        finish(walk, !walk->is_given_up);
}

/* One call for all partitions, in a cluster one for each. */
static void count_sessions(struct walk *walk)
{
    size_t at_once = topology_is_cluster(store_topology(walk->store)) ? 1 : INDEX_PARTITIONS;

    walk->pending = INDEX_PARTITIONS / at_once;
    for (size_t i = 0; i < INDEX_PARTITIONS; i += at_once) {
        struct store_call *call = call_begin(walk->store, SCRIPT_CENSUS_SESSIONS);
        for (size_t k = 0; k < at_once; k++)
            index_key(call, CENSUS_SESSIONS_KEY_INDEX + k, INDEX_SESSIONS, i + k);
        call_send(call, on_counted, walk);
    }
}

/* --- life --------------------------------------------------------------------------------- */

static void go_on(void *arg)
{
    struct walk *walk = arg;

    if (walk->is_given_up || lock_scan_is_lost(&walk->scan))
        finish(walk, false);
    else if (look_at_some(walk))
        return;
    else if (lock_scan_next(&walk->scan))
        scan(walk);
    else
        count_sessions(walk);
}

void walk_init(struct walk *walk, struct store *store, struct seen *seen)
{
    *walk = (struct walk){.store = store, .seen = seen};
    walk->rest = (struct timer){.fire = go_on, .arg = walk};
}

void walk_start(struct walk *walk, int64_t redis_now_ms, walk_done *done, void *arg)
{
    assert(!walk->is_running);
    walk->is_running = true;
    walk->is_given_up = false;
    walk->began_ns = clock_ns();
    walk->began_ms = redis_now_ms;
    walk->done = done;
    walk->arg = arg;
    walk->picture.count = 0;
    walk->long_count = 0;
    walk->sessions = 0;
    walk->looks_max = 1;
    walk->fastest_ns = INT64_MAX;
    memset(walk->locks, 0, sizeof(walk->locks));
    lock_scan_begin(&walk->scan, walk->store, "hash", "", SCAN_COUNT);
    scan(walk);
}

void walk_give_up(struct walk *walk)
{
    walk->is_given_up = true;
}

void walk_release(struct walk *walk)
{
    timer_cancel(loop_timers(store_loop(walk->store)), &walk->rest);
    lock_scan_end(&walk->scan);
}
