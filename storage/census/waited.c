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

enum {
    NAMES_MAX = 1000, /* that a call asks for, and of a partition in a round */
    NOTES_MAX = 100,  /* of a lock: later waits are shorter */
    /* The waits for a lock enter it into the index together, once in so long. */
    ENTER_PAUSE_MS = 5000
};

/* Of a lease, and ":m" of a lease of several locks. */
#define REF_SIZE (LEASE_ID_SIZE + 2)

static void partition_key(struct store_call *call, size_t at, size_t partition)
{
    call_key(call, at, KEY_WAITS, index_partition(partition), NULL);
}

/* --- the notes of a wait ------------------------------------------------------------------ */

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

/* Into the index, for the census. */
static void enter(struct store *store, const char *name, int64_t left_ms)
{
    struct store_call *call = call_begin(store, SCRIPT_CENSUS_WAIT);
    struct key_base lock = call_object(call, name);

    partition_key(call, CENSUS_WAIT_KEY_INDEX,
                  text_hash(lock.text, lock.len) % INDEX_PARTITIONS);
    call_text(call, CENSUS_WAIT_ARG_NAME, lock.text, lock.len);
    call_number(call, CENSUS_WAIT_ARG_LEFT_MS, left_ms);
    call_send(call, on_ignored, NULL);
}

/* As the lock's waiters are named in its home. */
static void make_ref(char ref[REF_SIZE], const struct census_wait *wait)
{
    bool is_set = kind_row(wait->kind)->family == FAMILY_SET;

    snprintf(ref, REF_SIZE, "%s%s", wait->lease_id, is_set ? ":m" : "");
}

struct note_call {
    struct store *store;
    int64_t keep_ms;
    census_noted_done *done;
    void *arg;
    char name[LOCK_NAME_SIZE];
};

static void on_noted(void *arg, const struct redis_result *result)
{
    struct note_call *call = arg;
    bool is_done = result->outcome == REDIS_DONE;
    int64_t noted = is_done ? value_integer(result->reply) : -1;

    if (noted == 2)
        enter(call->store, call->name, call->keep_ms);
    call->done(call->arg, noted == 0);
    free(call);
}

void census_note_wait(struct store *store, const struct census_wait *wait, int64_t waited_ms,
                      int64_t left_ms, census_noted_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_LOCK_WAIT);
    struct key_base lock = call_object(call, wait->name);
    struct note_call *note = malloc(sizeof(*note));
    char ref[REF_SIZE];

    assert(note != NULL);
    *note = (struct note_call){
        .store = store, .keep_ms = left_ms + ENTER_PAUSE_MS, .done = done, .arg = arg};
    snprintf(note->name, sizeof(note->name), "%s", wait->name);
    make_ref(ref, wait);
    call_key(call, LOCK_WAIT_KEY_WAITS, KEY_LONG_WAITS, lock, NULL);
    call_string(call, LOCK_WAIT_ARG_REF, ref);
    call_number(call, LOCK_WAIT_ARG_WAITED_MS, waited_ms);
    call_number(call, LOCK_WAIT_ARG_LIFE_MS, left_ms);
    call_number(call, LOCK_WAIT_ARG_KEEP_MS, note->keep_ms);
    call_number(call, LOCK_WAIT_ARG_LIMIT, NOTES_MAX);
    call_string(call, LOCK_WAIT_ARG_KIND, kind_row(wait->kind)->name);
    call_send(call, on_noted, note);
}

void census_end_wait(struct store *store, const struct census_wait *wait)
{
    char name[KEY_NAME_MAX + 1], ref[REF_SIZE];
    size_t name_len = store_key_name(store, wait->name, name, sizeof(name));
    struct key waits;

    make_ref(ref, wait);
    key_make(&waits, KEY_LONG_WAITS, name, name_len, NULL);
    const char *argv[] = {"HDEL", waits.text, ref};
    const size_t lens[] = {4, waits.len, strlen(ref)};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(waits.text, waits.len);
    topology_command(store_topology(store), &tag, &command, on_ignored, NULL);
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

static void note_lock(struct waited *waited, const char *name, const struct redis_value *reply)
{
    int64_t long_ms = store_config(waited->store)->long_wait_ms;
    struct census_entry entry = {0};
    char ref[REF_SIZE];

    lock_copy_text(value_at(reply, LOCK_WAITS_REPLY_REF), ref, sizeof(ref));
    if (ref[0] == '\0')
        return;
    snprintf(entry.who, sizeof(entry.who), "%.*s", (int)strcspn(ref, ":"), ref);
    snprintf(entry.name, sizeof(entry.name), "%s", name);
    lock_copy_text(value_at(reply, LOCK_WAITS_REPLY_KIND), entry.kind, sizeof(entry.kind));
    entry.since_ms = value_integer(value_at(reply, LOCK_WAITS_REPLY_SINCE));
    if (entry.kind[0] == '\0' || entry.since_ms < 0)
        return; /* not written by rlockd */
    if (long_ms > 0 && waited_now_ms(waited) - entry.since_ms >= long_ms)
        waited->long_count++;
    picture_add(&waited->picture, &entry);
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct waited *waited = arg;

    if (result->outcome == REDIS_DONE)
        note_lock(waited, waited->names[waited->next_name], result->reply);
    else
        waited->is_given_up = true;
    waited->next_name++;
    census_rest(waited->store, &waited->rest, waited->step_began_ns);
}

static void look(struct waited *waited)
{
    struct store_call *call = call_begin(waited->store, SCRIPT_LOCK_WAITS);
    struct key_base lock = call_object(call, waited->names[waited->next_name]);

    waited->step_began_ns = clock_ns();
    call_key(call, LOCK_WAITS_KEY_WAITS, KEY_LONG_WAITS, lock, NULL);
    call_key(call, LOCK_WAITS_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_number(call, LOCK_WAITS_ARG_LIMIT, NOTES_MAX);
    call_send(call, on_looked, waited);
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
    const struct redis_value *found = value_at(result->reply, CENSUS_WAITS_REPLY_NAMES);
    size_t count = value_count(found);
    int64_t asked = value_integer(value_at(result->reply, CENSUS_WAITS_REPLY_ASKED));

    if (result->outcome == REDIS_DONE && asked > 0) {
        waited->partition += (size_t)asked;
        waited->names = calloc(count + 1, sizeof(*waited->names));
        assert(waited->names != NULL);
        for (size_t i = 0; i < count; i++)
            keep_name(waited, value_at(found, i));
    } else {
        waited->is_given_up = true;
    }
    census_rest(waited->store, &waited->rest, waited->step_began_ns);
}

/* One call asks all partitions that are left, in a cluster one, for each is in a slot of its
 * own. */
static void ask_partitions(struct waited *waited)
{
    struct store_call *call = call_begin(waited->store, SCRIPT_CENSUS_WAITS);
    bool is_cluster = topology_is_cluster(store_topology(waited->store));
    size_t at_once = is_cluster ? 1 : INDEX_PARTITIONS - waited->partition;

    drop_names(waited);
    waited->step_began_ns = clock_ns();
    for (size_t i = 0; i < at_once; i++)
        partition_key(call, CENSUS_WAITS_KEY_INDEX + i, waited->partition + i);
    call_number(call, CENSUS_WAITS_ARG_LIMIT, NAMES_MAX);
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
