/* Three front ends are killed and come back at random while clients hold, renew and pass on
 * locks through whichever answers. No lease of a live session is lost, none of a dead one
 * survives. CHAOS_SECONDS says how long, CHAOS_CLIENTS how many, CHAOS_SEED repeats the dice.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "harness_session.h"

enum {
    CLIENTS = 20,
    OWN_LOCKS = 3, /* held by each client all its life */
    SHARED_LOCKS = 6,
    SECONDS = 12,
    FRONTS = 3,
    TIMEOUT_MS = 1000, /* of the watchdog; this and the next on a machine that is not busy */
    SESSION_MS = 3000,
    KEEP_ALIVE_MS = 300,
    PATIENCE_MS = 8000, /* for an answer of any front end */
    DEAD_MAX = 2000
};

/* What one shared lock protects. */
struct arena {
    _Atomic int inside;
    volatile long counter;
    json_int_t last_fence;
    _Atomic long grants;
};

/* A lease that has to be gone by a time. */
struct dead {
    char lock[48], holder[80];
    int64_t by_ms;
};

struct chaos {
    int ports[FRONTS];
    struct arena arenas[SHARED_LOCKS];
    _Atomic bool over;
    _Atomic long keep_alives, retries, deaths, ends, births, confirmed, kills;
    _Atomic int violations;
    pthread_mutex_t mutex;
    char first_trouble[512];
    struct dead dead[DEAD_MAX];
    size_t dead_len, dead_checked;
};

struct client {
    struct chaos *chaos;
    int number, lives;
    unsigned seed;
    pthread_t thread;
    struct rest rest;
    char token[UUID_SIZE], id[UUID_SIZE];
    char own[OWN_LOCKS][UUID_SIZE], own_ids[OWN_LOCKS][UUID_SIZE];
    int64_t alive_ms; /* when the last keep-alive that was answered had been sent */
    bool holds_shared;
};

/* On a busy machine a renewal comes late, and a lease that is lost then is no defect. */
static int timeout_ms(void)
{
    return (int)patience_ms(TIMEOUT_MS);
}

static int session_ms(void)
{
    return (int)patience_ms(SESSION_MS);
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

/* The first definite answer of any front end; 0 when there was none for very long. */
static int ask(struct client *c, const char *method, const char *path, const char *lease_token)
{
    int64_t give_up = now_ms() + patience_ms(PATIENCE_MS);
    int status;

    do {
        int port = c->chaos->ports[rand_r(&c->seed) % FRONTS];

        status = rest_ask(&c->rest, port, method, path, lease_token, c->token, NULL);
        if (status != 0 && status != 503)
            return status;
        c->chaos->retries++;
        nap_ms(10);
    } while (now_ms() < give_up);
    violation(c, "client %d: %s %s: no answer: %d %s", c->number, method, path, status,
              c->rest.error);
    return 0;
}

static void stay_alive(struct client *c)
{
    char path[96];
    int64_t from_ms = now_ms();
    size_t leases = OWN_LOCKS + c->holds_shared;
    int status;

    snprintf(path, sizeof(path), "/v1/sessions/%s/keep-alive%s", c->id,
             rand_r(&c->seed) % 4 == 0 ? "?wait_ms=200" : "");
    status = ask(c, "POST", path, NULL);
    c->chaos->keep_alives++;
    if (status != 200 || rest_len(&c->rest, "lost") != 0 ||
        rest_len(&c->rest, "leases") != leases)
        violation(c, "client %d, %zu leases, %d ms after the last keep-alive: %d %.300s",
                  c->number, leases, (int)(from_ms - c->alive_ms), status, c->rest.answer);
    else
        c->alive_ms = from_ms;
}

/* Alive for so long. */
static void linger(struct client *c, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end && !c->chaos->over; nap_ms(10)) {
        if (now_ms() >= c->alive_ms + KEEP_ALIVE_MS)
            stay_alive(c);
    }
}

