/* The modes in which requests wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

/* Between two hand-offs: the one who had the lock is back in line, and all is quiet. */
enum { PAUSE_MS = 5 };
#define HAND_OFF_MAX_NS (20 * 1000000000LL)

/* A connection that asks one thing after another. */
struct asker {
    struct load_conn conn;
    bool answered;
    struct load_request request;
    const struct load_peer *peer;
};

static void on_answered(struct load_conn *conn, const struct load_answer *answer)
{
    struct asker *asker = conn->arg;

    load_check(asker->peer, &asker->request, answer);
    asker->answered = true;
}

static void ask(struct asker *asker, enum load_step step, const char *name, const char *token)
{
    load_request_make(&asker->request, asker->peer, step, name);
    load_request_set_token(&asker->request, token);
    asker->answered = false;
    load_conn_send(&asker->conn, asker->request.text, asker->request.len);
}

static void await(struct load_client *client, const struct asker *asker)
{
    while (!asker->answered)
        load_client_poll(client, 1000);
}

static void idle(struct load_client *client, int64_t until_ns)
{
    for (int64_t left_ns; (left_ns = until_ns - load_now_ns()) > 0;)
        load_client_poll(client, (int)(left_ns / 1000000) + 1);
}

/* --- hand-off ----------------------------------------------------------------------------- */

/* Releases the lock that `token` holds; when the next one has been told so, `token` is its. */
static int64_t hand_off(struct load_client *client, struct asker *releaser,
                        const struct load_line *line, const char *name,
                        char token[LOAD_TOKEN_LEN + 1])
{
    const char *granted;
    int64_t at_ns;

    ask(releaser, STEP_RELEASE, name, token);
    int64_t released_ns = releaser->conn.sent_ns;
    while ((granted = load_line_granted(line, &at_ns)) == NULL || !releaser->answered) {
        load_client_poll(client, 1000);
        if (load_now_ns() - released_ns > HAND_OFF_MAX_NS)
            load_fail("nobody got the lock that was released");
    }
    memcpy(token, granted, LOAD_TOKEN_LEN + 1);
    return at_ns - released_ns;
}

void load_handoff(struct load_options *options)
{
    struct load_client client, release_client;
    struct load_samples samples = {0};
    struct asker releaser = {.peer = &options->peer};
    char name[64], token[LOAD_TOKEN_LEN + 1];

    load_client_init(&client, options->port, options->tls);
    release_client = client; /* the same epoll, so that one poll serves both */
    release_client.port = options->release_port;
    load_conn_open(&releaser.conn, &release_client, on_answered, &releaser);
    snprintf(name, sizeof(name), "%s-0", options->name);
    load_token_next(token);
    ask(&releaser, STEP_ACQUIRE, name, token);
    await(&client, &releaser);
    struct load_line *line = load_line_new(options, &client, options->waiters, 1);
    int64_t end_ns = load_now_ns() + (int64_t)(options->seconds * 1e9);
    while (load_now_ns() < end_ns) {
        idle(&client, load_now_ns() + PAUSE_MS * 1000000LL);
        load_samples_add(&samples, hand_off(&client, &releaser, line, name, token));
        load_line_again(line);
    }
    load_samples_print(&samples, "handoff");
    load_samples_release(&samples);
    load_line_free(line);
    load_conn_close(&releaser.conn);
    load_client_release(&client);
}
