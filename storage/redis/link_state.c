/* The state of a connection, and why it is not usable. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/redis/link_internal.h"

#define TO(state) (1U << (state))

/* The states that may follow each state. */
static const unsigned next_states[LINK_STATES] = {
    [LINK_DISCONNECTED] = TO(LINK_CONNECTING) | TO(LINK_DISCONNECTED),
    [LINK_CONNECTING] = TO(LINK_UP) | TO(LINK_CLOSING) | TO(LINK_DISCONNECTED),
    [LINK_UP] = TO(LINK_LEAVING) | TO(LINK_CLOSING),
    [LINK_LEAVING] = TO(LINK_CLOSING),
    [LINK_CLOSING] = TO(LINK_CLOSING) | TO(LINK_DISCONNECTED),
};

/* The invariant of the state that the connection enters. */
static bool is_sound(const struct redis_link *link)
{
    const struct link_calls *calls = &link->calls;
    const struct link_sync *sync = &link->sync;

    switch (link->state) {
    case LINK_DISCONNECTED:
    case LINK_CONNECTING:
        return link->context == NULL && link->tls.session == NULL && calls->pending == NULL &&
               sync->held == NULL && !sync->is_waiting && !link->give_up;
    case LINK_UP:
        return link->context != NULL && link->attempt.preparation == NULL && !link->give_up &&
               !link->stopped;
    case LINK_LEAVING:
    case LINK_CLOSING:
        return link->context != NULL;
    case LINK_STATES:
        break;
    }
    return false;
}

void redis_link_enter(struct redis_link *link, enum link_state state)
{
    assert((next_states[link->state] & TO(state)) != 0);
    link->state = state;
    assert(is_sound(link));
}

bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == LINK_UP;
}

const struct redis_server *redis_link_server(const struct redis_link *link)
{
    return &link->server;
}

/* --- reasons ------------------------------------------------------------------------------ */

const char *redis_link_last_reason(const struct redis_link *link)
{
    return link->reason;
}

const char *redis_link_down_reason(const struct redis_link *link)
{
    return link->state == LINK_UP ? "" : link->reason;
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

/* --- the end of a connection -------------------------------------------------------------- */

void redis_link_reconnect(struct redis_link *link, const char *reason)
{
    redis_link_note_reason(link, reason);
    link->give_up = link->context != NULL || link->attempt.preparation != NULL;
    if (link->state == LINK_UP)
        redis_link_enter(link, LINK_LEAVING);
    loop_again(link->options.loop);
}

void redis_link_leave(struct redis_link *link, const char *reason)
{
    if (link->state != LINK_UP)
        return;
    redis_link_note_reason(link, reason);
    redis_link_enter(link, LINK_LEAVING);
}

void redis_link_proven(struct redis_link *link)
{
    link->backoff_ms = LINK_BACKOFF_FIRST_MS;
    link->reason[0] = '\0';
}

/* --- an attempt under way ----------------------------------------------------------------- */

bool redis_link_has_more_addresses(const struct redis_link *link)
{
    const struct link_attempt *attempt = &link->attempt;
    const struct redis_prepared *prepared = attempt->preparation != NULL
                                                ? redis_prepared(attempt->preparation)
                                                : NULL;

    return prepared != NULL && attempt->tried > 0 && attempt->tried < prepared->address_count;
}

void redis_link_forget_prepared(struct redis_link *link)
{
    redis_preparation_free(link->attempt.preparation);
    link->attempt.preparation = NULL;
    link->attempt.tried = 0;
}

void redis_link_arm_deadline(struct redis_link *link)
{
    timer_arm(loop_timers(link->options.loop), &link->deadline,
              clock_ns() + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
}

void redis_link_watch_events(struct redis_link *link, uint32_t epoll_events)
{
    if (link->watched_events == epoll_events)
        return;
    if (loop_watch_change(link->options.loop, &link->socket, epoll_events) == 0)
        link->watched_events = epoll_events;
}
