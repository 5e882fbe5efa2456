/* Calls of the scripts of a lock's home, with the KEYS and ARGV that the stores give them. */
#include "lock_home.h"

#include <stdlib.h>
#include <string.h>

static const char * or (const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

static const char *record_of(const struct ask *ask)
{
    return text("held\n\n%s\n\n%s\nnote\n%s\n%s\n\n%s\n%s\n%s", or (ask->attempt, "w.1"),
                or (ask->ttl, "30000"), or (ask->session, ""), ask->session ? "host/1" : "",
                ask->session ? "1" : "", or (ask->kind, "lock"), or (ask->owner, ""));
}

/* As front ends give it: a fencing counter outlives each lease. */
static const char *fencing_ttl_of(const char *keep)
{
    return atoll(keep) > 86400000 ? keep : "86400000";
}

static bool is_read_write(const struct ask *ask)
{
    return ask->kind != NULL && strcmp(ask->kind, "lock") != 0 &&
           strcmp(ask->kind, "fair") != 0;
}

static enum script script_of(const struct ask *ask)
{
    if (is_read_write(ask))
        return SCRIPT_RW_ACQUIRE;
    return strcmp(or (ask->kind, "lock"), "fair") == 0 ? SCRIPT_FAIR_ACQUIRE : SCRIPT_ACQUIRE;
}

/* An acquire script, and lease_confirm where that says so: what a front end sends. */
static redisReply *send(enum script script, const char *const *keys,
                        const char *const *confirm_keys, const struct ask *ask)
{
    const char *ttl = or (ask->ttl, "30000");
    const char *keep = text("%lld", atoll(ttl) + 60000);

    redisReply *reply = run(script, keys,
                            ARGS(ask->id, ttl, record_of(ask), keep, fencing_ttl_of(keep),
                                 or (ask->wait, ""), or (ask->mode, "recorded"),
                                 or (ask->registered, ""), or (ask->lost, "")));
    if (strcmp(reply_text(reply), "[recorded]") != 0)
        return reply;
    return run(SCRIPT_LEASE_CONFIRM, confirm_keys,
               ARGS(ask->id, WINDOW, or (ask->kind, "lock"), or (ask->owner, ""),
                    or (ask->session, ""), or (ask->attempt, "w.1"), or (ask->registered, "")));
}

redisReply *lock_ask(const struct ask *ask)
{
    const char *record = text("rlockd:lease:{jobs}:%s", ask->id);

    return send(script_of(ask), KEYS("jobs", COUNTER, QUEUE, record),
                KEYS("jobs", record, COUNTER), ask);
}

redisReply *set_ask(const struct ask *ask)
{
    const char *first = text("rlockd:lease:" P1 ":%s:m", ask->id);
    const char *second = text("rlockd:lease:" P2 ":%s:m", ask->id);

    return send(
        SCRIPT_SET_ACQUIRE,
        KEYS(P1, "redisson_lock_token:" P1, "redisson_lock_queue:" P1, first, P2,
             "redisson_lock_token:" P2, "redisson_lock_queue:" P2, second),
        KEYS(P1, first, "redisson_lock_token:" P1, P2, second, "redisson_lock_token:" P2), ask);
}

static const char *key_of(const char *id)
{
    return text("rlockd:lease:{jobs}:%s", id);
}

redisReply *lock_renew(const char *id, const char *ttl)
{
    return run(SCRIPT_RENEW, KEYS("jobs", key_of(id), COUNTER),
               ARGS(id, ttl, WINDOW, "1", "7"));
}

redisReply *lock_release(const char *id)
{
    return run(SCRIPT_RELEASE, KEYS("jobs", key_of(id)), ARGS(id, CHANNEL, WINDOW));
}

redisReply *lock_hand_over(const char *id, const struct ask *next)
{
    const char *ttl = or (next->ttl, "30000"), *keep = text("%lld", atoll(ttl) + 60000);

    if (is_read_write(next))
        return run(SCRIPT_RW_HAND_OVER,
                   KEYS("jobs", key_of(id), COUNTER, key_of(next->id), WAITERS),
                   ARGS(id, WINDOW, RW_CHANNEL, next->id, ttl, record_of(next), keep,
                        fencing_ttl_of(keep), or (next->unseen, ""),
                        or (next->own_listeners, "0"), or (next->timed, "")));
    return run(
        SCRIPT_HAND_OVER, KEYS("jobs", key_of(id), COUNTER, key_of(next->id), WAITERS, QUEUE),
        ARGS(id, WINDOW, CHANNEL, next->id, ttl, record_of(next), keep, fencing_ttl_of(keep),
             or (next->unseen, ""), or (next->own_listeners, "0"), or (next->timed, "")));
}

redisReply *lock_withdraw(const char *id, const char *attempt, const char *keep_place)
{
    return run(SCRIPT_WITHDRAW, KEYS("jobs", key_of(id)),
               ARGS(id, attempt, "", keep_place, WINDOW));
}

redisReply *lock_force_read(const char *token, const char *holder)
{
    return run(SCRIPT_FORCE_UNLOCK, KEYS("jobs", COUNTER, FORCED),
               ARGS(WINDOW, token, "", holder));
}

redisReply *lock_force(const char *token)
{
    return run(SCRIPT_FORCE_UNLOCK, KEYS("jobs", COUNTER, FORCED), ARGS(WINDOW, token));
}

const char *token_of(redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return text("%lld", (long long)reply_integer(reply));
    expect(reply_at(reply, 0), "granted");
    return reply_text(reply_at(reply, 1));
}

static const char *set_key(const char *lock, const char *id)
{
    return text("rlockd:lease:%s:%s:m", lock, id);
}

#define SET_PAIRS KEYS(P1, set_key(P1, id), P2, set_key(P2, id))
#define SET_TRIPLES                                                                            \
    KEYS(P1, set_key(P1, id), "redisson_lock_token:" P1, P2, set_key(P2, id),                  \
         "redisson_lock_token:" P2)

redisReply *set_renew(const char *id, const char *ttl)
{
    return run(SCRIPT_RENEW, SET_TRIPLES, ARGS(id, ttl, WINDOW, "1", "7"));
}

redisReply *set_release(const char *id)
{
    return run(SCRIPT_RELEASE, SET_PAIRS, ARGS(id, "redisson_lock__channel:" P1, WINDOW));
}

redisReply *set_withdraw(const char *id, const char *attempt)
{
    return run(SCRIPT_WITHDRAW, SET_PAIRS, ARGS(id, attempt, "", "", WINDOW));
}

redisReply *set_claim(const char *id)
{
    return run(SCRIPT_LEASE_CLAIM, SET_TRIPLES, ARGS(id, WINDOW, "1"));
}

redisReply *set_watch(const char *id)
{
    return run(SCRIPT_LEASE_WATCH, SET_PAIRS, ARGS(id, "30000", WINDOW));
}

redisReply *set_end(const char *id)
{
    return run(SCRIPT_LEASE_END, SET_PAIRS, ARGS(id, "session-ended", WINDOW));
}
