/* The refresh of the markers, and the detection of lost data, and of data of another layout, by
 * their replies. */
#include "storage/store/marker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_FUNCTION(key, len, hash) ((hash) = hash_of(key, len))
#include <uthash.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/quorum/votes.h"
#include "storage/store/store_internal.h"

/* For uthash, of a run id or a slot: run ids are random, so their first bytes tell them apart.
 * For one request in a quorum the process of each server is looked up several times. */
static unsigned hash_of(const void *key, size_t len)
{
    unsigned first = 0;

    memcpy(&first, key, len < sizeof(first) ? len : sizeof(first));
    return first * 2654435761U >> 16;
}

/* A loss of data from the time since the last refresh is not noticed. */
#define REFRESH_NS (1 * CLOCK_NS_PER_S)
/* A process that does not answer for so long is forgotten, unless it was the last to be asked:
 * if it comes back, it must not seem to be a new process. */
#define FORGET_NS (600 * CLOCK_NS_PER_S)
/* The rest of the quarantine, in ms, that is assumed for a process with an unread marker. */
enum { UNREAD_MS = 1000 };
enum { MARK_KEY_SIZE = sizeof(KEY_MARKER) + TOPOLOGY_TAG_SIZE + 4 };

/* The marker of the Redis that has this slot. In a cluster each master has its marker in a slot
 * of its own, which goes with its data to another process: after a failover, or when the slot
 * is moved. */
struct slot_marker {
    UT_hash_handle hh;
    struct marker *marker;
    unsigned slot; /* from TOPOLOGY_ALL_SLOTS on: of a Redis that has all slots */
    bool is_asked;
    struct topology_node *asked_node;
    char asked_run_id[REDIS_RUN_ID_SIZE]; /* of the process that the last refresh was for */
    char seen_run_id[REDIS_RUN_ID_SIZE];  /* of the process that answered last */
    int64_t seen_ms;                      /* when, by Redis' clock; 0: none has yet */
    char key[MARK_KEY_SIZE];
};

/* A process of Redis that a marker was read from. */
struct process {
    UT_hash_handle hh;
    char run_id[REDIS_RUN_ID_SIZE];
    char promotion[REDIS_RUN_ID_SIZE]; /* its last one, as marker.lua says; empty: none */
    int64_t since_ms;                  /* when it began to serve, by Redis' clock */
    int64_t until_ns;                  /* the end of the quarantine */
    int64_t answer_ns;                 /* when it last answered */
    int64_t ahead_ns;                  /* its clock less clock_ns(); 0: not known */
};

struct marker {
    struct store *store;
    struct timer refresh;
    struct slot_marker *slot_markers;
    struct process *processes;
    int64_t ahead_ms; /* Redis' clock less clock_ns(); 0: not known */
};

static struct topology *topology_of(const struct marker *marker)
{
    return marker->store->options.topology;
}

static struct process *process_of(const struct marker *marker, const char *run_id)
{
    struct process *process;

    HASH_FIND_STR(marker->processes, run_id, process);
    return process;
}

static struct process *process_make(struct marker *marker, const char *run_id)
{
    struct process *process = process_of(marker, run_id);

    if (process != NULL)
        return process;
    process = calloc(1, sizeof(*process));
    assert(process != NULL);
    memcpy(process->run_id, run_id, sizeof(process->run_id));
    HASH_ADD_STR(marker->processes, run_id, process);
    return process;
}

static void process_free(struct marker *marker, struct process *process)
{
    HASH_DEL(marker->processes, process);
    free(process);
}

static struct slot_marker *slot_marker_make(struct marker *marker, unsigned slot)
{
    char tag[TOPOLOGY_TAG_SIZE];
    struct slot_marker *slot_marker;

