/* Requests to rlockd. The files of this folder:
 *
 *   http.c        the list of servers, its rounds and pauses, headers, JSON
 *   transfer.c    one HTTP exchange, in the loop
 *   connection.c  the connection of an exchange, which is kept for the next one
 *   peer.c        what a server's URL says, its addresses, its certificate */
#include "client/http/http.h"

#include <errno.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/say.h"
#include "client/status.h"
#include "client/http/transfer.h"
#include "client/values.h"

enum {
    SERVERS_MAX = 16,
    PAUSE_MIN_MS = 200, /* after a round over all servers without an answer */
    PAUSE_SPREAD_MS = 600,
    RETRY_MS = 1000, /* after 429 without Retry-After */
    TOKEN_FILE_MAX = 4096,
    HEADERS = 9, /* of a request, the last one without a name */
};

struct http {
    struct transfer *transfer;
    const struct settings *settings;
    char *url_list, *urls[SERVERS_MAX];
    size_t server_count, server, asked_in_round;
    char *authorization;      /* the header's value, or NULL */
    const char *trace_parent; /* of the environment, or NULL */
    char *told[SERVERS_MAX];  /* --verbose: the last trouble with each server */
    char trouble[512];
    int64_t answered_at; /* boottime_ms() of the last answer; before the first, of http_new() */
};

_Static_assert((int)WATCH_COUNT == TRANSFER_FDS, "a place for each descriptor");

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

/* The header with the API token in the file; NULL: there is none. */
static char *read_authorization(const char *path)
{
    char token[TOKEN_FILE_MAX] = "", *authorization = NULL;
    FILE *file = fopen(path, "re");

    if (!file) {
        return NULL;
    }
    if (fgets(token, sizeof(token), file)) {
        token[strcspn(token, " \t\r\n")] = '\0';
    }
    fclose(file);
    errno = ENODATA;
    return token[0] && asprintf(&authorization, "Bearer %s", token) > 0 ? authorization : NULL;
}

static bool read_token(struct http *http)
{
    const char *path = http->settings->token_file;

    if (!path) {
        return true;
    }
    http->authorization = read_authorization(path);
    if (!http->authorization && errno == ENODATA) {
        say("there is no API token in the first line of %s", path);
    } else if (!http->authorization) {
        say("cannot read the API token in %s: %s", path, strerror(errno));
    }
    return http->authorization;
}

/* A pipe might be read only once, and another read might wait for ever. */
static bool is_regular(const char *path)
{
    struct stat file;

    return path && stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

/* After a 401. Whether the file has another API token by now: a run may outlive its first. */
static bool has_new_token(struct http *http)
{
    const char *path = http->settings->token_file;
    char *authorization = is_regular(path) ? read_authorization(path) : NULL;

    if (!authorization || strcmp(authorization, http->authorization) == 0) {
        free(authorization);
        return false;
    }
    free(http->authorization);
    http->authorization = authorization;
    return true;
}

/* A file that OpenSSL cannot read would be reported with the first https:// request only, as if
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

static const char *find_trace_parent(void)
{
    const char *parent = getenv("TRACEPARENT");

    return parent && *parent && parent[strspn(parent, "0123456789abcdef-")] == '\0' ? parent
                                                                                    : NULL;
}

struct http *http_new(const struct settings *settings, int *status)
{
    struct http *http = calloc(1, sizeof(*http));

    *status = STATUS_USAGE;
    if (!http) {
        return NULL;
    }
    *http = (struct http){.settings = settings,
                          .trace_parent = find_trace_parent(),
                          .answered_at = boottime_ms()};
    if (!read_urls(http) || !read_token(http) || !check_files(settings)) {
        http_free(http);
        return NULL;
    }
    srandom((unsigned)(getpid() ^ boottime_ms())); /* for pauses, which no two clients share */
    http->transfer = transfer_new(settings);
    if (!http->transfer) {
        say("no memory for requests");
        *status = STATUS_FAULT;
        http_free(http);
        return NULL;
    }
    return http;
}

void http_free(struct http *http)
{
    transfer_free(http->transfer);
    for (size_t i = 0; i < http->server_count; i++) {
        free(http->told[i]);
    }
    free(http->url_list);
    free(http->authorization);
    free(http);
}

