/* The table of settings, and its readers: flags and environment. */
#include "server/base/config_internal.h"

#include "server/base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define FIELD(name) offsetof(struct config, name)
#define FITTING(shortest, name) (shortest), sizeof(((struct config *)0)->name) - 1

const struct setting config_settings[] = {
    {"listen", "RLOCKD_LISTEN", "HOST:PORT", KIND_LISTEN, FIELD(listen_host),
     FITTING(0, listen_host), "127.0.0.1:7400",
     "where to listen; [ADDRESS]:PORT for IPv6, :PORT for every IPv4 address, [::]:PORT for\n"
     "those of IPv6, too, port 0: any free one"},
    {"redis", "RLOCKD_REDIS", "URL", KIND_TEXT, FIELD(redis_url), FITTING(0, redis_url), "",
     "redis://[USER:PASSWORD@]HOST[:PORT][/DB], a single Redis;\n"
     "redis-sentinel://[USER:PASSWORD@]HOST[:PORT],…/MASTER[/DB], the hosts are Sentinels;\n"
     "redis-cluster://[USER:PASSWORD@]HOST[:PORT],…, some nodes of a Redis Cluster;\n"
     "redis-quorum://[USER:PASSWORD@]HOST[:PORT],…[/DB], 3 or 5 independent masters;\n"
     "rediss://…, rediss-sentinel://…, rediss-cluster://… and rediss-quorum://…, with TLS;\n"
     "unix://[USER:PASSWORD@]/PATH[?db=N], a single Redis on this machine;\n"
     "empty: an embedded Redis with its data in the data directory"},
    {"redis-user", "RLOCKD_REDIS_USER", "NAME", KIND_TEXT, FIELD(redis_user),
     FITTING(0, redis_user), "", "the user of Redis, if the URL names none"},
    {"redis-password-file", "RLOCKD_REDIS_PASSWORD_FILE", "FILE", KIND_TEXT,
     FIELD(redis_password_file), FITTING(0, redis_password_file), "",
     "a file with the password for Redis, if the URL has none; read at every connect"},
    {"redis-sentinel-user", "RLOCKD_REDIS_SENTINEL_USER", "NAME", KIND_TEXT,
     FIELD(redis_sentinel_user), FITTING(0, redis_sentinel_user), "",
     "the user of the Sentinels; empty: the default user"},
    {"redis-sentinel-password-file", "RLOCKD_REDIS_SENTINEL_PASSWORD_FILE", "FILE", KIND_TEXT,
     FIELD(redis_sentinel_password_file), FITTING(0, redis_sentinel_password_file), "",
     "a file with the password for the Sentinels; read at every connect;\n"
     "empty: the Sentinels need no password"},
    {"redis-tls-ca", "RLOCKD_REDIS_TLS_CA", "FILE", KIND_TEXT, FIELD(redis_tls_ca),
     FITTING(0, redis_tls_ca), "",
     "certificate authorities, PEM: one of them must have issued the certificate of Redis;\n"
     "read at every connect; empty: the authorities that the system trusts"},
    {"redis-tls-cert", "RLOCKD_REDIS_TLS_CERT", "FILE", KIND_TEXT, FIELD(redis_tls_cert),
     FITTING(0, redis_tls_cert), "",
     "the certificate that rlockd shows to Redis and its chain, PEM; read at every connect;\n"
     "empty: none"},
    {"redis-tls-key", "RLOCKD_REDIS_TLS_KEY", "FILE", KIND_TEXT, FIELD(redis_tls_key),
     FITTING(0, redis_tls_key), "", "the key of --redis-tls-cert, PEM"},
    {"redis-tls-server-name", "RLOCKD_REDIS_TLS_SERVER_NAME", "NAME", KIND_TEXT,
     FIELD(redis_tls_server_name), FITTING(0, redis_tls_server_name), "",
     "the host name or address that the certificate of Redis must be for;\n"
     "empty: the host that rlockd connects to"},
    {"redis-cluster-broadcast", "RLOCKD_REDIS_CLUSTER_BROADCAST", "N", KIND_INT,
     FIELD(redis_cluster_broadcast), 0, 1, "1",
     "1: unlock messages go to all nodes of a Redis Cluster, too, where Redisson before 3.22\n"
     "listens; 0: only to the shard of the lock"},
    {"data-dir", "RLOCKD_DATA_DIR", "DIR", KIND_TEXT, FIELD(data_dir), FITTING(1, data_dir),
     "./rlockd-data", "where the embedded Redis keeps its data and its socket"},
    {"workers", "RLOCKD_WORKERS", "N", KIND_INT, FIELD(workers), 1, 64, "1",
     "threads that serve requests"},
    {"busy-poll-us", "RLOCKD_BUSY_POLL_US", "N", KIND_INT64, FIELD(busy_poll_us), 0, 1000, "50",
     "for how long a worker without work goes on looking for events before it sleeps;\n"
     "it does so only as long as looking finds events; 0: never"},
    {"watchdog-timeout-ms", "RLOCKD_WATCHDOG_TIMEOUT_MS", "N", KIND_INT64,
     FIELD(watchdog_timeout_ms), 300, 86400000, "30000",
     "how long a lease without ttl_ms lasts (Redisson's lockWatchdogTimeout)"},
    {"max-wait-ms", "RLOCKD_MAX_WAIT_MS", "N", KIND_INT64, FIELD(max_wait_ms), 1000, 3600000,
     "55000", "the longest wait_ms that a request may ask for"},
    {"deadlock-check-ms", "RLOCKD_DEADLOCK_CHECK_MS", "N", KIND_INT64, FIELD(deadlock_check_ms),
     0, 3600000, "1000",
     "how long a request of a session waits, at least a second, before rlockd looks for a\n"
     "deadlock; 0: never"},
    {"retry-window-ms", "RLOCKD_RETRY_WINDOW_MS", "N", KIND_INT64, FIELD(retry_window_ms), 1000,
     86400000, "60000", "how long the token of an ended lease is remembered"},
    {"fencing-ttl-ms", "RLOCKD_FENCING_TTL_MS", "N", KIND_INT64, FIELD(fencing_ttl_ms), 0,
     CONFIG_LEASE_MAX_MS, "86400000",
     "how long a lock's last fencing token is remembered; 0: for ever"},
    {"sync-replicas", "RLOCKD_SYNC_REPLICAS", "N", KIND_INT, FIELD(sync_replicas), 0, 16, "0",
     "how many replicas must confirm a change before the client is answered; 0: none"},
    {"sync-timeout-ms", "RLOCKD_SYNC_TIMEOUT_MS", "N", KIND_INT64, FIELD(sync_timeout_ms), 10,
     900, "500",
     "how long the replicas may take to confirm; then the answer is 503 with not-replicated"},
    {"quarantine-ms", "RLOCKD_QUARANTINE_MS", "N", KIND_INT64, FIELD(quarantine_ms), 0,
     CONFIG_LEASE_MAX_MS, "0",
     "how long no lease is granted after Redis came back as another process, which may have\n"
     "lost leases; 0: no quarantine; of a quorum 120000"},
    {"long-hold-ms", "RLOCKD_LONG_HOLD_MS", "N", KIND_INT64, FIELD(long_hold_ms), 0,
     INT64_C(31622400000), "0",
     "a lock that is held for longer is logged and counted, a Java client's too; 0: none is"},
    {"long-wait-ms", "RLOCKD_LONG_WAIT_MS", "N", KIND_INT64, FIELD(long_wait_ms), 0,
     INT64_C(31622400000), "0",
     "a lock that a request waits for longer is logged and counted; 0: none is; else at least\n"
     "1000, for shorter waits are in no picture"},
    {"metrics-prefixes", "RLOCKD_METRICS_PREFIXES", "LIST", KIND_TEXT, FIELD(metrics_prefixes),
     FITTING(0, metrics_prefixes), "",
     "up to 20 prefixes of locks' names such as deploy/, with commas between them: wait and\n"
     "hold times are also counted by prefix, those of all other names as other; empty: they\n"
     "are not"},
    {"key-prefix", "RLOCKD_KEY_PREFIX", "TEXT", KIND_TEXT, FIELD(key_prefix),
     FITTING(0, key_prefix), "",
     "put before every lock's name in Redis (Redisson's NameMapper)"},
    {"max-connections", "RLOCKD_MAX_CONNECTIONS", "N", KIND_INT, FIELD(max_connections), 16,
     1000000, "10000",
     "client connections at a time; waiting requests may use three quarters of them"},
    {"max-connections-per-address", "RLOCKD_MAX_CONNECTIONS_PER_ADDRESS", "N", KIND_INT,
     FIELD(max_connections_per_address), 0, 1000000, "0",
     "connections of one client address at a time, further ones are closed; 0: no limit"},
    {"api-tokens", "RLOCKD_API_TOKENS", "FILE", KIND_TEXT, FIELD(api_tokens),
     FITTING(0, api_tokens), "",
     "which callers may use the server, by hashes of their tokens; read again at SIGHUP;\n"
     "empty: everybody may"},
    {"tls-cert", "RLOCKD_TLS_CERT", "FILE", KIND_TEXT, FIELD(tls_cert), FITTING(0, tls_cert),
     "",
     "the server's certificate and its chain, PEM; read again at SIGHUP; empty: plain HTTP"},
    {"tls-key", "RLOCKD_TLS_KEY", "FILE", KIND_TEXT, FIELD(tls_key), FITTING(0, tls_key), "",
     "the key of --tls-cert, PEM; read again at SIGHUP"},
    {"tls-client-ca", "RLOCKD_TLS_CLIENT_CA", "FILE", KIND_TEXT, FIELD(tls_client_ca),
     FITTING(0, tls_client_ca), "",
     "certificate authorities, PEM: every client needs a certificate that one of them has\n"
     "issued; empty: clients need none"},
    {"trusted-proxies", "RLOCKD_TRUSTED_PROXIES", "LIST", KIND_TEXT, FIELD(trusted_proxies),
     FITTING(0, trusted_proxies), "",
     "proxies whose X-Forwarded-For or Forwarded names the client in the log: addresses or\n"
     "networks such as 10.0.0.0/8, with commas between them; empty: none"},
    {"cors-origins", "RLOCKD_CORS_ORIGINS", "LIST", KIND_TEXT, FIELD(cors_origins),
     FITTING(0, cors_origins), "",
     "web pages that may use the API: origins such as https://example.com, with commas\n"
     "between them, or *; empty: none"},
    {"server-names", "RLOCKD_SERVER_NAMES", "LIST", KIND_TEXT, FIELD(server_names),
     FITTING(0, server_names), "",
     "host names under which clients reach the server besides localhost and the host of\n"
     "--listen, with commas between them: requests to other names are refused; empty: refused\n"
     "to everybody where --listen is a loopback address, else only to web pages"},
    {"drain-delay-ms", "RLOCKD_DRAIN_DELAY_MS", "N", KIND_INT64, FIELD(drain_delay_ms), 0,
     600000, "0", "how long requests are still served after SIGTERM, while /readyz is 503"},
    {"page-refresh-ms", "RLOCKD_PAGE_REFRESH_MS", "N", KIND_INT64, FIELD(page_refresh_ms), 500,
     3600000, "2000", "how often the web page asks for its picture anew"},
    {"no-page", "RLOCKD_NO_PAGE", "", KIND_SWITCH, FIELD(no_page), 0, 1, "0",
     "no web page at /; the variable is 1 for that, or 0"},
    {"log-level", "RLOCKD_LOG_LEVEL", "LEVEL", KIND_LEVEL, FIELD(log_level), 0, 0, "info",
     "the lowest level that is logged: debug, info, warn or error"},
};

