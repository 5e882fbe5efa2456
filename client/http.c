/* One request at a time over libcurl's multi handle, in a loop that also waits for signals and
 * for the guard. */
#include "client/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/say.h"
#include "client/status.h"
#include "client/values.h"

enum {
    SERVERS_MAX = 16,
    BODY_MAX = 1 << 20, /* the largest answer that is read */
    CONNECT_TIMEOUT_MS = 3000,
    TURN_MAX_MS = 60000,
    PAUSE_MIN_MS = 200, /* after a round over all servers without an answer */
    PAUSE_SPREAD_MS = 600,
    TOKEN_FILE_MAX = 4096,
};

struct http {
    CURLM *multi;
    CURL *easy;
    const struct settings *settings;
    char *url_list, *urls[SERVERS_MAX];
    size_t server_count, server, asked_in_round;
    char *authorization, *trace_parent; /* header lines, or NULL */
    char *told[SERVERS_MAX];            /* --verbose: the last trouble with each server */
    http_watch_fn *watch;
    void *context;
    int fds[WATCH_COUNT];
    char *body;
    size_t body_len;
    char error[CURL_ERROR_SIZE];
    char trouble[512];
    int64_t answered_at;
};

static const char *urls_of(const struct settings *settings)
{
    return settings->urls ? settings->urls : "http://localhost:7400";
}

static bool read_urls(struct http *http)
{
    http->url_list = strdup(urls_of(http->settings));
    if (!http->url_list ||
        !value_urls(http->url_list, http->urls, SERVERS_MAX, &http->server_count)) {
        say("--url has to be at most %d URLs that begin with http:// or https://", SERVERS_MAX);
        return false;
    }
    if (http->server_count == 0) {
        say("--url names no server");
    }
    return http->server_count > 0;
}

static bool needs_tls(const struct settings *settings)
{
    return strstr(urls_of(settings), "https://") != NULL;
}

static bool read_token(struct http *http)
{
    const char *path = http->settings->token_file;
    char token[TOKEN_FILE_MAX] = "";

    if (!path) {
        return true;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        say("cannot read the API token in %s: %s", path, strerror(errno));
        return false;
    }
    if (fgets(token, sizeof(token), file)) {
        token[strcspn(token, " \t\r\n")] = '\0';
    }
    fclose(file);
    if (!token[0]) {
        say("there is no API token in the first line of %s", path);
    }
    return token[0] && asprintf(&http->authorization, "Authorization: Bearer %s", token) > 0;
}

/* A file that libcurl cannot read would be reported with the first https:// request only, as if
 * the server were at fault. */
static bool check_files(const struct settings *settings)
{
    const char *const files[] = {settings->ca, settings->cert, settings->key};

    for (size_t i = 0; needs_tls(settings) && i < sizeof(files) / sizeof(*files); i++) {
        if (files[i] && access(files[i], R_OK) != 0) {
            say("cannot read %s: %s", files[i], strerror(errno));
            return false;
        }
    }
    return true;
}

static void read_trace_parent(struct http *http)
{
    const char *parent = getenv("TRACEPARENT");

    if (parent && *parent && parent[strspn(parent, "0123456789abcdef-")] == '\0' &&
        asprintf(&http->trace_parent, "traceparent: %s", parent) < 0) {
        http->trace_parent = NULL;
    }
}

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct http *http = context;
    size_t len = size * count;
    char *body = http->body_len + len > BODY_MAX
                     ? NULL
                     : realloc(http->body, http->body_len + len + 1);

    if (!body) {
        return 0; /* ends the transfer */
    }
    memcpy(body + http->body_len, data, len);
    http->body = body;
    http->body_len += len;
    return len;
}

static void set_options(struct http *http)
{
    CURL *easy = http->easy;
    const struct settings *settings = http->settings;

    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 16384L);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "rlock/" RLOCKD_VERSION);
    curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca);
    curl_easy_setopt(easy, CURLOPT_SSLCERT, settings->cert);
    curl_easy_setopt(easy, CURLOPT_SSLKEY, settings->key);
    if (settings->trusts_any) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

struct http *http_new(const struct settings *settings, int *status)
{
    struct http *http = calloc(1, sizeof(*http));

    *status = STATUS_USAGE;
    if (!http) {
        return NULL;
    }
    *http = (struct http){
        .settings = settings, .fds = {-1, -1, -1, -1}, .answered_at = boottime_ms()};
    if (!read_urls(http) || !read_token(http) || !check_files(settings)) {
        http_free(http);
        return NULL;
    }
    read_trace_parent(http);
    srandom((unsigned)(getpid() ^ boottime_ms())); /* for pauses, which no two clients share */
    /* OpenSSL takes memory that a client of http:// does not need. */
    curl_global_init(needs_tls(settings) ? CURL_GLOBAL_SSL : CURL_GLOBAL_NOTHING);
    http->multi = curl_multi_init();
    http->easy = curl_easy_init();
    if (!http->multi || !http->easy) {
        say("no memory for libcurl");
        *status = STATUS_FAULT;
        http_free(http);
        return NULL;
    }
    set_options(http);
    return http;
}

