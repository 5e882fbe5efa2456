/* Every operation of the stores, before the Redis of replies.h: the input is some bytes that
 * choose what is asked, and then the replies. Include the header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_ASKS_H
#define RLOCKD_TESTS_FUZZ_ASKS_H

#include "server/base/log.h"
#include "storage/census/census.h"
#include "storage/lease/counters.h"
#include "storage/lease/hand_over.h"
#include "storage/lease/leases.h"
#include "storage/look/locks.h"
#include "storage/look/permits_get.h"
#include "storage/notes/bind.h"
#include "storage/session/session.h"
#include "storage/session/visit.h"
#include "storage/notes/set_names.h"
#include "storage/notes/waits.h"
#include "storage/session/watchdog.h"
#include "storage/lease/withdraw.h"
#include "storage/store/lease_ref.h"
#include "tests/fuzz/replies.h"

#define LEASE_ID "6ba7b810-9dad-51d1-80b4-00c04fd430c8"

static size_t asked, answered;
static size_t sum; /* of what was read: the sanitizer sees each text */

static void look_at(const char *text)
{
    if (text != NULL)
        sum += strlen(text);
}

/* --- callbacks ---------------------------------------------------------------------------- */

/* Of a quorum: nothing is answered that a majority of the servers has not said something about.
 */
static void check_majority(void)
{
    size_t count = 0;

    for (size_t i = 0; i < topology.nodes; i++)
        count += topology.has_replied >> i & 1;
    CHECK(count > topology.nodes / 2 || topology.nodes == 0);
}

static void on_lease(void *arg, const struct lease_result *result)
{
    (void)arg;
    answered++;
    CHECK(result->outcome <= LEASE_FAILED && result->hold_count <= LOCKS_MAX);
    if (result->outcome <= LEASE_ENDED)
        check_majority();
    for (size_t i = 0; i < result->hold_count; i++)
        sum += (size_t)result->holds[i].fencing_token;
    look_at(result->reason);
    look_at(result->session_id);
    if (result->record != NULL)
        look_at(result->record->note);
    if (result->holder != NULL)
        look_at(result->holder->field);
}

static void on_counter(void *arg, const struct counter_result *result)
{
    (void)arg;
    answered++;
    CHECK(result->outcome <= COUNTER_FAILED);
}

static void on_tried(void *arg, const struct attempt_result *result)
{
    (void)arg;
    if (result->lease != NULL)
        on_lease(NULL, result->lease);
    else if (result->counter != NULL)
        on_counter(NULL, result->counter);
    else
        answered++;
}

static void on_handed_over(void *arg, const struct hand_over_result *result)
{
    (void)arg;
    answered++;
    if (result->released != NULL)
        look_at(result->released->session_id);
    if (result->attempt != NULL)
        CHECK(result->attempt->lease != NULL && result->attempt->lease->hold_count <= 1);
}

static void on_view(void *arg, const struct lock_view *view)
{
    (void)arg;
    answered++;
    CHECK(view->holders_shown <= LOCK_HOLDERS_SHOWN &&
          view->waiters_shown <= LOCK_WAITERS_SHOWN);
    for (size_t i = 0; i < view->holders_shown; i++) {
        look_at(view->holders[i].field);
        look_at(view->holders[i].session_name);
    }
    for (size_t i = 0; i < view->waiters_shown; i++)
        look_at(view->waiters[i].note);
}

static void on_listed(void *arg, const char *name, const struct lock_view *view)
{
    (void)arg;
    look_at(name);
    look_at(view->kind);
}

static void on_semaphore_listed(void *arg, const char *name, const struct permits_view *view)
{
    (void)arg;
    (void)view;
    look_at(name);
}

static void on_list(void *arg, const struct lock_list *list)
{
    (void)arg;
    answered++;
    look_at(list->next_cursor);
}

static void on_force(void *arg, const struct force_result *result)
{
    (void)arg;
    CHECK(result->outcome <= FORCE_FAILED);
    answered++;
}