    HASH_FIND(hh, marker->slot_markers, &slot, sizeof(slot), slot_marker);
    if (slot_marker != NULL)
        return slot_marker;
    slot_marker = calloc(1, sizeof(*slot_marker));
    assert(slot_marker != NULL);
    slot_marker->marker = marker;
    slot_marker->slot = slot;
    snprintf(slot_marker->key, sizeof(slot_marker->key), "%s", KEY_MARKER);
    if (slot < TOPOLOGY_ALL_SLOTS) {
        topology_slot_tag(topology_of(marker), (uint16_t)slot, tag);
        snprintf(slot_marker->key, sizeof(slot_marker->key), "%s:{%s}", KEY_MARKER, tag);
    }
    HASH_ADD(hh, marker->slot_markers, slot, sizeof(slot_marker->slot), slot_marker);
    return slot_marker;
}

/* --- what a marker says ------------------------------------------------------------------- */

static void note_loss(const struct slot_marker *slot_marker, const char *run_id,
                      int64_t kept_ms)
{
    metrics_add(slot_marker->marker->store->options.metrics, METRIC_REDIS_DATA_LOSSES, 1);
    if (kept_ms == 0)
        log_write(LOG_LEVEL_ERROR, "redis: came back without its data",
                  json_pack("{s:s}", "run_id", run_id));
    else
        log_write(LOG_LEVEL_ERROR, "redis: came back without its newest data",
                  json_pack("{s:s, s:I}", "run_id", run_id, "lost_ms",
                            (json_int_t)(slot_marker->seen_ms - kept_ms)));
}

static void begin_quarantine(struct process *process, int64_t begun_ms, int64_t quarantine_ms,
                             int64_t sent_ns)
{
    int64_t left_ms = quarantine_ms - begun_ms;

    process->until_ns = 0;
    if (left_ms <= 0)
        return;
    if (left_ms > quarantine_ms) /* Redis' clock was set back since the begin */
        left_ms = quarantine_ms;
    process->until_ns = sent_ns + left_ms * CLOCK_NS_PER_MS;
    log_write(LOG_LEVEL_WARN, "quarantine: Redis may have lost leases; grants are held back",
              json_pack("{s:s, s:I}", "run_id", process->run_id, "ms", (json_int_t)left_ms));
}

/* Whether these are epoch ms before the year 2100, which are no overflow in ns. */
static bool is_time(int64_t ms)
{
    return ms >= 0 && ms < INT64_C(4102444800000);
}

/* Whether the process that answered last is another one than this refresh is for. In a cluster
 * that means little: a slot moves, and a master that comes back becomes a replica first. No
 * server of a quorum takes the place of another one. */
static bool is_replaced(const struct slot_marker *slot_marker)
{
    return slot_marker->slot >= TOPOLOGY_ALL_SLOTS &&
           topology_quorum_nodes(topology_of(slot_marker->marker)) == 0 &&
           slot_marker->seen_ms != 0 &&
           strcmp(slot_marker->seen_run_id, slot_marker->asked_run_id) != 0;
}

/* A process that comes back after another one served is to be read again before it grants. */
static void forget_replaced(struct slot_marker *slot_marker)
{
    struct marker *marker = slot_marker->marker;
    struct process *process = process_of(marker, slot_marker->seen_run_id);

    if (process != NULL && is_replaced(slot_marker))
        process_free(marker, process);
}