static void be_born(struct client *c)
{
    char path[96];
    int status;

    uuid_make(c->token);
    snprintf(path, sizeof(path), "/v1/sessions?ttl_ms=%d&name=chaos-%d", session_ms(),
             c->number);
    c->alive_ms = now_ms();
    status = ask(c, "POST", path, NULL);
    snprintf(c->id, sizeof(c->id), "%s", rest_str(&c->rest, "session_id"));
    if (status != 201 && status != 200)
        violation(c, "a session was not opened: %d %.300s", status, c->rest.answer);
    for (int i = 0; i < OWN_LOCKS; i++) {
        uuid_make(c->own[i]);
        snprintf(path, sizeof(path), "/v1/locks/own-%d-%d-%d%s", c->number, c->lives, i,
                 i == 0 ? "?owner=me" : "");
        status = ask(c, "PUT", path, c->own[i]);
        c->chaos->confirmed += status == 200;
        snprintf(c->own_ids[i], UUID_SIZE, "%s", rest_str(&c->rest, "lease_id"));
        if (status != 201 && status != 200)
            violation(c, "%s was not granted: %d %.300s", path, status, c->rest.answer);
    }
    c->chaos->births++;
    c->lives++;
}

/* All that the session holds has to be gone by then; `shared` < 0: no shared lock. */
static void bury(struct client *c, int64_t by_ms, int shared, const char *shared_id)
{
    struct chaos *chaos = c->chaos;

    pthread_mutex_lock(&chaos->mutex);
    for (int i = 0; i < OWN_LOCKS + (shared >= 0) && chaos->dead_len < DEAD_MAX; i++) {
        struct dead *dead = &chaos->dead[chaos->dead_len++];

        if (i == OWN_LOCKS)
            snprintf(dead->lock, sizeof(dead->lock), "shared-%d", shared);
        else
            snprintf(dead->lock, sizeof(dead->lock), "own-%d-%d-%d", c->number, c->lives - 1,
                     i);
        if (i == 0)
            snprintf(dead->holder, sizeof(dead->holder), "%s:me", c->id);
        else
            snprintf(dead->holder, sizeof(dead->holder), "%s:0",
                     i == OWN_LOCKS ? shared_id : c->own_ids[i]);
        dead->by_ms = by_ms;
    }
    pthread_mutex_unlock(&chaos->mutex);
}

static void end_well(struct client *c)
{
    char path[96];
    int status;

    snprintf(path, sizeof(path), "/v1/sessions/%s", c->id);
    status = ask(c, "DELETE", path, NULL);
    if (status != 200 || rest_int(&c->rest, "released") != OWN_LOCKS + c->holds_shared)
        violation(c, "client %d: the end: %d %.300s", c->number, status, c->rest.answer);
    c->chaos->ends++;
    bury(c, now_ms() + 1000, -1, NULL);
}

/* In the middle of what a shared lock protects. True: still alive. */
static bool critical(struct client *c, int lock, const char *token)
{
    struct arena *arena = &c->chaos->arenas[lock];
    json_int_t fence = rest_int(&c->rest, "fencing_token");
    char lease_id[UUID_SIZE], path[96];
    int others = atomic_fetch_add(&arena->inside, 1);
    long seen = arena->counter;
    int status;

    snprintf(lease_id, sizeof(lease_id), "%s", rest_str(&c->rest, "lease_id"));
    if (others != 0 || fence <= arena->last_fence)
        violation(c, "shared-%d: %d others inside, fencing token %lld after %lld", lock, others,
                  (long long)fence, (long long)arena->last_fence);
    arena->last_fence = fence;
    arena->grants++;
    c->holds_shared = true;
    linger(c, rand_r(&c->seed) % 16 == 0 ? 3 * timeout_ms() / 2 : rand_r(&c->seed) % 40);
    arena->counter = seen + 1;
    atomic_fetch_sub(&arena->inside, 1);
    c->holds_shared = false;
    if (rand_r(&c->seed) % 24 == 0 && !c->chaos->over) { /* it dies, and releases nothing */
        c->chaos->deaths++;
        bury(c, now_ms() + session_ms() + timeout_ms() + 1000, lock, lease_id);
        return false;
    }
    snprintf(path, sizeof(path), "/v1/locks/shared-%d", lock);
    status = ask(c, "DELETE", path, token);
    if (status != 200)
        violation(c, "shared-%d was not there to be released: %d %.300s", lock, status,
                  c->rest.answer);
    return true;
}