void http_watch(struct http *http, http_watch_fn *watch, void *context)
{
    transfer_watch(http->transfer, watch, context);
}

void http_watch_fd(struct http *http, enum http_watched which, int fd)
{
    transfer_watch_fd(http->transfer, which, fd);
}

bool http_pause(struct http *http, int64_t until)
{
    return transfer_pause(http->transfer, until);
}

static void set_headers(const struct http *http, const struct http_request *request,
                        struct transfer_header headers[HEADERS])
{
    const struct transfer_header all[HEADERS] = {
        {"Session-Token", request->session_token},
        {"Lease-Token", request->lease_token},
        {"If-Match", request->if_match},
        {"Idempotency-Key", request->idempotency_key},
        {"Prefer", request->prefer},
        {"Content-Type", request->body ? "application/json" : NULL},
        {"Authorization", http->authorization},
        {"traceparent", http->trace_parent},
    };

    memcpy(headers, all, sizeof(all));
}

/* Without a password that the URL may have. */
static void set_trouble(struct http *http, const char *why)
{
    struct evhttp_uri *uri = evhttp_uri_parse(http->urls[http->server]);
    const char *host = uri ? evhttp_uri_get_host(uri) : NULL;
    int port = uri ? evhttp_uri_get_port(uri) : -1;

    if (port < 0) {
        port = strncmp(http->urls[http->server], "https", 5) == 0 ? 443 : 80;
    }
    snprintf(http->trouble, sizeof(http->trouble), "%s:%d: %s", host ? host : "?", port, why);
    if (uri) {
        evhttp_uri_free(uri);
    }
}

/* A gateway in front of rlockd answers in JSON, too, but not with rlockd's problems, and not
 * with what was asked for. Only its 401 counts: it may be the gateway that checks the API
 * token. */
static bool is_from_rlockd(const struct http_request *request, const struct http_answer *answer)
{
    static const char problem[] = "urn:rlockd:problem:";
    const char *type = json_string_value(json_object_get(answer->body, "type"));

    if (!json_is_object(answer->body)) {
        return false;
    }
    if (answer->status < 300) {
        return !request->wanted || json_object_get(answer->body, request->wanted);
    }
    return answer->status == 401 || (type && strncmp(type, problem, strlen(problem)) == 0);
}

static enum http_outcome read_answer(struct http *http, const struct http_request *request,
                                     const struct transfer_answer *got,
                                     struct http_answer *answer)
{
    char why[64];

    answer->received_at = boottime_ms();
    answer->status = got->status;
    answer->retry_after_ms = got->retry_after_s > 60 ? 60000 : got->retry_after_s * 1000;
    answer->body = got->body ? json_loadb(got->body, got->body_len, 0, NULL) : NULL;
    if (!is_from_rlockd(request, answer)) {
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
    const char *outcome = json_string_value(json_object_get(answer->body, "outcome"));
    answer->is_unknown = answer->status >= 500 &&
                         !(outcome && strcmp(outcome, "not-executed") == 0);
    if (answer->status >= 500 || answer->status == 429) {
        const char *detail = json_string_value(json_object_get(answer->body, "detail"));
        set_trouble(http, detail ? detail : "an error of the server");
    }
    return HTTP_ANSWERED;
}

static enum http_outcome ask_once(struct http *http, const struct http_request *request,
                                  struct http_answer *answer)
{
    struct transfer_header headers[HEADERS];
    struct transfer_request sent = {.method = request->method,
                                    .path = request->path,
                                    .headers = headers,
                                    .timeout_ms = request->timeout_ms,
                                    .once = request->once};
    struct transfer_answer got;
    char why[512];
    char *body = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;

    sent.body = body;
    set_headers(http, request, headers);
    *answer = (struct http_answer){.sent_at = boottime_ms(), .is_unknown = true};
    enum transfer_outcome outcome = transfer_run(http->transfer, http->urls[http->server],
                                                 &sent, &got);
    free(body);
    enum http_outcome result = outcome == TRANSFER_DONE
                                   ? read_answer(http, request, &got, answer)
                               : outcome == TRANSFER_INTERRUPTED ? HTTP_INTERRUPTED
                                                                 : HTTP_NO_ANSWER;
    free(got.body); /* it may have come in the turn that was interrupted, too */
    if (outcome == TRANSFER_NOT_SENT) {
        answer->is_unknown = false;
    }
    if (outcome == TRANSFER_FAILED || outcome == TRANSFER_NOT_SENT) {
        snprintf(why, sizeof(why), "%s%s", transfer_trouble(http->transfer),
                 http->settings->urls ? "" : "; RLOCK_URL is not set");
        set_trouble(http, why);
    }
    return result;
}

enum http_outcome http_ask(struct http *http, const struct http_request *request,
                           struct http_answer *answer)
{
    enum http_outcome outcome = ask_once(http, request, answer);

