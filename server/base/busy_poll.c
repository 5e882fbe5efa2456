/* The judgement whether the next wait begins with a poll. */
#include "server/base/busy_poll.h"

#include "server/base/clock.h"

enum {
    CREDIT_MAX = 8,
    CREDIT_START = 4, /* with so much, the polling begins; with none it ends */
    CREDIT_LOSS = 2   /* by a long wait: where a third of the waits are long, polling ends */
};

/* Other threads have the processor for so long only where it is short: those of Redis and of
 * clients sleep before. */
#define DISTURBED_NS (200 * CLOCK_NS_PER_US)

/* A pause is so many times as long as what the polls before it have lost: at most 2 % of the
 * time is lost. */
enum { PAUSE_TIMES = 50 };

/* A slept wait counts as short up to twice the limit, because a part of it is the wake-up that
 * polling avoids. */
enum { SHORT_SLEEP_LIMITS = 2 };

void busy_poll_init(struct busy_poll *poll, int64_t limit_ns)
{
    *poll = (struct busy_poll){.limit_ns = limit_ns};
}

bool busy_poll_is_on(const struct busy_poll *poll, enum busy_poll_wait wait, int64_t now_ns)
{
    return poll->waits[wait].is_on && now_ns >= poll->waits[wait].paused_until_ns;
}

static void note(struct busy_poll *poll, enum busy_poll_wait wait, bool is_short)
{
    int credit = poll->waits[wait].credit + (is_short ? 1 : -CREDIT_LOSS);

    poll->waits[wait].credit = credit < 0 ? 0 : credit > CREDIT_MAX ? CREDIT_MAX : credit;
}

void busy_poll_slept(struct busy_poll *poll, enum busy_poll_wait wait, int64_t slept_ns)
{
    if (poll->limit_ns == 0)
        return;
    note(poll, wait, slept_ns <= SHORT_SLEEP_LIMITS * poll->limit_ns);
    poll->waits[wait].is_on = poll->waits[wait].credit >= CREDIT_START;
}

static void pause(struct busy_poll *poll, enum busy_poll_wait wait, int64_t lost_ns,
                  int64_t now_ns)
{
    poll->waits[wait].paused_until_ns = now_ns + PAUSE_TIMES * lost_ns;
    poll->waits[wait].credit = 0;
    poll->waits[wait].is_on = false;
}

void busy_poll_ended(struct busy_poll *poll, enum busy_poll_wait wait, bool has_found,
                     int64_t away_ns, int64_t now_ns)
{
    note(poll, wait, has_found);
    if (away_ns > DISTURBED_NS)
        pause(poll, wait, away_ns, now_ns);
    else if (poll->waits[wait].credit == 0)
        pause(poll, wait, CREDIT_MAX / CREDIT_LOSS * poll->limit_ns, now_ns);
}
