/* The checks of a new connection: which server answers, whether it may keep locks, whether this
 * version can read the data, and whether the scripts run. */
#include <stdio.h>
#include <string.h>

#include "script_args.h"
#include "server/base/log.h"
#include "server/base/text.h"
#include "storage/redis/link_internal.h"

enum {
    REDIS_OLDEST = 60200, /* 6.2: SET … GET, HRANDFIELD */
    REDIS_WITH_SHARD_CHANNELS = 70000
};

#define PASSWORD_FLAGS "(--redis-password-file; of a Sentinel: --redis-sentinel-password-file)"

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

static const char *connected_text(const struct redis_link_options *options)
{
    if (options->is_sentinel)
        return "redis: Sentinel connected";
    return options->probe != NULL ? "redis: connected" : "redis: subscriber connected";
}

static void become_up(struct redis_link *link)
{
    char url[REDIS_URL_TEXT_SIZE];

    redis_link_forget_prepared(link);
    redis_link_enter(link, LINK_UP);
    redis_link_reset_writes(link);
    link->is_explained = false;
    link->checks.last_client_id = link->checks.client_id;
    memcpy(link->server.run_id, link->checks.run_id, sizeof(link->server.run_id));
    memcpy(link->server.promotion, link->checks.promotion, sizeof(link->server.promotion));
    link->server.up_since_ns = loop_now_ns(link->options.loop);
    link->was_up = true;
    redis_link_watch_deadline(link);
    metrics_add(link->options.metrics, METRIC_REDIS_CONNECTS,
                link->options.is_sentinel ? 0 : 1);
    redis_url_describe(link->options.url, url);
    log_write(LOG_LEVEL_INFO, connected_text(&link->options),
              json_pack("{s:s*, s:s*}", "redis", url, "run_id", link->server.run_id));
    link->options.up(link->options.arg);
    if (link->options.probe != NULL &&
        redis_link_is_up(link)) /* or its owner has no use of it */
        redis_link_proven(link);
}

static void pass(struct redis_link *link)
{
    if (link->options.confirm == NULL) {
        become_up(link);
        return;
    }
    link->checks.is_unconfirmed = true;
    redis_link_arm_deadline(link);
    link->options.confirm(link->options.arg);
}

void redis_link_confirmed(struct redis_link *link)
{
    if (link->state == LINK_CONNECTING && link->checks.is_unconfirmed && !link->give_up)
        become_up(link);
}

static void send_probe(struct redis_link *link);
static void check_layout(struct redis_link *link);

static void on_probe(void *arg, const struct redis_result *result)
{
    struct redis_link *link = arg;

    if (link->state != LINK_CONNECTING || link->give_up)
        return;
    if (link->checks.edition != link->options.probe->edition) {
        check_layout(link); /* the answer is about keys of before */
    } else if (!link->checks.probed_text && result->outcome == REDIS_DONE) {
        link->checks.probed_text = true;
        send_probe(link);
    } else if (result->outcome == REDIS_DONE ||
               result->refusal == REDIS_REFUSED_OUT_OF_MEMORY) {
        /* Releases and renewals work when memory is short. */
        link->checks.probed++;
        send_probe(link);
    } else if (result->refusal == REDIS_REFUSED_PERMISSION)
        redis_link_reconnect(
            link, "the Redis user lacks a permission (eval, evalsha, keys, channels or "
                  "a command of the scripts)");
    else if (link->writes.are_refused)
        redis_link_reconnect(link, REDIS_REFUSES_WRITES);
    else if (strncmp(value_error(result->reply), "CLUSTERDOWN", 11) == 0)
        redis_link_reconnect(link, REDIS_CLUSTER_IS_DOWN);
    else
        redis_link_reconnect(link, "Redis did not run the probe script");
}

