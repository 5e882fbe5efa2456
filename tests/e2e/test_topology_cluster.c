/* A Redis Cluster of three masters, with replicas where a test needs them: calls find their
 * master, wherever the slots go. */
#include <signal.h>

#include "cluster.h"
#include "harness_session.h"

enum {
    MASTERS = 3,
    LOCKS = 60,
    TTL_MS = 60000,
    FAILOVER_MS = 20000,
    MOVE_MS = 10000,
    REDIRECTIONS_MAX = 50 /* of one request */
};

static struct front *start(struct cluster *cluster)
{
    return front_start(cluster->world, "--redis", cluster->url, "--watchdog-timeout-ms", "3000",
                       NULL);
}

static struct front *start_without_broadcast(struct cluster *cluster)
{
    return front_start(cluster->world, "--redis", cluster->url, "--redis-cluster-broadcast",
                       "0", NULL);
}

static json_int_t grant(struct front *fe, const char *name, const char *token)
{
    struct reply *r = lock_put(fe, name, token, "ttl_ms=60000");

    expect_status(r, 201);
    return reply_int(r, "fencing_token");
}

/* --- what stands still -------------------------------------------------------------------- */

static void test_locks_of_all_masters(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster), *other = start(cluster);
    const char *tokens[LOCKS], *cursor = "";
    int listed = 0;

    for (int i = 0; i < LOCKS; i++)
        grant(fe, text(w, "all-%d", i), tokens[i] = token_new(w));
    for (int i = 0; i < MASTERS; i++)
        assert_true(redis_int(cluster->nodes[i], "DBSIZE") >= 2 * LOCKS / MASTERS / 3);
    do { /* in pages, over all masters */
        struct reply *page = http(other, "GET", text(w, "/v1/locks?limit=7&cursor=%s", cursor),
                                  NULL);
        expect_status(page, 200);
        listed += (int)json_array_size(reply_get(page, "locks"));
        cursor = reply_str(page, "next_cursor");
    } while (cursor != NULL);
    assert_int_equal(listed, LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        const char *name = text(w, "all-%d", i);
        expect_status(lock_put(other, name, token_new(w), NULL), 423);
        expect_status(lock_renew(other, name, tokens[i], "ttl_ms=50000"), 200);
        expect_status(lock_release(other, name, tokens[i]), 200);
    }
    assert_true(front_metric(fe, "rlockd_redis_cluster_slots", NULL) == CLUSTER_SLOTS);
    assert_true(front_metric(fe, "rlockd_redis_cluster_nodes", NULL) == MASTERS);
    assert_true(front_metric(fe, "rlockd_redis_cluster_maps_total", NULL) > 0);
}

static void test_names_that_share_no_slot(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct reply *r = HTTP(fe, .method = "PUT", .path = "/v1/multi-locks",
                           .token = token_new(w), .body = "{\"locks\": [\"a\", \"b\"]}");

    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "slot");
    r = HTTP(fe, .method = "PUT", .path = "/v1/multi-locks", .token = token_new(w),
             .body = "{\"locks\": [\"{t}a\", \"{t}b\"]}");
    expect_status(r, 201);
    expect_problem(lock_put(fe, "a{b", token_new(w), NULL), 400, "malformed-request");
}

/* A waiter on one front end, a release by another one: the message finds its way. */
static void test_waiters_of_all_masters(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster), *other = start(cluster);

    for (int i = 0; i < MASTERS; i++) {
        const char *name = cluster_name_at(cluster, cluster->nodes[i], "wait");
        const char *token = token_new(w);
        double woken = front_metric(other, "rlockd_unlock_messages_total", NULL);
        json_int_t fence = grant(fe, name, token);
        struct call *waiter = call_put(other, name, token_new(w), "wait_ms=20000");

        wait_until(waiter_count(fe, name) == 1, 5000);
        nap_ms(200); /* subscribed by then, as a rule; else it tries anyway */
        expect_status(lock_release(fe, name, token), 200);
        struct reply *r = call_await(waiter, 10000);
        expect_status(r, 201);
        expect_true(r, reply_int(r, "fencing_token") > fence);
        wait_until(front_metric(other, "rlockd_unlock_messages_total", NULL) > woken, 5000);
    }
}

