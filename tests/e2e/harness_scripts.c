/* How many scripts Redis ran about an object, from its SLOWLOG. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LOG_MAX = 4096 };

void scripts_count_from_now(struct redis *redis)
{
    redis_ok(redis, "CONFIG SET slowlog-max-len %d", LOG_MAX);
    redis_ok(redis, "CONFIG SET slowlog-log-slower-than 0");
    redis_ok(redis, "SLOWLOG RESET");
}

/* The census looks at each lock, and at the waiters of one with a long wait, no matter who
 * waits: census_look.lua has three KEYS and no ARGV, look.lua has four and four. */
static bool is_of_census(const redisReply *words)
{
    size_t keys = (size_t)atoi(words->element[2]->str), args = words->elements - 3 - keys;

    return (keys == 3 && args == 0) || (keys == 4 && args == 4);
}

/* Whom the script serves: an object or a session, not the rounds of watchdogs and of the
 * census. */
static bool is_about(const redisReply *words, const char *key)
{
    static const char *const of_rounds[] = {
        "rlockd:sessions:", "rlockd:queues:", "rlockd:waits:",
        "rlockd:census:",   "rlockd:marker",  "rlockd:probe:"};
    const char *first_key = words->element[3]->str;

    if (key != NULL)
        return strcmp(first_key, key) == 0;
    for (size_t i = 0; i < COUNT_OF(of_rounds); i++) {
        if (strncmp(first_key, of_rounds[i], strlen(of_rounds[i])) == 0)
            return false;
    }
    return true;
}

int scripts_of(struct redis *redis, const char *address, const char *key, const char **last)
{
    redisReply *log = redis_do(redis, "SLOWLOG GET %d", LOG_MAX); /* the last one first */
    int count = 0;

    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        const redisReply *words = entry->elements > 3 ? entry->element[3] : NULL;
        if (words == NULL || words->elements <= 3 ||
            strcasecmp(words->element[0]->str, "evalsha") != 0 || !is_about(words, key) ||
            is_of_census(words))
            continue;
        const char *client = entry->element[4]->str;
        if (last != NULL && count == 0)
            *last = client;
        count += address == NULL || strcmp(client, address) == 0;
    }
    return count;
}

int scripts_about(struct redis *redis, const char *key)
{
    return scripts_of(redis, NULL, key, NULL);
}