void http_free(struct http *http)
{
    if (http->easy) {
        curl_easy_cleanup(http->easy);
    }
    if (http->multi) {
        curl_multi_cleanup(http->multi);
    }
    for (size_t i = 0; i < http->server_count; i++) {
        free(http->told[i]);
    }
    free(http->url_list);
    free(http->authorization);
    free(http->trace_parent);
    free(http->body);
    free(http);
}

void http_watch(struct http *http, http_watch_fn *watch, void *context)
{
    http->watch = watch;
    http->context = context;
}

void http_watch_fd(struct http *http, enum http_watched which, int fd)
{
    http->fds[which] = fd;
}

/* Waits for the network, for the watched descriptors, or until then. True: interrupted. */
static bool turn(struct http *http, int64_t until)
{
    struct curl_waitfd extra[WATCH_COUNT];
    unsigned count = 0;
    int64_t left = until - boottime_ms();

    for (int i = 0; i < WATCH_COUNT; i++) {
        if (http->fds[i] >= 0) {
            extra[count++] = (struct curl_waitfd){.fd = http->fds[i],
                                                  .events = CURL_WAIT_POLLIN};
        }
    }
    left = left < 0 ? 0 : left > TURN_MAX_MS ? TURN_MAX_MS : left;
    curl_multi_poll(http->multi, extra, count, (int)left, NULL);
    return http->watch && http->watch(http->context);
}

bool http_pause(struct http *http, int64_t until)
{
    int running;

    do {
        curl_multi_perform(http->multi, &running); /* notices what the server closes */
        if (turn(http, until)) {
            return false;
        }
    } while (boottime_ms() < until);
    return true;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name,
                                     const char *value)
{
    char line[512];

    if (!value) {
        return list;
    }
    snprintf(line, sizeof(line), "%s%s%s", name, *name ? ": " : "", value);
    return curl_slist_append(list, line);
}

static struct curl_slist *headers_of(const struct http *http,
                                     const struct http_request *request)
{
    struct curl_slist *list = NULL;

    list = add_header(list, "Session-Token", request->session_token);
    list = add_header(list, "Lease-Token", request->lease_token);
    list = add_header(list, "If-Match", request->if_match);
    list = add_header(list, "Idempotency-Key", request->idempotency_key);
    list = add_header(list, "Prefer", request->prefer);
    list = add_header(list, "Content-Type", request->body ? "application/json" : NULL);
    if (http->authorization) {
        list = curl_slist_append(list, http->authorization);
    }
    return add_header(list, "", http->trace_parent);
}

/* Why the transfer failed, in the words of the system or of libcurl. */
static void describe_failure(const struct http *http, CURLcode result, char *why, size_t size)
{
    long error = 0;

    curl_easy_getinfo(http->easy, CURLINFO_OS_ERRNO, &error);
    snprintf(why, size, "%s%s",
             result == CURLE_COULDNT_CONNECT && error ? strerror((int)error)
             : *http->error                           ? http->error
                                                      : curl_easy_strerror(result),
             http->settings->urls ? "" : "; RLOCK_URL is not set");
}

static void set_trouble(struct http *http, const char *why)
{
    CURLU *url = curl_url();
    char *host = NULL, *port = NULL;

    /* Without a password that the URL may have. */
    if (url && curl_url_set(url, CURLUPART_URL, http->urls[http->server], 0) == CURLUE_OK) {
        curl_url_get(url, CURLUPART_HOST, &host, 0);
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    }
    snprintf(http->trouble, sizeof(http->trouble), "%s:%s: %s", host ? host : "?",
             port ? port : "?", why);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
}

/* Runs the transfer. False: interrupted. */
static bool transfer(struct http *http, CURLcode *result)
{
    int running, left;
    CURLMsg *message;

    for (;;) {
        curl_multi_perform(http->multi, &running);
        while ((message = curl_multi_info_read(http->multi, &left))) {
            if (message->msg == CURLMSG_DONE) {
                *result = message->data.result;
                return true;
            }
        }
        if (turn(http, BOOTTIME_NEVER)) {
            return false;
        }
    }
}

static enum http_outcome read_answer(struct http *http, struct http_answer *answer)
{
    char why[64];
    curl_off_t retry_after_s = 0;

