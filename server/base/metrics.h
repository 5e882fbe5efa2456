/* Counters, gauges and histograms of the workers, and their page in the Prometheus text format.
 * Each worker writes its own set without locks; the page adds them up. */
#ifndef RLOCKD_SERVER_BASE_METRICS_H
#define RLOCKD_SERVER_BASE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/base/histogram.h"
#include "server/base/prefix_times.h"

enum metric {
    METRIC_GRANTS,
    METRIC_CONFIRMATIONS,
    METRIC_RENEWALS,
    METRIC_RELEASES,
    METRIC_FORCED,
    METRIC_WITHDRAWN_GRANTS,
    METRIC_WAITS_STARTED,
    METRIC_WAITS_GRANTED,
    METRIC_HAND_OVERS,
    METRIC_PASSED_RELEASES,
    METRIC_WAITS_ENDED,
    METRIC_DEADLOCKS,
    METRIC_WAITERS_GONE,
    METRIC_REFUSED_WAITERS,
    METRIC_REFUSED_LARGE,
    METRIC_REFUSED_CERTIFICATES,
    METRIC_SEMAPHORE_ACQUIRES,
    METRIC_SEMAPHORE_RELEASES,
    METRIC_COUNT_DOWNS,
    METRIC_REPLAYS,
    METRIC_SESSIONS_OPENED,
    METRIC_SESSIONS_EXPIRED,
    METRIC_WATCHDOG_RENEWALS,
    METRIC_WATCHDOG_LOSSES,
    METRIC_UNLOCK_MESSAGES,
    METRIC_REDIS_COMMANDS,
    METRIC_REDIS_CONNECTS,
    METRIC_REDIS_NOT_EXECUTED,
    METRIC_REDIS_UNKNOWN,
    METRIC_REDIS_FAILOVERS,
    METRIC_REDIS_MOVED,
    METRIC_REDIS_ASKED,
    METRIC_REDIS_TRIED_AGAIN,
    METRIC_CLUSTER_MAPS,
    METRIC_REDIS_DATA_LOSSES,
    METRIC_REDIS_NOT_REPLICATED,
    METRIC_QUORUM_SPLITS,
    METRIC_QUORUM_TOKEN_ROUNDS,
    METRIC_QUORUM_REPAIRS,
    METRIC_QUORUM_LOST,
    METRIC_CUT_OFF_SILENT,
    METRIC_CUT_OFF_IDLE,
    METRIC_CUT_OFF_SLOW_SENDER,
    METRIC_CUT_OFF_SLOW_READER,
    METRIC_CUT_OFF_FULL,
    METRIC_CUT_OFF_ADDRESS,
    METRIC_CONNECTIONS,
    METRIC_WAITERS,
    METRIC_WAITED_LOCKS,
    METRIC_PENDING_WITHDRAWALS,
    METRIC_WORKERS,
    METRIC_REDIS_UP,
    METRIC_SENTINELS,
    METRIC_CLUSTER_NODES,
    METRIC_CLUSTER_SLOTS,
    METRIC_QUORUM_UP,
    METRIC_QUORUM_DOWN,
    METRIC_QUORUM_IN_QUARANTINE,
    METRIC_QUARANTINED,
    METRIC_LOCKS,
    METRIC_LOCKS_FAIR,
    METRIC_LOCKS_READ,
    METRIC_LOCKS_WRITE,
    METRIC_SESSIONS,
    METRIC_LONG_HELD_LOCKS,
    METRIC_OLDEST_HOLD,
    METRIC_LONG_WAITED_LOCKS,
    METRIC_OLDEST_WAIT,
    METRIC_COUNT
};

enum histogram {
    HISTOGRAM_REQUEST,
    HISTOGRAM_WAIT,
    HISTOGRAM_UNLOCK_TO_GRANT,
    HISTOGRAM_REDIS_ROUND_TRIP,
    HISTOGRAM_WATCHDOG_LATENESS,
    HISTOGRAM_COUNT
};

enum { METRIC_STATUSES = 25 };

struct quorum_counts;

