/* Which web pages are served; what a caller with an API token may do, and how much of it. */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "server/auth/auth_source.h"
#include "server/http/http_internal.h"
#include "server/http/origin.h"

_Static_assert((int)AUTH_PREFIX_MAX == (int)HTTP_NAME_MAX, "a right may be to any name");

bool http_check_origin(const struct http_request *request, const struct route *route,
                       struct http_refusal *refusal)
{
    const struct origin_headers headers = {
        .host = request->headers[HTTP_HOST],
        .origin = request->headers[HTTP_ORIGIN],
        .sec_fetch_site = request->headers[HTTP_SEC_FETCH_SITE],
        .sec_fetch_dest = request->headers[HTTP_SEC_FETCH_DEST]};
    bool opens_page = route->access == AUTH_OPEN && strcmp(route->method, "GET") == 0;

    switch (origin_check(request->server->options.origins, &headers, opens_page)) {
    case ORIGIN_SERVED:
        return true;
    case ORIGIN_WRONG_HOST:
        return http_refusal_set(
            refusal, PROBLEM_FORBIDDEN,
            "Host: this server answers only to addresses, localhost, the host of "
            "--listen and the names in --server-names");
    case ORIGIN_REBINDABLE:
        return http_refusal_set(
            refusal, PROBLEM_FORBIDDEN,
            "Origin: a web page of this server may use the server only under an "
            "address, localhost, the host of --listen or a name in --server-names");
    case ORIGIN_FOREIGN:
        return http_refusal_set(
            refusal, PROBLEM_FORBIDDEN,
            "Origin: web pages of other origins may use this server only from an "
            "origin in --cors-origins");
    }
    return false;
}

/* A challenge of Basic makes a browser ask its user for a name and a password, so a web page is
 * not sent one. Clients that can send Basic only, such as git, may wait for the challenge. */
static bool may_ask_basic(const struct http_request *request)
{
    return request->headers[HTTP_SEC_FETCH_SITE] == NULL &&
           request->headers[HTTP_ORIGIN] == NULL;
}

void http_refusal_ask_user(const struct http_request *request, struct http_refusal *refusal,
                           const char *detail)
{
    http_refusal_set(refusal, PROBLEM_UNAUTHENTICATED, "Authorization: %s", detail);
    refusal->asks_basic = may_ask_basic(request);
}

static bool refuse_token(const struct http_request *request, struct http_refusal *refusal,
                         const char *detail)
{
    const char *authorization = request->headers[HTTP_AUTHORIZATION];
    bool is_basic = authorization != NULL && strncasecmp(authorization, "Basic ", 6) == 0;

    http_refusal_set(refusal, PROBLEM_UNAUTHENTICATED, "Authorization: %s", detail);
    refusal->challenge = authorization == NULL || is_basic ? "Bearer"
                                                           : "Bearer error=\"invalid_token\"";
    refusal->asks_basic = (authorization == NULL || is_basic) && may_ask_basic(request);
    return false;
}

bool http_authenticate(struct http_request *request, const struct route *route,
                       struct http_refusal *refusal)
{
    struct auth_source *source = request->server->options.auth;

    if (source == NULL || route->access == AUTH_OPEN)
        return true;
    request->auth = auth_source_take(source);
    request->caller = auth_find(auth_snapshot_auth(request->auth),
                                request->headers[HTTP_AUTHORIZATION]);
    if (request->caller == NULL)
        return refuse_token(
            request, refusal,
            "needs an API token that this server knows, as a Bearer token or as "
            "the password of Basic");
    if (auth_is_expired(request->caller))
        return refuse_token(request, refusal, "this API token has expired");
    if (!auth_count_request(request->caller, request->received_ns))
        return http_refusal_set(refusal, PROBLEM_LIMIT_REACHED,
                                "this API token has used up its requests of this second");
    return true;
}

bool http_authorize(const struct http_request *request, const struct route *route,
                    struct http_refusal *refusal)
{
    const struct auth_caller *caller = request->caller;

    if (caller == NULL || route->access == AUTH_KNOWN)
        return true;
    if (route_has_name(route) ? auth_allows(caller, route->access, request->params[0])
                              : auth_allows_some(caller, route->access))
        return true;
    return http_refusal_forbid(refusal, route->access,
                               route_has_name(route)
                                   ? "this API token gives no right to do that to this name"
                                   : "this API token gives no right to do that");
}

bool http_begin_wait(struct http_request *request)
{
    if (request->caller == NULL || request->is_waiting)
        return true;
    request->is_waiting = auth_begin_wait(request->caller);
    return request->is_waiting;
}

void http_end_wait(struct http_request *request)
{
    if (request->is_waiting)
        auth_end_wait(request->caller);
    request->is_waiting = false;
}
