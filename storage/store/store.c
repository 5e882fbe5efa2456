/* The life of a store, the ids of its attempts, and whether names fit the topology. */
#include "storage/store/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "server/base/text.h"
#include "storage/quorum/calls.h"
#include "storage/quorum/votes.h"
#include "storage/store/lease.h"
#include "storage/store/store_internal.h"
#include "storage/store/look_turns.h"
#include "storage/store/marker.h"

void store_attempt_id(struct store *store, char attempt[ATTEMPT_ID_SIZE])
{
    size_t len = strlen(store->options.worker_id);

    assert(len + 1 + TEXT_INT64_SIZE <= ATTEMPT_ID_SIZE);
    memcpy(attempt, store->options.worker_id, len);
    attempt[len] = '.';
    text_format_int64(attempt + len + 1, (int64_t)++store->attempt_count);
}

enum names_fitness store_check_names(const struct store *store, const char *const *names,
                                     size_t count)
{
    if (!topology_is_cluster(store->options.topology))
        return NAMES_FIT;
    char first[KEY_NAME_MAX + 1] = "", name[KEY_NAME_MAX + 1] = "";
    struct redis_tag tag = {0};
    for (size_t i = 0; i < count; i++) {
        char *text = i == 0 ? first : name;
        size_t len = store_key_name(store, names[i], text, KEY_NAME_MAX + 1);
        struct redis_tag own = redis_tag_of(text, len);
        if (!key_shares_slot(text, len))
            return NAMES_HAVE_UNMATCHED_BRACES;
        if (i == 0)
            tag = own;
        else if (own.len != tag.len || memcmp(own.text, tag.text, tag.len) != 0)
            return NAMES_ARE_IN_SEVERAL_SLOTS;
    }
    return NAMES_FIT;
}

void store_next_member(const struct store *store, struct store_member *member)
{
    marker_next_member(store->marker, member);
}

_Static_assert((size_t)QUORUM_HEARD_SIZE <= (size_t)STORE_HEARD_SIZE, "the text fits");

void store_describe_members(const struct store *store, char text[STORE_HEARD_SIZE])
{
    text[0] = '\0';
    if (store->quorum != NULL)
        quorum_calls_describe(store->quorum, text);
}

/* By so much marker_redis_ms() may be late: it is made of rounded times, and is the time when
 * the turn of the loop began. A grant that is later tells nothing. */
#define CLOCK_LATE_MS 20

int64_t store_quarantine_ms(const struct store *store, const char *name)
{
    char text[KEY_NAME_MAX + 1];

    if (name == NULL)
        return marker_longest_quarantine_ms(store->marker);
    if (store->options.config->quarantine_ms == 0)
        return 0;
    const struct redis_tag tag = redis_tag_of(text,
                                              store_key_name(store, name, text, sizeof(text)));
    return marker_quarantine_ms(store->marker, &tag);
}

int64_t store_held_ms(const struct store *store, int64_t at_us)
{
    int64_t now_ms = marker_redis_ms(store->marker), held_ms = now_ms - at_us / 1000;

    if (at_us <= 0 || now_ms <= 0 || held_ms < -CLOCK_LATE_MS)
        return -1;
    return held_ms > 0 ? held_ms : 0;
}

bool store_is_timed(const struct store *store)
{
    return store->options.metrics->prefix_times != NULL;
}

void store_observe_hold(const struct store *store, const char *name, int64_t fencing_token)
{
    int64_t held_ms = store_held_ms(store, fencing_token);

    if (held_ms >= 0)
        metrics_observe_name(store->options.metrics, PREFIX_HOLD, name,
                             held_ms * CLOCK_NS_PER_MS);
}

void store_redis_is_up(struct store *store)
{
    marker_redis_is_up(store->marker);
    if (store->quorum != NULL)
        quorum_calls_go_on(store->quorum);
    errands_retry(store);
}

size_t store_pending(const struct store *store)
{
    size_t pending = errands_pending(store);

    return store->quorum != NULL ? pending + quorum_calls_pending(store->quorum) : pending;
}

static int64_t node_clock_us(void *arg, const struct topology_node *node)
{
    const struct store *store = arg;

    return marker_node_clock_us(store->marker, node);
}

static bool is_node_marked(void *arg, const struct topology_node *node)
{
    const struct store *store = arg;

    return marker_node_is_read(store->marker, node);
}

bool store_may_grant(const struct store *store, const struct topology_node *node)
{
    return store->options.config->quarantine_ms == 0 ||
           marker_node_quarantine_ms(store->marker, node) == 0;
}

static bool is_node_quarantined(void *arg, const struct topology_node *node)
{
    const struct store *store = arg;

    return marker_node_quarantine_ms(store->marker, node) > 0;
}

static size_t write_key(char *out, enum quorum_key key, const char *of, size_t len)
{
    static const enum key_kind kinds[] = {
        [QUORUM_KEY_COUNTER] = KEY_COUNTER,
        [QUORUM_KEY_QUEUE] = KEY_QUEUE,
        [QUORUM_KEY_SESSION] = KEY_SESSION,
        [QUORUM_KEY_SESSION_LEASES] = KEY_SESSION_LEASES,
        [QUORUM_KEY_SESSION_DUE] = KEY_SESSION_DUE,
        [QUORUM_KEY_SESSION_LOST] = KEY_SESSION_LOST,
        [QUORUM_KEY_SESSION_WAITS] = KEY_SESSION_WAITS,
    };

    return key_write(out, kinds[key], of, len, NULL);
}

/* False: out of memory. */
static bool start_quorum(struct store *store)
{
    const struct quorum_calls_options options = {.config = store->options.config,
                                                 .loop = store->options.loop,
                                                 .metrics = store->options.metrics,
                                                 .topology = store->options.topology,
                                                 .clock_us = node_clock_us,
                                                 .is_marked = is_node_marked,
                                                 .is_quarantined = is_node_quarantined,
                                                 .write_key = write_key,
                                                 .key_size = KEY_SIZE,
                                                 .session_locks_max = SESSION_LOCKS_MAX,
                                                 .arg = store};

    if (topology_quorum_nodes(store->options.topology) == 0)
        return true;
    store->quorum = quorum_calls_new(&options);
    return store->quorum != NULL;
}

struct store *store_new(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store == NULL)
        return NULL;
    store->options = *options;
    store->call = store_call_new(store);
    if (store->call == NULL) {
        free(store);
        return NULL;
    }
    errands_init(store);
    look_turns_init(store);
    visits_init(store);
    store->marker = marker_new(store);
    if (store->marker == NULL || !start_quorum(store)) {
        store_free(store);
        return NULL;
    }
    return store;
}

void store_free(struct store *store)
{
    turns_release(&store->looks);
    store_parts_release(store);
    errands_release(store);
    if (store->quorum != NULL)
        quorum_calls_free(store->quorum);
    if (store->marker != NULL)
        marker_free(store->marker);
    store_call_free(store->call);
    free(store);
}