static void on_refreshed(void *arg, const struct redis_result *result)
{
    struct slot_marker *slot_marker = arg;
    struct marker *marker = slot_marker->marker;
    size_t len;

    slot_marker->is_asked = false;
    if (result->outcome == REDIS_DONE && value_count(result->reply) == 1) {
        /* The check of the new connection says which layout. */
        topology_node_check(slot_marker->asked_node, "the data in Redis have another layout");
        return;
    }
    if (result->outcome != REDIS_DONE || value_count(result->reply) != MARKER_REPLY_VALUES ||
        strcmp(result->server->run_id, slot_marker->asked_run_id) != 0)
        return; /* the next refresh asks again */
    int64_t since_ms = value_integer(value_at(result->reply, MARKER_REPLY_SINCE_MS));
    int64_t kept_ms = value_integer(value_at(result->reply, MARKER_REPLY_KEPT_MS));
    int64_t now_ms = value_integer(value_at(result->reply, MARKER_REPLY_NOW_MS));
    const char *promotion = value_text(value_at(result->reply, MARKER_REPLY_PROMOTION), &len);
    if (!is_time(since_ms) || !is_time(kept_ms) || !is_time(now_ms))
        return; /* no reply of marker.lua */
    struct process *process = process_make(marker, slot_marker->asked_run_id);
    if (since_ms != process->since_ms) {
        if (slot_marker->seen_ms != 0 && kept_ms < slot_marker->seen_ms)
            note_loss(slot_marker, process->run_id, kept_ms);
        begin_quarantine(process, now_ms - since_ms,
                         marker->store->options.config->quarantine_ms, result->sent_ns);
    }
    process->since_ms = since_ms;
    snprintf(process->promotion, sizeof(process->promotion), "%s", promotion);
    process->answer_ns = loop_now_ns(marker->store->options.loop);
    forget_replaced(slot_marker);
    memcpy(slot_marker->seen_run_id, slot_marker->asked_run_id,
           sizeof(slot_marker->seen_run_id));
    slot_marker->seen_ms = now_ms;
    process->ahead_ns = now_ms * CLOCK_NS_PER_MS - result->sent_ns;
    marker->ahead_ms = now_ms - result->sent_ns / CLOCK_NS_PER_MS;
}

int64_t marker_redis_ms(const struct marker *marker)
{
    int64_t now_ns = loop_now_ns(marker->store->options.loop);

    return marker->ahead_ms != 0 ? now_ns / CLOCK_NS_PER_MS + marker->ahead_ms : 0;
}

/* --- refreshing --------------------------------------------------------------------------- */

/* Tells the script since when the process serves, as far as this worker knows. That time counts
 * instead of the time in the marker of this slot, unless the process was promoted meanwhile.
 * The marker may be new, or may have been with another master: a slot that moves takes its
 * marker along, and may come back before a refresh notices. */
static void tell_what_is_known(struct store_call *call, const struct slot_marker *slot_marker,
                               const struct process *process)
{
    if (process == NULL || slot_marker->slot >= TOPOLOGY_ALL_SLOTS)
        return;
    call_number(call, MARKER_ARG_KNOWN_SINCE, process->since_ms);
    call_string(call, MARKER_ARG_KNOWN_PROMOTION, process->promotion);
}

/* The refresh is for the process at this node alone. Where a map is old, the marker is that of
 * another process by now, which would seem to have begun anew if this run id were written. */
static void refresh_slot_marker(struct slot_marker *slot_marker, struct topology_node *node)
{
    const char *run_id = topology_node_server(node)->run_id;
    const struct process *process = process_of(slot_marker->marker, run_id);

    if (run_id[0] == '\0' || slot_marker->is_asked)
        return;
    snprintf(slot_marker->asked_run_id, sizeof(slot_marker->asked_run_id), "%s", run_id);
    struct store_call *call = call_begin(slot_marker->marker->store, SCRIPT_MARKER);
    call_fixed_key(call, MARKER_KEY_MARKER, slot_marker->key);
    call_string(call, MARKER_ARG_RUN_ID, slot_marker->asked_run_id);
    call_number(call, MARKER_ARG_LAYOUT, KEY_LAYOUT);
    tell_what_is_known(call, slot_marker, process);
    if (is_replaced(slot_marker))
        call_number(call, MARKER_ARG_ELSEWHERE, slot_marker->seen_ms);
    slot_marker->is_asked = true;
    slot_marker->asked_node = node;
    call_send_to(call, node, on_refreshed, slot_marker);
}

