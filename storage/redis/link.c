#include "storage/redis/link.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "script_args.h"
#include "storage/redis/link_internal.h"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000, /* waiters are promised that a new connection does not take longer */
    REDIS_OLDEST = 60200   /* 6.2: SET … GET, HRANDFIELD */
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

void redis_link_note_reason(struct redis_link *link, const char *reason)
{
    if (strcmp(link->reason, reason) == 0)
        return; /* said already, an attempt ago */
    snprintf(link->reason, sizeof(link->reason), "%s", reason);
    char url[REDIS_URL_TEXT_SIZE];
    redis_url_describe(link->options.url, url);
    log_write(LOG_LEVEL_WARN, "redis: not usable",
              json_pack("{s:s*, s:s*}", "redis", url, "reason", reason));
}

void redis_link_reconnect(struct redis_link *link, const char *reason)
{
    redis_link_note_reason(link, reason);
    link->give_up = link->context != NULL;
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

static void became_up(struct redis_link *link)
{
    char url[REDIS_URL_TEXT_SIZE];

    link->state = LINK_UP;
    link->may_ping = true;
    link->writes_refused = false;
    if (link->options.probe != NULL)
        redis_link_proven(link);
    link->client_id = link->new_client_id;
    memcpy(link->server.run_id, link->new_run_id, sizeof(link->server.run_id));
    link->server.up_since_ns = loop_now_ns(link->options.loop);
    redis_link_watch_deadline(link);
    metrics_add(link->options.metrics, METRIC_REDIS_CONNECTS,
                link->options.is_sentinel ? 0 : 1);
    redis_url_describe(link->options.url, url);
    log_write(LOG_LEVEL_INFO, connected_text(&link->options),
              json_pack("{s:s*, s:s*}", "redis", url, "run_id", link->server.run_id));
    link->options.up(link->options.arg);
}

/* --- the checks of a new connection ------------------------------------------------------- */

/* The value of a line of INFO, cut to `size`; empty when there is none. */
static void info_value(const char *info, const char *name, char *value, size_t size)
{
    char needle[40];

    snprintf(needle, sizeof(needle), "\n%s:", name);
    const char *found = strstr(info, needle);
    value[0] = '\0';
    if (found == NULL)
        return;
    found += strlen(needle);
    snprintf(value, size, "%.*s", (int)strcspn(found, "\r\n"), found);
}

static int version_number(const char *text)
{
    int major = 0, minor = 0, patch = 0;

    if (sscanf(text, "%d.%d.%d", &major, &minor, &patch) < 2)
        return 0;
    return major * 10000 + minor * 100 + patch;
}

/* Why locks must not be kept in this Redis, or NULL. */
static const char *unfit_for_locks(const char *info)
{
    char version[24], role[16], loading[4], memory[24], policy[24];

    info_value(info, "redis_version", version, sizeof(version));
    info_value(info, "role", role, sizeof(role));
    info_value(info, "loading", loading, sizeof(loading));
    info_value(info, "maxmemory", memory, sizeof(memory));
    info_value(info, "maxmemory_policy", policy, sizeof(policy));
    if (version_number(version) < REDIS_OLDEST)
        return "Redis is older than 6.2";
    if (strcmp(role, "slave") == 0)
        return "Redis is a replica: it takes no writes";
    if (strcmp(loading, "1") == 0)
        return "Redis is loading its data";
    /* Every lock has a TTL, so any eviction policy may drop a held lock without a word. */
    if (strcmp(memory, "0") != 0 && strcmp(policy, "noeviction") != 0)
        return "Redis evicts keys when memory is short: set maxmemory-policy noeviction";
    return NULL;
}

static void fail_check(struct redis_link *link, const char *reason)
{
    redis_link_reconnect(link, reason);
}

static void send_probe(struct redis_link *link);

static void on_probe(void *arg, const struct redis_result *result)
{
    struct redis_link *link = arg;

    if (link->state != LINK_CONNECTING || link->give_up)
        return;
    if (!link->probed_text && result->outcome == REDIS_DONE) {
        link->probed_text = true;
        send_probe(link);
    } else if (result->outcome == REDIS_DONE ||
               result->refusal == REDIS_REFUSED_OUT_OF_MEMORY) {
        /* Releases and renewals work when memory is short. */
        link->probed++;
        send_probe(link);
    } else if (result->refusal == REDIS_REFUSED_PERMISSION)
        fail_check(link, "the Redis user lacks a permission (eval, evalsha, keys, channels or "
                         "a command of the scripts)");
    else if (link->writes_refused)
        fail_check(link, REDIS_REFUSES_WRITES);
    else
        fail_check(link, "Redis did not run the probe script");
}

/* The next slot's keys; after the last one the connection is up. */
static void send_probe(struct redis_link *link)
{
    const struct redis_probe *probe = link->options.probe;
    struct script_args args;

    if (probe == NULL || link->probed == probe->slot_count) {
        became_up(link);
        return;
    }
    const struct redis_probe_keys *keys = &probe->keys[link->probed];
    args_init(&args);
    for (size_t i = 0; i < keys->count; i++)
        args_key(&args, PROBE_KEY_NAMES + i, keys->names[i], strlen(keys->names[i]));
    for (size_t i = 0; link->probed == 0 && i < probe->channel_count; i++)
        args_string(&args, PROBE_ARG_CHANNELS + i, probe->channels[i]);
    if (redis_link_send_probe(link, &args, !link->probed_text, on_probe) != 0)
        fail_check(link, "Redis did not run the probe script");
}

static void on_ignored(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "NOPERM", 6) == 0)
        log_write(LOG_LEVEL_WARN, "redis: user lacks a permission",
                  json_pack("{s:s}", "command", "CLIENT SETNAME or CLIENT KILL"));
    (void)link;
}

