/* The parts that a store was made with, for other rooms. */
#include "storage/store/store_internal.h"

const struct config *store_config(const struct store *store)
{
    return store->options.config;
}

struct loop *store_loop(const struct store *store)
{
    return store->options.loop;
}

struct metrics *store_metrics(const struct store *store)
{
    return store->options.metrics;
}

struct topology *store_topology(const struct store *store)
{
    return store->options.topology;
}
