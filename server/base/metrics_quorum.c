/* Rounds and clocks of a quorum, as one worker counts them. */
#include "server/base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

struct quorum_counts {
    const struct quorum_labels *labels;
    char members[QUORUM_COUNTS_MEMBERS_MAX]
                [QUORUM_COUNTS_MEMBER_SIZE]; /* empty: there is none */
    _Atomic int64_t offsets_us[QUORUM_COUNTS_MEMBERS_MAX];
    _Atomic uint64_t rounds[]; /* a row of conclusions for each operation */
};

struct quorum_counts *quorum_counts_new(const struct quorum_labels *labels)
{
    size_t cells = labels->operation_count * labels->conclusion_count;
    struct quorum_counts *counts = calloc(1,
                                          sizeof(*counts) + cells * sizeof(counts->rounds[0]));

    if (counts == NULL)
        return NULL;
    counts->labels = labels;
    for (size_t i = 0; i < QUORUM_COUNTS_MEMBERS_MAX; i++)
        quorum_counts_set_offset(counts, i, INT64_MIN);
    return counts;
}

void quorum_counts_free(struct quorum_counts *counts)
{
    free(counts);
}

void quorum_counts_name_member(struct quorum_counts *counts, size_t member, const char *name)
{
    assert(member < QUORUM_COUNTS_MEMBERS_MAX);
    snprintf(counts->members[member], sizeof(counts->members[member]), "%s", name);
}

void quorum_counts_round(struct quorum_counts *counts, size_t operation, size_t conclusion)
{
    _Atomic uint64_t *cell =
        &counts->rounds[operation * counts->labels->conclusion_count + conclusion];

    atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void quorum_counts_set_offset(struct quorum_counts *counts, size_t member, int64_t offset_us)
{
    atomic_store_explicit(&counts->offsets_us[member], offset_us, memory_order_relaxed);
}

static uint64_t sum_of(struct quorum_counts *const *sets, size_t set_count, size_t cell)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < set_count; i++)
        sum += atomic_load_explicit(&sets[i]->rounds[cell], memory_order_relaxed);
    return sum;
}

void quorum_counts_print_rounds(FILE *out, const char *metric,
                                struct quorum_counts *const *sets, size_t set_count)
{
    const struct quorum_labels *labels = sets[0]->labels;
    size_t cells = labels->operation_count * labels->conclusion_count;

    for (size_t cell = 0; cell < cells; cell++) {
        uint64_t sum = sum_of(sets, set_count, cell);
        if (sum > 0)
            fprintf(out, "%s{operation=\"%s\",conclusion=\"%s\"} %" PRIu64 "\n", metric,
                    labels->operations[cell / labels->conclusion_count],
                    labels->conclusions[cell % labels->conclusion_count], sum);
    }
}

static int64_t largest_offset(struct quorum_counts *const *sets, size_t set_count,
                              size_t member)
{
    int64_t largest = INT64_MIN;

    for (size_t i = 0; i < set_count; i++) {
        int64_t own = atomic_load_explicit(&sets[i]->offsets_us[member], memory_order_relaxed);
        if (own != INT64_MIN && (largest == INT64_MIN || llabs(own) > llabs(largest)))
            largest = own;
    }
    return largest;
}

void quorum_counts_print_offsets(FILE *out, const char *metric,
                                 struct quorum_counts *const *sets, size_t set_count)
{
    for (size_t i = 0; i < QUORUM_COUNTS_MEMBERS_MAX; i++) {
        int64_t offset_us = largest_offset(sets, set_count, i);
        if (sets[0]->members[i][0] == '\0' || offset_us == INT64_MIN)
            continue;
        fprintf(out, "%s{member=\"%s\"} %s%" PRId64 ".%06" PRId64 "\n", metric,
                sets[0]->members[i], offset_us < 0 ? "-" : "",
                (int64_t)llabs(offset_us) / 1000000, (int64_t)llabs(offset_us) % 1000000);
    }
}
