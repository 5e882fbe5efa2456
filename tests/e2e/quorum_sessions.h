/* Requests of sessions of redis-quorum://, which are asked again where a server was late by a
 * second. */
#ifndef E2E_QUORUM_SESSIONS_H
#define E2E_QUORUM_SESSIONS_H

#include "multi_locks.h"
#include "quorum.h"

static inline const char *session_key(struct world *w, const struct session *s)
{
    return text(w, "rlockd:session:{%s}", s->id);
}

static inline struct reply *kept(struct front *fe, const struct session *s)
{
    struct reply *r = keep_alive(fe, s, NULL);

    for (int i = 0; r->status == 503 && i < 10; i++) {
        nap_ms(50);
        r = keep_alive(fe, s, NULL);
    }
    expect_status(r, 200);
    return r;
}

/* A request for a lock: asked again where a release is on its way, too. */
static inline struct reply *granted(struct front *fe, const struct session *s, const char *lock,
                                    const char *token, const char *query)
{
    struct reply *r = session_put(fe, s, lock, token, query);
    int repeated = 0;

    for (; (r->status == 503 || r->status == 423) && repeated < 20; repeated++) {
        nap_ms(50);
        r = session_put(fe, s, lock, token, query);
    }
    expect_true(r, r->status == 201 || (r->status == 200 && repeated > 0));
    return r;
}

static inline struct reply *ended(struct front *fe, const struct session *s)
{
    struct reply *r = session_end(fe, s);

    for (int i = 0; r->status == 503 && i < 10; i++) {
        nap_ms(50);
        r = session_end(fe, s);
    }
    expect_status(r, 200);
    return r;
}

static inline bool holds_lease(struct front *fe, const struct session *s, const char *lock)
{
    struct reply *r = keep_alive(fe, s, NULL);
    const char *state = json_string_value(json_object_get(lease_of(r, lock), "state"));

    return state != NULL && strcmp(state, "held") == 0 && losses_len(r) == 0;
}

#endif
