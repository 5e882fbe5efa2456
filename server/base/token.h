/* Lease and session tokens, and the public ids derived from them. */
#ifndef RLOCKD_SERVER_BASE_TOKEN_H
#define RLOCKD_SERVER_BASE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

/* Canonical UUID text and its NUL. */
#define TOKEN_TEXT_SIZE 37

/* Longer than any name, note or id of a client. */
enum { TOKEN_NAME_MAX = 1024 };

/* True when `text` is a UUID as RFC 9562 §4 writes it (8-4-4-4-12 hex digits of either case)
 * and not nil; `canonical` is then its lower-case form. */
bool token_parse(const char *text, char canonical[TOKEN_TEXT_SIZE])
    __attribute__((warn_unused_result));

/* A token of the server's own. */
void token_make(char out[TOKEN_TEXT_SIZE]);

/* Whether token_make() of any rlockd made the token. Redis keeps no record of such a token when
 * its lock is free, so no record tells a spent token from a token that was never used. This
 * function does: a token that a server made and that holds no lease is spent. */
bool token_is_server_made(const char canonical[TOKEN_TEXT_SIZE]);

/* The public ids: UUIDv5 of the canonical token, each kind in a namespace of its own. Nobody
 * can go back from an id to its token. */
void token_lease_id(const char canonical[TOKEN_TEXT_SIZE], char out[TOKEN_TEXT_SIZE]);
void token_session_id(const char canonical[TOKEN_TEXT_SIZE], char out[TOKEN_TEXT_SIZE]);

/* The token of a client that has an id instead of one, for the object `name`. The id need not
 * be secret: each client that knows it has the same token. */
void token_of_client(const char *name, const char *client_id, char out[TOKEN_TEXT_SIZE]);

/* The id of a lease without a token: no client can renew or release the lease by a token, for
 * no token leads to the id. The id shows that the server wrote the `note` of the lease on the
 * object `name`. */
void token_id_of_note(const char *name, const char *note, char out[TOKEN_TEXT_SIZE]);

/* `hex_len` random lower-case hex digits and a NUL: `out` has room for hex_len + 1. */
void token_random_hex(char *out, size_t hex_len);

/* Is it a UUID of version 5, as ids that everyone may see are, and tokens mostly are not?
 * `text` was taken by token_parse(). */
bool token_is_public_id(const char *text);

#endif