/* Both connections to a master are dead, and only that for commands notices by its time-out. */
static void test_silent_connections(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct redis *node = cluster->nodes[1];
    struct proxy *proxy = cluster_behind_proxy(cluster, node);
    struct front *fe = start(cluster), *other = start(cluster);
    const char *name = cluster_name_at(cluster, node, "silent"), *token = token_new(w);
    const char *free_name = cluster_name_at(cluster, node, "free");

    grant(other, name, token);
    struct call *waiter = call_put(fe, name, token_new(w), "wait_ms=50000");
    wait_until(waiter_count(other, name) == 1, 5000);
    proxy_settle(proxy);
    proxy_silence(proxy);
    wait_until(lock_put(fe, free_name, token_new(w), NULL)->status == 503, 5000);
    wait_until(http(fe, "GET", text(w, "/v1/locks/%s", name), NULL)->status == 200, 10000);
    wait_until(lock_release(other, name, token)->status == 200, 10000);
    expect_status(call_await(waiter, 1500), 201);
}

/* The message of a client of Redisson: in the shard since 3.22, to all before. */
static void wake_as_redisson(struct cluster *cluster, struct front *fe, const char *command)
{
    struct world *w = cluster->world;
    struct redis *node = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, node, text(w, "java-%s", command));

    assert_true(redisson_lock(node, name, JAVA_HOLDER, TTL_MS));
    struct call *waiter = call_put(fe, name, token_new(w), "wait_ms=20000");
    wait_until(waiter_count(fe, name) == 1, 5000);
    const char *channel = text(w, "redisson_lock__channel:{%s}", name);
    if (strcmp(command, "SPUBLISH") == 0)
        wait_until(redis_do(node, "PUBSUB SHARDNUMSUB %s", channel)->element[1]->integer == 1,
                   5000);
    else
        wait_until(redis_do(node, "PUBSUB NUMSUB %s", channel)->element[1]->integer == 1, 5000);
    double woken = front_metric(fe, "rlockd_unlock_messages_total", NULL);
    redis_ok(node, "DEL %s", name);
    redis_ok(node, "%s %s 0", command, channel);
    expect_status(call_await(waiter, 10000), 201);
    /* The attempt that follows the subscription may have got the lock before the message. */
    wait_until(front_metric(fe, "rlockd_unlock_messages_total", NULL) > woken, 5000);
}

static void test_redisson_wakes_us(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);

    wake_as_redisson(cluster, fe, "PUBLISH");
    skip_without_shards(cluster->nodes[0]);
    wake_as_redisson(cluster, fe, "SPUBLISH");
}