    answer->received_at = boottime_ms();
    curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_easy_getinfo(http->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    answer->retry_after_ms = retry_after_s > 60 ? 60000 : retry_after_s * 1000;
    answer->body = http->body ? json_loadb(http->body, http->body_len, 0, NULL) : NULL;
    if (!json_is_object(answer->body) || answer->status == 502 || answer->status == 504) {
        http_answer_clear(answer);
        snprintf(why, sizeof(why), "status %ld, not from rlockd", answer->status);
        set_trouble(http, why);
        return HTTP_NO_ANSWER;
    }
    http->answered_at = answer->received_at;
    if (answer->status == 401 && !http->authorization) {
        json_object_set_new(answer->body, "detail",
                            json_string("the server wants an API token, and neither "
                                        "RLOCK_TOKEN_FILE nor --token-file names a file"));
    }
    if (answer->status >= 500 || answer->status == 429) {
        const char *detail = json_string_value(json_object_get(answer->body, "detail"));
        set_trouble(http, detail ? detail : "an error of the server");
    }
    return HTTP_ANSWERED;
}

enum http_outcome http_ask(struct http *http, const struct http_request *request,
                           struct http_answer *answer)
{
    enum http_outcome outcome = HTTP_INTERRUPTED;
    char url[4096], why[CURL_ERROR_SIZE + 64];
    CURLcode result = CURLE_OK;
    char *body = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
    struct curl_slist *headers = headers_of(http, request);

    *answer = (struct http_answer){.sent_at = boottime_ms()};
    free(http->body);
    http->body = NULL;
    http->body_len = 0;
    http->error[0] = '\0';
    snprintf(url, sizeof(url), "%s%s", http->urls[http->server], request->path);
    curl_easy_setopt(http->easy, CURLOPT_URL, url);
    curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, headers);
    /* A POST without a body has a length of 0, which the server asks for. */
    curl_easy_setopt(http->easy, CURLOPT_HTTPGET, 1L);
    if (strcmp(request->method, "GET") != 0) {
        curl_easy_setopt(http->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE, body ? (long)strlen(body) : 0L);
        curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, body ? body : "");
    }
    curl_easy_setopt(http->easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl_multi_add_handle(http->multi, http->easy);
    if (transfer(http, &result)) {
        outcome = result == CURLE_OK ? read_answer(http, answer) : HTTP_NO_ANSWER;
        if (result != CURLE_OK) {
            describe_failure(http, result, why, sizeof(why));
            set_trouble(http, why);
        }
    }
    curl_multi_remove_handle(http->multi, http->easy); /* hangs up if it was interrupted */
    curl_slist_free_all(headers);
    free(body);
    return outcome;
}

void http_answer_clear(struct http_answer *answer)
{
    json_decref(answer->body);
    answer->body = NULL;
}

/* The same trouble is told once, however often the server is asked. */
static void tell_trouble(struct http *http)
{
    char **told = &http->told[http->server];

    if (http->settings->verbose && (!*told || strcmp(*told, http->trouble) != 0)) {
        say("%s", http->trouble);
        free(*told);
        *told = strdup(http->trouble);
    }
}

bool http_next_server(struct http *http)
{
    tell_trouble(http);
    http->server = (http->server + 1) % http->server_count;
    http->asked_in_round++;
    if (http->asked_in_round < http->server_count) {
        return false;
    }
    http->asked_in_round = 0;
    return true;
}

static bool pause_after_round(struct http *http, int64_t until)
{
    int64_t pause_until = boottime_ms() + PAUSE_MIN_MS + random() % PAUSE_SPREAD_MS;

    return http_pause(http, pause_until < until ? pause_until : until);
}

enum http_outcome http_insist(struct http *http, const struct http_request *request,
                              struct http_answer *answer, int64_t until)
{
    bool is_round_over = false;

    http->asked_in_round = 0;
    for (;;) {
        enum http_outcome outcome = http_ask(http, request, answer);
        if (outcome == HTTP_INTERRUPTED || (outcome == HTTP_ANSWERED && answer->status < 500)) {
            return outcome;
        }
        http_answer_clear(answer);
        if (!http->settings->quiet) {
            say_status("rlock: no server yet: %s", http->trouble);
        }
        is_round_over = http_next_server(http);
        if (is_round_over && boottime_ms() >= until) {
            return HTTP_NO_ANSWER;
        }
        if (is_round_over && !pause_after_round(http, until)) {
            return HTTP_INTERRUPTED;
        }
    }
}

const char *http_trouble(const struct http *http)
{
    return http->trouble;
}

int64_t http_answered_at(const struct http *http)
{
    return http->answered_at;
}

char *http_segment(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = escaped ? strdup(escaped) : NULL;

    curl_free(escaped);
    return copy;
}
