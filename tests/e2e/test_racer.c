/* The lock-racer: 64 connections on two front ends fight for 8 locks. What a lock protects is
 * never seen by two, its fencing tokens grow, and nothing is left at the end. */
#include "harness.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/random.h>

enum {
    RACERS = 64,
    LOCKS = 8,
    SECONDS = 6,
    WAIT_MS = 20000, /* far more than a turn takes: nobody has to go without */
    HASTY_MS = 3,
    TTL_MS = 20000,
    WINDOW_MS = 60000,
    GRANTS_MIN = 500,
    WAITS_MIN = 100
};

/* What the lock protects. The counter is plain on purpose: without the lock it would go wrong.
 */
struct arena {
    _Atomic int inside;
    volatile long counter;
    json_int_t last_fence;
    _Atomic long grants;
};

struct race {
    struct arena arenas[LOCKS];
    _Atomic bool over;
    _Atomic long waits, refusals, confirmations;
    _Atomic int violations, odd_answers;
    pthread_mutex_t mutex;
    char first_trouble[512];
};

struct racer {
    struct race *race;
    struct front *fe;
    pthread_t thread;
    CURL *curl;
    unsigned seed;
    char answer[4096];
    size_t answer_len;
};

static void trouble(struct race *race, const char *format, ...) PRINTF_LIKE(2, 3);

static void trouble(struct race *race, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&race->mutex);
    if (race->first_trouble[0] == '\0') {
        va_start(args, format);
        vsnprintf(race->first_trouble, sizeof(race->first_trouble), format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&race->mutex);
}

static void uuid_make(char out[37])
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
        abort();
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[at++] = '-';
        at += sprintf(out + at, "%02x", b[i]);
    }
}

static size_t answer_add(char *bytes, size_t size, size_t len, void *arg)
{
    struct racer *racer = arg;

    len *= size;
    if (racer->answer_len + len < sizeof(racer->answer)) {
        memcpy(racer->answer + racer->answer_len, bytes, len);
        racer->answer_len += len;
    }
    racer->answer[racer->answer_len] = '\0';
    return len;
}

