#include "handlers/locks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handlers/multi_locks.h"
#include "server/problem.h"
#include "server/token.h"

/* How long a client that cannot wait here should wait elsewhere, when nobody knows better. */
enum { RETRY_AFTER_MIN_MS = 50, RETRY_AFTER_MAX_MS = 1000 };

bool locks_check_name(struct http_request *request, const char *field, const char *name)
{
    if (strncmp(name, "rlockd:", 7) != 0 && strncmp(name, "redisson_", 9) != 0)
        return true;
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "%s: those that begin with rlockd: or redisson_ are taken by keys of locks",
                  field);
    return false;
}

bool locks_read_name(struct http_request *request, char name[LOCK_NAME_SIZE])
{
    const char *given = http_param(request, 0);
    size_t len = strlen(given);

    assert(len < LOCK_NAME_SIZE);
    memcpy(name, given, len + 1);
    return locks_check_name(request, "name", name);
}

bool locks_read_lease(struct http_request *request, bool required, struct lease *lease,
                      char token[37])
{
    return locks_read_name(request, lease->name) &&
           locks_read_token(request, required, lease, token);
}

bool locks_read_token(struct http_request *request, bool required, struct lease *lease,
                      char token[37])
{
    struct service *service = http_service(request);

    if (!request_token(request, HTTP_LEASE_TOKEN, "Lease-Token", required, token))
        return false;
    lease->mode = LEASE_RECORDED;
    if (token[0] == '\0') {
        token_make(token);
        lease->mode = LEASE_NEW;
        lease->once = true;
    } else if (token_is_server_made(token)) {
        lease->mode = LEASE_MADE;
    }
    token_lease_id(token, lease->id);
    lock_store_mark(service->store, lease->mark);
    http_log_lease(request, lease->id);
    return true;
}

bool locks_read_session(struct http_request *request, struct lease *lease)
{
    char token[37];

    if (!request_token(request, HTTP_SESSION_TOKEN, "Session-Token", false, token))
        return false;
    if (token[0] == '\0')
        return true;
    token_session_id(token, lease->session_id);
    if (lease->mode == LEASE_NEW)
        lease->mode = LEASE_RECORDED; /* that is where the session finds it */
    return true;
}

int64_t locks_wait_ms(struct http_request *request, const struct field_integer *wait_ms)
{
    const struct service *service = http_service(request);
    int64_t max_wait_ms = service->shared->config->max_wait_ms;
    int64_t prefer_s = request_prefer_wait_s(request);
    char applied[32];

    if (wait_ms->given || prefer_s < 0)
        return wait_ms->value;
    int64_t preferred_ms = prefer_s < max_wait_ms / 1000 ? prefer_s * 1000 : max_wait_ms;
    snprintf(applied, sizeof(applied), "wait=%lld", (long long)(preferred_ms / 1000));
    http_reply_header(request, "Preference-Applied", applied);
    return preferred_ms;
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(object, name, json_string(text));
}

bool locks_is_read_write(const char *kind)
{
    return strcmp(kind, lock_kind_name(LOCK_KIND_READ)) == 0 ||
           strcmp(kind, lock_kind_name(LOCK_KIND_WRITE)) == 0;
}

json_t *locks_holder_json(const struct lock_holder *holder)
{
    char lease_id[LEASE_ID_SIZE];
    json_t *json = json_object();

    if (holder->owner[0] == '\0' && lock_holder_is_lease(holder->field, lease_id))
        set_text(json, "lease_id", lease_id);
    else if (holder->session_id[0] == '\0')
        json_object_set_new(json, "redisson_holder",
                            json_stringn(holder->field, lock_holder_len(holder->field)));
    if (locks_is_read_write(holder->kind))
        set_text(json, "kind", holder->kind);
    if (holder->hold_count > 0)
        json_object_set_new(json, "hold_count", json_integer(holder->hold_count));
    set_text(json, "session_id", holder->session_id);
    set_text(json, "session_name", holder->session_name);
    set_text(json, "owner", holder->owner);
    set_text(json, "note", holder->note);
    return json;
}

static void write_text(struct json_text *body, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_text_string(body, name, text);
}

void locks_reply_hold(struct http_request *request, int status, const struct lease *lease,
                      const struct lock_result *result, const char *token)
{
    /* What a lease was granted with is what was asked for; later its record tells. */
    bool is_new = result->outcome == LOCK_GRANTED;
    bool is_recorded = !is_new && result->kind[0] != '\0';
    const char *kind = is_recorded ? result->kind : lock_kind_name(lease->kind);
    struct json_text body;

    if (lease->locks != NULL) {
        multi_locks_reply_hold(request, status, lease, result, token);
        return;
    }
    json_text_begin(&body);
    json_text_string(&body, "lock", lease->name);
    json_text_string(&body, "kind", kind);
    json_text_string(&body, "state", "held");
    json_text_string(&body, "lease_id", lease->id);
    json_text_integer(&body, "fencing_token", result->fencing_token);
    json_text_integer(&body, "hold_count", result->hold_count);
    if (result->remaining_ms >= 0) /* an operator may have taken the TTL away */
        json_text_integer(&body, "remaining_ms", result->remaining_ms);
    json_text_boolean(&body, "watchdog", is_new ? lease->watchdog : result->watchdog);
    if (result->ttl_ms > 0)
        json_text_integer(&body, "ttl_ms", result->ttl_ms);
    write_text(&body, "session_id", is_new ? lease->session_id : result->session_id);
    write_text(&body, "owner", is_new ? lease->owner : result->owner);
    write_text(&body, "note", is_new ? lease->note : result->note);
    if (token != NULL) {
        json_text_string(&body, "lease_token", token);
        http_reply_header(request, "Lease-Token", token);
    }
    http_reply_written(request, status, &body);
}

