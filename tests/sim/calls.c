/* The requests for leases, sessions and other objects, as paths, queries and headers. */
#include "tests/sim/calls.h"

#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "tests/sim/ask.h"
#include "tests/sim/bytes.h"

enum { RESOURCES_MAX = 32, TEXT_SIZE = 512 };

void caller_init(struct caller *caller, const char *name, int number)
{
    snprintf(caller->name, sizeof(caller->name), "%s-%d", name, number);
    caller->chance = chance_make(world.seed, caller->name);
}

void make_token(struct chance *chance, char token[TOKEN_TEXT_SIZE])
{
    uuid_t bytes;

    chance_bytes(chance, bytes, sizeof(bytes));
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
    uuid_unparse_lower(bytes, token);
}

struct lease lease_make(struct caller *caller, const char *kind, const char *lock,
                        const struct session *session)
{
    struct lease lease = {
        .caller = caller, .kind = kind, .locks = {lock}, .lock_count = 1, .session = session};

    make_token(&caller->chance, lease.token);
    token_lease_id(lease.token, lease.id);
    return lease;
}

/* --- leases
 * ---------------------------------------------------------------------------------------- */

static void write_target(const struct lease *lease, struct request *request, const char *query)
{
    struct buffer uri = {0};

    if (lease->lock_count > 1)
        buffer_format(&uri, "/v1/multi-locks?%s", query);
    else if (strcmp(lease->kind, "permit") == 0)
        buffer_format(&uri, "/v1/permit-semaphores/%s/permit?%s", lease->locks[0], query);
    else
        buffer_format(&uri, "/v1/locks/%s?%s", lease->locks[0], query);
    snprintf(request->uri, sizeof(request->uri), "%.*s", (int)uri.len, uri.text);
    buffer_release(&uri);
}

static void learn(struct lease *lease, const struct asking *asking, enum result result)
{
    bool releases = strcmp(asking->verb, "release") == 0;

    lease->status = asking->answer.status;
    if (releases || result == RESULT_ENDED)
        lease->held_until_ns = 0;
    if (releases || result != RESULT_OK)
        return;
    lease->remaining_ms = number_in(&asking->answer, "remaining_ms");
    lease->held_until_ns = asking->began_ns + lease->remaining_ms * CLOCK_NS_PER_MS;
    lease->fencing[0] = number_in(&asking->answer, "fencing_token");
    for (size_t i = 0; lease->lock_count > 1 && i < lease->lock_count; i++)
        lease->fencing[i] = fencing_token_of(&asking->answer, lease->locks[i]);
}

static enum result ask_for_lease(struct lease *lease, struct asking *asking, const char *query)
{
    asking->caller = lease->caller;
    asking->lease = lease;
    asking->session = lease->session;
    if (asking->how.front == NULL)
        asking->how.front = lease->front;
    write_target(lease, &asking->request, query);
    memcpy(asking->request.lease_token, lease->token, sizeof(lease->token));
    enum result result = ask(asking);
    learn(lease, asking, result);
    json_decref(asking->answer.body);
    return result;
}

static void add_field(struct buffer *query, const char *name, const char *value)
{
    buffer_format(query, "%s%s=%s", query->len > 0 ? "&" : "", name, value);
}

static void add_integer(struct buffer *query, const char *name, int64_t value)
{
    char text[24];

    if (value < 0)
        return;
    snprintf(text, sizeof(text), "%lld", (long long)value);
    add_field(query, name, text);
}

/* A request that comes twice: something on the way has sent it again. */
struct doubled {
    struct caller caller;
    struct lease lease;
    struct session session;
    struct how how;
    int64_t after_ns;
};

static void ask_again(void *arg)
{
    struct doubled *doubled = arg;

    task_sleep(doubled->after_ns);
    ask_acquire(&doubled->lease, &doubled->how);
    world.doubled--;
    free(doubled);
}

static void double_request(const struct lease *lease, const struct how *how)
{
    struct doubled *doubled = zalloc(sizeof(*doubled));

    doubled->caller = *lease->caller;
    doubled->caller.chance = chance_make(chance_next(&lease->caller->chance), "doubled");
    doubled->lease = *lease;
    doubled->lease.caller = &doubled->caller;
    doubled->how = *how;
    doubled->how.is_double = true;
    doubled->after_ns = chance_between(&lease->caller->chance, 0, 400) * CLOCK_NS_PER_MS;
    if (lease->session != NULL) {
        doubled->session = *lease->session;
        doubled->lease.session = &doubled->session;
    }
    world.doubled++;
    task_start(ask_again, doubled, NULL);
}

