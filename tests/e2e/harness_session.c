/* Requests of sessions and of leases in sessions, and a client for threads. */
#include "harness_session.h"

#include <signal.h>
#include <sys/random.h>

#include "harness_world.h"

enum { PARK_MS = 5000 };

int watchdog_ms(void)
{
    return (int)patience_ms(600);
}

const char *watchdog_text(void)
{
    static char digits[16];

    snprintf(digits, sizeof(digits), "%d", watchdog_ms());
    return digits;
}

bool may_have_lapsed(int64_t before)
{
    return late_ms() - before > watchdog_ms() / 3;
}

/* ---- sessions ---- */

static const char *with_query(struct world *w, const char *path, const char *query)
{
    return query != NULL ? text(w, "%s?%s", path, query) : path;
}

struct reply *session_open(struct front *fe, const char *token, const char *query)
{
    struct world *w = fe->world;

    return HTTP(fe, .method = "POST", .path = with_query(w, "/v1/sessions", query),
                .headers = {token != NULL ? text(w, "Session-Token: %s", token) : NULL});
}

struct session session_new(struct front *fe, const char *query)
{
    struct world *w = fe->world;
    struct session s = {.token = token_new(w)};
    struct reply *r = session_open(fe, s.token, query);

    expect_status(r, 201);
    s.id = reply_str(r, "session_id");
    s.header = text(w, "Session-Token: %s", s.token);
    return s;
}

struct reply *session_look(struct front *fe, const char *id)
{
    return http(fe, "GET", text(fe->world, "/v1/sessions/%s", id), NULL);
}

struct reply *session_end(struct front *fe, const struct session *s)
{
    return HTTP(fe, .method = "DELETE", .path = text(fe->world, "/v1/sessions/%s", s->id),
                .headers = {s->header});
}

static const char *keep_alive_path(struct front *fe, const struct session *s, const char *query)
{
    struct world *w = fe->world;

    return with_query(w, text(w, "/v1/sessions/%s/keep-alive", s->id), query);
}

struct reply *keep_alive(struct front *fe, const struct session *s, const char *query)
{
    return HTTP(fe, .method = "POST", .path = keep_alive_path(fe, s, query),
                .headers = {s->header});
}

struct reply *keep_alive_body(struct front *fe, const struct session *s, const char *body)
{
    return HTTP(fe, .method = "POST", .path = keep_alive_path(fe, s, NULL), .body = body,
                .headers = {s->header});
}

struct call *keep_alive_hang(struct front *fe, const struct session *s, int wait_ms)
{
    return CALL(fe, .method = "POST",
                .path = keep_alive_path(fe, s, text(fe->world, "wait_ms=%d", wait_ms)),
                .headers = {s->header}, .timeout_ms = 65000);
}

struct call *keep_alive_park_at(struct redis *redis, struct front *fe, const struct session *s,
                                int wait_ms)
{
    const char *key = text(fe->world, "rlockd:session:{%s}", s->id);
    long long before = atoll(redis_str(redis, "HGET %s deadline", key));

    nap_ms(2); /* so that the deadline is another one */
    struct call *call = keep_alive_hang(fe, s, wait_ms);
    wait_until(atoll(redis_str(redis, "HGET %s deadline", key)) > before, PARK_MS);
    return call;
}

struct call *keep_alive_park(struct front *fe, const struct session *s, int wait_ms)
{
    return keep_alive_park_at(fe->world->redis, fe, s, wait_ms);
}

void token_watch(struct world *w, const char *token)
{
    json_array_append_new(w->inside->tokens, json_string(token));
}

/* ---- leases of a session ---- */

static const char *put_path(struct front *fe, const char *lock, const char *query)
{
    return with_query(fe->world, lock_path(fe->world, lock, ""), query);
}

struct reply *session_put(struct front *fe, const struct session *s, const char *lock,
                          const char *token, const char *query)
{
    return HTTP(fe, .method = "PUT", .path = put_path(fe, lock, query), .token = token,
                .headers = {s->header});
}

struct call *session_call_put(struct front *fe, const struct session *s, const char *lock,
                              const char *token, const char *query)
{
    return CALL(fe, .method = "PUT", .path = put_path(fe, lock, query), .token = token,
                .headers = {s->header}, .timeout_ms = 65000);
}

const char *session_hold(struct front *fe, const struct session *s, const char *lock,
                         const char *query)
{
    const char *token = token_new(fe->world);

    expect_status(session_put(fe, s, lock, token, query), 201);
    return token;
}

struct reply *force_unlock(struct front *fe, const char *lock)
{
    return http(fe, "POST", lock_path(fe->world, lock, "/force-unlock"), NULL);
}

static json_t *entry_of(const struct reply *reply, const char *list, const char *lock)
{
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(reply->json, list), i, entry) {
        const char *is = json_string_value(json_object_get(entry, "lock"));

        if (is != NULL && strcmp(is, lock) == 0)
            return entry;
    }
    return NULL;
}

json_t *lease_of(const struct reply *reply, const char *lock)
{
    return entry_of(reply, "leases", lock);
}

json_t *loss_of(const struct reply *reply, const char *lock)
{
    return entry_of(reply, "lost", lock);
}

size_t leases_len(const struct reply *reply)
{
    return json_array_size(json_object_get(reply->json, "leases"));
}

size_t losses_len(const struct reply *reply)
{
    return json_array_size(json_object_get(reply->json, "lost"));
}

