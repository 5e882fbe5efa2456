/* The texts of requests to rlockd, webdis and etcd. */
#include "tests/bench/load_request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* What a lock's lease lasts: longer than any run. */
enum { TTL_MS = 600000 };

#define TOKEN_HEADER "Lease-Token: "
#define SESSION_HEADER "Session-Token: "
#define TOKEN_PLACE "00000000-0000-4000-8000-000000000000"

bool load_dialect_find(const char *name, enum load_dialect *dialect)
{
    static const char *const names[] = {[DIALECT_RLOCKD] = "rlockd",
                                        [DIALECT_LOOK] = "look",
                                        [DIALECT_WEBDIS] = "webdis",
                                        [DIALECT_ETCD] = "etcd",
                                        [DIALECT_BARE] = "bare"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            *dialect = (enum load_dialect)i;
            return true;
        }
    }
    return false;
}

static void format(struct load_request *request, int status, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

static void format(struct load_request *request, int status, const char *text, ...)
{
    va_list args;

    va_start(args, text);
    int len = vsnprintf(request->text, sizeof(request->text), text, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(request->text))
        load_fail("a request is too long");
    request->len = (size_t)len;
    request->status = status;
    request->token = strstr(request->text, TOKEN_HEADER);
    if (request->token != NULL)
        request->token += strlen(TOKEN_HEADER);
}

/* --- the dialects ------------------------------------------------------------------------- */

static void make_rlockd(struct load_request *request, const struct load_peer *peer,
                        enum load_step step, const char *name)
{
    if (step == STEP_ACQUIRE && peer->session != NULL)
        format(
            request, 201,
            "PUT /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\nSession-Token: %s\r\n" TOKEN_HEADER
                TOKEN_PLACE "\r\n\r\n",
            name, peer->session);
    else if (step == STEP_ACQUIRE)
        format(request, 201,
               "PUT /v1/locks/%s?ttl_ms=%d HTTP/1.1\r\nHost: localhost\r\n" TOKEN_HEADER
                   TOKEN_PLACE "\r\n\r\n",
               name, TTL_MS);
    else
        format(request, 200,
               "DELETE /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\n" TOKEN_HEADER TOKEN_PLACE
               "\r\n\r\n",
               name);
}

static void make_webdis(struct load_request *request, const struct load_peer *peer,
                        enum load_step step, const char *name)
{
    if (step == STEP_ACQUIRE)
        format(request, 200,
               "GET /EVALSHA/%s/2/%s/redisson_lock_token:{%s}/%s:0/%d HTTP/1.1\r\n"
               "Host: localhost\r\n\r\n",
               peer->acquire_sha, name, name, TOKEN_PLACE, TTL_MS);
    else
        format(request, 200,
               "GET /EVALSHA/%s/2/%s/redisson_lock__channel:{%s}/%s:0 HTTP/1.1\r\n"
               "Host: localhost\r\n\r\n",
               peer->release_sha, name, name, TOKEN_PLACE);
}

static void encode_base64(const char *in, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(in);

    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = (uint32_t)(unsigned char)in[i] << 16;
        if (i + 1 < len)
            bits |= (uint32_t)(unsigned char)in[i + 1] << 8;
        if (i + 2 < len)
            bits |= (unsigned char)in[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < len ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < len ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

static void make_etcd(struct load_request *request, const struct load_peer *peer,
                      enum load_step step, const char *name)
{
    char key[160], encoded[256], body[400];

    /* etcd's lock service makes the key of a lock from its name and the lease. */
    snprintf(key, sizeof(key), step == STEP_ACQUIRE ? "%s" : "%s/%llx", name,
             (unsigned long long)peer->lease);
    encode_base64(key, encoded);
    if (step == STEP_ACQUIRE)
        snprintf(body, sizeof(body), "{\"name\":\"%s\",\"lease\":\"%lld\"}", encoded,
                 peer->lease);
    else
        snprintf(body, sizeof(body), "{\"key\":\"%s\"}", encoded);
    format(request, 200,
           "POST /v3/lock/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: %zu\r\n\r\n%s",
           step == STEP_ACQUIRE ? "lock" : "unlock", strlen(body), body);
}

void load_request_make(struct load_request *request, const struct load_peer *peer,
                       enum load_step step, const char *name)
{
    switch (peer->dialect) {
    case DIALECT_RLOCKD:
        make_rlockd(request, peer, step, name);
        return;
    case DIALECT_LOOK:
        format(request, 200, "GET /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", name);
        return;
    case DIALECT_WEBDIS:
        make_webdis(request, peer, step, name);
        return;
    case DIALECT_ETCD:
        make_etcd(request, peer, step, name);
        return;
    case DIALECT_BARE:
        load_request_get(request, "/");
        return;
    }
}

void load_request_wait(struct load_request *request, const char *name, long wait_ms)
{
    format(request, 201,
           "PUT /v1/locks/%s?ttl_ms=%d&wait_ms=%ld HTTP/1.1\r\n"
           "Host: localhost\r\n" TOKEN_HEADER TOKEN_PLACE "\r\n\r\n",
           name, TTL_MS, wait_ms);
}

static const char *const kind_names[] = {
    [LOAD_LOCK] = "lock", [LOAD_FAIR] = "fair", [LOAD_READ] = "read", [LOAD_WRITE] = "write"};

void load_request_take(struct load_request *request, enum load_kind kind, const char *name,
                       long wait_ms)
{
    if (kind == LOAD_PERMIT)
        format(request, 201,
               "PUT /v1/permit-semaphores/%s/permit?ttl_ms=%d&wait_ms=%ld HTTP/1.1\r\n"
               "Host: localhost\r\n" TOKEN_HEADER TOKEN_PLACE "\r\n\r\n",
               name, TTL_MS, wait_ms);
    else
        format(request, 201,
               "PUT /v1/locks/%s?kind=%s&ttl_ms=%d&wait_ms=%ld HTTP/1.1\r\n"
               "Host: localhost\r\n" TOKEN_HEADER TOKEN_PLACE "\r\n\r\n",
               name, kind_names[kind], TTL_MS, wait_ms);
}

void load_request_give(struct load_request *request, enum load_kind kind, const char *name)
{
    format(request, 200,
           "DELETE /v1/%s/%s%s HTTP/1.1\r\nHost: localhost\r\n" TOKEN_HEADER TOKEN_PLACE
           "\r\n\r\n",
           kind == LOAD_PERMIT ? "permit-semaphores" : "locks", name,
           kind == LOAD_PERMIT ? "/permit" : "");
}

void load_request_open(struct load_request *request)
{
    format(
        request, 201,
        "POST /v1/sessions?ttl_ms=%d HTTP/1.1\r\nHost: localhost\r\n" SESSION_HEADER TOKEN_PLACE
        "\r\n\r\n",
        TTL_MS);
    request->token = strstr(request->text, SESSION_HEADER) + strlen(SESSION_HEADER);
}

void load_request_keep_alive(struct load_request *request, const char *session_id,
                             const char *session_token)
{
    format(request, 200,
           "POST /v1/sessions/%s/keep-alive HTTP/1.1\r\nHost: localhost\r\n" SESSION_HEADER
           "%s\r\n\r\n",
           session_id, session_token);
}

void load_request_get(struct load_request *request, const char *target)
{
    format(request, 200, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
}

/* --- tokens and answers ------------------------------------------------------------------- */

void load_token_next(char token[LOAD_TOKEN_LEN + 1])
{
    static uint32_t of_this_run;
    static uint64_t count;

    if (of_this_run == 0 && getrandom(&of_this_run, sizeof(of_this_run), 0) < 0)
        load_fail("no random bytes");
    snprintf(token, LOAD_TOKEN_LEN + 1, "%08" PRIx32 "-0000-4000-8000-%012" PRIx64, of_this_run,
             ++count);
}

void load_request_set_token(struct load_request *request, const char *token)
{
    if (request->token != NULL)
        memcpy(request->token, token, LOAD_TOKEN_LEN);
}

/* webdis answers 200 whatever Redis said. */
static bool is_refusal(const struct load_answer *answer)
{
    return memmem(answer->body, answer->body_len, "[false", 6) != NULL ||
           memmem(answer->body, answer->body_len, ":null", 5) != NULL;
}

void load_check(const struct load_peer *peer, const struct load_request *request,
                const struct load_answer *answer)
{
    bool good = answer->status == request->status &&
                (peer->dialect != DIALECT_WEBDIS || !is_refusal(answer));

    if (!good)
        load_fail("%.*s was answered %d %.*s", (int)strcspn(request->text, "\r"), request->text,
                  answer->status, (int)answer->body_len, answer->body);
}
