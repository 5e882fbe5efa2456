/* Several locks at once: with sessions, with owners, and when things go wrong. */
#include "counters.h"
#include "multi_locks.h"

enum { SOON_MS = 1500, RECOVER_MS = 5000 };

/* What a keep-alive says of the lease, NULL: nothing. */
static json_t *entry_of(const struct reply *reply, const char *list, const char *lease_id)
{
    size_t i;
    json_t *entry;

    json_array_foreach(reply_get(reply, list), i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "lease_id")), lease_id) == 0)
            return entry;
    }
    return NULL;
}

static void expect_names(json_t *entry, const char *one, const char *two)
{
    json_t *locks = json_object_get(entry, "locks");

    assert_int_equal(json_array_size(locks), 2);
    assert_string_equal(json_string_value(json_array_get(locks, 0)), one);
    assert_string_equal(json_string_value(json_array_get(locks, 1)), two);
    assert_null(json_object_get(entry, "lock"));
}

static void test_the_watchdog_keeps_all(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = token_new(w);
    struct reply *r = multi_put(w->a, &s, token, "kept/a kept/b", ", \"note\": \"long\"");
    const char *id = reply_str(r, "lease_id");
    json_int_t fence = multi_fence(r, "kept/b");
    json_t *entry, *locks;

    expect_status(r, 201);
    expect_bool(r, "watchdog", true);
    expect_str(r, "session_id", s.id);
    stays_true(redis_has(w->redis, "kept/a") && redis_has(w->redis, "kept/b"),
               4 * watchdog_ms());
    /* Requests with the token alone find the names for as long as the lease is kept. */
    assert_in_range(redis_do(w->redis, "PTTL rlockd:set:{%s}", id)->integer, 60000,
                    60000 + watchdog_ms());
    r = keep_alive(w->b, &s, NULL);
    entry = entry_of(r, "leases", id);
    expect_true(r, entry != NULL);
    locks = json_object_get(entry, "locks");
    expect_true(r, json_array_size(locks) == 2);
    entry = json_array_get(locks, 1);
    assert_string_equal(json_string_value(json_object_get(entry, "lock")), "kept/b");
    assert_int_equal(json_integer_value(json_object_get(entry, "fencing_token")), fence);
    expect_true(session_look(w->b, s.id),
                entry_of(session_look(w->b, s.id), "leases", id) != NULL);
    expect_str(lock_look(w->b, "kept/a"), "holders.0.session_id", s.id);
    expect_status(multi_put(w->b, NULL, token, "kept/b kept/a", NULL), 200);
    expect_int(session_end(w->a, &s), "released", 1);
    expect_free(w, "kept/a kept/b");
    r = multi_ask(w->a, "PATCH", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "session-ended");
}

/* More locks than one run of a script deals with. */
static void test_many_leases_of_many_locks(struct world *w)
{
    enum { LEASES = 20, LOCKS = 32 };

    for (int expires = 0; expires < 2; expires++) {
        int ttl_ms = expires ? (int)patience_ms(2000) : 30000;
        struct session s = session_new(w->a, text(w, "ttl_ms=%d", ttl_ms));
        const char *path = text(w, "many/%d", expires);

        for (int i = 0; i < LEASES; i++) {
            const char *names = "";

            for (int j = 0; j < LOCKS; j++)
                names = text(w, "%s%s%s/%d/%d", names, j ? " " : "", path, i, j);
            expect_status(multi_put(w->a, &s, token_new(w), names, NULL), 201);
        }
        int64_t late_before = late_ms();
        nap_ms(2 * watchdog_ms());
        if (!expires) {
            struct reply *kept = keep_alive(w->b, &s, NULL), *end = session_end(w->b, &s);
            expect_status(end, 200);
            if (!may_have_lapsed(late_before)) {
                expect_alive(kept, LEASES);
                expect_int(end, "released", LEASES);
            }
        }
        wait_until(json_array_size(redis_keys(w->redis, path)) == 0, 3000);
    }
}

/* A keep-alive that does not know of the set yet leaves it alone, however old the lock is that
 * its owner had before, and however long the set has waited. */
