/* Redis URLs:
 *
 *   redis://[USERINFO@]HOST[:PORT][/DB]   HOST is a name, an IPv4 address or an [IPv6 address];
 *                                         the port is 6379 unless given
 *   unix://[USERINFO@]/PATH[?db=DB]       an absolute path, percent-encoded where it must be
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

/* A unix:// URL whose path is percent-encoded throughout, or redis_url_describe()'s text. */
#define REDIS_URL_TEXT_SIZE 1024

enum redis_transport { REDIS_TCP, REDIS_UNIX };

struct redis_url {
    enum redis_transport transport;
    char host[REDIS_URL_HOST_SIZE]; /* REDIS_TCP; without brackets */
    uint16_t port;                  /* REDIS_TCP */
    char path[REDIS_URL_PATH_SIZE]; /* REDIS_UNIX */
    bool has_user;                  /* then has_password too */
    bool has_password;
    char user[REDIS_URL_USER_SIZE];
    char password[REDIS_URL_PASSWORD_SIZE]; /* may be empty when there is a user */
    int database;
};

/* 0, or -1 with one line in `error` that says what is wrong and repeats nothing of `text`,
 * which may hold a password. */
int redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size)
    __attribute__((warn_unused_result));

/* For logs: the URL, with *** for the password. */
void redis_url_describe(const struct redis_url *url, char text[REDIS_URL_TEXT_SIZE]);

/* The unix:// URL of the socket at `path`: absolute, at most 107 bytes. */
void redis_url_of_socket(const char *path, char text[REDIS_URL_TEXT_SIZE]);

#endif
