/* Forgetting an attempt, or a lease that is over, in its session's home: asked again until
 * Redis has confirmed it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/notes/bind.h"
#include "storage/notes/notes.h"

/* A note that is still there then is the watchdog's: it asks the lock's home. */
#define GIVE_UP_NS (60 * CLOCK_NS_PER_S)

struct unbinding {
    struct unbinding *prev, *next;
    struct store *store;
    char session_id[SESSION_ID_SIZE];
    char attempt[ATTEMPT_ID_SIZE]; /* empty: all of them */
    struct lease_ref ref;
    int64_t expires_ns;
    bool in_flight;
};

static void forget(struct unbinding *unbinding)
{
    DL_DELETE(unbinding->store->unbindings, unbinding);
    lease_ref_release(&unbinding->ref);
    free(unbinding);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct unbinding *unbinding = arg;
    struct store *store = unbinding->store;

    unbinding->in_flight = false;
    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_WRONG_TYPE)
        forget(unbinding);
    else if (!timer_is_armed(&store->retry_unbindings))
        timer_arm(loop_timers(store->options.loop), &store->retry_unbindings,
                  loop_now_ns(store->options.loop) + REDIS_ASK_AGAIN_NS);
}

static void send(struct unbinding *unbinding)
{
    struct store_call *call = call_begin(unbinding->store, SCRIPT_SESSION_UNBIND);
    struct key_base session = call_base(unbinding->session_id);

    call_key(call, SESSION_UNBIND_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_UNBIND_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_text(call, SESSION_UNBIND_ARG_REF, unbinding->ref.text, unbinding->ref.len);
    if (unbinding->attempt[0] != '\0')
        call_string(call, SESSION_UNBIND_ARG_ATTEMPT, unbinding->attempt);
    unbinding->in_flight = true;
    call_send(call, on_reply, unbinding);
}

static void start(struct store *store, const char *session_id, const char *attempt,
                  struct lease_ref ref)
{
    struct unbinding *unbinding = calloc(1, sizeof(*unbinding));

    assert(unbinding != NULL);
    unbinding->store = store;
    snprintf(unbinding->session_id, sizeof(unbinding->session_id), "%s", session_id);
    snprintf(unbinding->attempt, sizeof(unbinding->attempt), "%s", attempt);
    unbinding->ref = ref;
    unbinding->expires_ns = loop_now_ns(store->options.loop) + GIVE_UP_NS;
    DL_APPEND(store->unbindings, unbinding);
    send(unbinding); /* when Redis is down: unbindings_retry() does */
}

void session_unbind(struct store *store, const char *session_id, const struct lease *lease,
                    const char *attempt)
{
    struct lease_ref ref;

    lease_ref_make(&ref, store->options.config->key_prefix, lease);
    start(store, session_id, attempt != NULL ? attempt : "", ref);
}

void session_unbind_ref(struct store *store, const char *session_id,
                        const struct lease_ref *ref)
{
    struct lease_ref copy;

    lease_ref_copy(&copy, ref->text, ref->len);
    start(store, session_id, "", copy);
}

void unbindings_retry(void *arg)
{
    struct store *store = arg;
    struct unbinding *unbinding, *next;
    int64_t now_ns = loop_now_ns(store->options.loop);

    DL_FOREACH_SAFE(store->unbindings, unbinding, next) {
        if (unbinding->in_flight)
            continue;
        if (unbinding->expires_ns < now_ns)
            forget(unbinding);
        else
            send(unbinding);
    }
}

size_t unbindings_pending(const struct store *store)
{
    const struct unbinding *unbinding;
    size_t count;

    DL_COUNT(store->unbindings, unbinding, count);
    return count;
}

void unbindings_release(struct store *store)
{
    struct unbinding *unbinding, *next;

    DL_FOREACH_SAFE(store->unbindings, unbinding, next) {
        forget(unbinding);
    }
}
