/* HTTP as a client sees it: one request, one parsed reply. */
#include "harness_curl.h"

#include <ctype.h>
#include <strings.h>

enum { REQUEST_MS = 20000, NAME_ENCODED_MAX = 512 * 3 + 1 };

static void reply_undo(void *thing)
{
    struct reply *reply = thing;

    free((char *)(uintptr_t)reply->head);
    free((char *)(uintptr_t)reply->text);
    free((char *)(uintptr_t)reply->error);
    json_decref(reply->json);
    free(reply);
}

struct reply *reply_new(struct world *w)
{
    struct reply *reply = calloc(1, sizeof(*reply));

    if (reply == NULL)
        abort();
    reply->head = strdup("");
    reply->text = strdup("");
    reply->sent_ms = now_ms();
    world_defer(w, reply_undo, reply);
    return reply;
}

void reply_parse(struct reply *reply, char *head, char *body)
{
    free((char *)(uintptr_t)reply->head);
    free((char *)(uintptr_t)reply->text);
    reply->head = head != NULL ? head : strdup("");
    reply->text = body != NULL ? body : strdup("");
    reply->json = json_loads(reply->text, JSON_REJECT_DUPLICATES, NULL);
    reply->done_ms = now_ms();
}

static void header_add(struct exchange *ex, const char *format, const char *value)
{
    char line[2048];

    snprintf(line, sizeof(line), format, value);
    ex->headers = curl_slist_append(ex->headers, line);
}

void exchange_init(struct exchange *ex, struct front *fe, const struct request *request)
{
    char url[4096];
    int timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : REQUEST_MS;

    memset(ex, 0, sizeof(*ex));
    ex->curl = curl_easy_init();
    ex->head_file = open_memstream(&ex->head, &ex->head_len);
    ex->body_file = open_memstream(&ex->body, &ex->body_len);
    if (ex->curl == NULL || ex->head_file == NULL || ex->body_file == NULL)
        abort();
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", fe->port, request->path);
    if (request->token != NULL)
        header_add(ex, "Lease-Token: %s", request->token);
    for (size_t i = 0; i < COUNT_OF(request->headers) && request->headers[i]; i++)
        header_add(ex, "%s", request->headers[i]);
    if (request->body != NULL)
        header_add(ex, "Content-Type: %s",
                   request->type != NULL ? request->type : "application/json");
    header_add(ex, "%s", "Expect:");
    curl_easy_setopt(ex->curl, CURLOPT_URL, url);
    curl_easy_setopt(ex->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(ex->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(ex->curl, CURLOPT_PROXY, "");
    /* A connection of its own, so that a hang-up is seen and no stale one is used. */
    curl_easy_setopt(ex->curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(ex->curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(ex->curl, CURLOPT_HTTPHEADER, ex->headers);
    curl_easy_setopt(ex->curl, CURLOPT_WRITEDATA, ex->body_file);
    curl_easy_setopt(ex->curl, CURLOPT_HEADERDATA, ex->head_file);
    curl_easy_setopt(ex->curl, CURLOPT_ERRORBUFFER, ex->error);
    curl_easy_setopt(ex->curl, CURLOPT_TIMEOUT_MS, (long)patience_ms(timeout_ms));
    if (strcmp(request->method, "HEAD") == 0)
        curl_easy_setopt(ex->curl, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(ex->curl, CURLOPT_CUSTOMREQUEST, request->method);
    if (request->body != NULL)
        curl_easy_setopt(ex->curl, CURLOPT_COPYPOSTFIELDS, request->body);
}

void exchange_finish(struct exchange *ex, CURLcode code, struct reply *reply)
{
    long status = 0;

    fclose(ex->head_file);
    fclose(ex->body_file);
    curl_easy_getinfo(ex->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK)
        reply->status = (int)status;
    else
        reply->error = strdup(ex->error[0] != '\0' ? ex->error : curl_easy_strerror(code));
    reply_parse(reply, ex->head, ex->body);
    curl_easy_cleanup(ex->curl);
    curl_slist_free_all(ex->headers);
}

struct reply *http_send(struct front *fe, const struct request *request)
{
    struct exchange ex;
    struct reply *reply = reply_new(fe->world);

    exchange_init(&ex, fe, request);
    exchange_finish(&ex, curl_easy_perform(ex.curl), reply);
    return reply;
}

struct reply *http(struct front *fe, const char *method, const char *path, const char *token)
{
    return HTTP(fe, .method = method, .path = path, .token = token);
}

const char *reply_header(struct world *w, const struct reply *reply, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = reply->head; line != NULL; line = strchr(line, '\n')) {
        const char *value;

        line += *line == '\n';
        if (strncasecmp(line, name, len) != 0 || line[len] != ':')
            continue;
        value = line + len + 1;
        value += strspn(value, " \t");
        return text(w, "%.*s", (int)strcspn(value, "\r\n"), value);
    }
    return NULL;
}

json_t *reply_get(const struct reply *reply, const char *path)
{
    char *steps = strdup(path), *save = NULL;
    json_t *at = reply->json;

    for (char *step = strtok_r(steps, ".", &save); step && at;
         step = strtok_r(NULL, ".", &save)) {
        if (json_is_array(at))
            at = json_array_get(at, (size_t)atoi(step));
        else
            at = json_object_get(at, step);
    }
    free(steps);
    return at;
}

const char *reply_str(const struct reply *reply, const char *path)
{
    return json_string_value(reply_get(reply, path));
}

json_int_t reply_int(const struct reply *reply, const char *path)
{
    json_t *value = reply_get(reply, path);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

const char *url_encode(struct world *w, const char *name)
{
    char encoded[NAME_ENCODED_MAX];
    size_t len = 0;

    for (; *name != '\0' && len + 4 < sizeof(encoded); name++) {
        unsigned char c = (unsigned char)*name;

        if (c < 0x80 && (isalnum(c) || strchr("-._~", c) != NULL))
            encoded[len++] = (char)c;
        else
            len += (size_t)snprintf(encoded + len, sizeof(encoded) - len, "%%%02X", c);
    }
    encoded[len] = '\0';
    return text(w, "%s", encoded);
}

const char *lock_path(struct world *w, const char *name, const char *rest)
{
    return text(w, "/v1/locks/%s%s", url_encode(w, name), rest);
}

static const char *query_path(struct front *fe, const char *name, const char *query)
{
    if (query == NULL)
        return lock_path(fe->world, name, "");
    return lock_path(fe->world, name, text(fe->world, "?%s", query));
}

struct reply *lock_put(struct front *fe, const char *name, const char *token, const char *query)
{
    return http(fe, "PUT", query_path(fe, name, query), token);
}

struct reply *lock_renew(struct front *fe, const char *name, const char *token,
                         const char *query)
{
    return http(fe, "PATCH", query_path(fe, name, query), token);
}

struct reply *lock_release(struct front *fe, const char *name, const char *token)
{
    return http(fe, "DELETE", query_path(fe, name, NULL), token);
}

struct reply *lock_look(struct front *fe, const char *name)
{
    return http(fe, "GET", query_path(fe, name, NULL), NULL);
}

int waiter_count(struct front *fe, const char *name)
{
    return (int)reply_int(lock_look(fe, name), "waiter_count");
}

struct call *call_put(struct front *fe, const char *name, const char *token, const char *query)
{
    return CALL(fe, .method = "PUT", .path = query_path(fe, name, query), .token = token,
                .timeout_ms = 65000);
}