/* False: it died. */
static bool pass_on(struct client *c)
{
    int lock = rand_r(&c->seed) % SHARED_LOCKS, status;
    char path[96], token[UUID_SIZE];

    uuid_make(token);
    snprintf(path, sizeof(path), "/v1/locks/shared-%d?wait_ms=250", lock);
    status = ask(c, "PUT", path, token);
    c->chaos->confirmed += status == 200;
    if (status == 200 || status == 201)
        return critical(c, lock, token);
    if (status != 423)
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
        alive = true;
        for (int i = 5 + rand_r(&c->seed) % 20; i > 0 && alive && !c->chaos->over; i--) {
            if (now_ms() >= c->alive_ms + KEEP_ALIVE_MS)
                stay_alive(c);
            alive = pass_on(c);
        }
        has_ended = alive && !c->chaos->over;
        if (has_ended)
            end_well(c);
    }
    /* The clients that live to the end lost nothing. */
    if (alive && !has_ended && c->chaos->violations == 0 &&
        now_ms() < c->alive_ms + session_ms() / 2)
        stay_alive(c);
    rest_free(&c->rest);
    return NULL;
}

/* Returns how many of the buried leases whose time has come were looked at. */
static void check_dead(struct world *w, struct chaos *chaos)
{
    pthread_mutex_lock(&chaos->mutex);
    size_t len = chaos->dead_len;
    pthread_mutex_unlock(&chaos->mutex);
    /* In the order of their burial; those that ended well have an earlier time. */
    for (size_t i = chaos->dead_checked; i < len; i++) {
        struct dead *dead = &chaos->dead[i];

        if (dead->by_ms == 0 || now_ms() < dead->by_ms)
            continue;
        if (redis_int(w->redis, "HEXISTS %s %s", dead->lock, dead->holder) != 0)
            FAIL("%s still holds %s, %d ms after it had to be gone", dead->holder, dead->lock,
                 (int)(now_ms() - dead->by_ms));
        dead->by_ms = 0;
    }
    while (chaos->dead_checked < len && chaos->dead[chaos->dead_checked].by_ms == 0)
        chaos->dead_checked++;
}

/* Kills one or two of the three, and brings them back; one is always there. */
static void kill_some(struct world *w, struct chaos *chaos, struct front *fronts[FRONTS],
                      const char *const *flags, unsigned *seed)
{
    int first = rand_r(seed) % FRONTS, second = (first + 1) % FRONTS;
    bool two = rand_r(seed) % 3 == 0;

    front_kill(fronts[first]);
    chaos->kills++;
    if (two) {
        nap_ms(rand_r(seed) % 100);
        front_kill(fronts[second]);
        chaos->kills++;
    }
    for (int64_t end = now_ms() + rand_r(seed) % 700; now_ms() < end; nap_ms(20))
        check_dead(w, chaos);
    front_return(fronts[first], flags);
    if (two)
        front_return(fronts[second], flags);
    for (int64_t end = now_ms() + rand_r(seed) % 300; now_ms() < end; nap_ms(20))
        check_dead(w, chaos);
}

