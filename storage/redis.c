#include "storage/redis.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "server/clock.h"
#include "server/log.h"
#include "storage/redis_internal.h"

enum { PROBE_ARGS_MAX = 16 };

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000, /* waiters are promised that a new connection does not take longer */
    REDIS_OLDEST = 60200   /* 6.2: SET … GET, HRANDFIELD */
};

static void on_retry(void *arg);

/* --- state -------------------------------------------------------------------------------- */

bool redis_is_up(const struct redis *redis)
{
    return redis->state == REDIS_UP;
}

const char *redis_down_reason(const struct redis *redis)
{
    return redis->state == REDIS_UP ? "" : redis->reason;
}

void redis_note_reason(struct redis *redis, const char *reason)
{
    if (strcmp(redis->reason, reason) == 0)
        return; /* said already, an attempt ago */
    snprintf(redis->reason, sizeof(redis->reason), "%s", reason);
    char url[REDIS_URL_TEXT_SIZE];
    redis_url_describe(redis->options.url, url);
    log_write(LOG_LEVEL_WARN, "redis: not usable",
              json_pack("{s:s*, s:s*}", "redis", url, "reason", reason));
}

void redis_reconnect(struct redis *redis, const char *reason)
{
    redis_note_reason(redis, reason);
    redis->give_up = true;
    loop_again(redis->options.loop);
}

void redis_leave(struct redis *redis, const char *reason)
{
    if (redis->state != REDIS_UP)
        return;
    redis_note_reason(redis, reason);
    redis->state = REDIS_LEAVING;
}

void redis_proven(struct redis *redis)
{
    redis->backoff_ms = BACKOFF_FIRST_MS;
}

static void became_up(struct redis *redis)
{
    char url[REDIS_URL_TEXT_SIZE];

    redis->state = REDIS_UP;
    if (redis->options.probe != NULL)
        redis_proven(redis);
    redis->reason[0] = '\0';
    redis->client_id = redis->new_client_id;
    memcpy(redis->run_id, redis->new_run_id, sizeof(redis->run_id));
    redis_watch_deadline(redis);
    metrics_add(redis->options.metrics, METRIC_REDIS_CONNECTS, 1);
    redis_url_describe(redis->options.url, url);
    log_write(LOG_LEVEL_INFO,
              redis->options.probe ? "redis: connected" : "redis: subscriber connected",
              json_pack("{s:s*, s:s*}", "redis", url, "run_id", redis->run_id));
    redis->options.up(redis->options.arg);
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

static void fail_check(struct redis *redis, const char *reason)
{
    redis_reconnect(redis, reason);
}

static void on_probe(void *arg, const struct redis_result *result)
{
    struct redis *redis = arg;

    if (redis->state != REDIS_CONNECTING || redis->give_up)
        return;
    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_OUT_OF_MEMORY)
        became_up(redis); /* releases and renewals work when memory is short */
    else if (result->refusal == REDIS_REFUSED_PERMISSION)
        fail_check(redis, "the Redis user lacks a permission (scripts, keys or channels)");
    else
        fail_check(redis, "Redis did not run the probe script");
}

static void probe(struct redis *redis)
{
    const struct redis_options *options = &redis->options;
    size_t count = options->probe_keys + options->probe_channels, lens[PROBE_ARGS_MAX];

    if (options->probe == NULL) {
        became_up(redis);
        return;
    }
    assert(count <= sizeof(lens) / sizeof(lens[0]));
    for (size_t i = 0; i < count; i++)
        lens[i] = strlen(options->probe[i]);
    if (redis_send_probe(redis, options->probe_keys, count, options->probe, lens, on_probe) !=
        0)
        fail_check(redis, "Redis did not run the probe script");
}

static void on_ignored(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis *redis = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "NOPERM", 6) == 0)
        log_write(LOG_LEVEL_WARN, "redis: user lacks a permission",
                  json_pack("{s:s}", "command", "CLIENT SETNAME or CLIENT KILL"));
    (void)redis;
}

static void on_client_id(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis *redis = arg;

    (void)context;
    redis->new_client_id = redis_reply_integer(raw);
}

/* The commands that the connection before had sent and Redis not yet read would otherwise run
 * some time after this moment: a grant that nobody is told of. Killed, it reads nothing more.
 */