static void refresh(struct marker *marker)
{
    struct topology *topology = topology_of(marker);

    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node))
        refresh_slot_marker(slot_marker_make(marker, topology_slot_at(topology, node)), node);
}

static bool was_asked_last(const struct marker *marker, const struct process *process)
{
    for (const struct slot_marker *at = marker->slot_markers; at != NULL; at = at->hh.next)
        if (strcmp(at->asked_run_id, process->run_id) == 0)
            return true;
    return false;
}

static void forget_processes(struct marker *marker, bool all)
{
    int64_t now_ns = loop_now_ns(marker->store->options.loop);
    struct process *process, *next;

    HASH_ITER(hh, marker->processes, process, next) {
        bool is_gone = now_ns - process->answer_ns >= FORGET_NS &&
                       !was_asked_last(marker, process);
        if (!all && !is_gone)
            continue;
        process_free(marker, process);
    }
}

void marker_redis_is_up(struct marker *marker)
{
    refresh(marker);
}

/* --- quarantine --------------------------------------------------------------------------- */

/* Whether a marker was read since the process began to serve, as far as the connection tells: a
 * promotion that leaves the connection open is noticed by the next refresh. */
static bool is_read(const struct process *process, const struct redis_server *server)
{
    return process->answer_ns >= server->up_since_ns || server->promotion[0] == '\0' ||
           strcmp(process->promotion, server->promotion) == 0;
}

/* `unknown_ms`: where no marker of the process was read ever. */
static int64_t quarantine_or(const struct marker *marker, const struct topology_node *node,
                             int64_t unknown_ms)
{
    int64_t now_ns = loop_now_ns(marker->store->options.loop);
    const struct redis_server *server = topology_node_server(node);
    const struct process *process = process_of(marker, server->run_id);

    if (process == NULL)
        return unknown_ms;
    if (!is_read(process, server))
        return UNREAD_MS;
    if (process->until_ns <= now_ns)
        return 0;
    return (process->until_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
}

static int64_t quarantine_of(const struct marker *marker, const struct topology_node *node)
{
    return node == NULL ? UNREAD_MS : quarantine_or(marker, node, UNREAD_MS);
}

int64_t marker_node_quarantine_ms(const struct marker *marker, const struct topology_node *node)
{
    return quarantine_of(marker, node);
}

bool marker_node_is_read(const struct marker *marker, const struct topology_node *node)
{
    return process_of(marker, topology_node_server(node)->run_id) != NULL;
}

int64_t marker_node_clock_us(const struct marker *marker, const struct topology_node *node)
{
    const struct process *process = process_of(marker, topology_node_server(node)->run_id);

    if (process == NULL || process->ahead_ns == 0)
        return 0;
    return (clock_ns() + process->ahead_ns) / CLOCK_NS_PER_US;
}

/* Of a quorum: until a majority may vote, of the servers that are connected. Each server looks
 * at its own marker before it votes, so a marker that was not read yet holds nothing back. 0
 * also without a majority: then requests are refused for that. */
static int64_t quorum_quarantine_ms(const struct marker *marker)
{
    struct topology *topology = topology_of(marker);
    size_t needed = quorum_majority((unsigned)topology_quorum_nodes(topology)), count = 0;
    int64_t left_ms[TOPOLOGY_QUORUM_MAX];

    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node)) {
        if (!topology_node_is_up(node, NULL))
            continue;
        left_ms[count++] = quarantine_or(marker, node, 0);
    }
    quorum_sort_down(left_ms, count);
    return count >= needed ? left_ms[count - needed] : 0;
}

int64_t marker_quarantine_ms(const struct marker *marker, const struct redis_tag *tag)
{
    if (topology_quorum_nodes(topology_of(marker)) > 0)
        return quorum_quarantine_ms(marker);
    return quarantine_of(marker, topology_node_of(topology_of(marker), tag));
}

