/* What the session of a look waits for. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/session/keep_alive.h"

/* One wait: its texts outlive the reply. */
struct wait_kept {
    struct lease_ref ref;
    char *owner, *note;
};

struct session_waits_kept {
    size_t count;
    struct session_waiting_view views[SESSION_WAITS_MAX];
    struct wait_kept texts[SESSION_WAITS_MAX];
};

static char *copy(const char *text)
{
    char *copied = strdup(text_is_utf8(text, strlen(text)) ? text : "");

    assert(copied != NULL);
    return copied;
}

/* False: the note names no lock. */
static bool keep(const struct look_call *call, const struct session_wait_view *found,
                 struct wait_kept *texts, struct session_waiting_view *view)
{
    lease_ref_copy(&texts->ref, found->ref, found->ref_len);
    if (texts->ref.lock_count == 0) {
        lease_ref_release(&texts->ref);
        return false;
    }
    texts->owner = copy(found->owner);
    texts->note = copy(found->note);
    lease_ref_id(&texts->ref, view->lease_id);
    view->lock = session_look_names(call->store, &texts->ref, &view->locks);
    view->owner = texts->owner;
    view->note = texts->note;
    view->waited_ms = call->now_ms > found->since_ms ? call->now_ms - found->since_ms : 0;
    return true;
}

void session_look_take_waits(struct look_call *call, const struct redis_value *reply)
{
    struct session_wait_view found[SESSION_WAITS_MAX];
    struct session_view *view = &call->view;
    size_t count = session_wait_views_read(value_at(reply, SESSION_GET_REPLY_OPEN_WAITS),
                                           found);

    view->on_deadlock = session_on_deadlock_read(
        value_at(reply, SESSION_GET_REPLY_OPEN_ON_DEADLOCK));
    if (count == 0)
        return;
    call->waits = calloc(1, sizeof(*call->waits));
    assert(call->waits != NULL);
    view->waits = call->waits->views;
    for (size_t i = 0; i < count; i++) {
        size_t at = call->waits->count;
        if (keep(call, &found[i], &call->waits->texts[at], &call->waits->views[at]))
            call->waits->count++;
    }
    view->wait_count = call->waits->count;
}

/* The view of a look that failed knows of no waits. */
void session_look_free_waits(struct look_call *call)
{
    for (size_t i = 0; call->waits != NULL && i < call->waits->count; i++) {
        struct wait_kept *texts = &call->waits->texts[i];
        lock_names_unref(call->waits->views[i].locks);
        lease_ref_release(&texts->ref);
        free(texts->owner);
        free(texts->note);
    }
    free(call->waits);
}