static void test_we_wake_redisson(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    skip_without_shards(cluster->nodes[0]);
    struct front *fe = start(cluster);
    struct redis *node = cluster->nodes[2];
    const char *name = cluster_name_at(cluster, node, "told"), *token = token_new(w);
    const char *channel = text(w, "redisson_lock__channel:{%s}", name);
    redisContext *shard = redisConnectUnix(node->socket);
    redisReply *reply = redisCommand(shard, "SSUBSCRIBE %s", channel);
    struct timeval limit = {.tv_sec = 10};

    assert_non_null(reply);
    freeReplyObject(reply);
    /* An old client listens anywhere. */
    struct listener *listener = listener_start(cluster->nodes[0], channel);
    grant(fe, name, token);
    expect_status(lock_release(fe, name, token), 200);
    assert_string_equal(listener_next(listener, 5000), "0");
    redisSetTimeout(shard, limit);
    assert_int_equal(redisGetReply(shard, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[0]->str, "smessage");
    assert_string_equal(reply->element[2]->str, "0");
    freeReplyObject(reply);
    redisFree(shard);
}

static void await_listener(struct redis *node, const char *channel)
{
    wait_until(redis_do(node, "PUBSUB SHARDNUMSUB %s", channel)->element[1]->integer == 1,
               MOVE_MS);
}

/* Without broadcast a waiter of rlockd hears of the release all the same, also after its slot
 * has moved, and no other node hears anything. */
static void test_messages_of_the_shard(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    skip_without_shards(cluster->nodes[0]);
    struct front *fe = start_without_broadcast(cluster),
                 *other = start_without_broadcast(cluster);
    struct redis *from = cluster->nodes[2], *to = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, from, "shard");
    const char *channel = text(w, "redisson_lock__channel:{%s}", name);
    struct listener *listener = listener_start(cluster->nodes[0], channel);
    int slot = cluster_slot(cluster, name);

    for (int i = 0; i < 2; i++) {
        const char *token = token_new(w);
        grant(fe, name, token);
        struct call *waiter = call_put(other, name, token_new(w), "wait_ms=30000&ttl_ms=1000");
        await_listener(from, channel);
        if (i == 1) {
            slot_open(cluster, slot, from, to);
            slot_migrate(cluster, slot, from, to);
            slot_close(cluster, slot, from, to);
            await_listener(to, channel);
        }
        double woken = front_metric(other, "rlockd_unlock_messages_total", NULL);
        expect_status(lock_release(fe, name, token), 200);
        expect_status(call_await(waiter, MOVE_MS), 201);
        wait_until(front_metric(other, "rlockd_unlock_messages_total", NULL) > woken, 5000);
        wait_until(!redis_has(i == 0 ? from : to, name), 5000);
    }
    /* The connection to the former master lasts, with the channels of other slots. */
    assert_null(front_log_find(other, "redis: not usable"));
    redis_ok(cluster->nodes[0], "PUBLISH %s end", channel);
    assert_string_equal(listener_next(listener, 5000), "end");
}

/* A master loses a slot and has it again before the front end has read another map: Redis has
 * ended the subscription in the shard, and the map still names this master. In the second round
 * the lock is released before the front end listens again. */
static void test_slot_that_was_away(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    skip_without_shards(cluster->nodes[0]);
    struct front *fe = start(cluster), *other = start(cluster);
    struct redis *node = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, node, "away");
    const char *channel = text(w, "redisson_lock__channel:{%s}", name);
    int slot = cluster_slot(cluster, name);

    for (int i = 0; i < 2; i++) {
        const char *token = token_new(w);
        grant(fe, name, token);
        struct call *waiter = call_put(other, name, token_new(w), "wait_ms=30000&ttl_ms=500");
        await_listener(node, channel);
        child_signal(other->child, SIGSTOP);
        redis_ok(node, "CLUSTER DELSLOTS %d", slot);
        redis_ok(node, "CLUSTER ADDSLOTS %d", slot);
        if (i == 1)
            wait_until(lock_release(fe, name, token)->status == 200, MOVE_MS);
        child_signal(other->child, SIGCONT);
        await_listener(node, channel);
        if (i == 0)
            wait_until(lock_release(fe, name, token)->status == 200, MOVE_MS);
        expect_status(call_await(waiter, 1000), 201); /* sooner than by polls */
        wait_until(!redis_has(node, name), 5000);
    }
}

static void test_sessions_over_masters(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster), *other = start(cluster);
    struct session s = session_new(fe, "ttl_ms=60000");

    for (int i = 0; i < 12; i++)
        session_hold(fe, &s, text(w, "held-%d", i), NULL);
    nap_ms(5000); /* longer than the leases last without the watchdog: 3 s */
    expect_alive(keep_alive(other, &s, NULL), 12);
    for (int i = 0; i < 12; i++)
        expect_status(lock_put(other, text(w, "held-%d", i), token_new(w), NULL), 423);
    expect_status(session_end(other, &s), 200);
    for (int i = 0; i < 12; i++)
        expect_status(lock_put(fe, text(w, "held-%d", i), token_new(w), "wait_ms=5000"), 201);
}

/* --- what moves --------------------------------------------------------------------------- */

/* A held lock, a waiter for it, and a request that comes in the midst of the move. */
static bool is_lease_in_state(const struct reply *r, const char *lock, const char *state)
{
    const char *found = json_string_value(json_object_get(lease_of(r, lock), "state"));

    return found != NULL && strcmp(found, state) == 0;
}

/* The session's home and one of its leases are at living masters: the session is kept alive,
 * and the lease at the master that stands still is listed as one of which nothing is known. */
