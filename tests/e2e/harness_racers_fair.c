/* Watches the queue of a fair lock during a race. */
#include <pthread.h>

#include "fair.h"
#include "racers_fair.h"

struct fair_watch {
    struct redis *redis;
    pthread_mutex_t mutex;
    long clock;
    json_t *seen;    /* lease id -> clock when it was first seen in the queue */
    long last_asked; /* the clock of the latest request that was granted the lock */
    long ordered;    /* grants of leases that were seen in the queue */
    const char *queue;
};

static void watch_free(void *thing)
{
    struct fair_watch *watch = thing;

    json_decref(watch->seen);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}

struct fair_watch *fair_watch_new(struct world *w, const char *lock)
{
    struct fair_watch *watch = calloc(1, sizeof(*watch));

    assert_non_null(watch);
    watch->redis = w->redis;
    pthread_mutex_init(&watch->mutex, NULL);
    watch->seen = json_object();
    watch->queue = fair_queue(w, lock);
    world_defer(w, watch_free, watch);
    return watch;
}

long fair_watch_tick(struct fair_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    long now = ++watch->clock;
    pthread_mutex_unlock(&watch->mutex);
    return now;
}

void fair_watch_look(struct fair_watch *watch)
{
    redisReply *list = redis_do(watch->redis, "LRANGE %s 0 -1", watch->queue);

    pthread_mutex_lock(&watch->mutex);
    watch->clock++;
    for (size_t i = 0; i < list->elements; i++) {
        char *lease_id = list->element[i]->str;

        lease_id[UUID_SIZE - 1] = '\0';
        if (json_object_get(watch->seen, lease_id) == NULL)
            json_object_set_new(watch->seen, lease_id, json_integer(watch->clock));
    }
    pthread_mutex_unlock(&watch->mutex);
}

void fair_watch_grant(struct fair_watch *watch, struct racer *racer, long asked)
{
    json_t *answer = json_loads(racer->answer, 0, NULL);

    pthread_mutex_lock(&watch->mutex);
    const char *lease_id = json_string_value(json_object_get(answer, "lease_id"));
    const json_t *seen = json_object_get(watch->seen, lease_id);
    watch->ordered += seen != NULL;
    if (seen != NULL && json_integer_value(seen) < watch->last_asked)
        racer_violation(racer,
                        "a request that was sent at %ld came before another one that stood in "
                        "the queue at %lld",
                        watch->last_asked, (long long)json_integer_value(seen));
    if (asked > watch->last_asked)
        watch->last_asked = asked;
    pthread_mutex_unlock(&watch->mutex);
    json_decref(answer);
}

long fair_watch_ordered(const struct fair_watch *watch)
{
    return watch->ordered;
}