int64_t marker_longest_quarantine_ms(const struct marker *marker)
{
    struct topology *topology = topology_of(marker);
    struct topology_node *node = topology_next_node(topology, NULL);

    if (marker->store->options.config->quarantine_ms == 0)
        return 0;
    if (topology_quorum_nodes(topology) > 0)
        return quorum_quarantine_ms(marker);
    int64_t longest_ms = node == NULL ? UNREAD_MS : 0;
    for (; node != NULL; node = topology_next_node(topology, node)) {
        int64_t left_ms = quarantine_of(marker, node);
        if (left_ms > longest_ms)
            longest_ms = left_ms;
    }
    return longest_ms;
}

/* --- the servers of a quorum -------------------------------------------------------------- */

static int64_t median_clock_us(const struct marker *marker)
{
    struct topology *topology = topology_of(marker);
    int64_t clocks_us[TOPOLOGY_QUORUM_MAX];
    size_t count = 0;

    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node)) {
        int64_t own_us = marker_node_clock_us(marker, node);
        if (own_us != 0)
            clocks_us[count++] = own_us;
    }
    return count > 0 ? quorum_median(clocks_us, count) : 0;
}

void marker_next_member(const struct marker *marker, struct store_member *member)
{
    struct topology_node *node = topology_next_node(topology_of(marker),
                                                    (struct topology_node *)member->node);

    *member = (struct store_member){.node = node};
    if (node == NULL)
        return;
    member->is_up = topology_node_takes_writes(node);
    if (!member->is_up)
        return;
    int64_t own_us = marker_node_clock_us(marker, node);
    member->quarantine_ms = quarantine_of(marker, node);
    member->has_clock = own_us != 0;
    if (member->has_clock)
        member->clock_offset_us = own_us - median_clock_us(marker);
}

static void count_members(const struct marker *marker)
{
    struct metrics *metrics = marker->store->options.metrics;
    int64_t up = 0, down = 0, quarantined = 0;
    struct store_member member = {0};

    for (marker_next_member(marker, &member); member.node != NULL;
         marker_next_member(marker, &member)) {
        if (!member.is_up)
            down++;
        else if (member.quarantine_ms > 0)
            quarantined++;
        else
            up++;
        quorum_counts_set_offset(metrics->quorum, topology_node_number(member.node),
                                 member.has_clock ? member.clock_offset_us : INT64_MIN);
    }
    metrics_set(metrics, METRIC_QUORUM_UP, up);
    metrics_set(metrics, METRIC_QUORUM_DOWN, down);
    metrics_set(metrics, METRIC_QUORUM_IN_QUARANTINE, quarantined);
}

/* --- life --------------------------------------------------------------------------------- */

static void on_time(void *arg)
{
    struct marker *marker = arg;
    struct loop *loop = marker->store->options.loop;

    timer_arm(loop_timers(loop), &marker->refresh, loop_now_ns(loop) + REFRESH_NS);
    refresh(marker);
    forget_processes(marker, false);
    metrics_set(marker->store->options.metrics, METRIC_QUARANTINED,
                marker_longest_quarantine_ms(marker) > 0);
    if (marker->store->quorum != NULL) /* it is made after the marker */
        count_members(marker);
}

struct marker *marker_new(struct store *store)
{
    struct marker *marker = calloc(1, sizeof(*marker));

    if (marker == NULL)
        return NULL;
    marker->store = store;
    marker->refresh = (struct timer){.fire = on_time, .arg = marker};
    on_time(marker);
    return marker;
}

void marker_free(struct marker *marker)
{
    struct slot_marker *slot_marker, *next;

    timer_cancel(loop_timers(marker->store->options.loop), &marker->refresh);
    forget_processes(marker, true);
    HASH_ITER(hh, marker->slot_markers, slot_marker, next) {
        HASH_DEL(marker->slot_markers, slot_marker);
        free(slot_marker);
    }
    free(marker);
}
