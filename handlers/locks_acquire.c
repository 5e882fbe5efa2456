/* PUT and POST /v1/locks/{name} and /v1/multi-locks: acquire, wait, confirm. */
#include <string.h>

#include "handlers/locks.h"
#include "handlers/multi_locks.h"
#include "handlers/routes.h"
#include "server/clock.h"
#include "server/problem.h"
#include "server/request.h"
#include "server/token.h"

struct acquire_fields {
    struct field_text kind, note, owner;
    struct field_integer ttl_ms, wait_ms;
    struct field_names locks;
};

/* The last one only where several locks are asked for. */
static const struct field acquire_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct acquire_fields, ttl_ms), 100, 86400000},
    {"wait_ms", FIELD_INTEGER, offsetof(struct acquire_fields, wait_ms), 0, INT64_MAX},
    {"note", FIELD_TEXT, offsetof(struct acquire_fields, note), 0, LOCK_NOTE_SIZE - 1},
    {"kind", FIELD_TEXT, offsetof(struct acquire_fields, kind), 1, 16},
    {"owner", FIELD_TEXT, offsetof(struct acquire_fields, owner), 1, LOCK_OWNER_SIZE - 1},
    {"locks", FIELD_NAMES, offsetof(struct acquire_fields, locks), 1, LOCKS_MAX},
};

enum { ACQUIRE_FIELDS = sizeof(acquire_fields) / sizeof(acquire_fields[0]) };

/* One PUT or POST from its arrival until its answer is on its way. */
struct acquire_request {
    struct service *service;
    struct http_request *request;
    struct acquisition *acquisition; /* NULL when it has ended */
    bool granted;
    bool show_token;
    char token[37];
    struct lease lease;
};

static void on_described(void *arg, const struct lock_result *result)
{
    struct acquire_request *acquire = arg;

    locks_reply_busy(acquire->request, &acquire->lease, result);
}

static void on_acquired(void *arg, const struct lock_result *result)
{
    struct acquire_request *acquire = arg;
    const char *token = acquire->show_token ? acquire->token : NULL;

    acquire->acquisition = NULL;
    switch (result->outcome) {
    case LOCK_GRANTED:
        acquire->granted = true;
        locks_reply_hold(acquire->request, 201, &acquire->lease, result, token);
        return;
    case LOCK_HELD:
        metrics_add(&acquire->service->metrics, METRIC_CONFIRMATIONS, 1);
        locks_reply_hold(acquire->request, 200, &acquire->lease, result, token);
        return;
    case LOCK_BUSY:
        locks_describe_holder(acquire->service, &acquire->lease, result, on_described, acquire);
        return;
    case LOCK_RELEASED:
    case LOCK_UNLOCKED:
    case LOCK_FREE:
    case LOCK_STALE:
    case LOCK_ENDED:
    case LOCK_SESSION_ENDED:
    case LOCK_REUSED:
    case LOCK_WRONG_KIND:
    case LOCK_UPGRADE:
    case LOCK_NOT_FOUND:
    case LOCK_TOO_LARGE:
    case LOCK_LOOKED:
    case LOCK_TOO_MANY_WAITERS:
    case LOCK_DRAINING:
    case LOCK_OUT_OF_MEMORY:
    case LOCK_NOT_EXECUTED:
    case LOCK_UNKNOWN:
        locks_reply_failure(acquire->request, &acquire->lease, result);
        return;
    }
}

static void on_parked(void *arg)
{
    struct acquire_request *acquire = arg;

    http_park(acquire->request);
}

/* The client hung up before it had an answer. */
static void on_gone(void *arg)
{
    struct acquire_request *acquire = arg;

    if (acquire->acquisition == NULL)
        return; /* it lost anyway, and its answer is being written */
    acquire_cancel(acquire->acquisition);
    acquire->acquisition = NULL;
    http_drop(acquire->request);
}

static void on_end(void *arg, bool delivered)
{
    struct acquire_request *acquire = arg;

    if (acquire->granted && !delivered)
        lock_withdraw(acquire->service->store, &acquire->lease);
    lock_names_drop(acquire->lease.locks);
}

