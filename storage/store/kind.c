/* The kinds of objects. */
#include "storage/store/kind.h"

#include <stddef.h>
#include <string.h>

#include "storage/store/key.h"

/* The columns that the kinds of locks share, of one lock and of several. */
#define LEASE_OF_LOCKS                                                                         \
    .withdraw = SCRIPT_WITHDRAW, .renew = SCRIPT_RENEW, .release = SCRIPT_RELEASE
#define ONE_LOCK .member = "lock", .family = FAMILY_LOCK, .record = KEY_LEASE, LEASE_OF_LOCKS
#define SET_OF_LOCKS                                                                           \
    .member = "locks", .family = FAMILY_SET, .record = KEY_MEMBER, .try = SCRIPT_SET_ACQUIRE,  \
    LEASE_OF_LOCKS
#define PLAIN .name = "lock", .single = KIND_LOCK, .wait = WAIT_LOCK
#define BY_READ_WRITE .try = SCRIPT_RW_ACQUIRE, .hand_over = SCRIPT_RW_HAND_OVER
/* Where a writer has to wait, a reader may get in: it wants less. */
#define READING                                                                                \
    .name = "read", .single = KIND_READ, .wait = WAIT_READ_WRITE, .wants = 1,                  \
    .leaves_some = true, .reads = true, .shares_holder = true
#define WRITING                                                                                \
    .name = "write", .single = KIND_WRITE, .wait = WAIT_READ_WRITE, .wants = 2,                \
    .shares_holder = true

const struct kind_row kind_rows[KIND_COUNT] = {
    [KIND_LOCK] = {ONE_LOCK, PLAIN, .set = KIND_SET_LOCK, .try = SCRIPT_ACQUIRE,
                   .hand_over = SCRIPT_HAND_OVER},
    [KIND_FAIR] = {ONE_LOCK, .name = "fair", .single = KIND_FAIR, .try = SCRIPT_FAIR_ACQUIRE,
                   .hand_over = SCRIPT_HAND_OVER, .wait = WAIT_FAIR, .keeps_place = true,
                   .not_in_quorum = "kind: a quorum has no fair locks, for its servers would "
                                    "have to agree on one order of the waiters"},
    [KIND_READ] = {ONE_LOCK, READING, .set = KIND_SET_READ, BY_READ_WRITE},
    [KIND_WRITE] = {ONE_LOCK, WRITING, .set = KIND_SET_WRITE, BY_READ_WRITE},
    [KIND_SET_LOCK] = {SET_OF_LOCKS, PLAIN},
    [KIND_SET_READ] = {SET_OF_LOCKS, READING},
    [KIND_SET_WRITE] = {SET_OF_LOCKS, WRITING},
    [KIND_PERMIT] = {.name = "permit",
                     .member = "permit_semaphore",
                     .family = FAMILY_PERMIT,
                     .single = KIND_PERMIT,
                     .try = SCRIPT_PERMIT_ACQUIRE,
                     .withdraw = SCRIPT_PERMIT_WITHDRAW,
                     .renew = SCRIPT_PERMIT_RENEW,
                     .release = SCRIPT_PERMIT_RELEASE,
                     .hand_over = SCRIPT_PERMIT_HAND_OVER,
                     .record = KEY_LEASE,
                     .wait = WAIT_SEMAPHORE,
                     .wants = 1,
                     .leaves_some = true},
    [KIND_SEMAPHORE] = {.name = "semaphore",
                        .member = "semaphore",
                        .family = FAMILY_SEMAPHORE,
                        .single = KIND_SEMAPHORE,
                        .try = SCRIPT_SEMAPHORE_ACQUIRE,
                        .withdraw = SCRIPT_COUNTER_WITHDRAW,
                        .record = KEY_IDEMPOTENCY,
                        .wait = WAIT_SEMAPHORE,
                        .leaves_some = true},
    /* The record of a latch's waiter never holds anything: its withdrawal only removes the
     * waiter. */
    [KIND_LATCH] = {.name = "latch",
                    .member = "latch",
                    .family = FAMILY_LATCH,
                    .single = KIND_LATCH,
                    .try = SCRIPT_LATCH_AWAIT,
                    .withdraw = SCRIPT_COUNTER_WITHDRAW,
                    .record = KEY_IDEMPOTENCY,
                    .wait = WAIT_LATCH,
                    .leaves_some = true},
};

enum object_kind kind_find(const char *name)
{
    for (enum object_kind kind = KIND_NONE + 1; kind < KIND_COUNT; kind++)
        if (kind_rows[kind].single == kind && strcmp(kind_rows[kind].name, name) == 0)
            return kind;
    return KIND_NONE;
}

const struct kind_row *kind_row_of(const char *name)
{
    enum object_kind kind = kind_find(name);

    return &kind_rows[kind != KIND_NONE ? kind : KIND_LOCK];
}
