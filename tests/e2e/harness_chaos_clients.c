/* The clients of a chaos. */
#include "session_chaos.h"

enum {
    KEEP_ALIVE_MS = 300,
    /* A renewal comes at the latest when a quarter of the timeout is left, if one front end
     * dies; a machine that takes a part of that can make a lease lapse. */
    LATE_PARTS = 10
};

int chaos_timeout_ms(const struct chaos *chaos)
{
    return (int)patience_ms(chaos->plan->timeout_ms);
}

static int session_ms(const struct chaos *chaos)
{
    return (int)patience_ms(chaos->plan->session_ms);
}

static void violation(struct chaos_client *c, const char *format, ...) PRINTF_LIKE(2, 3);

static void violation(struct chaos_client *c, const char *format, ...)
{
    struct chaos *chaos = c->chaos;
    va_list args;

    pthread_mutex_lock(&chaos->mutex);
    if (chaos->violations++ == 0) {
        va_start(args, format);
        vsnprintf(chaos->first_trouble, sizeof(chaos->first_trouble), format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&chaos->mutex);
}

/* --- what a failover may lose ------------------------------------------------------------- */

void chaos_loss_begins(struct chaos *chaos)
{
    if (chaos->losses_len == CHAOS_LOSSES_MAX)
        FAIL("too many failovers");
    struct chaos_loss *loss = &chaos->losses[chaos->losses_len];
    loss->from_ms = now_ms() - patience_ms(chaos->plan->recent_ms);
    loss->to_ms = INT64_MAX;
    chaos->losses_len++;
}

void chaos_loss_ends(struct chaos *chaos)
{
    chaos->losses[chaos->losses_len - 1].to_ms = now_ms();
}

/* Whether a failover may have lost what was done at this time. */
static bool may_be_lost(const struct chaos_client *c, int64_t done_ms)
{
    const struct chaos *chaos = c->chaos;

    for (size_t i = 0; i < chaos->losses_len; i++)
        if (chaos->losses[i].from_ms <= done_ms && done_ms <= chaos->losses[i].to_ms)
            return true;
    return false;
}

/* --- deadlines ---------------------------------------------------------------------------- */

/* By what the last answer says of a lease. Where little time is left, the machine may have been
 * late before the answer: the lateness counts from an answer soon after a renewal. */
static void set_deadline(struct chaos_client *c, int i, const json_t *lease)
{
    int64_t left_ms = json_integer_value(json_object_get(lease, "remaining_ms"));

    c->deadline_ms[i] = c->sent_ms + left_ms;
    if (left_ms >= chaos_timeout_ms(c->chaos) / 2)
        c->late_ms[i] = late_ms();
}

/* Whether a lease that is not held any more has lapsed, on a machine that was late. */
static bool has_lapsed(struct chaos_client *c, int i)
{
    int64_t now = now_ms(), late = late_ms() - c->late_ms[i];

    if (now < c->deadline_ms[i])
        return false;
    print_message("client %d: lease %d lapsed %d ms after its grant: over for %d ms, the last "
                  "keep-alive %d ms ago, the machine late by %d ms since\n",
                  c->number, i, (int)(now - c->granted_ms[i]), (int)(now - c->deadline_ms[i]),
                  (int)(now - c->alive_ms), (int)late);
    if (late < chaos_timeout_ms(c->chaos) / LATE_PARTS)
        return false;
    c->lapses++;
    c->chaos->lapses++;
    return true;
}

/* --- one client --------------------------------------------------------------------------- */

/* The first definite answer of any front end; 0 when there was none for very long. */
static int ask(struct chaos_client *c, const char *method, const char *path,
               const char *lease_token)
{
    int64_t give_up = now_ms() + patience_ms(c->chaos->plan->patience_ms);
    int status;

    do {
        int port = c->chaos->ports[rand_r(&c->seed) % CHAOS_FRONTS];

        c->sent_ms = now_ms();
        status = rest_ask(&c->rest, port, method, path, lease_token, c->token, NULL);
        if (status != 0 && status != 503)
            return status;
        c->chaos->retries++;
        nap_ms(10);
    } while (now_ms() < give_up);
    violation(c, "client %d: %s %s: no answer: %d %s %.200s", c->number, method, path, status,
              c->rest.error, c->rest.answer);
    return 0;
}

/* Whether a session that has ended was over, on a machine that was late. */
static bool session_has_lapsed(struct chaos_client *c)
{
    int64_t past_ms = now_ms() - c->alive_ms - session_ms(c->chaos);
    int64_t late = late_ms() - c->alive_late_ms;

    if (past_ms < 0 || late < session_ms(c->chaos) / LATE_PARTS)
        return false;
    print_message("client %d: its session was over for %d ms, the machine late by %d ms since "
                  "the last keep-alive\n",
                  c->number, (int)past_ms, (int)late);
    c->chaos->lapses++;
    return true;
}

/* 410 for the session; false: neither a failover explains it nor a late machine. */
static bool session_is_lost(struct chaos_client *c, int status)
{
    if (status != 410 ||
        strcmp(rest_str(&c->rest, "type"), "urn:rlockd:problem:session-ended") != 0 ||
        !(may_be_lost(c, c->born_ms) || session_has_lapsed(c)))
        return false;
    c->is_lost = true;
    c->chaos->sessions_lost++;
    return true;
}

/* NULL: it is not in the list. */
static json_t *find_in(const struct chaos_client *c, const char *list, const char *lease_id)
{
    json_t *leases = json_object_get(c->rest.json, list), *lease;
    size_t i;

    json_array_foreach(leases, i, lease) {
        const char *id = json_string_value(json_object_get(lease, "lease_id"));
        if (id != NULL && strcmp(id, lease_id) == 0)
            return lease;
    }
    return NULL;
}

/* A lease that the client holds is listed, or told as lost where a failover may have lost it,
 * or after its deadline. */
static void check_lease(struct chaos_client *c, int i, const char *lease_id, bool *has)
{
    json_t *lease = find_in(c, "leases", lease_id);
    bool is_told = find_in(c, "lost", lease_id) != NULL;

    if (!*has)
        return;
    if (lease != NULL && !is_told) {
        if (json_object_get(lease, "remaining_ms") != NULL)
            set_deadline(c, i, lease);
        return; /* or its state is unknown */
    }
    if (!is_told || !(may_be_lost(c, c->granted_ms[i]) || has_lapsed(c, i)))
        violation(c,
                  "client %d: lease %s, granted %d ms ago, %d ms before its deadline: %.350s",
                  c->number, lease_id, (int)(now_ms() - c->granted_ms[i]),
                  (int)(c->deadline_ms[i] - now_ms()), c->rest.answer);
    *has = false;
    c->chaos->leases_lost++;
}

static void check_leases(struct chaos_client *c)
{
    size_t leases = c->holds_shared;

    if (json_object_get(c->rest.json, "leases") == NULL)
        return; /* they could not be read */
    for (int i = 0; i < CHAOS_OWN_LOCKS; i++) {
        leases += c->has_own[i];
        check_lease(c, i, c->own_ids[i], &c->has_own[i]);
    }
    check_lease(c, CHAOS_OWN_LOCKS, c->shared_id, &c->holds_shared);
    /* A failover may also undo a release. */
    if (c->chaos->plan->recent_ms == 0 && c->lapses == 0 &&
        (rest_len(&c->rest, "leases") != leases || rest_len(&c->rest, "lost") != 0))
        violation(c, "client %d: not %zu leases: %.400s", c->number, leases, c->rest.answer);
}

static void stay_alive(struct chaos_client *c)
{
    char path[400];
    int64_t from_ms = now_ms(), from_late_ms = late_ms();
    int len = snprintf(path, sizeof(path), "/v1/sessions/%s/keep-alive?wait_ms=%d", c->id,
                       rand_r(&c->seed) % 4 == 0 ? 200 : 0);
    const char *before = "&held=";

    for (int i = 0; c->chaos->plan->recent_ms > 0 && i <= CHAOS_OWN_LOCKS; i++) {
        if (i < CHAOS_OWN_LOCKS ? !c->has_own[i] : !c->holds_shared)
            continue;
        len += snprintf(path + len, sizeof(path) - (size_t)len, "%s%s", before,
                        i < CHAOS_OWN_LOCKS ? c->own_ids[i] : c->shared_id);
        before = ",";
    }
    int status = ask(c, "POST", path, NULL);
    c->chaos->keep_alives++;
    if (session_is_lost(c, status))
        return;
    if (status != 200)
        violation(c, "client %d, %d ms after the last keep-alive: %d %.300s", c->number,
                  (int)(from_ms - c->alive_ms), status, c->rest.answer);
    else
        check_leases(c);
    c->alive_ms = from_ms;
    c->alive_late_ms = from_late_ms;
}

static bool wants_keep_alive(const struct chaos_client *c)
{
    return !c->is_lost && now_ms() >= c->alive_ms + patience_ms(KEEP_ALIVE_MS);
}

/* Took a session's lease: until when it may be lost counts from the answer. */
static void take_own(struct chaos_client *c, int i)
{
    char path[96];

    uuid_make(c->own[i]);
    snprintf(path, sizeof(path), "/v1/locks/own-%d-%d-%d%s", c->number, c->lives, i,
             i == 0 ? "?owner=me" : "");
    int status = ask(c, "PUT", path, c->own[i]);
    c->chaos->confirmed += status == 200;
    snprintf(c->own_ids[i], UUID_SIZE, "%s", rest_str(&c->rest, "lease_id"));
    c->granted_ms[i] = now_ms();
    set_deadline(c, i, c->rest.json);
    c->has_own[i] = status == 201 || status == 200;
    if (!c->has_own[i] && !session_is_lost(c, status))
        violation(c, "%s was not granted: %d %.300s", path, status, c->rest.answer);
}

static void be_born(struct chaos_client *c)
{
    char path[96];

    uuid_make(c->token);
    snprintf(path, sizeof(path), "/v1/sessions?ttl_ms=%d&name=chaos-%d", session_ms(c->chaos),
             c->number);
    c->alive_ms = now_ms();
    c->alive_late_ms = late_ms();
    int status = ask(c, "POST", path, NULL);
    c->born_ms = now_ms();
    c->is_lost = false;
    c->lapses = 0;
    memset(c->has_own, 0, sizeof(c->has_own));
    snprintf(c->id, sizeof(c->id), "%s", rest_str(&c->rest, "session_id"));
    if (status != 201 && status != 200)
        violation(c, "a session was not opened: %d %.300s", status, c->rest.answer);
    for (int i = 0; i < CHAOS_OWN_LOCKS && !c->is_lost; i++)
        take_own(c, i);
    c->chaos->births++;
    c->lives++;
}

/* All that the session holds has to be gone by then; `shared` < 0: no shared lock. */
static void bury(struct chaos_client *c, int64_t by_ms, int shared)
{
    struct chaos *chaos = c->chaos;

    pthread_mutex_lock(&chaos->mutex);
    for (int i = 0; i < CHAOS_OWN_LOCKS + (shared >= 0); i++) {
        if (chaos->dead_len == CHAOS_DEAD_MAX)
            break;
        struct chaos_dead *dead = &chaos->dead[chaos->dead_len++];

        if (i == CHAOS_OWN_LOCKS)
            snprintf(dead->lock, sizeof(dead->lock), "shared-%d", shared);
        else
            snprintf(dead->lock, sizeof(dead->lock), "own-%d-%d-%d", c->number, c->lives - 1,
                     i);
        if (i == 0)
            snprintf(dead->holder, sizeof(dead->holder), "%s:me", c->id);
        else
            snprintf(dead->holder, sizeof(dead->holder), "%s:0",
                     i == CHAOS_OWN_LOCKS ? c->shared_id : c->own_ids[i]);
        dead->by_ms = by_ms;
    }
    pthread_mutex_unlock(&chaos->mutex);
}

static int64_t gone_by_ms(const struct chaos *chaos)
{
    return now_ms() + session_ms(chaos) + chaos_timeout_ms(chaos) +
           patience_ms(chaos->plan->slack_ms);
}

/* Leases that the session held for certain until now. */
static int count_certain(const struct chaos_client *c)
{
    int64_t now = now_ms();
    int count = 0;

    for (int i = 0; i < CHAOS_OWN_LOCKS; i++)
        count += c->has_own[i] && now < c->deadline_ms[i];
    return count;
}

static void end_well(struct chaos_client *c)
{
    bool may_lose = c->chaos->plan->recent_ms > 0;
    char path[96];

    snprintf(path, sizeof(path), "/v1/sessions/%s", c->id);
    int status = ask(c, "DELETE", path, NULL);
    if (session_is_lost(c, status))
        return;
    if (status != 200 || (!may_lose && rest_int(&c->rest, "released") < count_certain(c)))
        violation(c, "client %d: the end: %d %.300s", c->number, status, c->rest.answer);
    c->chaos->ends++;
    bury(c, may_lose ? gone_by_ms(c->chaos) : now_ms() + 1000, -1);
}

/* Enters the section that the shared lock protects. False: the lease is too old for that. */
static bool enter(struct chaos_client *c, int lock)
{
    struct chaos_arena *arena = &c->chaos->arenas[lock];
    json_int_t fence = rest_int(&c->rest, "fencing_token");

    pthread_mutex_lock(&arena->mutex);
    int64_t now = now_ms();
    bool in_time = now < c->deadline_ms[CHAOS_OWN_LOCKS];
    if (in_time && fence <= arena->last_fence)
        violation(c, "shared-%d: fencing token %lld after %lld", lock, (long long)fence,
                  (long long)arena->last_fence);
    if (in_time && arena->holder != NULL && now < arena->deadline_ms &&
        !may_be_lost(c, arena->entered_ms))
        violation(c, "shared-%d: client %d is inside for %d ms, for %d ms more", lock,
                  arena->holder->number, (int)(now - arena->entered_ms),
                  (int)(arena->deadline_ms - now));
    if (in_time) {
        c->chaos->overlaps += arena->holder != NULL;
        arena->holder = c;
        arena->entered_ms = now;
        arena->deadline_ms = c->deadline_ms[CHAOS_OWN_LOCKS];
        arena->last_fence = fence;
    }
    pthread_mutex_unlock(&arena->mutex);
    return in_time;
}

/* Inside, alive, and at the latest until the deadline. True: still a holder. */
static bool linger(struct chaos_client *c, struct chaos_arena *arena, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end && !c->chaos->over; nap_ms(10)) {
        if (wants_keep_alive(c))
            stay_alive(c);
        if (!c->holds_shared || now_ms() >= c->deadline_ms[CHAOS_OWN_LOCKS])
            return false;
        pthread_mutex_lock(&arena->mutex);
        if (arena->holder == c)
            arena->deadline_ms = c->deadline_ms[CHAOS_OWN_LOCKS];
        pthread_mutex_unlock(&arena->mutex);
    }
    return now_ms() < c->deadline_ms[CHAOS_OWN_LOCKS];
}

