/* Requests about leases, handed to the family of their kind. */
#include "storage/lease/leases.h"

#include <assert.h>
#include <stddef.h>

#include "storage/lease/families.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/lease/quarantine.h"
#include "storage/notes/set_names.h"

struct family {
    family_try *try;
    family_change *renew, *release; /* NULL: it has no leases */
};

static const struct family families[FAMILY_COUNT] = {
    [FAMILY_LOCK] = {lock_try, lock_renew, lock_release},
    [FAMILY_SET] = {lock_try, lock_renew, lock_release},
    [FAMILY_PERMIT] = {permit_try, permit_renew, permit_release},
    [FAMILY_SEMAPHORE] = {semaphore_try, NULL, NULL},
    [FAMILY_LATCH] = {latch_try, NULL, NULL}};

static const struct family *family_of(const struct lease *lease)
{
    return &families[kind_row(lease->kind)->family];
}

void attempt_send(struct store *store, const struct lease *lease, const struct attempt *attempt,
                  attempt_done *done, void *arg)
{
    if (kind_row(lease->kind)->family != FAMILY_LATCH &&
        store_quarantine_ms(store, lease_name(lease)) > 0)
        attempt_hold_back(store, lease, done, arg);
    else
        family_of(lease)->try(store, lease, attempt, done, arg);
}

void lease_renew(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    assert(family_of(lease)->renew != NULL);
    if (lease_is_set(lease))
        set_names_keep(store, lease, 0, NULL, NULL);
    family_of(lease)->renew(store, lease, done, arg);
}

void lease_release(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    assert(family_of(lease)->release != NULL);
    family_of(lease)->release(store, lease, done, arg);
}

void lease_get_set(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    assert(lease_is_set(lease));
    lock_claim(store, lease, done, arg);
}
