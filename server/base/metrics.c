/* The table of metrics, and their page in the Prometheus text format. */
#include "server/base/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/log_output.h"

struct metric_row {
    const char *name, *type, *help;
};

#define CUT_OFF                                                                                \
    {                                                                                          \
        "rlockd_http_cut_off_total", "counter", "HTTP connections closed by this server."      \
    }

#define REDIRECTION                                                                            \
    {                                                                                          \
        "rlockd_redis_redirections_total", "counter",                                          \
            "Calls that a node of a Redis Cluster sent elsewhere or refused for now."          \
    }

#define LOCKS                                                                                  \
    {                                                                                          \
        "rlockd_locks", "gauge", "Held locks of all front ends, as the census saw them last."  \
    }

#define QUORUM_MEMBERS                                                                         \
    {                                                                                          \
        "rlockd_quorum_members", "gauge",                                                      \
            "Servers of the quorum, by their state for each worker."                           \
    }

static const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_GRANTS] = {"rlockd_grants_total", "counter", "Leases granted."},
    [METRIC_CONFIRMATIONS] = {"rlockd_confirmations_total", "counter",
                              "Repeated requests answered: the lease is still held."},
    [METRIC_RENEWALS] = {"rlockd_renewals_total", "counter", "Leases renewed by PATCH."},
    [METRIC_RELEASES] = {"rlockd_releases_total", "counter", "Leases released by DELETE."},
    [METRIC_FORCED] = {"rlockd_forced_unlocks_total", "counter",
                       "Locks freed by force-unlock."},
    [METRIC_WITHDRAWN_GRANTS] = {"rlockd_withdrawn_grants_total", "counter",
                                 "Grants withdrawn because their client had gone."},
    [METRIC_WAITS_STARTED] = {"rlockd_waits_started_total", "counter",
                              "Requests that had to wait for a lock."},
    [METRIC_WAITS_GRANTED] = {"rlockd_waits_granted_total", "counter",
                              "Waits that ended with the lock."},
    [METRIC_HAND_OVERS] = {"rlockd_hand_overs_total", "counter",
                           "Locks granted to a waiter by the release before."},
    [METRIC_PASSED_RELEASES] = {"rlockd_passed_releases_total", "counter",
                                "Releases that a worker passed on to another worker."},
    [METRIC_WAITS_ENDED] = {"rlockd_waits_ended_total", "counter",
                            "Waits that ended without the lock."},
    [METRIC_DEADLOCKS] =
        {"rlockd_deadlocks_total", "counter",
         "Deadlocks found, each counted by the front end of its youngest wait."},
    [METRIC_WAITERS_GONE] = {"rlockd_waiters_gone_total", "counter",
                             "Waiters whose client hung up."},
    [METRIC_REFUSED_WAITERS] = {"rlockd_refused_waiters_total", "counter",
                                "Requests answered 429 because too many wait."},
    [METRIC_REFUSED_LARGE] = {"rlockd_refused_large_answers_total", "counter",
                              "Listings and other large answers refused with 429."},
    [METRIC_REFUSED_CERTIFICATES] = {"rlockd_refused_certificates_total", "counter",
                                     "Client certificates refused, missing ones included."},
    [METRIC_SEMAPHORE_ACQUIRES] = {"rlockd_semaphore_acquires_total", "counter",
                                   "Requests that acquired permits of a semaphore."},
    [METRIC_SEMAPHORE_RELEASES] = {"rlockd_semaphore_releases_total", "counter",
                                   "Requests that released permits of a semaphore."},
    [METRIC_COUNT_DOWNS] = {"rlockd_count_downs_total", "counter",
                            "Requests that counted a latch down."},
    [METRIC_REPLAYS] = {"rlockd_replays_total", "counter",
                        "Repeated idempotency keys that got the first answer again."},
    [METRIC_SESSIONS_OPENED] = {"rlockd_sessions_opened_total", "counter", "Sessions opened."},
    [METRIC_SESSIONS_EXPIRED] = {"rlockd_sessions_expired_total", "counter",
                                 "Sessions ended because no keep-alive came."},
    [METRIC_WATCHDOG_RENEWALS] = {"rlockd_watchdog_renewals_total", "counter",
                                  "Leases renewed because their session lives."},
    [METRIC_WATCHDOG_LOSSES] = {"rlockd_watchdog_losses_total", "counter",
                                "Leases of live sessions found expired, forced or taken."},
    [METRIC_UNLOCK_MESSAGES] = {"rlockd_unlock_messages_total", "counter",
                                "Unlock messages received for waited locks."},
    [METRIC_REDIS_COMMANDS] = {"rlockd_redis_commands_total", "counter",
                               "Commands sent to Redis."},
    [METRIC_REDIS_CONNECTS] = {"rlockd_redis_connects_total", "counter",
                               "Connections to Redis that became usable."},
    [METRIC_REDIS_NOT_EXECUTED] = {"rlockd_redis_not_executed_total", "counter",
                                   "Commands that Redis refused or never got."},
    [METRIC_REDIS_UNKNOWN] = {"rlockd_redis_unknown_total", "counter",
                              "Commands of unknown outcome."},
    [METRIC_REDIS_FAILOVERS] = {"rlockd_redis_failovers_total", "counter",
                                "Times that another server was found to be the master."},
    [METRIC_REDIS_MOVED] = REDIRECTION,
    [METRIC_REDIS_ASKED] = REDIRECTION,
    [METRIC_REDIS_TRIED_AGAIN] = REDIRECTION,
    [METRIC_CLUSTER_MAPS] = {"rlockd_redis_cluster_maps_total", "counter",
                             "Maps of a Redis Cluster's slots that were read."},
    [METRIC_REDIS_DATA_LOSSES] =
        {"rlockd_redis_data_losses_total", "counter",
         "Times that a worker found Redis without data that Redis had before."},
    [METRIC_REDIS_NOT_REPLICATED] = {"rlockd_redis_not_replicated_total", "counter",
                                     "Scripts that too few replicas confirmed in time."},
    [METRIC_QUORUM_SPLITS] = {"rlockd_quorum_splits_total", "counter",
                              "Attempts in a quorum that found the votes split."},
    [METRIC_QUORUM_TOKEN_ROUNDS] = {"rlockd_quorum_token_rounds_total", "counter",
                                    "Further rounds of votes, for another fencing token."},
    [METRIC_QUORUM_REPAIRS] = {"rlockd_quorum_repairs_total", "counter",
                               "Leases that were given to a server that lacked them."},
    [METRIC_QUORUM_LOST] = {"rlockd_quorum_lost_majorities_total", "counter",
                            "Leases that were ended because no majority has them."},
    [METRIC_CUT_OFF_SILENT] = CUT_OFF,
    [METRIC_CUT_OFF_IDLE] = CUT_OFF,
    [METRIC_CUT_OFF_SLOW_SENDER] = CUT_OFF,
    [METRIC_CUT_OFF_SLOW_READER] = CUT_OFF,
    [METRIC_CUT_OFF_FULL] = CUT_OFF,
    [METRIC_CUT_OFF_ADDRESS] = CUT_OFF,
    [METRIC_CONNECTIONS] = {"rlockd_connections", "gauge", "Open HTTP connections."},
    [METRIC_WAITERS] = {"rlockd_waiters", "gauge", "Requests waiting for a lock now."},
    [METRIC_WAITED_LOCKS] = {"rlockd_waited_locks", "gauge",
                             "Locks with a subscription: requests wait or just waited."},
    [METRIC_PENDING_WITHDRAWALS] = {"rlockd_pending_withdrawals", "gauge",
                                    "Acquisitions of unknown outcome still to be resolved."},
    [METRIC_WORKERS] = {"rlockd_workers", "gauge", "Workers of this front end."},
    [METRIC_REDIS_UP] = {"rlockd_redis_up", "gauge", "Workers with a usable Redis connection."},
    [METRIC_QUORUM_UP] = QUORUM_MEMBERS,
    [METRIC_QUORUM_DOWN] = QUORUM_MEMBERS,
    [METRIC_QUORUM_IN_QUARANTINE] = QUORUM_MEMBERS,
    [METRIC_QUARANTINED] = {"rlockd_quarantined", "gauge",
                            "Workers that grant no leases, since Redis may have lost some."},
    [METRIC_SENTINELS] = {"rlockd_sentinels", "gauge",
                          "Sentinels known, counted by each worker."},
    [METRIC_CLUSTER_NODES] = {"rlockd_redis_cluster_nodes", "gauge",
                              "Masters of the Redis Cluster that have slots, for each worker."},
    [METRIC_CLUSTER_SLOTS] = {"rlockd_redis_cluster_slots", "gauge",
                              "Slots of the Redis Cluster whose master serves, of "
                              "16384 for each worker."},
    [METRIC_LOCKS] = LOCKS,
    [METRIC_LOCKS_FAIR] = LOCKS,
    [METRIC_LOCKS_READ] = LOCKS,
    [METRIC_LOCKS_WRITE] = LOCKS,
    [METRIC_SESSIONS] = {"rlockd_sessions", "gauge",
                         "Sessions of all front ends, as the census saw them last."},
    [METRIC_LONG_HELD_LOCKS] = {"rlockd_long_held_locks", "gauge",
                                "Locks held for longer than --long-hold-ms."},
    [METRIC_OLDEST_HOLD] = {"rlockd_oldest_hold_seconds", "gauge",
                            "How long the longest hold of a lock lasts."},
    [METRIC_LONG_WAITED_LOCKS] = {"rlockd_long_waited_locks", "gauge",
                                  "Locks that requests wait for longer than --long-wait-ms."},
    [METRIC_OLDEST_WAIT] = {"rlockd_oldest_wait_seconds", "gauge",
                            "How long the longest wait for a lock lasts; 0: none is longer "
                            "than a second."},
};

