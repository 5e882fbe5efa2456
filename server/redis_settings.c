/* The merge of the Redis URL with the settings for its password and certificates. */
#include "server/redis_settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "storage/redis/prepare.h"
#include "storage/redis/tls_session.h"

enum { ERROR_SIZE = 512 };

/* Where --quarantine-ms says nothing: twice the default of --retry-window-ms. */
enum { QUORUM_QUARANTINE_MS = 120000 };

static int refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int refuse(const char *format, ...)
{
    va_list args;

    fputs("rlockd: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return -1;
}

int redis_settings_parse_url(struct redis_url *url, const char *text)
{
    char error[ERROR_SIZE];

    if (redis_url_parse(url, text, error, sizeof(error)) == 0)
        return 0;
    return refuse("--redis (RLOCKD_REDIS): %s", error);
}

/* Adds user and password file of the flags to a login. `what`: "--redis" or "--redis-sentinel",
 * the beginning of the flags. */
static int add_login(struct redis_login *login, const char *what, const char *user,
                     const char *password_file)
{
    char error[ERROR_SIZE], password[REDIS_URL_PASSWORD_SIZE];

    if (user[0] != '\0' && login->has_user)
        return refuse("%s-user: the URL of --redis has a user already", what);
    if (password_file[0] != '\0' && login->has_password)
        return refuse("%s-password-file: the URL of --redis has a password already", what);
    if (user[0] != '\0' && password_file[0] == '\0' && !login->has_password)
        return refuse("%s-user: needs %s-password-file", what, what);
    if (user[0] != '\0') {
        login->has_user = true;
        snprintf(login->user, sizeof(login->user), "%s", user);
    }
    if (password_file[0] == '\0')
        return 0;
    if (!redis_password_read(password_file, password, error, sizeof(error)))
        return refuse("%s-password-file: %s", what, error);
    explicit_bzero(password, sizeof(password)); /* read again at each connect */
    login->has_password = true;
    login->password_file = password_file;
    return 0;
}

static int add_tls(struct redis_url *url, const struct config *config)
{
    const struct redis_tls_files files = {.ca = config->redis_tls_ca,
                                          .cert = config->redis_tls_cert,
                                          .key = config->redis_tls_key,
                                          .server_name = config->redis_tls_server_name};
    char error[ERROR_SIZE];

    if ((files.cert[0] != '\0') != (files.key[0] != '\0'))
        return refuse("--redis-tls-cert and --redis-tls-key: one needs the other");
    if (!url->tls)
        return files.ca[0] == '\0' && files.cert[0] == '\0' && files.server_name[0] == '\0'
                   ? 0
                   : refuse("--redis-tls-…: only with a URL for TLS (rediss://, "
                            "rediss-sentinel://, rediss-cluster:// or rediss-quorum://)");
    url->tls_files = files;
    struct redis_trust *trust = redis_trust_load(&files, error, sizeof(error));
    if (trust == NULL)
        return refuse("%s", error);
    redis_trust_free(trust); /* loaded again at each connect */
    return 0;
}

int redis_settings_read(struct redis_url *url, const struct config *config)
{
    bool has_url = config->redis_url[0] != '\0';
    bool for_sentinel = config->redis_sentinel_user[0] != '\0' ||
                        config->redis_sentinel_password_file[0] != '\0';

    if (has_url && redis_settings_parse_url(url, config->redis_url) != 0)
        return -1;
    if (!has_url && (config->redis_user[0] != '\0' || config->redis_password_file[0] != '\0'))
        return refuse("--redis-user and --redis-password-file: only with --redis");
    if (!has_url && config->sync_replicas > 0)
        return refuse("--sync-replicas: only with --redis: the embedded Redis has no replicas");
    if (for_sentinel && url->topology != REDIS_SENTINEL)
        return refuse("--redis-sentinel-…: only with a URL of Sentinels (redis-sentinel://)");
    if (add_login(&url->login, "--redis", config->redis_user, config->redis_password_file) != 0)
        return -1;
    if (add_login(&url->sentinel_login, "--redis-sentinel", config->redis_sentinel_user,
                  config->redis_sentinel_password_file) != 0)
        return -1;
    return add_tls(url, config);
}

int redis_settings_check_quorum(struct config *config, const struct redis_url *url)
{
    if (url->topology != REDIS_QUORUM)
        return 0;
    if (config->quarantine_ms == 0)
        config->quarantine_ms = QUORUM_QUARANTINE_MS;
    if (config->sync_replicas > 0)
        return refuse("--sync-replicas: not with redis-quorum://, whose servers have no "
                      "replicas that count");
    if (config->long_hold_ms > 0 || config->long_wait_ms > 0)
        return refuse("--long-hold-ms and --long-wait-ms: not with redis-quorum://, where no "
                      "census is taken");
    if (config->quarantine_ms < config->watchdog_timeout_ms)
        return refuse("--quarantine-ms: with redis-quorum:// at least --watchdog-timeout-ms");
    if (config->quarantine_ms < config->retry_window_ms)
        return refuse("--quarantine-ms: with redis-quorum:// at least --retry-window-ms");
    if (config->fencing_ttl_ms != 0 && config->fencing_ttl_ms <= config->quarantine_ms)
        return refuse("--fencing-ttl-ms: with redis-quorum:// more than --quarantine-ms");
    return 0;
}
