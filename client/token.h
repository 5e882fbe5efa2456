/* Tokens of leases and sessions, and idempotency keys. */
#ifndef RLOCK_CLIENT_TOKEN_H
#define RLOCK_CLIENT_TOKEN_H

#include <stdbool.h>

enum { TOKEN_SIZE = 37 }; /* as text */

/* A UUID of version 4 (RFC 9562). False: no random bytes. */
bool token_make(char out[TOKEN_SIZE]) __attribute__((warn_unused_result));

#endif