static void on_session(void *arg, const struct session_view *view)
{
    (void)arg;
    answered++;
    CHECK(view->outcome <= SESSION_FAILED);
    for (size_t i = 0; i < view->lease_count; i++) {
        look_at(view->leases[i].lock);
        look_at(view->leases[i].note);
        look_at(view->leases[i].kind);
    }
    for (size_t i = 0; i < view->loss_count; i++) {
        look_at(view->losses[i].text);
        look_at(view->losses[i].reason);
    }
}

static void on_session_list(void *arg, const struct session_list *list)
{
    (void)arg;
    answered++;
    for (size_t i = 0; i < list->count; i++)
        look_at(list->entries[i].name);
}

static void on_bound(void *arg, const struct session_binding *binding)
{
    (void)arg;
    answered++;
    look_at(binding->reason);
    if (binding->outcome == SESSION_BOUND)
        look_at(binding->session_name);
}

static void on_visited(void *arg)
{
    (void)arg;
    answered++;
}

static void on_names(void *arg, const struct set_names *names)
{
    (void)arg;
    answered++;
    if (names->outcome == SET_NAMES_KEPT && names->names != NULL)
        look_at(names->names->name[0]);
}

static void on_permits(void *arg, const struct permits_view *view)
{
    (void)arg;
    answered++;
    CHECK(view->shown <= PERMITS_SHOWN);
    for (size_t i = 0; i < view->shown; i++)
        look_at(view->permits[i].permit_id);
}

/* --- what is asked ------------------------------------------------------------------------ */

static struct lease make_lease(enum object_kind kind, uint8_t flags)
{
    static const char *const names[] = {"orders", "stock"};
    bool is_set = kind_row(kind)->family == FAMILY_SET;
    struct lease lease = {.kind = kind,
                          .names = lock_names_new(names, is_set ? 2 : 1),
                          .id = LEASE_ID,
                          .attempt = "abcd.1",
                          .token = flags & 1 ? TOKEN_RECORDED : TOKEN_FRESH,
                          .watchdog = (flags & 2) != 0,
                          .ttl_ms = flags & 4 ? 30000 : 0,
                          .permits = 1};

    if (flags & 8)
        memcpy(lease.session_id, LEASE_ID, sizeof(lease.session_id));
    if (flags & 16)
        memcpy(lease.owner, "owner", sizeof("owner"));
    return lease;
}

/* Renewals, releases and looks are of kinds that have leases. */
static bool has_leases(enum object_kind kind)
{
    return kind_row(kind)->family <= FAMILY_PERMIT;
}

static void hand_over(struct store *store, const struct lease *lease, int form)
{
    const struct attempt attempt = {.wait_ms = 500, .registered = (form & 1) == 0};
    struct lease next = *lease;

    next.id[0] ^= 1;
    hand_over_send(store, lease, &next, &attempt, (form & 2) != 0, on_handed_over, NULL);
}

static void ask_about_lease(struct store *store, uint8_t what, uint8_t which)
{
    enum object_kind kind = KIND_NONE + 1 + which % (KIND_COUNT - KIND_NONE - 1);
    struct lease lease = make_lease(kind, what);
    struct attempt attempt = {.wait_ms = what & 32 ? 500 : 0, .registered = (what & 64) != 0};
    const struct session_report report = {.verdict = SESSION_LEASE_RENEWED, .kind = "lock"};

    asked++;
    if ((which & 0xE0) == 0 || !has_leases(kind)) {
        attempt_send(store, &lease, &attempt, on_tried, NULL);
    } else if ((which & 0xE0) == 0x20) {
        lease_renew(store, &lease, on_lease, NULL);
    } else if ((which & 0xE0) == 0x40) {
        lease_release(store, &lease, on_lease, NULL);
    } else if ((which & 0xE0) == 0x60 && kind_row(kind)->family == FAMILY_SET) {
        lease_get_set(store, &lease, on_lease, NULL);
    } else if ((which & 0xE0) == 0x60 && hand_over_serves(&lease)) {
        hand_over(store, &lease, what >> 4);
    } else if ((which & 0xE0) == 0x80) {
        lease_withdraw(store, &lease, what & 1 ? KEEP_PLACE : WITHDRAW_PLACE);
        answered++;
    } else if ((which & 0xE0) == 0xA0) {
        session_settle(store, LEASE_ID, &lease, &report, on_bound, NULL);
    } else {
        memcpy(lease.session_id, LEASE_ID, sizeof(lease.session_id));
        session_bind(store, &lease, on_bound, NULL);
    }
    lock_names_unref(lease.names);
}

