/* rlock force-unlock: frees exactly the grant that was shown. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/look.h"
#include "client/say.h"
#include "client/status.h"
#include "client/verbs.h"

/* False: the answer is no. */
static bool confirm(json_t *lock)
{
    look_print_lock(lock);
    fputs("The holder is not asked, and its work may go on. Free the lock? [y/N] ", stdout);
    fflush(stdout);
    int answer = getchar();
    return answer == 'y' || answer == 'Y';
}

static int free_grant(struct http *http, const struct settings *settings, const char *grant)
{
    char *path = look_path(settings->names[0], "/force-unlock"), match[64];
    struct http_request request = {.method = "POST", .path = path, .if_match = match};
    json_t *body;

    if (!path) {
        return STATUS_FAULT;
    }
    snprintf(match, sizeof(match), "\"%s\"", grant);
    request.if_match = *grant ? match : NULL; /* a Java holder may have no fencing token */
    int status = look(http, settings, &request, &body);
    if (status == 0) {
        bool was_held = json_is_true(json_object_get(body, "unlocked"));
        printf("%s %s\n", settings->names[0], was_held ? "freed" : "was free already");
    }
    json_decref(body);
    free(path);
    return status;
}

static int ask_and_free(struct http *http, const struct settings *settings, json_t *lock)
{
    json_t *token = json_object_get(lock, "fencing_token");
    char grant[32] = "";

    if (!json_is_true(json_object_get(lock, "locked"))) {
        printf("%s is free\n", settings->names[0]);
        return 0;
    }
    if (settings->fencing_token) {
        snprintf(grant, sizeof(grant), "%s", settings->fencing_token);
    } else if (token) {
        snprintf(grant, sizeof(grant), "%lld", (long long)json_integer_value(token));
    }
    if (!settings->yes && !isatty(STDIN_FILENO)) {
        say("without a terminal --yes has to say that the lock is to be freed");
        return STATUS_USAGE;
    }
    if (!settings->yes && !confirm(lock)) {
        say("%s: not freed", settings->names[0]);
        return STATUS_BUSY;
    }
    return free_grant(http, settings, grant);
}

static int look_and_free(struct http *http, const struct settings *settings)
{
    char *path = look_path(settings->names[0], "");
    struct http_request request = {.method = "GET", .path = path};
    json_t *lock = NULL;
    int status = path ? look(http, settings, &request, &lock) : STATUS_FAULT;

    if (status == 0) {
        status = ask_and_free(http, settings, lock);
    }
    json_decref(lock);
    free(path);
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
