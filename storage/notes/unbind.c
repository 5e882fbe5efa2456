/* Forgetting an attempt, or a lease that is over, in its session's home. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/notes/bind.h"
#include "storage/notes/notes.h"
#include "storage/store/errand.h"

/* After a minute the watchdog removes the note. */
#define GIVE_UP_NS (60 * CLOCK_NS_PER_S)

struct unbinding {
    struct errand errand;
    char session_id[SESSION_ID_SIZE];
    char attempt[ATTEMPT_ID_SIZE]; /* empty: all of them */
    struct lease_ref ref;
};

static struct store_call *fill(struct store *store, void *arg)
{
    const struct unbinding *unbinding = arg;
    struct store_call *call = call_begin(store, SCRIPT_SESSION_UNBIND);
    struct key_base session = call_base(unbinding->session_id);

    call_key(call, SESSION_UNBIND_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_UNBIND_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_text(call, SESSION_UNBIND_ARG_REF, unbinding->ref.text, unbinding->ref.len);
    if (unbinding->attempt[0] != '\0')
        call_string(call, SESSION_UNBIND_ARG_ATTEMPT, unbinding->attempt);
    return call;
}

static void on_end(void *arg)
{
    struct unbinding *unbinding = arg;

    lease_ref_release(&unbinding->ref);
    free(unbinding);
}

static const struct errand_job unbind_job = {
    .rank = ERRAND_TIDIES, .fill = fill, .end = on_end};

static void start(struct store *store, const char *session_id, const char *attempt,
                  struct lease_ref ref)
{
    struct unbinding *unbinding = calloc(1, sizeof(*unbinding));

    assert(unbinding != NULL);
    snprintf(unbinding->session_id, sizeof(unbinding->session_id), "%s", session_id);
    snprintf(unbinding->attempt, sizeof(unbinding->attempt), "%s", attempt);
    unbinding->ref = ref;
    errand_start(store, &unbinding->errand, &unbind_job, unbinding, GIVE_UP_NS);
}

void session_unbind(struct store *store, const char *session_id, const struct lease *lease,
                    const char *attempt)
{
    struct lease_ref ref;

    lease_ref_make(&ref, store_config(store)->key_prefix, lease);
    start(store, session_id, attempt != NULL ? attempt : "", ref);
}

void session_unbind_ref(struct store *store, const char *session_id,
                        const struct lease_ref *ref)
{
    struct lease_ref copy;

    lease_ref_copy(&copy, ref->text, ref->len);
    start(store, session_id, "", copy);
}