enum result ask_acquire(struct lease *lease, const struct how *how)
{
    struct asking asking = {.verb = "acquire", .how = *how};
    struct buffer query = {0};
    char text[TEXT_SIZE];

    asking.request.method = "PUT";
    if (how->abandon_ns == 0 && !how->is_sweep && !how->is_double && !how->contends &&
        chance_below(&lease->caller->chance, 40) == 0)
        double_request(lease, how);
    if (strcmp(lease->kind, "permit") != 0 && strcmp(lease->kind, "lock") != 0)
        add_field(&query, "kind", lease->kind);
    add_integer(&query, "ttl_ms", how->ttl_ms);
    add_integer(&query, "wait_ms", how->wait_ms > 0 ? how->wait_ms : -1);
    if (lease->owner[0] != '\0')
        add_field(&query, "owner", lease->owner);
    for (size_t i = 0; lease->lock_count > 1 && i < lease->lock_count; i++)
        add_field(&query, "locks", lease->locks[i]);
    snprintf(text, sizeof(text), "%.*s", (int)query.len, query.len > 0 ? query.text : "");
    buffer_release(&query);
    if (lease->session != NULL)
        memcpy(asking.request.session_token, lease->session->token,
               sizeof(lease->session->token));
    return ask_for_lease(lease, &asking, text);
}

enum result ask_renew(struct lease *lease, int64_t ttl_ms)
{
    struct asking asking = {.verb = "renew",
                            .how = {.ttl_ms = ttl_ms},
                            .must_work = now_ns() < lease->held_until_ns};
    char query[40] = "";

    asking.request.method = "PATCH";
    if (ttl_ms >= 0)
        snprintf(query, sizeof(query), "ttl_ms=%lld", (long long)ttl_ms);
    return ask_for_lease(lease, &asking, query);
}

enum result ask_release(struct lease *lease)
{
    struct asking asking = {
        .verb = "release", .how = {.ttl_ms = -1}, .must_work = now_ns() < lease->held_until_ns};

    asking.request.method = "DELETE";
    return ask_for_lease(lease, &asking, "");
}

/* What the locks are for: a resource that refuses every fencing token below the highest that
 * was seen. A resource has no faults. */
void lease_use(const struct lease *lease)
{
    static struct {
        const char *lock;
        int64_t highest;
    } resources[RESOURCES_MAX];

    for (size_t i = 0; i < lease->lock_count; i++) {
        size_t at = 0;
        if (lease->fencing[i] == 0)
            continue;
        while (resources[at].lock != NULL && strcmp(resources[at].lock, lease->locks[i]) != 0)
            at++;
        resources[at].lock = lease->locks[i];
        bool accepted = lease->fencing[i] >= resources[at].highest;
        if (accepted)
            resources[at].highest = lease->fencing[i];
        record("resource",
               "\"lock\":\"%s\",\"lease\":\"%s\",\"t\":%lld,\"token\":%lld,\"accepted\":%s",
               lease->locks[i], lease->id, (long long)now_ns(), (long long)lease->fencing[i],
               accepted ? "true" : "false");
    }
}

/* --- everything else
 * -------------------------------------------------------------------------------- */

static enum result ask_of_session(struct asking *asking, struct session *session)
{
    asking->session = session;
    memcpy(asking->request.session_token, session->token, sizeof(session->token));
    return ask(asking);
}

enum result ask_session_open(struct caller *caller, struct session *session)
{
    struct asking asking = {
        .caller = caller, .verb = "session-open", .how = {.ttl_ms = session->ttl_ms}};

    asking.request.method = "POST";
    token_session_id(session->token, session->public_id);
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/v1/sessions?ttl_ms=%lld%s",
             (long long)session->ttl_ms, session->refuses ? "&on_deadlock=refuse" : "");
    enum result result = ask_of_session(&asking, session);
    json_decref(asking.answer.body);
    return result;
}

enum result ask_keep_alive(struct caller *caller, struct session *session, int64_t wait_ms)
{
    struct asking asking = {.caller = caller,
                            .verb = "keep-alive",
                            .how = {.ttl_ms = session->ttl_ms, .wait_ms = wait_ms}};
    char query[32] = "";

