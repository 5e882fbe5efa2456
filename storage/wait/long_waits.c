/* Long waits: their begin, what is done while they last, their end. */
#include "storage/wait/long_waits.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/census/census.h"
#include "storage/notes/waits.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/deadlock_check.h"
#include "storage/wait/full_locks.h"

enum {
    /* The pauses after which a long wait is written and checked again: each twice as long as
     * the one before. The longest is well below SESSION_WAIT_LIFE_MS. */
    PAUSE_FIRST_MS = 2000,
    PAUSE_LONGEST_MS = 8000,
    /* A deadlock that goes on is checked again so often, and a look at a lock tells of it for
     * so long after a check. */
    DEADLOCK_PAUSE_MS = 4000,
    MARK_TTL_MS = 10000,
    CHECKS_MAX = 4 /* of a worker at a time */
};

_Static_assert(LOCKS_MAX <= 32, "a lease has a bit for each of its locks");

struct long_waits {
    struct store *store;
    struct long_wait_watcher watcher;
    struct turns checks;
    struct long_wait *waits; /* utlist */
    struct full_locks full;
};

struct long_wait {
    struct long_wait *prev, *next;
    struct long_waits *owner;
    struct acquisition *acquisition; /* NULL: the wait is over */
    struct timer timer;              /* when the wait is written again */
    int64_t pause_ms;
    bool is_noted;                /* its lease has a session, and deadlocks are looked for */
    bool is_in_home;              /* its session's home has a note of it, as far as is known */
    bool is_noting;               /* a note whose reply is waited for keeps the struct alive */
    enum on_deadlock on_deadlock; /* of the session */
    unsigned asked;               /* locks whose reply is waited for: see is_noting */
    uint32_t noting_locks;        /* a bit for each lock of the lease that has a note of it */
    char wait_id[ATTEMPT_ID_SIZE];
    struct deadlock_check *check; /* under way, or NULL */
    struct deadlock_member
        *self;                 /* of the check; it would make each waiter larger by a sixth */
    struct deadlock *deadlock; /* of the last check; NULL: none */
    bool is_told;              /* a deadlock of this wait was logged and counted */
};

/* --- deadlocks ---------------------------------------------------------------------------- */

/* One member of a deadlock is: so one of them is refused, or tells of the deadlock to all. */
static bool is_youngest(const struct deadlock *deadlock)
{
    for (size_t i = 1; i < deadlock->count; i++)
        if (deadlock_is_younger(&deadlock->members[i], &deadlock->members[0]))
            return false;
    return true;
}

static void tell(struct long_wait *wait, bool refuses)
{
    if (wait->is_told)
        return;
    wait->is_told = true;
    metrics_add(store_metrics(wait->owner->store), METRIC_DEADLOCKS, 1);
    log_write(
        LOG_LEVEL_WARN, "deadlock",
        json_pack("{s:o, s:b}", "deadlock", deadlock_json(wait->deadlock), "refused", refuses));
}

static void on_checked(void *arg, struct deadlock *found)
{
    struct long_wait *wait = arg;
    struct store *store = wait->owner->store;
    bool refuses = wait->on_deadlock == ON_DEADLOCK_REFUSE;

    wait->check = NULL;
    free(wait->self);
    wait->self = NULL;
    free(wait->deadlock);
    wait->deadlock = found;
    if (found == NULL)
        return;
    wait->pause_ms = DEADLOCK_PAUSE_MS;
    timer_arm(loop_timers(store_loop(store)), &wait->timer,
              loop_now_ns(store_loop(store)) + DEADLOCK_PAUSE_MS * CLOCK_NS_PER_MS);
    if (!is_youngest(found))
        return;
    tell(wait, refuses);
    if (refuses)
        acquisition_finish_as(wait->acquisition, TRY_DEADLOCK);
    else
        deadlock_mark(store, found, MARK_TTL_MS);
}

/* --- what is written ---------------------------------------------------------------------- */

static void free_if_over(struct long_wait *wait)
{
    if (wait->acquisition != NULL || wait->is_noting || wait->asked > 0)
        return;
    free(wait);
}

static int64_t waited_ms(const struct long_wait *wait)
{
    int64_t now_ns = loop_now_ns(store_loop(wait->owner->store));

    return (now_ns - wait->acquisition->wait_began_ns) / CLOCK_NS_PER_MS;
}

