/* server/http/http_receive.c and route.c: from the target of a request to its handler. The
 * input is a line, the method, and then the target. */
#include "server/base/log.h"
#include "server/base/text.h"
#include "server/http/http_internal.h"
#include "server/http/origin.h"
#include "tests/fuzz/fuzz.h"

static size_t handled, problems;

/* --- what http_receive.c needs of the rest ------------------------------------------------ */

void http_set_stage(struct http_request *request, enum http_stage stage)
{
    request->stage = stage;
}

void http_begin_listing(struct http_request *request,
                        void (*handle)(struct http_request *request))
{
    handle(request);
}

bool http_take_headers(struct http_request *request, const char *version,
                       struct http_refusal *refusal)
{
    (void)request;
    (void)version;
    (void)refusal;
    return true;
}

bool http_check_origin(const struct http_request *request, const struct route *route,
                       struct http_refusal *refusal)
{
    (void)refusal;
    (void)request;
    (void)route;
    return true;
}

bool http_authenticate(struct http_request *request, const struct route *route,
                       struct http_refusal *refusal)
{
    (void)refusal;
    (void)request;
    (void)route;
    return true;
}

bool http_authorize(const struct http_request *request, const struct route *route,
                    struct http_refusal *refusal)
{
    (void)refusal;
    (void)route;
    CHECK(request->params[0] == NULL || request->params[0][0] != '\0');
    return true;
}

void http_reply_header(struct http_request *request, const char *name, const char *value)
{
    (void)request;
    CHECK(name[0] != '\0' && strpbrk(value, "\r\n") == NULL);
}

bool http_reply_has_header(const struct http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return false;
}

void http_refusal_ask_user(const struct http_request *request, struct http_refusal *refusal,
                           const char *detail)
{
    (void)request;
    (void)refusal;
    (void)detail;
}

void http_log_audit(struct http_request *request)
{
    (void)request;
}

enum route_dialect http_dialect(const struct http_request *request)
{
    (void)request;
    return DIALECT_RLOCKD;
}

void http_log_text(struct http_request *request, const char *name, const char *value)
{
    (void)request;
    CHECK(name[0] != '\0' && value != NULL);
}

void http_reply_problem(struct http_request *request, int status, json_t *body)
{
    (void)request;
    CHECK(status >= 400 && status < 500 && json_object_get(body, "detail") != NULL);
    json_decref(body);
    problems++;
}

void http_reply_static(struct http_request *request, int status, const char *content_type,
                       const char *text, size_t len)
{
    (void)request;
    (void)status;
    (void)content_type;
    (void)text;
    (void)len;
    problems++;
}

void http_refuse_stopping(struct http_request *request)
{
    (void)request;
    CHECK(false); /* this server does not stop */
}

/* --- the handler -------------------------------------------------------------------------- */

static void handle(struct http_request *request)
{
    CHECK(request->stage == HTTP_STAGE_HANDLED);
    for (size_t i = 0; i < ROUTE_PARAMS && request->params[i] != NULL; i++) {
        size_t len = strlen(request->params[i]);
        CHECK(len >= 1 && len <= HTTP_NAME_MAX);
        CHECK(text_is_utf8(request->params[i], len) &&
              !text_has_control(request->params[i], len));
    }
    handled++;
}

/* Each shape that a path of handlers/routes.c has. */
static const struct route routes[] = {
    {.method = "PUT", .path = "/v1/locks/{name}", .access = AUTH_LOCK, .handle = handle},
    {.method = "GET", .path = "/v1/locks/{name}", .access = AUTH_LOCK, .handle = handle},
    {.method = "GET",
     .path = "/v1/locks/{name}/fencing-tokens/{n}",
     .access = AUTH_LOCK,
     .handle = handle},
    {.method = "POST",
     .path = "/v1/locks/{name}/force-unlock",
     .access = AUTH_OPERATE,
     .handle = handle},
    {.method = "GET",
     .path = "/v1/locks",
     .access = AUTH_LOCK,
     .handle = handle,
     .is_listing = true},
    {.method = "POST",
     .path = "/v1/sessions/{session_id}/keep-alive",
     .access = AUTH_LOCK,
     .handle = handle},
    {.method = "PUT",
     .path = "/v1/permit-semaphores/{name}/permit",
     .access = AUTH_LOCK,
     .handle = handle},
    {.method = "GET", .path = "/readyz", .access = AUTH_OPEN, .handle = handle},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct origin_rules origins = {
        .cors_origins = "https://example.com", .server_names = "", .listen_host = ""};
    static struct http_server server = {
        .options = {.routes = routes,
                    .route_count = sizeof(routes) / sizeof(routes[0]),
                    .origins = &origins}};
    struct fuzz_input input = {data, size};
    char *method = fuzz_line(&input), *uri = fuzz_rest(&input);
    struct http_request request = {.server = &server, .method = method, .uri = uri};

    if (strlen(method) % 2 == 0)
        request.headers[HTTP_ORIGIN] = "https://example.com";
    log_set_level(LOG_LEVEL_ERROR + 1); /* no line, so no memory for its members */
    handled = problems = 0;
    http_dispatch(&request);
    CHECK(handled + problems == 1);
    free(uri);
    free(method);
    return 0;
}
