/* The counters of a caller's limits. */
#include "server/auth/auth_usage.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/base/clock.h"

struct auth_usage {
    atomic_size_t refs; /* sets of tokens that have the caller: its limits outlive a reload */
    _Atomic int64_t waiters;
    _Atomic int64_t filled_ns; /* when the requests so far have filled their share of time */
};

struct auth_usage *auth_usage_new(void)
{
    struct auth_usage *usage = calloc(1, sizeof(*usage));

    if (usage == NULL)
        return NULL;
    atomic_init(&usage->refs, 1);
    return usage;
}

struct auth_usage *auth_usage_keep(struct auth_usage *usage)
{
    if (usage != NULL)
        atomic_fetch_add(&usage->refs, 1);
    return usage;
}

void auth_usage_drop(struct auth_usage *usage)
{
    if (usage != NULL && atomic_fetch_sub(&usage->refs, 1) == 1)
        free(usage);
}

bool auth_usage_begin_wait(struct auth_usage *usage, int64_t max)
{
    int64_t waiters = atomic_load(&usage->waiters);

    do {
        if (waiters >= max)
            return false;
    } while (!atomic_compare_exchange_weak(&usage->waiters, &waiters, waiters + 1));
    return true;
}

void auth_usage_end_wait(struct auth_usage *usage)
{
    int64_t waiters = atomic_fetch_sub(&usage->waiters, 1);

    assert(waiters > 0);
    (void)waiters;
}

/* The bucket that leaks: each request fills a part of a second, which runs off with time. */
bool auth_usage_request(struct auth_usage *usage, int64_t per_second, int64_t now_ns)
{
    int64_t filled_ns = atomic_load(&usage->filled_ns), next_ns;

    do {
        next_ns = (filled_ns > now_ns ? filled_ns : now_ns) + CLOCK_NS_PER_S / per_second;
        if (next_ns - now_ns > CLOCK_NS_PER_S)
            return false;
    } while (!atomic_compare_exchange_weak(&usage->filled_ns, &filled_ns, next_ns));
    return true;
}
