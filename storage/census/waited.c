/* The index of locks with long waits: its entries, and the rounds of the census over them. */
#include "storage/census/waited.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/loop.h"
#include "server/base/text.h"
#include "storage/census/census.h"
#include "storage/census/census_internal.h"
#include "storage/look/locks.h"
#include "storage/notes/notes.h"
#include "storage/store/store_call.h"

enum { PARTITION_LOCKS_MAX = 64 /* of a partition in a round */ };

/* A shorter wait is none that anybody asks for. */
#define LONG_MS 1000

static void partition_key(struct store_call *call, size_t at, size_t partition)
{
    call_key(call, at, KEY_WAITS, index_partition(partition), NULL);
}

/* --- an entry ----------------------------------------------------------------------------- */

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

void census_note_wait(struct store *store, const char *name, int64_t left_ms)
{
    struct store_call *call = call_begin(store, SCRIPT_CENSUS_WAIT);
    struct key_base lock = call_object(call, name);

    partition_key(call, CENSUS_WAIT_KEY_INDEX,
                  text_hash(lock.text, lock.len) % INDEX_PARTITIONS);
    call_text(call, CENSUS_WAIT_ARG_NAME, lock.text, lock.len);
    call_number(call, CENSUS_WAIT_ARG_LEFT_MS, left_ms);
    call_send(call, on_ignored, NULL);
}

/* --- a round ------------------------------------------------------------------------------ */

static void drop_names(struct waited *waited)
{
    for (size_t i = 0; i < waited->name_count; i++)
        free(waited->names[i]);
    free(waited->names);
    waited->names = NULL;
    waited->name_count = 0;
    waited->next_name = 0;
}

static void finish(struct waited *waited)
{
    drop_names(waited);
    waited->is_running = false;
    waited->done(waited->arg, !waited->is_given_up);
}

int64_t waited_now_ms(const struct waited *waited)
{
    return waited->began_ms + (clock_ns() - waited->began_ns) / CLOCK_NS_PER_MS;
}

static void note_lock(struct waited *waited, const char *name, const struct lock_view *view)
{
    int64_t longest_ms = LONG_MS - 1, long_ms = store_config(waited->store)->long_wait_ms;
    struct census_entry entry = {0};

    for (size_t i = 0; i < view->waiters_shown; i++) {
        const struct lock_waiter_view *waiter = &view->waiters[i];
        if (waiter->waited_ms <= longest_ms || waiter->lease_id[0] == '\0')
            continue;
        longest_ms = waiter->waited_ms;
        snprintf(entry.who, sizeof(entry.who), "%s", waiter->lease_id);
    }
    if (entry.who[0] == '\0')
        return;
    snprintf(entry.name, sizeof(entry.name), "%s", name);
    snprintf(entry.kind, sizeof(entry.kind), "%s", view->kind[0] != '\0' ? view->kind : "lock");
    entry.since_ms = waited_now_ms(waited) - longest_ms;
    if (long_ms > 0 && longest_ms >= long_ms)
        waited->long_count++;
    picture_add(&waited->picture, &entry);
}

static void on_looked(void *arg, const struct lock_view *view)
{
    struct waited *waited = arg;

    if (view->outcome == CALL_DONE)
        note_lock(waited, waited->names[waited->next_name], view);
    else if (view->outcome != CALL_WRONG_TYPE)
        waited->is_given_up = true;
    waited->next_name++;
    census_rest(waited->store, &waited->rest, waited->step_began_ns);
}

static void look(struct waited *waited)
{
    static const struct lock_query query = {.waiters_max = LOCK_WAITERS_SHOWN,
                                            .holders_max = 1};

    waited->step_began_ns = clock_ns();
    lock_get(waited->store, waited->names[waited->next_name], &query, on_looked, waited);
}

/* Names of another key prefix are those of other front ends. */
static void keep_name(struct waited *waited, const struct redis_value *value)
{
    const char *prefix = store_config(waited->store)->key_prefix;
    size_t len, prefix_len = strlen(prefix);
    const char *name = value_text(value, &len);

    if (len <= prefix_len || len - prefix_len >= LOCK_NAME_SIZE ||
        memcmp(name, prefix, prefix_len) != 0 || !text_is_utf8(name, len) ||
        text_has_control(name, len))
        return;
    char *copy = strdup(name + prefix_len);
    assert(copy != NULL);
    waited->names[waited->name_count++] = copy;
}

static void on_partitions(void *arg, const struct redis_result *result)
{
    struct waited *waited = arg;
    size_t count = value_count(result->reply);

    if (result->outcome == REDIS_DONE) {
        waited->names = calloc(count + 1, sizeof(*waited->names));
        assert(waited->names != NULL);
        for (size_t i = 0; i < count; i++)
            keep_name(waited, value_at(result->reply, i));
    } else {
        waited->is_given_up = true;
    }
    census_rest(waited->store, &waited->rest, waited->step_began_ns);
}

/* One call asks all partitions, in a cluster one, for each is in a slot of its own. */
static void ask_partitions(struct waited *waited)
{
    struct store_call *call = call_begin(waited->store, SCRIPT_CENSUS_WAITS);
    size_t at_once = topology_is_cluster(store_topology(waited->store)) ? 1 : INDEX_PARTITIONS;

    drop_names(waited);
    waited->step_began_ns = clock_ns();
    for (size_t i = 0; i < at_once; i++)
        partition_key(call, CENSUS_WAITS_KEY_INDEX + i, waited->partition++);
    call_number(call, CENSUS_WAITS_ARG_LIMIT, PARTITION_LOCKS_MAX);
    call_send(call, on_partitions, waited);
}

static void go_on(void *arg)
{
    struct waited *waited = arg;

    if (waited->is_given_up)
        finish(waited);
    else if (waited->next_name < waited->name_count)
        look(waited);
    else if (waited->partition < INDEX_PARTITIONS)
        ask_partitions(waited);
    else
        finish(waited);
}

/* --- life --------------------------------------------------------------------------------- */

void waited_init(struct waited *waited, struct store *store)
{
    *waited = (struct waited){.store = store};
    waited->rest = (struct timer){.fire = go_on, .arg = waited};
}

void waited_start(struct waited *waited, int64_t redis_now_ms, waited_done *done, void *arg)
{
    assert(!waited->is_running);
    waited->is_running = true;
    waited->is_given_up = false;
    waited->began_ns = clock_ns();
    waited->began_ms = redis_now_ms;
    waited->done = done;
    waited->arg = arg;
    waited->picture.count = 0;
    waited->long_count = 0;
    waited->partition = 0;
    ask_partitions(waited);
}

void waited_give_up(struct waited *waited)
{
    waited->is_given_up = true;
}

void waited_release(struct waited *waited)
{
    timer_cancel(loop_timers(store_loop(waited->store)), &waited->rest);
    drop_names(waited);
}
