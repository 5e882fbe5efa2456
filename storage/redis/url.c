#include "storage/redis/url.h"

#include "server/base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEFAULT_PORT = 6379, MAX_DATABASE = 65535 };

/* A piece of the URL, not ended by a NUL. */
struct span {
    const char *text;
    size_t len;
};

static const struct {
    const char *scheme;
    const char *error;
} refused_schemes[] = {
    {"rediss://", "rediss:// (TLS) is not supported by this version"},
    {"redis-sentinel://", "redis-sentinel:// is not supported by this version"},
    {"redis-cluster://", "redis-cluster:// is not supported by this version"},
};

static bool starts_with(const char *text, const char *scheme)
{
    return strncasecmp(text, scheme, strlen(scheme)) == 0;
}

/* False: a bad %XX, a NUL, or no room. */
static bool decode(struct span in, char *out, size_t out_size)
{
    size_t len;

    return text_percent_decode(in.text, in.len, out, out_size, &len) == 0 && strlen(out) == len;
}

static bool parse_number(struct span in, int min, int max, int *out)
{
    char digits[8];
    int64_t value;

    if (in.len >= sizeof(digits))
        return false;
    memcpy(digits, in.text, in.len);
    digits[in.len] = '\0';
    if (!text_parse_int64(digits, &value) || value < min || value > max)
        return false;
    *out = (int)value;
    return true;
}

/* The steps of the parser return NULL, or what is wrong. */

static const char *parse_userinfo(struct redis_url *url, struct span info)
{
    const char *colon = memchr(info.text, ':', info.len);

    if (colon == NULL)
        return "before the @ there must be user:password or :password";
    struct span user = {info.text, (size_t)(colon - info.text)};
    struct span password = {colon + 1, info.len - user.len - 1};
    if (!decode(user, url->user, sizeof(url->user)))
        return "the user is too long or not percent-encoded correctly";
    if (!decode(password, url->password, sizeof(url->password)))
        return "the password is too long or not percent-encoded correctly";
    url->has_user = user.len > 0;
    url->has_password = user.len > 0 || password.len > 0;
    return NULL;
}

/* Takes the user and password off the front of `authority`. The last @ ends them, so that a
 * password with a bare @ in it works. */
static const char *take_userinfo(struct redis_url *url, struct span *authority)
{
    const char *at = memrchr(authority->text, '@', authority->len);

    if (at == NULL)
        return NULL;
    struct span info = {authority->text, (size_t)(at - authority->text)};
    authority->text += info.len + 1;
    authority->len -= info.len + 1;
    return parse_userinfo(url, info);
}

static const char *parse_host(struct redis_url *url, struct span host)
{
    static const char host_error[] =
        "the host must be a name, an IPv4 address or an [IPv6 address]";
    bool bracketed = host.len >= 2 && host.text[0] == '[' && host.text[host.len - 1] == ']';
    struct in6_addr address;

    if (bracketed) {
        host.text++;
        host.len -= 2;
    }
    if (host.len == 0)
        return "the host is missing";
    if (host.len >= sizeof(url->host))
        return host_error;
    for (size_t i = 0; !bracketed && i < host.len; i++)
        if (!isalnum((unsigned char)host.text[i]) && strchr("-._", host.text[i]) == NULL)
            return host_error;
    memcpy(url->host, host.text, host.len);
    url->host[host.len] = '\0';
    if (bracketed && inet_pton(AF_INET6, url->host, &address) != 1)
        return host_error;
    return NULL;
}

