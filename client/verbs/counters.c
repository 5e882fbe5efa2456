/* rlock semaphore, permits and latch: the servers' other objects, a row for each verb. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/say.h"
#include "client/status.h"
#include "client/token.h"
#include "client/values.h"
#include "client/verbs/look.h"
#include "client/verbs/verbs.h"

enum {
    WAIT_MAX_S = 55,     /* of one request; a server cuts it to its own maximum */
    WAIT_KEY_MAX_S = 15, /* with a key: two attempts with LOOK_MS fit into HTTP_KEY_MS */
    PAUSE_MS = 500,      /* after a refusal that did not wait */
};

struct verb {
    const char *name, *method;
    const char *end;    /* of the path */
    const char *number; /* the member that the number after NAME is for; NULL: takes none */
    bool needs_number;
    bool has_key; /* a request without a token, which an Idempotency-Key makes repeatable */
    bool waits;
    const char
        *zero; /* waits until this member of the answer is 0; NULL: until it is granted */
};

static const struct verb semaphore_verbs[] = {
    {"create", "PUT", "", "permits", true, false, false, NULL},
    {"show", "GET", "", NULL, false, false, false, NULL},
    {"acquire", "POST", "/acquire", "permits", false, true, true, NULL},
    {"release", "POST", "/release", "permits", false, true, false, NULL},
    {"drain", "POST", "/drain", NULL, false, true, false, NULL},
    {"delete", "DELETE", "", NULL, false, false, false, NULL},
    {0},
};

static const struct verb permits_verbs[] = {
    {"create", "PUT", "", "permits", true, false, false, NULL},
    {"show", "GET", "", NULL, false, false, false, NULL},
    {"delete", "DELETE", "", NULL, false, false, false, NULL},
    {0},
};

static const struct verb latch_verbs[] = {
    {"create", "PUT", "", "count", true, false, false, NULL},
    {"show", "GET", "", NULL, false, false, false, NULL},
    {"count-down", "POST", "/count-down", NULL, false, true, false, NULL},
    {"wait", "GET", "", NULL, false, false, true, "count"},
    {"delete", "DELETE", "", NULL, false, false, false, NULL},
    {0},
};

/* A line of all members that are a text, a number, true or false. */
static void print_members(json_t *body)
{
    const char *name;
    json_t *value;

    json_object_foreach(body, name, value) {
        char *text = json_is_object(value) || json_is_array(value)
                         ? NULL
                         : json_dumps(value, JSON_ENCODE_ANY);
        if (json_is_string(value)) {
            printf("%s  ", json_string_value(value)); /* names without control characters */
        } else if (text) {
            printf("%s %s  ", name, text);
        }
        free(text);
    }
    putchar('\n');
}

/* True: this answer ends the wait of the verb. */
static bool is_there(const struct verb *verb, const struct http_answer *answer)
{
    if (answer->status == 429) {
        return false;
    }
    if (verb->zero) {
        return answer->status >= 300 ||
               json_integer_value(json_object_get(answer->body, verb->zero)) == 0;
    }
    return answer->status != 423;
}

/* Asks again and again, each time with a key of its own: the last answer was final. */
static int ask_until(struct http *http, const struct settings *settings,
                     const struct verb *verb, struct http_request *request,
                     struct http_answer *answer)
{
    int64_t until = settings->wait_ms;
    int wait_max_s = verb->has_key ? WAIT_KEY_MAX_S : WAIT_MAX_S;
    char key[TOKEN_SIZE], prefer[32];

    until = until == BOOTTIME_NEVER ? until : boottime_ms() + until;
    for (;;) {
        int64_t left_s = (until - boottime_ms() + 999) / 1000;
        int wait_s = left_s <= 0 ? 0 : left_s > wait_max_s ? wait_max_s : (int)left_s;
        if (!token_make(key)) {
            return STATUS_FAULT;
        }
        snprintf(prefer, sizeof(prefer), "wait=%d", wait_s);
        request->idempotency_key = verb->has_key ? key : NULL;
        request->prefer = verb->waits && wait_s ? prefer : NULL;
        request->timeout_ms = verb->waits ? wait_s * 1000 : 0;
        request->waits = verb->waits; /* here 429 is asked again until the time is up */
        int64_t asked_at = boottime_ms();
        /* The server knows a key for a while only. */
        bool may_last = verb->waits && !verb->has_key;
        int status = look_ask(
            http, request, may_last ? until : asked_at + settings->connect_timeout_ms, answer);
        if (status != 0 || !verb->waits || is_there(verb, answer)) {
            return status;
        }
        if (boottime_ms() >= until) {
            say("%s: not in time", settings->argv[0]);
            http_answer_clear(answer);
            return settings->busy_status;
        }
        http_answer_clear(answer);
        if (boottime_ms() - asked_at < PAUSE_MS &&
            !http_pause(http, asked_at + PAUSE_MS < until ? asked_at + PAUSE_MS : until)) {
            return STATUS_FAULT;
        }
    }
}

static int ask(struct http *http, const struct settings *settings, const struct verb *verb,
               struct http_request *request)
{
    struct http_answer answer = {0};
    int status = ask_until(http, settings, verb, request, &answer);

    if (status == 0 && answer.status >= 300) {
        status = look_refused(&answer);
    } else if (status == 0 && settings->json) {
        look_print_json(answer.body);
    } else if (status == 0) {
        print_members(answer.body);
    }
    http_answer_clear(&answer);
    return status;
}

static const struct verb *find(const struct verb *verbs, const char *name)
{
    for (; verbs->name; verbs++) {
        if (strcmp(verbs->name, name) == 0) {
            return verbs;
        }
    }
    return NULL;
}

/* The number after NAME. NULL: a message was written. */
static json_t *make_body(const struct settings *settings, const struct verb *verb)
{
    const char *text = settings->argv[0] ? settings->argv[1] : NULL;
    int number = 0;

    if (text ? !verb->number || !value_number(text, INT32_MAX, &number) : verb->needs_number) {
        say(verb->number ? "%s: a number has to follow NAME" : "%s: nothing follows NAME",
            verb->name);
        return NULL;
    }
    return text ? json_pack("{si}", verb->number, number) : json_object();
}

static int run_verb(const struct settings *settings, const struct verb *verbs,
                    const char *before)
{
    const struct verb *verb = find(verbs, settings->names[0]);
    int status;

    if (!verb) {
        say("no such verb: %s", settings->names[0]);
        return STATUS_USAGE;
    }
    json_t *body = make_body(settings, verb);
    if (!body) {
        return STATUS_USAGE;
    }
    struct http *http = http_new(settings, &status);
    char *path = look_path(before, settings->argv[0], verb->end);
    struct http_request request = {
        .method = verb->method, .path = path, .body = json_object_size(body) > 0 ? body : NULL};
    if (http && path) {
        status = ask(http, settings, verb, &request);
    }
    free(path);
    json_decref(body);
    if (http) {
        http_free(http);
    }
    return status;
}

int verb_semaphore(struct settings *settings)
{
    return run_verb(settings, semaphore_verbs, "/v1/semaphores/");
}

int verb_permits(struct settings *settings)
{
    return run_verb(settings, permits_verbs, "/v1/permit-semaphores/");
}

int verb_latch(struct settings *settings)
{
    return run_verb(settings, latch_verbs, "/v1/latches/");
}
