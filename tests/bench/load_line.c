/* Those who wait: many connections, each with a PUT under way that waits for a lock. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

enum {
    WAIT_MS = 600000,
    LINE_CHUNK = 500, /* connections opened at a time: fewer than the listener's backlog */
    PARK_TIMEOUT_S = 60
};

struct line_conn {
    struct load_conn conn;
    struct load_line *line;
    size_t lock; /* which of the locks it waits for */
    char token[LOAD_TOKEN_LEN + 1];
};

struct load_line {
    const struct load_options *options;
    struct load_client *client;
    struct load_conn metrics;
    long waiting; /* by the metrics; -1: asked, no answer yet */
    struct line_conn *granted;
    int64_t granted_at_ns;
    size_t count;
    struct line_conn conns[];
};

static void wait_again(struct line_conn *conn)
{
    struct load_request request;
    char name[64];

    load_token_next(conn->token);
    snprintf(name, sizeof(name), "%s-%zu", conn->line->options->name, conn->lock);
    load_request_wait(&request, name, WAIT_MS);
    load_request_set_token(&request, conn->token);
    load_conn_send(&conn->conn, request.text, request.len);
}

static void on_granted(struct load_conn *load_conn, const struct load_answer *answer)
{
    struct line_conn *conn = load_conn->arg;

    if (answer->status != 201 || conn->line->granted != NULL)
        load_fail("a waiter was answered %d %.*s", answer->status, (int)answer->body_len,
                  answer->body);
    conn->line->granted = conn;
    conn->line->granted_at_ns = load_now_ns();
}

/* --- who waits, by rlockd's own count ------------------------------------------------------
 */

static void on_metrics(struct load_conn *load_conn, const struct load_answer *answer)
{
    struct load_line *line = load_conn->arg;
    const char *value = memmem(answer->body, answer->body_len, "\nrlockd_waiters ", 16);

    if (value == NULL)
        load_fail("the metrics do not say how many wait");
    line->waiting = strtol(value + 16, NULL, 10);
}

static long ask_waiting(struct load_line *line)
{
    struct load_request request;

    load_request_get(&request, "/metrics");
    line->waiting = -1;
    load_conn_send(&line->metrics, request.text, request.len);
    while (line->waiting < 0)
        load_client_poll(line->client, 1000);
    return line->waiting;
}

static void wait_until_waiting(struct load_line *line, long least, long most)
{
    int64_t deadline_ns = load_now_ns() + PARK_TIMEOUT_S * 1000000000LL;
    long waiting;

    while ((waiting = ask_waiting(line)) < least || waiting > most)
        if (load_now_ns() > deadline_ns)
            load_fail("%ld wait, and not %ld to %ld", waiting, least, most);
}

/* --- life --------------------------------------------------------------------------------- */

struct load_line *load_line_new(const struct load_options *options, struct load_client *client,
                                size_t count, size_t locks)
{
    struct load_line *line = calloc(1, sizeof(*line) + count * sizeof(line->conns[0]));

    if (line == NULL)
        load_fail("out of memory");
    line->options = options;
    line->client = client;
    line->count = count;
    load_conn_open(&line->metrics, client, on_metrics, line);
    for (size_t i = 0; i < count; i++) {
        struct line_conn *conn = &line->conns[i];
        conn->line = line;
        conn->lock = i % locks;
        load_conn_open(&conn->conn, client, on_granted, conn);
        wait_again(conn);
        if ((i + 1) % LINE_CHUNK == 0 || i + 1 == count)
            wait_until_waiting(line, (long)i + 1, LONG_MAX);
    }
    return line;
}

void load_line_free(struct load_line *line)
{
    for (size_t i = 0; i < line->count; i++)
        load_conn_close(&line->conns[i].conn);
    wait_until_waiting(line, 0, 0);
    load_conn_close(&line->metrics);
    free(line);
}

const char *load_line_granted(const struct load_line *line, int64_t *at_ns)
{
    *at_ns = line->granted_at_ns;
    return line->granted ? line->granted->token : NULL;
}

void load_line_again(struct load_line *line)
{
    struct line_conn *conn = line->granted;

    line->granted = NULL;
    wait_again(conn);
}
