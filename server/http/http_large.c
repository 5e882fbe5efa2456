/* Listings and other large answers: how many a caller may have, and how much of them may wait
 * for clients that do not read. Each caller uses up its own share; beyond the share its
 * requests wait or are refused. So no crowd of clients decides how much memory the server has,
 * and no caller takes the listings of others. */
#include <assert.h>
#include <malloc.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/auth/auth.h"
#include "server/http/http_internal.h"
#include "server/http/problem.h"

enum {
    ANSWER_LARGE = 32 * 1024,
    /* Of a caller, on a worker. One listing is under way. */
    WAITING_MAX = 8,
    ANSWERS_MAX = 8, /* not sent yet */
    ANSWER_BYTES_MAX = 4 * 1024 * 1024,
    /* Of all callers of a worker. Each listing under way has a page and the looks of a batch.
     */
    ALL_LISTINGS_MAX = 16,
    /* Beyond these only callers without a large answer get one, up to BYTES_MAX. */
    ALL_ANSWERS_MAX = 32,
    ALL_BYTES_MAX = 16 * 1024 * 1024,
    BYTES_MAX = 64 * 1024 * 1024
};

/* A listing waits for its turn for no longer. */
#define WAIT_MAX_NS (2 * CLOCK_NS_PER_S)
/* What was freed is given back to the system this often; the rest is left to malloc(). */
#define TRIM_EVERY_NS (1 * CLOCK_NS_PER_S)

/* What one caller has: the caller of an API token, or without API tokens a client address. */
struct http_share {
    UT_hash_handle hh;
    size_t requests; /* that point here */
    size_t waiting;
    size_t answers, bytes; /* not sent yet */
    bool has_listing;      /* under way */
    char key[];
};

/* A listing that waits. */
struct http_turn {
    struct http_turn *prev, *next; /* utlist */
    struct http_request *request;
    void (*handle)(struct http_request *request);
};

/* --- shares ------------------------------------------------------------------------------- */

static struct http_share *find_or_add(struct http_large *large, const char *key)
{
    struct http_share *share;

    HASH_FIND_STR(large->shares, key, share);
    if (share != NULL)
        return share;
    share = calloc(1, sizeof(*share) + strlen(key) + 1);
    assert(share != NULL);
    memcpy(share->key, key, strlen(key) + 1);
    HASH_ADD_STR(large->shares, key, share);
    return share;
}

/* The share of the request's caller. NULL: the client has gone, and its address is not known.
 */
static struct http_share *share_of(struct http_request *request)
{
    char address[HTTP_CLIENT_SIZE];

    if (request->share != NULL || request->mhd == NULL)
        return request->share;
    http_client_network(request, address);
    request->share = find_or_add(&request->server->large,
                                 request->caller != NULL ? auth_caller_name(request->caller)
                                                         : address);
    request->share->requests++;
    return request->share;
}

static void drop_share(struct http_request *request)
{
    struct http_share *share = request->share;

    if (share == NULL)
        return;
    request->share = NULL;
    if (--share->requests > 0)
        return;
    assert(share->waiting == 0 && share->answers == 0 && !share->has_listing);
    HASH_DEL(request->server->large.shares, share);
    free(share);
}

static bool is_full(const struct http_large *large, const struct http_share *share)
{
    if (share->answers >= ANSWERS_MAX || share->bytes >= ANSWER_BYTES_MAX)
        return true;
    if (large->answers >= ALL_ANSWERS_MAX || large->bytes >= ALL_BYTES_MAX)
        return share->answers > 0 || large->bytes >= BYTES_MAX;
    return false;
}

static void refuse(struct http_request *request, int limit, const char *detail)
{
    metrics_add(request->server->options.metrics, METRIC_REFUSED_LARGE, 1);
    problem_reply(request, PROBLEM_LIMIT_REACHED, json_pack("{s:i}", "limit", limit), "%s",
                  detail);
}

void http_large_refuse_answer(struct http_request *request)
{
    refuse(request, ANSWERS_MAX,
           "large answers: this caller has as many as it may that are not read yet");
}

/* --- listings ----------------------------------------------------------------------------- */

static bool may_begin(const struct http_large *large, const struct http_share *share)
{
    return !share->has_listing && large->listings < ALL_LISTINGS_MAX;
}

static void begin_listing(struct http_request *request)
{
    request->share->has_listing = true;
    request->is_listing = true;
    request->server->large.listings++;
}

static struct http_request *leave_line(struct http_large *large, struct http_turn *turn)
{
    struct http_request *request = turn->request;

    DL_DELETE(large->waiting, turn);
    request->share->waiting--;
    http_watch(request, NULL, NULL, NULL);
    free(turn);
    return request;
}