    if (outcome == HTTP_ANSWERED && answer->status == 401 && has_new_token(http)) {
        http_answer_clear(answer);
        outcome = ask_once(http, request, answer);
    }
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

/* 501 stays: the server's Redis is a quorum, which does not offer what was asked for. */
static bool is_in_trouble(long status)
{
    return status >= 500 && status != 501;
}

/* The API token has used up its requests of this second. A request that waits may also be one
 * of too many that do; the problem of a limit that lasts names the limit. */
static bool is_too_fast(const struct http_request *request, const struct http_answer *answer)
{
    return answer->status == 429 && !request->waits && !json_object_get(answer->body, "limit");
}

static bool pause_as_told(struct http *http, const struct http_answer *answer)
{
    return http_pause(http, boottime_ms() +
                                (answer->retry_after_ms ? answer->retry_after_ms : RETRY_MS));
}

static bool may_be_too_late(const struct http_request *request)
{
    return request->once || request->idempotency_key;
}

/* For the next attempt, if one may have been carried out that began at `unknown_at` (0: none).
 */
static int64_t time_left(const struct http_request *request, int64_t unknown_at)
{
    int64_t left = request->once ? 0 : unknown_at + HTTP_KEY_MS - boottime_ms();

    return unknown_at && may_be_too_late(request) && left < request->timeout_ms
               ? left
               : request->timeout_ms;
}

enum http_outcome http_insist(struct http *http, const struct http_request *request,
                              struct http_answer *answer, int64_t until)
{
    bool is_round_over = false, was_too_fast = false;
    struct http_request attempt = *request;
    int64_t unknown_at = 0;

    http->asked_in_round = 0;
    for (;;) {
        attempt.timeout_ms = time_left(request, unknown_at);
        if (attempt.timeout_ms <= 0) {
            return HTTP_UNKNOWN;
        }
        enum http_outcome outcome = http_ask(http, &attempt, answer);
        bool is_answered = outcome == HTTP_ANSWERED;
        bool too_fast = is_answered && is_too_fast(request, answer);
        if (outcome == HTTP_INTERRUPTED ||
            (is_answered && !too_fast && !is_in_trouble(answer->status))) {
            return outcome;
        }
        http_answer_clear(answer);
        unknown_at = unknown_at || !answer->is_unknown ? unknown_at : answer->sent_at;
        if (!http->settings->quiet) {
            say_status("rlock: no server yet: %s", http->trouble);
        }
        if (too_fast && (!was_too_fast || boottime_ms() < until)) {
            was_too_fast = true;
            tell_trouble(http);
            if (!pause_as_told(http, answer)) {
                return HTTP_INTERRUPTED;
            }
            continue;
        }
        is_round_over = http_next_server(http);
        if (is_round_over && boottime_ms() >= until) {
            return unknown_at && may_be_too_late(request) ? HTTP_UNKNOWN : HTTP_NO_ANSWER;
        }
        if (is_round_over && !pause_after_round(http, until)) {
            return HTTP_INTERRUPTED;
        }
    }
}

static int64_t patience(const struct http *http, int64_t until)
{
    return until != BOOTTIME_NEVER ? until
                                   : http->answered_at + http->settings->connect_timeout_ms;
}

enum http_outcome http_outlast(struct http *http, const struct http_request *request,
                               struct http_answer *answer, int64_t until)
{
    enum http_outcome outcome;

    do {
        outcome = http_insist(http, request, answer, patience(http, until));
    } while (outcome == HTTP_NO_ANSWER && boottime_ms() < patience(http, until));
    return outcome;
}

const char *http_trouble(const struct http *http)
{
    return http->trouble;
}

char *http_segment(const char *text)
{
    return evhttp_encode_uri(text);
}
