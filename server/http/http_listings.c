/* The line of listings: a caller has one listing under way, and a worker a few. Another listing
 * waits here for its turn, or is refused. The account is in http_large.c. */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"

enum {
    WAITING_MAX = 8, /* of a caller, on a worker */
    /* Of all callers of a worker. Each listing under way has a page and the looks of a batch.
     */
    ALL_LISTINGS_MAX = 16
};

/* A listing waits for its turn for no longer. */
#define WAIT_MAX_NS (2 * CLOCK_NS_PER_S)

/* A listing that waits. */
struct http_turn {
    struct http_turn *prev, *next; /* utlist */
    struct http_request *request;
    void (*handle)(struct http_request *request);
};

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
            http_refuse_large(request, 1,
                              "listings: another listing of this caller is under way");
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

void http_begin_listing(struct http_request *request,
                        void (*handle)(struct http_request *request))
{
    struct http_large *large = &request->server->large;
    struct http_share *share = http_large_share(request);

    assert(share != NULL);
    if (http_large_is_full(large, share)) {
        http_refuse_answer(request);
    } else if (may_begin(large, share) && share->waiting == 0) {
        begin_listing(request);
        handle(request);
    } else if (share->waiting < WAITING_MAX) {
        wait_in_line(request, handle);
    } else {
        http_refuse_large(
            request, WAITING_MAX,
            "listings: one of this caller is under way, and as many as may wait do");
    }
}

void http_listings_init(struct http_large *large, struct loop *loop)
{
    *large = (struct http_large){.loop = loop, .go_on = {.fire = on_go_on, .arg = large}};
}

void http_listings_refuse(struct http_large *large)
{
    while (large->waiting != NULL)
        http_refuse_stopping(leave_line(large, large->waiting));
}

void http_listings_release(struct http_large *large)
{
    timer_cancel(loop_timers(large->loop), &large->go_on);
    assert(large->waiting == NULL && large->shares == NULL);
}