/* The labels of metrics with one name, whose rows follow each other. */
static const char *const labels[METRIC_COUNT] = {
    [METRIC_REDIS_MOVED] = "kind=\"moved\"",
    [METRIC_REDIS_ASKED] = "kind=\"ask\"",
    [METRIC_REDIS_TRIED_AGAIN] = "kind=\"tryagain\"",
    [METRIC_QUORUM_UP] = "state=\"up\"",
    [METRIC_QUORUM_DOWN] = "state=\"down\"",
    [METRIC_QUORUM_IN_QUARANTINE] = "state=\"quarantine\"",
    [METRIC_CUT_OFF_SILENT] = "reason=\"silent\"",
    [METRIC_CUT_OFF_IDLE] = "reason=\"idle\"",
    [METRIC_CUT_OFF_SLOW_SENDER] = "reason=\"slow-sender\"",
    [METRIC_CUT_OFF_SLOW_READER] = "reason=\"slow-reader\"",
    [METRIC_CUT_OFF_FULL] = "reason=\"full\"",
    [METRIC_CUT_OFF_ADDRESS] = "reason=\"address\"",
    [METRIC_LOCKS] = "kind=\"lock\"",
    [METRIC_LOCKS_FAIR] = "kind=\"fair\"",
    [METRIC_LOCKS_READ] = "kind=\"read\"",
    [METRIC_LOCKS_WRITE] = "kind=\"write\"",
};

