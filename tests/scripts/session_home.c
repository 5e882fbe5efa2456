/* Calls of the scripts of a session's home, for one session. */
#include "session_home.h"

#define WINDOW "60000"

redisReply *session_open(const char *ttl_ms)
{
    return run(SCRIPT_SESSION_OPEN, HOME, ARGS(ttl_ms, "host/1", WINDOW));
}

redisReply *session_bind(const char *ref, const char *attempt, const char *due_ms)
{
    return run(SCRIPT_SESSION_BIND, HOME, ARGS(ref, attempt, due_ms, "3"));
}

redisReply *session_unbind(const char *ref, const char *attempt)
{
    return run(SCRIPT_SESSION_UNBIND, KEYS(NOTES, DUE), ARGS(ref, attempt));
}

redisReply *session_settle_seen(int64_t seen_ms, const char *ref, const char *verdict)
{
    const char *seen = seen_ms == 0 ? "" : text("%lld", (long long)seen_ms);

    return run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS(WINDOW, "10000", "", seen, "0", ref, verdict));
}

redisReply *session_settle(const char *ref, const char *verdict)
{
    return session_settle_seen(0, ref, verdict);
}

redisReply *session_settle_marked(const char *ref, int64_t deadline_ms)
{
    return run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS(WINDOW, "10000", text("%lld", (long long)deadline_ms), "", "1", ref));
}

redisReply *session_keep_alive(const char *age_ms)
{
    return run(SCRIPT_SESSION_KEEP_ALIVE, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS(WINDOW, age_ms, "15000"));
}

redisReply *session_end(const char *reason, const char *released, const char *forget)
{
    return run(SCRIPT_SESSION_END, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS(reason, WINDOW, "1", released, forget));
}

redisReply *session_due(void)
{
    return run(SCRIPT_SESSION_DUE, HOME, ARGS("2"));
}

void session_overdue(void)
{
    command("HSET %s deadline %s", SESSION, text("%lld", (long long)redis_now_ms() - 1));
}

void expect_lasts(const char *key, int64_t ms)
{
    assert_in_range(reply_integer(command("PTTL %s", key)), ms - 5000, ms);
}

void memory_is_short(void)
{
    expect(command("CONFIG SET maxmemory 1"), "OK");
    expect(command("SET other value"), "error: OOM*");
}

void memory_is_back(void)
{
    expect(command("CONFIG SET maxmemory 0"), "OK");
}
