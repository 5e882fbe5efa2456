/* Tokens and their hashes. An API token is long and random, so one round of SHA-256 is enough:
 * a token cannot be found by trying. */
#ifndef RLOCKD_SERVER_AUTH_AUTH_HASH_H
#define RLOCKD_SERVER_AUTH_AUTH_HASH_H

#include <stdbool.h>
#include <stddef.h>

#include "server/auth/auth.h"

enum {
    AUTH_HASH_LEN = 32,
    AUTH_TOKEN_MIN = 16, /* shorter tokens can be guessed over the network */
    AUTH_TOKEN_MAX = 256
};

void auth_hash(const char *token, size_t len, unsigned char hash[AUTH_HASH_LEN]);
/* In constant time. */
bool auth_hash_equals(const unsigned char a[AUTH_HASH_LEN],
                      const unsigned char b[AUTH_HASH_LEN]);
/* `text`: sha256: and 64 hexadecimal digits. */
bool auth_hash_parse(const char *text, unsigned char hash[AUTH_HASH_LEN])
    __attribute__((warn_unused_result));

/* The password of the credentials of Basic (RFC 7617 §2), without a NUL. False: the credentials
 * are no base64 of a user name, a colon and a password that may be a token. */
bool auth_basic_password(const char *credentials, char password[AUTH_TOKEN_MAX], size_t *len)
    __attribute__((warn_unused_result));

/* The user name of these credentials. False: they are no base64, or the name is empty, too
 * long or has a NUL. */
bool auth_basic_name(const char *credentials, char name[AUTH_CALLER_SIZE])
    __attribute__((warn_unused_result));

/* `rlockd --hash-token NAME`: reads a token from standard input and prints a line for the file
 * of --api-tokens. False after one line in `error`. */
bool auth_print_line(const char *name, char *error, size_t error_size)
    __attribute__((warn_unused_result));
/* `rlockd --make-token`: prints a fresh token. */
void auth_print_token(void);

#endif