static const struct metric_row histogram_rows[HISTOGRAM_COUNT] = {
    [HISTOGRAM_REQUEST] = {"rlockd_request_duration_seconds", "histogram",
                           "From a whole request to its answer, waiting included."},
    [HISTOGRAM_WAIT] = {"rlockd_wait_duration_seconds", "histogram",
                        "How long a request waited for its lock, however it ended."},
    [HISTOGRAM_UNLOCK_TO_GRANT] = {"rlockd_unlock_to_grant_seconds", "histogram",
                                   "From the unlock message to the waiter's grant."},
    [HISTOGRAM_REDIS_ROUND_TRIP] = {"rlockd_redis_round_trip_seconds", "histogram",
                                    "From queueing a command to its reply."},
    [HISTOGRAM_WATCHDOG_LATENESS] = {"rlockd_watchdog_lateness_seconds", "histogram",
                                     "By how much the latest renewal of a round was late."},
};

/* Of --metrics-prefixes. */
static const struct metric_row prefix_rows[PREFIX_TIME_COUNT] = {
    [PREFIX_WAIT] = {"rlockd_prefix_wait_duration_seconds", "histogram",
                     "How long a request waited, by the prefix of its lock's name."},
    [PREFIX_HOLD] = {"rlockd_prefix_hold_duration_seconds", "histogram",
                     "How long a lease held until its release, by the prefix of its lock's "
                     "name."},
};

