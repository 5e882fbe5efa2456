/* Three connections to Sentinels: one asks, and two receive messages, if possible from
 * different Sentinels, so that no message is missed while one of them connects. When a Sentinel
 * does not answer, or gave a wrong answer, the next Sentinel is tried.
 *
 * The configuration epoch of a master, which each failover raises, tells a new name of the
 * master from a former one, which a Sentinel that was paused or is cut off still has. */
#include "storage/topology/sentinels.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/redis/link.h"

enum { LEARNT_MAX = 16, KNOWN_MAX = REDIS_URL_HOSTS_MAX + LEARNT_MAX, LISTENERS = 2 };

/* A message of a failover may be lost with its connection: the master is asked for as often,
 * which also shows whether the Sentinel still answers. */
#define POLL_EVERY_NS (1 * CLOCK_NS_PER_S)
/* How often a Sentinel is asked for the other Sentinels. */
#define LEARN_EVERY_POLLS 10
/* Messages of failovers that come sooner after another of the same Sentinel are left to the
 * next poll: a Sentinel that sends many must not have a new connection for each. */
#define SWITCH_EVERY_NS (1 * CLOCK_NS_PER_S)
/* Sentinels that were set up anew count epochs from 0 again. They are believed when no Sentinel
 * has named the last master or a later one for so long. */
#define FORMER_LIMIT_NS (10 * CLOCK_NS_PER_S)

static const char switch_channel[] = "+switch-master";

/* A connection to one of the known Sentinels. */
struct sentinel_conn {
    struct sentinels *sentinels;
    struct redis_link *link;
    struct redis_url url;
    size_t at;               /* in `known` */
    bool is_asked;           /* a question for the master is under way */
    struct redis_host named; /* its answer, while the epoch is asked for */
    bool has_told;           /* of a failover: the next connection is to the same Sentinel */
    int64_t told_ns;
};

struct sentinels {
    struct sentinels_options options;
    struct redis_host known[KNOWN_MAX]; /* those of the URL first */
    size_t count, oldest_learnt; /* the learnt Sentinel that the next new Sentinel replaces */
    struct sentinel_conn asker, listeners[LISTENERS];
    struct redis_host reported; /* the master that the owner was told last; empty: none */
    int64_t epoch; /* of its configuration, at least; SENTINEL_NO_EPOCH: not known */
    struct sentinel_conn *reported_by;
    bool is_distrusted;        /* `reported` was no usable master */
    struct redis_host suspect; /* another master, named by one Sentinel only; empty: none */
    size_t suspect_by;
    int64_t former_ns; /* since when Sentinels name former masters only; 0: they do not */
    bool is_wanted;    /* `found` is to come */
    size_t failed;     /* Sentinels in a row that gave no answer */
    unsigned polls;
    struct timer poll;
    bool stopped;
};

static bool is_same(const struct redis_host *a, const struct redis_host *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* --- which Sentinel ----------------------------------------------------------------------- */

/* The address that the conn connects to next. */
static void point(struct sentinel_conn *conn, size_t at)
{
    const struct sentinels *sentinels = conn->sentinels;

    conn->at = at % sentinels->count;
    const struct redis_host *host = &sentinels->known[conn->at];
    /* Every known host fits. */
    (void)!redis_url_of_sentinel(&conn->url, sentinels->options.url, host->host, host->port);
}

static void leave(struct sentinel_conn *conn, const char *reason)
{
    if (redis_link_is_up(conn->link))
        redis_link_reconnect(conn->link, reason); /* its `down` points to the next */
}

static void learn(struct sentinels *sentinels, const struct redis_host *host)
{
    size_t from_url = sentinels->options.url->host_count, at = sentinels->count;

    for (size_t i = 0; i < sentinels->count; i++)
        if (is_same(&sentinels->known[i], host))
            return;
    if (at < from_url + LEARNT_MAX)
        sentinels->count++;
    else
        at = from_url + sentinels->oldest_learnt++ % LEARNT_MAX;
    sentinels->known[at] = *host;
    metrics_set(sentinels->options.metrics, METRIC_SENTINELS, (int64_t)sentinels->count);
}

/* --- asking ------------------------------------------------------------------------------- */

static void send_sentinel(struct sentinel_conn *conn, const char *what, redis_done *done)
{
    const char *name = conn->sentinels->options.url->master_name;
    const char *argv[] = {"SENTINEL", what, name};
    const size_t lens[] = {8, strlen(what), strlen(name)};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};

    redis_link_command(conn->link, &command, done, conn);
}

