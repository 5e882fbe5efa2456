/* rlock ready: whether a server is ready, for health checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/status.h"
#include "client/verbs/look.h"
#include "client/verbs/verbs.h"

enum { URL_SIZE = 320 };

/* The URL of the rlockd that has this environment: every address is also localhost. */
static bool make_own_url(const char *listen, char url[URL_SIZE])
{
    const char *cert = getenv("RLOCKD_TLS_CERT"), *port = strrchr(listen, ':');

    if (!port) {
        return false;
    }
    int host_len = (int)(port - listen);
    const char *host = listen;
    if (host_len == 0 || strncmp(listen, "0.0.0.0:", 8) == 0 ||
        strncmp(listen, "[::]:", 5) == 0) {
        host = "localhost";
        host_len = (int)strlen(host);
    }
    int len = snprintf(url, URL_SIZE, "http%s://%.*s%s", cert && *cert ? "s" : "", host_len,
                       host, port);
    return len < URL_SIZE;
}

int verb_ready(struct settings *settings)
{
    const char *listen = getenv("RLOCKD_LISTEN");
    char url[URL_SIZE];
    json_t *body;
    int status;

    if (!settings->urls && listen && make_own_url(listen, url)) {
        settings->urls = url;
        settings->trusts_any = true; /* certificates are for the names that clients use */
    }
    settings->token_file = NULL; /* nobody asks for a token here */
    struct http *http = http_new(settings, &status);
    if (http) {
        status = look_get(http, settings, strdup("/readyz"), &body);
        json_decref(body);
        http_free(http);
    }
    return status;
}
