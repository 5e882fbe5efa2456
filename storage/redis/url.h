/* Redis URLs:
 *
 *   redis://[USERINFO@]HOST[:PORT][/DB]
 *       HOST is a name, an IPv4 address or an [IPv6 address]; the port is 6379 unless given
 *   unix://[USERINFO@]/PATH[?db=DB]
 *       an absolute path, percent-encoded where it must be
 *   redis-sentinel://[USERINFO@]HOST[:PORT][,HOST[:PORT]]…/MASTER[/DB]
 *       the hosts are Sentinels, port 26379 unless given; USERINFO is for the master that they
 *       know as MASTER
 *   redis-cluster://[USERINFO@]HOST[:PORT][,HOST[:PORT]]…
 *       some nodes of the cluster
 *   redis-quorum://[USERINFO@]HOST[:PORT],HOST[:PORT],HOST[:PORT][,…]/[DB]
 *       3 or 5 masters that know nothing of each other
 *   rediss://, rediss-sentinel://, rediss-cluster://, rediss-quorum://
 *       the same, with TLS to every host
 *
 * USERINFO is USER:PASSWORD or :PASSWORD, both percent-encoded. A lone word before the @ is
 * refused: some clients take it for the user, some for the password. */
#ifndef RLOCKD_STORAGE_REDIS_URL_H
#define RLOCKD_STORAGE_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 107 bytes and a NUL is what sockaddr_un holds; 253 the longest DNS name. */
#define REDIS_URL_HOST_SIZE 256
#define REDIS_URL_PATH_SIZE 108
#define REDIS_URL_USER_SIZE 128
#define REDIS_URL_PASSWORD_SIZE 512
#define REDIS_URL_MASTER_SIZE 128
#define REDIS_URL_HOSTS_MAX 16

/* A unix:// URL whose path is percent-encoded throughout, or redis_url_describe()'s text. */
#define REDIS_URL_TEXT_SIZE 2560

enum redis_topology { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER, REDIS_QUORUM };
enum redis_transport { REDIS_TCP, REDIS_UNIX };

struct redis_host {
    char host[REDIS_URL_HOST_SIZE]; /* without brackets */
    uint16_t port;
};

/* The login of a connection. */
struct redis_login {
    bool has_user; /* then has_password too */
    bool has_password;
    char user[REDIS_URL_USER_SIZE];
    char password[REDIS_URL_PASSWORD_SIZE]; /* may be empty when there is a user */
    const char *password_file; /* NULL: none; holds the password, read at every connect */
};

/* Paths of PEM files, and the name that the servers' certificates have instead of their hosts';
 * NULL or empty: none. */
struct redis_tls_files {
    const char *ca; /* none: the authorities that the system trusts */
    const char *cert, *key;
    const char *server_name;
};

struct redis_url {
    enum redis_topology topology;
    enum redis_transport transport;
    bool tls; /* REDIS_TCP */
    struct redis_host
        hosts[REDIS_URL_HOSTS_MAX];          /* REDIS_TCP: its hosts, one for REDIS_SINGLE */
    size_t host_count;                       /* 0 of REDIS_UNIX */
    char master_name[REDIS_URL_MASTER_SIZE]; /* REDIS_SENTINEL */
    char path[REDIS_URL_PATH_SIZE];          /* REDIS_UNIX */
    struct redis_login login;                /* for the servers that have the keys */
    struct redis_login sentinel_login;       /* to the Sentinels; the text has none */
    int database;
    struct redis_tls_files tls_files; /* the text has none */
};

/* 0, or -1 with one line in `error` that describes the mistake without repeating any part of
 * `text`, which may hold a password. */
int redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size)
    __attribute__((warn_unused_result));

/* The URL of one server that `url` leads to: the same login, database and TLS. -1: the host is
 * too long or empty. */
int redis_url_of_server(struct redis_url *server, const struct redis_url *url, const char *host,
                        uint16_t port) __attribute__((warn_unused_result));
/* The URL of one Sentinel: the login for Sentinels, database 0. -1: as above. */
int redis_url_of_sentinel(struct redis_url *sentinel, const struct redis_url *url,
                          const char *host, uint16_t port) __attribute__((warn_unused_result));

/* Whether a host is an IPv4 or IPv6 address, without brackets, and no name. */
bool redis_host_is_address(const char *host);

/* For logs: the URL, with *** for the password. */
void redis_url_describe(const struct redis_url *url, char text[REDIS_URL_TEXT_SIZE]);

/* The unix:// URL of the socket at `path`: absolute, at most 107 bytes. */
void redis_url_of_socket(const char *path, char text[REDIS_URL_TEXT_SIZE]);

#endif