/* Of a quorum, by label. */
static const struct metric_row quorum_rounds_row = {
    "rlockd_quorum_rounds_total", "counter",
    "Rounds of questions to the servers of the quorum, by what was concluded."};
static const struct metric_row quorum_offset_row = {
    "rlockd_quorum_clock_offset_seconds", "gauge",
    "By how much the clock of a server is ahead of the median of the servers' clocks."};

static histogram_bounds_us histogram_bounds = {
    50,    100,    250,    500,    1000,    2500,    5000,    10000,    25000,
    50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 60000000};

/* Every status that rlockd or the HTTP library answers with; the last slot is for any other. */
static const int statuses[METRIC_STATUSES - 1] = {200, 201, 204, 304, 400, 401, 403, 404,
                                                  405, 409, 410, 411, 412, 413, 414, 415,
                                                  422, 423, 429, 431, 499, 500, 501, 503};

int metrics_init(struct metrics *metrics, size_t route_count)
{
    *metrics = (struct metrics){.route_count = route_count};
    metrics->requests = calloc(route_count + 1, sizeof(*metrics->requests));
    return metrics->requests ? 0 : -1;
}

void metrics_release(struct metrics *metrics)
{
    free(metrics->requests);
    metrics->requests = NULL;
    prefix_times_free(metrics->prefix_times);
    metrics->prefix_times = NULL;
    quorum_counts_free(metrics->quorum);
    metrics->quorum = NULL;
}

int metrics_set_prefixes(struct metrics *metrics, const char *list)
{
    if (list[0] == '\0')
        return 0;
    metrics->prefix_times = prefix_times_new(list);
    return metrics->prefix_times ? 0 : -1;
}

int metrics_set_quorum(struct metrics *metrics, const struct quorum_labels *names)
{
    metrics->quorum = quorum_counts_new(names);
    return metrics->quorum ? 0 : -1;
}

static void bump(_Atomic uint64_t *value, uint64_t delta)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + delta,
                          memory_order_relaxed);
}

void metrics_observe(struct metrics *metrics, enum histogram histogram, int64_t duration_ns)
{
    histogram_observe(&metrics->histograms[histogram], histogram_bounds, duration_ns);
}

void metrics_request(struct metrics *metrics, size_t route, int status)
{
    size_t slot = 0;

    while (slot < METRIC_STATUSES - 1 && statuses[slot] != status)
        slot++;
    bump(&metrics->requests[route][slot], 1);
}

static int64_t sum_of(struct metrics *const *sets, size_t set_count, enum metric metric)
{
    int64_t sum = 0;

    for (size_t i = 0; i < set_count; i++)
        sum += atomic_load_explicit(&sets[i]->values[metric], memory_order_relaxed);
    return sum;
}

static void print_head(FILE *out, const struct metric_row *row)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
}

static void print_metrics(FILE *out, struct metrics *const *sets, size_t set_count)
{
    const char *name_before = "";

    for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
        const struct metric_row *row = &metric_rows[metric];
        int64_t sum = sum_of(sets, set_count, metric);
        if (strcmp(row->name, name_before) != 0)
            print_head(out, row);
        name_before = row->name;
        if (labels[metric] != NULL)
            fprintf(out, "%s{%s} %" PRId64 "\n", row->name, labels[metric], sum);
        else
            fprintf(out, "%s %" PRId64 "\n", row->name, sum);
    }
}

/* Of the process: lines have no worker. */
static void print_log_dropped(FILE *out)
{
    static const struct metric_row row = {
        "rlockd_log_dropped_total", "counter",
        "Log lines dropped because standard error was not read."};

    print_head(out, &row);
    fprintf(out, "%s %" PRIu64 "\n", row.name, log_output_dropped());
}