    asking.request.method = "POST";
    if (wait_ms > 0)
        snprintf(query, sizeof(query), "?wait_ms=%lld", (long long)wait_ms);
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/v1/sessions/%s/keep-alive%s",
             session->public_id, query);
    enum result result = ask_of_session(&asking, session);
    json_decref(asking.answer.body);
    return result;
}

enum result ask_session_end(struct caller *caller, struct session *session)
{
    struct asking asking = {.caller = caller, .verb = "session-end", .how = {.ttl_ms = -1}};

    asking.request.method = "DELETE";
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/v1/sessions/%s",
             session->public_id);
    enum result result = ask_of_session(&asking, session);
    json_decref(asking.answer.body);
    return result;
}

enum result ask_force_unlock(struct caller *caller, const char *lock)
{
    struct asking asking = {
        .caller = caller, .verb = "force", .how = {.ttl_ms = -1}, .lock = lock};

    asking.request.method = "POST";
    snprintf(asking.request.uri, sizeof(asking.request.uri),
             "/v1/locks/%s/force-unlock?reason=simulated", lock);
    enum result result = ask(&asking);
    json_decref(asking.answer.body);
    return result;
}

void probe_life(struct front *front)
{
    struct caller life = {.name = "life"};
    struct asking asking = {
        .caller = &life, .verb = "probe", .how = {.ttl_ms = -1, .front = front}};

    asking.request.method = "GET";
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/livez");
    ask(&asking);
    json_decref(asking.answer.body);
}

static void copy_header(char header[40], const char *value)
{
    if (value != NULL)
        snprintf(header, 40, "%s", value);
}

enum result ask_plain(struct caller *caller, struct plain *plain)
{
    struct asking asking = {.caller = caller, .verb = "probe", .how = plain->how};

    asking.request.method = plain->method;
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/v1/%s", plain->path);
    copy_header(asking.request.lease_token, plain->lease_token);
    copy_header(asking.request.session_token, plain->session_token);
    snprintf(asking.request.idempotency_key, sizeof(asking.request.idempotency_key), "%s",
             plain->idempotency_key);
    enum result result = ask(&asking);
    plain->status = asking.answer.status;
    if (plain->member != NULL)
        plain->number = number_in(&asking.answer, plain->member);
    json_decref(asking.answer.body);
    return result;
}

/* The lease of a holder, or its owner, or the client of Redisson. */
static const char *name_of_holder(json_t *holder)
{
    static const char *const members[] = {"lease_id", "owner", "redisson_holder"};

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const char *name = json_string_value(json_object_get(holder, members[i]));
        if (name != NULL)
            return name;
    }
    return "";
}

void ask_look(struct caller *caller, const char *lock)
{
    struct asking asking = {.caller = caller, .verb = "probe", .how = {.ttl_ms = -1}};
    struct buffer line = {0};
    json_t *holder;
    size_t i;

    asking.request.method = "GET";
    snprintf(asking.request.uri, sizeof(asking.request.uri), "/v1/locks/%s", lock);
    enum result result = ask(&asking);
    json_t *holders = json_object_get(asking.answer.body, "holders");
    json_array_foreach(holders, i, holder) {
        buffer_format(&line, "%s\"%s\"", i > 0 ? "," : "", name_of_holder(holder));
    }
    if (result == RESULT_OK)
        record("look",
               "\"lock\":\"%s\",\"t_inv\":%lld,\"t_ret\":%lld,\"waiters\":%lld,"
               "\"holders\":[%.*s]",
               lock, (long long)asking.began_ns, (long long)now_ns(),
               (long long)number_in(&asking.answer, "waiter_count"), (int)line.len,
               line.text != NULL ? line.text : "");
    buffer_release(&line);
    json_decref(asking.answer.body);
}

bool make_semaphore(const char *path, const char *name, int permits)
{
    struct request request = {.method = "PUT", .timeout_ns = TIMEOUT_NS};

    snprintf(request.uri, sizeof(request.uri), "/v1/%s/%s?permits=%d", path, name, permits);
    struct answer answer = http_ask(&world.fronts[0], &request);
    json_decref(answer.body);
    return answer.status == 200 || answer.status == 201;
}