static void test_a_session_with_a_lease_at_a_dead_master(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct session s = session_new(fe, "ttl_ms=30000");
    const char *tag = text(w, "{%s}", s.id);
    struct redis *home = cluster_owner(cluster, cluster_slot(cluster, tag)), *dead;

    dead = home == cluster->nodes[0] ? cluster->nodes[1] : cluster->nodes[0];
    const char *living_lock = cluster_name_at(cluster, home, "living"),
               *dead_lock = cluster_name_at(cluster, dead, "dead");
    const char *dead_token = token_new(w);
    session_hold(fe, &s, living_lock, NULL);
    struct reply *r = session_put(fe, &s, dead_lock, dead_token, "ttl_ms=600000");
    expect_status(r, 201);
    const char *held = text(w, "{\"held\": [\"%s\"]}", reply_str(r, "lease_id"));
    redis_freeze(dead);
    for (int i = 0; i < 3; i++) {
        r = i == 1 ? keep_alive_body(fe, &s, held) : keep_alive(fe, &s, NULL);
        expect_alive(r, 2); /* and nothing is lost */
        assert_true(is_lease_in_state(r, living_lock, "held"));
        assert_true(is_lease_in_state(r, dead_lock, "unknown"));
        expect_between(r, "remaining_ms", 20000, 30000);
    }
    r = session_look(fe, s.id);
    expect_status(r, 200);
    assert_true(is_lease_in_state(r, dead_lock, "unknown"));
    redis_thaw(dead);
    wait_until(is_lease_in_state(keep_alive(fe, &s, NULL), dead_lock, "held"), FAILOVER_MS);
    expect_status(lock_release(fe, dead_lock, dead_token), 200);
}

static void test_slot_that_moves(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster), *other = start(cluster);
    struct redis *from = cluster->nodes[0], *to = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, from, "move"), *token = token_new(w);
    int slot = cluster_slot(cluster, name);
    json_int_t fence = grant(fe, name, token);
    struct call *waiter = call_put(other, name, token_new(w), "wait_ms=30000");

    wait_until(waiter_count(fe, name) == 1, 5000);
    slot_open(cluster, slot, from, to);
    /* Waits for the slot, and is told that the lock is held. */
    struct call *early = call_put(fe, name, token_new(w), NULL);
    wait_until(front_metric(fe, "rlockd_redis_redirections_total", NULL) > 0, MOVE_MS);
    assert_false(call_done(early));
    slot_migrate(cluster, slot, from, to);
    slot_close(cluster, slot, from, to);
    expect_status(call_await(early, MOVE_MS), 423);
    expect_status(lock_renew(fe, name, token, "ttl_ms=60000"), 200);
    assert_int_equal(redis_int(to, "EXISTS %s", name), 1);
    assert_false(call_done(waiter));
    expect_status(lock_release(fe, name, token), 200);
    struct reply *r = call_await(waiter, MOVE_MS);
    expect_status(r, 201);
    expect_true(r, reply_int(r, "fencing_token") > fence);
}

/* A slot that stays open for longer than a call may wait: refused, and nothing was done. */
static void test_slot_that_stays_open(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct redis *from = cluster->nodes[0], *to = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, from, "open"), *token = token_new(w);
    int slot = cluster_slot(cluster, name);
    const char *elsewhere = cluster_name_at(cluster, to, "else");

    grant(fe, name, token);
    slot_open(cluster, slot, from, to);
    struct call *release = CALL(fe, .method = "DELETE", .path = lock_path(w, name, ""),
                                .token = token);
    grant(fe, elsewhere, token_new(w)); /* nobody else waits for it */
    struct reply *r = call_await(release, MOVE_MS);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    assert_int_equal(redis_int(from, "EXISTS %s", name), 1);
    redis_ok(from, "CLUSTER SETSLOT %d STABLE", slot);
    redis_ok(to, "CLUSTER SETSLOT %d STABLE", slot);
    expect_status(lock_release(fe, name, token), 200);
}

