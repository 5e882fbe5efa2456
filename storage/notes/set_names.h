/* The names of the locks of a set, kept beside its lease id: requests that come with the token
 * alone find them there. */
#ifndef RLOCKD_STORAGE_NOTES_SET_NAMES_H
#define RLOCKD_STORAGE_NOTES_SET_NAMES_H

#include "storage/store/call_outcome.h"
#include "storage/store/lease.h"
#include "storage/store/lease_ref.h"

struct store;

enum set_names_outcome {
    SET_NAMES_KEPT,   /* as they are, or were */
    SET_NAMES_REUSED, /* the token is that of another set */
    SET_NAMES_SPENT,  /* a release came before any request that acquires */
    SET_NAMES_UNKNOWN,
    SET_NAMES_FAILED /* `failure` */
};

struct set_names {
    enum set_names_outcome outcome;
    enum call_outcome failure;
    struct lock_names *names; /* that were found; gone when the callback returns, unless kept
                                 by a reference */
};

typedef void set_names_done(void *arg, const struct set_names *result);

/* Keeps the names of a lease that is asked for: for `wait_ms`, and for as long as it would
 * hold, but ten minutes at most, for the request may be refused. `done` may be NULL, else it
 * comes exactly once, never before the call returns. */
void set_names_keep(struct store *store, const struct lease *lease, int64_t wait_ms,
                    set_names_done *done, void *arg);
/* Whether the lease, of several locks, may hold for longer than its names are kept by that. */
bool set_names_are_short(const struct lease *lease);
/* Keeps the names of such a lease, which holds, for as long as it does. */
void set_names_hold(struct store *store, const struct lease *lease, set_names_done *done,
                    void *arg);
/* Keeps the names of a set that the watchdog renewed for `keep_ms` more at least. Should that
 * fail, the next renewal tries again. */
void set_names_extend(struct store *store, const struct lease_ref *ref, int64_t keep_ms);
/* The lease has ended: its names are kept for the retry window from now on. */
void set_names_end(struct store *store, const char *lease_id);
/* Whether the reply of lease_end.lua says that the lease has not ended: it is of another
 * session, or a request was answered that it holds. */
bool lease_stays(const struct redis_value *end);
/* The same as set_names_end() for the lease of a note, by the reply of lease_end.lua; nothing
 * if that is a lease of one lock, or goes on. */
void set_names_end_noted(struct store *store, const struct lease_ref *ref,
                         const struct redis_value *end);
/* The result is SET_NAMES_KEPT with the names, or SET_NAMES_UNKNOWN. `spend`: the token of
 * unknown names is spent: a later request with the token acquires nothing. */
void set_names_find(struct store *store, const char *lease_id, bool spend, set_names_done *done,
                    void *arg);

#endif
