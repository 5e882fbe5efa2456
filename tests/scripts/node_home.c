/* Calls of the scripts of a node, with the KEYS and ARGV that front ends give them. */
#include "node_home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_LEN = 16, MARGIN_US = 1000000 };

static int64_t base_us;

static const char * or (const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

void node_process_is(int64_t age_ms)
{
    command("HSET %s since %s", MARKER, text("%lld", (long long)(redis_now_ms() - age_ms)));
}

const char *node_process(void)
{
    return reply_text(command("HGET %s since", MARKER));
}

int node_clear(void **state)
{
    if (redis_clear(state) != 0)
        return -1;
    node_process_is(PROCESS_AGE_MS);
    base_us = redis_now_ms() / 1000 * MARGIN_US;
    return 0;
}

int64_t node_base_us(void)
{
    return base_us;
}

const char *node_token(int64_t token)
{
    return text("%lld", (long long)(token != 0 ? base_us + token : 0));
}

int64_t node_number(const char *shown)
{
    char *end;
    int64_t number = strtoll(shown, &end, 10);

    if (*end != '\0' || end == shown || (number != 0 && number < base_us))
        fail_msg("no token: %s", shown);
    return number == 0 ? 0 : number - base_us;
}

/* Digits of a token: as many as it has, and not far from the base. */
static bool is_token(const char *at, size_t len)
{
    int64_t away = len == TOKEN_LEN ? strtoll(at, NULL, 10) - base_us : -1;

    return away >= 0 && away < MARGIN_US;
}

const char *node_text(const char *shown)
{
    char *made = NULL;
    size_t size;
    FILE *out = open_memstream(&made, &size);

    assert_non_null(out);
    while (*shown != '\0') {
        size_t len = strspn(shown, "0123456789");
        if (is_token(shown, len)) {
            fprintf(out, "%lld", (long long)(strtoll(shown, NULL, 10) - base_us));
        } else {
            len = len > 0 ? len : 1;
            fwrite(shown, 1, len, out);
        }
        shown += len;
    }
    fclose(out);
    const char *kept = text("%s", made);
    free(made);
    return kept;
}

/* --- records ------------------------------------------------------------------------------ */

static const char *record_of(const struct vote *vote)
{
    const char *session = or (vote->session, "");

    return text("held\n\n%s\n\n%s\nnote\n%s\n%s\n\n%s\n%s\n", or (vote->attempt, "w.1"),
                or (vote->ttl, "30000"), session, session[0] != '\0' ? "host/1" : "",
                session[0] != '\0' ? "1" : "", or (vote->kind, "lock"));
}

static const char *key_of(const char *id)
{
    return text("rlockd:lease:{jobs}:%s", id);
}

static const char *keep_of(const struct vote *vote)
{
    return text("%lld", atoll(or (vote->ttl, "30000")) + 60000);
}

static redisReply *send(const struct vote *vote, const char *const *keys)
{
    return run(SCRIPT_VOTE, keys,
               ARGS(vote->id, or (vote->ttl, "30000"), record_of(vote), keep_of(vote),
                    "86400000", or (vote->wait, ""), or (vote->mode, "recorded"),
                    or (vote->registered, ""), or (vote->blocking, ""), node_token(vote->token),
                    text("%d", vote->round > 0 ? vote->round : 1), QUARANTINE));
}

redisReply *node_vote(const struct vote *vote)
{
    return send(vote, KEYS("jobs", COUNTER, QUEUE, key_of(vote->id)));
}

redisReply *node_vote_set(const struct vote *vote)
{
    return send(vote,
                KEYS(P1, "redisson_lock_token:" P1, "redisson_lock_queue:" P1,
                     text("rlockd:lease:" P1 ":%s:m", vote->id), P2, "redisson_lock_token:" P2,
                     "redisson_lock_queue:" P2, text("rlockd:lease:" P2 ":%s:m", vote->id)));
}

redisReply *node_claim(const char *id, const char *kind, const char *session, int64_t token)
{
    return run(SCRIPT_LEASE_CONFIRM, KEYS("jobs", key_of(id), COUNTER),
               ARGS(id, WINDOW, or (kind, "lock"), "", or (session, ""), "w.1", "",
                    node_token(token)));
}

redisReply *node_withdraw(const char *id, const char *attempt, const char *quiet)
{
    return run(SCRIPT_WITHDRAW, KEYS("jobs", key_of(id)),
               ARGS(id, attempt, "", "", WINDOW, quiet));
}

redisReply *node_lose(const char *id, const char *attempt)
{
    return run(SCRIPT_LEASE_LOST, KEYS("jobs", key_of(id)),
               ARGS(id, WINDOW, "expired", attempt));
}

redisReply *node_force(int64_t up_to)
{
    return run(SCRIPT_FORCE_UNLOCK, KEYS("jobs", COUNTER, FORCED),
               ARGS(WINDOW, "", "", "", node_token(up_to)));
}

redisReply *node_repair(const struct vote *lease, int64_t left_ms)
{
    return run(SCRIPT_REPAIR, KEYS("jobs", COUNTER, QUEUE, key_of(lease->id)),
               ARGS(lease->id, or (lease->ttl, "30000"), record_of(lease), keep_of(lease),
                    "86400000", node_token(lease->token),
                    text("%lld", (long long)(redis_now_ms() + left_ms))));
}

redisReply *node_repair_session(int64_t left_ms)
{
    int64_t now_ms = redis_now_ms();

    return run(SCRIPT_SESSION_REPAIR, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS("30000", "host/1", WINDOW, text("%lld", (long long)now_ms - 5000),
                    text("%lld", (long long)(now_ms + left_ms))));
}
