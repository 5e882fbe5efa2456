/* Histograms of durations, and their series in the Prometheus text format. */
#ifndef RLOCKD_SERVER_BASE_HISTOGRAM_H
#define RLOCKD_SERVER_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { HISTOGRAM_BUCKETS = 18 };

/* Upper bounds of the buckets; a bound belongs to its bucket. */
typedef const int64_t histogram_bounds_us[HISTOGRAM_BUCKETS];

struct histogram_values {
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS + 1]; /* the last one: above every bound */
    _Atomic uint64_t sum_ns;
};

/* Only from the thread that owns the values. */
void histogram_observe(struct histogram_values *values, histogram_bounds_us bounds,
                       int64_t duration_ns);

/* Adds `values` to `sum`; from any thread. */
void histogram_add(struct histogram_values *sum, const struct histogram_values *values);

/* Prints the series of a sum. `label`: NAME="VALUE", already escaped; "": none. */
void histogram_print(FILE *out, const char *name, const char *label, histogram_bounds_us bounds,
                     const struct histogram_values *sum);

#endif
