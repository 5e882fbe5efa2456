/* How turns are shared: arithmetic on counts and times. */
#include "storage/wait/share.h"

#include "server/base/clock.h"

/* A series is over after so many hand-overs, or after so long. */
enum { HAND_OVERS_MAX = 64 };
#define HAND_OVERS_NS (50 * CLOCK_NS_PER_MS)
/* A streak has a hand-over for each waiter, and STREAK_MIN at least. If no other client took
 * the lock in the yield after a streak, the lock lay idle for nothing: the next streak is twice
 * as long, up to STREAK_MAX. That is below HAND_OVERS_MAX: else the series would always end
 * before the streak, with a release that this worker's own waiters may win each time, and no
 * yield would ever come. */
enum { STREAK_MIN = 8, STREAK_MAX = HAND_OVERS_MAX - 1 };
/* Shorter than a client would notice. */
#define YIELD_MAX_NS (5 * CLOCK_NS_PER_MS)
/* The yield after an open release: a few times as long as it took here from the message of the
 * other client's release to the release by this worker, and a little more. The other client, if
 * it waits, takes about as long, and a yield that is over too early costs a script. */
enum { OPEN_YIELD_TURNS = 4 };
#define OPEN_YIELD_LEAST_NS (CLOCK_NS_PER_MS / 2)
/* After a yield the worker that began it tries first, and finds out whether other clients
 * wanted the lock; the other workers of the process try so much later. */
#define YIELD_SLACK_NS (1 * CLOCK_NS_PER_MS)

static void begin_streak(struct share *share, int64_t now_ns)
{
    share->streak_ns = now_ns;
    share->streak = 0;
    share->others_first = false;
}

static unsigned streak_max_of(const struct share *share)
{
    return share->streak_max > 0 ? share->streak_max : STREAK_MIN;
}

static unsigned doubled(unsigned count)
{
    return count * 2 < STREAK_MAX ? count * 2 : STREAK_MAX;
}

void share_choose(struct share *share, unsigned waiters, int64_t now_ns)
{
    unsigned round = waiters < STREAK_MAX ? waiters : STREAK_MAX, most = streak_max_of(share);

    share->messages_before = share->messages;
    share->others_first = share->streak >= (round > most ? round : most) ||
                          now_ns - share->streak_ns > HAND_OVERS_NS;
}

void share_handed_over(struct share *share, int64_t now_ns)
{
    if (share->hand_overs++ == 0)
        share->handing_over_ns = now_ns;
    if (share->others_first)
        begin_streak(share, now_ns);
    share->streak++;
    share->here++;
}

void share_taken_freely(struct share *share, int64_t now_ns)
{
    /* A lock was free for all clients. Other permits may have been handed over meanwhile. */
    if (!share->of_permits || share->streak == 0)
        begin_streak(share, now_ns);
    share->here = 0;
}

void share_message(struct share *share)
{
    share->messages++;
}

int64_t share_next_yield_end_ns(const struct share *share, int64_t now_ns)
{
    int64_t ns = now_ns - share->streak_ns;

    return now_ns + (ns < YIELD_MAX_NS ? ns : YIELD_MAX_NS);
}

void share_yield(struct share *share, int64_t now_ns, int64_t until_ns)
{
    begin_streak(share, now_ns);
    share->yield_until_ns = until_ns;
    share->has_yielded = true;
    share->ends_with_message = false;
    share->hand_overs = 0;
}

/* Whether another client has released the lock since that many messages: one is that of the
 * release by this worker. */
static bool was_released(const struct share *share, uint64_t messages)
{
    return share->messages - messages > 1;
}

void share_open_release(struct share *share, int64_t woken_ns, int64_t now_ns)
{
    int64_t ns = OPEN_YIELD_TURNS * (now_ns - woken_ns) + OPEN_YIELD_LEAST_NS;
    bool had_a_turn = share->messages - share->messages_open == 2;

    share->messages_open = share->messages;
    if (!had_a_turn || share->streak > 0 || share->open_passed++ < share->open_pass)
        return;
    share->open_passed = 0;
    share->messages_yield = share->messages;
    share_yield(share, now_ns, now_ns + (ns < YIELD_MAX_NS ? ns : YIELD_MAX_NS));
    share->ends_with_message = true;
}

int64_t share_yield_end_ns(const struct share *share, int64_t others_ns)
{
    int64_t others_end_ns = others_ns != 0 ? others_ns + YIELD_SLACK_NS : 0;
    bool is_over = share->ends_with_message && was_released(share, share->messages_yield);
    int64_t own_end_ns = is_over ? 0 : share->yield_until_ns;

    return own_end_ns > others_end_ns ? own_end_ns : others_end_ns;
}

void share_yielded(struct share *share, bool got_it)
{
    if (!share->has_yielded)
        return;
    share->has_yielded = false;
    bool is_wanted = !got_it ||
                     was_released(share, share->ends_with_message ? share->messages_yield
                                                                  : share->messages_before);
    if (share->ends_with_message)
        share->open_pass = is_wanted ? 0 : doubled(share->open_pass + 1) - 1;
    else
        share->streak_max = is_wanted ? STREAK_MIN : doubled(streak_max_of(share));
}

void share_read_series(struct share *share, unsigned waiters, int64_t now_ns,
                       struct hand_over_series *series)
{
    bool is_open = share->hand_overs >= HAND_OVERS_MAX ||
                   (share->hand_overs > 0 && now_ns - share->handing_over_ns > HAND_OVERS_NS);

    *series = (struct hand_over_series){.is_open = is_open,
                                        .has_gone_round = share->here > waiters,
                                        .hand_overs = share->hand_overs,
                                        .handing_over_ns = share->handing_over_ns,
                                        .streak = share->streak,
                                        .streak_ns = share->streak_ns};
    if (is_open)
        share->hand_overs = 0;
}

void share_passed_on(struct share *share)
{
    share->here = 0;
    if (!share->of_permits)
        share->hand_overs = 0;
}

void share_take_over(struct share *share, const struct hand_over_series *series)
{
    share->here = 0;
    if (share->of_permits) /* this worker may hand over other permits meanwhile */
        return;
    share->hand_overs = series->hand_overs;
    share->handing_over_ns = series->handing_over_ns;
    share->streak = series->streak;
    share->streak_ns = series->streak_ns;
}