static const char *parse_tcp(struct redis_url *url, const char *text)
{
    struct span authority = {text, strcspn(text, "/?#")};
    const char *rest = text + authority.len;
    const char *error = take_userinfo(url, &authority);
    int port = DEFAULT_PORT;

    if (error != NULL)
        return error;
    struct span host = authority;
    const char *colon = memrchr(authority.text, ':', authority.len);
    if (colon != NULL &&
        memchr(colon, ']', authority.len - (size_t)(colon - authority.text)) == NULL) {
        host.len = (size_t)(colon - authority.text);
        struct span digits = {colon + 1, authority.len - host.len - 1};
        if (!parse_number(digits, 1, UINT16_MAX, &port))
            return "the port must be from 1 to 65535 (a / in a password is written %2F)";
    }
    error = parse_host(url, host);
    if (error != NULL)
        return error;
    url->port = (uint16_t)port;
    if (rest[0] == '\0' || strcmp(rest, "/") == 0)
        return NULL;
    struct span database = {rest + 1, strlen(rest + 1)};
    if (rest[0] != '/' || !parse_number(database, 0, MAX_DATABASE, &url->database))
        return "after the host there may only be / and a database from 0 to 65535";
    return NULL;
}

static const char *parse_unix(struct redis_url *url, const char *text)
{
    struct span authority = {text, strcspn(text, "/?#")};
    const char *error = take_userinfo(url, &authority);

    if (error != NULL)
        return error;
    struct span path = {authority.text + authority.len,
                        strcspn(authority.text + authority.len, "?#")};
    const char *rest = path.text + path.len;
    if (authority.len > 0 || path.len < 2)
        return "unix:// needs an absolute path, as in unix:///run/redis.sock";
    if (!decode(path, url->path, sizeof(url->path)))
        return "the path is longer than 107 bytes or not percent-encoded correctly";
    if (rest[0] == '\0')
        return NULL;
    if (strncmp(rest, "?db=", 4) != 0)
        return "after the path there may only be ?db= (a password goes before the path: "
               "unix://user:password@/path)";
    struct span database = {rest + 4, strlen(rest + 4)};
    if (!parse_number(database, 0, MAX_DATABASE, &url->database))
        return "db must be a database from 0 to 65535";
    return NULL;
}

static const char *parse(struct redis_url *url, const char *text)
{
    for (size_t i = 0; i < sizeof(refused_schemes) / sizeof(refused_schemes[0]); i++)
        if (starts_with(text, refused_schemes[i].scheme))
            return refused_schemes[i].error;
    if (starts_with(text, "redis://")) {
        url->transport = REDIS_TCP;
        return parse_tcp(url, text + strlen("redis://"));
    }
    if (starts_with(text, "unix://")) {
        url->transport = REDIS_UNIX;
        return parse_unix(url, text + strlen("unix://"));
    }
    return "a Redis URL begins with redis:// or unix://";
}

int redis_url_parse(struct redis_url *url, const char *text, char *error, size_t error_size)
{
    memset(url, 0, sizeof(*url));
    const char *fault = parse(url, text);
    if (fault == NULL)
        return 0;
    snprintf(error, error_size, "%s", fault);
    return -1;
}

static void append(char text[REDIS_URL_TEXT_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[REDIS_URL_TEXT_SIZE], const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, REDIS_URL_TEXT_SIZE - len, format, args);
    va_end(args);
}

/* Percent-encoded but for RFC 3986's unreserved characters and the slash. */
static void append_encoded(char text[REDIS_URL_TEXT_SIZE], const char *in)
{
    for (; *in != '\0'; in++) {
        unsigned char c = (unsigned char)*in;
        append(text, isalnum(c) || strchr("-._~/", c) != NULL ? "%c" : "%%%02X", c);
    }
}

void redis_url_describe(const struct redis_url *url, char text[REDIS_URL_TEXT_SIZE])
{
    bool is_unix = url->transport == REDIS_UNIX;

    text[0] = '\0';
    append(text, is_unix ? "unix://" : "redis://");
    append_encoded(text, url->user);
    append(text, "%s", url->has_password ? ":***@" : "");
    if (is_unix)
        append_encoded(text, url->path);
    else
        append(text, strchr(url->host, ':') != NULL ? "[%s]:%d" : "%s:%d", url->host,
               url->port);
    if (url->database != 0)
        append(text, is_unix ? "?db=%d" : "/%d", url->database);
}

void redis_url_of_socket(const char *path, char text[REDIS_URL_TEXT_SIZE])
{
    assert(path[0] == '/' && strlen(path) < REDIS_URL_PATH_SIZE);
    text[0] = '\0';
    append(text, "unix://");
    append_encoded(text, path);
}
