/* The counted leases of a caller, by lock and lease id, with the times of their ends. */
#include "server/http/auth_leases.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/timers.h"

struct session {
    UT_hash_handle hh;
    char id[TOKEN_TEXT_SIZE];
    struct auth_leases *leases;
    struct timer end; /* not armed: the session is not known to be open */
    struct lease *first;
};

/* A lease counts while an attempt to acquire it is under way, and while it is held. */
struct lease {
    UT_hash_handle hh;
    struct lease *prev, *next; /* of the session */
    struct auth_lease_key key;
    struct auth_leases *leases;
    struct session *session; /* NULL: none */
    size_t attempts;
    int64_t held_ns; /* when the lease was last known to hold */
    bool held, watchdog;
    struct timer end;
};

struct auth_leases {
    pthread_mutex_t mutex;
    struct lease *table;
    struct session *sessions;
    struct timers ends;
};

struct auth_leases *auth_leases_new(void)
{
    struct auth_leases *leases = calloc(1, sizeof(*leases));

    if (leases == NULL)
        return NULL;
    pthread_mutex_init(&leases->mutex, NULL);
    timers_init(&leases->ends);
    return leases;
}

void auth_leases_free(struct auth_leases *leases)
{
    struct lease *lease, *next_lease;
    struct session *session, *next_session;

    if (leases == NULL)
        return;
    timers_release(&leases->ends);
    HASH_ITER(hh, leases->table, lease, next_lease) {
        HASH_DEL(leases->table, lease);
        free(lease);
    }
    HASH_ITER(hh, leases->sessions, session, next_session) {
        HASH_DEL(leases->sessions, session);
        free(session);
    }
    pthread_mutex_destroy(&leases->mutex);
    free(leases);
}

/* --- sessions ----------------------------------------------------------------------------- */

static void session_forget_if_unused(struct session *session)
{
    if (session->first != NULL || timer_is_armed(&session->end))
        return;
    HASH_DEL(session->leases->sessions, session);
    free(session);
}

static void on_session_end(void *arg)
{
    session_forget_if_unused(arg);
}

static struct session *session_find(struct auth_leases *leases, const char *id)
{
    struct session *session;

    HASH_FIND_STR(leases->sessions, id, session);
    return session;
}

static struct session *session_add(struct auth_leases *leases, const char *id)
{
    struct session *session = calloc(1, sizeof(*session));

    assert(session != NULL);
    memcpy(session->id, id, sizeof(session->id));
    session->leases = leases;
    session->end.fire = on_session_end;
    session->end.arg = session;
    HASH_ADD_STR(leases->sessions, id, session);
    return session;
}

/* --- leases ------------------------------------------------------------------------------- */

static struct lease *lease_find(struct auth_leases *leases, const struct auth_lease_key *key)
{
    struct lease *lease;

    HASH_FIND(hh, leases->table, key, sizeof(*key), lease);
    return lease;
}

static void lease_forget_if_unused(struct lease *lease)
{
    struct session *session = lease->session;

    if (lease->attempts > 0 || lease->held)
        return;
    HASH_DEL(lease->leases->table, lease);
    if (session != NULL) {
        DL_DELETE(session->first, lease);
        session_forget_if_unused(session);
    }
    free(lease);
}

static void lease_over(struct lease *lease)
{
    timer_cancel(&lease->leases->ends, &lease->end);
    lease->held = false;
    lease_forget_if_unused(lease);
}

static void on_lease_end(void *arg)
{
    lease_over(arg);
}

static struct lease *lease_add(struct auth_leases *leases, const struct auth_lease_key *key,
                               const char *session_id)
{
    struct lease *lease = calloc(1, sizeof(*lease));

    assert(lease != NULL);
    lease->key = *key;
    lease->leases = leases;
    lease->end.fire = on_lease_end;
    lease->end.arg = lease;
    if (session_id[0] != '\0') {
        lease->session = session_find(leases, session_id);
        if (lease->session == NULL)
            lease->session = session_add(leases, session_id);
        DL_APPEND(lease->session->first, lease);
    }
    HASH_ADD(hh, leases->table, key, sizeof(lease->key), lease);
    return lease;
}

/* Whether the end of the lease is a time of clock_ns(): a TTL that an operator has set may be
 * longer than an int64_t of ns. */
static bool has_end(const struct auth_lease_hold *hold)
{
    return hold->remaining_ms >= 0 && hold->remaining_ms < CLOCK_MS_MAX;
}

static int64_t end_ns_of(const struct lease *lease, const struct auth_lease_hold *hold,
                         int64_t now_ns)
{
    int64_t end_ns = now_ns + hold->remaining_ms * CLOCK_NS_PER_MS;

    if (hold->watchdog && lease->session != NULL && timer_is_armed(&lease->session->end) &&
        lease->session->end.at_ns > end_ns)
        end_ns = lease->session->end.at_ns;
    return end_ns;
}

