/* 32 clients on two front ends fight for 5 permits of each kind of semaphore. Never are more
 * than 5 inside, whoever hangs up or repeats itself, and in the end none is lost. */
#include "counters.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/random.h>

enum { RACERS = 32, PERMITS = 5, SECONDS = 5, ENTRIES_MIN = 300 };

struct race {
    _Atomic int inside[2]; /* plain, with leases */
    _Atomic long entries[2], hang_ups, repeats;
    _Atomic int violations, odd_answers;
    _Atomic bool over;
    pthread_mutex_t mutex;
    char first_trouble[512];
};

struct racer {
    struct race *race;
    struct front *fe;
    pthread_t thread;
    CURL *curl;
    unsigned seed;
    char answer[1024];
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

/* 0: no answer within `timeout_ms`. */
static long ask(struct racer *racer, const char *method, const char *path, const char *header,
                int timeout_ms)
{
    char url[200];
    struct curl_slist *headers = curl_slist_append(NULL, header);
    long status = 0;

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1/%s", racer->fe->port, path);
    racer->answer_len = 0;
    racer->answer[0] = '\0';
    curl_easy_setopt(racer->curl, CURLOPT_URL, url);
    curl_easy_setopt(racer->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(racer->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(racer->curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (curl_easy_perform(racer->curl) == CURLE_OK)
        curl_easy_getinfo(racer->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    return status;
}

static void odd(struct racer *racer, const char *what, long status)
{
    racer->race->odd_answers++;
    trouble(racer->race, "%s was answered %ld %s", what, status, racer->answer);
}

static void critical(struct racer *racer, int kind, int permits)
{
    struct race *race = racer->race;
    int inside = atomic_fetch_add(&race->inside[kind], permits) + permits;

    if (inside > PERMITS) {
        race->violations++;
        trouble(race, "%d permits of kind %d are out", inside, kind);
    }
    race->entries[kind]++;
    for (int i = rand_r(&racer->seed) % 4; i > 0; i--)
        sched_yield();
    atomic_fetch_sub(&race->inside[kind], permits);
}

static int patience(void)
{
    return (int)patience_ms(30000);
}

/* Hangs up in the midst, and asks again with the same key what became of it. */
static long acquire_hastily(struct racer *racer, const char *path, const char *header)
{
    char again[120];
    long status = ask(racer, "POST", path, header, 1 + rand_r(&racer->seed) % 6);

    if (status != 0)
        return status;
    racer->race->hang_ups++;
    snprintf(again, sizeof(again), "%.*s", (int)strcspn(path, "&"), path);
    return ask(racer, "POST", again, header, patience());
}

static void race_plain(struct racer *racer)
{
    int permits = 1 + rand_r(&racer->seed) % 2;
    bool hasty = rand_r(&racer->seed) % 8 == 0;
    char path[100], key[37], header[64];
    long status;

    uuid_make(key);
    snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
    snprintf(path, sizeof(path), "semaphores/race/acquire?permits=%d&wait_ms=20000", permits);
    status = hasty ? acquire_hastily(racer, path, header)
                   : ask(racer, "POST", path, header, patience());
    if (hasty && status == 423)
        return;
    if (status != 200) {
        odd(racer, "an acquire", status);
        return;
    }
    critical(racer, 0, permits);
    uuid_make(key);
    snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
    snprintf(path, sizeof(path), "semaphores/race/release?permits=%d", permits);
    bool repeats = rand_r(&racer->seed) % 8 == 0;
    for (int i = repeats ? 2 : 1; i > 0; i--) {
        status = ask(racer, "POST", path, header, patience());
        if (status != 200)
            odd(racer, "a release", status);
    }
    racer->race->repeats += repeats;
}

static void race_leased(struct racer *racer)
{
    static const char path[] = "permit-semaphores/leased/permit";
    bool hasty = rand_r(&racer->seed) % 8 == 0;
    char token[37], header[64];
    long status;

    uuid_make(token);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    status = ask(racer, "PUT", "permit-semaphores/leased/permit?wait_ms=20000&ttl_ms=60000",
                 header, hasty ? 1 + rand_r(&racer->seed) % 6 : patience());
    if (status == 201)
        critical(racer, 1, 1);
    else if (hasty && status == 0)
        racer->race->hang_ups++;
    else
        odd(racer, "a PUT", status);
    bool is_lost = status == 0;
    status = ask(racer, "DELETE", path, header, patience());
    if (status != 200 && !(is_lost && status == 410))
        odd(racer, "a DELETE", status);
}

static void *racer_run(void *arg)
{
    struct racer *racer = arg;

    while (!racer->race->over && racer->race->violations == 0) {
        if (rand_r(&racer->seed) % 2 == 0)
            race_plain(racer);
        else
            race_leased(racer);
    }
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
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_run, racer), 0);
}

/* Every permit is back, nobody waits, and what is left ends by itself. */
static void check_remains(struct world *w)
{
    json_t *keys, *key;
    size_t i;

    wait_until(counter_value(w->redis, "race") == PERMITS, 5000);
    wait_until(counter_value(w->redis, "leased") == PERMITS, 5000);
    assert_false(redis_has(w->redis, "{leased}:timeout"));
    assert_int_equal(counter_waiters(w->a, "semaphores/race"), 0);
    assert_int_equal(counter_waiters(w->b, "permit-semaphores/leased"), 0);
    keys = redis_keys(w->redis, "rlockd:");
    json_array_foreach(keys, i, key) {
        long long ttl_ms = redis_int(w->redis, "PTTL %s", json_string_value(key));
        if (ttl_ms == -1 || ttl_ms > 120000)
            FAIL("left behind: %s with a TTL of %lld ms", json_string_value(key), ttl_ms);
    }
}

static void test_race(struct world *w)
{
    struct race *race = calloc(1, sizeof(*race));
    struct racer *racers = calloc(RACERS, sizeof(*racers));

    assert_true(race != NULL && racers != NULL);
    world_defer(w, free, race);
    world_defer(w, free, racers);
    pthread_mutex_init(&race->mutex, NULL);
    expect_status(counter_send(w->a, "PUT", "semaphores/race?permits=5", NULL), 201);
    expect_status(counter_send(w->a, "PUT", "permit-semaphores/leased?permits=5", NULL), 201);
    for (unsigned i = 0; i < RACERS; i++)
        racer_start(&racers[i], race, i % 2 == 0 ? w->a : w->b, i + 1);
    for (int64_t end = now_ms() + 1000L * SECONDS; now_ms() < end && race->violations == 0;)
        nap_ms(20);
    race->over = true;
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        curl_easy_cleanup(racers[i].curl);
    }
    print_message("%ld and %ld entries, %ld hang-ups, %ld releases repeated\n",
                  (long)race->entries[0], (long)race->entries[1], (long)race->hang_ups,
                  (long)race->repeats);
    if (race->violations > 0 || race->odd_answers > 0 || race->first_trouble[0] != '\0')
        FAIL("%d violations, %d odd answers; the first: %s", race->violations,
             race->odd_answers, race->first_trouble);
    /* Anti-vacuity: a race that nobody ran proves nothing. */
    assert_true(race->entries[0] >= ENTRIES_MIN / patience_ms(1));
    assert_true(race->entries[1] >= ENTRIES_MIN / patience_ms(1));
    assert_true(race->hang_ups > 0 && race->repeats > 0);
    check_remains(w);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {
        .name = "semaphore-racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
