/* Keep-alives of sessions, one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

struct keep_conn {
    struct load_conn conn;
    struct load_keeper *keeper;
    char session_token[LOAD_TOKEN_LEN + 1];
    struct load_request request;
};

struct load_keeper {
    const struct load_options *options;
    struct load_client *client;
    struct load_samples samples;
    bool stopping;
    size_t busy; /* connections */
    size_t conn_count;
    struct keep_conn conns[];
};

static void send_next(struct keep_conn *conn)
{
    if (conn->keeper->stopping)
        return;
    conn->keeper->busy++;
    load_conn_send(&conn->conn, conn->request.text, conn->request.len);
}

/* The first answer is that of the session, which tells its id. */
static void take_session(struct keep_conn *conn, const struct load_answer *answer)
{
    static const char member[] = "\"session_id\":\"";
    char session_id[LOAD_TOKEN_LEN + 1];
    const char *id = memmem(answer->body, answer->body_len, member, sizeof(member) - 1);

    if (id == NULL)
        load_fail("a new session has no id");
    memcpy(session_id, id + sizeof(member) - 1, LOAD_TOKEN_LEN);
    session_id[LOAD_TOKEN_LEN] = '\0';
    load_request_keep_alive(&conn->request, session_id, conn->session_token);
}

static void on_answered(struct load_conn *load_conn, const struct load_answer *answer)
{
    struct keep_conn *conn = load_conn->arg;

    load_check(&conn->keeper->options->peer, &conn->request, answer);
    conn->keeper->busy--;
    if (conn->request.token != NULL) {
        take_session(conn, answer);
        return;
    }
    load_samples_add(&conn->keeper->samples, answer->latency_ns);
    send_next(conn);
}

static void await_all(struct load_keeper *keeper)
{
    while (keeper->busy > 0)
        load_client_poll(keeper->client, 1000);
}

struct load_keeper *load_keeper_new(const struct load_options *options,
                                    struct load_client *client)
{
    size_t count = options->connections;
    struct load_keeper *keeper = calloc(1, sizeof(*keeper) + count * sizeof(keeper->conns[0]));

    if (keeper == NULL)
        load_fail("out of memory");
    keeper->options = options;
    keeper->client = client;
    keeper->conn_count = count;
    for (size_t i = 0; i < count; i++) {
        struct keep_conn *conn = &keeper->conns[i];
        conn->keeper = keeper;
        load_conn_open(&conn->conn, client, on_answered, conn);
        load_token_next(conn->session_token);
        load_request_open(&conn->request);
        load_request_set_token(&conn->request, conn->session_token);
        send_next(conn);
    }
    await_all(keeper);
    return keeper;
}

void load_keeper_free(struct load_keeper *keeper)
{
    for (size_t i = 0; i < keeper->conn_count; i++)
        load_conn_close(&keeper->conns[i].conn);
    load_samples_release(&keeper->samples);
    free(keeper);
}

void load_keeper_run(struct load_keeper *keeper, double seconds)
{
    int64_t end_ns = load_now_ns() + (int64_t)(seconds * 1e9);

    keeper->samples.count = 0;
    keeper->stopping = false;
    for (size_t i = 0; i < keeper->conn_count; i++)
        send_next(&keeper->conns[i]);
    while (load_now_ns() < end_ns)
        load_client_poll(keeper->client, 10);
    keeper->stopping = true;
    await_all(keeper);
}

struct load_samples *load_keeper_samples(struct load_keeper *keeper)
{
    return &keeper->samples;
}
