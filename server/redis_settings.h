/* Where Redis is and how to log in there, put together from all settings about that. */
#ifndef RLOCKD_SERVER_REDIS_SETTINGS_H
#define RLOCKD_SERVER_REDIS_SETTINGS_H

#include "server/base/config.h"
#include "storage/redis/url.h"

/* Checks the settings, reads the files once, and fills in `url`, which keeps pointers into
 * `config`. Without a URL (the embedded Redis) it stays empty. -1 after one line on standard
 * error. */
int redis_settings_read(struct redis_url *url, const struct config *config)
    __attribute__((warn_unused_result));

/* The same for a URL alone. */
int redis_settings_parse_url(struct redis_url *url, const char *text)
    __attribute__((warn_unused_result));

#endif
