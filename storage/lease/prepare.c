/* The steps of a preparation: the names of a set, then the note in the session's home. */
#include "storage/lease/prepare.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/notes/bind.h"
#include "storage/notes/set_names.h"

struct prepare_call {
    struct store *store;
    lease_prepare_done *done;
    void *arg;
    struct lease lease;
};

static bool has_session(const struct lease *lease)
{
    return lease->session_id[0] != '\0';
}

bool lease_needs_preparation(const struct lease *lease)
{
    return lease_is_set(lease) || has_session(lease);
}

static void finish(struct prepare_call *call, const struct preparation *preparation)
{
    call->done(call->arg, preparation);
    lock_names_unref(call->lease.names);
    free(call);
}

static void refuse(struct prepare_call *call, const struct lease_result *result)
{
    const struct preparation refused = {
        .outcome = TRY_REFUSED, .session_name = "", .lease = result};

    finish(call, &refused);
}

static void fail(struct prepare_call *call, enum call_outcome failure)
{
    const struct lease_result result = {
        .outcome = LEASE_FAILED, .failure = failure, .remaining_ms = -1};
    const struct preparation failed = {
        .outcome = try_outcome_of_failure(failure), .session_name = "", .lease = &result};

    finish(call, &failed);
}

/* --- the session -------------------------------------------------------------------------- */

static void on_bound(void *arg, const struct session_binding *binding)
{
    struct prepare_call *call = arg;
    const struct preparation prepared = {.outcome = TRY_GRANTED,
                                         .session_name = binding->session_name};
    struct lease_result result = {.remaining_ms = -1};

    switch (binding->outcome) {
    case SESSION_BOUND:
        finish(call, &prepared);
        return;
    case SESSION_BIND_ENDED:
        result.outcome = LEASE_SESSION_ENDED;
        memcpy(result.reason, binding->reason, sizeof(result.reason));
        refuse(call, &result);
        return;
    case SESSION_BIND_FULL:
        result.outcome = LEASE_SESSION_FULL;
        refuse(call, &result);
        return;
    case SESSION_BIND_FAILED:
        fail(call, binding->failure);
        return;
    }
}

static void bind(struct prepare_call *call)
{
    static const struct preparation prepared = {.outcome = TRY_GRANTED, .session_name = ""};

    if (has_session(&call->lease))
        session_bind(call->store, &call->lease, on_bound, call);
    else
        finish(call, &prepared);
}

void lease_unprepare(struct store *store, const struct lease *lease)
{
    if (has_session(lease))
        session_unbind(store, lease->session_id, lease, lease->attempt);
}

/* --- the names of a set ------------------------------------------------------------------- */

static void on_names(void *arg, const struct set_names *names)
{
    struct prepare_call *call = arg;
    struct lease_result result = {.remaining_ms = -1};

    switch (names->outcome) {
    case SET_NAMES_KEPT:
        bind(call);
        return;
    case SET_NAMES_REUSED:
        result.outcome = LEASE_REUSED;
        refuse(call, &result);
        return;
    case SET_NAMES_SPENT:
    case SET_NAMES_UNKNOWN:
        result.outcome = LEASE_ENDED;
        memcpy(result.reason, "unknown", sizeof("unknown"));
        refuse(call, &result);
        return;
    case SET_NAMES_FAILED:
        fail(call, names->failure);
        return;
    }
}

void lease_prepare(struct store *store, const struct lease *lease, int64_t wait_ms,
                   lease_prepare_done *done, void *arg)
{
    struct prepare_call *call = malloc(sizeof(*call));

    assert(call != NULL);
    *call = (struct prepare_call){.store = store, .done = done, .arg = arg, .lease = *lease};
    lock_names_ref(call->lease.names);
    if (lease_is_set(lease))
        set_names_keep(store, lease, wait_ms, on_names, call);
    else
        bind(call);
}
