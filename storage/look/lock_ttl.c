/* How long a lock is held: one command instead of a script. */
#include "storage/look/locks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/store_call.h"

struct ttl_call {
    lock_ttl_done *done;
    void *arg;
};

static void on_reply(void *arg, const struct redis_result *result)
{
    struct ttl_call call = *(struct ttl_call *)arg;

    free(arg);
    if (result->outcome == REDIS_DONE && value_is_integer(result->reply))
        call.done(call.arg, value_integer(result->reply));
    else
        call.done(call.arg, LOCK_TTL_UNKNOWN);
}

void lock_ttl(struct store *store, const char *name, lock_ttl_done *done, void *arg)
{
    struct ttl_call *call = malloc(sizeof(*call));
    char key[KEY_SIZE];
    size_t len = store_key_name(store, name, key, sizeof(key));
    const char *argv[] = {"PTTL", key};
    const size_t lens[] = {4, len};
    const struct redis_command command = {.argc = 2, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(key, len);

    assert(call != NULL);
    *call = (struct ttl_call){done, arg};
    topology_command(store_topology(store), &tag, &command, on_reply, call);
}