static void kill_previous(struct redis *redis, const char *run_id)
{
    if (redis->client_id != 0 && strcmp(redis->run_id, run_id) == 0)
        redisAsyncCommand(redis->context, on_ignored, redis, "CLIENT KILL ID %lld",
                          (long long)redis->client_id);
}

static void on_info(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis *redis = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply == NULL || redis->state != REDIS_CONNECTING || redis->give_up)
        return;
    if (reply->type != REDIS_REPLY_STRING) {
        bool unknown_user = reply->type == REDIS_REPLY_ERROR &&
                            (strncmp(reply->str, "NOAUTH", 6) == 0 ||
                             strncmp(reply->str, "NOPERM", 6) == 0);
        fail_check(redis, unknown_user ? "the Redis user lacks a permission (INFO)"
                                       : "Redis does not answer INFO");
        return;
    }
    const char *unfit = redis->options.probe ? unfit_for_locks(reply->str) : NULL;
    if (unfit != NULL) {
        fail_check(redis, unfit);
        return;
    }
    info_value(reply->str, "run_id", redis->new_run_id, sizeof(redis->new_run_id));
    if (redis->run_id[0] != '\0' && strcmp(redis->run_id, redis->new_run_id) != 0 &&
        redis->options.probe != NULL)
        log_write(LOG_LEVEL_WARN, "redis: another process answers now; data may be lost",
                  json_pack("{s:s*}", "run_id", redis->new_run_id));
    kill_previous(redis, redis->new_run_id);
    probe(redis);
}

static void on_login(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis *redis = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR && !redis->give_up)
        fail_check(redis, strncmp(reply->str, "LOADING", 7) == 0
                              ? "Redis is loading its data"
                              : "Redis refused the user, the password or the database");
}

static void begin_checks(struct redis *redis)
{
    const struct redis_url *url = redis->options.url;
    redisAsyncContext *context = redis->context;

    if (url->has_user)
        redisAsyncCommand(context, on_login, redis, "AUTH %s %s", url->user, url->password);
    else if (url->has_password)
        redisAsyncCommand(context, on_login, redis, "AUTH %s", url->password);
    if (url->database != 0)
        redisAsyncCommand(context, on_login, redis, "SELECT %d", url->database);
    redisAsyncCommand(context, on_ignored, redis, "CLIENT SETNAME rlockd");
    redisAsyncCommand(context, on_client_id, redis, "CLIENT ID");
    redisAsyncCommand(context, on_info, redis, "INFO");
}

/* --- hiredis and the loop ----------------------------------------------------------------- */

static void want_write(void *arg)
{
    struct redis *redis = arg;

    redis->write_wanted = true; /* sent at the end of this turn, with everything else */
}

static void unwant_write(void *arg)
{
    struct redis *redis = arg;

    redis->write_wanted = false;
}

static void watch_events(struct redis *redis, uint32_t epoll_events)
{
    if (redis->watched_events == epoll_events)
        return;
    if (loop_watch_change(redis->options.loop, &redis->socket, epoll_events) == 0)
        redis->watched_events = epoll_events;
}

static void went_down(struct redis *redis)
{
    if (redis->reason[0] == '\0' && !redis->stopped)
        redis_note_reason(redis, "the connection was lost");
    redis->state = REDIS_DISCONNECTED;
    redis->give_up = false;
    redis->write_wanted = false;
    struct timers *timers = loop_timers(redis->options.loop);
    timer_cancel(timers, &redis->deadline);
    if (redis->stopped)
        return;
    redis->options.down(redis->options.arg);
    timer_arm(timers, &redis->retry,
              loop_now_ns(redis->options.loop) + redis->backoff_ms * CLOCK_NS_PER_MS);
    redis->backoff_ms = redis->backoff_ms * 2 < BACKOFF_MAX_MS ? redis->backoff_ms * 2
                                                               : BACKOFF_MAX_MS;
}

/* hiredis is about to free the context, after the pending callbacks: the only place where it
 * goes, whoever wanted it to. */
static void on_cleanup(void *arg)
{
    struct redis *redis = arg;

    loop_watch_remove(redis->options.loop, &redis->socket);
    redis->context = NULL;
    went_down(redis);
}