/* Tries the keys of the next slot; after the last slot all checks have passed. */
static void send_probe(struct redis_link *link)
{
    const struct redis_probe *probe = link->options.probe;
    struct script_args args;

    if (probe == NULL || link->checks.probed == probe->slot_count) {
        pass(link);
        return;
    }
    const struct redis_probe_keys *keys = &probe->keys[link->checks.probed];
    args_init(&args);
    for (size_t i = 0; i < keys->count; i++)
        args_key(&args, PROBE_KEY_NAMES + i, keys->names[i], strlen(keys->names[i]));
    for (size_t i = 0; link->checks.probed == 0 && i < probe->channel_count; i++)
        args_string(&args, PROBE_ARG_CHANNELS + i, probe->channels[i]);
    if (redis_link_send_probe(link, &args, !link->checks.probed_text, on_probe) != 0)
        redis_link_reconnect(link, "Redis did not run the probe script");
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
    link->checks.client_id = value_integer(raw);
}

/* Redis might still read commands that were sent over the connection before, and run them
 * later: a grant that reaches no client. A killed connection is not read any more. */
static void kill_previous(struct redis_link *link, const char *run_id)
{
    if (link->checks.last_client_id != 0 && strcmp(link->server.run_id, run_id) == 0)
        redisAsyncCommand(link->context, on_ignored, link, "CLIENT KILL ID %lld",
                          (long long)link->checks.last_client_id);
}

static void begin_probe(struct redis_link *link)
{
    link->checks.probed = 0;
    link->checks.probed_text = false;
    send_probe(link);
}

static void on_layout(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    const struct redis_probe *probe = link->options.probe;
    char own[16], reason[REDIS_REASON_SIZE];
    int64_t found;

    (void)context;
    if (reply == NULL || link->state != LINK_CONNECTING || link->give_up)
        return;
    if (link->checks.edition != probe->edition) {
        check_layout(link);
        return;
    }
    snprintf(own, sizeof(own), "%d", probe->layout);
    /* An error is no layout: the probe finds out more. */
    if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, own) == 0) {
        begin_probe(link);
        return;
    }
    snprintf(reason, sizeof(reason), "the data in Redis have layout %s, this rlockd reads %s",
             text_parse_int64(reply->str, &found) ? reply->str : "?", own);
    redis_link_reconnect(link, reason);
}

/* The data in Redis may be those of another version of rlockd, which it may be using now. */
static void check_layout(struct redis_link *link)
{
    const struct redis_probe *probe = link->options.probe;

    if (probe != NULL)
        link->checks.edition = probe->edition;
    if (probe == NULL || probe->layout_key == NULL)
        begin_probe(link);
    else
        redisAsyncCommand(link->context, on_layout, link, "HGET %s layout", probe->layout_key);
}

/* A server with `cluster-enabled` that has every slot serves like a single server. */
static void on_cluster_info(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    char slots[8], nodes[8];

    (void)context;
    if (reply == NULL || link->state != LINK_CONNECTING || link->give_up)
        return;
    if (reply->type != REDIS_REPLY_STRING) {
        redis_link_reconnect(link, "the Redis user lacks a permission (CLUSTER INFO)");
        return;
    }
    info_value(reply->str, "cluster_slots_assigned", slots, sizeof(slots));
    info_value(reply->str, "cluster_known_nodes", nodes, sizeof(nodes));
    if (strcmp(slots, "16384") == 0 && strcmp(nodes, "1") == 0)
        check_layout(link);
    else
        redis_link_reconnect(link, "Redis is a part of a cluster: its URL is redis-cluster://");
}

static const char *why_no_info(const redisReply *reply)
{
    const char *error = reply->type == REDIS_REPLY_ERROR ? reply->str : "";

    if (strncmp(error, "NOAUTH", 6) == 0)
        return "Redis wants a password " PASSWORD_FLAGS;
    if (strncmp(error, "NOPERM", 6) == 0)
        return "the Redis user lacks a permission (INFO)";
    return "Redis does not answer INFO";
}

