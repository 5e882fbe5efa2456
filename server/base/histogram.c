/* Counts durations in buckets and prints them. */
#include "server/base/histogram.h"

#include <inttypes.h>

static void bump(_Atomic uint64_t *value, uint64_t delta)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + delta,
                          memory_order_relaxed);
}

void histogram_observe(struct histogram_values *values, histogram_bounds_us bounds,
                       int64_t duration_ns)
{
    size_t bucket = 0;

    while (bucket < HISTOGRAM_BUCKETS && duration_ns > bounds[bucket] * 1000)
        bucket++;
    bump(&values->buckets[bucket], 1);
    bump(&values->sum_ns, (uint64_t)duration_ns);
}

void histogram_add(struct histogram_values *sum, const struct histogram_values *values)
{
    for (size_t bucket = 0; bucket <= HISTOGRAM_BUCKETS; bucket++)
        bump(&sum->buckets[bucket],
             atomic_load_explicit(&values->buckets[bucket], memory_order_relaxed));
    bump(&sum->sum_ns, atomic_load_explicit(&values->sum_ns, memory_order_relaxed));
}

void histogram_print(FILE *out, const char *name, const char *label, histogram_bounds_us bounds,
                     const struct histogram_values *sum)
{
    const char *comma = label[0] != '\0' ? "," : "", *open = label[0] != '\0' ? "{" : "",
               *close = label[0] != '\0' ? "}" : "";
    uint64_t count = 0;

    for (size_t bucket = 0; bucket <= HISTOGRAM_BUCKETS; bucket++) {
        count += sum->buckets[bucket];
        fprintf(out, "%s_bucket{%s%sle=\"", name, label, comma);
        if (bucket < HISTOGRAM_BUCKETS)
            fprintf(out, "%g\"} %" PRIu64 "\n", (double)bounds[bucket] / 1e6, count);
        else
            fprintf(out, "+Inf\"} %" PRIu64 "\n", count);
    }
    fprintf(out, "%s_sum%s%s%s %.9f\n", name, open, label, close, (double)sum->sum_ns / 1e9);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, count);
}
