/* The notes of a session's long waits. */
#include "storage/notes/waits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/lease_ref.h"
#include "storage/store/reply_word.h"
#include "storage/store/store_call.h"

struct note_call {
    session_wait_done *done;
    void *arg;
};

static bool is_text(const struct redis_value *value, const char *text)
{
    size_t len;
    const char *found = value_text(value, &len);

    return len == strlen(text) && memcmp(found, text, len) == 0;
}

enum on_deadlock session_on_deadlock_read(const struct redis_value *value)
{
    return is_text(value, ON_DEADLOCK_WORD) ? ON_DEADLOCK_REFUSE : ON_DEADLOCK_TELL;
}

static void on_noted(void *arg, const struct redis_result *result)
{
    struct note_call call = *(struct note_call *)arg;
    struct session_wait_noted noted = {.outcome = call_outcome_of(result)};

    free(arg);
    if (noted.outcome == CALL_DONE && is_text(value_at(result->reply, 0), "noted")) {
        noted.is_noted = true;
        noted.since_ms = value_integer(value_at(result->reply, SESSION_WAIT_REPLY_NOTED_SINCE));
        noted.on_deadlock = session_on_deadlock_read(
            value_at(result->reply, SESSION_WAIT_REPLY_NOTED_ON_DEADLOCK));
    }
    call.done(call.arg, &noted);
}

void session_wait_note(struct store *store, const struct lease *lease, const char *wait_id,
                       int64_t waited_ms, const char *question, session_wait_done *done,
                       void *arg)
{
    struct note_call *note = malloc(sizeof(*note));
    struct store_call *call = call_begin(store, SCRIPT_SESSION_WAIT);
    struct key_base session = call_base(lease->session_id);
    struct lease_ref ref;

    assert(note != NULL);
    *note = (struct note_call){.done = done, .arg = arg};
    lease_ref_make(&ref, store_config(store)->key_prefix, lease);
    call_key(call, SESSION_WAIT_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_WAIT_KEY_WAITS, KEY_SESSION_WAITS, session, NULL);
    call_string(call, SESSION_WAIT_ARG_WAIT_ID, wait_id);
    call_number(call, SESSION_WAIT_ARG_WAITED_MS, waited_ms);
    call_number(call, SESSION_WAIT_ARG_LIFE_MS, SESSION_WAIT_LIFE_MS);
    call_number(call, SESSION_WAIT_ARG_LIMIT, SESSION_WAITS_MAX);
    call_string(call, SESSION_WAIT_ARG_OWNER, lease->owner);
    call_string(call, SESSION_WAIT_ARG_NOTE, lease->note);
    call_text(call, SESSION_WAIT_ARG_REF, ref.text, ref.len);
    if (question != NULL)
        call_string(call, SESSION_WAIT_ARG_QUESTION, question);
    call_send(call, on_noted, note);
    lease_ref_release(&ref);
}

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

void session_wait_end(struct store *store, const char *session_id, const char *wait_id)
{
    struct key waits;

    key_make(&waits, KEY_SESSION_WAITS, session_id, strlen(session_id), NULL);
    const char *argv[] = {"HDEL", waits.text, wait_id};
    const size_t lens[] = {4, waits.len, strlen(wait_id)};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(waits.text, waits.len);
    topology_command(store_topology(store), &tag, &command, on_ignored, NULL);
}

/* --- reading ------------------------------------------------------------------------------ */

struct read_call {
    session_waits_done *done;
    void *arg;
};

static const char *text_at(const struct redis_value *list, size_t at)
{
    size_t len;

    return value_text(value_at(list, at), &len);
}

size_t session_wait_views_read(const struct redis_value *list,
                               struct session_wait_view views[SESSION_WAITS_MAX])
{
    size_t count = value_count(list) / SESSION_WAITS_REPLY_WAIT_VALUES;

    if (count > SESSION_WAITS_MAX)
        count = SESSION_WAITS_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t at = i * SESSION_WAITS_REPLY_WAIT_VALUES;
        struct session_wait_view *view = &views[i];
        view->wait_id = text_at(list, at + SESSION_WAITS_REPLY_WAIT_WAIT_ID);
        view->since_ms = value_integer(value_at(list, at + SESSION_WAITS_REPLY_WAIT_SINCE));
        view->owner = text_at(list, at + SESSION_WAITS_REPLY_WAIT_OWNER);
        view->answered = text_at(list, at + SESSION_WAITS_REPLY_WAIT_ANSWERED);
        view->note = text_at(list, at + SESSION_WAITS_REPLY_WAIT_NOTE);
        view->ref = value_text(value_at(list, at + SESSION_WAITS_REPLY_WAIT_REF),
                               &view->ref_len);
    }
    return count;
}

static void on_read(void *arg, const struct redis_result *result)
{
    struct read_call call = *(struct read_call *)arg;
    struct session_wait_view views[SESSION_WAITS_MAX];
    struct session_waits waits = {
        .outcome = call_outcome_of(result), .session_name = "", .waits = views};

    free(arg);
    if (waits.outcome == CALL_DONE && is_text(value_at(result->reply, 0), "waits")) {
        waits.session_name = text_at(result->reply, SESSION_WAITS_REPLY_WAITS_SESSION_NAME);
        waits.count = session_wait_views_read(
            value_at(result->reply, SESSION_WAITS_REPLY_WAITS_WAITS), views);
    }
    call.done(call.arg, &waits);
}

void session_waits_read(struct store *store, const char *session_id, const char *owner,
                        const char *question, session_waits_done *done, void *arg)
{
    struct read_call *read = malloc(sizeof(*read));
    struct store_call *call = call_begin(store, SCRIPT_SESSION_WAITS);
    struct key_base session = call_base(session_id);

    assert(read != NULL);
    *read = (struct read_call){.done = done, .arg = arg};
    call_key(call, SESSION_WAITS_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_WAITS_KEY_WAITS, KEY_SESSION_WAITS, session, NULL);
    call_string(call, SESSION_WAITS_ARG_OWNER, owner);
    call_number(call, SESSION_WAITS_ARG_LIMIT, SESSION_WAITS_MAX);
    if (question != NULL)
        call_string(call, SESSION_WAITS_ARG_QUESTION, question);
    call_send(call, on_read, read);
}
