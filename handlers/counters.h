/* What the handlers of semaphores, permits and latches share. */
#ifndef RLOCKD_HANDLERS_COUNTERS_H
#define RLOCKD_HANDLERS_COUNTERS_H

#include "handlers/locks.h"
#include "storage/counter_store.h"

/* A request about a semaphore or a latch from its arrival until its answer is on its way. */
struct counter_request {
    struct service *service;
    struct http_request *request;
    const char *member; /* of the answers, that holds the name */
    enum counter_kind kind;
    struct acquisition *acquisition; /* NULL: none under way */
    /* Of a request that may wait: ends it. */
    void (*acquired)(struct counter_request *counter, const struct lock_result *result);
    /* Takes back what was granted when the client does not get the answer; NULL: nothing is. */
    void (*withdraw)(struct lock_store *store, const struct lease *lease);
    bool granted, gone;
    struct lease lease; /* its name, key or token, mark and permits */
};

/* With the name of the path. NULL: refused. The caller's to free until counter_watch(). */
struct counter_request *counter_request_new(struct http_request *request,
                                            enum counter_kind kind);
/* Reads the Idempotency-Key, if there is one. `always`: makes one where there is none, so that
 * the request can be taken back. False: refused. */
bool counter_read_key(struct counter_request *counter, bool always)
    __attribute__((warn_unused_result));
/* From here on the request is freed when it has ended, answered or not. */
void counter_watch(struct counter_request *counter);
/* Watches and acquires; waits for up to `wait_ms`. */
void counter_acquire(struct counter_request *counter, int64_t wait_ms);

/* PUT of something whose number is the required field `field`: 1 to `max`. */
void counter_put(struct http_request *request, enum counter_kind kind, const char *field,
                 int64_t max, lock_done *done);
void counter_delete_request(struct http_request *request, enum counter_kind kind);

/* {"<member>": name}, to be added to. */
json_t *counter_json(const struct counter_request *counter);
/* Ends the request with a result that means the same for every operation. */
void counter_reply_failure(struct counter_request *counter, const struct lock_result *result);

#endif
