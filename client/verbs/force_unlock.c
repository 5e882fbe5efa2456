/* rlock force-unlock: frees exactly the grants that were shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/verbs/look.h"
#include "client/say.h"
#include "client/status.h"
#include "client/values.h"
#include "client/verbs/verbs.h"

enum { REASON_SIZE = 257, AGAIN_MS = 500 };

/* On the terminal. False: the answer is no. */
static bool confirm(json_t *lock)
{
    char answer[16];

    look_print_headline();
    look_print_lock(lock);
    fputs("The holder is not asked, and its work may go on. Free the lock? [y/N] ", stdout);
    fflush(stdout);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static bool read_reason(char reason[REASON_SIZE])
{
    fputs("Why? The holder is told: ", stdout);
    fflush(stdout);
    if (!fgets(reason, REASON_SIZE, stdin)) {
        return false;
    }
    reason[strcspn(reason, "\n")] = '\0';
    return *reason && value_is_utf8(reason);
}

static bool is_same(json_t *one, json_t *other)
{
    static const char *const members[] = {"lease_id", "session_id", "owner", "redisson_holder"};

    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
        json_t *a = json_object_get(one, members[i]), *b = json_object_get(other, members[i]);
        if (a != b && !json_equal(a, b)) {
            return false;
        }
    }
    return true;
}

/* Whether each of its holders was shown. */
static bool was_shown(json_t *lock, json_t *shown)
{
    json_t *holder, *other;
    size_t i, j;

    json_array_foreach(json_object_get(lock, "holders"), i, holder) {
        bool is_found = false;
        json_array_foreach(json_object_get(shown, "holders"), j, other) {
            is_found = is_found || is_same(holder, other);
        }
        if (!is_found) {
            return false;
        }
    }
    return true;
}

/* After a request that may have freed the lock. Returns 0 with what holds it now, where that
 * was shown, or the exit status after a message. */
static int look_again(struct http *http, const struct settings *settings, json_t *shown,
                      json_t **lock)
{
    const char *name = settings->names[0];
    int status = look_get(http, settings, look_path("/v1/locks/", name, ""), lock);

    if (status == 0 && was_shown(*lock, shown)) {
        return 0;
    }
    say("%s: it is unknown whether it was freed%s", name,
        status == 0 ? "; rlock show tells who holds it by now" : "");
    return STATUS_UNREACHABLE;
}

/* Without the token of a grant nothing keeps a repetition from a later grant: it is sent only
 * while nobody holds the lock but those that were shown. */
static int free_shown(struct http *http, const struct settings *settings, json_t *shown,
                      const struct http_request *request, json_t **body)
{
    int64_t until = boottime_ms() + settings->connect_timeout_ms;
    int status;

    while ((status = look_until(http, request, until, body)) == LOOK_UNKNOWN) {
        json_t *lock = NULL;
        status = look_again(http, settings, shown, &lock);
        bool is_held = json_is_true(json_object_get(lock, "locked"));
        json_decref(lock);
        if (status != 0) {
            return status;
        }
        if (!is_held) {
            *body = json_pack("{sb}", "unlocked", true);
            return 0;
        }
        if (boottime_ms() >= until || !http_pause(http, boottime_ms() + AGAIN_MS)) {
            say("%s: it is unknown whether it will be freed", settings->names[0]);
            return STATUS_UNREACHABLE;
        }
    }
    return status;
}

/* `token`: of the grant; NULL: any, while those hold the lock that were shown. `*was_held` says
 * whether it was there to be freed. Returns 0, or the exit status after a message. */
static int free_grant(struct http *http, const struct settings *settings, json_t *shown,
                      json_t *reason, const char *token, bool *was_held)
{
    char *path = look_path("/v1/locks/", settings->names[0], "/force-unlock"), grant[64];
    struct http_request request = {.method = "POST",
                                   .path = path,
                                   .if_match = token ? grant : NULL,
                                   .body = reason,
                                   .once = !token};
    json_t *body = NULL;
    int status = STATUS_FAULT;

    snprintf(grant, sizeof(grant), "\"%s\"", token ? token : "");
    if (path && reason) {
        status = token ? look(http, settings, &request, &body)
                       : free_shown(http, settings, shown, &request, &body);
    }
    *was_held = json_is_true(json_object_get(body, "unlocked"));
    json_decref(body);
    free(path);
    return status;
}