/* False: refused. */
static bool read_kind(struct http_request *request, const struct field_text *kind,
                      struct lease *lease)
{
    if (!kind->given || lock_kind_find(kind->text, &lease->kind)) {
        if (lease->kind != LOCK_KIND_LOCK && lease->mode == LEASE_NEW)
            lease->mode = LEASE_RECORDED; /* that is where the kind is kept */
        return true;
    }
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "kind: not one of lock, fair, read, write");
    return false;
}

/* False: refused. */
static bool check_owner(struct http_request *request, const struct lease *lease,
                        const struct field_text *owner)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (!owner->given)
        return true;
    if (lease->session_id[0] == '\0')
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "owner: only with a session: send its Session-Token");
    else if (owner->text[strspn(owner->text, allowed)] != '\0' ||
             strcmp(owner->text, "write") == 0) /* Redisson's mark of a writer */
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "owner: not 1 to %d of A-Z a-z 0-9 . _ - (and not the word write)",
                      LOCK_OWNER_SIZE - 1);
    else
        return true;
    return false;
}

/* False: refused. */
static bool read_acquire(struct acquire_request *acquire, bool token_required, bool several,
                         struct acquire_fields *fields)
{
    struct http_request *request = acquire->request;
    const struct config *config = acquire->service->shared->config;
    struct lease *lease = &acquire->lease;
    size_t field_count = several ? ACQUIRE_FIELDS : ACQUIRE_FIELDS - 1;

    if ((!several && !locks_read_name(request, lease->name)) ||
        !locks_read_token(request, token_required, lease, acquire->token))
        return false;
    acquire->show_token = lease->mode == LEASE_NEW;
    if (!locks_read_session(request, lease) ||
        !request_fields(request, acquire_fields, field_count, fields) ||
        !request_at_most(request, "wait_ms", &fields->wait_ms, config->max_wait_ms) ||
        !read_kind(request, &fields->kind, lease) ||
        !check_owner(request, lease, &fields->owner) ||
        (several && !multi_locks_read(request, &fields->locks, lease)))
        return false;
    memcpy(lease->owner, fields->owner.text, sizeof(lease->owner));
    memcpy(lease->note, fields->note.text, sizeof(lease->note));
    if (lease->mode == LEASE_NEW && lease->note[0] != '\0')
        lease->mode = LEASE_RECORDED; /* that is where the note is kept */
    lease->watchdog = lease->session_id[0] != '\0' && !fields->ttl_ms.given;
    lease->ttl_ms = fields->ttl_ms.given ? fields->ttl_ms.value : config->watchdog_timeout_ms;
    return true;
}

static void acquire(struct http_request *request, bool token_required, bool several,
                    struct acquire_fields *fields)
{
    struct service *service = http_service(request);
    struct acquire_request *acquire = http_memory(request, sizeof(*acquire));

    acquire->service = service;
    acquire->request = request;
    http_watch(request, on_gone, on_end, acquire);
    if (!read_acquire(acquire, token_required, several, fields))
        return;
    int64_t wait_ms = locks_wait_ms(request, &fields->wait_ms);
    if (service->draining) {
        struct lock_result draining = {.outcome = LOCK_DRAINING};
        locks_reply_failure(request, &acquire->lease, &draining);
        return;
    }
    int64_t deadline_ns = wait_ms > 0 ? http_received_ns(request) + wait_ms * CLOCK_NS_PER_MS
                                      : 0;
    acquire->acquisition = acquire_start(service->acquirer, &acquire->lease, deadline_ns,
                                         on_parked, on_acquired, acquire);
}

static void acquire_one(struct http_request *request, bool token_required)
{
    struct acquire_fields fields = {0};

    acquire(request, token_required, false, &fields);
}

static void acquire_several(struct http_request *request, bool token_required)
{
    char names[LOCKS_MAX][FIELD_TEXT_SIZE];
    struct acquire_fields fields = {.locks.names = names};

    acquire(request, token_required, true, &fields);
}

void locks_put(struct http_request *request)
{
    acquire_one(request, true);
}

void locks_post(struct http_request *request)
{
    acquire_one(request, false);
}

void multi_locks_put(struct http_request *request)
{
    acquire_several(request, true);
}

void multi_locks_post(struct http_request *request)
{
    acquire_several(request, false);
}
