/* Deferral: the first attempt of a request is put off where a release by this worker is likely
 * to grant the lock or permit to the request before. */
#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"

static bool is_deferred_kind(const struct lease *lease)
{
    return hand_over_serves(lease) && !kind_row(lease->kind)->keeps_place;
}

/* Whether a release may grant the lock or permit to this lease without an attempt before. A
 * token that the server made and that came back needs its record; a lease of a session needs
 * its note. */
static bool may_be_granted_unseen(const struct lease *lease)
{
    return is_deferred_kind(lease) && lease->token != TOKEN_RETURNED &&
           !lease_needs_preparation(lease);
}

/* Ms for which, as far as this worker knows, an attempt would find the lock busy, if a release
 * is likely to grant the lock to this request without an attempt; 0: the request has to try. */
static int64_t deferrable_ms(const struct acquisition *acquisition)
{
    const struct acquirer *acquirer = acquisition->acquirer;
    struct wait_place place;

    if (!waiters_have_queues(acquirer->options.waiters) || acquirer->draining ||
        !may_be_granted_unseen(acquisition->lease) ||
        acquisition_left_ms(acquisition) <= DEFERRAL_MS ||
        store_quarantine_ms(acquirer->options.store, lease_name(acquisition->lease)) > 0)
        return 0;
    acquirer_find_place(acquirer, acquisition->lease, &place);
    return place_recently_taken_ms(&place, kind_row(acquisition->lease->kind)->reads,
                                   DEFERRAL_MS * CLOCK_NS_PER_MS);
}

bool acquisition_defer(struct acquisition *acquisition)
{
    struct waiters *waiters = acquisition->acquirer->options.waiters;
    int64_t taken_ms = deferrable_ms(acquisition);

    if (taken_ms == 0 || !acquisition->may_wait(acquisition->arg))
        return false;
    acquisition->deferred = true;
    acquisition->generation = waiters_generation(waiters);
    acquisition->lease_generation = waiters_lease_generation(waiters);
    acquisition_sleep(acquisition, taken_ms);
    return true;
}

void acquisition_end_deferral(struct acquisition *acquisition)
{
    acquisition->deferred = false;
    timer_arm(loop_timers(acquisition->acquirer->options.loop), &acquisition->deadline,
              acquisition->deadline_ns);
}

/* Whether what the acquisition got leaves nothing for a request that comes now. */
static bool leaves_nothing(const struct acquisition *acquisition,
                           const struct attempt_result *attempt)
{
    const struct kind_row *kind = kind_row(acquisition->lease->kind);

    if (kind->family == FAMILY_PERMIT)
        return attempt->lease->available == 0;
    return kind->family == FAMILY_LOCK && !kind->leaves_some && !kind->keeps_place;
}

void acquisition_note_taken(const struct acquisition *acquisition,
                            const struct attempt_result *attempt)
{
    const struct acquirer *acquirer = acquisition->acquirer;
    struct wait_place place;

    if (!leaves_nothing(acquisition, attempt) || waiter_is_waiting(&acquisition->waiter) ||
        !waiters_have_queues(acquirer->options.waiters))
        return;
    acquirer_find_place(acquirer, acquisition->lease, &place);
    place_taken(&place, attempt->remaining_ms >= 0 ? attempt->remaining_ms : INT64_MAX);
}