static void on_client_id(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;

    (void)context;
    link->new_client_id = value_integer(raw);
}

/* The commands that the connection before had sent and Redis not yet read would otherwise run
 * some time after this moment: a grant that nobody is told of. Killed, it reads nothing more.
 */
static void kill_previous(struct redis_link *link, const char *run_id)
{
    if (link->client_id != 0 && strcmp(link->server.run_id, run_id) == 0)
        redisAsyncCommand(link->context, on_ignored, link, "CLIENT KILL ID %lld",
                          (long long)link->client_id);
}

static void begin_probe(struct redis_link *link)
{
    link->probed = 0;
    link->probed_text = false;
    send_probe(link);
}

/* A server of a cluster serves like one that is alone where it has every slot. */
static void on_cluster_info(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    char slots[8], nodes[8];

    (void)context;
    if (reply == NULL || link->state != LINK_CONNECTING || link->give_up)
        return;
    if (reply->type != REDIS_REPLY_STRING) {
        fail_check(link, "the Redis user lacks a permission (CLUSTER INFO)");
        return;
    }
    info_value(reply->str, "cluster_slots_assigned", slots, sizeof(slots));
    info_value(reply->str, "cluster_known_nodes", nodes, sizeof(nodes));
    if (strcmp(slots, "16384") == 0 && strcmp(nodes, "1") == 0)
        begin_probe(link);
    else
        fail_check(link, "Redis is a part of a cluster: only a cluster of one server, which "
                         "has all slots, is supported");
}