/* Two masters name each other as the master of a slot, and neither has it. */
static void test_masters_that_contradict_each_other(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct redis *from = cluster->nodes[0], *to = cluster->nodes[1];
    const char *name = cluster_name_at(cluster, from, "lost"), *token = token_new(w);
    const char *same = cluster_name_at(cluster, from, "same");
    const char *elsewhere = cluster_name_at(cluster, to, "else");
    const char *id = redis_str(from, "CLUSTER MYID");
    int slot = cluster_slot(cluster, name);

    redis_ok(from, "CLUSTER SETSLOT %d NODE %s", slot, redis_str(to, "CLUSTER MYID"));
    double moves = front_metric(fe, "rlockd_redis_redirections_total", "kind=\"moved\"");
    struct reply *r = lock_put(fe, name, token, "ttl_ms=60000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    moves = front_metric(fe, "rlockd_redis_redirections_total", "kind=\"moved\"") - moves;
    expect_true(r, moves > 1 && moves < REDIRECTIONS_MAX);
    grant(fe, elsewhere, token_new(w));
    grant(fe, same, token_new(w)); /* another slot of the same master */
    expect_status(http(fe, "GET", "/readyz", NULL), 200);

    redis_ok(from, "CLUSTER SETSLOT %d NODE %s", slot, id);
    wait_until(lock_put(fe, name, token, "ttl_ms=60000")->status == 201, MOVE_MS);
}

static void test_node_that_is_added(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct redis *from = cluster->nodes[0];
    const char *name = cluster_name_at(cluster, from, "add"), *token = token_new(w);
    int slot = cluster_slot(cluster, name);
    json_int_t fence = grant(fe, name, token);
    struct redis *added = cluster_add(cluster);

    slot_open(cluster, slot, from, added);
    slot_migrate(cluster, slot, from, added);
    slot_close(cluster, slot, from, added);
    expect_status(lock_release(fe, name, token), 200);
    assert_true(grant(fe, name, token_new(w)) > fence);
    assert_int_equal(redis_int(added, "EXISTS %s", name), 1);
    wait_until(front_metric(fe, "rlockd_redis_cluster_nodes", NULL) == MASTERS + 1, MOVE_MS);
}

/* The connection that listens to messages of this node; 0: there is none. */
static long long listening(struct redis *node)
{
    const char *list = redis_str(node, "CLIENT LIST TYPE pubsub");

    return strncmp(list, "id=", 3) == 0 ? atoll(list + 3) : 0;
}

/* A master that has given all its slots away may get others: until then a connection for
 * messages, made anew, listens to none of the channels that are elsewhere now. */
static void test_node_without_slots(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    skip_without_shards(cluster->nodes[0]);
    struct front *fe = start(cluster);
    struct redis *from = cluster->nodes[0], *added = cluster_add(cluster);
    const char *name = cluster_name_at(cluster, from, "empty");
    int slot = cluster_slot(cluster, name);

    redis_ok(added, "CONFIG SET cluster-allow-replica-migration no"); /* it stays a master */
    slot_open(cluster, slot, from, added);
    slot_close(cluster, slot, from, added);
    grant(fe, name, token_new(w));
    wait_until(listening(added) != 0, MOVE_MS);
    slot_open(cluster, slot, added, from);
    slot_migrate(cluster, slot, added, from);
    slot_close(cluster, slot, added, from);
    expect_status(lock_put(fe, name, token_new(w), NULL), 423);
    wait_until(front_metric(fe, "rlockd_redis_cluster_nodes", NULL) == MASTERS, MOVE_MS);
    redis_do(added, "CLIENT KILL TYPE pubsub");
    wait_until(listening(added) != 0, MOVE_MS);
    long long listener = listening(added);
    stays_true(listening(added) == listener, 300);
}

/* --- what is lost ------------------------------------------------------------------------- */

