/* The stores, settings and metrics that the handlers of one worker use. The worker fills the
 * struct in before the first request. */
#ifndef RLOCKD_HANDLERS_CONTEXT_H
#define RLOCKD_HANDLERS_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/base/config.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "server/auth/auth.h"
#include "server/http/http.h"
#include "storage/store/store.h"
#include "storage/wait/acquire.h"
#include "storage/wait/session_watch.h"

/* The page of metrics as it was made last. */
struct operations_page {
    char *text; /* NULL: not yet; the worker frees it */
    size_t len;
    int64_t made_ns;
};

struct handler_context {
    const struct config *config;
    struct loop *loop;
    struct metrics *metrics; /* of this worker */
    struct topology *topology;
    struct store *store;
    struct acquirer *acquirer;
    struct session_watch *session_watch;
    bool leaving;  /* /readyz says so, all else goes on */
    bool draining; /* no request may begin to wait */
    bool is_quorum;
    /* Of the whole process. */
    const struct route *routes;
    size_t route_count;
    struct metrics *const *all_metrics;
    size_t worker_count;
    const atomic_size_t *ready_workers; /* those that can use some keys at least */
    struct operations_page metrics_page;
};

#endif
