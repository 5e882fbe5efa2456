/* Holders of a lock: the fields of its hash (<uuid>:<thread> with Redisson), and the known
 * facts about the client behind a field. */
#ifndef RLOCKD_STORAGE_STORE_HOLDER_H
#define RLOCKD_STORAGE_STORE_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/lease.h"

/* A holder of a lock. */
struct lock_holder {
    char field[LOCK_HOLDER_SIZE]; /* of the hash in Redis; empty: no holder, or unknown */
    int64_t hold_count;
    char note[LOCK_NOTE_SIZE];
    char session_id[SESSION_ID_SIZE]; /* with name and owner: empty when there is none */
    char session_name[SESSION_NAME_SIZE];
    char owner[LOCK_OWNER_SIZE];
    char caller[LEASE_CALLER_SIZE]; /* who acquired the lease; empty: not known */
    bool watchdog;
    char kind[KIND_NAME_SIZE]; /* as far as the data tells */
    int64_t fencing_token;     /* 0: not known */
    int64_t remaining_ms;      /* negative: unknown */
};

/* True for the holder field of a lease of rlockd without an owner; then sets `lease_id`. */
bool lock_holder_is_lease(const char *holder, char lease_id[LEASE_ID_SIZE]);
/* Whether the holder is a lease or an owner of rlockd: their ids are UUIDs of version 5, those
 * of Java clients of version 4. */
bool lock_holder_is_ours(const char *holder);
/* Length of a holder field without the mark of a writer. */
size_t lock_holder_len(const char *holder);
/* True when a hash with this field alone is a lock, of rlockd or of Redisson. */
bool lock_is_holder(const char *field);

/* Completes a holder whose field is known from `text`: the record of its lease; for an owner
 * three lines, field, kind and session name; or "". */
void lock_holder_parse(struct lock_holder *holder, const char *text, size_t len);

#endif
