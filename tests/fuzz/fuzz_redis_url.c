/* storage/redis/url.c. The input is a text. */
#include "storage/redis/url.h"
#include "tests/fuzz/fuzz.h"

static void check_url(const struct redis_url *url)
{
    char text[REDIS_URL_TEXT_SIZE], again_text[REDIS_URL_TEXT_SIZE], error[200];
    struct redis_url again;

    CHECK(url->database >= 0 && (!url->has_user || url->has_password));
    if (url->transport == REDIS_TCP)
        CHECK(url->host[0] != '\0' && url->port != 0);
    else
        CHECK(url->path[0] == '/');
    redis_url_describe(url, text);
    CHECK(strlen(text) < sizeof(text));
    if (url->has_password && strlen(url->password) >= 4 && strstr(url->host, "***") == NULL)
        CHECK(strstr(text, "***") != NULL);
    /* What is described is a URL of the same place. */
    CHECK(redis_url_parse(&again, text, error, sizeof(error)) == 0);
    CHECK(again.transport == url->transport && again.port == url->port &&
          again.database == url->database && strcmp(again.host, url->host) == 0 &&
          strcmp(again.path, url->path) == 0 && strcmp(again.user, url->user) == 0);
    redis_url_describe(&again, again_text);
    CHECK(strcmp(text, again_text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *text = fuzz_rest(&input);
    char error[200] = "";
    struct redis_url url;

    if (redis_url_parse(&url, text, error, sizeof(error)) == 0)
        check_url(&url);
    else
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    free(text);
    return 0;
}