enum {
    SETTING_COUNT = sizeof(config_settings) / sizeof(config_settings[0]),
    VALUE_SHOWN_MAX = 40 /* a longer value is none that was mistyped */
};
const size_t config_setting_count = SETTING_COUNT;

struct failure {
    char *text;
    size_t size;
};

/* Where a value came from, "--workers" or "RLOCKD_WORKERS": an error about it begins with that.
 */
struct source {
    const char *dashes;
    const char *name;
    struct failure failure;
};

static bool refuse(const struct source *source, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(const struct source *source, const char *format, ...)
{
    const struct failure *failure = &source->failure;
    va_list args;
    int n = snprintf(failure->text, failure->size, "%s%s: ", source->dashes, source->name);

    if (n >= 0 && (size_t)n < failure->size) {
        va_start(args, format);
        vsnprintf(failure->text + n, failure->size - (size_t)n, format, args);
        va_end(args);
    }
    return false;
}

static bool set_text(const struct setting *setting, char *field, const char *value,
                     const struct source *source)
{
    size_t len = strlen(value);

    if (len < (size_t)setting->min)
        return refuse(source, "must not be empty");
    if (len > (size_t)setting->max)
        return refuse(source, "must not be longer than %lld bytes", (long long)setting->max);
    if (!text_is_utf8(value, len) || text_has_control(value, len))
        return refuse(source, "must be UTF-8 without control characters");
    memcpy(field, value, len + 1);
    return true;
}

/* `must` says what the value has to be. The error repeats a short value that can be printed. */
static bool refuse_value(const struct source *source, const char *value, const char *must)
{
    size_t len = strlen(value);

    if (len > 0 && len <= VALUE_SHOWN_MAX && text_is_utf8(value, len) &&
        !text_has_control(value, len))
        return refuse(source, "%s, not '%s'", must, value);
    return refuse(source, "%s", must);
}

static bool set_number(const struct setting *setting, int64_t *number, const char *value,
                       const struct source *source)
{
    char must[96];

    if (text_parse_int64(value, number) && *number >= setting->min && *number <= setting->max)
        return true;
    snprintf(must, sizeof(must), "must be a whole number from %lld to %lld",
             (long long)setting->min, (long long)setting->max);
    return refuse_value(source, value, must);
}

static bool set_level(enum log_level *level, const char *value, const struct source *source)
{
    for (enum log_level known = LOG_LEVEL_DEBUG; known <= LOG_LEVEL_ERROR; known++) {
        if (strcmp(value, log_level_name(known)) == 0) {
            *level = known;
            return true;
        }
    }
    return refuse_value(source, value, "must be debug, info, warn or error");
}

static bool set_listen(const struct setting *setting, struct config *config, const char *value,
                       const struct source *source)
{
    const char *colon = strrchr(value, ':');
    const char *host = value;
    char host_text[CONFIG_HOST_SIZE];
    size_t host_len;
    int64_t port;

    if (colon == NULL)
        return refuse(source, "must be HOST:PORT, [ADDRESS]:PORT or :PORT");
    host_len = (size_t)(colon - value);
    if (host_len >= 2 && value[0] == '[' && value[host_len - 1] == ']') {
        host++;
        host_len -= 2;
        if (memchr(host, ':', host_len) == NULL)
            return refuse(source, "must have an IPv6 address between the brackets");
    } else if (memchr(host, ':', host_len) != NULL) {
        return refuse(source, "must have an IPv6 address in brackets, as in [::1]:7400");
    }
    if (host_len > (size_t)setting->max)
        return refuse(source, "must not have a host longer than %lld bytes",
                      (long long)setting->max);
    memcpy(host_text, host, host_len);
    host_text[host_len] = '\0';
    if (strpbrk(host_text, "[]/ \t\r\n") != NULL)
        return refuse(source, "must be HOST:PORT, [ADDRESS]:PORT or :PORT");
    if (!text_parse_int64(colon + 1, &port) || port < 0 || port > UINT16_MAX)
        return refuse(source, "must end in a port from 0 to %d", UINT16_MAX);
    memcpy(config->listen_host, host_text, host_len + 1);
    config->listen_port = (uint16_t)port;
    return true;
}

static bool set(const struct setting *setting, struct config *config, const char *value,
                const struct source *source)
{
    void *field = (char *)config + setting->offset;
    int64_t number;

    switch (setting->kind) {
    case KIND_LISTEN:
        return set_listen(setting, config, value, source);
    case KIND_TEXT:
        return set_text(setting, field, value, source);
    case KIND_INT:
    case KIND_SWITCH:
        if (!set_number(setting, &number, value, source))
            return false;
        *(int *)field = (int)number;
        return true;
    case KIND_INT64:
        return set_number(setting, field, value, source);
    case KIND_LEVEL:
        return set_level(field, value, source);
    }
    return false;
}

static const struct setting *setting_find(const char *flag, size_t len)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strlen(config_settings[i].flag) == len &&
            memcmp(config_settings[i].flag, flag, len) == 0)
            return &config_settings[i];
    return NULL;
}

