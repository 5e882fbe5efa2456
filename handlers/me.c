/* GET /v1/me: who asks, and what the caller may do. */
#include "handlers/context.h"
#include "handlers/routes.h"
#include "server/auth/auth.h"
#include "server/base/date.h"
#include "server/http/http.h"
#include "server/http/request.h"

static json_t *right_json(enum auth_verb verb, const char *prefix)
{
    return json_pack("{s:s, s:s}", "verb", auth_verb_name(verb), "prefix", prefix);
}

static json_t *rights_json(const struct auth_caller *caller)
{
    json_t *rights = json_array();
    const struct auth_right *right;

    for (size_t i = 0; (right = auth_right_at(caller, i)) != NULL; i++)
        json_array_append_new(rights, right_json(right->verb, right->prefix));
    return rights;
}

static void add_limit(json_t *limits, const char *name, int64_t value)
{
    if (value != AUTH_NO_LIMIT)
        json_object_set_new(limits, name, json_integer(value));
}

static json_t *limits_json(const struct auth_caller *caller)
{
    const struct auth_limits *limits = auth_limits(caller);
    json_t *json = json_object();

    add_limit(json, "max_ttl_ms", limits->max_ttl_ms);
    add_limit(json, "max_waiters", limits->max_waiters);
    add_limit(json, "max_requests_per_second", limits->max_requests_per_second);
    return json;
}

static json_t *caller_json(const struct auth_caller *caller)
{
    json_t *json = json_pack("{s:b, s:s, s:o, s:o}", "api_tokens", 1, "caller",
                             auth_caller_name(caller), "rights", rights_json(caller), "limits",
                             limits_json(caller));
    char expires[DATE_SIZE];

    if (auth_expires_s(caller) != INT64_MAX) {
        date_format(expires, auth_expires_s(caller));
        json_object_set_new(json, "expires", json_string(expires));
    }
    return json;
}

/* Without API tokens everyone may do everything. */
static json_t *anyone_json(void)
{
    return json_pack("{s:b, s:[o, o, o], s:{}}", "api_tokens", 0, "rights",
                     right_json(AUTH_READ, ""), right_json(AUTH_LOCK, ""),
                     right_json(AUTH_OPERATE, ""), "limits");
}

void me_get(struct http_request *request)
{
    const struct auth_caller *caller = http_caller(request);
    const struct config *config = ((struct handler_context *)http_context(request))->config;

    if (!request_no_fields(request))
        return;
    json_t *json = caller != NULL ? caller_json(caller) : anyone_json();
    json_object_set_new(json, "max_wait_ms", json_integer(config->max_wait_ms));
    json_object_set_new(json, "refresh_ms", json_integer(config->page_refresh_ms));
    http_reply_json(request, 200, json);
}