static void on_info(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    char cluster[4], version[24];

    (void)context;
    if (reply == NULL || link->state != LINK_CONNECTING || link->give_up)
        return;
    if (reply->type != REDIS_REPLY_STRING) {
        redis_link_reconnect(link, why_no_info(reply));
        return;
    }
    const char *unfit = link->options.probe ? unfit_for_locks(reply->str) : NULL;
    if (unfit != NULL) {
        redis_link_reconnect(link, unfit);
        return;
    }
    info_value(reply->str, "run_id", link->checks.run_id, sizeof(link->checks.run_id));
    info_value(reply->str, "master_replid2", link->checks.promotion,
               sizeof(link->checks.promotion));
    if (link->checks.promotion[strspn(link->checks.promotion, "0")] == '\0')
        link->checks.promotion[0] = '\0';
    if (link->server.run_id[0] != '\0' &&
        strcmp(link->server.run_id, link->checks.run_id) != 0 && link->options.probe != NULL)
        log_write(LOG_LEVEL_WARN, "redis: another process answers now; data may be lost",
                  json_pack("{s:s*}", "run_id", link->checks.run_id));
    kill_previous(link, link->checks.run_id);
    info_value(reply->str, "cluster_enabled", cluster, sizeof(cluster));
    link->server.is_cluster = strcmp(cluster, "1") == 0;
    info_value(reply->str, "redis_version", version, sizeof(version));
    link->server.has_shard_channels = version_number(version) >= REDIS_WITH_SHARD_CHANNELS;
    if (link->options.is_cluster_node && !link->server.is_cluster)
        redis_link_reconnect(link, "Redis is no node of a cluster: its URL is redis://");
    else if (link->options.is_quorum_member && link->server.is_cluster)
        redis_link_reconnect(link, "Redis is a node of a cluster: the servers of a quorum must "
                                   "know nothing of each other");
    else if (link->server.is_cluster && link->options.probe != NULL &&
             !link->options.is_cluster_node)
        redisAsyncCommand(link->context, on_cluster_info, link, "CLUSTER INFO");
    else
        check_layout(link);
}

static void refuse_login(struct redis_link *link, const redisReply *reply, const char *reason)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR || link->give_up)
        return;
    bool is_loading = strncmp(reply->str, "LOADING", 7) == 0;
    redis_link_reconnect(link, is_loading ? "Redis is loading its data" : reason);
}

static void on_auth(redisAsyncContext *context, void *raw, void *arg)
{
    (void)context;
    refuse_login(arg, raw, "Redis refused the user or the password " PASSWORD_FLAGS);
}

static void on_select(redisAsyncContext *context, void *raw, void *arg)
{
    (void)context;
    refuse_login(arg, raw, "Redis refused the database that --redis names");
}

static void on_wait_tried(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;

    (void)context;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "NOPERM", 6) == 0 && !link->give_up)
        redis_link_reconnect(link, "the Redis user lacks a permission (WAIT)");
}

void redis_link_reset_checks(struct redis_link *link)
{
    link->checks.is_unconfirmed = false;
    link->checks.client_id = 0;
}

void redis_link_check(struct redis_link *link)
{
    const struct redis_login *login = &link->options.url->login;
    const char *password = login->password_file != NULL
                               ? redis_prepared(link->attempt.preparation)->password
                               : login->password;
    redisAsyncContext *context = link->context;
    int database = link->options.url->database;

    if (login->has_user)
        redisAsyncCommand(context, on_auth, link, "AUTH %s %s", login->user, password);
    else if (login->has_password)
        redisAsyncCommand(context, on_auth, link, "AUTH %s", password);
    if (database != 0)
        redisAsyncCommand(context, on_select, link, "SELECT %d", database);
    redisAsyncCommand(context, on_ignored, link, "CLIENT SETNAME rlockd");
    redisAsyncCommand(context, on_client_id, link, "CLIENT ID");
    if (link->options.sync.replicas > 0)
        redisAsyncCommand(context, on_wait_tried, link, "WAIT 0 1");
    redisAsyncCommand(context, on_info, link, "INFO");
}
