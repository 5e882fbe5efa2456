/* rlock force-unlock: frees exactly the grant that was shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/verbs/look.h"
#include "client/say.h"
#include "client/status.h"
#include "client/values.h"
#include "client/verbs/verbs.h"

enum { REASON_SIZE = 257 };

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

static int free_grant(struct http *http, const struct settings *settings,
                      const struct http_request *request)
{
    json_t *body;
    int status = look(http, settings, request, &body);

    if (status == 0) {
        bool was_held = json_is_true(json_object_get(body, "unlocked"));
        look_print("%s %s", settings->names[0], was_held ? "freed" : "was free already");
    }
    json_decref(body);
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
    json_t *token = json_object_get(lock, "fencing_token");
    char grant[64] = "", reason[REASON_SIZE];

    if (!json_is_true(json_object_get(lock, "locked"))) {
        look_print("%s is free", settings->names[0]);
        return 0;
    }
    if (settings->fencing_token) {
        snprintf(grant, sizeof(grant), "\"%s\"", settings->fencing_token);
    } else if (token) {
        snprintf(grant, sizeof(grant), "\"%lld\"", (long long)json_integer_value(token));
    }
    int status = agree(settings, lock, reason);
    if (status != 0) {
        return status;
    }
    char *path = look_path("/v1/locks/", settings->names[0], "/force-unlock");
    json_t *body = json_pack("{ss}", "reason", reason);
    struct http_request request = {.method = "POST",
                                   .path = path,
                                   .if_match = *grant ? grant : NULL, /* Java may have none */
                                   .body = body};
    status = path && body ? free_grant(http, settings, &request) : STATUS_FAULT;
    json_decref(body);
    free(path);
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
