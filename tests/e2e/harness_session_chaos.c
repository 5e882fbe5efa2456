/* The clients of a chaos, and what has to be true at its end. */
#include "session_chaos.h"

enum { KEEP_ALIVE_MS = 300 };

struct client {
    struct chaos *chaos;
    int number, lives;
    unsigned seed;
    pthread_t thread;
    struct rest rest;
    char token[UUID_SIZE], id[UUID_SIZE];
    char own[CHAOS_OWN_LOCKS][UUID_SIZE], own_ids[CHAOS_OWN_LOCKS][UUID_SIZE];
    bool has_own[CHAOS_OWN_LOCKS];
    int64_t granted_ms[CHAOS_OWN_LOCKS + 1]; /* the last one of the shared lock */
    int64_t born_ms;
    int64_t alive_ms; /* when the last keep-alive that was answered had been sent */
    bool holds_shared;
    bool is_lost; /* a failover took the session */
    char shared_id[UUID_SIZE];
};

/* On a busy machine a renewal comes late, and a lease that is lost then is no defect. */
static int timeout_ms(const struct chaos *chaos)
{
    return (int)patience_ms(chaos->plan->timeout_ms);
}

static int session_ms(const struct chaos *chaos)
{
    return (int)patience_ms(chaos->plan->session_ms);
}

static void violation(struct client *c, const char *format, ...) PRINTF_LIKE(2, 3);

static void violation(struct client *c, const char *format, ...)
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
static bool may_be_lost(const struct client *c, int64_t done_ms)
{
    const struct chaos *chaos = c->chaos;

    for (size_t i = 0; i < chaos->losses_len; i++)
        if (chaos->losses[i].from_ms <= done_ms && done_ms <= chaos->losses[i].to_ms)
            return true;
    return false;
}

/* --- one client --------------------------------------------------------------------------- */