static void test_a_young_set_beside_an_old_lock(struct world *w)
{
    int ttl_ms = (int)patience_ms(1000);
    struct session s = session_new(w->a, text(w, "ttl_ms=%d", ttl_ms));
    struct session other = session_new(w->a, NULL);
    const char *first = session_hold(w->a, &s, "young/a", "owner=me&ttl_ms=60000");
    const char *second = session_hold(w->a, &other, "young/b", NULL);
    const char *known = reply_str(session_put(w->a, &s, "young/a", first, "owner=me"),
                                  "lease_id");
    const char *held = text(w, "held=%s", known);
    struct call *set = multi_park(w->b, &s, token_new(w), "young/a young/b",
                                  ", \"owner\": \"me\", \"wait_ms\": 30000");

    stays_true(keep_alive(w->a, &s, held)->status == 200, 2 * ttl_ms);
    expect_int(lock_release(w->a, "young/b", second), "hold_count", 0);
    expect_status(call_await(set, SOON_MS), 201);
    expect_status(keep_alive(w->a, &s, held), 200);
    assert_int_equal(redis_do(w->redis, "HEXISTS young/b %s:me", s.id)->integer, 1);
    expect_status(session_end(w->a, &s), 200);
    expect_status(session_end(w->a, &other), 200);
}

static void test_a_session_that_nobody_keeps(struct world *w)
{
    struct session s = session_new(w->a, ttl_of(w, 1000));
    struct call *call;

    expect_status(multi_put(w->a, &s, token_new(w), "left/a left/b", NULL), 201);
    call = multi_park(w->b, NULL, token_new(w), "left/b left/c", ", \"wait_ms\": 20000");
    expect_status(call_await(call, 4000), 201);
    wait_until(!redis_has(w->redis, "left/a"), SOON_MS);
}

static void test_a_session_that_ends_while_it_waits(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct call *call;

    expect_status(lock_put(w->a, "ends/a", token_new(w), "ttl_ms=60000"), 201);
    expect_status(lock_put(w->a, "ends/b", token_new(w), "ttl_ms=60000"), 201);
    call = multi_park(w->b, &s, token_new(w), "ends/a ends/b", ", \"wait_ms\": 30000");
    /* It goes to the queue of the other one first. */
    expect_status(force_unlock(w->a, "ends/a"), 200);
    stays_true(!call_done(call), 100);
    expect_status(session_end(w->a, &s), 200);
    expect_problem(call_await(call, SOON_MS), 410, "session-ended");
    expect_free(w, "ends/a");
    wait_until(waiter_count(w->a, "ends/b") == 0, SOON_MS);
    expect_problem(multi_put(w->a, &s, token_new(w), "ends/c ends/d", NULL), 410,
                   "session-ended");
    expect_free(w, "ends/c ends/d");
}

/* Whoever hangs in a keep-alive is told at once, and the others are let go. */
static void test_a_forced_member(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r = multi_put(w->a, &s, token_new(w), "force/a force/b", NULL);
    const char *id = reply_str(r, "lease_id");
    struct call *call = keep_alive_park(w->b, &s, 10000);
    json_t *entry;

    expect_status(r, 201);
    stays_true(!call_done(call), 200);
    expect_status(force_unlock(w->a, "force/b"), 200);
    r = call_await(call, SOON_MS);
    entry = entry_of(r, "lost", id);
    expect_true(r, entry != NULL);
    expect_names(entry, "force/a", "force/b");
    assert_string_equal(json_string_value(json_object_get(entry, "reason")), "forced");
    expect_true(r, leases_len(r) == 0);
    expect_free(w, "force/a force/b");
    expect_true(r, losses_len(keep_alive(w->a, &s, NULL)) == 0);
}

/* With nobody asking, the watchdog notices. */
static void test_a_member_that_vanishes(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r = multi_put(w->a, &s, token_new(w), "gone/a gone/b", NULL);
    const char *id = reply_str(r, "lease_id");

    expect_status(r, 201);
    redis_ok(w->redis, "DEL gone/a");
    wait_until(!redis_has(w->redis, "gone/b"), 2 * watchdog_ms());
    r = keep_alive(w->a, &s, NULL);
    expect_names(entry_of(r, "lost", id), "gone/a", "gone/b");
}

