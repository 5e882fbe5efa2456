/* Noting a lease in its session's home before its lock's home is asked for it. */
#include "storage/notes/bind.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/notes/notes.h"

struct bind_call {
    session_bind_done *done;
    void *arg;
};

static void read_binding(struct session_binding *binding, const struct redis_result *result)
{
    size_t len;

    if (result->outcome != REDIS_DONE) {
        binding->outcome = SESSION_BIND_FAILED;
        binding->failure = call_outcome_of(result);
        return;
    }
    if (value_count(result->reply) == 0) { /* a bare text: the common case */
        binding->outcome = SESSION_BOUND;
        binding->session_name = value_text(result->reply, &len);
        return;
    }
    if (value_count(result->reply) == 1) {
        binding->outcome = SESSION_BIND_FULL;
        return;
    }
    binding->outcome = SESSION_BIND_ENDED;
    lock_copy_text(value_at(result->reply, SESSION_BIND_REPLY_ENDED_REASON), binding->reason,
                   sizeof(binding->reason));
}

static void on_bound(void *arg, const struct redis_result *result)
{
    struct bind_call *call = arg;
    struct session_binding binding = {.session_name = ""};

    read_binding(&binding, result);
    call->done(call->arg, &binding);
    free(call);
}

int64_t session_visit_ms(const struct store *store, const char *kind, int64_t ttl_ms)
{
    int64_t period_ms = watchdog_period_ms(store_config(store));
    bool is_read = strcmp(kind, kind_row(KIND_READ)->name) == 0;

    return is_read && ttl_ms > period_ms ? period_ms : ttl_ms;
}

void session_bind(struct store *store, const struct lease *lease, session_bind_done *done,
                  void *arg)
{
    const struct config *config = store_config(store);
    int64_t period_ms = watchdog_period_ms(config);
    int64_t due_ms = lease->watchdog
                         ? period_ms
                         : session_visit_ms(store, kind_row(lease->kind)->name, lease->ttl_ms);
    struct key_base session = call_base(lease->session_id);
    struct bind_call *bind = malloc(sizeof(*bind));
    struct store_call *call = call_begin(store, SCRIPT_SESSION_BIND);
    struct lease_ref ref;

    assert(bind != NULL);
    *bind = (struct bind_call){.done = done, .arg = arg};
    lease_ref_make(&ref, config->key_prefix, lease);
    call_key(call, SESSION_BIND_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_BIND_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_BIND_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_text(call, SESSION_BIND_ARG_REF, ref.text, ref.len);
    call_string(call, SESSION_BIND_ARG_ATTEMPT, lease->attempt);
    call_number(call, SESSION_BIND_ARG_DUE_MS, due_ms);
    call_number(call, SESSION_BIND_ARG_LIMIT, SESSION_LOCKS_MAX);
    call_send(call, on_bound, bind);
    lease_ref_release(&ref);
    /* Sessions are visited once in a period at least. A lease of an owner that is over sooner
     * must not go on as a hold of the owner's lock. */
    if (due_ms < period_ms && lease->owner[0] != '\0')
        session_index_set(store, lease->session_id, due_ms, NULL, NULL, NULL);
}

/* --- settling one lease ------------------------------------------------------------------- */

struct settle_call {
    session_settle_done *done; /* may be NULL */
    void *arg;
    struct lease_ref ref;
    struct session_verdict_text verdict;
};

static void on_settled(void *arg, const struct session_settled *settled)
{
    struct settle_call *call = arg;
    struct session_binding binding = {
        .outcome = settled->outcome, .failure = settled->failure, .session_name = ""};

    memcpy(binding.reason, settled->reason, sizeof(binding.reason));
    if (call->done != NULL)
        call->done(call->arg, &binding);
    lease_ref_release(&call->ref);
    free(call);
}

static void write_verdict(struct session_verdict_text *text,
                          const struct session_report *report)
{
    switch (report->verdict) {
    case SESSION_LEASE_RENEWED:
        session_verdict_renewed(text, report->kind, false);
        return;
    case SESSION_LEASE_LATER:
        session_verdict_later(text, report->ms);
        return;
    case SESSION_LEASE_LOST:
        session_verdict_lost(text, report->reason, report->kind);
        return;
    }
}

void session_settle(struct store *store, const char *session_id, const struct lease *lease,
                    const struct session_report *report, session_settle_done *done, void *arg)
{
    const struct config *config = store_config(store);
    struct settle_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->done = done;
    call->arg = arg;
    lease_ref_make(&call->ref, store_config(store)->key_prefix, lease);
    if (report->verdict == SESSION_LEASE_LATER && report->ms < watchdog_period_ms(config))
        session_index_set(store, session_id, report->ms, NULL, NULL, NULL);
    write_verdict(&call->verdict, report);
    bool is_sent = session_settle_all(store, session_id, &call->ref, &call->verdict, 1, 0, 0,
                                      on_settled, call);
    assert(is_sent);
}
