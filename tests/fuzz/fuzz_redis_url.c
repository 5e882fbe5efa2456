/* storage/redis/url.c. The input is a text. */
#include "storage/redis/url.h"
#include "tests/fuzz/fuzz.h"

static void check_parts(const struct redis_url *url)
{
    CHECK(url->database >= 0 && (!url->login.has_user || url->login.has_password));
    CHECK(url->host_count <= REDIS_URL_HOSTS_MAX);
    CHECK((url->host_count == 0) == (url->transport == REDIS_UNIX));
    for (size_t i = 0; i < url->host_count; i++)
        CHECK(url->hosts[i].host[0] != '\0' && url->hosts[i].port != 0);
    if (url->transport == REDIS_UNIX)
        CHECK(url->path[0] == '/' && !url->tls && url->topology == REDIS_SINGLE);
    CHECK((url->master_name[0] != '\0') == (url->topology == REDIS_SENTINEL));
}

static void check_same_place(const struct redis_url *url, const struct redis_url *again)
{
    CHECK(again->topology == url->topology && again->transport == url->transport &&
          again->tls == url->tls && again->host_count == url->host_count);
    for (size_t i = 0; i < url->host_count; i++)
        CHECK(again->hosts[i].port == url->hosts[i].port &&
              strcmp(again->hosts[i].host, url->hosts[i].host) == 0);
    CHECK(again->database == url->database && strcmp(again->path, url->path) == 0 &&
          strcmp(again->master_name, url->master_name) == 0 &&
          strcmp(again->login.user, url->login.user) == 0);
}

/* Servers that Sentinels or nodes name. */
static void check_server(const struct redis_url *url, const char *host)
{
    struct redis_url server;

    if (redis_url_of_server(&server, url, host, 6380) != 0)
        return;
    CHECK(server.topology == REDIS_SINGLE && server.host_count == 1 && server.tls == url->tls);
    CHECK(strcmp(server.hosts[0].host, host) == 0 && server.hosts[0].port == 6380);
    CHECK(strcmp(server.login.password, url->login.password) == 0);
}

static void check_url(const struct redis_url *url, const char *given)
{
    char text[REDIS_URL_TEXT_SIZE], again_text[REDIS_URL_TEXT_SIZE], error[200];
    struct redis_url again;

    check_parts(url);
    redis_url_describe(url, text);
    CHECK(strlen(text) < sizeof(text));
    /* What is described is a URL of the same place, with another password. */
    CHECK(redis_url_parse(&again, text, error, sizeof(error)) == 0);
    check_same_place(url, &again);
    if (url->login.has_password)
        CHECK(strcmp(again.login.password, "***") == 0);
    redis_url_describe(&again, again_text);
    CHECK(strcmp(text, again_text) == 0);
    if (url->transport == REDIS_TCP)
        check_server(url, given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *text = fuzz_rest(&input);
    char error[200] = "";
    struct redis_url url;

    if (redis_url_parse(&url, text, error, sizeof(error)) == 0)
        check_url(&url, text);
    else
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    free(text);
    return 0;
}
