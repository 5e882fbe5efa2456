/* The conversation with rlockd about one lease. Each request is safe to repeat at any server.
 */
#include "client/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/boottime.h"
#include "client/lease_body.h"

enum {
    WAIT_MAX_MS = 55000, /* --max-wait-ms of a server that was not told otherwise */
    ANSWER_MS = 5000,    /* for an answer, beyond the time for which the server holds it back */
    END_MS = 2000,       /* for the answer to a request that gives up or releases */
    GIVE_UP_MS = 10000,
    RETRY_MS = 1000, /* after 429 */
    RETRY_MAX_MS = 5000,
};

bool lease_init(struct lease *lease, struct http *http, const struct settings *settings,
                enum lease_keeper keeper)
{
    *lease = (struct lease){
        .http = http, .settings = settings, .keeper = keeper, .path = lease_path(settings)};
    lease->wait_max_ms = WAIT_MAX_MS;
    if (keeper == KEEPER_SESSION && settings->ttl_ms * 2 / 5 < WAIT_MAX_MS) {
        lease->wait_max_ms = settings->ttl_ms * 2 / 5;
    }
    return lease->path && token_make(lease->session_token) && token_make(lease->token);
}

void lease_release_memory(struct lease *lease)
{
    json_decref(lease->grant);
    free(lease->path);
    *lease = (struct lease){0};
}

static const char *text_of(json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text ? text : "";
}

static int64_t number_of(json_t *object, const char *member)
{
    return json_integer_value(json_object_get(object, member));
}

static struct http_request request_of(const struct lease *lease, const char *method,
                                      json_t *body)
{
    bool by_session = lease->keeper == KEEPER_SESSION;

    return (struct http_request){.method = method,
                                 .path = lease->path,
                                 .session_token = by_session ? lease->session_token : NULL,
                                 .lease_token = lease->token,
                                 .body = body,
                                 .timeout_ms = ANSWER_MS,
                                 .wanted = "lease_id"};
}

/* Why a lease was lost: after a force-unlock also by whom, and for which reason. */
static void set_detail(struct lease *lease, const char *detail, json_t *loss)
{
    const char *reason = text_of(loss, "reason");

    lease->was_forced = strcmp(reason, "forced") == 0;
    const char *forced_by = text_of(loss, "forced_by");
    const char *forced_reason = text_of(loss, "forced_reason");

    snprintf(lease->detail, sizeof(lease->detail), "%s%s%s%s%s%s%s", detail,
             *reason ? ": " : "", reason, *forced_by ? " by " : "", forced_by,
             *forced_reason ? ": " : "", forced_reason);
}

/* The outcome of an answer that grants nothing. */
static enum lease_outcome refuse(struct lease *lease, const struct http_answer *answer)
{
    const char *detail = text_of(answer->body, "detail");
    const char *note = text_of(json_object_get(answer->body, "holder"), "note");

    set_detail(lease, detail, answer->body);
    if (*note) {
        snprintf(lease->detail, sizeof(lease->detail), "%s: %s", detail, note);
    }
    switch (answer->status) {
    case 401:
    case 403:
        return LEASE_REFUSED;
    case 410:
        return LEASE_LOST;
    case 423:
    case 429:
        return LEASE_BUSY;
    }
    return LEASE_INVALID;
}

static enum lease_outcome ask(struct lease *lease, const struct http_request *request,
                              struct http_answer *answer, int64_t until)
{
    switch (http_outlast(lease->http, request, answer, until)) {
    case HTTP_INTERRUPTED:
        return LEASE_INTERRUPTED;
    case HTTP_NO_ANSWER:
    case HTTP_UNKNOWN: /* its token makes every request repeatable */
        snprintf(lease->detail, sizeof(lease->detail), "%s", http_trouble(lease->http));
        return LEASE_UNREACHABLE;
    case HTTP_ANSWERED:
        break;
    }
    return answer->status < 300 ? LEASE_HELD : refuse(lease, answer);
}

/* 200 instead of 201: a repetition has found the session that an earlier attempt has opened,
 * and has extended nothing. */
static int64_t session_kept_at(const struct http_answer *answer, int64_t ttl_ms)
{
    json_t *rest = json_object_get(answer->body, "remaining_ms");
    bool was_open = answer->status == 200 && json_is_integer(rest);
    int64_t used_ms = was_open ? ttl_ms - json_integer_value(rest) : 0;

    return answer->sent_at - (used_ms > 0 ? used_ms : 0);
}

static enum lease_outcome open_session(struct lease *lease, int64_t until)
{
    struct http_answer answer;
    struct http_request request = request_of(lease, "POST",
                                             lease_session_body(lease->settings));

