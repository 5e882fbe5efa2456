/* The functions by which handlers use a request: what was asked, and answers. An answer that is
 * no problem is in http_reply.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"

void *http_context(const struct http_request *request)
{
    return request->server->options.context;
}

const char *http_header(const struct http_request *request, enum http_header header)
{
    return request->headers[header];
}

int http_subject(const struct http_request *request)
{
    return request->server->options.routes[request->route].subject;
}

enum route_dialect http_dialect(const struct http_request *request)
{
    const struct http_options *options = &request->server->options;

    return request->route < options->route_count ? options->routes[request->route].dialect
                                                 : DIALECT_RLOCKD;
}

const char *http_param(const struct http_request *request, size_t i)
{
    assert(i < ROUTE_PARAMS && request->params[i] != NULL);
    return request->params[i];
}

const char *http_query(const struct http_request *request)
{
    return request->query;
}

const char *http_body(const struct http_request *request, size_t *len)
{
    *len = request->body_len;
    return request->body;
}

const struct auth_caller *http_caller(const struct http_request *request)
{
    return request->caller;
}

int64_t http_received_ns(const struct http_request *request)
{
    return request->received_ns;
}

enum auth_verb http_access(const struct http_request *request)
{
    return request->server->options.routes[request->route].access;
}

void http_reply_header(struct http_request *request, const char *name, const char *value)
{
    size_t value_size = strlen(value) + 1;
    struct http_reply_header *header = http_memory(request, sizeof(*header) + value_size);

    header->name = name;
    memcpy(header->value, value, value_size);
    LL_APPEND(request->reply.headers, header);
}

bool http_reply_has_header(const struct http_request *request, const char *name)
{
    const struct http_reply_header *header;

    LL_FOREACH(request->reply.headers, header)
        if (strcmp(header->name, name) == 0)
            return true;
    return false;
}

bool http_suspend(struct http_request *request)
{
    if (!http_begin_wait(request))
        return false;
    free(request->body); /* thousands may wait for long */
    request->body = NULL;
    request->body_len = request->body_size = 0;
    if (request->waits_since_ns == 0)
        request->waits_since_ns = clock_ns();
    request->suspend_wanted = true;
    request->server->run_wanted = true;
    return true;
}

void http_watch(struct http_request *request, void (*gone)(void *arg),
                void (*end)(void *arg, bool delivered), void *arg)
{
    request->gone = gone;
    request->end = end;
    request->arg = arg;
}

/* --- answers ------------------------------------------------------------------------------ */

void http_answer(struct http_request *request, int status, const char *content_type,
                 const char *text, size_t len, enum http_text_owner owner)
{
    assert(request->stage <= HTTP_STAGE_HANDLED);
    http_large_count(request, owner == HTTP_TEXT_HEAP ? len : 0);
    request->status = status;
    request->reply.content_type = content_type;
    request->reply.text = text;
    request->reply.len = len;
    request->reply.text_owner = owner;
    http_answered(request);
}

void http_reply_problem(struct http_request *request, int status, json_t *body)
{
    const char *content_type = http_dialect(request) == DIALECT_GIT_LFS
                                   ? HTTP_GIT_LFS_JSON
                                   : "application/problem+json";
    static const char no_memory[] = "{\"type\":\"about:blank\",\"status\":500}";
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text != NULL)
        http_answer(request, status, content_type, text, strlen(text), HTTP_TEXT_HEAP);
    else
        http_answer(request, 500, content_type, no_memory, sizeof(no_memory) - 1,
                    HTTP_TEXT_STATIC);
}
