/* The match of methods and paths against the table of routes. */
#include "server/http/route.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* A `{parameter}` stands for a whole segment that is not empty. */
static bool path_matches(const char *pattern, const char *path, struct route_param *params)
{
    size_t param_count = 0;

    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t len = strcspn(path, "/");
        if (len == 0)
            return false;
        assert(param_count < ROUTE_PARAMS);
        params[param_count++] = (struct route_param){path, len};
        path += len;
        pattern = strchr(pattern, '}') + 1;
    }
    return *path == '\0';
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
