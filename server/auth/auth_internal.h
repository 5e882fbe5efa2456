/* A set of API tokens, as the files that read it from a file and that search it share it. */
#ifndef RLOCKD_SERVER_AUTH_AUTH_INTERNAL_H
#define RLOCKD_SERVER_AUTH_AUTH_INTERNAL_H

#include "server/auth/auth.h"
#include "server/auth/auth_hash.h"
#include "server/auth/auth_usage.h"

/* A line of the file. */
struct auth_caller {
    char name[AUTH_CALLER_SIZE];
    unsigned char hash[AUTH_HASH_LEN]; /* of the token */
    int line;
    size_t right_count;
    struct auth_right *rights;
    int64_t expires_s; /* since 1970; INT64_MAX: never */
    struct auth_limits limits;
    struct auth_usage *usage;
};

struct auth {
    size_t count;
    struct auth_caller *callers;
    size_t slot_count; /* a power of two */
    const struct auth_caller **slots;
};

/* auth.c */
/* Where the caller with this hash is in `slots`, or would be: by the hash itself, so that it
 * costs the same however many there are. The time of a look-up tells only of the hash of a
 * guess, from which no token can be made. */
const struct auth_caller **auth_slot(const struct auth *auth,
                                     const unsigned char hash[AUTH_HASH_LEN]);

/* auth_line.c */
/* Reads a line of the file, of `len` bytes with its newline; it is cut into words in place.
 * Returns the reason why the line is refused, or NULL; the line has no caller when `caller` has
 * no name. The memory that the caller points to is the set's afterwards. */
const char *auth_read_line(char *line, size_t len, struct auth_caller *caller);

#endif