static int64_t check_ms(const struct long_wait *wait)
{
    return store_config(wait->owner->store)->deadlock_check_ms;
}

static struct deadlock_member *member_new(const struct long_wait *wait, int64_t since_ms)
{
    const struct acquisition *acquisition = wait->acquisition;
    const struct lease *lease = acquisition->lease;
    struct deadlock_member *member = calloc(1, sizeof(*member));

    assert(member != NULL);
    memcpy(member->session_id, lease->session_id, sizeof(member->session_id));
    memcpy(member->session_name, acquisition->attempt.session_name,
           sizeof(member->session_name));
    memcpy(member->owner, lease->owner, sizeof(member->owner));
    memcpy(member->lease_id, lease->id, sizeof(member->lease_id));
    memcpy(member->note, lease->note, sizeof(member->note));
    member->is_set = lease_is_set(lease);
    memcpy(member->wait_id, wait->wait_id, sizeof(member->wait_id));
    member->since_ms = since_ms;
    return member;
}

static void on_noted(void *arg, const struct session_wait_noted *noted)
{
    struct long_wait *wait = arg;

    wait->is_noting = false;
    if (noted->outcome == CALL_DONE) /* else the note before this one may still be there */
        wait->is_in_home = noted->is_noted;
    if (wait->acquisition == NULL) {
        free_if_over(wait);
        return;
    }
    if (!noted->is_noted || wait->check != NULL || waited_ms(wait) < check_ms(wait))
        return;
    wait->self = member_new(wait, noted->since_ms);
    wait->on_deadlock = noted->on_deadlock;
    wait->check = deadlock_check_start(wait->owner->store, &wait->owner->checks, wait->self,
                                       wait->acquisition->lease->names, on_checked, wait);
}

static void note(struct long_wait *wait)
{
    if (wait->is_noting)
        return;
    wait->is_noting = true;
    session_wait_note(wait->owner->store, wait->acquisition->lease, wait->wait_id,
                      waited_ms(wait), NULL, on_noted, wait);
}

static void on_answered(void *arg, const struct session_wait_noted *noted)
{
    (void)arg;
    (void)noted;
}

static bool is_for_locks(const struct lease *lease)
{
    enum kind_family family = kind_row(lease->kind)->family;

    return family == FAMILY_LOCK || family == FAMILY_SET;
}

static struct census_wait wait_for(const struct lease *lease, size_t i)
{
    return (struct census_wait){
        .name = lease->names->name[i], .lease_id = lease->id, .kind = lease->kind};
}

/* A lock that was asked to note the wait. */
struct asked_lock {
    struct long_wait *wait;
    size_t at; /* among the locks of the lease */
};

static uint32_t bit_of(size_t lock)
{
    return UINT32_C(1) << lock;
}

static void on_lock_noted(void *arg, bool is_full)
{
    struct asked_lock *lock = arg;
    struct long_wait *wait = lock->wait;
    struct long_waits *owner = wait->owner;

    if (is_full)
        wait->noting_locks &= ~bit_of(lock->at);
    else
        wait->noting_locks |= bit_of(lock->at);
    if (is_full && wait->acquisition != NULL)
        full_locks_add(&owner->full, wait->acquisition->lease->names->name[lock->at],
                       loop_now_ns(store_loop(owner->store)));
    wait->asked--;
    free(lock);
    free_if_over(wait);
}

/* For the census. */
static void note_locks(struct long_wait *wait)
{
    struct long_waits *owner = wait->owner;
    const struct lease *lease = wait->acquisition->lease;
    int64_t now_ns = loop_now_ns(store_loop(owner->store));

    for (size_t i = 0; is_for_locks(lease) && i < lease->names->count; i++) {
        if ((wait->noting_locks & bit_of(i)) == 0 &&
            full_locks_has(&owner->full, lease->names->name[i], now_ns))
            continue;
        struct census_wait noted = wait_for(lease, i);
        struct asked_lock *lock = malloc(sizeof(*lock));
        assert(lock != NULL);
        *lock = (struct asked_lock){.wait = wait, .at = i};
        wait->asked++;
        census_note_wait(owner->store, &noted, waited_ms(wait), SESSION_WAIT_LIFE_MS,
                         on_lock_noted, lock);
    }
}