static void on_info(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    char cluster[4];

    (void)context;
    if (reply == NULL || link->state != LINK_CONNECTING || link->give_up)
        return;
    if (reply->type != REDIS_REPLY_STRING) {
        bool unknown_user = reply->type == REDIS_REPLY_ERROR &&
                            (strncmp(reply->str, "NOAUTH", 6) == 0 ||
                             strncmp(reply->str, "NOPERM", 6) == 0);
        fail_check(link, unknown_user ? "the Redis user lacks a permission (INFO)"
                                      : "Redis does not answer INFO");
        return;
    }
    const char *unfit = link->options.probe ? unfit_for_locks(reply->str) : NULL;
    if (unfit != NULL) {
        fail_check(link, unfit);
        return;
    }
    info_value(reply->str, "run_id", link->new_run_id, sizeof(link->new_run_id));
    if (link->server.run_id[0] != '\0' && strcmp(link->server.run_id, link->new_run_id) != 0 &&
        link->options.probe != NULL)
        log_write(LOG_LEVEL_WARN, "redis: another process answers now; data may be lost",
                  json_pack("{s:s*}", "run_id", link->new_run_id));
    kill_previous(link, link->new_run_id);
    info_value(reply->str, "cluster_enabled", cluster, sizeof(cluster));
    link->server.is_cluster = strcmp(cluster, "1") == 0;
    if (link->server.is_cluster && link->options.probe != NULL)
        redisAsyncCommand(link->context, on_cluster_info, link, "CLUSTER INFO");
    else
        begin_probe(link);
}

static void on_login(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR && !link->give_up)
        fail_check(link, strncmp(reply->str, "LOADING", 7) == 0
                             ? "Redis is loading its data"
                             : "Redis refused the user, the password or the database");
}

static void begin_checks(struct redis_link *link)
{
    const struct redis_login *login = &link->options.url->login;
    redisAsyncContext *context = link->context;
    int database = link->options.url->database;

    if (login->has_user)
        redisAsyncCommand(context, on_login, link, "AUTH %s %s", login->user, login->password);
    else if (login->has_password)
        redisAsyncCommand(context, on_login, link, "AUTH %s", login->password);
    if (database != 0)
        redisAsyncCommand(context, on_login, link, "SELECT %d", database);
    redisAsyncCommand(context, on_ignored, link, "CLIENT SETNAME rlockd");
    redisAsyncCommand(context, on_client_id, link, "CLIENT ID");
    redisAsyncCommand(context, on_info, link, "INFO");
}

/* --- hiredis and the loop ----------------------------------------------------------------- */

static void want_write(void *arg)
{
    struct redis_link *link = arg;

    link->write_wanted = true; /* sent at the end of this turn, with everything else */
}

static void unwant_write(void *arg)
{
    struct redis_link *link = arg;

    link->write_wanted = false;
}

static void watch_events(struct redis_link *link, uint32_t epoll_events)
{
    if (link->watched_events == epoll_events)
        return;
    if (loop_watch_change(link->options.loop, &link->socket, epoll_events) == 0)
        link->watched_events = epoll_events;
}

static void went_down(struct redis_link *link)
{
    if (link->reason[0] == '\0' && !link->stopped)
        redis_link_note_reason(link, "the connection was lost");
    link->state = LINK_DISCONNECTED;
    link->give_up = false;
    link->write_wanted = false;
    struct timers *timers = loop_timers(link->options.loop);
    timer_cancel(timers, &link->deadline);
    if (link->stopped)
        return;
    link->options.down(link->options.arg);
    timer_arm(timers, &link->retry,
              loop_now_ns(link->options.loop) + link->backoff_ms * CLOCK_NS_PER_MS);
    link->backoff_ms = link->backoff_ms * 2 < BACKOFF_MAX_MS ? link->backoff_ms * 2
                                                             : BACKOFF_MAX_MS;
}

/* hiredis is about to free the context, after the pending callbacks: the only place where it
 * goes, whoever wanted it to. */
static void on_cleanup(void *arg)
{
    struct redis_link *link = arg;

    loop_watch_remove(link->options.loop, &link->socket);
    /* The answer to a SUBSCRIBE: hiredis ends the connection for it. */
    if (strncmp(link->context->c.errstr, "NOPERM", 6) == 0)
        redis_link_note_reason(link,
                               "the Redis user lacks a permission (subscribe, or a channel)");
    link->context = NULL;
    if (link->guard.refused)
        redis_link_note_reason(link, "Redis sends what nobody asked for, or in a wrong form");
    went_down(link);
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

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis_link *link = context->data;

    if (status != REDIS_OK) {
        redis_link_note_reason(link, "Redis cannot be reached");
        return; /* hiredis frees the context after this */
    }
    begin_checks(link);
}