static void leave(struct chaos_client *c, struct chaos_arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    if (arena->holder == c)
        arena->holder = NULL;
    pthread_mutex_unlock(&arena->mutex);
}

/* In the middle of what a shared lock protects. */
static void critical(struct chaos_client *c, int lock)
{
    struct chaos *chaos = c->chaos;
    struct chaos_arena *arena = &chaos->arenas[lock];

    if (!enter(c, lock))
        return;
    long seen = arena->counter;
    if (linger(c, arena,
               rand_r(&c->seed) % 16 == 0 ? (int)patience_ms(chaos->plan->hold_ms)
                                          : rand_r(&c->seed) % 40)) {
        arena->counter = seen + 1;
        arena->grants++;
    }
    leave(c, arena);
}

static void release(struct chaos_client *c, int lock, const char *token)
{
    bool is_told = !c->holds_shared; /* that the lease is lost */
    char path[96];

    c->holds_shared = false;
    snprintf(path, sizeof(path), "/v1/locks/shared-%d", lock);
    int status = ask(c, "DELETE", path, token);
    if (status != 200 &&
        !(status == 410 && (is_told || may_be_lost(c, c->granted_ms[CHAOS_OWN_LOCKS]) ||
                            has_lapsed(c, CHAOS_OWN_LOCKS))))
        violation(c, "shared-%d was not there to be released: %d %.300s", lock, status,
                  c->rest.answer);
}

