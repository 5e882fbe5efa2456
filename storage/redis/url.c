/* The parser of Redis URLs. */
#include "storage/redis/url.h"

#include "server/base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, MAX_DATABASE = 65535 };

/* A piece of the URL, not ended by a NUL. */
struct span {
    const char *text;
    size_t len;
};

static const struct scheme {
    const char *name;
    enum redis_topology topology;
    enum redis_transport transport;
    bool tls;
    uint16_t port; /* unless the URL says another */
} schemes[] = {
    {"redis://", REDIS_SINGLE, REDIS_TCP, false, REDIS_PORT},
    {"rediss://", REDIS_SINGLE, REDIS_TCP, true, REDIS_PORT},
    {"unix://", REDIS_SINGLE, REDIS_UNIX, false, 0},
    {"redis-sentinel://", REDIS_SENTINEL, REDIS_TCP, false, SENTINEL_PORT},
    {"rediss-sentinel://", REDIS_SENTINEL, REDIS_TCP, true, SENTINEL_PORT},
    {"redis-cluster://", REDIS_CLUSTER, REDIS_TCP, false, REDIS_PORT},
    {"rediss-cluster://", REDIS_CLUSTER, REDIS_TCP, true, REDIS_PORT},
    {"redis-quorum://", REDIS_QUORUM, REDIS_TCP, false, REDIS_PORT},
    {"rediss-quorum://", REDIS_QUORUM, REDIS_TCP, true, REDIS_PORT},
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

/* The steps of the parser return NULL, or a text that describes the mistake. */

static const char *parse_userinfo(struct redis_url *url, struct span info)
{
    const char *colon = memchr(info.text, ':', info.len);

    if (colon == NULL)
        return "before the @ there must be user:password or :password";
    struct span user = {info.text, (size_t)(colon - info.text)};
    struct span password = {colon + 1, info.len - user.len - 1};
    if (!decode(user, url->login.user, sizeof(url->login.user)))
        return "the user is too long or not percent-encoded correctly";
    if (!decode(password, url->login.password, sizeof(url->login.password)))
        return "the password is too long or not percent-encoded correctly";
    url->login.has_user = user.len > 0;
    url->login.has_password = user.len > 0 || password.len > 0;
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

static const char *parse_name(char name[REDIS_URL_HOST_SIZE], struct span text)
{
    static const char name_error[] =
        "the host must be a name, an IPv4 address or an [IPv6 address]";
    bool bracketed = text.len >= 2 && text.text[0] == '[' && text.text[text.len - 1] == ']';
    struct in6_addr address;

    if (bracketed) {
        text.text++;
        text.len -= 2;
    }
    if (text.len == 0)
        return "the host is missing";
    if (text.len >= REDIS_URL_HOST_SIZE)
        return name_error;
    for (size_t i = 0; !bracketed && i < text.len; i++)
        if (!isalnum((unsigned char)text.text[i]) && strchr("-._", text.text[i]) == NULL)
            return name_error;
    memcpy(name, text.text, text.len);
    name[text.len] = '\0';
    if (bracketed && inet_pton(AF_INET6, name, &address) != 1)
        return name_error;
    return NULL;
}

/* HOST[:PORT] */
static const char *parse_host(struct redis_host *host, struct span text, uint16_t default_port)
{
    const char *colon = memrchr(text.text, ':', text.len);
    struct span name = text;
    int port = default_port;

    if (colon != NULL && memchr(colon, ']', text.len - (size_t)(colon - text.text)) == NULL) {
        name.len = (size_t)(colon - text.text);
        struct span digits = {colon + 1, text.len - name.len - 1};
        if (!parse_number(digits, 1, UINT16_MAX, &port))
            return "the port must be from 1 to 65535 (a / in a password is written %2F)";
    }
    host->port = (uint16_t)port;
    return parse_name(host->host, name);
}

static const char *parse_hosts(struct redis_url *url, struct span list, uint16_t default_port)
{
    for (;;) {
        if (url->host_count == REDIS_URL_HOSTS_MAX)
            return "there are more than 16 hosts";
        const char *comma = memchr(list.text, ',', list.len);
        struct span host = {list.text, comma != NULL ? (size_t)(comma - list.text) : list.len};
        const char *error = parse_host(&url->hosts[url->host_count], host, default_port);
        if (error != NULL)
            return error;
        url->host_count++;
        if (comma == NULL)
            return NULL;
        if (url->topology == REDIS_SINGLE)
            return "several hosts need redis-sentinel://, redis-cluster:// or "
                   "redis-quorum://";
        list.text += host.len + 1;
        list.len -= host.len + 1;
    }
}

/* A majority of servers is one of different servers. */
static const char *check_quorum(const struct redis_url *url)
{
    if (url->host_count != 3 && url->host_count != 5)
        return "redis-quorum:// needs 3 or 5 hosts";
    for (size_t i = 0; i < url->host_count; i++)
        for (size_t k = 0; k < i; k++)
            if (url->hosts[i].port == url->hosts[k].port &&
                strcasecmp(url->hosts[i].host, url->hosts[k].host) == 0)
                return "redis-quorum:// names a host twice";
    return NULL;
}

/* /MASTER, which is taken off the front of `rest`. */
static const char *take_master(struct redis_url *url, const char **rest)
{
    static const char master_error[] =
        "after the Sentinels there must be / and the master's name, as in "
        "redis-sentinel://h1,h2/mymaster";
    struct span name = {*rest + 1, **rest == '/' ? strcspn(*rest + 1, "/?#") : 0};

    if (name.len == 0)
        return master_error;
    if (!decode(name, url->master_name, sizeof(url->master_name)) ||
        text_has_control(url->master_name, strlen(url->master_name)))
        return "the master's name is too long or not percent-encoded correctly";
    *rest = name.text + name.len;
    return NULL;
}

static const char *parse_tcp(struct redis_url *url, const char *text, uint16_t default_port)
{
    struct span authority = {text, strcspn(text, "/?#")};
    const char *rest = text + authority.len;
    const char *error = take_userinfo(url, &authority);

    if (error == NULL)
        error = parse_hosts(url, authority, default_port);
    if (error == NULL && url->topology == REDIS_QUORUM)
        error = check_quorum(url);
    if (error == NULL && url->topology == REDIS_SENTINEL)
        error = take_master(url, &rest);
    if (error != NULL || rest[0] == '\0' || strcmp(rest, "/") == 0)
        return error;
    struct span database = {rest + 1, strlen(rest + 1)};
    if (rest[0] != '/' || !parse_number(database, 0, MAX_DATABASE, &url->database))
        return url->topology == REDIS_SENTINEL
                   ? "after the master there may only be / and a database from 0 to 65535"
                   : "after the host there may only be / and a database from 0 to 65535";
    if (url->topology == REDIS_CLUSTER && url->database != 0)
        return "a cluster has no database but 0";
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
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const struct scheme *scheme = &schemes[i];
        if (!starts_with(text, scheme->name))
            continue;
        url->topology = scheme->topology;
        url->transport = scheme->transport;
        url->tls = scheme->tls;
        const char *rest = text + strlen(scheme->name);
        return scheme->transport == REDIS_UNIX ? parse_unix(url, rest)
                                               : parse_tcp(url, rest, scheme->port);
    }
    return "a Redis URL begins with redis://, rediss://, unix://, redis-sentinel://, "
           "redis-cluster:// or redis-quorum://";
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

int redis_url_of_server(struct redis_url *server, const struct redis_url *url, const char *host,
                        uint16_t port)
{
    size_t len = strlen(host);

    if (len == 0 || len >= REDIS_URL_HOST_SIZE)
        return -1;
    memset(server, 0, sizeof(*server));
    server->tls = url->tls;
    server->tls_files = url->tls_files;
    server->login = url->login;
    server->database = url->database;
    server->host_count = 1;
    server->hosts[0].port = port;
    memcpy(server->hosts[0].host, host, len);
    return 0;
}

int redis_url_of_sentinel(struct redis_url *sentinel, const struct redis_url *url,
                          const char *host, uint16_t port)
{
    if (redis_url_of_server(sentinel, url, host, port) != 0)
        return -1;
    sentinel->login = url->sentinel_login;
    sentinel->database = 0;
    return 0;
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
#define PLAIN "-._~"

/* `plain`: the characters that are not encoded, besides letters and digits. */
static void append_encoded(char text[REDIS_URL_TEXT_SIZE], const char *in, const char *plain)
{
    for (; *in != '\0'; in++) {
        unsigned char c = (unsigned char)*in;
        append(text, isalnum(c) || strchr(plain, c) != NULL ? "%c" : "%%%02X", c);
    }
}

static const char *scheme_of(const struct redis_url *url)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (schemes[i].topology == url->topology && schemes[i].transport == url->transport &&
            schemes[i].tls == url->tls)
            return schemes[i].name;
    return "";
}

static void append_hosts(char text[REDIS_URL_TEXT_SIZE], const struct redis_url *url)
{
    for (size_t i = 0; i < url->host_count; i++) {
        const struct redis_host *host = &url->hosts[i];
        append(text, "%s", i > 0 ? "," : "");
        append(text, strchr(host->host, ':') != NULL ? "[%s]:%d" : "%s:%d", host->host,
               host->port);
    }
}

bool redis_host_is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

void redis_url_describe(const struct redis_url *url, char text[REDIS_URL_TEXT_SIZE])
{
    bool is_unix = url->transport == REDIS_UNIX;

    text[0] = '\0';
    append(text, "%s", scheme_of(url));
    append_encoded(text, url->login.user, PLAIN);
    append(text, "%s", url->login.has_password ? ":***@" : "");
    append_encoded(text, url->path, PLAIN "/");
    append_hosts(text, url);
    if (url->topology == REDIS_SENTINEL) {
        append(text, "/");
        append_encoded(text, url->master_name, PLAIN);
    }
    if (url->database != 0)
        append(text, is_unix ? "?db=%d" : "/%d", url->database);
}

void redis_url_of_socket(const char *path, char text[REDIS_URL_TEXT_SIZE])
{
    assert(path[0] == '/' && strlen(path) < REDIS_URL_PATH_SIZE);
    text[0] = '\0';
    append(text, "unix://");
    append_encoded(text, path, PLAIN "/");
}
