/* The kinds of objects. */
#include "storage/objects/kind.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "storage/objects/key.h"

static const struct kind_row rows[KIND_COUNT] = {
    [KIND_LOCK] = {.name = "lock",
                   .member = "lock",
                   .family = FAMILY_LOCK,
                   .set = KIND_SET_LOCK,
                   .single = KIND_LOCK,
                   .try = SCRIPT_ACQUIRE,
                   .withdraw = SCRIPT_WITHDRAW,
                   .renew = SCRIPT_RENEW,
                   .release = SCRIPT_RELEASE,
                   .record = KEY_LEASE,
                   .wait = WAIT_LOCK},
    [KIND_FAIR] = {.name = "fair",
                   .member = "lock",
                   .family = FAMILY_LOCK,
                   .single = KIND_FAIR,
                   .try = SCRIPT_FAIR_ACQUIRE,
                   .withdraw = SCRIPT_WITHDRAW,
                   .renew = SCRIPT_RENEW,
                   .release = SCRIPT_RELEASE,
                   .record = KEY_LEASE,
                   .wait = WAIT_FAIR,
                   .keeps_place = true},
    /* Where a writer has to wait, a reader may get in: it wants less. */
    [KIND_READ] = {.name = "read",
                   .member = "lock",
                   .family = FAMILY_LOCK,
                   .set = KIND_SET_READ,
                   .single = KIND_READ,
                   .try = SCRIPT_RW_ACQUIRE,
                   .withdraw = SCRIPT_WITHDRAW,
                   .renew = SCRIPT_RENEW,
                   .release = SCRIPT_RELEASE,
                   .record = KEY_LEASE,
                   .wait = WAIT_READ_WRITE,
                   .wants = 1,
                   .leaves_some = true,
                   .shares_holder = true},
    [KIND_WRITE] = {.name = "write",
                    .member = "lock",
                    .family = FAMILY_LOCK,
                    .set = KIND_SET_WRITE,
                    .single = KIND_WRITE,
                    .try = SCRIPT_RW_ACQUIRE,
                    .withdraw = SCRIPT_WITHDRAW,
                    .renew = SCRIPT_RENEW,
                    .release = SCRIPT_RELEASE,
                    .record = KEY_LEASE,
                    .wait = WAIT_READ_WRITE,
                    .wants = 2,
                    .shares_holder = true},
    [KIND_SET_LOCK] = {.name = "lock",
                       .member = "locks",
                       .family = FAMILY_SET,
                       .single = KIND_LOCK,
                       .try = SCRIPT_SET_ACQUIRE,
                       .withdraw = SCRIPT_WITHDRAW,
                       .renew = SCRIPT_RENEW,
                       .release = SCRIPT_RELEASE,
                       .record = KEY_MEMBER,
                       .wait = WAIT_LOCK},
    [KIND_SET_READ] = {.name = "read",
                       .member = "locks",
                       .family = FAMILY_SET,
                       .single = KIND_READ,
                       .try = SCRIPT_SET_ACQUIRE,
                       .withdraw = SCRIPT_WITHDRAW,
                       .renew = SCRIPT_RENEW,
                       .release = SCRIPT_RELEASE,
                       .record = KEY_MEMBER,
                       .wait = WAIT_READ_WRITE,
                       .wants = 1,
                       .leaves_some = true,
                       .shares_holder = true},
    [KIND_SET_WRITE] = {.name = "write",
                        .member = "locks",
                        .family = FAMILY_SET,
                        .single = KIND_WRITE,
                        .try = SCRIPT_SET_ACQUIRE,
                        .withdraw = SCRIPT_WITHDRAW,
                        .renew = SCRIPT_RENEW,
                        .release = SCRIPT_RELEASE,
                        .record = KEY_MEMBER,
                        .wait = WAIT_READ_WRITE,
                        .wants = 2,
                        .shares_holder = true},
    [KIND_PERMIT] = {.name = "permit",
                     .member = "permit_semaphore",
                     .family = FAMILY_PERMIT,
                     .single = KIND_PERMIT,
                     .try = SCRIPT_PERMIT_ACQUIRE,
                     .withdraw = SCRIPT_PERMIT_WITHDRAW,
                     .renew = SCRIPT_PERMIT_RENEW,
                     .release = SCRIPT_PERMIT_RELEASE,
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
    /* The record of a latch's waiter never did anything: its withdrawal leaves the waiters. */
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

const struct kind_row *kind_row(enum object_kind kind)
{
    assert(kind > KIND_NONE && kind < KIND_COUNT);
    return &rows[kind];
}

enum object_kind kind_find(const char *name)
{
    for (enum object_kind kind = KIND_NONE + 1; kind < KIND_COUNT; kind++)
        if (rows[kind].single == kind && strcmp(rows[kind].name, name) == 0)
            return kind;
    return KIND_NONE;
}

const struct kind_row *kind_row_of(const char *name)
{
    enum object_kind kind = kind_find(name);

    return &rows[kind != KIND_NONE ? kind : KIND_LOCK];
}
