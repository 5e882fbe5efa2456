#include "handlers/routes.h"

/* The most frequent first: the table is searched from the top. */
static const struct route routes[] = {
    {.method = "PUT", .path = "/v1/locks/{name}", .access = ROUTE_LOCK, .handle = locks_put},
    {.method = "DELETE",
     .path = "/v1/locks/{name}",
     .access = ROUTE_LOCK,
     .handle = locks_delete},
    {.method = "PATCH",
     .path = "/v1/locks/{name}",
     .access = ROUTE_LOCK,
     .handle = locks_patch},
    {.method = "POST", .path = "/v1/locks/{name}", .access = ROUTE_LOCK, .handle = locks_post},
    {.method = "GET", .path = "/v1/locks/{name}", .access = ROUTE_LOCK, .handle = locks_get},
    {.method = "GET",
     .path = "/v1/locks/{name}/fencing-tokens/{n}",
     .access = ROUTE_LOCK,
     .handle = locks_check_fencing_token},
    {.method = "POST",
     .path = "/v1/locks/{name}/force-unlock",
     .access = ROUTE_OPERATOR,
     .handle = locks_force_unlock},
    {.method = "GET", .path = "/v1/locks", .access = ROUTE_LOCK, .handle = locks_list},
    {.method = "POST",
     .path = "/v1/sessions/{session_id}/keep-alive",
     .access = ROUTE_CALLER,
     .handle = sessions_keep_alive},
    {.method = "POST", .path = "/v1/sessions", .access = ROUTE_CALLER, .handle = sessions_post},
    {.method = "GET", .path = "/v1/sessions", .access = ROUTE_CALLER, .handle = sessions_list},
    {.method = "GET",
     .path = "/v1/sessions/{session_id}",
     .access = ROUTE_CALLER,
     .handle = sessions_get},
    {.method = "DELETE",
     .path = "/v1/sessions/{session_id}",
     .access = ROUTE_CALLER,
     .handle = sessions_delete},
    {.method = "GET", .path = "/livez", .access = ROUTE_OPEN, .handle = operations_livez},
    {.method = "GET", .path = "/readyz", .access = ROUTE_OPEN, .handle = operations_readyz},
    {.method = "GET", .path = "/metrics", .access = ROUTE_OPEN, .handle = operations_metrics},
    {.method = "GET",
     .path = "/openapi.yaml",
     .access = ROUTE_OPEN,
     .handle = operations_openapi},
    {.method = "GET", .path = "/version", .access = ROUTE_OPEN, .handle = operations_version},
};

const struct route *routes_table(void)
{
    return routes;
}

size_t routes_count(void)
{
    return sizeof(routes) / sizeof(routes[0]);
}
