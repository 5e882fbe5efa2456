/* A loop whose clock stands still, and a topology that is only made up and has subscriptions
 * only: what storage/wait/waiters.c and acquire.c need of server/base/loop.h and
 * storage/topology/topology.h; an inbox of this loop is delivered by the test. For one test
 * program, which is linked without the real ones. */
#ifndef RLOCKD_TESTS_UNIT_FAKE_TOPOLOGY_H
#define RLOCKD_TESTS_UNIT_FAKE_TOPOLOGY_H

#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/topology/topology.h"
#include "tests/lib/fake_loop.h"

#define MS CLOCK_NS_PER_MS
#define S CLOCK_NS_PER_S

enum { CHANNELS = 4 };

struct subscriber_channel {
    struct subscription *owner; /* NULL: not subscribed to */
    bool live;
    char name[96];
};

struct topology {
    struct subscriber_channel channels[CHANNELS];
};

static struct topology topology;

int loop_watch_add(struct loop *asked, struct loop_watch *watch, uint32_t epoll_events)
{
    (void)asked;
    (void)watch;
    (void)epoll_events;
    return 0;
}

void loop_watch_remove(struct loop *asked, struct loop_watch *watch)
{
    (void)asked;
    (void)watch;
}

void topology_subscribe(struct topology *asked, struct subscription *subscription,
                        const char *name, size_t len)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        struct subscriber_channel *channel = &asked->channels[i];
        if (channel->owner == NULL) {
            *channel = (struct subscriber_channel){.owner = subscription};
            snprintf(channel->name, sizeof(channel->name), "%.*s", (int)len, name);
            subscription->channel = channel;
            return;
        }
    }
    fail_msg("no room for %s", name);
}

void topology_unsubscribe(struct topology *asked, struct subscription *subscription)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        if (asked->channels[i].owner == subscription) {
            asked->channels[i].owner = NULL;
            subscription->channel = NULL;
            return;
        }
    }
    fail_msg("it is not subscribed to");
}

bool subscription_is_live(const struct subscription *subscription)
{
    return subscription->channel != NULL && subscription->channel->live;
}

/* The channel that is subscribed to by this name, or NULL. */
static inline struct subscriber_channel *channel_of(const char *name)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        struct subscriber_channel *channel = &topology.channels[i];
        if (channel->owner != NULL && strcmp(channel->name, name) == 0)
            return channel;
    }
    return NULL;
}

#define CHANNEL_OF(lock) channel_of("redisson_lock__channel:{" lock "}")

static inline void ready(struct subscriber_channel *channel)
{
    channel->live = true;
    channel->owner->ready(channel->owner->arg);
}

static inline void publish(struct subscriber_channel *channel, const char *payload)
{
    channel->owner->message(channel->owner->arg, payload, strlen(payload));
}

/* Time goes by, and the timers of that time fire. */
static inline void pass(int64_t ns)
{
    loop.now_ns += ns;
    timers_run(&loop.timers, loop.now_ns);
}

static inline int64_t next_timer_ns(void)
{
    int64_t next_ns = timers_next_ns(&loop.timers);

    assert_int_not_equal(next_ns, -1);
    return next_ns - loop.now_ns;
}

#endif