/* The first definite answer of any front end; 0 when there was none for very long. */
static int ask(struct client *c, const char *method, const char *path, const char *lease_token)
{
    int64_t give_up = now_ms() + patience_ms(c->chaos->plan->patience_ms);
    int status;

    do {
        int port = c->chaos->ports[rand_r(&c->seed) % CHAOS_FRONTS];

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

/* 410 for the session; false: it is none that a failover explains. */
static bool session_is_lost(struct client *c, int status)
{
    if (status != 410 ||
        strcmp(rest_str(&c->rest, "type"), "urn:rlockd:problem:session-ended") != 0 ||
        !may_be_lost(c, c->born_ms))
        return false;
    c->is_lost = true;
    c->chaos->sessions_lost++;
    return true;
}

static bool is_in(const struct client *c, const char *list, const char *lease_id)
{
    json_t *leases = json_object_get(c->rest.json, list), *lease;
    size_t i;

    json_array_foreach(leases, i, lease) {
        const char *id = json_string_value(json_object_get(lease, "lease_id"));
        if (id != NULL && strcmp(id, lease_id) == 0)
            return true;
    }
    return false;
}

/* A lease that the client holds is listed, or told as lost where a failover may have lost it.
 */
static void check_lease(struct client *c, const char *lease_id, int64_t granted_ms, bool *has)
{
    bool is_told = is_in(c, "lost", lease_id);

    if (!*has || (is_in(c, "leases", lease_id) && !is_told))
        return;
    if (!is_told || !may_be_lost(c, granted_ms))
        violation(c, "client %d: lease %s, granted %d ms ago: %.350s", c->number, lease_id,
                  (int)(now_ms() - granted_ms), c->rest.answer);
    *has = false;
    c->chaos->leases_lost++;
}

static void check_leases(struct client *c)
{
    size_t leases = c->holds_shared;

    for (int i = 0; i < CHAOS_OWN_LOCKS; i++) {
        leases += c->has_own[i];
        check_lease(c, c->own_ids[i], c->granted_ms[i], &c->has_own[i]);
    }
    check_lease(c, c->shared_id, c->granted_ms[CHAOS_OWN_LOCKS], &c->holds_shared);
    /* A failover may also undo a release. */
    if (c->chaos->plan->recent_ms == 0 &&
        (rest_len(&c->rest, "leases") != leases || rest_len(&c->rest, "lost") != 0))
        violation(c, "client %d: not %zu leases: %.400s", c->number, leases, c->rest.answer);
}

static void stay_alive(struct client *c)
{
    char path[400];
    int64_t from_ms = now_ms();
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
}

static bool wants_keep_alive(const struct client *c)
{
    return !c->is_lost && now_ms() >= c->alive_ms + patience_ms(KEEP_ALIVE_MS);
}

/* Alive for so long. */
static void linger(struct client *c, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end && !c->chaos->over; nap_ms(10)) {
        if (wants_keep_alive(c))
            stay_alive(c);
    }
}

/* Took a session's lease: until when it may be lost counts from the answer. */
static void take_own(struct client *c, int i)
{
    char path[96];

    uuid_make(c->own[i]);
    snprintf(path, sizeof(path), "/v1/locks/own-%d-%d-%d%s", c->number, c->lives, i,
             i == 0 ? "?owner=me" : "");
    int status = ask(c, "PUT", path, c->own[i]);
    c->chaos->confirmed += status == 200;
    snprintf(c->own_ids[i], UUID_SIZE, "%s", rest_str(&c->rest, "lease_id"));
    c->granted_ms[i] = now_ms();
    c->has_own[i] = status == 201 || status == 200;
    if (!c->has_own[i] && !session_is_lost(c, status))
        violation(c, "%s was not granted: %d %.300s", path, status, c->rest.answer);
}

static void be_born(struct client *c)
{
    char path[96];

    uuid_make(c->token);
    snprintf(path, sizeof(path), "/v1/sessions?ttl_ms=%d&name=chaos-%d", session_ms(c->chaos),
             c->number);
    c->alive_ms = now_ms();
    int status = ask(c, "POST", path, NULL);
    c->born_ms = now_ms();
    c->is_lost = false;
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
static void bury(struct client *c, int64_t by_ms, int shared)
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
    return now_ms() + session_ms(chaos) + timeout_ms(chaos) +
           patience_ms(chaos->plan->slack_ms);
}

static void end_well(struct client *c)
{
    bool may_lose = c->chaos->plan->recent_ms > 0;
    char path[96];

    snprintf(path, sizeof(path), "/v1/sessions/%s", c->id);
    int status = ask(c, "DELETE", path, NULL);
    if (session_is_lost(c, status))
        return;
    if (status != 200 ||
        (!may_lose && rest_int(&c->rest, "released") != CHAOS_OWN_LOCKS + c->holds_shared))
        violation(c, "client %d: the end: %d %.300s", c->number, status, c->rest.answer);
    c->chaos->ends++;
    bury(c, may_lose ? gone_by_ms(c->chaos) : now_ms() + 1000, -1);
}

static void enter(struct client *c, int lock)
{
    struct chaos_arena *arena = &c->chaos->arenas[lock];
    json_int_t fence = rest_int(&c->rest, "fencing_token");
    int others = atomic_fetch_add(&arena->inside, 1);

    if (fence <= arena->last_fence)
        violation(c, "shared-%d: fencing token %lld after %lld", lock, (long long)fence,
                  (long long)arena->last_fence);
    if (others != 0 && !may_be_lost(c, arena->entered_ms))
        violation(c, "shared-%d: %d others inside", lock, others);
    c->chaos->overlaps += others != 0;
    arena->entered_ms = now_ms();
    arena->last_fence = fence;
    arena->grants++;
    snprintf(c->shared_id, sizeof(c->shared_id), "%s", rest_str(&c->rest, "lease_id"));
    c->granted_ms[CHAOS_OWN_LOCKS] = now_ms();
    c->holds_shared = true;
}

/* In the middle of what a shared lock protects. True: still alive. */
static bool critical(struct client *c, int lock, const char *token)
{
    struct chaos *chaos = c->chaos;
    struct chaos_arena *arena = &chaos->arenas[lock];
    char path[96];

    enter(c, lock);
    long seen = arena->counter;
    linger(c, rand_r(&c->seed) % 16 == 0 ? (int)patience_ms(chaos->plan->hold_ms)
                                         : rand_r(&c->seed) % 40);
    arena->counter = seen + 1;
    atomic_fetch_sub(&arena->inside, 1);
    c->holds_shared = false;
    if (rand_r(&c->seed) % chaos->plan->death_odds == 0 &&
        !chaos->over) { /* it dies, and releases nothing */
        chaos->deaths++;
        bury(c, gone_by_ms(chaos), lock);
        return false;
    }
    snprintf(path, sizeof(path), "/v1/locks/shared-%d", lock);
    int status = ask(c, "DELETE", path, token);
    if (status != 200 && !(status == 410 && may_be_lost(c, c->granted_ms[CHAOS_OWN_LOCKS])))
        violation(c, "shared-%d was not there to be released: %d %.300s", lock, status,
                  c->rest.answer);
    return !c->is_lost;
}

/* False: it died. */
static bool pass_on(struct client *c)
{
    int lock = rand_r(&c->seed) % CHAOS_SHARED_LOCKS;
    int64_t asked_ms = now_ms();
    char path[96], token[UUID_SIZE];

    uuid_make(token);
    snprintf(path, sizeof(path), "/v1/locks/shared-%d?wait_ms=250", lock);
    int status = ask(c, "PUT", path, token);
    c->chaos->confirmed += status == 200;
    if (status == 200 || status == 201)
        return critical(c, lock, token);
    if (session_is_lost(c, status))
        return false;
    /* Granted, not answered, lost and over before the request came again. */
    if (status != 423 && !(status == 410 && may_be_lost(c, asked_ms)))
        violation(c, "%s: %d %.300s", path, status, c->rest.answer);
    return true;
}

static void *client_run(void *arg)
{
    struct client *c = arg;
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

/* --- the dead ----------------------------------------------------------------------------- */

/* Looks at those of the buried leases whose time has come. */
static void check_dead(struct chaos *chaos)
{
    pthread_mutex_lock(&chaos->mutex);
    size_t len = chaos->dead_len;
    pthread_mutex_unlock(&chaos->mutex);
    /* In the order of their burial; those that ended well have an earlier time. */
    for (size_t i = chaos->dead_checked; i < len; i++) {
        struct chaos_dead *dead = &chaos->dead[i];

        if (dead->by_ms == 0 || now_ms() < dead->by_ms)
            continue;
        if (redis_int(chaos->redis, "HEXISTS %s %s", dead->lock, dead->holder) != 0)
            FAIL("%s still holds %s, %d ms after it had to be gone", dead->holder, dead->lock,
                 (int)(now_ms() - dead->by_ms));
        dead->by_ms = 0;
    }
    while (chaos->dead_checked < len && chaos->dead[chaos->dead_checked].by_ms == 0)
        chaos->dead_checked++;
}

void chaos_nap(struct chaos *chaos, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end; nap_ms(20))
        check_dead(chaos);
}

void chaos_kill_fronts(struct chaos *chaos)
{
    int first = rand_r(&chaos->seed) % CHAOS_FRONTS, second = (first + 1) % CHAOS_FRONTS;
    bool two = rand_r(&chaos->seed) % 3 == 0;

    front_kill(chaos->fronts[first]);
    chaos->kills++;
    if (two) {
        nap_ms(rand_r(&chaos->seed) % 100);
        front_kill(chaos->fronts[second]);
        chaos->kills++;
    }
    chaos_nap(chaos, rand_r(&chaos->seed) % 700);
    front_return(chaos->fronts[first], chaos->flags);
    if (two)
        front_return(chaos->fronts[second], chaos->flags);
    chaos_nap(chaos, rand_r(&chaos->seed) % 300);
}

/* --- the end ------------------------------------------------------------------------------ */

static void report(const struct chaos *chaos, long grants)
{
    print_message("%ld kills of front ends, %ld strikes; %ld sessions, %ld ended, %ld died; "
                  "%ld grants, %ld keep-alives, %ld asked again, %ld confirmed\n",
                  chaos->kills, chaos->strikes, (long)chaos->births, (long)chaos->ends,
                  (long)chaos->deaths, grants, (long)chaos->keep_alives, (long)chaos->retries,
                  (long)chaos->confirmed);
    if (chaos->plan->recent_ms > 0)
        print_message("%zu failovers; told as lost: %ld leases, %ld sessions; %ld overlaps\n",
                      (size_t)chaos->losses_len, (long)chaos->leases_lost,
                      (long)chaos->sessions_lost, (long)chaos->overlaps);
    if (chaos->violations > 0)
        FAIL("%d violations; the first: %s", chaos->violations, chaos->first_trouble);
}

static void expect_much(const struct chaos *chaos, long grants, int seconds)
{
    int scale = (int)patience_ms(1);

    assert_true(grants * scale >= 10 * seconds);
    assert_true(chaos->keep_alives * scale >= 20 * seconds);
    assert_true(chaos->deaths > 0 && chaos->ends > 0 && chaos->retries > 0);
    assert_true(chaos->dead_len >= CHAOS_OWN_LOCKS);
}

static bool is_without(struct redis *redis, const char *prefix)
{
    return json_array_size(redis_keys(redis, prefix)) == 0;
}

static void check_all(struct chaos *chaos, int seconds)
{
    const struct chaos_plan *plan = chaos->plan;
    int gone_ms = plan->session_ms + plan->timeout_ms + plan->slack_ms;
    struct redis *redis = chaos->redis;
    long grants = 0;

    for (int i = 0; i < CHAOS_SHARED_LOCKS; i++) {
        const struct chaos_arena *arena = &chaos->arenas[i];
        grants += arena->grants;
        if (chaos->overlaps == 0 && arena->counter != arena->grants)
            FAIL("shared-%d: counted %ld of %ld", i, arena->counter, (long)arena->grants);
    }
    report(chaos, grants);
    expect_much(chaos, grants, seconds);
    /* Nobody keeps anything alive now: sooner or later all of it is free. */
    wait_until(is_without(redis, "own-") && is_without(redis, "shared-"), gone_ms);
    nap_ms(timeout_ms(chaos));
    wait_until((check_dead(chaos), chaos->dead_checked == chaos->dead_len), gone_ms);
    wait_until(is_without(redis, "rlockd:sessions:"), plan->timeout_ms + plan->slack_ms);
    wait_until(is_without(redis, "rlockd:session-due:"), 2 * plan->timeout_ms);
}

/* --- all of it ---------------------------------------------------------------------------- */

static int number_of(const char *variable, int otherwise)
{
    const char *value = getenv(variable);

    return value != NULL ? atoi(value) : otherwise;
}

static struct chaos *chaos_new(struct world *w, const struct chaos_plan *plan,
                               struct redis *redis, void *topology)
{
    struct chaos *chaos = calloc(1, sizeof(*chaos));

    assert_non_null(chaos);
    world_defer(w, free, chaos);
    chaos->plan = plan;
    chaos->world = w;
    chaos->redis = redis;
    chaos->topology = topology;
    chaos->seed = (unsigned)number_of("CHAOS_SEED", (int)now_ms());
    print_message("CHAOS_SEED=%u\n", chaos->seed);
    pthread_mutex_init(&chaos->mutex, NULL);
    chaos->flags[0] = "--watchdog-timeout-ms";
    chaos->flags[1] = text(w, "%d", timeout_ms(chaos));
    for (int i = 0; i < CHAOS_FRONTS; i++) {
        chaos->fronts[i] = front_start(w, "--redis", redis->url, chaos->flags[0],
                                       chaos->flags[1], NULL);
        chaos->ports[i] = chaos->fronts[i]->port;
    }
    return chaos;
}

/* Clients that are joined before what they use is freed, also where the test fails meanwhile.
 */
struct crowd {
    struct chaos *chaos;
    struct client *clients;
    int len;
};

static void crowd_join(void *thing)
{
    struct crowd *crowd = thing;

    crowd->chaos->over = true;
    for (int i = 0; i < crowd->len; i++)
        pthread_join(crowd->clients[i].thread, NULL);
    crowd->len = 0;
}

static struct crowd *crowd_start(struct world *w, struct chaos *chaos)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    int len = number_of("CHAOS_CLIENTS", chaos->plan->clients);

    assert_non_null(crowd);
    world_defer(w, free, crowd);
    crowd->chaos = chaos;
    crowd->clients = calloc((size_t)len, sizeof(*crowd->clients));
    assert_non_null(crowd->clients);
    world_defer(w, free, crowd->clients);
    world_defer(w, crowd_join, crowd);
    for (int i = 0; i < len; i++) {
        crowd->clients[i] = (struct client){
            .chaos = chaos, .number = i, .seed = chaos->seed + (unsigned)i * 7919};
        assert_int_equal(
            pthread_create(&crowd->clients[i].thread, NULL, client_run, &crowd->clients[i]), 0);
        crowd->len++;
    }
    return crowd;
}

void chaos_run(struct world *w, const struct chaos_plan *plan, struct redis *redis,
               void *topology)
{
    struct chaos *chaos = chaos_new(w, plan, redis, topology);
    struct crowd *crowd = crowd_start(w, chaos);
    int seconds = number_of("CHAOS_SECONDS", plan->seconds);

    for (int64_t end = now_ms() + 1000L * seconds; now_ms() < end && chaos->violations == 0;) {
        plan->strike(chaos);
        chaos->strikes++;
    }
    crowd_join(crowd);
    check_all(chaos, seconds);
}