static void on_others(void *arg, const struct redis_result *result)
{
    struct sentinel_conn *conn = arg;
    struct sentinels *sentinels = conn->sentinels;
    struct redis_host host;

    if (sentinels->stopped || result->outcome != REDIS_DONE)
        return;
    size_t count = value_count(result->reply);
    for (size_t i = 0; i < count && i < LEARNT_MAX; i++)
        if (sentinel_read_sentinel(value_at(result->reply, i), &host))
            learn(sentinels, &host);
    if (sentinels->count > 1 && sentinels->listeners[0].at == sentinels->listeners[1].at)
        leave(&sentinels->listeners[1], "there are other Sentinels to listen to");
}

static void learn_others(struct sentinels *sentinels)
{
    if (sentinels->polls++ % LEARN_EVERY_POLLS == 0 && redis_link_is_up(sentinels->asker.link))
        send_sentinel(&sentinels->asker, "SENTINELS", on_others);
}

static void report(struct sentinels *sentinels, struct sentinel_conn *by,
                   const struct redis_host *master)
{
    sentinels->reported = *master;
    sentinels->reported_by = by;
    sentinels->suspect.host[0] = '\0';
    sentinels->former_ns = 0;
    sentinels->is_distrusted = false;
    if (sentinels->is_wanted) {
        sentinels->is_wanted = false;
        sentinels->options.found(sentinels->options.arg, master, NULL);
    } else {
        sentinels->options.switched(sentinels->options.arg, master);
    }
}

static void ask_master(struct sentinel_conn *conn);

/* Another master, and no epochs that tell which of the two is the former one: a working master
 * is left only when a second Sentinel names the same other master. */
static void suspect(struct sentinel_conn *conn)
{
    struct sentinels *sentinels = conn->sentinels;

    if (sentinels->count == 1 ||
        (is_same(&conn->named, &sentinels->suspect) && sentinels->suspect_by != conn->at)) {
        report(sentinels, conn, &conn->named);
        return;
    }
    sentinels->suspect = conn->named;
    sentinels->suspect_by = conn->at;
    if (conn == &sentinels->asker)
        leave(conn, "the Sentinel names another master: the next one is asked");
    else
        ask_master(&sentinels->asker);
}

/* Whether the Sentinel has missed a failover. */
static bool is_former(struct sentinels *sentinels, int64_t epoch)
{
    int64_t now_ns = loop_now_ns(sentinels->options.loop);

    if (epoch == SENTINEL_NO_EPOCH || epoch >= sentinels->epoch)
        return false;
    if (sentinels->former_ns == 0)
        sentinels->former_ns = now_ns;
    return now_ns - sentinels->former_ns < FORMER_LIMIT_NS;
}

/* A Sentinel named a master that is no former one. */
static void end_question(struct sentinel_conn *conn)
{
    conn->sentinels->failed = 0;
    if (conn == &conn->sentinels->asker)
        learn_others(conn->sentinels);
}

static void hear(struct sentinel_conn *conn, int64_t epoch)
{
    struct sentinels *sentinels = conn->sentinels;
    int64_t before = sentinels->epoch;
    bool is_other = !is_same(&conn->named, &sentinels->reported);

    if (conn == &sentinels->asker) /* a listener is yet to subscribe */
        redis_link_proven(conn->link);
    if (!is_other) {
        sentinels->suspect.host[0] = '\0';
        sentinels->former_ns = 0;
    }
    if (is_other && is_former(sentinels, epoch)) {
        leave(conn, "the Sentinel names a former master: the next one is asked");
        return;
    }
    if (is_other && !sentinels->is_wanted &&
        (before == SENTINEL_NO_EPOCH || epoch == SENTINEL_NO_EPOCH || epoch == before)) {
        if (!sentinels->is_distrusted) /* else the next sentinels_find() gets this answer */
            suspect(conn);
    } else {
        if (is_other ? epoch != SENTINEL_NO_EPOCH : epoch > before)
            sentinels->epoch = epoch;
        if (is_other || sentinels->is_wanted)
            report(sentinels, conn, &conn->named);
    }
    end_question(conn);
}