void expect_loss_at(const struct reply *reply, const char *lock, const char *reason,
                    const char *file, int line)
{
    json_t *loss = loss_of(reply, lock);
    const char *is = json_string_value(json_object_get(loss, "reason"));

    expect_status_at(reply, 200, file, line);
    if (is == NULL || strcmp(is, reason) != 0 ||
        !json_is_string(json_object_get(loss, "lease_id")))
        fail_at(file, line, "%s was not told as lost, %s: %s", lock, reason, reply->text);
}

void expect_alive_at(const struct reply *reply, size_t leases, const char *file, int line)
{
    expect_status_at(reply, 200, file, line);
    if (leases_len(reply) != leases || !json_is_array(json_object_get(reply->json, "lost")) ||
        losses_len(reply) != 0)
        fail_at(file, line, "not %zu leases and no loss: %.2000s", leases, reply->text);
}

json_int_t fence_of(struct front *fe, const char *lock)
{
    struct reply *r = lock_look(fe, lock);

    expect_bool(r, "locked", true);
    return reply_int(r, "fencing_token");
}

/* ---- front ends that come and go ---- */

enum { RETURN_MS = 10000, STOP_MS = 8000, FLAGS_MAX = 30 };

static void front_rest(void *thing)
{
    struct front *fe = thing;

    if (fe->ended)
        return;
    child_signal(fe->child, SIGTERM);
    if (child_wait(fe->child, STOP_MS) != 0)
        world_complain(fe->world, "a front end that came back did not stop well");
    fe->ended = true;
}

void front_return(struct front *fe, const char *const *flags)
{
    struct world *w = fe->world;
    const char *args[FLAGS_MAX] = {"--listen", text(w, "127.0.0.1:%d", fe->port), "--redis",
                                   w->redis->url};
    size_t len = 4;

    while (flags != NULL && *flags != NULL && len + 1 < FLAGS_MAX)
        args[len++] = *flags++;
    if (json_array_size(w->inside->tokens) > 0)
        world_check_logs(w); /* the new one has another log */
    if (!fe->ended)
        front_kill(fe);
    fe->child = rlockd_start(w, args, NULL);
    fe->ended = false;
    fe->log_checked_len = 0;
    /* Before the child is forgotten: the front end itself is older and ends after that. */
    world_defer(w, front_rest, fe);
    wait_until(front_ready(fe), RETURN_MS);
}

/* ---- a client for a thread of its own ---- */

static size_t answer_add(char *bytes, size_t size, size_t len, void *arg)
{
    struct rest *rest = arg;

    len *= size;
    if (rest->answer_len + len + 1 > rest->answer_max) {
        rest->answer_max = (rest->answer_len + len + 1) * 2;
        rest->answer = realloc(rest->answer, rest->answer_max);
        if (rest->answer == NULL)
            abort();
    }
    memcpy(rest->answer + rest->answer_len, bytes, len);
    rest->answer_len += len;
    rest->answer[rest->answer_len] = '\0';
    return len;
}

void rest_init(struct rest *rest)
{
    memset(rest, 0, sizeof(*rest));
    rest->curl = curl_easy_init();
    if (rest->curl == NULL)
        abort();
    curl_easy_setopt(rest->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(rest->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(rest->curl, CURLOPT_WRITEFUNCTION, answer_add);
    curl_easy_setopt(rest->curl, CURLOPT_WRITEDATA, rest);
    curl_easy_setopt(rest->curl, CURLOPT_TIMEOUT_MS, (long)patience_ms(10000));
    answer_add("", 1, 0, rest);
}

void rest_free(struct rest *rest)
{
    curl_easy_cleanup(rest->curl);
    json_decref(rest->json);
    free(rest->answer);
}

static struct curl_slist *header_add(struct curl_slist *headers, const char *name,
                                     const char *value)
{
    char line[128];

    if (value == NULL)
        return headers;
    snprintf(line, sizeof(line), "%s: %s", name, value);
    return curl_slist_append(headers, line);
}

int rest_ask(struct rest *rest, int port, const char *method, const char *path,
             const char *lease_token, const char *session_token, const char *body)
{
    char url[512];
    struct curl_slist *headers = NULL;
    long status = 0;
    CURLcode code;

    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", port, path);
    headers = header_add(headers, "Lease-Token", lease_token);
    headers = header_add(headers, "Session-Token", session_token);
    headers = header_add(headers, "Content-Type", body != NULL ? "application/json" : NULL);
    json_decref(rest->json);
    rest->json = NULL;
    rest->answer_len = 0;
    rest->answer[0] = '\0';
    rest->error[0] = '\0';
    curl_easy_setopt(rest->curl, CURLOPT_URL, url);
    if (body != NULL)
        curl_easy_setopt(rest->curl, CURLOPT_COPYPOSTFIELDS, body);
    else
        curl_easy_setopt(rest->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(rest->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(rest->curl, CURLOPT_HTTPHEADER, headers);
    code = curl_easy_perform(rest->curl);
    curl_easy_getinfo(rest->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    if (code != CURLE_OK) {
        snprintf(rest->error, sizeof(rest->error), "%s", curl_easy_strerror(code));
        return 0;
    }
    rest->json = json_loads(rest->answer, 0, NULL);
    return (int)status;
}

json_int_t rest_int(const struct rest *rest, const char *member)
{
    json_t *value = json_object_get(rest->json, member);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

const char *rest_str(const struct rest *rest, const char *member)
{
    const char *value = json_string_value(json_object_get(rest->json, member));

    return value != NULL ? value : "";
}

size_t rest_len(const struct rest *rest, const char *member)
{
    return json_array_size(json_object_get(rest->json, member));
}

void uuid_make(char out[UUID_SIZE])
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
        abort();
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[at++] = '-';
        at += snprintf(out + at, 3, "%02x", b[i]);
    }
}
