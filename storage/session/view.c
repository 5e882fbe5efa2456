/* The leases and losses that a look at a session shows. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/session/keep_alive.h"

const char *session_look_names(const struct store *store, const struct lease_ref *ref,
                               struct lock_names **locks)
{
    size_t prefix_len = strlen(store_config(store)->key_prefix);
    const char *names = ref->text + LEASE_ID_SIZE;

    *locks = lease_ref_is_set(ref) ? lock_names_parse(names, prefix_len) : NULL;
    return strlen(names) >= prefix_len ? names + prefix_len : "";
}

static void show_lease(const struct look_call *call, size_t i, struct session_lease_view *out)
{
    const struct found_lease *found = &call->found[i];
    const struct lease_record *record = &found->record;

    lease_ref_id(&call->refs[i], out->lease_id);
    out->lock = session_look_names(call->store, &call->refs[i], &out->locks);
    out->is_unknown = found->is_unknown;
    memcpy(out->fencing_tokens, found->tokens, sizeof(out->fencing_tokens));
    out->fencing_token = found->tokens[0];
    out->remaining_ms = found->remaining_ms;
    out->owner = record->owner;
    out->ttl_ms = record->ttl_ms;
    out->watchdog = record->watchdog;
    out->note = record->note;
    out->caller = record->caller;
    out->held_ms = store_held_ms(call->store, lease_granted_us(found->tokens[0], record));
    out->kind = record->kind;
}

int session_compare_ids(const void *left, const void *right)
{
    return memcmp(left, right, LEASE_ID_SIZE - 1);
}

size_t session_look_find_held(const struct look_call *call, const struct lease_ref *ref)
{
    char(*at)[LEASE_ID_SIZE] = NULL;

    if (ref->lock_count > 0 && call->held_count > 0)
        at = bsearch(ref->text, call->held, call->held_count, sizeof(*call->held),
                     session_compare_ids);
    return at != NULL ? (size_t)(at - call->held) : call->held_count;
}

/* Moves the ids to the front of `held` of which the session has no lease: no note of a lease
 * that the lock's home knows, and no loss. */
static void find_unknown(struct look_call *call)
{
    /* The last place is of leases that are not named. */
    bool *is_known = calloc(call->held_count + 1, sizeof(*is_known));

    assert(is_known != NULL);
    for (size_t i = 0; i < call->count; i++)
        if (!call->found[i].has_no_record)
            is_known[session_look_find_held(call, &call->refs[i])] = true;
    for (size_t i = 0; i < call->losses.known_count; i++)
        is_known[session_look_find_held(call, &call->losses.known[i])] = true;
    for (size_t i = 0; i < call->held_count; i++)
        if (!is_known[i])
            memmove(call->held[call->view.unknown_count++], call->held[i], LEASE_ID_SIZE);
    free(is_known);
    call->view.unknown = (const char(*)[LEASE_ID_SIZE])call->held;
}

void session_look_show(struct look_call *call)
{
    struct session_lease_view *leases = calloc(call->count + 1, sizeof(*leases));
    struct session_view *view = &call->view;

    assert(leases != NULL);
    for (size_t i = 0; i < call->count; i++)
        if (call->found[i].is_held || call->found[i].is_unknown)
            show_lease(call, i, &leases[view->lease_count++]);
    view->remaining_ms = store_ms_left(call->remaining_ms, call->sent_ns);
    view->leases = leases;
    view->losses = call->losses.views;
    view->loss_count = call->losses.count;
    view->name = call->name;
    if (!view->has_no_leases)
        find_unknown(call);
    call->done(call->arg, view);
    for (size_t i = 0; i < view->lease_count; i++)
        lock_names_unref(leases[i].locks);
    free(leases);
}
