/* The losses that a look at a session names: those that were written down before, and those
 * that it finds. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/session/keep_alive.h"
#include "storage/store/visits.h"

/* `noted`: see session_loss_text(). */
static void add(struct look_call *call, const struct lease_ref *ref, const char *noted,
                const char *reason, const char *kind)
{
    struct look_losses *losses = &call->losses;
    struct session_loss_view *loss = &losses->views[losses->count];

    losses->refs[losses->count] = *ref;
    losses->is_forced[losses->count++] = strcmp(reason, "forced") == 0;
    loss->text = session_loss_text(ref, noted);
    lease_ref_id(ref, loss->lease_id);
    loss->lock = session_look_names(call->store, ref, &loss->locks);
    snprintf(loss->reason, sizeof(loss->reason), "%s", reason);
    snprintf(loss->kind, sizeof(loss->kind), "%s", kind);
}

void session_losses_add(struct look_call *call, const struct lease_ref *ref, const char *reason,
                        const char *kind)
{
    add(call, ref, "", reason, kind);
}

static size_t time_len(const char *text)
{
    size_t len = strspn(text, "0123456789");

    return len > 0 && text[len] == ' ' ? len + 1 : 0;
}

char *session_loss_text(const struct lease_ref *ref, const char *noted)
{
    char *text;
    int len = asprintf(&text, "%.*s%s", (int)time_len(noted), noted, ref->text);

    assert(len > 0);
    return text;
}

void session_losses_take(struct look_call *call)
{
    const struct session_notes *lost = &call->reading.hashes[SESSION_HASH_LOST];
    struct look_losses *losses = &call->losses;
    size_t most = lost->count + call->count + 1;

    losses->known_count = lost->count;
    losses->known = calloc(lost->count + 1, sizeof(*losses->known));
    losses->views = calloc(most, sizeof(*losses->views));
    losses->refs = calloc(most, sizeof(*losses->refs));
    losses->is_forced = calloc(most, sizeof(*losses->is_forced));
    assert(losses->known != NULL && losses->views != NULL);
    assert(losses->refs != NULL && losses->is_forced != NULL);
    for (size_t i = 0; i < lost->count; i++) {
        const char *noted = lost->notes[i].value, *text = noted + time_len(noted);
        size_t reason_len = strcspn(text, "\n");
        char reason[LEASE_REASON_SIZE];
        snprintf(reason, sizeof(reason), "%.*s", (int)reason_len, text);
        losses->known[i] = lost->notes[i].ref;
        if (losses->known[i].lock_count > 0)
            add(call, &losses->known[i], noted, reason,
                text + reason_len + (text[reason_len] == '\n'));
    }
}

static void on_forced_by(void *arg, size_t i, const struct redis_result *result)
{
    struct look_call *call = arg;
    size_t len;

    if (result->outcome != REDIS_DONE)
        return; /* the answer does not wait for it */
    const char *text = value_text(result->reply, &len);
    if (len > 0 && text_is_utf8(text, len))
        call->losses.views[i].forced = strndup(text, len);
}

bool session_losses_ask(struct look_call *call, void (*done)(void *arg))
{
    const struct lease_visit_job job = {
        .script = SCRIPT_FORCED_BY, .line = VISIT_KEEP_ALIVES, .session_id = call->session_id};

    return call->losses.count > 0 &&
           lease_visits_start(call->store, &job, call->losses.refs, call->losses.count,
                              call->losses.is_forced, on_forced_by, done, call);
}

void session_losses_release(struct look_losses *losses)
{
    for (size_t i = 0; i < losses->count; i++) {
        lock_names_unref(losses->views[i].locks);
        free(losses->views[i].forced);
        free(losses->views[i].text);
    }
    free(losses->known);
    free(losses->views);
    free(losses->refs);
    free(losses->is_forced);
}
