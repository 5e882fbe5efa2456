/* GET /v1/locks?order=…: names from the picture of the census, and a look at each of them. */
#include "handlers/locks_longest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/context.h"
#include "handlers/deadlock_reply.h"
#include "handlers/holders.h"
#include "handlers/lease_reply.h"
#include "handlers/lock_view.h"
#include "server/http/request.h"

enum {
    LOOKS_MAX = 8,    /* at once: Redis and this worker serve others between them */
    WAITERS_SHOWN = 4 /* of each lock */
};

struct longest;

/* A lock of the listing. */
struct longest_lock {
    struct longest *longest;
    struct census_entry entry;
    char *text; /* what the answer says of it; NULL: the hold or wait has ended */
};

/* A listing under way: the answer is written when all looks are done, in the picture's order.
 */
struct longest {
    struct http_request *request;
    struct store *store;
    enum census_kind kind;
    char prefix[HTTP_NAME_MAX + 1];
    size_t limit;
    int64_t longer_than_ms, age_ms, now_ms;
    enum call_outcome outcome;
    size_t count, next, pending;
    struct longest_lock locks[CENSUS_ENTRIES_MAX];
};

static void finish(struct longest *longest)
{
    struct json_text body;

    if (longest->outcome == CALL_DONE) {
        json_text_begin(&body);
        json_text_open_array(&body, "locks");
        for (size_t i = 0; i < longest->count; i++)
            if (longest->locks[i].text != NULL)
                json_text_element(&body, longest->locks[i].text,
                                  strlen(longest->locks[i].text));
        json_text_close_array(&body);
        if (longest->age_ms >= 0)
            json_text_integer(&body, "as_of", longest->age_ms);
        else
            json_text_raw(&body, "as_of", "null", 4);
        json_text_raw(&body, "next_cursor", "null", 4);
        http_reply_written(longest->request, 200, &body);
    } else {
        reply_unavailable(longest->request, longest->outcome);
    }
    for (size_t i = 0; i < longest->count; i++)
        free(longest->locks[i].text);
    free(longest);
}

/* Whether the lock is still held by the grant of the picture. Of many readers a look names any
 * few: then it may be. */
static bool is_held_still(const struct census_entry *entry, const struct lock_view *view)
{
    bool was_read = strcmp(entry->kind, "read") == 0;

    if (!view->locked || (was_read && strcmp(view->kind, "read") != 0))
        return false;
    for (size_t i = 0; i < view->holders_shown; i++)
        if (strcmp(view->holders[i].field, entry->who) == 0)
            return entry->at_least || view->holders[i].fencing_token / 1000 <= entry->since_ms;
    return was_read && view->holder_count > view->holders_shown;
}

/* What the census has seen of a holder whose grant has no time. */
static void add_seen(json_t *json, const struct lock_view *view,
                     const struct census_entry *entry, int64_t held_ms)
{
    json_t *holders = json_object_get(json, "holders");

    json_object_set_new(json, "held_at_least", json_true());
    for (size_t i = 0; i < view->holders_shown; i++) {
        if (strcmp(view->holders[i].field, entry->who) != 0)
            continue;
        holder_add_held(json_array_get(holders, i), held_ms);
        json_object_set_new(json_array_get(holders, i), "held_at_least", json_true());
    }
}

static json_t *lock_json(const struct longest *longest, const struct census_entry *entry,
                         const struct lock_view *view)
{
    bool is_held = longest->kind == CENSUS_HELD;

    if (is_held ? !is_held_still(entry, view) : !view->locked || view->waiter_count == 0)
        return NULL;
    json_t *json = lock_view_json(http_context(longest->request), entry->name, view);
    json_object_set_new(json, is_held ? "held_ms" : "waited_ms",
                        json_integer(longest->now_ms - entry->since_ms));
    if (entry->at_least)
        add_seen(json, view, entry, longest->now_ms - entry->since_ms);
    if (!is_held) {
        json_object_set_new(json, "waiter_count", json_integer((json_int_t)view->waiter_count));
        json_object_set_new(json, "waiters", lock_waiters_json(view));
        json_object_set_new(json, "deadlock", deadlock_shown(longest->request, view->deadlock));
    }
    return json;
}

static void look_on(struct longest *longest);

static void on_looked(void *arg, const struct lock_view *view)
{
    struct longest_lock *lock = arg;
    struct longest *longest = lock->longest;

    if (view->outcome == CALL_DONE) {
        json_t *json = lock_json(longest, &lock->entry, view);
        lock->text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
        json_decref(json);
    } else if (view->outcome != CALL_WRONG_TYPE) {
        longest->outcome = view->outcome;
    }
    if (--longest->pending == 0)
        look_on(longest);
}

static void look_on(struct longest *longest)
{
    const struct lock_query query = {
        .holders_max = LIST_HOLDERS_SHOWN,
        .waiters_max = longest->kind == CENSUS_WAITED ? WAITERS_SHOWN : 0};

    while (longest->outcome == CALL_DONE && longest->next < longest->count &&
           longest->pending < LOOKS_MAX) {
        struct longest_lock *lock = &longest->locks[longest->next++];
        longest->pending++;
        lock_get(longest->store, lock->entry.name, &query, on_looked, lock);
    }
    if (longest->pending == 0)
        finish(longest);
}

static void on_read(void *arg, const struct census_reading *reading)
{
    struct longest *longest = arg;

    longest->outcome = reading->outcome;
    longest->age_ms = reading->age_ms;
    longest->now_ms = reading->now_ms;
    for (size_t i = 0; i < reading->picture->count && longest->count < longest->limit; i++) {
        const struct census_entry *entry = &reading->picture->entries[i];
        if (strncmp(entry->name, longest->prefix, strlen(longest->prefix)) != 0 ||
            reading->now_ms - entry->since_ms < longest->longer_than_ms)
            continue;
        longest->locks[longest->count++] = (struct longest_lock){.longest = longest,
                                                                 .entry = *entry};
    }
    look_on(longest);
}

void locks_list_longest(struct http_request *request, enum census_kind kind, const char *prefix,
                        size_t limit, int64_t longer_than_ms)
{
    const struct handler_context *context = http_context(request);
    struct longest *longest = calloc(1, sizeof(*longest));

    assert(longest != NULL && strlen(prefix) < sizeof(longest->prefix));
    longest->request = request;
    longest->store = context->store;
    longest->kind = kind;
    longest->limit = limit;
    longest->longer_than_ms = longer_than_ms;
    memcpy(longest->prefix, prefix, strlen(prefix) + 1);
    census_read(context->store, kind, on_read, longest);
}
