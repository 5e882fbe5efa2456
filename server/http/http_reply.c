/* The answers that are no problems; those that are too large at this time are refused. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http_internal.h"
#include "server/http/problem.h"

void http_refuse_large(struct http_request *request, int limit, const char *detail)
{
    metrics_add(request->server->options.metrics, METRIC_REFUSED_LARGE, 1);
    problem_reply(request, PROBLEM_LIMIT_REACHED, json_pack("{s:i}", "limit", limit), "%s",
                  detail);
}

void http_refuse_answer(struct http_request *request)
{
    http_refuse_large(request, HTTP_ANSWERS_MAX,
                      "large answers: this caller has as many as it may that are not read yet");
}

void http_refuse_stopping(struct http_request *request)
{
    problem_reply(request, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
                  "this server is shutting down");
}

/* Takes over `text`, unless it is static. */
static void reply(struct http_request *request, int status, const char *content_type,
                  const char *text, size_t len, enum http_text_owner owner)
{
    /* Only a request without an effect may be refused after its handler has answered. */
    if (owner == HTTP_TEXT_HEAP && !http_may_answer(request, len) &&
        strcmp(request->method, "GET") == 0) {
        http_text_free(request->server, text, owner);
        http_refuse_answer(request);
        return;
    }
    http_answer(request, status, content_type, text, len, owner);
}

static const char *media_type(const struct http_request *request)
{
    return http_dialect(request) == DIALECT_GIT_LFS ? HTTP_GIT_LFS_JSON : "application/json";
}

void http_reply_written(struct http_request *request, int status, struct json_text *body)
{
    json_text_end(body);
    bool is_short = body->text == body->start;
    char *text = is_short ? pool_take(&request->server->texts) : body->text;
    assert(text != NULL);
    if (is_short)
        memcpy(text, body->start, body->len);
    reply(request, status, media_type(request), text, body->len,
          is_short ? HTTP_TEXT_POOL : HTTP_TEXT_HEAP);
}

void http_reply_json(struct http_request *request, int status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text != NULL)
        reply(request, status, media_type(request), text, strlen(text), HTTP_TEXT_HEAP);
    else
        http_reply_problem(request, 500, NULL);
}

void http_reply_text(struct http_request *request, int status, const char *content_type,
                     const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    assert(copy != NULL);
    memcpy(copy, text, len);
    reply(request, status, content_type, copy, len, HTTP_TEXT_HEAP);
}

void http_reply_static(struct http_request *request, int status, const char *content_type,
                       const char *text, size_t len)
{
    reply(request, status, content_type, text, len, HTTP_TEXT_STATIC);
}
