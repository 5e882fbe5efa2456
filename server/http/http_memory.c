/* The memory of requests: from pools, and whatever else lives as long as a request. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

void http_text_free(struct http_server *server, const char *text, enum http_text_owner owner)
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

    http_large_end(request);
    http_text_free(request->server, request->reply.text, request->reply.text_owner);
    auth_snapshot_drop(request->auth);
    free(request->body);
    while ((memory = request->more_memory) != NULL) {
        request->more_memory = memory->next;
        free(memory);
    }
    pool_give(&request->server->requests, request);
}
