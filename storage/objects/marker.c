#include "storage/objects/marker.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/objects/lock_store_internal.h"

/* What Redis loses of the time since the last refresh is not noticed as lost. */
#define REFRESH_NS (1 * CLOCK_NS_PER_S)
/* Until the marker was read, a quarantine is as good as begun. */
enum { UNREAD_MS = 1000 };

struct marker {
    struct lock_store *store;
    struct timer refresh;
    bool is_asked;
    char run_id[REDIS_RUN_ID_SIZE]; /* the process that the marker was read from; empty: none */
    int64_t since_ms, seen_ms;      /* by Redis' clock: as the script says, its last refresh */
    int64_t until_ns;               /* the end of the quarantine */
};

static const struct redis_server *server_of(const struct marker *marker)
{
    const struct redis_tag tag = redis_tag_of(KEY_MARKER, strlen(KEY_MARKER));
    const struct topology_node *node = topology_node_of(marker->store->options.topology, &tag);

    return node != NULL ? topology_node_server(node) : NULL;
}

/* --- what the marker says ----------------------------------------------------------------- */

static void note_loss(struct marker *marker, int64_t kept_ms)
{
    metrics_add(marker->store->options.metrics, METRIC_REDIS_DATA_LOSSES, 1);
    if (kept_ms == 0)
        log_write(LOG_LEVEL_ERROR, "redis: came back without its data", NULL);
    else
        log_write(LOG_LEVEL_ERROR, "redis: came back without its newest data",
                  json_pack("{s:I}", "lost_ms", (json_int_t)(marker->seen_ms - kept_ms)));
}

static void begin_quarantine(struct marker *marker, int64_t left_ms, int64_t sent_ns)
{
    if (left_ms <= 0)
        return;
    marker->until_ns = sent_ns + left_ms * CLOCK_NS_PER_MS;
    log_write(LOG_LEVEL_WARN, "quarantine: Redis may have lost leases; grants are held back",
              json_pack("{s:I}", "ms", (json_int_t)left_ms));
}

/* Epoch ms of before the year 2100: ns of it can be reckoned with. */
static bool is_time(int64_t ms)
{
    return ms >= 0 && ms < INT64_C(4102444800000);
}

static void on_refreshed(void *arg, const struct redis_result *result)
{
    struct marker *marker = arg;

    marker->is_asked = false;
    if (result->outcome != REDIS_DONE || value_count(result->reply) != 3)
        return; /* the next refresh asks again */
    int64_t since_ms = value_integer(value_at(result->reply, 0));
    int64_t kept_ms = value_integer(value_at(result->reply, 1));
    int64_t now_ms = value_integer(value_at(result->reply, 2));
    if (!is_time(since_ms) || !is_time(kept_ms) || !is_time(now_ms))
        return; /* not what the script says */
    bool is_new = since_ms != marker->since_ms ||
                  strcmp(marker->run_id, result->server->run_id) != 0;

    if (is_new) {
        if (marker->seen_ms != 0 && kept_ms < marker->seen_ms)
            note_loss(marker, kept_ms);
        marker->until_ns = 0;
        begin_quarantine(marker,
                         since_ms + marker->store->options.config->quarantine_ms - now_ms,
                         result->sent_ns);
    }
    memcpy(marker->run_id, result->server->run_id, sizeof(marker->run_id));
    marker->since_ms = since_ms;
    marker->seen_ms = now_ms;
}

/* --- refreshing --------------------------------------------------------------------------- */

static void refresh(struct marker *marker)
{
    const struct redis_server *server = server_of(marker);

    if (marker->is_asked || server == NULL || server->run_id[0] == '\0' ||
        !topology_is_ready(marker->store->options.topology, NULL))
        return;
    struct store_call *call = call_begin(marker->store, SCRIPT_MARKER);
    call_fixed_key(call, MARKER_KEY_MARKER, KEY_MARKER);
    call_string(call, MARKER_ARG_RUN_ID, server->run_id);
    marker->is_asked = true;
    call_send(call, on_refreshed, marker);
}

static void on_time(void *arg)
{
    struct marker *marker = arg;
    struct loop *loop = marker->store->options.loop;

    timer_arm(loop_timers(loop), &marker->refresh, loop_now_ns(loop) + REFRESH_NS);
    refresh(marker);
    metrics_set(marker->store->options.metrics, METRIC_QUARANTINED,
                marker_quarantine_ms(marker) > 0);
}

void marker_redis_is_up(struct marker *marker)
{
    refresh(marker);
}

int64_t marker_quarantine_ms(const struct marker *marker)
{
    const struct redis_server *server;
    int64_t now_ns = loop_now_ns(marker->store->options.loop);

    if (marker->store->options.config->quarantine_ms == 0)
        return 0;
    server = server_of(marker);
    if (server == NULL || strcmp(server->run_id, marker->run_id) != 0)
        return UNREAD_MS;
    if (marker->until_ns <= now_ns)
        return 0;
    return (marker->until_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
}

/* --- life --------------------------------------------------------------------------------- */

struct marker *marker_new(struct lock_store *store)
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
    timer_cancel(loop_timers(marker->store->options.loop), &marker->refresh);
    free(marker);
}