void locks_reply_unavailable(struct http_request *request, enum lock_outcome outcome)
{
    struct service *service = http_service(request);
    json_t *members = json_pack("{s:s}", "outcome",
                                outcome == LOCK_UNKNOWN ? "unknown" : "not-executed");

    if (outcome == LOCK_OUT_OF_MEMORY)
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE, members,
                      "Redis is out of memory: nothing was changed; leases can be renewed and "
                      "released");
    else if (outcome == LOCK_UNKNOWN)
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE, members,
                      "Redis did not answer: ask again with the same token");
    else if (!redis_is_up(service->redis))
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE, members, "nothing was changed: %s",
                      redis_down_reason(service->redis));
    else
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE, members,
                      "Redis refused the command: nothing was changed");
}

/* Of several locks the one that the result is about. */
static const char *name_in_the_way(const struct lease *lease, const struct lock_result *result)
{
    if (lease->locks == NULL || result->in_the_way < 1 ||
        result->in_the_way > lease->locks->count)
        return lease->name;
    return lease->locks->name[result->in_the_way - 1];
}

void locks_describe_holder(struct service *service, const struct lease *lease,
                           const struct lock_result *result, lock_done *done, void *arg)
{
    lock_describe_holder(service->store, name_in_the_way(lease, result), result, done, arg);
}

void locks_reply_busy(struct http_request *request, const struct lease *lease,
                      const struct lock_result *result)
{
    int64_t retry_ms = result->remaining_ms;
    char seconds[24];

    if (retry_ms < 0 || retry_ms > RETRY_AFTER_MAX_MS)
        retry_ms = RETRY_AFTER_MAX_MS;
    if (retry_ms < RETRY_AFTER_MIN_MS)
        retry_ms = RETRY_AFTER_MIN_MS;
    snprintf(seconds, sizeof(seconds), "%" PRId64, (retry_ms + 999) / 1000);
    http_reply_header(request, "Retry-After", seconds);
    json_t *members = json_pack("{s:s, s:I}", "lock", name_in_the_way(lease, result),
                                "retry_after_ms", (json_int_t)retry_ms);
    if (members != NULL && result->remaining_ms >= 0)
        json_object_set_new(members, "remaining_ms", json_integer(result->remaining_ms));
    if (members != NULL && result->holder.field[0] != '\0')
        json_object_set_new(members, "holder", locks_holder_json(&result->holder));
    problem_reply(request, PROBLEM_LOCKED, members, "someone else holds the lock");
}

static void reply_ended(struct http_request *request, const struct lease *lease,
                        const struct lock_result *result)
{
    json_t *members = json_object();

    if (lease->locks != NULL)
        json_object_set_new(members, "locks", multi_locks_names_json(lease->locks));
    else
        set_text(members, "lock", lease->name);
    json_object_set_new(members, "lease_id", json_string(lease->id));
    json_object_set_new(members, "reason", json_string(result->reason));
    problem_reply(request, PROBLEM_LEASE_ENDED, members,
                  "this lease does not hold the lock, and its token is spent: use a new one");
}

/* NULL where the path says which lock it is about. */
static json_t *member_in_the_way(const struct lease *lease, const struct lock_result *result)
{
    if (lease->locks == NULL || result->in_the_way == 0)
        return NULL;
    return json_pack("{s:s}", "lock", name_in_the_way(lease, result));
}

void locks_reply_failure(struct http_request *request, const struct lease *lease,
                         const struct lock_result *result)
{
    switch (result->outcome) {
    case LOCK_BUSY:
        locks_reply_busy(request, lease, result);
        return;
    case LOCK_ENDED:
        reply_ended(request, lease, result);
        return;
    case LOCK_SESSION_ENDED:
        problem_reply(request, PROBLEM_SESSION_ENDED,
                      json_pack("{s:s}", "reason", result->reason),
                      "the session of this lease has ended: open a new one");
        return;
    case LOCK_REUSED:
        problem_reply(
            request, PROBLEM_TOKEN_REUSED, NULL,
            "Lease-Token: was used for another lock, kind, owner or session: use a new one");
        return;
    case LOCK_WRONG_KIND:
        problem_reply(request, PROBLEM_WRONG_KIND, member_in_the_way(lease, result),
                      "this name is in use in Redis as another kind of object");
        return;
    case LOCK_UPGRADE:
        problem_reply(request, PROBLEM_WRONG_KIND, member_in_the_way(lease, result),
                      "kind: this owner reads under this lock, so it would wait for itself: "
                      "release the read first");
        return;
    case LOCK_TOO_MANY_WAITERS:
        problem_reply(request, PROBLEM_TOO_MANY_WAITERS, NULL,
                      "too many requests wait here already");
        return;
    case LOCK_DRAINING:
        problem_reply(request, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
                      "this server is shutting down: ask again, elsewhere if you can");
        return;
    case LOCK_OUT_OF_MEMORY:
    case LOCK_NOT_EXECUTED:
    case LOCK_UNKNOWN:
        locks_reply_unavailable(request, result->outcome);
        return;
    case LOCK_NOT_FOUND:
    case LOCK_TOO_LARGE:
    case LOCK_GRANTED:
    case LOCK_HELD:
    case LOCK_RELEASED:
    case LOCK_UNLOCKED:
    case LOCK_FREE:
    case LOCK_STALE:
    case LOCK_LOOKED:
        break; /* no failure of any operation on a lease */
    }
    locks_reply_unavailable(request, LOCK_UNKNOWN);
}
