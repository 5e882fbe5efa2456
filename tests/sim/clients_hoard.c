/* A client with more leases in one session than one script of the watchdog takes, and than one
 * script writes the results of. */
#include <string.h>

#include "tests/sim/clients.h"

/* Leases of the session, and keep-alives. */
enum { KEEP_ALIVES = 3, NAME_SIZE = 24, PATH_SIZE = 96 };

static void name_lock(char name[NAME_SIZE], int number)
{
    snprintf(name, NAME_SIZE, "hoard-%d", number);
}

static void get_all(struct client *client, const struct session *session)
{
    for (int i = 0; i < HOARD && !world.is_stopping; i++) {
        char token[TOKEN_TEXT_SIZE], path[PATH_SIZE] = "locks/";
        struct plain put = {.method = "PUT",
                            .path = path,
                            .lease_token = token,
                            .session_token = session->token,
                            .how = {.ttl_ms = -1}};
        make_token(chance_of(client), token);
        name_lock(path + strlen(path), i);
        if (ask_plain(&client->caller, &put) != RESULT_OK)
            return;
    }
}

/* Behind the back of all front ends: the next keep-alive finds all leases lost. */
static void drop_all(void)
{
    static char names[HOARD][NAME_SIZE];
    const char *words[HOARD + 2] = {"DEL"};

    for (int i = 0; i < HOARD; i++) {
        name_lock(names[i], i);
        words[i + 1] = names[i];
    }
    tell_redis(words);
}

static bool keep(struct client *client, const struct session *session)
{
    char path[PATH_SIZE];
    struct plain keep_alive = {
        .method = "POST", .path = path, .session_token = session->token, .how = {.ttl_ms = -1}};

    snprintf(path, sizeof(path), "sessions/%s/keep-alive", session->public_id);
    return ask_plain(&client->caller, &keep_alive) == RESULT_OK;
}

void run_hoarder(struct client *client)
{
    while (!world.is_stopping) {
        struct session session = {.ttl_ms = SESSION_TTL_MAX_MS * world.pace};
        nap(client, 1000, 9000);
        make_token(chance_of(client), session.token);
        if (ask_session_open(&client->caller, &session) != RESULT_OK)
            continue;
        get_all(client, &session);
        for (int i = 0; i < KEEP_ALIVES && keep(client, &session); i++) {
            nap(client, 900, 1300);
            if (likely(client, 25))
                drop_all();
        }
        ask_session_end(&client->caller, &session);
    }
}
