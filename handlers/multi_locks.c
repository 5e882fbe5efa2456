/* The names of several locks: which are given, and whether the caller has a right to them. */
#include "handlers/multi_locks.h"

#include "server/http/problem.h"

bool multi_locks_allows(const struct auth_caller *caller, enum auth_verb verb,
                        const struct lock_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (!auth_allows(caller, verb, names->name[i]))
            return false;
    return true;
}

bool multi_locks_check_right(struct http_request *http, const struct lock_names *names)
{
    const struct auth_caller *caller = http_caller(http);

    if (caller == NULL || multi_locks_allows(caller, http_access(http), names))
        return true;
    http_forbid(http, http_access(http),
                "locks: this API token gives no right to all of these names");
    return false;
}

bool multi_locks_read(struct lease_request *request, const struct field_names *given)
{
    struct http_request *http = request->http;
    const char *names[LOCKS_MAX];

    if (given->count == 0) {
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "locks: this request needs 1 to %d names", LOCKS_MAX);
        return false;
    }
    for (size_t i = 0; i < given->count; i++) {
        names[i] = given->names[i];
        if (!lease_request_check_name(http, "locks", names[i]))
            return false;
    }
    request->lease.names = lock_names_new(names, given->count);
    http_log_json(http, "locks", multi_locks_names_json(request->lease.names));
    if (lock_names_duplicate(request->lease.names) != NULL) {
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "locks: a name occurs more than once");
        return false;
    }
    return multi_locks_check_right(http, request->lease.names) &&
           lease_request_check_slot(http, "locks", request->lease.names->name,
                                    request->lease.names->count);
}

json_t *multi_locks_names_json(const struct lock_names *names)
{
    json_t *json = json_array();

    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(json, json_string(names->name[i]));
    return json;
}
