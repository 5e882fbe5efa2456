/* Paths and bodies, as the settings want them. */
#include "client/lease_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *lease_path(const struct settings *settings)
{
    char *name = http_segment(settings->names[0]), *path = NULL;
    const char *format = settings->permit ? "/v1/permit-semaphores/%s/permit" : "/v1/locks/%s";

    if (settings->name_count > 1) {
        path = strdup("/v1/multi-locks");
    } else if (!name || asprintf(&path, format, name) < 0) {
        path = NULL;
    }
    free(name);
    return path;
}

json_t *lease_session_body(const struct settings *settings)
{
    char host[64] = "", name[96];

    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "%s/%d", host, (int)getpid());
    return json_pack("{sI ss}", "ttl_ms", (json_int_t)settings->ttl_ms, "name", name);
}

json_t *lease_acquire_body(const struct lease *lease, int64_t wait_ms)
{
    const struct settings *settings = lease->settings;
    json_t *body = json_pack("{sI}", "wait_ms", (json_int_t)wait_ms);

    if (!settings->permit) {
        json_object_set_new(body, "note", json_string(settings->note));
        json_object_set_new(body, "kind", json_string(settings->kind));
    }
    if (lease->keeper == KEEPER_RENEWAL) {
        json_object_set_new(body, "ttl_ms", json_integer(settings->ttl_ms));
    }
    if (settings->name_count > 1) {
        json_t *names = json_array();
        for (size_t i = 0; i < settings->name_count; i++) {
            json_array_append_new(names, json_string(settings->names[i]));
        }
        json_object_set_new(body, "locks", names);
    }
    return body;
}
