/* The watchers of sessions, and the messages of Redis that notify them. */
#include "storage/wait/session_watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "storage/store/key.h"
#include "storage/wait/acquire_internal.h"

struct session_watch {
    struct session_watch_options options;
    struct subscription sessions;
    struct session_watcher *of_sessions[SESSION_LISTS];
};

static struct session_watcher **list_of(struct session_watch *watch, const char *session_id)
{
    return &watch->of_sessions[session_list(session_id)];
}

void session_watcher_stop(struct session_watcher *watcher)
{
    struct session_watch *watch = watcher->watch;

    if (watch == NULL)
        return;
    watcher->watch = NULL;
    timer_cancel(loop_timers(watch->options.loop), &watcher->deadline);
    watch->options.slots->used--;
    DL_DELETE(*list_of(watch, watcher->session_id), watcher);
}

static void notify(void *arg)
{
    struct session_watcher *watcher = arg;

    session_watcher_stop(watcher);
    watcher->notified(watcher->arg);
}

bool session_watcher_start(struct session_watch *watch, struct session_watcher *watcher,
                           int64_t deadline_ns)
{
    struct wait_slots *slots = watch->options.slots;

    assert(watcher->watch == NULL);
    if (slots->used >= slots->limit)
        return false;
    slots->used++;
    watcher->watch = watch;
    watcher->deadline = (struct timer){.fire = notify, .arg = watcher};
    timer_arm(loop_timers(watch->options.loop), &watcher->deadline, deadline_ns);
    DL_APPEND(*list_of(watch, watcher->session_id), watcher);
    return true;
}

/* Notifies the watchers of a session; NULL: all of the list. A watcher that its callback starts
 * again is at the end of the list, behind the last watcher that is notified. */
static void notify_each(struct session_watcher **list, const char *session_id)
{
    struct session_watcher *watcher, *next;
    const struct session_watcher *last = *list != NULL ? (*list)->prev : NULL;

    DL_FOREACH_SAFE(*list, watcher, next) {
        bool is_last = watcher == last;
        if (session_id == NULL || strcmp(watcher->session_id, session_id) == 0)
            notify(watcher);
        if (is_last)
            return;
    }
}

void session_watch_notify_all(struct session_watch *watch)
{
    for (size_t i = 0; i < SESSION_LISTS; i++)
        notify_each(&watch->of_sessions[i], NULL);
}

/* Messages that were published meanwhile are lost, also one that the session of a waiting
 * request has ended. */
static void on_ready(void *arg)
{
    struct session_watch *watch = arg;

    session_watch_notify_all(watch);
    acquirer_doubt_notes(watch->options.acquirer);
}

static void on_question(struct session_watch *watch, const char *session_id, const char *text,
                        size_t len)
{
    char question[ATTEMPT_ID_SIZE];

    if (len == 0 || len >= sizeof(question))
        return;
    memcpy(question, text, len);
    question[len] = '\0';
    long_waits_asked(watch->options.long_waits, session_id, question);
}

/* "<owner> <name of the lock>". */
static void on_grant(struct session_watch *watch, const char *session_id, const char *text,
                     size_t len)
{
    const char *space = memchr(text, ' ', len);
    size_t owner_len = space != NULL ? (size_t)(space - text) : 0;
    struct owner_grant grant;

    if (owner_len == 0 || owner_len >= sizeof(grant.owner))
        return;
    memcpy(grant.owner, text, owner_len);
    grant.owner[owner_len] = '\0';
    grant.name = space + 1;
    grant.len = len - owner_len - 1;
    acquirer_session_changed(watch->options.acquirer, session_id, &grant);
}

static void on_message(void *arg, const char *payload, size_t len)
{
    struct session_watch *watch = arg;
    char session_id[SESSION_ID_SIZE];
    size_t id_len = SESSION_ID_SIZE - 1;

    if (len < id_len)
        return;
    memcpy(session_id, payload, id_len);
    session_id[id_len] = '\0';
    if (len == id_len) {
        notify_each(list_of(watch, session_id), session_id);
        acquirer_session_changed(watch->options.acquirer, session_id, NULL);
    } else if (payload[id_len] == ' ') {
        on_question(watch, session_id, payload + id_len + 1, len - id_len - 1);
    } else if (payload[id_len] == ':') {
        on_grant(watch, session_id, payload + id_len + 1, len - id_len - 1);
    }
}

struct session_watch *session_watch_new(const struct session_watch_options *options)
{
    struct session_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->options = *options;
    watch->sessions = (struct subscription){
        .ready = on_ready, .message = on_message, .arg = watch};
    topology_subscribe(options->topology, &watch->sessions, CHANNEL_SESSIONS,
                       strlen(CHANNEL_SESSIONS));
    return watch;
}

void session_watch_free(struct session_watch *watch)
{
    for (size_t i = 0; i < SESSION_LISTS; i++)
        assert(watch->of_sessions[i] == NULL);
    topology_unsubscribe(watch->options.topology, &watch->sessions);
    free(watch);
}
