/* Requests for several locks at once. */
#include "multi_locks.h"

#define PATH "/v1/multi-locks"

static const char *body_of(struct world *w, const char *names, const char *more)
{
    const char *list = "";
    char *copy = strdup(names), *save = NULL;

    for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
        list = text(w, "%s%s\"%s\"", list, list[0] != '\0' ? "," : "", name);
    free(copy);
    return text(w, "{\"locks\": [%s]%s}", list, more != NULL ? more : "");
}

struct reply *multi_put(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more)
{
    return HTTP(fe, .method = "PUT", .path = PATH, .token = token,
                .body = body_of(fe->world, names, more), .headers = {s ? s->header : NULL});
}

struct call *multi_call(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more)
{
    return CALL(fe, .method = "PUT", .path = PATH, .token = token,
                .body = body_of(fe->world, names, more), .headers = {s ? s->header : NULL});
}

struct reply *multi_ask(struct front *fe, const char *method, const char *token,
                        const char *query)
{
    return http(fe, method, query ? text(fe->world, PATH "?%s", query) : PATH, token);
}

static const char *first_name(struct world *w, const char *names)
{
    return text(w, "%.*s", (int)strcspn(names, " "), names);
}

static const char *last_name(const char *names)
{
    const char *blank = strrchr(names, ' ');

    return blank != NULL ? blank + 1 : names;
}

struct call *multi_park(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more)
{
    struct world *w = fe->world;
    const char *first = first_name(w, names), *last = last_name(names);
    int firsts = waiter_count(fe, first), lasts = waiter_count(fe, last);
    struct call *call = multi_call(fe, s, token, names, more);

    wait_until(waiter_count(fe, first) == firsts + 1, 5000);
    assert_int_equal(waiter_count(fe, last), lasts + 1);
    return call;
}

void expect_free_at(struct world *w, const char *names, const char *file, int line)
{
    char *copy = strdup(names), *save = NULL;

    for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        struct reply *r = lock_look(w->a, name);

        if (json_is_true(reply_get(r, "locked")) || reply_int(r, "waiter_count") != 0)
            fail_at(file, line, "%s is not free: %s", name, r->text);
    }
    free(copy);
}

json_t *multi_lock_of(const struct reply *reply, const char *lock)
{
    size_t i;
    json_t *entry;

    json_array_foreach(reply_get(reply, "locks"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "lock"));

        if (name != NULL && strcmp(name, lock) == 0)
            return entry;
    }
    return NULL;
}

json_int_t multi_fence(const struct reply *reply, const char *lock)
{
    json_t *entry = multi_lock_of(reply, lock);

    if (entry == NULL)
        FAIL("no %s in %s", lock, reply->text);
    return json_integer_value(json_object_get(entry, "fencing_token"));
}