static void on_census(void *arg, const struct census_reading *reading)
{
    (void)arg;
    answered++;
    CHECK(reading->picture->count <= CENSUS_ENTRIES_MAX);
    for (size_t i = 0; i < reading->picture->count; i++) {
        look_at(reading->picture->entries[i].name);
        look_at(reading->picture->entries[i].who);
    }
}

static void on_waits(void *arg, const struct session_waits *waits)
{
    (void)arg;
    answered++;
    CHECK(waits->count <= SESSION_WAITS_MAX);
    for (size_t i = 0; i < waits->count; i++) {
        struct lease_ref ref;
        look_at(waits->waits[i].note);
        lease_ref_copy(&ref, waits->waits[i].ref, waits->waits[i].ref_len);
        lease_ref_release(&ref);
    }
}

static void on_wait_noted(void *arg, const struct session_wait_noted *noted)
{
    (void)arg;
    answered++;
    CHECK(noted->on_deadlock <= ON_DEADLOCK_REFUSE);
}

static void ask_about_waits(struct store *store, uint8_t which)
{
    struct lease lease = make_lease(KIND_LOCK, 13);

    asked++;
    switch (which & 3) {
    case 0:
        census_read(store, which & 4 ? CENSUS_HELD : CENSUS_WAITED, on_census, NULL);
        break;
    case 1:
        session_waits_read(store, LEASE_ID, "", which & 4 ? "abcd.7" : NULL, on_waits, NULL);
        break;
    default:
        session_wait_note(store, &lease, "abcd.8", 1500, NULL, on_wait_noted, NULL);
        break;
    }
    lock_names_unref(lease.names);
}

static void ask_about_session(struct store *store, uint8_t which)
{
    static const char held[1][LEASE_ID_SIZE] = {LEASE_ID};
    struct session_keep_alive keep_alive = {.received_ns = loop.now_ns,
                                            .says_held = (which & 1) != 0,
                                            .held_count = 1,
                                            .held = held};

    asked++;
    switch (which & 0x70) {
    case 0x00:
        session_open(
            store, LEASE_ID,
            &(struct session_options){.is_returned = which & 1, .ttl_ms = 3000, .name = "name"},
            on_session, NULL);
        break;
    case 0x10:
        session_keep_alive(store, LEASE_ID, &keep_alive, on_session, NULL);
        break;
    case 0x20:
        if (session_look(store, LEASE_ID, 3, "", on_session, NULL) != 0)
            answered++;
        break;
    case 0x30:
        session_end(store, LEASE_ID, on_session, NULL);
        break;
    case 0x40:
        if (session_list(store, 3, "", on_session_list, NULL) != 0)
            answered++;
        break;
    case 0x50:
        set_names_find(store, LEASE_ID, which & 1, on_names, NULL);
        break;
    default:
        session_visit(store, LEASE_ID, "1763800000000", on_visited, NULL);
        break;
    }
}