static long racer_ask(struct racer *racer, const char *method, int lock, const char *query,
                      const char *token)
{
    char url[160], header[64];
    struct curl_slist *headers;
    long status = 0;
    CURLcode code;

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1/locks/race-%d%s", racer->fe->port, lock,
             query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    headers = curl_slist_append(NULL, header);
    racer->answer_len = 0;
    racer->answer[0] = '\0';
    curl_easy_setopt(racer->curl, CURLOPT_URL, url);
    curl_easy_setopt(racer->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(racer->curl, CURLOPT_HTTPHEADER, headers);
    code = curl_easy_perform(racer->curl);
    curl_easy_getinfo(racer->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    if (code == CURLE_OK)
        return status;
    trouble(racer->race, "%s: %s", method, curl_easy_strerror(code));
    return 0;
}

static json_int_t answered_fence(struct racer *racer)
{
    json_t *answer = json_loads(racer->answer, 0, NULL);
    json_int_t fence = json_integer_value(json_object_get(answer, "fencing_token"));

    json_decref(answer);
    return fence;
}

static void odd(struct racer *racer, const char *what, long status)
{
    racer->race->odd_answers++;
    trouble(racer->race, "%s was answered %ld %s", what, status, racer->answer);
}

/* Inside the lock: nobody else may be here, and the plain counter must not lose a count. */
static void critical(struct racer *racer, int lock, const char *token)
{
    struct arena *arena = &racer->race->arenas[lock];
    json_int_t fence = answered_fence(racer);
    int others = atomic_fetch_add(&arena->inside, 1);
    long seen = arena->counter;

    if (others != 0 || fence <= arena->last_fence) {
        racer->race->violations++;
        trouble(racer->race, "lock %d: %d others inside, fencing token %lld after %lld", lock,
                others, (long long)fence, (long long)arena->last_fence);
    }
    arena->last_fence = fence;
    arena->grants++;
    if (rand_r(&racer->seed) % 8 == 0) {
        long status = racer_ask(racer, "PUT", lock, "", token);

        racer->race->confirmations++;
        if (status != 200 || answered_fence(racer) != fence)
            odd(racer, "a repeated PUT", status);
    }
    for (int i = rand_r(&racer->seed) % 3; i > 0; i--)
        sched_yield();
    arena->counter = seen + 1;
    atomic_fetch_sub(&arena->inside, 1);
}

static void racer_round(struct racer *racer)
{
    int lock = rand_r(&racer->seed) % LOCKS;
    bool hasty = rand_r(&racer->seed) % 16 == 0;
    char token[37], query[64];
    long status;

    uuid_make(token);
    snprintf(query, sizeof(query), "?ttl_ms=%d", TTL_MS);
    status = racer_ask(racer, "PUT", lock, query, token);
    if (status == 423) {
        snprintf(query, sizeof(query), "?ttl_ms=%d&wait_ms=%d", TTL_MS,
                 hasty ? HASTY_MS : WAIT_MS);
        status = racer_ask(racer, "PUT", lock, query, token);
        racer->race->waits += status == 201;
    }
    if (status == 423 && hasty) {
        racer->race->refusals++;
        return;
    }
    if (status != 201) {
        odd(racer, "a PUT", status);
        return;
    }
    critical(racer, lock, token);
    status = racer_ask(racer, "DELETE", lock, "", token);
    if (status != 200)
        odd(racer, "a DELETE", status);
}

static void *racer_run(void *arg)
{
    struct racer *racer = arg;

    while (!racer->race->over && racer->race->violations == 0)
        racer_round(racer);
    return NULL;
}

static void racer_start(struct racer *racer, struct race *race, struct front *fe, unsigned seed)
{
    *racer = (struct racer){.race = race, .fe = fe, .seed = seed, .curl = curl_easy_init()};
    assert_non_null(racer->curl);
    curl_easy_setopt(racer->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(racer->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(racer->curl, CURLOPT_WRITEFUNCTION, answer_add);
    curl_easy_setopt(racer->curl, CURLOPT_WRITEDATA, racer);
    curl_easy_setopt(racer->curl, CURLOPT_TIMEOUT_MS, (long)patience_ms(30000));
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_run, racer), 0);
}

/* Nothing of ours stays but fencing tokens, and what ends soon by itself. */
static void check_remains(struct world *w)
{
    json_t *keys = redis_keys(w->redis, ""), *key;
    size_t i;

    json_array_foreach(keys, i, key) {
        const char *name = json_string_value(key);
        long long ttl_ms = redis_int(w->redis, "PTTL %s", name);

        if (strncmp(name, "redisson_lock_token:{race-", 26) == 0)
            continue;
        if (strncmp(name, "rlockd:", 7) != 0 || ttl_ms == -1 || ttl_ms > TTL_MS + WINDOW_MS)
            FAIL("left behind: %s with a TTL of %lld ms", name, ttl_ms);
    }
}

static void test_race(struct world *w)
{
    struct race *race = calloc(1, sizeof(*race));
    struct racer *racers = calloc(RACERS, sizeof(*racers));
    const char *seconds = getenv("RACER_SECONDS");
    long grants = 0;

    assert_true(race != NULL && racers != NULL);
    world_defer(w, free, race);
    world_defer(w, free, racers);
    pthread_mutex_init(&race->mutex, NULL);
    for (unsigned i = 0; i < RACERS; i++)
        racer_start(&racers[i], race, i % 2 == 0 ? w->a : w->b, i + 1);
    for (int64_t end = now_ms() + 1000L * (seconds != NULL ? atoi(seconds) : SECONDS);
         now_ms() < end && race->violations == 0;)
        nap_ms(20);
    race->over = true;
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        curl_easy_cleanup(racers[i].curl);
    }
    for (int i = 0; i < LOCKS; i++) {
        grants += race->arenas[i].grants;
        if (race->arenas[i].counter != race->arenas[i].grants)
            FAIL("lock %d: counted %ld of %ld", i, race->arenas[i].counter,
                 (long)race->arenas[i].grants);
    }
    print_message("%ld grants, %ld after a wait, %ld refused, %ld confirmed\n", grants,
                  (long)race->waits, (long)race->refusals, (long)race->confirmations);
    if (race->violations > 0 || race->odd_answers > 0 || race->first_trouble[0] != '\0')
        FAIL("%d violations, %d odd answers; the first: %s", race->violations,
             race->odd_answers, race->first_trouble);
    /* Anti-vacuity: a race that nobody ran proves nothing. */
    assert_true(grants >= GRANTS_MIN / patience_ms(1));
    assert_true(race->waits >= WAITS_MIN / patience_ms(1));
    assert_true(race->confirmations > 0);
    for (int i = 0; i < LOCKS; i++) {
        struct reply *r = lock_look(w->a, text(w, "race-%d", i));

        expect_bool(r, "locked", false);
        expect_int(r, "waiter_count", 0);
        expect_int(r, "fencing_token", race->arenas[i].last_fence);
    }
    check_remains(w);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {.name = "racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
