/* The functions by which handlers use a request: memory, headers, answers, suspension. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/auth/auth_source.h"
#include "server/http/http_internal.h"

struct http_memory {
    struct http_memory *next;
    max_align_t bytes[];
};

void http_pools_init(struct http_server *server)
{
    pool_init(&server->requests, HTTP_REQUEST_BLOCK);
    pool_init(&server->texts, JSON_TEXT_SHORT);
}

void http_pools_release(struct http_server *server)
{
    pool_release(&server->requests);
    pool_release(&server->texts);
}

/* Not cleared. NULL: out of memory. */
static void *take_memory(struct http_request *request, size_t size)
{
    size_t units = (size + sizeof(request->room[0]) - 1) / sizeof(request->room[0]);
    size_t units_max = (HTTP_REQUEST_BLOCK - sizeof(*request)) / sizeof(request->room[0]);

    if (units <= units_max - request->room_used) {
        request->room_used += units;
        return request->room + request->room_used - units;
    }
    struct http_memory *memory = malloc(sizeof(*memory) + size);
    if (memory == NULL)
        return NULL;
    memory->next = request->more_memory;
    request->more_memory = memory;
    return memory->bytes;
}

void *http_memory(struct http_request *request, size_t size)
{
    void *memory = take_memory(request, size);

    assert(memory != NULL);
    return memset(memory, 0, size);
}

struct http_request *http_request_new(struct http_server *server, const char *uri)
{
    struct http_request *request = pool_take(&server->requests);
    size_t uri_size = strlen(uri) + 1;

    if (request == NULL)
        return NULL;
    *request = (struct http_request){
        .server = server, .stage = HTTP_STAGE_HEADERS, .route = server->options.route_count};
    request->uri = take_memory(request, uri_size);
    if (request->uri == NULL) {
        pool_give(&server->requests, request);
        return NULL;
    }
    memcpy(request->uri, uri, uri_size);
    return request;
}

static void free_text(struct http_server *server, const char *text, enum http_text_owner owner)
{
    switch (owner) {
    case HTTP_TEXT_HEAP:
        free((char *)text);
        break;
    case HTTP_TEXT_POOL:
        pool_give(&server->texts, (char *)text);
        break;
    case HTTP_TEXT_STATIC:
        break;
    }
}

void http_request_free(struct http_request *request)
{
    struct http_memory *memory;

    http_set_stage(request, HTTP_STAGE_DROPPED);
    http_large_end(request);
    free_text(request->server, request->reply.text, request->reply.text_owner);
    auth_snapshot_drop(request->auth);
    free(request->body);
    while ((memory = request->more_memory) != NULL) {
        request->more_memory = memory->next;
        free(memory);
    }
    pool_give(&request->server->requests, request);
}

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

/* Takes over `text`, unless it is static. */
static void reply(struct http_request *request, int status, const char *content_type,
                  const char *text, size_t len, enum http_text_owner owner)
{
    assert(request->stage <= HTTP_STAGE_HANDLED);
    if (!http_large_may_answer(request, owner == HTTP_TEXT_HEAP ? len : 0)) {
        free_text(request->server, text, owner);
        http_large_refuse_answer(request);
        return;
    }
    request->status = status;
    request->reply.content_type = content_type;
    request->reply.text = text;
    request->reply.len = len;
    request->reply.text_owner = owner;
    http_answered(request);
}

/* Takes over `body`. */
static void reply_body(struct http_request *request, int status, const char *content_type,
                       json_t *body)
{
    static const char no_memory[] = "{\"type\":\"about:blank\",\"status\":500}";
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text != NULL)
        reply(request, status, content_type, text, strlen(text), HTTP_TEXT_HEAP);
    else
        reply(request, 500, "application/problem+json", no_memory, sizeof(no_memory) - 1,
              HTTP_TEXT_STATIC);
}

void http_reply_written(struct http_request *request, int status, struct json_text *body)
{
    json_text_end(body);
    bool is_short = body->text == body->start;
    char *text = is_short ? pool_take(&request->server->texts) : body->text;
    assert(text != NULL);
    if (is_short)
        memcpy(text, body->start, body->len);
    reply(request, status, "application/json", text, body->len,
          is_short ? HTTP_TEXT_POOL : HTTP_TEXT_HEAP);
}

void http_reply_json(struct http_request *request, int status, json_t *body)
{
    reply_body(request, status, "application/json", body);
}

void http_reply_problem(struct http_request *request, int status, json_t *body)
{
    reply_body(request, status, "application/problem+json", body);
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
