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

/* Checks what else the settings say against the URL of a quorum, and fills in the quarantine,
 * without which there is none. -1 after one line on standard error. */
int redis_settings_check_quorum(struct config *config, const struct redis_url *url)
    __attribute__((warn_unused_result));

/* Fills in `url` from the text alone. -1: as above. */
int redis_settings_parse_url(struct redis_url *url, const char *text)
    __attribute__((warn_unused_result));

#endif