static void check_all(struct world *w, struct chaos *chaos, int seconds)
{
    long grants = 0;

    for (int i = 0; i < SHARED_LOCKS; i++) {
        grants += chaos->arenas[i].grants;
        if (chaos->arenas[i].counter != chaos->arenas[i].grants)
            FAIL("shared-%d: counted %ld of %ld", i, chaos->arenas[i].counter,
                 (long)chaos->arenas[i].grants);
    }
    print_message("%ld kills; %ld sessions, %ld ended, %ld died; %ld grants, %ld keep-alives, "
                  "%ld asked again, %ld confirmed\n",
                  (long)chaos->kills, (long)chaos->births, (long)chaos->ends,
                  (long)chaos->deaths, grants, (long)chaos->keep_alives, (long)chaos->retries,
                  (long)chaos->confirmed);
    if (chaos->violations > 0)
        FAIL("%d violations; the first: %s", chaos->violations, chaos->first_trouble);
    /* Anti-vacuity. */
    int scale = (int)patience_ms(1);
    assert_true(chaos->kills * scale >= seconds / 2);
    assert_true(grants * scale >= 10 * seconds);
    assert_true(chaos->keep_alives * scale >= 20 * seconds);
    assert_true(chaos->deaths > 0 && chaos->ends > 0 && chaos->retries > 0);
    /* Nobody keeps anything alive now: sooner or later all of it is free. */
    wait_until(json_array_size(redis_keys(w->redis, "own-")) == 0 &&
                   json_array_size(redis_keys(w->redis, "shared-")) == 0,
               SESSION_MS + TIMEOUT_MS + 1000);
    nap_ms(timeout_ms());
    check_dead(w, chaos);
    wait_until((check_dead(w, chaos), chaos->dead_checked == chaos->dead_len),
               SESSION_MS + TIMEOUT_MS + 1000);
    assert_true(chaos->dead_len >= OWN_LOCKS);
    wait_until(json_array_size(redis_keys(w->redis, "rlockd:sessions:")) == 0, TIMEOUT_MS);
    wait_until(json_array_size(redis_keys(w->redis, "rlockd:session-due:")) == 0,
               2 * TIMEOUT_MS);
}

static void test_chaos(struct world *w)
{
    const char *time = getenv("CHAOS_SECONDS"), *lot = getenv("CHAOS_SEED");
    const char *crowd = getenv("CHAOS_CLIENTS");
    int len = crowd != NULL ? atoi(crowd) : CLIENTS;
    struct chaos *chaos = calloc(1, sizeof(*chaos));
    struct client *clients = calloc((size_t)len, sizeof(*clients));
    struct front *fronts[FRONTS];
    int seconds = time != NULL ? atoi(time) : SECONDS;
    unsigned seed = lot != NULL ? (unsigned)atoi(lot) : (unsigned)now_ms();
    const char *const flags[] = {"--watchdog-timeout-ms", text(w, "%d", timeout_ms()), NULL};

    assert_true(chaos != NULL && clients != NULL);
    world_defer(w, free, chaos);
    world_defer(w, free, clients);
    print_message("CHAOS_SEED=%u\n", seed);
    pthread_mutex_init(&chaos->mutex, NULL);
    for (int i = 0; i < FRONTS; i++) {
        fronts[i] = front_start(w, "--redis", w->redis->url, flags[0], flags[1], NULL);
        chaos->ports[i] = fronts[i]->port;
    }
    for (int i = 0; i < len; i++) {
        clients[i] = (struct client){
            .chaos = chaos, .number = i, .seed = seed + (unsigned)i * 7919};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]), 0);
    }
    for (int64_t end = now_ms() + 1000L * seconds; now_ms() < end && chaos->violations == 0;)
        kill_some(w, chaos, fronts, flags, &seed);
    chaos->over = true;
    for (int i = 0; i < len; i++)
        pthread_join(clients[i].thread, NULL);
    check_all(w, chaos, seconds);
}

int main(void)
{
    static const struct e2e_test tests[] = {E2E_TEST(test_chaos)};
    struct e2e_plan plan = {.name = "session-chaos", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
