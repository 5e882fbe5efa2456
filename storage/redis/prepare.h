/* The needs of a connection before its first byte: the addresses of its host, the password, the
 * certificates. Names and files may take their time, so a thread of its own asks for them while
 * the loop goes on. */
#ifndef RLOCKD_STORAGE_REDIS_PREPARE_H
#define RLOCKD_STORAGE_REDIS_PREPARE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/base/loop.h"
#include "storage/redis/tls_session.h"
#include "storage/redis/url.h"

enum {
    REDIS_ADDRESSES_MAX = 8, /* addresses of one name; further addresses are not tried */
    REDIS_ADDRESS_SIZE = INET6_ADDRSTRLEN + IFNAMSIZ
};

struct redis_prepared {
    const char *fault; /* NULL; or why the preparation failed, as one phrase for operators */
    char detail[256];  /* of the fault, for the log */
    size_t address_count;
    char addresses[REDIS_ADDRESSES_MAX][REDIS_ADDRESS_SIZE]; /* numeric */
    char password[REDIS_URL_PASSWORD_SIZE];                  /* of the login's file */
    struct redis_trust *trust;                               /* NULL: no TLS */
};

struct redis_preparation;

/* Begins for the first host of the URL, which need not stay; the paths in it must. `done` comes
 * once, from the loop, and never before this returns. NULL: there is no memory, thread or
 * descriptor for it. */
struct redis_preparation *redis_prepare(const struct redis_url *url, struct loop *loop,
                                        void (*done)(void *arg), void *arg);
/* NULL before `done`. Lives as long as the preparation. */
const struct redis_prepared *redis_prepared(const struct redis_preparation *preparation);
/* Whether the preparation is for a connection to this URL. */
bool redis_prepares_for(const struct redis_preparation *preparation,
                        const struct redis_url *url);
/* At any time; a thread that still waits for a name ends on its own. NULL is fine. */
void redis_preparation_free(struct redis_preparation *preparation);

/* The file's text without the newline at its end. False after one line in `error`. */
bool redis_password_read(const char *path, char password[REDIS_URL_PASSWORD_SIZE], char *error,
                         size_t error_size) __attribute__((warn_unused_result));

#endif