static void test_master_that_is_replaced(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start(cluster);
    struct redis *master = cluster->nodes[0];
    const char *name = cluster_name_at(cluster, master, "fail"), *token = token_new(w);
    struct session s = session_new(fe, "ttl_ms=60000");
    json_int_t fence = grant(fe, name, token);

    session_hold(fe, &s, text(w, "{%s}of-session", name), NULL);
    wait_until(redis_int(master, "WAIT 1 100") == 1, 5000);
    struct call *waiter = call_put(fe, name, token_new(w), "wait_ms=50000");
    wait_until(waiter_count(fe, name) == 1, 5000);
    redis_int(master, "WAIT 1 1000");
    cluster_kill(master);
    wait_until(!front_ready(fe), MOVE_MS);
    wait_until(front_ready(fe), FAILOVER_MS);
    assert_true(front_metric(fe, "rlockd_redis_failovers_total", NULL) == 1);
    assert_int_equal(reply_int(http(fe, "GET", "/readyz", NULL), "redis.failovers"), 1);
    assert_false(call_done(waiter));
    expect_status(lock_renew(fe, name, token, "ttl_ms=60000"), 200);
    expect_status(lock_release(fe, name, token), 200);
    struct reply *r = call_await(waiter, MOVE_MS);
    expect_status(r, 201);
    expect_true(r, reply_int(r, "fencing_token") > fence);
    expect_status(session_end(fe, &s), 200);
    /* The old master comes back as a replica of the new one, and is left alone. */
    cluster_return(master);
    wait_until(strstr(redis_str(master, "INFO replication"), "role:slave") != NULL, MOVE_MS);
    expect_status(lock_put(fe, name, token_new(w), NULL), 423);
}

/* --- permissions -------------------------------------------------------------------------- */

/* The user of docs/redis.md for a cluster at each node, without this command. */
static void permit_all_but(struct cluster *cluster, const char *command)
{
    for (int i = 0; i < cluster->len; i++) {
        struct redis *node = cluster->nodes[i];
        redis_ok(node, "ACL SETUSER app on >s3cret ~* &* +@all");
        if (command != NULL)
            redis_ok(node, "ACL SETUSER app -%s", command);
        redis_do(node, "CLIENT KILL USER app");
    }
}

static bool is_unready(struct front *fe, const char *told)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    return r->status == 503 && strstr(reply_str(r, "detail"), told) != NULL;
}

static void expect_unready_without(struct cluster *cluster, struct front *fe,
                                   const char *command, const char *told)
{
    permit_all_but(cluster, command);
    wait_until(is_unready(fe, told), MOVE_MS);
    nap_ms(1500);
    assert_true(is_unready(fe, told)); /* and stays so */
    permit_all_but(cluster, NULL);
    wait_until(front_ready(fe), MOVE_MS);
}

/* Also when nobody waits: who waits then would not be woken. */
static void test_permissions_of_a_cluster(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    const char *hosts = strstr(cluster->url, "://") + 3;

    skip_without_shards(cluster->nodes[0]);
    permit_all_but(cluster, NULL);
    struct front *fe = front_start(
        w, "--redis",
        text(w, "redis%s-cluster://app:s3cret@%s", redis_is_tls() ? "s" : "", hosts), NULL);
    expect_unready_without(cluster, fe, "ssubscribe", "SSUBSCRIBE");
    expect_unready_without(cluster, fe, "subscribe", "subscribe");
    expect_unready_without(cluster, fe, "spublish", "permission");
    expect_unready_without(cluster, fe, "eval", "permission");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_locks_of_all_masters),
        E2E_TEST(test_names_that_share_no_slot),
        E2E_TEST(test_silent_connections),
        E2E_TEST(test_waiters_of_all_masters),
        E2E_TEST(test_redisson_wakes_us),
        E2E_TEST(test_we_wake_redisson),
        E2E_TEST(test_messages_of_the_shard),
        E2E_TEST(test_sessions_over_masters),
        E2E_TEST(test_a_session_with_a_lease_at_a_dead_master),
        E2E_TEST(test_slot_that_moves),
        E2E_TEST(test_slot_that_stays_open),
        E2E_TEST(test_slot_that_was_away),
        E2E_TEST(test_masters_that_contradict_each_other),
        E2E_TEST(test_node_that_is_added),
        E2E_TEST(test_node_without_slots),
        E2E_TEST(test_master_that_is_replaced),
        E2E_TEST(test_permissions_of_a_cluster),
    };
    struct e2e_plan plan = {
        .name = "topology_cluster", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
