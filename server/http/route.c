/* The match of methods and paths against the table of routes. */
#include "server/http/route.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Takes the next segment off `path`; false at its end. */
static bool next_segment(const char **path, struct route_param *segment)
{
    if (**path != '/')
        return false;
    segment->text = *path + 1;
    segment->len = strcspn(segment->text, "/");
    *path = segment->text + segment->len;
    return true;
}

static bool path_matches(const char *pattern, const char *path, struct route_param *params)
{
    struct route_param want, got;
    size_t param_count = 0;

    for (;;) {
        bool more = next_segment(&pattern, &want);
        if (next_segment(&path, &got) != more)
            return false;
        if (!more)
            return *path == '\0';
        if (want.text[0] == '{') {
            assert(param_count < ROUTE_PARAMS);
            if (got.len == 0)
                return false;
            params[param_count++] = got;
        } else if (want.len != got.len || memcmp(want.text, got.text, got.len) != 0) {
            return false;
        }
    }
}

static void allow_method(char *allow, const char *method)
{
    size_t len = strlen(allow);
    size_t added = strlen(method);

    assert(len + added + 2 < ROUTE_ALLOW_SIZE);
    if (len > 0) {
        memcpy(allow + len, ", ", 2);
        len += 2;
    }
    memcpy(allow + len, method, added + 1);
}

enum route_outcome route_find(const struct route *routes, size_t route_count,
                              const char *method, const char *path, struct route_match *match)
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    match->allow[0] = '\0';
    for (size_t i = 0; i < route_count; i++) {
        if (!path_matches(routes[i].path, path, match->params))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            match->index = i;
            return ROUTE_FOUND;
        }
        if (strcmp(routes[i].method, "GET") == 0)
            allow_method(match->allow, "HEAD");
        allow_method(match->allow, routes[i].method);
    }
    return match->allow[0] ? ROUTE_METHOD_NOT_ALLOWED : ROUTE_NOT_FOUND;
}

bool route_has_name(const struct route *route)
{
    return strstr(route->path, "/{name}") != NULL;
}
