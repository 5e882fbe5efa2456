/* How a connection is made: prepared (addresses, files), connected, watched. The addresses of a
 * host name are tried in turn until an address leads to a Redis that passes the checks. */
#include <string.h>
#include <sys/epoll.h>

#include "server/base/clock.h"
#include "storage/redis/link_internal.h"

enum {
    BACKOFF_MAX_MS = 1000 /* waiters are promised that a new connection does not take longer */
};

/* The command that met the deadline may have been the first that was lost. */
static void note_loss(struct redis_link *link)
{
    int64_t now_ns = loop_now_ns(link->options.loop);

    if (link->was_up && now_ns - link->server.up_since_ns >= REDIS_BACK_MS * CLOCK_NS_PER_MS)
        link->server.lost_ns = now_ns - REDIS_DEADLINE_MS * CLOCK_NS_PER_MS;
    link->was_up = false;
}

/* The owner may name another server. */
static void give_up_name(struct redis_link *link)
{
    if (link->attempt.tried > 0)
        redis_link_forget_prepared(link);
    link->options.down(link->options.arg);
}

void redis_link_went_down(struct redis_link *link)
{
    note_loss(link);
    bool goes_on = redis_link_has_more_addresses(link);

    redis_link_lose_held(link);
    if (!link->is_explained && !link->stopped)
        redis_link_note_reason(link, "the connection was lost");
    link->give_up = false;
    link->write_wanted = false;
    redis_link_enter(link, LINK_DISCONNECTED);
    struct timers *timers = loop_timers(link->options.loop);
    timer_cancel(timers, &link->deadline);
    if (link->stopped)
        return;
    if (!goes_on)
        give_up_name(link);
    int64_t delay_ms = goes_on ? 0 : link->backoff_ms;
    timer_arm(timers, &link->retry,
              loop_now_ns(link->options.loop) + delay_ms * CLOCK_NS_PER_MS);
    if (!goes_on)
        link->backoff_ms = link->backoff_ms * 2 < BACKOFF_MAX_MS ? link->backoff_ms * 2
                                                                 : BACKOFF_MAX_MS;
}

static void fail(struct redis_link *link, const char *reason)
{
    redis_link_note_reason(link, reason);
    redis_link_went_down(link);
}

/* --- hiredis and the loop ----------------------------------------------------------------- */

static void want_write(void *arg)
{
    struct redis_link *link = arg;

    link->write_wanted = true; /* sent at the end of this turn, with all other commands */
}

static void unwant_write(void *arg)
{
    struct redis_link *link = arg;

    link->write_wanted = false;
}

/* Connected, and gone without a word and without a better reason: a server with TLS does that.
 */
static bool is_mute(const struct redis_link *link)
{
    return link->attempt.is_open && !link->is_explained && link->checks.client_id == 0 &&
           link->options.url->transport == REDIS_TCP && !link->options.url->tls;
}

/* Called when hiredis is about to free the context, after the pending callbacks: the only place
 * where the link gives up its context, whatever the reason. */
static void on_cleanup(void *arg)
{
    struct redis_link *link = arg;

    redis_link_enter(link, LINK_CLOSING);
    loop_watch_remove(link->options.loop, &link->socket);
    redis_link_end_tls(link);
    const char *error = link->context->c.errstr;
    link->context = NULL;
    /* The answer to a SUBSCRIBE: hiredis ends the connection for it. */
    if (strncmp(error, "NOPERM", 6) == 0)
        redis_link_note_reason(
            link, strstr(error, "'ssubscribe'") != NULL
                      ? "the Redis user lacks a permission (SSUBSCRIBE)"
                      : "the Redis user lacks a permission (subscribe, or a channel)");
    if (strncmp(error, "MOVED", 5) == 0)
        redis_link_note_reason(link, "the slot of a channel has moved to another node");
    if (link->guard.refused)
        redis_link_note_reason(link, "Redis sends unexpected or malformed replies");
    if (is_mute(link))
        redis_link_note_reason(link,
                               "Redis ends the connection before it answers: does it want "
                               "TLS (rediss://) on this port?");
    redis_link_went_down(link);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis_link *link = context->data;

    if (status != REDIS_OK) {
        redis_link_note_detail(link, "Redis cannot be reached", context->c.errstr);
        return; /* hiredis frees the context after this */
    }
    link->attempt.is_open = true;
    if (link->options.url->tls)
        redis_link_begin_tls(link, redis_link_check);
    else
        redis_link_check(link);
}