struct metrics {
    _Atomic int64_t values[METRIC_COUNT];
    struct histogram_values histograms[HISTOGRAM_COUNT];
    struct prefix_times *prefix_times; /* NULL: --metrics-prefixes is empty */
    struct quorum_counts *quorum;      /* NULL: the topology is no quorum */
    size_t route_count;
    _Atomic uint64_t (*requests)[METRIC_STATUSES]; /* one row a route, and one for no route */
};

/* The labels that a row of `requests` has on the page. */
struct metrics_route {
    const char *method, *path;
};

/* Non-zero: out of memory. */
int metrics_init(struct metrics *metrics, size_t route_count)
    __attribute__((warn_unused_result));
void metrics_release(struct metrics *metrics);

/* From here on times are counted by prefix, too: all sets of a page or none, with the same
 * list, which must be valid and outlive the set. Empty: they are not. Non-zero: out of memory.
 */
int metrics_set_prefixes(struct metrics *metrics, const char *list)
    __attribute__((warn_unused_result));

/* Adds to a counter or gauge; only from the thread that owns the set. */
static inline void metrics_add(struct metrics *metrics, enum metric metric, int64_t delta)
{
    int64_t value = atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);

    atomic_store_explicit(&metrics->values[metric], value + delta, memory_order_relaxed);
}

static inline void metrics_set(struct metrics *metrics, enum metric metric, int64_t value)
{
    atomic_store_explicit(&metrics->values[metric], value, memory_order_relaxed);
}

/* From any thread. */
static inline int64_t metrics_value(const struct metrics *metrics, enum metric metric)
{
    return atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);
}

void metrics_observe(struct metrics *metrics, enum histogram histogram, int64_t duration_ns);
/* Of a request for, or a lease of, the object of this name; nothing without prefixes. */
static inline void metrics_observe_name(struct metrics *metrics, enum prefix_time time,
                                        const char *name, int64_t duration_ns)
{
    if (metrics->prefix_times != NULL)
        prefix_times_observe(metrics->prefix_times, time, name, duration_ns);
}
/* `route` is an index into the routes, or route_count for a request that matched none. */
void metrics_request(struct metrics *metrics, size_t route, int status);

/* The page over all sets, to be freed by the caller; NULL when memory is short. */
char *metrics_page(struct metrics *const *sets, size_t set_count,
                   const struct metrics_route *routes, size_t *len);

/* --- metrics_quorum.c: rounds of a quorum, by what they were for and what was concluded, and
 * the clock of each server --- */

enum {
    QUORUM_COUNTS_MEMBERS_MAX = 5,
    QUORUM_COUNTS_MEMBER_SIZE = 264 /* HOST:PORT */
};

/* The labels: constant texts, the same for all sets of a page. */
struct quorum_labels {
    const char *const *operations, *const *conclusions;
    size_t operation_count, conclusion_count;
};

/* From here on the rounds of a quorum are counted, too: all sets of a page or none, with the
 * same labels, which must outlive the set. Non-zero: out of memory. */
int metrics_set_quorum(struct metrics *metrics, const struct quorum_labels *names)
    __attribute__((warn_unused_result));
/* NULL: out of memory. */
struct quorum_counts *quorum_counts_new(const struct quorum_labels *names)
    __attribute__((warn_unused_result));
void quorum_counts_free(struct quorum_counts *counts);
/* Before the first page. */
void quorum_counts_name_member(struct quorum_counts *counts, size_t member, const char *name);

/* Both only from the thread that owns the set. */
void quorum_counts_round(struct quorum_counts *counts, size_t operation, size_t conclusion);
/* By how much the clock of this member is ahead of the median; INT64_MIN: not known. */
void quorum_counts_set_offset(struct quorum_counts *counts, size_t member, int64_t offset_us);

/* The series, over sets with the same labels and members. Of a clock the page has the largest
 * offset that a set knows, whichever its sign. */
void quorum_counts_print_rounds(FILE *out, const char *metric,
                                struct quorum_counts *const *sets, size_t set_count);
void quorum_counts_print_offsets(FILE *out, const char *metric,
                                 struct quorum_counts *const *sets, size_t set_count);

#endif
