/* GET /livez, /readyz, /metrics, /openapi.yaml, /version. */
#include <stdlib.h>
#include <string.h>

#include "handlers/routes.h"
#include "handlers/service.h"
#include "server/problem.h"
#include "server/request.h"

enum { ROUTES_MAX = 64 };

static const char openapi[] =
#include "openapi.inc"
    ;

void operations_livez(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_json(request, 200, json_pack("{s:s}", "status", "alive"));
}

/* A client's next connection may be any worker's. */
static bool every_worker_has_redis(const struct service_shared *shared)
{
    for (size_t i = 0; i < shared->worker_count; i++)
        if (metrics_value(shared->metrics[i], METRIC_REDIS_UP) == 0)
            return false;
    return true;
}

void operations_readyz(struct http_request *request)
{
    const struct service *service = http_service(request);

    if (!request_no_fields(request))
        return;
    if (service->draining)
        problem_reply(request, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
                      "this server is shutting down");
    else if (!redis_is_up(service->redis))
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE,
                      json_pack("{s:s}", "outcome", "not-executed"), "%s",
                      redis_down_reason(service->redis));
    else if (!every_worker_has_redis(service->shared))
        problem_reply(request, PROBLEM_REDIS_UNAVAILABLE,
                      json_pack("{s:s}", "outcome", "not-executed"),
                      "another worker of this server has no connection to Redis");
    else
        http_reply_json(request, 200, json_pack("{s:s}", "status", "ready"));
}

void operations_metrics(struct http_request *request)
{
    const struct service *service = http_service(request);
    struct metrics_route routes[ROUTES_MAX];
    size_t len;

    if (!request_no_fields(request))
        return;
    for (size_t i = 0; i < routes_count() && i < ROUTES_MAX; i++)
        routes[i] = (struct metrics_route){routes_table()[i].method, routes_table()[i].path};
    char *page = metrics_page(service->shared->metrics, service->shared->worker_count, routes,
                              &len);
    if (page == NULL) {
        http_reply_json(request, 500, NULL);
        return;
    }
    http_reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", page, len);
    free(page);
}

void operations_openapi(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_text(request, 200, "application/yaml", openapi, sizeof(openapi) - 1);
}

void operations_version(struct http_request *request)
{
    if (request_no_fields(request))
        http_reply_json(request, 200,
                        json_pack("{s:s, s:s}", "name", "rlockd", "version", RLOCKD_VERSION));
}