static void on_epoch(void *arg, const struct redis_result *result)
{
    struct sentinel_conn *conn = arg;

    if (!conn->is_asked)
        return; /* the Sentinel named no master */
    conn->is_asked = false;
    if (!conn->sentinels->stopped && (result->outcome != REDIS_UNKNOWN || result->reply))
        hear(conn, result->outcome == REDIS_DONE ? sentinel_read_epoch(result->reply)
                                                 : SENTINEL_NO_EPOCH);
}

static void on_master(void *arg, const struct redis_result *result)
{
    struct sentinel_conn *conn = arg;
    struct sentinels *sentinels = conn->sentinels;

    if (sentinels->stopped || result->outcome != REDIS_DONE ||
        !sentinel_read_master(result->reply, &conn->named)) {
        conn->is_asked = false;
        if (!sentinels->stopped)
            leave(conn, "the Sentinel does not know the master");
        return;
    }
    if (conn != &sentinels->asker)
        return; /* the epoch was asked for, too */
    /* Not with each poll: a Sentinel whose user lacks the permission notes every refusal in its
     * ACL LOG. */
    if (sentinels->is_wanted || !is_same(&conn->named, &sentinels->reported)) {
        send_sentinel(conn, "MASTER", on_epoch);
        return;
    }
    conn->is_asked = false;
    hear(conn, SENTINEL_NO_EPOCH);
}

static void ask_master(struct sentinel_conn *conn)
{
    if (conn->is_asked || !redis_link_is_up(conn->link))
        return;
    conn->is_asked = true;
    send_sentinel(conn, "GET-MASTER-ADDR-BY-NAME", on_master);
    if (conn != &conn->sentinels->asker)
        send_sentinel(conn, "MASTER", on_epoch); /* nothing may be asked after SUBSCRIBE */
}

static void on_poll(void *arg)
{
    struct sentinels *sentinels = arg;
    struct loop *loop = sentinels->options.loop;

    timer_arm(loop_timers(loop), &sentinels->poll, loop_now_ns(loop) + POLL_EVERY_NS);
    ask_master(&sentinels->asker);
}

void sentinels_find(struct sentinels *sentinels)
{
    sentinels->is_wanted = true;
    ask_master(&sentinels->asker);
}

void sentinels_distrust(struct sentinels *sentinels)
{
    sentinels->is_distrusted = true;
    if (sentinels->reported_by != NULL)
        leave(sentinels->reported_by, "the server that the Sentinel named is no usable master");
}

/* --- the connection that asks ------------------------------------------------------------- */

static void on_asker_up(void *arg)
{
    struct sentinel_conn *conn = arg;

    conn->sentinels->polls = 0;
    on_poll(conn->sentinels);
}

static void on_asker_down(void *arg)
{
    struct sentinel_conn *conn = arg;
    struct sentinels *sentinels = conn->sentinels;

    point(conn, conn->at + 1);
    if (++sentinels->failed < sentinels->count || !sentinels->is_wanted || sentinels->stopped)
        return;
    sentinels->failed = 0;
    sentinels->is_wanted = false;
    sentinels->options.found(sentinels->options.arg, NULL, "no Sentinel names the master");
}

/* --- the connection that listens ---------------------------------------------------------- */

/* A message may have been missed before the subscription: the master is asked for, too. */
static void on_listener_up(void *arg)
{
    struct sentinel_conn *conn = arg;

    ask_master(conn);
    if (redis_link_subscribe(conn->link, switch_channel, strlen(switch_channel)) != 0)
        leave(conn, "the Sentinel does not take a subscription");
}

/* Points to the next Sentinel that the other listener does not listen to. */
static void on_listener_down(void *arg)
{
    struct sentinel_conn *conn = arg;
    const struct sentinel_conn *listeners = conn->sentinels->listeners;
    const struct sentinel_conn *other = &listeners[conn == &listeners[0] ? 1 : 0];

    if (conn->has_told) {
        conn->has_told = false;
        return;
    }
    point(conn, conn->at + 1);
    if (conn->at == other->at)
        point(conn, conn->at + 1);
}

/* The message has no epoch, and may be of a failover that is long over: a Sentinel that stood
 * still tells of all that it has missed. So the Sentinel is asked, by on_listener_up() of a new
 * connection, since nothing may be asked after SUBSCRIBE. */