    request.path = "/v1/sessions";
    request.lease_token = NULL;
    request.wanted = "session_id";
    enum lease_outcome outcome = ask(lease, &request, &answer, until);
    json_decref(request.body);
    if (outcome == LEASE_HELD) {
        snprintf(lease->session_id, sizeof(lease->session_id), "%s",
                 text_of(answer.body, "session_id"));
        lease->kept_at = session_kept_at(&answer, lease->settings->ttl_ms);
    }
    http_answer_clear(&answer);
    return outcome;
}

/* Counted from before the request was sent, and from before the session was last kept alive. */
static void begin(struct lease *lease, struct http_answer *answer)
{
    int64_t deadline = answer->sent_at + number_of(answer->body, "remaining_ms");
    int64_t session_deadline = lease->kept_at + lease->settings->ttl_ms;

    lease->granted_at = answer->received_at;
    snprintf(lease->lease_id, sizeof(lease->lease_id), "%s", text_of(answer->body, "lease_id"));
    if (lease->keeper == KEEPER_SESSION && session_deadline < deadline) {
        deadline = session_deadline;
    }
    lease->deadline = deadline;
    json_decref(lease->grant);
    lease->grant = json_incref(answer->body);
}

/* One request that waits. A session wants a keep-alive in between, so it waits for less than
 * half of the session's time. */
static enum lease_outcome acquire_once(struct lease *lease, int64_t until, bool looks_first,
                                       struct http_answer *answer)
{
    int64_t left = until - boottime_ms();
    int64_t wait_ms = lease->wait_max_ms < left ? lease->wait_max_ms : left;

    wait_ms = looks_first || wait_ms < 0 ? 0 : wait_ms;
    struct http_request request = request_of(lease, "PUT", lease_acquire_body(lease, wait_ms));
    request.timeout_ms = wait_ms + ANSWER_MS;
    request.waits = wait_ms > 0;
    lease->is_asked_for = true;
    enum lease_outcome outcome = ask(lease, &request, answer, until);
    json_decref(request.body);
    return outcome;
}

/* A server may allow shorter waits only, and says so by a refusal. */
static bool waits_too_long(struct lease *lease)
{
    bool too_long = strncmp(lease->detail, "wait_ms:", 8) == 0 && lease->wait_max_ms > 1;

    lease->wait_max_ms /= too_long ? 2 : 1;
    return too_long;
}

/* A request that was refused without having waited is not repeated at once. */
static bool pause_after(struct lease *lease, const struct http_answer *answer, int64_t until)
{
    int64_t pause_ms = answer->retry_after_ms ? answer->retry_after_ms : RETRY_MS;
    int64_t at = boottime_ms() + (pause_ms > RETRY_MAX_MS ? RETRY_MAX_MS : pause_ms);

    return answer->status != 429 || http_pause(lease->http, at < until ? at : until);
}

/* With few requests a second a keep-alive after each refusal would leave none for the lock. */
static bool is_keep_alive_due(const struct lease *lease)
{
    return boottime_ms() - lease->kept_at >= lease->settings->ttl_ms / 3;
}

static enum lease_outcome acquire(struct lease *lease, int64_t until,
                                  void (*busy)(struct lease *, json_t *))
{
    bool looks_first = busy != NULL;
    struct http_answer answer;

    for (;;) {
        enum lease_outcome outcome = acquire_once(lease, until, looks_first, &answer);
        if (outcome == LEASE_INVALID && waits_too_long(lease)) {
            http_answer_clear(&answer);
            continue;
        }
        if (outcome == LEASE_HELD) {
            begin(lease, &answer);
        }
        if (outcome != LEASE_BUSY || boottime_ms() >= until) {
            http_answer_clear(&answer);
            return outcome;
        }
        if (busy) {
            busy(lease, answer.body);
        }
        bool was_refused = answer.status == 429;
        bool went_on = pause_after(lease, &answer, until);
        http_answer_clear(&answer);
        if (!went_on) {
            return LEASE_INTERRUPTED;
        }
        looks_first = false;
        if (lease->keeper == KEEPER_SESSION && (!was_refused || is_keep_alive_due(lease))) {
            outcome = lease_prove(lease, 0, ANSWER_MS);
        }
        if (outcome != LEASE_HELD && outcome != LEASE_UNREACHABLE && outcome != LEASE_BUSY) {
            return outcome;
        }
    }
}

enum lease_outcome lease_acquire(struct lease *lease, int64_t until,
                                 void (*busy)(struct lease *, json_t *))
{
    enum lease_outcome outcome = lease->keeper == KEEPER_SESSION ? open_session(lease, until)
                                                                 : LEASE_HELD;

    return outcome == LEASE_HELD ? acquire(lease, until, busy) : outcome;
}

