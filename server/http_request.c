#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_internal.h"

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

static void free_text(struct http_request *request)
{
    struct http_reply *reply = &request->reply;

    if (reply->text_pooled)
        pool_give(&request->server->texts, reply->text);
    else
        free(reply->text);
}

void http_request_free(struct http_request *request)
{
    struct http_memory *memory;

    http_set_stage(request, HTTP_STAGE_DROPPED);
    free_text(request);
    free(request->reply.headers);
    free(request->body);
    json_decref(request->locks);
    while ((memory = request->more_memory) != NULL) {
        request->more_memory = memory->next;
        free(memory);
    }
    pool_give(&request->server->requests, request);
}

void *http_service(const struct http_request *request)
{
    return request->server->options.service;
}

const char *http_header(const struct http_request *request, enum http_header header)
{
    return request->headers[header];
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

/* Takes over `text`. */
static void reply(struct http_request *request, int status, const char *content_type,
                  char *text, size_t len)
{
    assert(request->stage <= HTTP_STAGE_HANDLED);
    request->status = status;
    request->reply.content_type = content_type;
    request->reply.text = text;
    request->reply.len = len;
    http_answered(request);
}

/* Takes over `body`. */
static void reply_body(struct http_request *request, int status, const char *content_type,
                       json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text == NULL) {
        text = strdup("{\"type\":\"about:blank\",\"status\":500}");
        assert(text != NULL);
        status = 500;
        content_type = "application/problem+json";
    }
    reply(request, status, content_type, text, strlen(text));
}

void http_reply_written(struct http_request *request, int status, struct json_text *body)
{
    json_text_end(body);
    request->reply.text_pooled = body->text == body->start;
    char *text = request->reply.text_pooled ? pool_take(&request->server->texts) : body->text;
    assert(text != NULL);
    if (request->reply.text_pooled)
        memcpy(text, body->start, body->len);
    reply(request, status, "application/json", text, body->len);
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
    reply(request, status, content_type, copy, len);
}

void http_reply_header(struct http_request *request, const char *name, const char *value)
{
    struct http_reply_headers *headers = request->reply.headers;

    if (headers == NULL) {
        headers = request->reply.headers = malloc(sizeof(*headers));
        assert(headers != NULL);
        headers->count = 0;
    }
    assert(headers->count < HTTP_REPLY_HEADERS);
    assert(strlen(value) < HTTP_REPLY_VALUE_SIZE);
    headers->list[headers->count].name = name;
    snprintf(headers->list[headers->count].value, HTTP_REPLY_VALUE_SIZE, "%s", value);
    headers->count++;
}

bool http_reply_has_header(const struct http_request *request, const char *name)
{
    const struct http_reply_headers *headers = request->reply.headers;

    for (size_t i = 0; headers != NULL && i < headers->count; i++)
        if (strcmp(headers->list[i].name, name) == 0)
            return true;
    return false;
}

void http_park(struct http_request *request)
{
    request->park_wanted = true;
    request->server->run_wanted = true;
}

void http_watch(struct http_request *request, void (*gone)(void *arg),
                void (*end)(void *arg, bool delivered), void *arg)
{
    request->gone = gone;
    request->end = end;
    request->arg = arg;
}

void http_log_lease(struct http_request *request, const char *lease_id)
{
    size_t len = strlen(lease_id);

    assert(len < sizeof(request->lease_id));
    memcpy(request->lease_id, lease_id, len + 1);
}

void http_log_locks(struct http_request *request, json_t *names)
{
    json_decref(request->locks);
    request->locks = names;
}
