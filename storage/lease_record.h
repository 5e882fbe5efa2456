/* The record that Redis keeps of a lease: lines of text, written and read by the scripts, too
 * (see lib/record.lua). */
#ifndef RLOCKD_STORAGE_LEASE_RECORD_H
#define RLOCKD_STORAGE_LEASE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "storage/keys.h"
#include "storage/lock_store.h"

struct lease_record {
    char state[16];  /* waiting, held or ended */
    char detail[16]; /* why it ended; "shared" for a wait by several requests */
    int64_t since_ms, ttl_ms;
    char note[LOCK_NOTE_SIZE];
    char session_id[SESSION_ID_SIZE];
    char owner[LOCK_OWNER_SIZE];
    bool watchdog;
    char kind[LOCK_KIND_SIZE];
};

/* Longer than all fields of a lease and the name of its lock. */
enum { LEASE_RECORD_SIZE = KEY_NAME_MAX + 512 };

struct lease_record_text {
    size_t len;
    char text[LEASE_RECORD_SIZE];
};

/* The record of a lease that has just been granted this lock; but for what only Redis knows. */
void lease_record_write(struct lease_record_text *record, const struct lease *lease,
                        const struct key *lock);

/* An empty or strange text gives an empty record. */
void lease_record_parse(struct lease_record *record, const char *text, size_t len);

#endif
