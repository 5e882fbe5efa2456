/* Clients that race for locks, each on a thread, and the report of what went wrong. */
#include <pthread.h>
#include <sched.h>

#include "cluster.h"
#include "racers.h"

static void trouble(struct race *race, const char *format, va_list args)
{
    pthread_mutex_lock(&race->mutex);
    if (race->first_trouble[0] == '\0')
        vsnprintf(race->first_trouble, sizeof(race->first_trouble), format, args);
    pthread_mutex_unlock(&race->mutex);
}

void racer_violation(struct racer *racer, const char *format, ...)
{
    va_list args;

    racer->race->violations++;
    va_start(args, format);
    trouble(racer->race, format, args);
    va_end(args);
}

static void note(struct race *race, const char *format, ...) PRINTF_LIKE(2, 3);

static void note(struct race *race, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    trouble(race, format, args);
    va_end(args);
}

void racer_odd(struct racer *racer, const char *what, long status)
{
    racer->race->odd_answers++;
    note(racer->race, "%s was answered %ld %s", what, status, racer->answer);
}

/* ---- one racer ---- */

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

long racer_ask(struct racer *racer, const char *method, const char *path, const char *header,
               int timeout_ms)
{
    char url[200];
    struct curl_slist *headers = curl_slist_append(NULL, header);
    long status = 0;

    if (racer->session[0] != '\0')
        headers = curl_slist_append(headers, racer->session);
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

int racer_patience(void)
{
    return (int)patience_ms(30000);
}

json_int_t racer_answered(struct racer *racer, const char *member)
{
    json_t *answer = json_loads(racer->answer, 0, NULL);
    json_int_t value = json_integer_value(json_object_get(answer, member));

    json_decref(answer);
    return value;
}

int racer_random(struct racer *racer, int below)
{
    return rand_r(&racer->seed) % below;
}

void racer_dawdle(struct racer *racer)
{
    for (int i = racer_random(racer, 4); i > 0; i--)
        sched_yield();
}

static void *racer_run(void *arg)
{
    struct racer *racer = arg;

    while (!racer->race->over && racer->race->violations == 0)
        racer->round(racer);
    return NULL;
}

static void racer_start(struct racer *racer)
{
    racer->curl = curl_easy_init();
    assert_non_null(racer->curl);
    curl_easy_setopt(racer->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(racer->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(racer->curl, CURLOPT_WRITEFUNCTION, answer_add);
    curl_easy_setopt(racer->curl, CURLOPT_WRITEDATA, racer);
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_run, racer), 0);
}

/* ---- all of them ---- */

static void race_start(struct world *w, struct race *race, void (*round)(struct racer *racer),
                       void *course)
{
    for (int i = 0; i < race->racers; i++) {
        race->first[i] = (struct racer){.race = race,
                                        .course = course,
                                        .fe = i % 2 == 0 ? w->a : w->b,
                                        .seed = (unsigned)i + 1,
                                        .round = round};
        racer_start(&race->first[i]);
    }
}

/* Also where the test fails meanwhile. */
static void race_join(void *thing)
{
    struct race *race = thing;

    race->over = true;
    for (int i = 0; i < race->racers && !race->is_joined; i++) {
        pthread_join(race->first[i].thread, NULL);
        curl_easy_cleanup(race->first[i].curl);
    }
    race->is_joined = true;
}

static void race_end(struct race *race)
{
    race_join(race);
    if (race->violations > 0 || race->odd_answers > 0 || race->first_trouble[0] != '\0')
        FAIL("%d violations, %d odd answers; the first: %s", race->violations,
             race->odd_answers, race->first_trouble);
}

void race_run(struct world *w, int racers, int seconds, void (*round)(struct racer *racer),
              void *course, bool (*look)(void *course))
{
    enum { MORE_MS = 20000 };

    struct race *race = calloc(1, sizeof(*race));
    struct racer *first = calloc((size_t)racers, sizeof(*first));
    const char *other_seconds = getenv("RACER_SECONDS");

    assert_true(race != NULL && first != NULL);
    world_defer(w, free, race);
    world_defer(w, free, first);
    race->racers = racers;
    race->seconds = other_seconds != NULL ? atoi(other_seconds) : seconds;
    race->first = first;
    pthread_mutex_init(&race->mutex, NULL);
    race_start(w, race, round, course);
    world_defer(w, race_join, race);
    int64_t end = now_ms() + 1000L * race->seconds;
    bool has_shown = false;
    while (race->violations == 0 &&
           (now_ms() < end || (!has_shown && now_ms() < end + patience_ms(MORE_MS))))
        has_shown = look(course);
    race_end(race);
}

/* Entries of the index of fair queues go with the watchdog's next visit of each queue. */
static bool is_index(const char *name)
{
    return strncmp(name, "rlockd:queues:", strlen("rlockd:queues:")) == 0 ||
           strncmp(name, "rlockd:census:", strlen("rlockd:census:")) == 0;
}

/* Asks the node that has the keys, so that no command is redirected. */
static void check_keys_of(struct redis *node, const char *stays, long long ttl_max_ms)
{
    json_t *keys = redis_keys(node, ""), *key;
    size_t i;

    json_array_foreach(keys, i, key) {
        const char *name = json_string_value(key);

        if (strncmp(name, stays, strlen(stays)) == 0 || is_index(name))
            continue;
        long long ttl_ms = redis_int(node, "PTTL %s", name);
        if (strncmp(name, "rlockd:", 7) != 0 || ttl_ms == -1 || ttl_ms > ttl_max_ms)
            FAIL("left behind: %s with a TTL of %lld ms", name, ttl_ms);
    }
}

void race_check_remains(struct world *w, const char *stays, long long ttl_max_ms)
{
    const struct cluster *cluster = w->redis->cluster;

    if (cluster == NULL)
        check_keys_of(w->redis, stays, ttl_max_ms);
    for (int i = 0; cluster != NULL && i < cluster->len; i++)
        check_keys_of(cluster->nodes[i], stays, ttl_max_ms);
}
