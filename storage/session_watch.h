/* Who wants to know when something happens to a session: hanging keep-alives, and waiters whose
 * session may end. Says that something happened, not what: ask session_look(). */
#ifndef RLOCKD_STORAGE_SESSION_WATCH_H
#define RLOCKD_STORAGE_SESSION_WATCH_H

#include <stdint.h>

#include "server/loop.h"
#include "storage/acquire.h"
#include "storage/lock_store.h"
#include "storage/subscriber.h"

struct session_watch;

/* One interest, embedded in its owner. */
struct session_watcher {
    struct session_watcher *prev, *next;
    struct session_watch *watch; /* NULL: not watching */
    char session_id[SESSION_ID_SIZE];
    struct timer deadline;
    void (*stirred)(void *arg);
    void *arg;
};

struct session_watch_options {
    struct loop *loop;
    struct subscriber *subscriber;
    struct acquirer *acquirer;
    struct parking *parking;
};

struct session_watch *session_watch_new(const struct session_watch_options *options);
/* Nobody may be watching any more. */
void session_watch_free(struct session_watch *watch);

/* `stirred` comes once: when something happened to the session, when it may have been missed,
 * or at `deadline_ns`. The watcher is then off, and may be started again. False: too many
 * requests hang here already, so this one had better be answered. */
bool session_watcher_start(struct session_watch *watch, struct session_watcher *watcher,
                           int64_t deadline_ns) __attribute__((warn_unused_result));
void session_watcher_stop(struct session_watcher *watcher);
/* Stirs everyone: a drain, or Redis is back. */
void session_watch_stir_all(struct session_watch *watch);

#endif
