#include "handlers/counters.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/problem.h"
#include "server/request.h"
#include "server/token.h"

/* What a client that cannot wait here should wait before it asks again. */
enum { RETRY_AFTER_MIN_MS = 50, RETRY_AFTER_MAX_MS = 1000 };

static const char *const members[] = {[COUNTER_SEMAPHORE] = "semaphore",
                                      [COUNTER_PERMIT_SEMAPHORE] = "permit_semaphore",
                                      [COUNTER_LATCH] = "latch"};

struct counter_request *counter_request_new(struct http_request *request,
                                            enum counter_kind kind)
{
    struct counter_request *counter = calloc(1, sizeof(*counter));

    assert(counter != NULL);
    counter->service = http_service(request);
    counter->request = request;
    counter->kind = kind;
    counter->member = members[kind];
    if (!locks_read_name(request, counter->lease.name)) {
        free(counter);
        return NULL;
    }
    lock_store_mark(counter->service->store, counter->lease.mark);
    return counter;
}

bool counter_read_key(struct counter_request *counter, bool always)
{
    char *key = counter->lease.id;

    if (!request_token(counter->request, HTTP_IDEMPOTENCY_KEY, "Idempotency-Key", false, key))
        return false;
    if (key[0] == '\0' && always)
        token_make(key);
    return true;
}

/* --- the life of a request ---------------------------------------------------------------- */

static void on_parked(void *arg)
{
    struct counter_request *counter = arg;

    http_park(counter->request);
}

/* The client hung up before it had an answer. */
static void on_gone(void *arg)
{
    struct counter_request *counter = arg;

    counter->gone = true;
    if (counter->acquisition == NULL)
        return; /* its answer is on its way, and on_end() looks after it */
    acquire_cancel(counter->acquisition);
    counter->acquisition = NULL;
    http_drop(counter->request);
}

static void on_end(void *arg, bool delivered)
{
    struct counter_request *counter = arg;

    if (counter->granted && (counter->gone || !delivered) && counter->withdraw != NULL)
        counter->withdraw(counter->service->store, &counter->lease);
    free(counter);
}

void counter_watch(struct counter_request *counter)
{
    http_watch(counter->request, on_gone, on_end, counter);
}

static void on_acquired(void *arg, const struct lock_result *result)
{
    struct counter_request *counter = arg;

    counter->acquisition = NULL;
    counter->granted = result->outcome == LOCK_GRANTED;
    counter->acquired(counter, result);
}

void counter_acquire(struct counter_request *counter, int64_t wait_ms)
{
    struct service *service = counter->service;
    int64_t deadline_ns = 0;

    counter->withdraw = counter->lease.object->withdraw;
    counter_watch(counter);
    if (service->draining) {
        const struct lock_result draining = {.outcome = LOCK_DRAINING};
        counter_reply_failure(counter, &draining);
        return;
    }
    if (wait_ms > 0)
        deadline_ns = http_received_ns(counter->request) + wait_ms * CLOCK_NS_PER_MS;
    counter->acquisition = acquire_start(service->acquirer, &counter->lease, deadline_ns,
                                         on_parked, on_acquired, counter);
}

/* --- what every kind has ------------------------------------------------------------------ */

struct put_fields {
    struct field_integer number;
};

void counter_put(struct http_request *request, enum counter_kind kind, const char *field,
                 int64_t max, lock_done *done)
{
    const struct field put_fields[] = {
        {field, FIELD_INTEGER, offsetof(struct put_fields, number), 1, max}};
    struct put_fields fields = {0};
    struct counter_request *counter = counter_request_new(request, kind);

    if (counter == NULL)
        return;
    if (!request_fields(request, put_fields, 1, &fields)) {
        free(counter);
        return;
    }
    if (!fields.number.given) {
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL, "%s: this request needs it",
                      field);
        free(counter);
        return;
    }
    counter_watch(counter);
    counter_create(counter->service->store, kind, counter->lease.name, fields.number.value,
                   done, counter);
}

