/* The account of listings and other large answers: how many a caller may have, and how much of
 * them may wait for clients that do not read. Each caller uses up its own share; beyond the
 * share its requests wait or are refused. So no crowd of clients decides how much memory the
 * server has, and no caller takes the listings of others. */
#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/base/clock.h"
#include "server/auth/auth.h"
#include "server/http/http_internal.h"

enum {
    ANSWER_LARGE = 32 * 1024,
    /* Of a caller, on a worker; not sent yet. */
    ANSWERS_MAX = HTTP_ANSWERS_MAX,
    ANSWER_BYTES_MAX = 4 * 1024 * 1024,
    /* Of all callers of a worker. Beyond these only callers without a large answer get one, up
     * to BYTES_MAX. */
    ALL_ANSWERS_MAX = 32,
    ALL_BYTES_MAX = 16 * 1024 * 1024,
    BYTES_MAX = 64 * 1024 * 1024
};

/* Freed memory is given back to the system this often; the rest is left to malloc(). */
#define TRIM_EVERY_NS (1 * CLOCK_NS_PER_S)

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

struct http_share *http_large_share(struct http_request *request)
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

bool http_large_is_full(const struct http_large *large, const struct http_share *share)
{
    if (share->answers >= ANSWERS_MAX || share->bytes >= ANSWER_BYTES_MAX)
        return true;
    if (large->answers >= ALL_ANSWERS_MAX || large->bytes >= ALL_BYTES_MAX)
        return share->answers > 0 || large->bytes >= BYTES_MAX;
    return false;
}

/* --- listings ----------------------------------------------------------------------------- */

static void end_listing(struct http_request *request)
{
    struct http_large *large = &request->server->large;

    if (!request->is_listing)
        return;
    request->is_listing = false;
    request->share->has_listing = false;
    large->listings--;
    large->trim_wanted = true;
    if (large->waiting != NULL) /* in a turn of its own: http_listings.c */
        timer_arm(loop_timers(large->loop), &large->go_on, loop_now_ns(large->loop));
}

/* --- large answers ------------------------------------------------------------------------ */

bool http_may_answer(struct http_request *request, size_t len)
{
    const struct http_share *share;

    if (len < ANSWER_LARGE || request->mhd == NULL)
        return true;
    share = http_large_share(request);
    return !http_large_is_full(&request->server->large, share);
}

void http_large_count(struct http_request *request, size_t len)
{
    struct http_large *large = &request->server->large;

    end_listing(request);
    if (len < ANSWER_LARGE || request->mhd == NULL)
        return;
    large->answers++;
    large->bytes += len;
    http_large_share(request)->answers++;
    request->share->bytes += len;
    request->large_len = len;
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

void http_large_trim(struct http_large *large, int64_t now_ns)
{
    if (!large->trim_wanted || now_ns - large->trimmed_ns < TRIM_EVERY_NS)
        return;
    large->trim_wanted = false;
    large->trimmed_ns = now_ns;
    malloc_trim(0);
}
