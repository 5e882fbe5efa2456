/* Clients whose session changes while a front end visits it, between two scripts of a visit, or
 * between two visits. */
#include "tests/sim/clients_visit.h"

#include <string.h>

#include "tests/sim/clients.h"

#define LOCK "visited-a"

enum { KEY_SIZE = 96, WAIT_MS = 8000 };

/* The script that the client waits for, and the name of its first key; no name: none. */
static struct {
    const char *script;
    char key[KEY_SIZE];
    struct task *task;
} awaited;

void visits_see(const char *script, struct bytes key)
{
    if (awaited.script == NULL || strcmp(awaited.script, script) != 0 ||
        strlen(awaited.key) != key.len || memcmp(awaited.key, key.text, key.len) != 0)
        return;
    awaited.script = NULL;
    task_wake(awaited.task);
}

/* Until Redis has run the script; false: it did not for long. */
static bool wait_for(const char *script, const char *key)
{
    awaited.task = task_current();
    snprintf(awaited.key, sizeof(awaited.key), "%s", key);
    awaited.script = script;
    bool has_run = task_wait(WAIT_MS * MS * world.pace);
    awaited.script = NULL;
    return has_run;
}

/* Where clients find it: after a failover not where it was visited. */
static bool is_there(const char *key, int64_t now_ms)
{
    struct bytes name = bytes_of(key);

    return keyspace_find(&servers_owner(name)->redis.keys, name, now_ms) != NULL;
}

/* The session is visited because its time is over; then it is open again, or gone. */
static void change_end(struct client *client, const char *key)
{
    char deadline[24];
    const char *const reopen[] = {"HSET", key, "deadline", deadline, NULL};
    const char *const drop[] = {"DEL", key, NULL};

    task_sleep(1900 * MS * world.pace); /* most of the session's time */
    while (wait_for("session_due", key)) {
        int64_t now_ms = servers_clock_us() / 1000;
        snprintf(deadline, sizeof(deadline), "%lld", (long long)now_ms + 500);
        if (!is_there(key, now_ms))
            return;
        if (likely(client, 50)) {
            tell_redis(reopen);
        } else {
            tell_redis(drop);
            return;
        }
    }
}

/* A lease is due; then it is forced open, or its session ends. */
static void change_lease(struct client *client, const char *key, struct session *session)
{
    if (!wait_for("session_due", key))
        return;
    if (likely(client, 50))
        ask_force_unlock(&client->caller, LOCK);
    else
        ask_session_end(&client->caller, session);
}

void run_visited(struct client *client)
{
    while (!world.is_stopping) {
        struct session session = {.ttl_ms = 2000 * world.pace};
        char token[TOKEN_TEXT_SIZE], key[KEY_SIZE];
        struct plain put = {.method = "PUT",
                            .path = "locks/" LOCK,
                            .lease_token = token,
                            .session_token = session.token,
                            .how = {.ttl_ms = -1}};
        make_token(chance_of(client), session.token);
        make_token(chance_of(client), token);
        if (ask_session_open(&client->caller, &session) == RESULT_OK) {
            snprintf(key, sizeof(key), "rlockd:session:{%s}", session.public_id);
            if (likely(client, 40))
                change_end(client, key);
            else if (ask_plain(&client->caller, &put) == RESULT_OK)
                change_lease(client, key, &session);
        }
        nap(client, 0, 400);
    }
}
