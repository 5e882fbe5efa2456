/* The settings of rlockd. One table in config.c has their flags, environment variables,
 * defaults, bounds and texts of --help. */
#ifndef RLOCKD_SERVER_BASE_CONFIG_H
#define RLOCKD_SERVER_BASE_CONFIG_H

#include "server/base/log.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* DNS allows 253 bytes in a name; Redis URLs hold user and password, each percent-encoded;
 * a prefix is part of every key. */
#define CONFIG_HOST_SIZE 256
#define CONFIG_REDIS_URL_SIZE 2048
#define CONFIG_REDIS_USER_SIZE 128
#define CONFIG_KEY_PREFIX_SIZE 257
#define CONFIG_LIST_SIZE 2048

/* The longest lease that a client may ask for: 366 days. */
#define CONFIG_LEASE_MAX_MS INT64_C(31622400000)

struct config {
    char listen_host[CONFIG_HOST_SIZE];    /* without brackets; empty: every IPv4 address */
    uint16_t listen_port;                  /* 0: any free port */
    char redis_url[CONFIG_REDIS_URL_SIZE]; /* unchecked; empty: the embedded Redis */
    /* Unchecked; files are paths; empty: none */
    char redis_user[CONFIG_REDIS_USER_SIZE], redis_password_file[PATH_MAX];
    char redis_sentinel_user[CONFIG_REDIS_USER_SIZE], redis_sentinel_password_file[PATH_MAX];
    char redis_tls_ca[PATH_MAX], redis_tls_cert[PATH_MAX], redis_tls_key[PATH_MAX];
    char redis_tls_server_name[CONFIG_HOST_SIZE];
    int redis_cluster_broadcast; /* 0: messages go to the shard of the lock only */
    char data_dir[PATH_MAX];
    int workers;
    int64_t busy_poll_us; /* 0: never */
    int64_t watchdog_timeout_ms;
    int64_t max_wait_ms;
    int64_t deadlock_check_ms; /* 0: never */
    int64_t retry_window_ms;
    int64_t fencing_ttl_ms; /* 0: for ever */
    int sync_replicas;      /* 0: none */
    int64_t sync_timeout_ms;
    int64_t quarantine_ms;              /* 0: none */
    int64_t long_hold_ms, long_wait_ms; /* 0: no alarms */
    char key_prefix[CONFIG_KEY_PREFIX_SIZE];
    int max_connections;
    int max_connections_per_address;            /* 0: no limit */
    char api_tokens[PATH_MAX];                  /* a file; empty: no API tokens */
    char tls_cert[PATH_MAX], tls_key[PATH_MAX]; /* files; empty: plain HTTP */
    char tls_client_ca[PATH_MAX];               /* a file; empty: clients need no certificate */
    char trusted_proxies[CONFIG_LIST_SIZE];     /* unchecked; empty: none */
    char cors_origins[CONFIG_LIST_SIZE];        /* unchecked; empty: none */
    char server_names[CONFIG_LIST_SIZE];        /* the same */
    char metrics_prefixes[CONFIG_LIST_SIZE];    /* the same */
    int64_t drain_delay_ms;
    int64_t page_refresh_ms;
    int no_page; /* 1: no web page at / */
    enum log_level log_level;
};

enum config_outcome {
    CONFIG_RUN,        /* *config is complete */
    CONFIG_EXIT_OK,    /* --help or --version was asked for, and printed on standard output */
    CONFIG_HASH_TOKEN, /* --hash-token NAME: argv[2], if there is one, is the name */
    CONFIG_MAKE_TOKEN, /* --make-token */
    CONFIG_ERROR /* `error` gets one line that names the flag or variable and its permitted
                    values */
};

/* A flag beats its environment variable, the last of several flags wins, and an empty variable
 * is as good as none. `error` never repeats a value, which may hold a password. */
enum config_outcome config_load(struct config *config, int argc, char *const argv[],
                                char *const envp[], char *error, size_t error_size)
    __attribute__((warn_unused_result));

void config_help(FILE *out);

/* The man page rlockd(8), in mdoc(7). */
void config_man(FILE *out);

#endif