/* A lease with a time of its own, and one that its client does not know of. */
static void test_ends_that_the_watchdog_brings(struct world *w)
{
    struct session s = session_new(w->a, ttl_of(w, 1000));
    struct reply *r = multi_put(w->a, &s, token_new(w), "brought/a", ", \"ttl_ms\": 300");

    expect_status(r, 201);
    wait_until(!redis_has(w->redis, "brought/a"), 2 * SOON_MS);
    wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 1, SOON_MS);
    expect_status(multi_put(w->a, &s, token_new(w), "brought/b brought/c", NULL), 201);
    for (int64_t end = now_ms() + patience_ms(1000) + 300; now_ms() < end; nap_ms(100))
        expect_status(keep_alive(w->a, &s, NULL), 200);
    assert_true(redis_has(w->redis, "brought/c"));
    expect_true(r, leases_len(keep_alive_body(w->a, &s, "{\"held\": []}")) == 0);
    expect_free(w, "brought/b brought/c");
}

static void test_owners_reenter(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *one = session_hold(w->a, &s, "own/b", "owner=me"), *several = token_new(w);
    const char *third = token_new(w), *me = ", \"owner\": \"me\"";
    json_int_t fence = fence_of(w->a, "own/b");
    struct reply *r = multi_put(w->b, &s, several, "own/a own/b", me);

    expect_status(r, 201);
    expect_str(r, "owner", "me");
    expect_int(r, "locks.0.hold_count", 1);
    expect_int(r, "locks.1.hold_count", 2);
    assert_int_equal(multi_fence(r, "own/b"), fence);
    assert_true(multi_fence(r, "own/a") > 0);
    assert_string_equal(redis_str(w->redis, "HGET own/a %s:me", s.id), "1");
    r = multi_put(w->b, &s, third, "own/a own/b", me);
    expect_status(r, 201);
    expect_int(r, "locks.1.hold_count", 3);
    expect_problem(multi_put(w->a, &s, token_new(w), "own/a own/c", NULL), 423, "locked");
    expect_problem(multi_put(w->a, &s, token_new(w), "own/a own/c", ", \"owner\": \"you\""),
                   423, "locked");
    expect_problem(multi_put(w->a, &s, several, "own/a own/b", ", \"owner\": \"you\""), 422,
                   "token-reused");
    expect_free(w, "own/c");
    expect_int(multi_ask(w->a, "DELETE", several, NULL), "hold_count", 2);
    expect_int(multi_ask(w->a, "DELETE", several, NULL), "hold_count", 2);
    expect_int(multi_ask(w->a, "DELETE", third, NULL), "hold_count", 1);
    expect_free(w, "own/a");
    expect_int(lock_release(w->a, "own/b", one), "hold_count", 0);
    expect_free(w, "own/b");
}

