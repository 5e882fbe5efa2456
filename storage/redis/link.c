/* The life of a connection, its turns, and the times of its reconnects. */
#include "storage/redis/link.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "server/base/clock.h"
#include "storage/redis/link_internal.h"

/* --- turns -------------------------------------------------------------------------------- */

static void give_up(struct redis_link *link)
{
    redis_link_enter(link, LINK_CLOSING);
    redisAsyncFree(link->context); /* runs the pending callbacks, then on_cleanup() */
}

/* At the end of a turn: sends the commands that the turn has gathered in one write. */
static void on_turn(void *arg)
{
    struct redis_link *link = arg;

    if (link->context == NULL) {
        if (link->give_up && link->state == LINK_CONNECTING &&
            link->attempt.preparation != NULL) {
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
    redis_link_turn_calls(link);
    if (link->tls.session != NULL) {
        redis_link_turn_tls(link);
        return;
    }
    if (link->write_wanted && (link->context->c.flags & REDIS_CONNECTED) != 0) {
        redis_link_write(link);
        redisAsyncHandleWrite(link->context); /* the rest, if there is one */
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

    return link->context != NULL && (link->tls.is_unread || poll(&poll_fd, 1, 0) > 0);
}

/* It may be this thread that is late, and the reply be in the socket: then the next turn reads
 * the socket, and looks at the deadline again. */
static void on_deadline(void *arg)
{
    struct redis_link *link = arg;
    int64_t at_ns = redis_link_due_ns(link);

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

    link->give_up = false;
    redis_link_enter(link, LINK_CONNECTING);
    if (link->options.find != NULL && link->attempt.preparation == NULL)
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
    link->backoff_ms = LINK_BACKOFF_FIRST_MS;
    if (link->state != LINK_DISCONNECTED) {
        if (link->options.find != NULL && link->context != NULL)
            redis_link_skip_addresses(link);
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
    link->backoff_ms = LINK_BACKOFF_FIRST_MS;
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
    while (link->calls.refused != NULL)
        redis_link_refuse_calls(link);
}

void redis_link_free(struct redis_link *link)
{
    redis_link_stop(link);
    redis_link_calls_release(link);
    loop_hook_remove(link->options.loop, &link->turn);
    free(link);
}
