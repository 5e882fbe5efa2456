/* Histograms of wait and hold times by the prefix of the lock's name: --metrics-prefixes. */
#ifndef RLOCKD_SERVER_BASE_PREFIX_TIMES_H
#define RLOCKD_SERVER_BASE_PREFIX_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Each prefix is 42 lines of the page, and 320 bytes of memory for each worker. */
enum { METRICS_PREFIXES_MAX = 20, METRICS_PREFIX_LEN_MAX = 64 };

enum prefix_time { PREFIX_WAIT, PREFIX_HOLD, PREFIX_TIME_COUNT };

struct prefix_times;

/* Whether the list, with commas between its entries, has at most METRICS_PREFIXES_MAX different
 * prefixes, each of 1 to METRICS_PREFIX_LEN_MAX bytes and none of them "other". */
bool prefix_times_are_valid(const char *list);

/* NULL: out of memory. `list`: a valid one, which must outlive the histograms. */
struct prefix_times *prefix_times_new(const char *list) __attribute__((warn_unused_result));
void prefix_times_free(struct prefix_times *times);

/* Counts under the longest prefix that the name begins with, else under "other"; only from the
 * thread that owns the set. */
void prefix_times_observe(struct prefix_times *times, enum prefix_time time, const char *name,
                          int64_t duration_ns);

/* The series of one kind of time, added up over sets of the same list. */
void prefix_times_print(FILE *out, const char *metric, enum prefix_time time,
                        struct prefix_times *const *sets, size_t set_count);

#endif
