/* Shared by the lock protocols of other programs. */
#include "handlers/neighbours.h"

#include <string.h>

#include "server/base/text.h"
#include "server/base/json_scan.h"
#include "server/http/problem.h"
#include "server/http/request.h"

/* Several times as many members as any of the protocols has. */
enum { VALUES_MAX = 64 };

static bool is_any_member(void *arg, const char *name, size_t len)
{
    (void)arg;
    (void)name;
    (void)len;
    return true;
}

json_t *neighbour_body(struct http_request *http)
{
    size_t len;
    const char *text = http_body(http, &len);
    bool is_small = len > 0 &&
                    json_scan(text, len, VALUES_MAX, is_any_member, NULL) == JSON_SCAN_DONE;
    json_t *object = is_small ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (json_is_object(object))
        return object;
    json_decref(object);
    problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                  "body: not one JSON object with unique members, at most %d of them",
                  VALUES_MAX);
    return NULL;
}

const char *neighbour_text(struct http_request *http, const json_t *object, const char *member,
                           size_t max)
{
    const json_t *value = json_object_get(object, member);
    size_t len = json_string_length(value); /* 0: no string */

    if (len >= 1 && len <= max && !text_has_control(json_string_value(value), len))
        return json_string_value(value);
    problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                  "%s: not a text of 1 to %zu bytes without control characters", member, max);
    return NULL;
}

bool neighbour_set_ttl(struct lease_request *request, struct lease_fields *fields)
{
    if (!fields->ttl_ms.given)
        fields->ttl_ms = (struct field_integer){true, CONFIG_LEASE_MAX_MS};
    return lease_request_set_ttl(request, &fields->ttl_ms, false);
}

void neighbour_acquire(struct lease_request *request, struct lease_fields *fields,
                       void (*acquired)(struct lease_request *request,
                                        const struct acquire_result *result))
{
    if (neighbour_set_ttl(request, fields))
        lease_request_acquire(request, &fields->wait_ms, acquired);
}