static void ask_teller(struct sentinel_conn *conn)
{
    int64_t now_ns = loop_now_ns(conn->sentinels->options.loop);

    if (now_ns - conn->told_ns < SWITCH_EVERY_NS || !redis_link_is_up(conn->link))
        return;
    conn->told_ns = now_ns;
    conn->has_told = true;
    leave(conn, "the Sentinel tells of a failover, and is asked for the master");
}

static void on_push(void *arg, enum link_push push, const char *channel, size_t channel_len,
                    const char *payload, size_t payload_len)
{
    struct sentinel_conn *conn = arg;
    struct sentinels *sentinels = conn->sentinels;
    struct redis_host master;

    (void)channel;
    (void)channel_len;
    if (push == LINK_PUSH_SUBSCRIBED && redis_link_is_up(conn->link))
        redis_link_proven(conn->link);
    if (push == LINK_PUSH_MESSAGE && !sentinels->stopped &&
        sentinel_read_switch(payload, payload_len, sentinels->options.url->master_name,
                             &master) &&
        !is_same(&master, &sentinels->reported))
        ask_teller(conn);
}

static bool awaits(void *arg, const char *channel, size_t len)
{
    (void)arg;
    return len == strlen(switch_channel) && memcmp(channel, switch_channel, len) == 0;
}

/* --- life --------------------------------------------------------------------------------- */

static bool start_conn(struct sentinel_conn *conn, struct sentinels *sentinels, size_t at,
                       void (*up)(void *arg), void (*down)(void *arg))
{
    const struct redis_link_options options = {.url = &conn->url,
                                               .loop = sentinels->options.loop,
                                               .metrics = sentinels->options.metrics,
                                               .is_sentinel = true,
                                               .up = up,
                                               .down = down,
                                               .arg = conn};

    conn->sentinels = sentinels;
    point(conn, at);
    conn->link = redis_link_new(&options);
    return conn->link != NULL;
}

static bool start_listeners(struct sentinels *sentinels)
{
    for (size_t i = 0; i < LISTENERS; i++) {
        struct sentinel_conn *conn = &sentinels->listeners[i];

        if (!start_conn(conn, sentinels, i + 1, on_listener_up, on_listener_down))
            return false;
        redis_link_on_push(conn->link, on_push, awaits, conn);
    }
    return true;
}

struct sentinels *sentinels_new(const struct sentinels_options *options)
{
    struct sentinels *sentinels = calloc(1, sizeof(*sentinels));

    if (sentinels == NULL)
        return NULL;
    sentinels->options = *options;
    sentinels->epoch = SENTINEL_NO_EPOCH;
    sentinels->count = options->url->host_count;
    memcpy(sentinels->known, options->url->hosts, sentinels->count * sizeof(struct redis_host));
    metrics_set(options->metrics, METRIC_SENTINELS, (int64_t)sentinels->count);
    sentinels->poll = (struct timer){.fire = on_poll, .arg = sentinels};
    if (!start_conn(&sentinels->asker, sentinels, 0, on_asker_up, on_asker_down) ||
        !start_listeners(sentinels)) {
        sentinels_free(sentinels);
        return NULL;
    }
    return sentinels;
}

void sentinels_stop(struct sentinels *sentinels)
{
    sentinels->stopped = true;
    timer_cancel(loop_timers(sentinels->options.loop), &sentinels->poll);
    if (sentinels->asker.link != NULL)
        redis_link_stop(sentinels->asker.link);
    for (size_t i = 0; i < LISTENERS; i++)
        if (sentinels->listeners[i].link != NULL)
            redis_link_stop(sentinels->listeners[i].link);
}

void sentinels_free(struct sentinels *sentinels)
{
    sentinels_stop(sentinels);
    if (sentinels->asker.link != NULL)
        redis_link_free(sentinels->asker.link);
    for (size_t i = 0; i < LISTENERS; i++)
        if (sentinels->listeners[i].link != NULL)
            redis_link_free(sentinels->listeners[i].link);
    free(sentinels);
}

size_t sentinels_known(const struct sentinels *sentinels)
{
    return sentinels->count;
}

bool sentinels_answer(const struct sentinels *sentinels)
{
    return redis_link_is_up(sentinels->asker.link);
}
