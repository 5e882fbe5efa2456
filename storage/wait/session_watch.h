/* Requests that have to know when something happens to a session: keep-alives that wait, and
 * acquisitions whose session may end. The notification does not say what happened:
 * session_look() finds out. */
#ifndef RLOCKD_STORAGE_WAIT_SESSION_WATCH_H
#define RLOCKD_STORAGE_WAIT_SESSION_WATCH_H

#include <stdint.h>

#include "server/base/loop.h"
#include "storage/wait/acquire.h"
#include "storage/wait/long_waits.h"
#include "storage/store/store.h"
#include "storage/topology/topology.h"

struct session_watch;

/* One interest, embedded in its owner. */
struct session_watcher {
    struct session_watcher *prev, *next;
    struct session_watch *watch;      /* NULL: not watching */
    char session_id[SESSION_ID_SIZE]; /* stays as it is while watching */
    struct timer deadline;
    void (*notified)(void *arg);
    void *arg;
};

struct session_watch_options {
    struct loop *loop;
    struct topology *topology;
    struct acquirer *acquirer;
    struct long_waits *long_waits;
    struct wait_slots *slots;
};

struct session_watch *session_watch_new(const struct session_watch_options *options);
/* Every watcher must have stopped. */
void session_watch_free(struct session_watch *watch);

/* `notified` comes once: when something happened to the session, when it may have been missed,
 * or at `deadline_ns`. The watcher is then off, and may be started again; `notified` stops no
 * other watcher. False: too many requests hang here already, so this one had better be
 * answered. */
bool session_watcher_start(struct session_watch *watch, struct session_watcher *watcher,
                           int64_t deadline_ns) __attribute__((warn_unused_result));
void session_watcher_stop(struct session_watcher *watcher);
/* Notifies every watcher: a drain, or Redis is back. */
void session_watch_notify_all(struct session_watch *watch);

#endif
