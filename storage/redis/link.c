/* The state of a connection, its commands, and the times of its reconnects. */
#include "storage/redis/link.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/redis/link_internal.h"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000 /* waiters are promised that a new connection does not take longer */
};

static void on_retry(void *arg);

/* --- state -------------------------------------------------------------------------------- */

bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == LINK_UP;
}

const char *redis_link_last_reason(const struct redis_link *link)
{
    return link->reason;
}

const char *redis_link_down_reason(const struct redis_link *link)
{
    return link->state == LINK_UP ? "" : link->reason;
}

const struct redis_server *redis_link_server(const struct redis_link *link)
{
    return &link->server;
}

void redis_link_note_detail(struct redis_link *link, const char *reason, const char *detail)
{
    link->is_explained = true;
    if (strcmp(link->reason, reason) == 0)
        return; /* logged already, at the attempt before */
    if (redis_link_has_more_addresses(link))
        return; /* no attempt has failed yet */
    snprintf(link->reason, sizeof(link->reason), "%s", reason);
    char url[REDIS_URL_TEXT_SIZE];
    redis_url_describe(link->options.url, url);
    log_write(
        LOG_LEVEL_WARN, "redis: not usable",
        json_pack("{s:s*, s:s*, s:s*}", "redis", url, "reason", reason, "detail", detail));
}

void redis_link_note_reason(struct redis_link *link, const char *reason)
{
    redis_link_note_detail(link, reason, NULL);
}

void redis_link_reconnect(struct redis_link *link, const char *reason)
{
    redis_link_note_reason(link, reason);
    link->give_up = link->context != NULL || link->preparation != NULL;
    if (link->state == LINK_UP)
        link->state = LINK_LEAVING;
    loop_again(link->options.loop);
}

void redis_link_leave(struct redis_link *link, const char *reason)
{
    if (link->state != LINK_UP)
        return;
    redis_link_note_reason(link, reason);
    link->state = LINK_LEAVING;
}

void redis_link_proven(struct redis_link *link)
{
    link->backoff_ms = BACKOFF_FIRST_MS;
    link->reason[0] = '\0';
}

static const char *connected_text(const struct redis_link_options *options)
{
    if (options->is_sentinel)
        return "redis: Sentinel connected";
    return options->probe != NULL ? "redis: connected" : "redis: subscriber connected";
}

void redis_link_became_up(struct redis_link *link)
{
    char url[REDIS_URL_TEXT_SIZE];

    link->state = LINK_UP;
    link->may_ping = true;
    link->writes_refused = false;
    if (link->options.probe != NULL)
        redis_link_proven(link);
    redis_link_forget_prepared(link);
    link->is_explained = false;
    link->client_id = link->new_client_id;
    memcpy(link->server.run_id, link->new_run_id, sizeof(link->server.run_id));
    memcpy(link->server.promotion, link->new_promotion, sizeof(link->server.promotion));
    link->server.up_since_ns = loop_now_ns(link->options.loop);
    link->was_up = true;
    redis_link_watch_deadline(link);
    metrics_add(link->options.metrics, METRIC_REDIS_CONNECTS,
                link->options.is_sentinel ? 0 : 1);
    redis_url_describe(link->options.url, url);
    log_write(LOG_LEVEL_INFO, connected_text(&link->options),
              json_pack("{s:s*, s:s*}", "redis", url, "run_id", link->server.run_id));
    link->options.up(link->options.arg);
}

/* --- hiredis and the loop ----------------------------------------------------------------- */

void redis_link_watch_events(struct redis_link *link, uint32_t epoll_events)
{
    if (link->watched_events == epoll_events)
        return;
    if (loop_watch_change(link->options.loop, &link->socket, epoll_events) == 0)
        link->watched_events = epoll_events;
}

/* The command that met the deadline may have been the first that was lost. */
static void note_loss(struct redis_link *link)
{
    int64_t now_ns = loop_now_ns(link->options.loop);

    if (link->was_up && now_ns - link->server.up_since_ns >= REDIS_BACK_MS * CLOCK_NS_PER_MS)
        link->server.lost_ns = now_ns - REDIS_DEADLINE_MS * CLOCK_NS_PER_MS;
    link->was_up = false;
}

void redis_link_went_down(struct redis_link *link)
{
    note_loss(link);
    bool goes_on = redis_link_has_more_addresses(link);

    redis_link_lose_held(link);
    if (!link->is_explained && !link->stopped)
        redis_link_note_reason(link, "the connection was lost");
    link->state = LINK_DISCONNECTED;
    link->give_up = false;
    link->write_wanted = false;
    struct timers *timers = loop_timers(link->options.loop);
    timer_cancel(timers, &link->deadline);
    if (link->stopped)
        return;
    if (link->tried > 0 && !goes_on)
        redis_link_forget_prepared(link);
    link->options.down(link->options.arg);
    int64_t delay_ms = goes_on ? 0 : link->backoff_ms;
    timer_arm(timers, &link->retry,
              loop_now_ns(link->options.loop) + delay_ms * CLOCK_NS_PER_MS);
    if (!goes_on)
        link->backoff_ms = link->backoff_ms * 2 < BACKOFF_MAX_MS ? link->backoff_ms * 2
                                                                 : BACKOFF_MAX_MS;
}

static void give_up(struct redis_link *link)
{
    link->state = LINK_CLOSING;
    redisAsyncFree(link->context); /* runs the pending callbacks, then on_cleanup() */
}