/* Holds a shared lock for a while. True: still alive. */
static bool hold(struct chaos_client *c, int lock, const char *token)
{
    struct chaos *chaos = c->chaos;

    snprintf(c->shared_id, sizeof(c->shared_id), "%s", rest_str(&c->rest, "lease_id"));
    c->granted_ms[CHAOS_OWN_LOCKS] = now_ms();
    set_deadline(c, CHAOS_OWN_LOCKS, c->rest.json);
    c->holds_shared = true;
    critical(c, lock);
    if (rand_r(&c->seed) % chaos->plan->death_odds == 0 &&
        !chaos->over) { /* it dies, and releases nothing */
        c->holds_shared = false;
        chaos->deaths++;
        bury(c, gone_by_ms(chaos), lock);
        return false;
    }
    release(c, lock, token);
    return !c->is_lost;
}

/* False: it died. */
static bool pass_on(struct chaos_client *c)
{
    int lock = rand_r(&c->seed) % CHAOS_SHARED_LOCKS;
    int64_t asked_ms = now_ms(), late = late_ms();
    char path[96], token[UUID_SIZE];

    uuid_make(token);
    snprintf(path, sizeof(path), "/v1/locks/shared-%d?wait_ms=250", lock);
    int status = ask(c, "PUT", path, token);
    c->chaos->confirmed += status == 200;
    if (status == 200 || status == 201)
        return hold(c, lock, token);
    if (session_is_lost(c, status))
        return false;
    /* Granted, not answered, and over before the request came again. */
    c->deadline_ms[CHAOS_OWN_LOCKS] = asked_ms + chaos_timeout_ms(c->chaos);
    c->late_ms[CHAOS_OWN_LOCKS] = late;
    c->granted_ms[CHAOS_OWN_LOCKS] = asked_ms;
    if (status != 423 &&
        !(status == 410 && (may_be_lost(c, asked_ms) || has_lapsed(c, CHAOS_OWN_LOCKS))))
        violation(c, "%s: %d %.300s", path, status, c->rest.answer);
    return true;
}

void *chaos_client_run(void *arg)
{
    struct chaos_client *c = arg;
    bool alive = false, has_ended = false;

    rest_init(&c->rest);
    while (!c->chaos->over && c->chaos->violations == 0) {
        be_born(c);
        alive = !c->is_lost;
        for (int i = 5 + rand_r(&c->seed) % 20; i > 0 && alive && !c->chaos->over; i--) {
            if (wants_keep_alive(c))
                stay_alive(c);
            alive = !c->is_lost && pass_on(c);
        }
        has_ended = alive && !c->chaos->over;
        if (has_ended)
            end_well(c);
    }
    /* The clients that live to the end lost nothing. */
    if (alive && !has_ended && c->chaos->violations == 0 &&
        now_ms() < c->alive_ms + session_ms(c->chaos) / 2)
        stay_alive(c);
    rest_free(&c->rest);
    return NULL;
}