static void ask_about_object(struct store *store, uint8_t which)
{
    struct lease lease = make_lease(which & 1 ? KIND_LOCK : KIND_FAIR, 13);
    struct lease request = make_lease(KIND_SEMAPHORE, 1);
    const struct lock_query query = {.lease = which & 2 ? &lease : NULL,
                                     .fencing_token = which & 4 ? 7 : 0,
                                     .waiters_max = 3,
                                     .holders_max = 2};

    asked++;
    switch (which & 0xF0) {
    case 0x00:
        lock_get(store, "orders", &query, on_view, NULL);
        break;
    case 0x10:
        if ((which & 2 ? semaphore_list(store, "", 3, "", on_semaphore_listed, on_list, NULL)
                       : lock_list(store, which & 1 ? "o" : "", 3, "", on_listed, on_list,
                                   NULL)) != 0)
            answered++;
        break;
    case 0x20:
        lock_force(store, "orders",
                   &(struct force_order){which & 1 ? "*" : "7", "ops", "a reason"}, on_force,
                   NULL);
        break;
    case 0x30:
        counter_create(store, KIND_SEMAPHORE, "orders", 3, on_counter, NULL);
        break;
    case 0x40:
        counter_delete(store, KIND_PERMIT, "orders", on_counter, NULL);
        break;
    case 0x50:
        semaphore_get(store, "orders", on_counter, NULL);
        break;
    case 0x60:
        semaphore_drain(store, &request, on_counter, NULL);
        break;
    case 0x70:
        semaphore_release(store, &request, which & 1, on_counter, NULL);
        break;
    case 0x80:
        request.kind = KIND_LATCH;
        latch_count_down(store, &request, on_counter, NULL);
        break;
    default:
        permits_get(store, "orders", PERMITS_SHOWN, on_permits, NULL);
        break;
    }
    lock_names_unref(request.names);
    lock_names_unref(lease.names);
}

static void ask(struct store *store, struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input), which = fuzz_byte(input);

    topology.has_replied = 0;
    switch (what >> 6) {
    case 0:
    case 1:
        ask_about_lease(store, what, which);
        break;
    case 2:
        if (what & 0x20)
            ask_about_waits(store, which);
        else
            ask_about_session(store, which);
        break;
    default:
        ask_about_object(store, which);
        break;
    }
}

/* Answers what is asked, also behind pauses: scripts that only look take turns. */
static void answer_until_the_end(void)
{
    enum { PAUSES_MAX = 10000 };

    answer_all();
    for (int i = 0; i < PAUSES_MAX && answered != asked; i++) {
        loop.now_ns += 2 * CLOCK_NS_PER_MS;
        timers_run(&loop.timers, loop.now_ns);
        answer_all();
    }
}

/* `quorum`: its servers; 0: one Redis. */
static void fuzz_stores(const uint8_t *data, size_t size, size_t quorum)
{
    static const struct config single = {.watchdog_timeout_ms = 30000,
                                         .max_wait_ms = 55000,
                                         .retry_window_ms = 60000,
                                         .fencing_ttl_ms = 86400000};
    static struct metrics metrics;
    struct fuzz_input input = {data, size};
    struct config config = single;
    const struct store_options options = {.config = &config,
                                          .loop = &loop,
                                          .metrics = &metrics,
                                          .topology = &topology,
                                          .worker_id = "abcd"};

    log_set_level(LOG_LEVEL_ERROR + 1);
    memset(&metrics, 0, sizeof(metrics));
    config.quarantine_ms = quorum > 0 ? 120000 : 0;
    loop.now_ns = clock_ns();
    topology_init(&input, quorum);
    asked = answered = 0;
    timers_init(&loop.timers);
    struct store *store = store_new(&options);
    CHECK(store != NULL);
    if (quorum > 0)
        store_redis_is_up(store);
    for (uint8_t count = fuzz_byte(&input) & 3; count < 4 && input.size > 0; count++) {
        ask(store, &input);
        answer_until_the_end();
        CHECK(answered ==
              asked); /* whatever Redis says, everything that was asked has an end */
    }
    topology_end();
    store_free(store);
    metrics_release(&metrics);
    timers_release(&loop.timers);
}

#endif