static const char *token_of(json_t *object, char out[32])
{
    json_t *token = json_object_get(object, "fencing_token");

    snprintf(out, 32, "%lld", (long long)json_integer_value(token));
    return token ? out : NULL; /* a Java client has none */
}

/* Its grant has no token: that of the lock is of a grant before. */
static bool is_java(json_t *lock)
{
    json_t *first = json_array_get(json_object_get(lock, "holders"), 0);

    return json_object_get(first, "redisson_holder") != NULL;
}

/* Each reader has a grant of its own. Where a Java client is among them, all are freed. A
 * refusal may say that a reader is gone, or something else: the lock tells in the end. */
static int free_readers(struct http *http, const struct settings *settings, json_t *lock,
                        json_t *reason, bool *was_held)
{
    json_t *holders = json_object_get(lock, "holders"), *holder;
    char token[32];
    size_t index;

    json_array_foreach(holders, index, holder) {
        if (!token_of(holder, token)) {
            return free_grant(http, settings, lock, reason, NULL, was_held);
        }
    }
    json_array_foreach(holders, index, holder) {
        bool was_one_held;
        int status = free_grant(http, settings, lock, reason, token_of(holder, token),
                                &was_one_held);
        *was_held = *was_held || was_one_held;
        if (status != 0 && status != STATUS_BUSY) {
            return status;
        }
    }
    json_t *left = NULL;
    int status = look_get(http, settings, look_path("/v1/locks/", settings->names[0], ""),
                          &left);
    if (status == 0 && json_is_true(json_object_get(left, "locked"))) {
        say("%s is held still, or again: rlock show tells by whom", settings->names[0]);
        status = STATUS_BUSY;
    }
    json_decref(left);
    return status;
}

/* Without --yes, asks. Returns 0, or the exit status after a message. */
static int agree(const struct settings *settings, json_t *lock, char reason[REASON_SIZE])
{
    bool has_terminal = isatty(STDIN_FILENO);

    if (!settings->yes && !has_terminal) {
        say("without a terminal --yes has to say that the lock is to be freed");
        return STATUS_USAGE;
    }
    if (!settings->yes && !confirm(lock)) {
        say("%s: not freed", settings->names[0]);
        return STATUS_BUSY;
    }
    if (settings->reason) {
        snprintf(reason, REASON_SIZE, "%s", settings->reason);
    } else if (!has_terminal || !read_reason(reason)) {
        say("--reason has to say why the lock is freed");
        return STATUS_USAGE;
    }
    return 0;
}

static int ask_and_free(struct http *http, const struct settings *settings, json_t *lock)
{
    const char *kind = json_string_value(json_object_get(lock, "kind"));
    bool is_read = kind && strcmp(kind, "read") == 0 && !settings->fencing_token;
    char token[32], text[REASON_SIZE];
    bool was_held = false;

    if (!json_is_true(json_object_get(lock, "locked"))) {
        look_print("%s is free", settings->names[0]);
        return 0;
    }
    int status = agree(settings, lock, text);
    if (status != 0) {
        return status;
    }
    json_t *reason = json_pack("{ss}", "reason", text);
    const char *only = settings->fencing_token;
    if (!only && !is_java(lock)) {
        only = token_of(lock, token);
    }
    status = is_read ? free_readers(http, settings, lock, reason, &was_held)
                     : free_grant(http, settings, lock, reason, only, &was_held);
    json_decref(reason);
    if (status == 0) {
        look_print("%s %s", settings->names[0], was_held ? "freed" : "was free already");
    }
    return status;
}

static int look_and_free(struct http *http, const struct settings *settings)
{
    json_t *lock = NULL;
    int status = look_get(http, settings, look_path("/v1/locks/", settings->names[0], ""),
                          &lock);

    if (status == 0) {
        status = ask_and_free(http, settings, lock);
    }
    json_decref(lock);
    return status;
}

int verb_force_unlock(struct settings *settings)
{
    int status;
    struct http *http = http_new(settings, &status);

    if (http) {
        status = look_and_free(http, settings);
        http_free(http);
    }
    return status;
}