static void on_socket(void *arg, uint32_t epoll_events)
{
    struct redis_link *link = arg;

    if (link->context != NULL && (epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        redisAsyncHandleWrite(link->context);
    if (link->context != NULL && (epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        redisAsyncHandleRead(link->context);
    if (link->context != NULL && redis_guard_is_flooded(&link->guard))
        redis_link_reconnect(link, "Redis sends a reply without an end");
}

static int attach(struct redis_link *link, redisAsyncContext *context)
{
    link->socket = (struct loop_watch){.fd = context->c.fd, .ready = on_socket, .arg = link};
    link->watched_events = EPOLLIN | EPOLLOUT;
    if (loop_watch_add(link->options.loop, &link->socket, link->watched_events) != 0)
        return -1;
    link->context = context;
    context->data = link;
    context->ev.data = link;
    context->ev.addWrite = want_write;
    context->ev.delWrite = unwant_write;
    /* Since 1.0 hiredis calls ev.cleanup before the pending callbacks. */
#if HIREDIS_MAJOR >= 1
    context->dataCleanup = on_cleanup;
#else
    context->ev.cleanup = on_cleanup;
#endif
    context->c.reader->maxbuf = 0; /* keep the read buffer instead of freeing it when idle */
    redis_guard_watch(&link->guard, context);
    redisAsyncSetConnectCallback(context, on_connect);
    if (link->options.url->transport == REDIS_TCP)
        redisEnableKeepAlive(&context->c);
    return 0;
}

/* --- the attempt -------------------------------------------------------------------------- */

static void connect_to(struct redis_link *link, const char *address)
{
    const struct redis_url *url = link->options.url;
    redisAsyncContext *context = url->transport == REDIS_UNIX
                                     ? redisAsyncConnectUnix(url->path)
                                     : redisAsyncConnect(address, url->hosts[0].port);

    link->give_up = false; /* it was for an earlier connection */
    link->is_explained = false;
    link->attempt.is_open = false;
    redis_link_reset_checks(link);
    redis_link_arm_deadline(link);
    if (context != NULL && context->err == 0 && attach(link, context) == 0)
        return;
    if (context != NULL)
        redisAsyncFree(context);
    fail(link, "Redis cannot be reached");
}

static void use_prepared(struct redis_link *link)
{
    const struct redis_prepared *prepared = redis_prepared(link->attempt.preparation);

    if (prepared->fault == NULL) {
        connect_to(link, prepared->addresses[link->attempt.tried++]);
        return;
    }
    redis_link_note_detail(link, prepared->fault, prepared->detail);
    redis_link_forget_prepared(link);
    redis_link_went_down(link);
}

static void on_prepared(void *arg)
{
    struct redis_link *link = arg;

    if (link->state == LINK_CONNECTING)
        redis_link_connect(link);
    else /* The deadline has passed, and the next attempt need not wait any longer. */
        timer_arm(loop_timers(link->options.loop), &link->retry, 0);
}

void redis_link_skip_addresses(struct redis_link *link)
{
    link->attempt.tried = SIZE_MAX;
}

void redis_link_connect(struct redis_link *link)
{
    const struct redis_url *url = link->options.url;

    if (link->attempt.preparation != NULL &&
        !redis_prepares_for(link->attempt.preparation, url))
        redis_link_forget_prepared(link);
    if (link->attempt.preparation == NULL) {
        redis_link_arm_deadline(link);
        link->attempt.preparation = redis_prepare(url, link->options.loop, on_prepared, link);
        if (link->attempt.preparation == NULL)
            fail(link, "there is no thread or descriptor for a connection to Redis");
    } else if (redis_prepared(link->attempt.preparation) != NULL)
        use_prepared(link);
    else /* the preparation of an earlier attempt is still under way */
        redis_link_arm_deadline(link);
}

const char *redis_link_late_reason(const struct redis_link *link)
{
    if (link->context == NULL)
        return "the host name of Redis was not resolved in time";
    if (link->tls.session != NULL && !link->tls.is_secure)
        return "Redis does not answer the TLS handshake: does it speak TLS on this port?";
    if (link->state == LINK_CONNECTING && link->checks.is_unconfirmed)
        return "no Sentinel confirms the master in time";
    return link->calls.pending != NULL ? "Redis does not answer" : "Redis cannot be reached";
}