/* The release wakes one of them, whose grant lets the other one in. */
static void test_waiters_of_one_owner_get_in_together(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *holder = token_new(w);
    struct call *calls[4];

    expect_status(lock_put(w->a, "both/b", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < 4; i++)
        calls[i] = multi_park(i < 2 ? w->a : w->b, &s, token_new(w), "both/a both/b",
                              ", \"owner\": \"me\", \"wait_ms\": 30000");
    int64_t freed_ms = now_ms();
    expect_status(lock_release(w->b, "both/b", holder), 200);
    for (int i = 0; i < 4; i++) {
        struct reply *r = call_await(calls[i], 10000);

        expect_status(r, 201);
        assert_in_range(r->done_ms - freed_ms, 0, allowed_ms(500));
    }
}

/* As with one lock: a lock is no fair lock, also where an owner holds it. */
static void test_owners_hold_no_fair_locks(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    expect_status(multi_put(w->a, &s, token_new(w), "of/a of/b", ", \"owner\": \"me\""), 201);
    for (int i = 0; i < 2; i++)
        expect_problem(lock_put(w->b, i == 0 ? "of/a" : "of/b", token_new(w), "kind=fair"), 409,
                       "wrong-kind");
}

/* A writer takes over from readers who died. */
static void test_dead_readers(struct world *w)
{
    const char *token = token_new(w);

    redis_ok(w->redis, "HSET dead/a mode read 6f1c2a0e-7b1d-5e3f-9a51-0c2d4e6f8a01:0 1");
    redis_ok(w->redis, "PEXPIRE dead/a 60000");
    expect_status(multi_put(w->a, NULL, token, "dead/a dead/b", ", \"kind\": \"write\""), 201);
    assert_string_equal(redis_str(w->redis, "HGET dead/a mode"), "write");
    assert_int_equal(redis_int(w->redis, "HLEN dead/a"), 2);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    expect_free(w, "dead/a dead/b");
}

/* What it shares with others of its owner it leaves once, whatever they are leases of. */
static void test_an_end_takes_one_hold(struct world *w)
{
    static const char *const kinds[] = {"lock", "read", "write"};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct session s = session_new(w->a, NULL);
        const char *lock = text(w, "once/%s", kinds[i]), *token = token_new(w);
        const char *query = text(w, "owner=me&ttl_ms=60000&kind=%s", kinds[i]);
        const char *more = text(w, ", \"owner\": \"me\", \"kind\": \"%s\", \"ttl_ms\": 300",
                                kinds[i]);

        expect_status(session_put(w->a, &s, lock, token, query), 201);
        struct reply *r = multi_put(w->b, &s, token_new(w), text(w, "%s once/x", lock), more);
        expect_status(r, 201);
        /* The watchdog is to find it, no request: what is left is the other lease. */
        wait_until(redis_int(w->redis, "ZCARD rlockd:session-due:{%s}", s.id) == 2,
                   2 * SOON_MS);
        expect_int(lock_look(w->b, lock), "holders.0.hold_count", 1);
        expect_status(session_put(w->b, &s, lock, token, query), 200);
        expect_int(lock_release(w->a, lock, token), "hold_count", 0);
        expect_free(w, text(w, "%s once/x", lock));
    }
}

/* An owner that reads under one of them would wait for itself. */
static void test_owners_of_read_and_write(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *read = token_new(w), *write = token_new(w);
    const char *wish = ", \"owner\": \"me\", \"kind\": \"write\", \"wait_ms\": 5000";
    struct reply *r;

    expect_status(session_put(w->a, &s, "ow/b", read, "kind=read&owner=me"), 201);
    r = multi_put(w->a, &s, token_new(w), "ow/a ow/b", wish);
    expect_problem(r, 409, "wrong-kind");
    expect_str(r, "lock", "ow/b");
    expect_free(w, "ow/a");
    expect_status(lock_release(w->a, "ow/b", read), 200);
    expect_status(multi_put(w->a, &s, write, "ow/a ow/b", wish), 201);
    r = multi_put(w->a, &s, read = token_new(w), "ow/a ow/b",
                  ", \"owner\": \"me\", \"kind\": \"read\"");
    expect_status(r, 201);
    expect_status(multi_ask(w->a, "DELETE", write, NULL), 200);
    assert_string_equal(redis_str(w->redis, "HGET ow/a mode"), "read");
    expect_status(multi_put(w->b, NULL, token_new(w), "ow/a ow/b", ", \"kind\": \"read\""),
                  201);
    expect_status(multi_ask(w->a, "GET", read, NULL), 200);
}

/* A grant whose client has gone, all of it. */
static void test_a_grant_to_nobody_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    size_t noted = json_array_size(redis_keys(w->redis, "rlockd:set:{"));
    struct call *call;

    proxy_set(slow.proxy, PROXY_HOLD);
    call = multi_call(slow.fe, NULL, token_new(w), "undo/a undo/b", ", \"ttl_ms\": 60000");
    wait_until(json_array_size(redis_keys(w->redis, "rlockd:set:{")) > noted, 3000);
    proxy_pass_held(slow.proxy);
    wait_until(redis_has(w->redis, "undo/b"), 3000);
    assert_false(call_done(call));
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(!redis_has(w->redis, "undo/a") && !redis_has(w->redis, "undo/b"), SOON_MS);
}

/* A request with the same token and other names is no twin of the one that waits: when it goes,
 * it takes nothing with it. */