static void await_replies(const struct redis_link *link)
{
    if (link->calls != NULL)
        loop_await(link->options.loop, link->calls->next == NULL ? 1 : 2);
}

/* At the end of a turn: sends the commands that the turn has gathered in one write. */
static void on_turn(void *arg)
{
    struct redis_link *link = arg;

    if (link->context == NULL) {
        if (link->give_up && link->state == LINK_CONNECTING && link->preparation != NULL) {
            link->give_up = false;
            redis_link_connect(link); /* a preparation under way may be for another server */
        }
        return;
    }
    if (link->give_up) {
        give_up(link);
        return;
    }
    redis_link_turn_sync(link);
    await_replies(link);
    link->gathered = 0;
    if (link->tls != NULL) {
        redis_link_turn_tls(link);
        return;
    }
    if (link->write_wanted && (link->context->c.flags & REDIS_CONNECTED) != 0) {
        redisAsyncHandleWrite(link->context);
        redis_link_note_written(link);
    }
    if (link->context != NULL)
        redis_link_watch_events(link, link->write_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

bool redis_link_has_unseen_events(const struct redis_link *link)
{
    struct pollfd poll_fd = {.fd = link->socket.fd,
                             .events = (link->watched_events & EPOLLIN ? POLLIN : 0) |
                                       (link->watched_events & EPOLLOUT ? POLLOUT : 0)};

    return link->context != NULL && (link->is_unread || poll(&poll_fd, 1, 0) > 0);
}

/* When Redis is late. The time of a call counts from its write: a call that is not written yet
 * is written at the end of this turn. */
static int64_t due_ns(const struct redis_link *link)
{
    int64_t now_ns = loop_now_ns(link->options.loop);

    if (link->calls == NULL)
        return now_ns;
    return (link->calls->written_ns != 0 ? link->calls->written_ns : now_ns) +
           REDIS_DEADLINE_MS * CLOCK_NS_PER_MS;
}

/* It may be this thread that is late, and the reply be in the socket: then the next turn reads
 * the socket, and looks at the deadline again. */
static void on_deadline(void *arg)
{
    struct redis_link *link = arg;
    int64_t at_ns = due_ns(link);

    if (at_ns > loop_now_ns(link->options.loop) || redis_link_has_unseen_events(link)) {
        timer_arm(loop_timers(link->options.loop), &link->deadline, at_ns);
        return;
    }
    redis_link_note_reason(link, redis_link_late_reason(link));
    if (link->context != NULL)
        give_up(link);
    else
        redis_link_went_down(link);
}

static void on_retry(void *arg)
{
    struct redis_link *link = arg;
    const struct redis_url *url = link->options.url;

    assert(link->context == NULL);
    link->state = LINK_CONNECTING;
    link->give_up = false;
    if (link->options.find != NULL && link->preparation == NULL)
        link->options.find(link->options.arg);
    else if (url->transport == REDIS_TCP && url->host_count == 0)
        redis_link_found(link, "not connected yet");
    else
        redis_link_connect(link);
}

void redis_link_found(struct redis_link *link, const char *why_not)
{
    if (link->state != LINK_CONNECTING || link->context != NULL || link->stopped)
        return;
    if (why_not == NULL) {
        redis_link_connect(link);
        return;
    }
    redis_link_note_reason(link, why_not);
    redis_link_went_down(link);
}

void redis_link_renew(struct redis_link *link, const char *reason)
{
    if (link->stopped)
        return;
    link->backoff_ms = BACKOFF_FIRST_MS;
    if (link->state != LINK_DISCONNECTED) {
        if (link->options.find != NULL && link->context != NULL)
            link->tried = SIZE_MAX; /* further addresses are of the former server */
        redis_link_reconnect(link, reason);
        return;
    }
    redis_link_forget_prepared(link);
    timer_arm(loop_timers(link->options.loop), &link->retry, loop_now_ns(link->options.loop));
}

/* --- life --------------------------------------------------------------------------------- */

struct redis_link *redis_link_new(const struct redis_link_options *options)
{
    struct redis_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->options = *options;
    /* Before, another process or connection may have lost it. */
    link->server.lost_ns = loop_now_ns(options->loop) -
                           (int64_t)REDIS_BACK_MS * CLOCK_NS_PER_MS;
    link->backoff_ms = BACKOFF_FIRST_MS;
    link->retry = (struct timer){.fire = on_retry, .arg = link};
    link->deadline = (struct timer){.fire = on_deadline, .arg = link};
    redis_link_calls_init(link);
    link->turn = (struct loop_hook){.run = on_turn, .arg = link};
    snprintf(link->reason, sizeof(link->reason), "not connected yet");
    loop_hook_add(options->loop, &link->turn);
    timer_arm(loop_timers(options->loop), &link->retry, loop_now_ns(options->loop));
    return link;
}

void redis_link_stop(struct redis_link *link)
{
    link->stopped = true;
    timer_cancel(loop_timers(link->options.loop), &link->retry);
    redis_link_forget_prepared(link);
    if (link->context != NULL)
        give_up(link);
    else
        redis_link_went_down(link);
    while (link->refused != NULL)
        redis_link_refuse_calls(link);
}

void redis_link_free(struct redis_link *link)
{
    redis_link_stop(link);
    redis_link_calls_release(link);
    loop_hook_remove(link->options.loop, &link->turn);
    free(link);
}