static void print_time(FILE *out)
{
    static const struct metric_row row = {"rlockd_metrics_timestamp_seconds", "gauge",
                                          "When this page was made, as Unix time."};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    print_head(out, &row);
    fprintf(out, "%s %" PRId64 ".%06ld\n", row.name, (int64_t)now.tv_sec, now.tv_nsec / 1000);
}

static void print_histogram(FILE *out, struct metrics *const *sets, size_t set_count,
                            enum histogram histogram)
{
    struct histogram_values sum = {0};

    for (size_t i = 0; i < set_count; i++)
        histogram_add(&sum, &sets[i]->histograms[histogram]);
    print_head(out, &histogram_rows[histogram]);
    histogram_print(out, histogram_rows[histogram].name, "", histogram_bounds, &sum);
}

static void print_prefix_times(FILE *out, struct metrics *const *sets, size_t set_count)
{
    struct prefix_times **times = calloc(set_count, sizeof(struct prefix_times *));

    if (times == NULL)
        return;
    for (size_t i = 0; i < set_count; i++)
        times[i] = sets[i]->prefix_times;
    for (enum prefix_time time = 0; time < PREFIX_TIME_COUNT; time++) {
        print_head(out, &prefix_rows[time]);
        prefix_times_print(out, prefix_rows[time].name, time, times, set_count);
    }
    free(times);
}

static void print_quorum(FILE *out, struct metrics *const *sets, size_t set_count)
{
    struct quorum_counts **counts = calloc(set_count, sizeof(struct quorum_counts *));

    if (counts == NULL)
        return;
    for (size_t i = 0; i < set_count; i++)
        counts[i] = sets[i]->quorum;
    print_head(out, &quorum_rounds_row);
    quorum_counts_print_rounds(out, quorum_rounds_row.name, counts, set_count);
    print_head(out, &quorum_offset_row);
    quorum_counts_print_offsets(out, quorum_offset_row.name, counts, set_count);
    free(counts);
}

static void print_requests(FILE *out, struct metrics *const *sets, size_t set_count,
                           const struct metrics_route *routes)
{
    static const struct metric_row row = {"rlockd_requests_total", "counter",
                                          "Requests answered, by route and status; 499: the "
                                          "client hung up before the answer."};
    size_t route_count = sets[0]->route_count;

    print_head(out, &row);
    for (size_t route = 0; route <= route_count; route++) {
        const char *method = route < route_count ? routes[route].method : "";
        const char *path = route < route_count ? routes[route].path : "";
        for (size_t slot = 0; slot < METRIC_STATUSES; slot++) {
            uint64_t count = 0;
            for (size_t i = 0; i < set_count; i++)
                count += atomic_load_explicit(&sets[i]->requests[route][slot],
                                              memory_order_relaxed);
            if (count == 0)
                continue;
            fprintf(out, "%s{method=\"%s\",route=\"%s\",status=", row.name, method, path);
            if (slot < METRIC_STATUSES - 1)
                fprintf(out, "\"%d\"} %" PRIu64 "\n", statuses[slot], count);
            else
                fprintf(out, "\"other\"} %" PRIu64 "\n", count);
        }
    }
}

char *metrics_page(struct metrics *const *sets, size_t set_count,
                   const struct metrics_route *routes, size_t *len)
{
    char *page = NULL;
    FILE *out = open_memstream(&page, len);

    if (out == NULL)
        return NULL;
    print_requests(out, sets, set_count, routes);
    print_metrics(out, sets, set_count);
    print_log_dropped(out);
    print_time(out);
    for (enum histogram histogram = 0; histogram < HISTOGRAM_COUNT; histogram++)
        print_histogram(out, sets, set_count, histogram);
    if (sets[0]->prefix_times != NULL)
        print_prefix_times(out, sets, set_count);
    if (sets[0]->quorum != NULL)
        print_quorum(out, sets, set_count);
    if (fclose(out) != 0) {
        free(page);
        return NULL;
    }
    return page;
}