static void on_gone(void *arg)
{
    struct http_turn *turn = arg;

    http_drop(leave_line(&turn->request->server->large, turn));
}

/* The oldest listing that waits and may begin now, or has waited too long; NULL: none. */
static struct http_turn *find_next(const struct http_large *large, int64_t now_ns)
{
    struct http_turn *turn;

    DL_FOREACH(large->waiting, turn) {
        if (may_begin(large, turn->request->share) ||
            now_ns - turn->request->received_ns > WAIT_MAX_NS)
            return turn;
    }
    return NULL;
}

static void arm(struct http_large *large, int64_t at_ns)
{
    timer_arm(loop_timers(large->loop), &large->go_on, at_ns);
}

/* In a turn of its own: not from within the end of another request. */
static void on_go_on(void *arg)
{
    struct http_large *large = arg;
    int64_t now_ns = loop_now_ns(large->loop);
    struct http_turn *turn;

    while ((turn = find_next(large, now_ns)) != NULL) {
        void (*handle)(struct http_request * request) = turn->handle;
        struct http_request *request = leave_line(large, turn);
        if (!may_begin(large, request->share)) {
            refuse(request, 1, "listings: another listing of this caller is under way");
            continue;
        }
        begin_listing(request);
        handle(request);
    }
    if (large->waiting != NULL)
        arm(large, large->waiting->request->received_ns + WAIT_MAX_NS + 1);
}

static void wait_in_line(struct http_request *request,
                         void (*handle)(struct http_request *request))
{
    struct http_large *large = &request->server->large;
    struct http_turn *turn = malloc(sizeof(*turn));

    assert(turn != NULL);
    *turn = (struct http_turn){.request = request, .handle = handle};
    DL_APPEND(large->waiting, turn);
    request->share->waiting++;
    http_watch(request, on_gone, NULL, turn);
    request->suspend_wanted = true;
    if (!timer_is_armed(&large->go_on))
        arm(large, request->received_ns + WAIT_MAX_NS + 1);
}

void http_large_begin_listing(struct http_request *request,
                              void (*handle)(struct http_request *request))
{
    struct http_large *large = &request->server->large;
    struct http_share *share = share_of(request);

    assert(share != NULL);
    if (is_full(large, share)) {
        http_large_refuse_answer(request);
    } else if (may_begin(large, share) && share->waiting == 0) {
        begin_listing(request);
        handle(request);
    } else if (share->waiting < WAITING_MAX) {
        wait_in_line(request, handle);
    } else {
        refuse(request, WAITING_MAX,
               "listings: one of this caller is under way, and as many as may wait do");
    }
}

static void end_listing(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    if (!request->is_listing)
        return;
    request->is_listing = false;
    request->share->has_listing = false;
    large->listings--;
    large->trim_wanted = true;
    if (large->waiting != NULL)
        arm(large, loop_now_ns(large->loop));
}

/* --- large answers ------------------------------------------------------------------------ */

bool http_may_answer(struct http_request *request, size_t len)
{
    const struct http_share *share;

    if (len < ANSWER_LARGE || request->mhd == NULL)
        return true;
    share = share_of(request);
    return !is_full(&request->server->large, share);
}

bool http_large_may_answer(struct http_request *request, size_t len)
{
    struct http_large *large = &request->server->large;

    end_listing(request);
    if (len < ANSWER_LARGE || request->mhd == NULL)
        return true;
    /* Only a request without an effect may be refused after its handler has answered. */
    if (!http_may_answer(request, len) && strcmp(request->method, "GET") == 0)
        return false;
    large->answers++;
    large->bytes += len;
    share_of(request)->answers++;
    request->share->bytes += len;
    request->large_len = len;
    return true;
}

void http_large_end(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    end_listing(request);
    if (request->large_len > 0) {
        assert(large->answers > 0 && large->bytes >= request->large_len);
        large->answers--;
        large->bytes -= request->large_len;
        request->share->answers--;
        request->share->bytes -= request->large_len;
        large->trim_wanted = true;
    }
    drop_share(request);
}

/* ------------------------------------------------------------------------------------------ */

void http_large_init(struct http_large *large, struct loop *loop)
{
    *large = (struct http_large){.loop = loop, .go_on = {.fire = on_go_on, .arg = large}};
}

void http_large_release(struct http_large *large)
{
    timer_cancel(loop_timers(large->loop), &large->go_on);
    assert(large->waiting == NULL && large->shares == NULL);
}

void http_large_trim(struct http_large *large, int64_t now_ns)
{
    if (!large->trim_wanted || now_ns - large->trimmed_ns < TRIM_EVERY_NS)
        return;
    large->trim_wanted = false;
    large->trimmed_ns = now_ns;
    malloc_trim(0);
}
