/* In place of storage/redis/prepare.c: no thread asks for names, since there are none. */
#include "storage/redis/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/bytes.h"

struct redis_preparation {
    struct redis_prepared prepared;
    struct redis_host host;
    struct loop *loop;
    struct timer timer;
    bool is_done;
    void (*done)(void *arg);
    void *arg;
};

static void on_done(void *arg)
{
    struct redis_preparation *preparation = arg;

    preparation->is_done = true;
    preparation->done(preparation->arg);
}

struct redis_preparation *redis_prepare(const struct redis_url *url, struct loop *loop,
                                        void (*done)(void *arg), void *arg)
{
    struct redis_preparation *preparation = zalloc(sizeof(*preparation));

    preparation->prepared.address_count = 1;
    if (url->transport == REDIS_TCP) {
        preparation->host = url->hosts[0];
        snprintf(preparation->prepared.addresses[0], REDIS_ADDRESS_SIZE, "%.*s",
                 REDIS_ADDRESS_SIZE - 1, url->hosts[0].host);
    }
    preparation->loop = loop;
    preparation->timer = (struct timer){.fire = on_done, .arg = preparation};
    preparation->done = done;
    preparation->arg = arg;
    timer_arm(loop_timers(loop), &preparation->timer, loop_now_ns(loop));
    return preparation;
}

const struct redis_prepared *redis_prepared(const struct redis_preparation *preparation)
{
    return preparation->is_done ? &preparation->prepared : NULL;
}

bool redis_prepares_for(const struct redis_preparation *preparation,
                        const struct redis_url *url)
{
    return url->transport == REDIS_UNIX ||
           strcmp(preparation->host.host, url->hosts[0].host) == 0;
}

void redis_preparation_free(struct redis_preparation *preparation)
{
    if (preparation == NULL)
        return;
    timer_cancel(loop_timers(preparation->loop), &preparation->timer);
    free(preparation);
}

bool redis_password_read(const char *path, char password[REDIS_URL_PASSWORD_SIZE], char *error,
                         size_t error_size)
{
    (void)path;
    (void)password;
    (void)error;
    (void)error_size;
    return false;
}