static void test_a_stranger_takes_nobody_out(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w), *token = token_new(w);
    struct call *stays, *twin, *stranger;

    expect_status(lock_put(w->a, "who/b", holder, "ttl_ms=60000"), 201);
    stays = multi_park(w->a, NULL, token, "who/a who/b", ", \"wait_ms\": 30000");
    twin = multi_call(w->b, NULL, token, "who/a who/b", ", \"wait_ms\": 30000");
    wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 1, 5000);
    call_hang_up(twin);
    wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 0, 5000);
    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_DELAY);
    stranger = multi_call(slow.fe, NULL, token, "who/b who/c", ", \"wait_ms\": 30000");
    slow_settle(&slow);
    call_hang_up(stranger);
    slow_settle(&slow);
    assert_int_equal(waiter_count(w->a, "who/a"), 1);
    expect_str(multi_ask(w->a, "GET", token, NULL), "state", "waiting");
    expect_status(lock_release(w->a, "who/b", holder), 200);
    expect_status(call_await(stays, SOON_MS), 201);
}

static void test_a_confirmed_grant_stays(struct world *w)
{
    struct slow slow = slow_start(w);
    static const char *const methods[] = {"PUT", "GET", "PATCH"};

    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        const char *token = token_new(w);
        struct call *call;
        struct reply *r;

        proxy_set(slow.proxy, PROXY_DELAY);
        call = multi_call(slow.fe, NULL, token, "stay/a stay/b", ", \"ttl_ms\": 60000");
        wait_until(redis_has(w->redis, "stay/b"), 3000);
        r = i == 0 ? multi_put(w->a, NULL, token, "stay/b stay/a", NULL)
                   : multi_ask(w->a, methods[i], token, i == 2 ? "ttl_ms=60000" : NULL);
        expect_status(r, 200);
        call_hang_up(call);
        stays_true(redis_has(w->redis, "stay/a") && redis_has(w->redis, "stay/b"), 800);
        proxy_set(slow.proxy, PROXY_PASS);
        expect_status(multi_ask(w->b, "DELETE", token, NULL), 200);
    }
}

