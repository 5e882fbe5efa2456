/* Writes a picture, and compares it with the last one for the log. */
#include "storage/census/publish.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "storage/census/census.h"
#include "storage/census/census_internal.h"
#include "storage/look/locks.h"
#include "storage/store/store_call.h"

struct publishing {
    struct store *store;
    enum census_kind kind;
    const char *worker_id;
    int64_t long_ms, now_ms;
    publish_done *done;
    void *arg;
    char *counts;
    struct census_picture picture, last;
    bool begins[CENSUS_ENTRIES_MAX]; /* the alarm about this entry of the picture */
    size_t next;                     /* entry whose alarm is told next */
};

/* --- the log ------------------------------------------------------------------------------ */

static const char *const begin_messages[] = {
    [CENSUS_HELD] = "a lock is held for long", [CENSUS_WAITED] = "a lock is waited for long"};
static const char *const end_messages[] = {
    [CENSUS_HELD] = "a long hold has ended", [CENSUS_WAITED] = "a long wait has ended"};

static void add_text(json_t *line, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(line, name, json_string(text));
}

/* Lock, kind, how long, and the holder, or the lease that waits. */
static json_t *line_of(enum census_kind kind, const struct census_entry *entry, int64_t now_ms)
{
    char lease_id[LEASE_ID_SIZE];
    json_t *line = json_pack("{s:s, s:s, s:I}", "lock", entry->name, "kind", entry->kind,
                             kind == CENSUS_HELD ? "held_ms" : "waited_ms",
                             (json_int_t)(now_ms - entry->since_ms));

    if (entry->at_least) {
        json_object_set_new(line, "held_at_least", json_true());
        add_text(line, "redisson_holder", entry->who);
    } else if (kind == CENSUS_WAITED) {
        add_text(line, "lease_id", entry->who);
    } else if (lock_holder_is_lease(entry->who, lease_id)) {
        add_text(line, "lease_id", lease_id);
    } else if (lock_is_holder(entry->who)) {
        json_object_set_new(line, "session_id", json_stringn(entry->who, SESSION_ID_SIZE - 1));
    }
    return line;
}

static void tell_next(struct publishing *publishing);

static void tell_begin(struct publishing *publishing, json_t *line)
{
    log_write(LOG_LEVEL_WARN, begin_messages[publishing->kind], line);
    publishing->next++;
}

/* The begin is logged when a look at the lock has said who holds it. */
static void on_looked(void *arg, const struct lock_view *view)
{
    struct publishing *publishing = arg;
    const struct census_entry *entry = &publishing->picture.entries[publishing->next];
    json_t *line = line_of(publishing->kind, entry, publishing->now_ms);

    for (size_t i = 0; view->outcome == CALL_DONE && i < view->holders_shown; i++) {
        const struct lock_holder *holder = &view->holders[i];
        if (strcmp(holder->field, entry->who) != 0)
            continue;
        add_text(line, "session_id", holder->session_id);
        add_text(line, "session_name", holder->session_name);
        add_text(line, "owner", holder->owner);
        if (holder->owner[0] != '\0') /* it may be called "0", as if this were a lease */
            json_object_del(line, "lease_id");
        add_text(line, "caller", holder->caller);
        add_text(line, "note", holder->note);
    }
    tell_begin(publishing, line);
    tell_next(publishing);
}

static void tell_ends(struct publishing *publishing)
{
    for (size_t i = 0; i < publishing->last.count; i++) {
        const struct census_entry *entry = &publishing->last.entries[i];
        const struct census_entry *now = picture_find(&publishing->picture, publishing->kind,
                                                      entry);
        if (entry->is_told && (now == NULL || !now->is_told))
            log_write(LOG_LEVEL_INFO, end_messages[publishing->kind],
                      line_of(publishing->kind, entry, publishing->now_ms));
    }
}

static void finish(struct publishing *publishing)
{
    publishing->done(publishing->arg);
    free(publishing->counts);
    free(publishing);
}

/* One lock is looked at after the other: many alarms may begin at once. */
static void tell_next(struct publishing *publishing)
{
    static const struct lock_query query = {.holders_max = LOCK_HOLDERS_SHOWN};

    while (publishing->next < publishing->picture.count) {
        const struct census_entry *entry = &publishing->picture.entries[publishing->next];
        if (!publishing->begins[publishing->next]) {
            publishing->next++;
        } else if (publishing->kind == CENSUS_HELD) {
            lock_get(publishing->store, entry->name, &query, on_looked, publishing);
            return;
        } else {
            tell_begin(publishing, line_of(publishing->kind, entry, publishing->now_ms));
        }
    }
    tell_ends(publishing);
    finish(publishing);
}

/* --- the picture -------------------------------------------------------------------------- */

static void on_written(void *arg, const struct redis_result *result)
{
    struct publishing *publishing = arg;

    if (result->outcome == REDIS_DONE && value_integer(result->reply) == 1)
        tell_next(publishing);
    else
        finish(publishing);
}

/* Which alarms go on, and which begin. */
static void mark_alarms(struct publishing *publishing)
{
    for (size_t i = 0; i < publishing->picture.count; i++) {
        struct census_entry *entry = &publishing->picture.entries[i];
        const struct census_entry *last = picture_find(&publishing->last, publishing->kind,
                                                       entry);
        bool is_long = publishing->long_ms > 0 &&
                       publishing->now_ms - entry->since_ms >= publishing->long_ms;
        entry->is_told = is_long;
        publishing->begins[i] = is_long && (last == NULL || !last->is_told);
    }
}

static void on_last(void *arg, const struct census_reading *reading)
{
    struct publishing *publishing = arg;

    if (reading->outcome != CALL_DONE) {
        finish(publishing);
        return;
    }
    picture_copy(&publishing->last, reading->picture);
    publishing->now_ms = reading->now_ms;
    mark_alarms(publishing);
    struct store_call *call = call_begin(publishing->store, SCRIPT_CENSUS_WRITE);
    char *picture = picture_text(&publishing->picture);
    census_key(call, publishing->store, CENSUS_WRITE_KEY_CENSUS);
    call_string(call, CENSUS_WRITE_ARG_WORKER_ID, publishing->worker_id);
    call_string(call, CENSUS_WRITE_ARG_PICTURE, census_kind_name(publishing->kind));
    call_string(call, CENSUS_WRITE_ARG_TEXT, picture);
    call_string(call, CENSUS_WRITE_ARG_COUNTS, publishing->counts);
    call_send(call, on_written, publishing);
    free(picture);
}

void census_publish(struct store *store, const struct publication *publication,
                    publish_done *done, void *arg)
{
    struct publishing *publishing = malloc(sizeof(*publishing)); /* filled in as it is needed */

    assert(publishing != NULL);
    publishing->store = store;
    publishing->kind = publication->kind;
    publishing->worker_id = publication->worker_id;
    publishing->long_ms = publication->long_ms;
    publishing->last.count = 0;
    publishing->next = 0;
    publishing->done = done;
    publishing->arg = arg;
    publishing->counts = strdup(publication->counts);
    assert(publishing->counts != NULL);
    picture_copy(&publishing->picture, publication->picture);
    census_read(store, publication->kind, on_last, publishing);
}
