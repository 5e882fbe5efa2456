/* One HTTP exchange by libcurl, shared by the synchronous and the slow requests. */
#ifndef E2E_HARNESS_CURL_H
#define E2E_HARNESS_CURL_H

#include <curl/curl.h>

#include "harness_world.h"

struct exchange {
    CURL *curl;
    struct curl_slist *headers;
    FILE *head_file, *body_file;
    char *head, *body;
    size_t head_len, body_len;
    char error[CURL_ERROR_SIZE];
};

void exchange_init(struct exchange *ex, struct front *fe, const struct request *request);
/* Moves what came into the reply and frees the exchange. */
void exchange_finish(struct exchange *ex, CURLcode code, struct reply *reply);

#endif