static json_t *find_lease(const struct lease *lease, json_t *kept)
{
    size_t index;
    json_t *entry;

    json_array_foreach(json_object_get(kept, "leases"), index, entry) {
        if (strcmp(text_of(entry, "lease_id"), lease->lease_id) == 0) {
            return entry;
        }
    }
    return NULL;
}

static void note_loss(struct lease *lease, json_t *kept)
{
    size_t index;
    json_t *entry, *loss = NULL;

    json_array_foreach(json_object_get(kept, "lost"), index, entry) {
        if (strcmp(text_of(entry, "lease_id"), lease->lease_id) == 0) {
            loss = entry;
        }
    }
    set_detail(lease, "the server does not list the lease", loss);
}

/* How long after its request arrived the server looked at the leases: the session's time, which
 * counts from the arrival, tells. An answer that was only late on its way proves nothing of
 * that. */
static int64_t held_back_ms(json_t *kept, int64_t wait_ms)
{
    int64_t used_ms = number_of(kept, "ttl_ms") - number_of(kept, "remaining_ms");

    return used_ms < 0 ? 0 : used_ms < wait_ms ? used_ms : wait_ms;
}

/* docs/guide.md, Sessions: how long the answer to a keep-alive proves the lease. */
static enum lease_outcome take_proof(struct lease *lease, const struct http_answer *answer,
                                     int64_t wait_ms)
{
    json_t *kept = answer->body, *own = find_lease(lease, kept);
    bool was_held_back = !json_is_true(json_object_get(kept, "draining")) &&
                         json_array_size(json_object_get(kept, "lost")) == 0 &&
                         answer->received_at - answer->sent_at >= wait_ms;

    lease->kept_at = answer->sent_at;
    if (!lease->grant) { /* while it waits */
        return LEASE_HELD;
    }
    if (!json_object_get(kept, "leases") || strcmp(text_of(own, "state"), "unknown") == 0) {
        set_detail(lease, "the server could not ask Redis whether the lease is held", NULL);
        http_next_server(lease->http);
        return LEASE_UNREACHABLE;
    }
    if (!own) {
        note_loss(lease, kept);
        return LEASE_LOST;
    }
    int64_t session_ms = number_of(kept, "remaining_ms");
    int64_t lease_ms = number_of(own, "remaining_ms");
    lease->deadline = answer->sent_at + (was_held_back ? held_back_ms(kept, wait_ms) : 0) +
                      (session_ms < lease_ms ? session_ms : lease_ms);
    if (json_is_true(json_object_get(kept, "draining"))) {
        http_next_server(lease->http);
    }
    return LEASE_HELD;
}

static enum lease_outcome send_proof(struct lease *lease, const struct http_request *request,
                                     struct http_answer *answer)
{
    enum http_outcome outcome = http_ask(lease->http, request, answer);

    if (outcome == HTTP_INTERRUPTED) {
        return LEASE_INTERRUPTED;
    }
    if (outcome == HTTP_ANSWERED && answer->status < 300) {
        return LEASE_HELD;
    }
    /* Too many requests, and what a server in trouble says, prove neither. */
    if (outcome == HTTP_ANSWERED && answer->status < 500 && answer->status != 429) {
        return refuse(lease, answer);
    }
    snprintf(lease->detail, sizeof(lease->detail), "%s", http_trouble(lease->http));
    http_next_server(lease->http);
    return LEASE_UNREACHABLE;
}

static enum lease_outcome keep_alive(struct lease *lease, int64_t wait_ms, int64_t timeout_ms)
{
    struct http_answer answer;
    char path[128];
    struct http_request request = {.method = "POST",
                                   .path = path,
                                   .session_token = lease->session_token,
                                   .timeout_ms = wait_ms + timeout_ms,
                                   .wanted = "session_id"};

    snprintf(path, sizeof(path), "/v1/sessions/%s/keep-alive", lease->session_id);
    request.body = json_pack("{sI}", "wait_ms", (json_int_t)wait_ms);
    if (lease->grant) {
        json_object_set_new(request.body, "held", json_pack("[s]", lease->lease_id));
    }
    enum lease_outcome outcome = send_proof(lease, &request, &answer);
    if (outcome == LEASE_HELD) {
        outcome = take_proof(lease, &answer, wait_ms);
    }
    json_decref(request.body);
    http_answer_clear(&answer);
    return outcome;
}

static enum lease_outcome renew(struct lease *lease, int64_t timeout_ms)
{
    struct http_answer answer;
    json_t *body = json_pack("{sI}", "ttl_ms", (json_int_t)lease->settings->ttl_ms);
    struct http_request request = request_of(lease, "PATCH", body);

