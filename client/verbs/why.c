/* rlock why: from a lock to its holders, to the locks that these wait for, and so on. */
#include <stdio.h>
#include <string.h>

#include "client/status.h"
#include "client/verbs/look.h"
#include "client/verbs/verbs.h"

/* A chain of more locks is cut. */
enum { CHAIN_MAX = 32 };

struct chain {
    struct http *http;
    const struct settings *settings;
    const char *names[CHAIN_MAX]; /* of the locks up to the present one */
    size_t count;
    json_t *followed; /* its members: all locks so far, for many ways may lead to one */
};

static const char *text_of(json_t *object, const char *member)
{
    return json_string_value(json_object_get(object, member));
}

static bool is_in_chain(const struct chain *chain, const char *name)
{
    for (size_t i = 0; i < chain->count; i++) {
        if (strcmp(chain->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int follow_lock(struct chain *chain, const char *name);

/* A session that has owners waits with one of them, perhaps another one than holds the lock. */
static bool is_of_owner(json_t *wait, json_t *holder)
{
    const char *waits = text_of(wait, "owner"), *holds = text_of(holder, "owner");

    return waits && holds ? strcmp(waits, holds) == 0 : waits == holds;
}

static void end_at(const struct chain *chain, const char *who, const char *why)
{
    look_print("%*s%s%s", (int)chain->count * 2, "", who, why);
}

static int follow_wait_for(struct chain *chain, json_t *wait, const char *lock, const char *who)
{
    json_t *waited_ms = json_object_get(wait, "waited_ms");
    char waited[LOOK_TIME_SIZE];

    if (!lock) {
        return 0;
    }
    look_print("%*s%s waits for %s%s%s", (int)chain->count * 2, "", who, lock,
               waited_ms ? ", for " : "",
               waited_ms ? look_time(json_integer_value(waited_ms), waited) : "");
    if (is_in_chain(chain, lock)) {
        end_at(chain, "", "a cycle: each of these waits for the next one");
        return 0;
    }
    if (json_object_get(chain->followed, lock)) {
        end_at(chain, lock, ": see above");
        return 0;
    }
    return follow_lock(chain, lock);
}

/* A lease of several locks waits for one of them: the server does not tell which. */
static int follow_wait(struct chain *chain, json_t *wait, const char *who)
{
    json_t *locks = json_object_get(wait, "locks"), *lock;
    size_t index;
    int status = 0;

    if (!locks) {
        return follow_wait_for(chain, wait, text_of(wait, "lock"), who);
    }
    json_array_foreach(locks, index, lock) {
        if (status == 0) {
            status = follow_wait_for(chain, wait, text_of(lock, "lock"), who);
        }
    }
    return status;
}

/* `waits`: the waits of the holder's session that the server tells of: no short wait, none for
 * a lock that the caller may not read, and none at all with `--deadlock-check-ms 0`. A server
 * of version 0.1 has no such member. */
static int follow_holder(struct chain *chain, json_t *holder, const char *who)
{
    const char *session_id = text_of(holder, "session_id");
    json_t *session, *waits, *wait;
    size_t index, count = 0;

    if (!session_id) {
        end_at(chain, who, " has no session: what it waits for is not known");
        return 0;
    }
    int status = look_get(chain->http, chain->settings,
                          look_path("/v1/sessions/", session_id, ""), &session);
    if (status != 0) { /* the session has ended meanwhile: a message was written */
        return status == STATUS_USAGE ? 0 : status;
    }
    waits = json_object_get(session, "waits");
    json_array_foreach(waits, index, wait) {
        if (status == 0 && is_of_owner(wait, holder)) {
            status = follow_wait(chain, wait, who);
            count++;
        }
    }
    if (status == 0 && count == 0) {
        end_at(chain, who, " waits for no lock that the server tells of");
    }
    json_decref(session);
    return status;
}

static void print_holder(const struct chain *chain, const char *name, json_t *holder,
                         const char *who)
{
    json_t *held_ms = json_object_get(holder, "held_ms");
    char held[LOOK_TIME_SIZE];

    look_print("%*s%s is held by %s%s%s", (int)(chain->count - 1) * 2, "", name, who,
               held_ms ? ", for " : "",
               held_ms ? look_time(json_integer_value(held_ms), held) : "");
}

/* The deadlock that the server has found: each session waits for a lock of the next one. */
static void print_deadlock(json_t *lock)
{
    json_t *deadlock = json_object_get(lock, "deadlock"), *member;
    char who[LOOK_HOLDER_SIZE];
    size_t index;

    if (json_array_size(deadlock) > 0) {
        puts("a deadlock, as the server has found:");
    }
    json_array_foreach(deadlock, index, member) {
        const char *name = text_of(member, "lock");
        look_print("  %s waits for %s", look_holder(member, who), name ? name : "?");
    }
}

static int follow_holders(struct chain *chain, json_t *lock, const char *name)
{
    char who[LOOK_HOLDER_SIZE];
    json_t *holder;
    size_t index;
    int status = 0;

    json_array_foreach(json_object_get(lock, "holders"), index, holder) {
        if (status == 0) {
            look_holder(holder, who);
            print_holder(chain, name, holder, who);
            status = follow_holder(chain, holder, who);
        }
    }
    return status;
}

static int follow_lock(struct chain *chain, const char *name)
{
    json_t *lock;

    if (chain->count == CHAIN_MAX) {
        end_at(chain, name, ": the chain goes on");
        return 0;
    }
    int status = look_get(chain->http, chain->settings, look_path("/v1/locks/", name, ""),
                          &lock);
    if (status != 0) {
        return status;
    }
    chain->names[chain->count++] = name;
    json_object_set_new(chain->followed, name, json_true());
    if (!json_is_true(json_object_get(lock, "locked"))) {
        look_print("%*s%s is free", (int)(chain->count - 1) * 2, "", name);
    }
    status = follow_holders(chain, lock, name);
    if (chain->count == 1) {
        print_deadlock(lock);
    }
    chain->count--;
    json_decref(lock);
    return status;
}

int verb_why(struct settings *settings)
{
    int status;
    struct chain chain = {
        .settings = settings, .http = http_new(settings, &status), .followed = json_object()};

    if (chain.http) {
        status = follow_lock(&chain, settings->names[0]);
        http_free(chain.http);
    }
    json_decref(chain.followed);
    return status;
}