static void give_up(struct redis_link *link)
{
    link->state = LINK_CLOSING;
    redisAsyncFree(link->context); /* runs the pending callbacks, then on_cleanup() */
}

/* The end of a turn: everything gathered in it goes out in one write. */
static void on_turn(void *arg)
{
    struct redis_link *link = arg;

    if (link->context == NULL)
        return;
    if (link->give_up) {
        give_up(link);
        return;
    }
    link->gathered = 0;
    if (link->write_wanted && (link->context->c.flags & REDIS_CONNECTED) != 0)
        redisAsyncHandleWrite(link->context);
    if (link->context != NULL)
        watch_events(link, link->write_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_deadline(void *arg)
{
    struct redis_link *link = arg;

    redis_link_note_reason(link,
                           link->calls ? "Redis does not answer" : "Redis cannot be reached");
    if (link->context != NULL)
        give_up(link);
}

static redisAsyncContext *open_context(const struct redis_url *url)
{
    if (url->transport == REDIS_UNIX)
        return redisAsyncConnectUnix(url->path);
    /* Resolves the name while the loop waits. */
    return redisAsyncConnect(url->hosts[0].host, url->hosts[0].port);
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
    context->ev.cleanup = on_cleanup;
    context->c.reader->maxbuf = 0; /* keep the read buffer instead of freeing it when idle */
    redis_guard_watch(&link->guard, context);
    redisAsyncSetConnectCallback(context, on_connect);
    if (link->options.url->transport == REDIS_TCP)
        redisEnableKeepAlive(&context->c);
    return 0;
}

static void connect_now(struct redis_link *link)
{
    int64_t now_ns = clock_ns();

    redisAsyncContext *context = open_context(link->options.url);
    if (context == NULL || context->err != 0 || attach(link, context) != 0) {
        redis_link_note_reason(link, "Redis cannot be reached");
        if (context != NULL)
            redisAsyncFree(context);
        went_down(link);
        return;
    }
    timer_arm(loop_timers(link->options.loop), &link->deadline,
              now_ns + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
}

static void on_retry(void *arg)
{
    struct redis_link *link = arg;

    assert(link->context == NULL);
    link->state = LINK_CONNECTING;
    link->give_up = false;
    if (link->options.find != NULL)
        link->options.find(link->options.arg);
    else if (link->options.url->transport == REDIS_TCP && link->options.url->host_count == 0)
        went_down(link); /* the server is not known yet */
    else
        connect_now(link);
}

void redis_link_found(struct redis_link *link, const char *why_not)
{
    if (link->state != LINK_CONNECTING || link->context != NULL || link->stopped)
        return;
    if (why_not == NULL) {
        connect_now(link);
        return;
    }
    redis_link_note_reason(link, why_not);
    went_down(link);
}

bool redis_link_hurry(struct redis_link *link)
{
    if (link->state != LINK_DISCONNECTED || link->stopped)
        return false;
    link->backoff_ms = BACKOFF_FIRST_MS;
    timer_arm(loop_timers(link->options.loop), &link->retry, loop_now_ns(link->options.loop));
    return true;
}

/* --- life --------------------------------------------------------------------------------- */

struct redis_link *redis_link_new(const struct redis_link_options *options)
{
    struct redis_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->options = *options;
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
    if (link->context != NULL)
        give_up(link);
    while (link->refused != NULL)
        redis_link_refuse_calls(link);
}

void redis_link_free(struct redis_link *link)
{
    redis_link_stop(link);
    redis_link_calls_release(link);
    free(link);
}