static void on_socket(void *arg, uint32_t epoll_events)
{
    struct redis *redis = arg;

    if (redis->context != NULL && (epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        redisAsyncHandleWrite(redis->context);
    if (redis->context != NULL && (epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        redisAsyncHandleRead(redis->context);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis *redis = context->data;

    if (status != REDIS_OK) {
        redis_note_reason(redis, "Redis cannot be reached");
        return; /* hiredis frees the context after this */
    }
    begin_checks(redis);
}

static void give_up(struct redis *redis)
{
    redis->state = REDIS_CLOSING;
    redisAsyncFree(redis->context); /* runs the pending callbacks, then on_cleanup() */
}

/* The end of a turn: everything gathered in it goes out in one write. */
static void on_turn(void *arg)
{
    struct redis *redis = arg;

    if (redis->context == NULL)
        return;
    if (redis->give_up) {
        give_up(redis);
        return;
    }
    redis->gathered = 0;
    if (redis->write_wanted && (redis->context->c.flags & REDIS_CONNECTED) != 0)
        redisAsyncHandleWrite(redis->context);
    if (redis->context != NULL)
        watch_events(redis, redis->write_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_deadline(void *arg)
{
    struct redis *redis = arg;

    redis_note_reason(redis,
                      redis->calls ? "Redis does not answer" : "Redis cannot be reached");
    if (redis->context != NULL)
        give_up(redis);
}

static redisAsyncContext *open_context(const struct redis_url *url)
{
    if (url->transport == REDIS_UNIX)
        return redisAsyncConnectUnix(url->path);
    return redisAsyncConnect(url->host, url->port); /* resolves the name while the loop waits */
}

static int attach(struct redis *redis, redisAsyncContext *context)
{
    redis->socket = (struct loop_watch){.fd = context->c.fd, .ready = on_socket, .arg = redis};
    redis->watched_events = EPOLLIN | EPOLLOUT;
    if (loop_watch_add(redis->options.loop, &redis->socket, redis->watched_events) != 0)
        return -1;
    redis->context = context;
    context->data = redis;
    context->ev.data = redis;
    context->ev.addWrite = want_write;
    context->ev.delWrite = unwant_write;
    context->ev.cleanup = on_cleanup;
    context->c.reader->maxbuf = 0; /* keep the read buffer instead of freeing it when idle */
    redisAsyncSetConnectCallback(context, on_connect);
    if (redis->options.url->transport == REDIS_TCP)
        redisEnableKeepAlive(&context->c);
    return 0;
}

static void on_retry(void *arg)
{
    struct redis *redis = arg;
    int64_t now_ns = clock_ns();

    assert(redis->context == NULL);
    redis->state = REDIS_CONNECTING;
    redisAsyncContext *context = open_context(redis->options.url);
    if (context == NULL || context->err != 0 || attach(redis, context) != 0) {
        redis_note_reason(redis, "Redis cannot be reached");
        if (context != NULL)
            redisAsyncFree(context);
        went_down(redis);
        return;
    }
    timer_arm(loop_timers(redis->options.loop), &redis->deadline,
              now_ns + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
}

/* --- life --------------------------------------------------------------------------------- */

struct redis *redis_new(const struct redis_options *options)
{
    struct redis *redis = calloc(1, sizeof(*redis));

    if (redis == NULL)
        return NULL;
    redis->options = *options;
    redis->backoff_ms = BACKOFF_FIRST_MS;
    redis->retry = (struct timer){.fire = on_retry, .arg = redis};
    redis->deadline = (struct timer){.fire = on_deadline, .arg = redis};
    redis_calls_init(redis);
    redis->turn = (struct loop_hook){.run = on_turn, .arg = redis};
    snprintf(redis->reason, sizeof(redis->reason), "not connected yet");
    loop_hook_add(options->loop, &redis->turn);
    timer_arm(loop_timers(options->loop), &redis->retry, loop_now_ns(options->loop));
    return redis;
}

void redis_stop(struct redis *redis)
{
    redis->stopped = true;
    timer_cancel(loop_timers(redis->options.loop), &redis->retry);
    if (redis->context != NULL)
        give_up(redis);
    while (redis->refused != NULL)
        redis_refuse_calls(redis);
}

void redis_free(struct redis *redis)
{
    redis_stop(redis);
    redis_calls_release(redis);
    free(redis);
}
