/* GET /livez, /readyz, /metrics, /openapi.yaml, /version. */
#include <stdlib.h>
#include <string.h>

#include "handlers/routes.h"
#include "handlers/context.h"
#include "server/base/clock.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "storage/store/key.h"

/* Everybody who reaches the port may ask for the metrics, and making the page takes three times
 * as long as the rest of a request. */
#define METRICS_EVERY_NS (1 * CLOCK_NS_PER_S)

static const char openapi[] =
#include "openapi.inc"
    ;

void operations_livez(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_json(request, 200, json_pack("{s:s}", "status", "alive"));
}

/* A client's next connection may be any worker's. */
static bool is_every_worker_ready(const struct handler_context *context)
{
    return atomic_load(context->ready_workers) == context->worker_count;
}

static json_t *members_json(const struct handler_context *context)
{
    json_t *members = json_array();
    struct store_member member = {0};
    char address[320];

    for (store_next_member(context->store, &member); member.node != NULL;
         store_next_member(context->store, &member)) {
        const char *state = !member.is_up              ? "down"
                            : member.quarantine_ms > 0 ? "quarantine"
                                                       : "up";
        topology_node_address(member.node, address, sizeof(address));
        json_t *json = json_pack("{s:s, s:s}", "host", address, "state", state);
        if (member.quarantine_ms > 0)
            json_object_set_new(json, "quarantine_ms", json_integer(member.quarantine_ms));
        if (member.is_up)
            json_object_set_new(json, "clock_offset_ms",
                                json_integer(member.clock_offset_us / 1000));
        json_array_append_new(members, json);
    }
    return members;
}

/* `detail`: what is wrong with a part of the keys; empty when nothing is. */
static json_t *ready_json(const struct handler_context *context, const char *detail)
{
    struct topology_state state;

    topology_describe(context->topology, &state);
    json_t *redis = json_pack("{s:s}", "topology", state.name);
    if (state.sentinels > 0)
        json_object_set_new(redis, "sentinels", json_integer((json_int_t)state.sentinels));
    if (state.masters > 0) {
        json_object_set_new(redis, "masters", json_integer((json_int_t)state.masters));
        json_object_set_new(redis, "slots", json_integer((json_int_t)state.slots));
    }
    if (state.sentinels > 0 || state.masters > 0)
        json_object_set_new(redis, "failovers", json_integer(state.failovers));
    if (state.nodes > 0)
        json_object_set_new(redis, "members", members_json(context));
    if (detail[0] != '\0')
        json_object_set_new(redis, "detail", json_string(detail));
    int64_t quarantine_ms = store_quarantine_ms(context->store, NULL);
    if (quarantine_ms > 0)
        json_object_set_new(redis, "quarantine_ms", json_integer(quarantine_ms));
    return json_pack("{s:s, s:o}", "status", "ready", "redis", redis);
}

static void reply_not_ready(struct http_request *request, const char *detail)
{
    problem_reply(request, PROBLEM_REDIS_UNAVAILABLE,
                  json_pack("{s:s}", "outcome", "not-executed"), "%s", detail);
}

void operations_readyz(struct http_request *request)
{
    const struct handler_context *context = http_context(request);
    const char *why_not, *trouble;
    bool is_everywhere;

    if (!request_no_fields(request))
        return;
    bool reaches_all = topology_is_ready(context->topology, &why_not);
    trouble = topology_trouble(context->topology, &is_everywhere);
    if (context->leaving)
        problem_reply(request, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
                      "this server is shutting down");
    else if (!topology_reaches_some(context->topology))
        reply_not_ready(request, why_not);
    else if (trouble[0] != '\0' && is_everywhere)
        reply_not_ready(request, trouble);
    else if (!is_every_worker_ready(context))
        reply_not_ready(request, "a worker of this server cannot use Redis");
    else
        http_reply_json(request, 200, ready_json(context, reaches_all ? trouble : why_not));
}

static char *make_metrics_page(struct http_request *request, size_t *len)
{
    const struct handler_context *context = http_context(request);
    struct metrics_route *routes = http_memory(request, context->route_count * sizeof(*routes));

    for (size_t i = 0; i < context->route_count; i++)
        routes[i] = (struct metrics_route){context->routes[i].method, context->routes[i].path};
    return metrics_page(context->all_metrics, context->worker_count, routes, len);
}

void operations_metrics(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    struct operations_page *page = &context->metrics_page;
    int64_t now_ns = loop_now_ns(context->loop);

    if (!request_no_fields(request))
        return;
    if (page->text == NULL || now_ns - page->made_ns >= METRICS_EVERY_NS) {
        free(page->text);
        page->text = make_metrics_page(request, &page->len);
        page->made_ns = now_ns;
    }
    if (page->text == NULL)
        http_reply_json(request, 500, NULL);
    else
        http_reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", page->text,
                        page->len);
}

void operations_openapi(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_static(request, 200, "application/yaml", openapi, sizeof(openapi) - 1);
}

void operations_version(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_json(request, 200,
                        json_pack("{s:s, s:s, s:[i]}", "name", "rlockd", "version",
                                  RLOCKD_VERSION, "layouts", KEY_LAYOUT));
}
