/* How deadlocks look in answers. */
#include "handlers/deadlock_reply.h"

#include "server/auth/auth.h"
#include "server/http/http.h"

json_t *deadlock_shown(struct http_request *http, const struct deadlock *deadlock)
{
    const struct auth_caller *caller = http_caller(http); /* NULL: no API tokens */
    json_t *json = deadlock_json(deadlock);

    for (size_t i = 0; i < json_array_size(json); i++) {
        json_t *member = json_array_get(json, i);
        if (caller == NULL || auth_allows(caller, AUTH_READ, deadlock->members[i].lock))
            continue;
        json_object_del(member, "lock");
        json_object_del(member, "lease_id");
        json_object_del(member, "note");
    }
    return json;
}
