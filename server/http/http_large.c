/* Listings and other large answers: how many are made at a time, and how much of them may wait
 * for clients that do not read. Beyond that a request is refused, so that no crowd of clients
 * decides how much memory the server has. */
#include <assert.h>
#include <malloc.h>
#include <microhttpd.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"
#include "server/http/problem.h"

enum {
    LISTINGS_MAX = 4, /* of a worker, under way: each has a page and the looks of a batch */
    ANSWER_LARGE = 32 * 1024,
    ANSWERS_MAX = 32, /* of a worker, not sent yet */
    ANSWER_BYTES_MAX = 16 * 1024 * 1024
};

/* What was freed is given back to the system this often; the rest is left to malloc(). */
#define TRIM_EVERY_NS (1 * CLOCK_NS_PER_S)

static bool is_full(const struct http_large *large)
{
    return large->answers >= ANSWERS_MAX || large->bytes >= ANSWER_BYTES_MAX;
}

static void refuse(struct http_request *request)
{
    metrics_add(request->server->options.metrics, METRIC_REFUSED_LARGE, 1);
    problem_reply(request, PROBLEM_LIMIT_REACHED, NULL,
                  "too many listings and other large answers are under way on this front end");
}

bool http_large_begin_listing(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    if (large->listings >= LISTINGS_MAX || is_full(large)) {
        refuse(request);
        return false;
    }
    large->listings++;
    request->is_listing = true;
    return true;
}

static void end_listing(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    if (!request->is_listing)
        return;
    request->is_listing = false;
    large->listings--;
    large->trim_wanted = true;
}

bool http_large_may_answer(struct http_request *request, size_t len)
{
    struct http_large *large = &request->server->large;

    end_listing(request);
    if (len < ANSWER_LARGE)
        return true;
    /* Only a request without an effect may be refused after its handler has answered. */
    if (is_full(large) && request->mhd != NULL && strcmp(request->method, "GET") == 0)
        return false;
    large->answers++;
    large->bytes += len;
    request->large_len = len;
    return true;
}

void http_large_refuse_answer(struct http_request *request)
{
    refuse(request);
}

void http_large_end(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    end_listing(request);
    if (request->large_len == 0)
        return;
    assert(large->answers > 0 && large->bytes >= request->large_len);
    large->answers--;
    large->bytes -= request->large_len;
    large->trim_wanted = true;
}

void http_large_trim(struct http_large *large, int64_t now_ns)
{
    if (!large->trim_wanted || now_ns - large->trimmed_ns < TRIM_EVERY_NS)
        return;
    large->trim_wanted = false;
    large->trimmed_ns = now_ns;
    malloc_trim(0);
}
