/* The record that Redis keeps of a lease: lines of text, written and read by the scripts, too
 * (see lib/record.lua). */
#ifndef RLOCKD_STORAGE_STORE_LEASE_RECORD_H
#define RLOCKD_STORAGE_STORE_LEASE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "storage/store/lease.h"

struct lease_record {
    char state[16];  /* waiting, held or ended */
    char detail[16]; /* of a held or ended lease: see lib/record.lua */
    int64_t since_ms, ttl_ms;
    char note[LOCK_NOTE_SIZE];
    char caller[LEASE_CALLER_SIZE]; /* who acquired the lease; empty: not known */
    char session_id[SESSION_ID_SIZE];
    char session_name[SESSION_NAME_SIZE];
    char owner[LOCK_OWNER_SIZE];
    int64_t fencing_token; /* 0: the record has none */
    bool watchdog;
    char kind[KIND_NAME_SIZE];
};

/* Before the caller's name, which stands behind the note or the session's name on one line: so
 * front ends that know no callers read the records, too. No text of a client has this
 * character. */
#define LEASE_CALLER_MARK '\x1f'

/* Longer than all fields of a lease. */
enum { LEASE_RECORD_SIZE = 1024 };

struct lease_record_text {
    size_t len;
    char text[LEASE_RECORD_SIZE];
};

/* The record of a lease that is being granted, without the values that only Redis knows. */
void lease_record_write(struct lease_record_text *record, const struct lease *lease,
                        const char *session_name);

/* An empty or strange text gives an empty record. */
void lease_record_parse(struct lease_record *record, const char *text, size_t len);

/* When a lease was granted that holds, in µs of Redis' clock; 0: not known. `fencing_token`: 0,
 * of a permit. */
int64_t lease_granted_us(int64_t fencing_token, const struct lease_record *record);

/* Cuts the caller behind the mark off a line into `caller`, "" where there is none. */
void lease_record_split(char *line, char caller[LEASE_CALLER_SIZE]);

/* Cuts the next line off [*text, end) into `out`: "" at the end, or where it does not fit. */
void lease_record_line(const char **text, const char *end, char *out, size_t out_size);

#endif
