/* Subscriptions at every server of a quorum. What frees a lock is published by each server, and
 * a lock is free when a majority has done so: the owner of a subscription is told then, or soon
 * after the first message if the others do not come. */
#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/topology/quorum_internal.h"

/* For so long the owner waits for the messages of further servers. */
#define LATE_NS (5 * CLOCK_NS_PER_MS)
/* How often it is told of the messages of fewer than a majority: of a server that came late, or
 * of a client that uses a part of the servers only. */
#define LATE_EVERY_NS (250 * CLOCK_NS_PER_MS)

static struct quorum *quorum_of(struct topology *topology)
{
    return (struct quorum *)topology;
}

static int64_t now_ns_of(const struct quorum_subscription *whole)
{
    return loop_now_ns(whole->quorum->topology.options.loop);
}

static struct timers *timers_of(const struct quorum_subscription *whole)
{
    return loop_timers(whole->quorum->topology.options.loop);
}

static void note_live(struct quorum_subscription *whole)
{
    size_t live = 0;

    for (size_t i = 0; i < whole->quorum->count; i++)
        live += subscription_is_live(&whole->parts[i].subscription);
    whole->owner->is_live = live >= quorum_needs(whole->quorum);
}

/* The last that is done with it: the owner may unsubscribe. */
static void tell_owner(struct quorum_subscription *whole)
{
    struct subscription *owner = whole->owner;
    bool has_message = whole->has_message;
    char message = whole->message;

    timer_cancel(timers_of(whole), &whole->late);
    for (size_t i = 0; i < whole->quorum->count; i++)
        whole->parts[i].was_heard = false;
    whole->heard = 0;
    whole->has_message = false;
    if (has_message)
        owner->message(owner->arg, &message, 1);
    else if (owner->ready != NULL)
        owner->ready(owner->arg);
}

static void on_late(void *arg)
{
    struct quorum_subscription *whole = arg;

    whole->late_ns = now_ns_of(whole);
    tell_owner(whole);
}

static void note_heard(struct quorum_part *part)
{
    struct quorum_subscription *whole = part->whole;
    int64_t at_ns = now_ns_of(whole) + LATE_NS;

    whole->heard += !part->was_heard;
    part->was_heard = true;
    if (whole->heard >= quorum_needs(whole->quorum)) {
        tell_owner(whole);
        return;
    }
    if (timer_is_armed(&whole->late))
        return;
    if (whole->late_ns != 0 && at_ns < whole->late_ns + LATE_EVERY_NS)
        at_ns = whole->late_ns + LATE_EVERY_NS;
    timer_arm(timers_of(whole), &whole->late, at_ns);
}

/* Once a majority listens the owner is told. The acknowledgement of a further server, or one
 * that comes again, counts as a message: what the server published before was missed. */
static void on_ready(void *arg)
{
    struct quorum_part *part = arg;
    struct quorum_subscription *whole = part->whole;

    note_live(whole);
    if (whole->was_ready) {
        note_heard(part);
    } else if (whole->owner->is_live) {
        whole->was_ready = true;
        if (whole->owner->ready != NULL)
            whole->owner->ready(whole->owner->arg);
    }
}

/* A longer message than that of an unlock names a lease or a session: the owner gets it from
 * each server, for another message may follow. */
static void on_message(void *arg, const char *payload, size_t len)
{
    struct quorum_part *part = arg;
    struct quorum_subscription *whole = part->whole;

    if (len != 1) {
        whole->owner->message(whole->owner->arg, payload, len);
        return;
    }
    whole->has_message = true;
    whole->message = payload[0];
    note_heard(part);
}

void quorum_subscribe(struct topology *topology, struct subscription *subscription,
                      const char *channel, size_t len)
{
    struct quorum *quorum = quorum_of(topology);
    struct quorum_subscription *whole = calloc(1, sizeof(*whole));

    assert(whole != NULL);
    whole->owner = subscription;
    whole->quorum = quorum;
    whole->late = (struct timer){.fire = on_late, .arg = whole};
    HASH_ADD_PTR(quorum->subscriptions, owner, whole);
    for (size_t i = 0; i < quorum->count; i++) {
        struct quorum_part *part = &whole->parts[i];
        part->whole = whole;
        part->subscription = (struct subscription){
            .ready = on_ready, .message = on_message, .arg = part};
        subscriber_add(quorum->members[i].node.subscriber, &part->subscription, channel, len);
    }
}

void quorum_unsubscribe(struct topology *topology, struct subscription *subscription)
{
    struct quorum *quorum = quorum_of(topology);
    struct quorum_subscription *whole;

    HASH_FIND_PTR(quorum->subscriptions, &subscription, whole);
    assert(whole != NULL);
    HASH_DEL(quorum->subscriptions, whole);
    timer_cancel(timers_of(whole), &whole->late);
    for (size_t i = 0; i < quorum->count; i++)
        subscriber_remove(quorum->members[i].node.subscriber, &whole->parts[i].subscription);
    subscription->is_live = false;
    free(whole);
}
