/* A lease as its session's home notes it: the lease id, a blank, and the name of its lock with
 * the operator's prefix; of a set the names of its locks, a newline before each. */
#ifndef RLOCKD_STORAGE_STORE_LEASE_REF_H
#define RLOCKD_STORAGE_STORE_LEASE_REF_H

#include <stdbool.h>
#include <stddef.h>

#include "storage/store/lease.h"

struct lease_ref {
    char *text; /* ends in a NUL; the owner of the ref frees it by lease_ref_release() */
    size_t len;
    size_t lock_count; /* 0: the text is no ref, and must not be asked for more */
};

struct lease_ref_name {
    const char *text; /* of `len` bytes, within the ref */
    size_t len;
};

/* Reads of the lease: kind, names, id. */
void lease_ref_make(struct lease_ref *ref, const char *key_prefix, const struct lease *lease);
/* A copy of a text that Redis had. */
void lease_ref_copy(struct lease_ref *ref, const char *text, size_t len);
void lease_ref_release(struct lease_ref *ref);
/* An array of them, and its memory. NULL stays NULL. */
void lease_refs_free(struct lease_ref *refs, size_t count);

void lease_ref_id(const struct lease_ref *ref, char lease_id[LEASE_ID_SIZE]);
/* Whether the lease is of several locks. */
bool lease_ref_is_set(const struct lease_ref *ref);
/* The names of the locks: `lock_count` of them. */
void lease_ref_names(const struct lease_ref *ref, struct lease_ref_name names[LOCKS_MAX]);

#endif
