/* rlock show, ls, sessions and wait: locks that are held, and their holders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/say.h"
#include "client/status.h"
#include "client/verbs/look.h"
#include "client/verbs/verbs.h"

enum { PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 2000 };

static int with_http(const struct settings *settings,
                     int (*ask)(struct http *http, const struct settings *settings))
{
    int status;
    struct http *http = http_new(settings, &status);

    if (http) {
        status = ask(http, settings);
        http_free(http);
    }
    return status;
}

static char *path_of(const struct settings *settings)
{
    return look_path("/v1/locks/", settings->names[0], "");
}

/* ---- one lock */

static void print_waiters(json_t *lock)
{
    json_t *waiter;
    size_t index;
    char waited[LOOK_TIME_SIZE], who[LOOK_HOLDER_SIZE];

    json_array_foreach(json_object_get(lock, "waiters"), index, waiter) {
        look_print("  waits %9s  %s",
                   look_time(json_integer_value(json_object_get(waiter, "waited_ms")), waited),
                   look_holder(waiter, who));
    }
}

static int show(struct http *http, const struct settings *settings)
{
    json_t *body;
    int status = look_get(http, settings, path_of(settings), &body);

    if (status == 0 && settings->json) {
        look_print_json(body);
    } else if (status == 0) {
        look_print_headline();
        look_print_lock(body);
        print_waiters(body);
    }
    json_decref(body);
    return status;
}

int verb_show(struct settings *settings)
{
    return with_http(settings, show);
}

/* No request waits for a lock without taking it: rlock looks again and again. */
static int look_until_free(struct http *http, const struct settings *settings,
                           const struct http_request *request)
{
    int64_t until = settings->wait_ms, pause_ms = PAUSE_MIN_MS;
    json_t *body;

    until = until == BOOTTIME_NEVER ? until : boottime_ms() + until;
    for (;;) {
        int status = look_until(http, request, until, &body);
        bool is_held = status == 0 && json_is_true(json_object_get(body, "locked"));
        json_decref(body);
        if (!is_held) {
            return status;
        }
        int64_t now = boottime_ms();
        if (now >= until) {
            say("%s: not free in time", settings->names[0]);
            return settings->busy_status;
        }
        if (!http_pause(http, until - now < pause_ms ? until : now + pause_ms)) {
            return STATUS_FAULT;
        }
        pause_ms = pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms * 2;
    }
}

static int wait_until_free(struct http *http, const struct settings *settings)
{
    char *path = path_of(settings);
    const struct http_request request = {.method = "GET", .path = path};
    int status = path ? look_until_free(http, settings, &request) : STATUS_FAULT;

    free(path);
    return status;
}

int verb_wait(struct settings *settings)
{
    return with_http(settings, wait_until_free);
}

/* ---- pages */

struct listing {
    const char *path; /* with a "?" */
    const char *member;
    void (*print)(json_t *entry);
    json_t *all; /* instead of printing; NULL: print */
};

/* Returns the cursor of the next page, or NULL; it lives as long as the page. */
static const char *take_page(const struct listing *listing, json_t *page)
{
    json_t *entry;
    size_t index;

    json_array_foreach(json_object_get(page, listing->member), index, entry) {
        if (listing->all) {
            json_array_append(listing->all, entry);
        } else {
            listing->print(entry);
        }
    }
    return json_string_value(json_object_get(page, "next_cursor"));
}

static int list_pages(struct http *http, const struct settings *settings,
                      const struct listing *listing)
{
    char *cursor = NULL;
    int status = 0;
    json_t *page;

    do {
        char *path = look_path(listing->path, cursor ? cursor : "", "");
        status = look_get(http, settings, path, &page);
        free(cursor);
        cursor = NULL;
        if (status == 0) {
            const char *next = take_page(listing, page);
            cursor = next ? strdup(next) : NULL;
            json_decref(page);
        }
    } while (cursor);
    return status;
}

static int list(struct http *http, const struct settings *settings, struct listing *listing)
{
    listing->all = settings->json ? json_array() : NULL;
    int status = list_pages(http, settings, listing);
    if (status == 0 && listing->all) {
        look_print_json(listing->all);
    }
    json_decref(listing->all);
    return status;
}

static int list_locks(struct http *http, const struct settings *settings)
{
    char *path = look_path("/v1/locks?prefix=", settings->names[0], "&cursor=");
    struct listing listing = {.path = path, .member = "locks", .print = look_print_lock};

    if (!path) {
        return STATUS_FAULT;
    }
    if (!settings->json) {
        look_print_headline();
    }
    int status = list(http, settings, &listing);
    free(path);
    return status;
}

int verb_ls(struct settings *settings)
{
    return with_http(settings, list_locks);
}

static void print_session(json_t *session)
{
    const char *id = json_string_value(json_object_get(session, "session_id"));
    const char *name = json_string_value(json_object_get(session, "name"));
    char age[LOOK_TIME_SIZE], left[LOOK_TIME_SIZE];

    look_print("%-36s %9s %9s %6lld  %s", id ? id : "",
               look_time(json_integer_value(json_object_get(session, "age_ms")), age),
               look_time(json_integer_value(json_object_get(session, "remaining_ms")), left),
               (long long)json_integer_value(json_object_get(session, "lease_count")),
               name ? name : "");
}

static int list_sessions(struct http *http, const struct settings *settings)
{
    struct listing listing = {
        .path = "/v1/sessions?cursor=", .member = "sessions", .print = print_session};

    if (!settings->json && isatty(STDOUT_FILENO)) {
        printf("%-36s %9s %9s %6s  %s\n", "SESSION", "AGE", "LEFT", "LEASES", "NAME");
    }
    return list(http, settings, &listing);
}

int verb_sessions(struct settings *settings)
{
    return with_http(settings, list_sessions);
}