static const char *variable_find(char *const envp[], const char *name)
{
    size_t len = strlen(name);

    for (; *envp != NULL; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=' && (*envp)[len + 1] != '\0')
            return *envp + len + 1;
    return NULL;
}

/* Whether a flag asks for another action than the start of the server; CONFIG_RUN: none
 * does. */
static enum config_outcome read_command(int argc, char *const argv[])
{
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "--hash-token") == 0)
        return CONFIG_HASH_TOKEN;
    if (argc == 2 && strcmp(argv[1], "--make-token") == 0)
        return CONFIG_MAKE_TOKEN;
    return CONFIG_RUN;
}

/* Stores the value of each flag in values[]. Checks the names of the flags, not yet their
 * values. */
static enum config_outcome read_flags(int argc, char *const argv[],
                                      const char *values[SETTING_COUNT], struct failure failure)
{
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        size_t len = strcspn(flag, "=");
        const char *value = flag[len] == '=' ? flag + len + 1 : NULL;

        if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0) {
            config_help(stdout);
            return CONFIG_EXIT_OK;
        }
        if (strcmp(flag, "--print-man") == 0) { /* of the build */
            config_man(stdout);
            return CONFIG_EXIT_OK;
        }
        if (strcmp(flag, "--version") == 0 || strcasecmp(flag, "-v") == 0) {
            puts("rlockd " RLOCKD_VERSION);
            return CONFIG_EXIT_OK;
        }
        if (flag[0] != '-') {
            snprintf(failure.text, failure.size,
                     "argument %d belongs to no flag (--help lists the flags)", i);
            return CONFIG_ERROR;
        }
        const struct setting *setting = strncmp(flag, "--", 2) == 0
                                            ? setting_find(flag + 2, len - 2)
                                            : NULL;
        if (setting == NULL) {
            /* The error repeats only text that looks like a flag: the value of a mistyped
             * --redis may hold a password. */
            if (len == strspn(flag, "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
                snprintf(failure.text, failure.size,
                         "%.*s: unknown flag (--help lists the flags)", (int)len, flag);
            else
                snprintf(failure.text, failure.size,
                         "argument %d: unknown flag (--help lists the flags)", i);
            return CONFIG_ERROR;
        }
        if (value == NULL && setting->kind == KIND_SWITCH)
            value = "1";
        if (value == NULL && ++i == argc) {
            snprintf(failure.text, failure.size, "--%s: needs a value (%s)", setting->flag,
                     setting->placeholder);
            return CONFIG_ERROR;
        }
        values[setting - config_settings] = value != NULL ? value : argv[i];
    }
    return CONFIG_RUN;
}

enum config_outcome config_load(struct config *config, int argc, char *const argv[],
                                char *const envp[], char *error, size_t error_size)
{
    const char *values[SETTING_COUNT] = {NULL};
    struct failure failure = {error, error_size};
    enum config_outcome outcome = read_command(argc, argv);

    if (outcome == CONFIG_RUN)
        outcome = read_flags(argc, argv, values, failure);
    if (outcome != CONFIG_RUN)
        return outcome;
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &config_settings[i];
        struct source source = {"--", setting->flag, failure};
        const char *value = values[i];

        if (value == NULL) {
            value = variable_find(envp, setting->variable);
            if (value == NULL)
                value = setting->default_text;
            source.dashes = "";
            source.name = setting->variable;
        }
        if (!set(setting, config, value, &source))
            return CONFIG_ERROR;
    }
    return CONFIG_RUN;
}