static void test_lost_replies(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *token = token_new(w);
    struct reply *r;

    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    r = multi_put(slow.fe, NULL, token, "reply/a reply/b", ", \"ttl_ms\": 60000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(front_ready(slow.fe), RECOVER_MS);
    r = multi_put(slow.fe, NULL, token, "reply/a reply/b", ", \"ttl_ms\": 60000");
    expect_true(r, r->status == 201 || r->status == 200);
    assert_string_equal(redis_do(w->redis, "HVALS reply/a")->element[0]->str, "1");
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    expect_str(multi_ask(slow.fe, "DELETE", token, NULL), "outcome", "unknown");
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(front_ready(slow.fe), RECOVER_MS);
    expect_status(multi_ask(slow.fe, "DELETE", token, NULL), 200);
    expect_free(w, "reply/a reply/b");
}

static void test_redis_is_killed(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *holder = token_new(w), *token = token_new(w), *kept = token_new(w);
    struct call *call;

    expect_status(multi_put(fe, NULL, kept, "kill/x kill/y", ", \"ttl_ms\": 60000"), 201);
    expect_status(lock_put(fe, "kill/b", holder, "ttl_ms=60000"), 201);
    call = multi_park(fe, NULL, token, "kill/a kill/b", ", \"wait_ms\": 40000");
    redis_kill(redis);
    wait_until(!front_ready(fe), 3000);
    expect_problem(multi_put(fe, NULL, token_new(w), "kill/c", NULL), 503, "redis-unavailable");
    assert_false(call_done(call));
    redis_return(redis);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(multi_put(fe, NULL, kept, "kill/x kill/y", NULL), 200);
    assert_false(call_done(call));
    expect_status(lock_release(fe, "kill/b", holder), 200);
    expect_status(call_await(call, 2000), 201);
    /* And with all of its data. */
    redis_kill(redis);
    redis_lose_data(redis);
    redis_return(redis);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_problem(multi_ask(fe, "PATCH", token, NULL), 410, "lease-ended");
    expect_status(multi_put(fe, NULL, token_new(w), "kill/a kill/b", NULL), 201);
}

/* The names of a set may be at another master than the locks, which alone loses its data. */
static void test_names_that_are_lost(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *noted = token_new(w), *spent = token_new(w);
    struct reply *r = multi_put(w->a, NULL, noted, "names/a names/b", NULL);

    redis_ok(w->redis, "DEL rlockd:set:{%s}", reply_str(r, "lease_id"));
    r = multi_ask(w->b, "PATCH", noted, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_status(multi_put(w->a, NULL, noted, "names/a names/b", NULL), 200);
    expect_status(multi_ask(w->b, "DELETE", noted, NULL), 200);
    expect_free(w, "names/a names/b");

    r = multi_put(w->a, &s, spent, "names/a names/b", NULL);
    redis_ok(w->redis, "DEL rlockd:set:{%s}", reply_str(r, "lease_id"));
    r = multi_ask(w->b, "DELETE", spent, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_problem(multi_put(w->a, &s, spent, "names/a names/b", NULL), 410, "lease-ended");
    expect_problem(lock_put(w->b, "names/b", token_new(w), NULL), 423, "locked");
    expect_int(session_end(w->a, &s), "released", 1);
    expect_free(w, "names/a names/b");
}

/* All or none, also where Redis has no memory left. */
static void test_out_of_memory(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *held = token_new(w), *token = token_new(w), *gone = token_new(w);
    struct reply *r;

    skip_with_slots(w);
    expect_status(multi_put(fe, NULL, held, "oom/x oom/y", NULL), 201);
    expect_status(multi_put(fe, NULL, gone, "oom/v oom/w", NULL), 201);
    redis_ok(redis, "CONFIG SET maxmemory 1");
    r = multi_put(fe, NULL, token, "oom/a oom/b", NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    assert_false(redis_has(redis, "oom/a") || redis_has(redis, "oom/b"));
    expect_status(multi_ask(fe, "PATCH", held, "ttl_ms=60000"), 200);
    expect_status(multi_put(fe, NULL, held, "oom/x oom/y", NULL), 200);
    expect_status(multi_ask(fe, "GET", held, NULL), 200);
    expect_status(multi_ask(fe, "DELETE", held, NULL), 200);
    assert_false(redis_has(redis, "oom/x") || redis_has(redis, "oom/y"));
    redis_ok(redis, "DEL oom/v");
    expect_problem(multi_ask(fe, "DELETE", gone, NULL), 410, "lease-ended");
    assert_false(redis_has(redis, "oom/w"));
    redis_ok(redis, "CONFIG SET maxmemory 0");
    expect_status(multi_put(fe, NULL, token, "oom/a oom/b", NULL), 201);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_watchdog_keeps_all),
        E2E_TEST(test_many_leases_of_many_locks),
        E2E_TEST(test_a_young_set_beside_an_old_lock),
        E2E_TEST(test_a_session_that_nobody_keeps),
        E2E_TEST(test_a_session_that_ends_while_it_waits),
        E2E_TEST(test_a_forced_member),
        E2E_TEST(test_a_member_that_vanishes),
        E2E_TEST(test_ends_that_the_watchdog_brings),
        E2E_TEST(test_owners_reenter),
        E2E_TEST(test_waiters_of_one_owner_get_in_together),
        E2E_TEST(test_owners_hold_no_fair_locks),
        E2E_TEST(test_dead_readers),
        E2E_TEST(test_an_end_takes_one_hold),
        E2E_TEST(test_owners_of_read_and_write),
        E2E_TEST(test_a_grant_to_nobody_is_undone),
        E2E_TEST(test_a_stranger_takes_nobody_out),
        E2E_TEST(test_a_confirmed_grant_stays),
        E2E_TEST(test_lost_replies),
        E2E_TEST(test_redis_is_killed),
        E2E_TEST(test_names_that_are_lost),
        E2E_TEST(test_out_of_memory),
    };
    struct e2e_plan plan = {.name = "multi-locks-faults",
                            .needs_one_server = true,
                            E2E_TESTS(tests),
                            .front_ends = 2,
                            .flags = flags};

    return e2e_run(&plan);
}