    request.timeout_ms = timeout_ms;
    request.wanted = "remaining_ms";
    enum lease_outcome outcome = send_proof(lease, &request, &answer);
    if (outcome == LEASE_HELD) {
        lease->deadline = answer.sent_at + number_of(answer.body, "remaining_ms");
    }
    json_decref(body);
    http_answer_clear(&answer);
    return outcome;
}

enum lease_outcome lease_prove(struct lease *lease, int64_t wait_ms, int64_t timeout_ms)
{
    return lease->keeper == KEEPER_SESSION ? keep_alive(lease, wait_ms, timeout_ms)
                                           : renew(lease, timeout_ms);
}

int64_t lease_watchdog_ms(const struct lease *lease)
{
    return lease->keeper == KEEPER_SESSION ? number_of(lease->grant, "ttl_ms") : 0;
}

/* Ends the session, which releases its lease; `released` says how many leases it still had. A
 * repetition gets the same answer. */
static enum lease_outcome end_session(struct lease *lease, int64_t until)
{
    struct http_answer answer;
    char path[128];
    struct http_request request = {.method = "DELETE",
                                   .path = path,
                                   .session_token = lease->session_token,
                                   .timeout_ms = END_MS,
                                   .wanted = "released"};

    snprintf(path, sizeof(path), "/v1/sessions/%s", lease->session_id);
    enum lease_outcome outcome = ask(lease, &request, &answer, until);
    if (outcome == LEASE_HELD && number_of(answer.body, "released") < 1) {
        snprintf(lease->detail, sizeof(lease->detail), "its session had no lease any more");
        outcome = LEASE_LOST;
    }
    http_answer_clear(&answer);
    return outcome == LEASE_INVALID ? LEASE_LOST : outcome;
}

static enum lease_outcome delete_lease(struct lease *lease, int64_t until)
{
    struct http_answer answer;
    struct http_request request = request_of(lease, "DELETE", NULL);
    request.timeout_ms = END_MS;
    enum lease_outcome outcome = ask(lease, &request, &answer, until);

    http_answer_clear(&answer);
    return outcome;
}

enum lease_outcome lease_extend(struct lease *lease, int64_t ttl_ms, int64_t until)
{
    struct http_answer answer;
    json_t *body = json_pack("{sI}", "ttl_ms", (json_int_t)ttl_ms);
    struct http_request request = request_of(lease, "PATCH", body);
    enum lease_outcome outcome = ask(lease, &request, &answer, until);

    if (outcome == LEASE_HELD) {
        json_decref(lease->grant);
        lease->grant = json_incref(answer.body);
    }
    json_decref(body);
    http_answer_clear(&answer);
    return outcome;
}

static enum lease_outcome release(struct lease *lease, int64_t until)
{
    int64_t rest_ms = lease->granted_at + lease->settings->at_least_ms - boottime_ms();

    if (lease->keeper == KEEPER_SESSION) {
        return end_session(lease, until);
    }
    if (rest_ms < 100) { /* the shortest ttl_ms that the server takes */
        return delete_lease(lease, until);
    }
    return lease_extend(lease, rest_ms, until);
}

enum lease_outcome lease_release(struct lease *lease, int64_t until)
{
    lease->is_asked_for = false;
    lease->was_forced = false;
    enum lease_outcome outcome = release(lease, until);
    if (outcome != LEASE_LOST || lease->was_forced || boottime_ms() < until) {
        return outcome;
    }
    snprintf(lease->detail, sizeof(lease->detail), "by the time of the answer it had expired");
    return LEASE_UNREACHABLE;
}

bool lease_give_up(struct lease *lease)
{
    int64_t until = boottime_ms() + GIVE_UP_MS;
    enum lease_outcome outcome = LEASE_HELD;
    char detail[sizeof(lease->detail)]; /* says why it is given up */

    memcpy(detail, lease->detail, sizeof(detail));
    if (lease->keeper == KEEPER_SESSION && *lease->session_id) {
        int64_t ends_by_itself = lease->kept_at + lease->settings->ttl_ms;
        until = ends_by_itself < until ? ends_by_itself : until;
        outcome = end_session(lease, until);
    }
    /* Without its session a lease that was granted has to be released by its own token. */
    if (lease->is_asked_for && (lease->keeper == KEEPER_RENEWAL || outcome == LEASE_LOST)) {
        outcome = delete_lease(lease, until);
    }
    memcpy(lease->detail, detail, sizeof(detail));
    lease->is_asked_for = false;
    return outcome == LEASE_HELD || outcome == LEASE_LOST;
}