static void forget_locks(const struct long_wait *wait)
{
    const struct lease *lease = wait->acquisition->lease;

    for (size_t i = 0; is_for_locks(lease) && i < lease->names->count; i++) {
        struct census_wait noted = wait_for(lease, i);
        if (wait->asked > 0 || (wait->noting_locks & bit_of(i)) != 0)
            census_end_wait(wait->owner->store, &noted);
    }
}

/* A wait without a note in the home is part of no cycle that a front end could have found. So
 * at most SESSION_WAITS_MAX waits answer, of however many the session has. */
void long_waits_asked(struct long_waits *long_waits, const char *session_id,
                      const char *question)
{
    const struct long_wait *wait;

    DL_FOREACH(long_waits->waits, wait) {
        const struct lease *lease = wait->acquisition->lease;
        if (wait->is_in_home && strcmp(lease->session_id, session_id) == 0)
            session_wait_note(long_waits->store, lease, wait->wait_id, waited_ms(wait),
                              question, on_answered, NULL);
    }
}

/* --- their life --------------------------------------------------------------------------- */

/* Until the wait is written again: its first check may come before that. */
static int64_t next_pause_ms(struct long_wait *wait)
{
    int64_t until_check_ms = check_ms(wait) - waited_ms(wait), pause_ms = wait->pause_ms;

    if (until_check_ms > 0 && until_check_ms < pause_ms)
        return until_check_ms;
    wait->pause_ms = 2 * pause_ms < PAUSE_LONGEST_MS ? 2 * pause_ms : PAUSE_LONGEST_MS;
    /* Shorter by up to a quarter, so that waits that began together drift apart. */
    return pause_ms - pause_ms * (text_hash(wait->wait_id, strlen(wait->wait_id)) % 256) / 1024;
}

/* The wait goes on: writes what is known of it. */
static void go_on(void *arg)
{
    struct long_wait *wait = arg;
    struct loop *loop = store_loop(wait->owner->store);

    note_locks(wait);
    if (wait->is_noted)
        note(wait);
    timer_arm(loop_timers(loop), &wait->timer,
              loop_now_ns(loop) + next_pause_ms(wait) * CLOCK_NS_PER_MS);
}

/* Locks are held by a session or its owner; permits have no part in deadlocks. */
static bool must_be_noted(const struct long_wait *wait)
{
    const struct lease *lease = wait->acquisition->lease;

    return check_ms(wait) > 0 && lease->session_id[0] != '\0' && is_for_locks(lease);
}

static struct long_wait *began(void *arg, struct acquisition *acquisition)
{
    struct long_waits *owner = arg;
    struct long_wait *wait = calloc(1, sizeof(*wait));

    assert(wait != NULL);
    wait->owner = owner;
    wait->acquisition = acquisition;
    wait->timer = (struct timer){.fire = go_on, .arg = wait};
    wait->pause_ms = PAUSE_FIRST_MS;
    wait->is_noted = must_be_noted(wait);
    store_attempt_id(owner->store, wait->wait_id);
    DL_APPEND(owner->waits, wait);
    go_on(wait);
    return wait;
}

static struct deadlock *ended(struct long_wait *wait, bool may_ask_again)
{
    struct store *store = wait->owner->store;
    struct deadlock *deadlock = wait->deadlock;

    timer_cancel(loop_timers(store_loop(store)), &wait->timer);
    DL_DELETE(wait->owner->waits, wait);
    if (wait->check != NULL)
        deadlock_check_cancel(wait->check);
    if (wait->is_noted)
        session_wait_end(store, wait->acquisition->lease->session_id, wait->wait_id);
    if (!may_ask_again)
        forget_locks(wait);
    free(wait->self);
    wait->acquisition = NULL;
    free_if_over(wait);
    return deadlock;
}

const struct long_wait_watcher *long_waits_watcher(const struct long_waits *long_waits)
{
    return &long_waits->watcher;
}

struct long_waits *long_waits_new(struct store *store)
{
    struct long_waits *long_waits = calloc(1, sizeof(*long_waits));

    if (long_waits == NULL)
        return NULL;
    long_waits->store = store;
    long_waits->watcher = (struct long_wait_watcher){
        .began = began, .ended = ended, .arg = long_waits};
    turns_init(&long_waits->checks, store_loop(store), CHECKS_MAX, TURNS_WAIT);
    return long_waits;
}

void long_waits_free(struct long_waits *long_waits)
{
    assert(long_waits->waits == NULL);
    turns_release(&long_waits->checks);
    full_locks_release(&long_waits->full);
    free(long_waits);
}
