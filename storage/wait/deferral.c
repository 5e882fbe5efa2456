/* Deferral: a pause before the first attempt of a request, because a hand-over on this worker
 * will probably grant the lock or permit first. */
#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"

static bool is_deferred_kind(const struct lease *lease)
{
    return hand_over_serves(lease) && !kind_row(lease->kind)->keeps_place;
}

/* Whether a release may grant to this lease though no attempt was made. Not to a token that the
 * server made and the client sent back, because its record must be read; nor to a lease of a
 * session, because its attempt must be noted. */
static bool may_be_granted_unseen(const struct lease *lease)
{
    return is_deferred_kind(lease) && lease->token != TOKEN_RETURNED &&
           !lease_needs_preparation(lease);
}

int64_t acquisition_deferrable_ms(const struct acquisition *acquisition)
{
    const struct acquirer *acquirer = acquisition->acquirer;
    struct wait_place place;

    if (!waiters_have_queues(acquirer->options.waiters) || acquirer->draining ||
        acquirer->options.keeps_releases_open || !may_be_granted_unseen(acquisition->lease) ||
        acquisition_left_ms(acquisition) <= DEFERRAL_MS ||
        store_quarantine_ms(acquirer->options.store, lease_name(acquisition->lease)) > 0)
        return 0;
    acquirer_find_place(acquirer, acquisition->lease, &place);
    return place_recently_taken_ms(&place, kind_row(acquisition->lease->kind)->reads,
                                   DEFERRAL_MS * CLOCK_NS_PER_MS);
}
