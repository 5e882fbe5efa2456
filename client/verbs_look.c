/* rlock show and rlock ls: what is held, and by whom. */
#include <stdio.h>
#include <stdlib.h>

#include "client/holder.h"
#include "client/look.h"
#include "client/say.h"
#include "client/status.h"
#include "client/verbs.h"

static void print_waiters(json_t *lock)
{
    json_t *waiter;
    size_t index;

    json_array_foreach(json_object_get(lock, "waiters"), index, waiter) {
        const char *who = holder_name(waiter);
        long long waited_s = json_integer_value(json_object_get(waiter, "waited_ms")) / 1000;
        printf("  waits %6lld s  %s\n", waited_s, who ? who : "");
    }
}

static int show(struct http *http, const struct settings *settings, const char *path)
{
    struct http_request request = {.method = "GET", .path = path};
    json_t *body;
    int status = look(http, settings, &request, &body);

    if (status == 0 && settings->json) {
        look_print_json(body);
    } else if (status == 0) {
        look_print_lock(body);
        print_waiters(body);
    }
    json_decref(body);
    return status;
}

int verb_show(struct settings *settings)
{
    int status;
    struct http *http = http_new(settings, &status);
    char *path = look_path(settings->names[0], "");

    if (http && path) {
        status = show(http, settings, path);
    }
    free(path);
    if (http) {
        http_free(http);
    }
    return status;
}

/* Moves the locks of a page to `all`, or prints them. Returns the cursor of the next page, or
 * NULL; it lives as long as the page. */
static const char *take_page(json_t *page, json_t *all)
{
    json_t *lock;
    size_t index;

    json_array_foreach(json_object_get(page, "locks"), index, lock) {
        if (all) {
            json_array_append(all, lock);
        } else {
            look_print_lock(lock);
        }
    }
    return json_string_value(json_object_get(page, "next_cursor"));
}

static int list(struct http *http, const struct settings *settings, const char *prefix,
                json_t *all)
{
    struct http_request request = {.method = "GET"};
    char path[4096], cursor[256] = "";
    const char *next;
    json_t *page;

    do {
        snprintf(path, sizeof(path), "/v1/locks?prefix=%s%s%s", prefix,
                 *cursor ? "&cursor=" : "", cursor);
        request.path = path;
        int status = look(http, settings, &request, &page);
        if (status != 0) {
            return status;
        }
        next = take_page(page, all);
        snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
        json_decref(page);
    } while (*cursor);
    return 0;
}

int verb_ls(struct settings *settings)
{
    int status;
    struct http *http = http_new(settings, &status);
    char *prefix = http_segment(settings->names[0]);
    json_t *all = settings->json ? json_array() : NULL;

    if (http && prefix) {
        status = list(http, settings, prefix, all);
    }
    if (status == 0 && all) {
        look_print_json(all);
    }
    json_decref(all);
    free(prefix);
    if (http) {
        http_free(http);
    }
    return status;
}