static void on_deleted(void *arg, const struct lock_result *result)
{
    struct counter_request *counter = arg;

    if (result->outcome == LOCK_UNLOCKED || result->outcome == LOCK_NOT_FOUND) {
        json_t *body = counter_json(counter);
        json_object_set_new(body, "deleted", json_boolean(result->outcome == LOCK_UNLOCKED));
        http_reply_json(counter->request, 200, body);
    } else {
        counter_reply_failure(counter, result);
    }
}

void counter_delete_request(struct http_request *request, enum counter_kind kind)
{
    struct counter_request *counter = counter_request_new(request, kind);

    if (counter == NULL)
        return;
    if (!request_no_fields(request)) {
        free(counter);
        return;
    }
    counter_watch(counter);
    counter_delete(counter->service->store, kind, counter->lease.name, on_deleted, counter);
}

/* --- answers ------------------------------------------------------------------------------ */

json_t *counter_json(const struct counter_request *counter)
{
    return json_pack("{s:s}", counter->member, counter->lease.name);
}

static void reply_busy(struct counter_request *counter, const struct lock_result *result)
{
    json_t *body = counter_json(counter);
    int64_t retry_ms = result->remaining_ms;
    char seconds[24];

    if (retry_ms < 0 || retry_ms > RETRY_AFTER_MAX_MS)
        retry_ms = RETRY_AFTER_MAX_MS;
    if (retry_ms < RETRY_AFTER_MIN_MS)
        retry_ms = RETRY_AFTER_MIN_MS;
    snprintf(seconds, sizeof(seconds), "%" PRId64, (retry_ms + 999) / 1000);
    http_reply_header(counter->request, "Retry-After", seconds);
    json_object_set_new(body, "retry_after_ms", json_integer(retry_ms));
    if (counter->kind == COUNTER_SEMAPHORE)
        json_object_set_new(body, "available", json_integer(result->value));
    else if (result->remaining_ms >= 0)
        json_object_set_new(body, "remaining_ms", json_integer(result->remaining_ms));
    problem_reply(counter->request, PROBLEM_LOCKED, body, "there are not enough free permits");
}

static void reply_ended(struct counter_request *counter, const struct lock_result *result)
{
    json_t *body = counter_json(counter);

    json_object_set_new(body, "lease_id", json_string(counter->lease.id));
    json_object_set_new(body, "reason", json_string(result->reason));
    problem_reply(counter->request, PROBLEM_LEASE_ENDED, body,
                  "this lease holds no permit, and its token is spent: use a new one");
}

void counter_reply_failure(struct counter_request *counter, const struct lock_result *result)
{
    struct http_request *request = counter->request;
    bool has_token = counter->kind == COUNTER_PERMIT_SEMAPHORE;

    if (result->outcome == LOCK_BUSY)
        reply_busy(counter, result);
    else if (result->outcome == LOCK_ENDED)
        reply_ended(counter, result);
    else if (result->outcome == LOCK_NOT_FOUND)
        problem_reply(request, PROBLEM_NOT_FOUND, counter_json(counter),
                      "there is no such semaphore");
    else if (result->outcome == LOCK_TOO_LARGE)
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "permits: the semaphore has %" PRId64 " and may have %" PRId64,
                      result->value, COUNTER_MAX);
    else if (result->outcome == LOCK_REUSED && !has_token)
        problem_reply(request, PROBLEM_TOKEN_REUSED, NULL,
                      "Idempotency-Key: was used for another request: use a new one");
    else if (result->outcome == LOCK_UNKNOWN && !has_token && counter->lease.id[0] == '\0')
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE,
                      json_pack("{s:s}", "outcome", "unknown"),
                      "Redis did not answer: send an Idempotency-Key to be able to ask again");
    else
        locks_reply_failure(request, &counter->lease, result);
}