static void lease_held(struct lease *lease, const struct auth_lease_hold *hold, int64_t now_ns)
{
    lease->held = true;
    lease->held_ns = now_ns;
    lease->watchdog = hold->watchdog;
    if (has_end(hold))
        timer_arm(&lease->leases->ends, &lease->end, end_ns_of(lease, hold, now_ns));
    else
        timer_cancel(&lease->leases->ends, &lease->end);
}

/* --- attempts and their leases ------------------------------------------------------------ */

bool auth_leases_attempt(struct auth_leases *leases, int64_t max,
                         const struct auth_lease_key *key,
                         const char session_id[TOKEN_TEXT_SIZE], int64_t now_ns)
{
    pthread_mutex_lock(&leases->mutex);
    timers_run(&leases->ends, now_ns);
    struct lease *lease = lease_find(leases, key);
    if (lease == NULL && HASH_COUNT(leases->table) < (uint64_t)max)
        lease = lease_add(leases, key, session_id);
    if (lease != NULL)
        lease->attempts++;
    pthread_mutex_unlock(&leases->mutex);
    return lease != NULL;
}

void auth_leases_attempt_ended(struct auth_leases *leases, const struct auth_lease_key *key)
{
    pthread_mutex_lock(&leases->mutex);
    struct lease *lease = lease_find(leases, key);
    assert(lease != NULL && lease->attempts > 0);
    lease->attempts--;
    lease_forget_if_unused(lease);
    pthread_mutex_unlock(&leases->mutex);
}

void auth_leases_held(struct auth_leases *leases, const struct auth_lease_hold *hold,
                      int64_t now_ns)
{
    pthread_mutex_lock(&leases->mutex);
    struct lease *lease = lease_find(leases, &hold->key);
    if (lease != NULL)
        lease_held(lease, hold, now_ns);
    pthread_mutex_unlock(&leases->mutex);
}

void auth_leases_over(struct auth_leases *leases, const struct auth_lease_key *key,
                      int64_t since_ns)
{
    pthread_mutex_lock(&leases->mutex);
    struct lease *lease = lease_find(leases, key);
    if (lease != NULL && lease->held && lease->held_ns <= since_ns)
        lease_over(lease);
    pthread_mutex_unlock(&leases->mutex);
}

/* --- sessions and their leases ------------------------------------------------------------ */

static void session_lasts(struct session *session, int64_t end_ns)
{
    struct lease *lease;

    timer_arm(&session->leases->ends, &session->end, end_ns);
    DL_FOREACH(session->first, lease) {
        if (lease->held && lease->watchdog && timer_is_armed(&lease->end) &&
            lease->end.at_ns < end_ns)
            timer_arm(&session->leases->ends, &lease->end, end_ns);
    }
}

void auth_leases_session_open(struct auth_leases *leases, int64_t max,
                              const char session_id[TOKEN_TEXT_SIZE], int64_t lasts_ms,
                              int64_t now_ns)
{
    pthread_mutex_lock(&leases->mutex);
    timers_run(&leases->ends, now_ns);
    struct session *session = session_find(leases, session_id);
    if (session == NULL && HASH_COUNT(leases->sessions) < 2 * (uint64_t)max)
        session = session_add(leases, session_id);
    if (session != NULL)
        session_lasts(session, now_ns + lasts_ms * CLOCK_NS_PER_MS);
    pthread_mutex_unlock(&leases->mutex);
}

/* Ends the leases that were last known to hold before `since_ns`. The session may be freed. */
static void end_leases_before(struct session *session, int64_t since_ns)
{
    struct lease *lease, *next;

    DL_FOREACH_SAFE(session->first, lease, next) {
        if (lease->held && lease->held_ns < since_ns)
            lease_over(lease);
    }
}

void auth_leases_session_holds(struct auth_leases *leases,
                               const char session_id[TOKEN_TEXT_SIZE],
                               const struct auth_lease_hold *holds, size_t count,
                               int64_t since_ns, int64_t now_ns)
{
    pthread_mutex_lock(&leases->mutex);
    struct session *session = session_find(leases, session_id);
    for (size_t i = 0; session != NULL && i < count; i++) {
        struct lease *lease = lease_find(leases, &holds[i].key);
        if (lease != NULL && lease->session == session)
            lease_held(lease, &holds[i], now_ns);
    }
    if (session != NULL)
        end_leases_before(session, since_ns);
    pthread_mutex_unlock(&leases->mutex);
}

void auth_leases_session_ended(struct auth_leases *leases,
                               const char session_id[TOKEN_TEXT_SIZE])
{
    pthread_mutex_lock(&leases->mutex);
    struct session *session = session_find(leases, session_id);
    if (session != NULL) {
        timer_cancel(&leases->ends, &session->end);
        if (session->first == NULL)
            session_forget_if_unused(session);
        else
            end_leases_before(session, INT64_MAX);
    }
    pthread_mutex_unlock(&leases->mutex);
}
