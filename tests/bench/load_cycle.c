/* The load of cycles: each connection acquires and releases a lock, over and over. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"

struct cycle_conn {
    struct load_conn conn;
    struct load_cycler *cycler;
    enum load_step step; /* the one under way */
    struct load_request requests[STEP_COUNT];
};

struct load_cycler {
    const struct load_options *options;
    struct load_client *client;
    struct load_samples samples[STEP_COUNT];
    size_t started, ended, busy; /* cycles; connections */
    size_t cycles_max;
    bool stopping;
    size_t conn_count;
    struct cycle_conn conns[];
};

static void send_step(struct cycle_conn *conn, enum load_step step)
{
    conn->step = step;
    load_conn_send(&conn->conn, conn->requests[step].text, conn->requests[step].len);
}

static void start_cycle(struct cycle_conn *conn)
{
    struct load_cycler *cycler = conn->cycler;
    char token[LOAD_TOKEN_LEN + 1];

    if (cycler->stopping || cycler->started == cycler->cycles_max)
        return;
    load_token_next(token);
    load_request_set_token(&conn->requests[STEP_ACQUIRE], token);
    load_request_set_token(&conn->requests[STEP_RELEASE], token);
    cycler->started++;
    cycler->busy++;
    send_step(conn, STEP_ACQUIRE);
}

static void on_answered(struct load_conn *load_conn, const struct load_answer *answer)
{
    struct cycle_conn *conn = load_conn->arg;
    struct load_cycler *cycler = conn->cycler;

    load_check(&cycler->options->peer, &conn->requests[conn->step], answer);
    load_samples_add(&cycler->samples[conn->step], answer->latency_ns);
    if (conn->step == STEP_ACQUIRE) {
        send_step(conn, STEP_RELEASE);
        return;
    }
    cycler->ended++;
    cycler->busy--;
    start_cycle(conn);
}

struct load_cycler *load_cycler_new(const struct load_options *options,
                                    struct load_client *client)
{
    size_t count = options->connections;
    struct load_cycler *cycler = calloc(1, sizeof(*cycler) + count * sizeof(cycler->conns[0]));
    char name[64];

    if (cycler == NULL)
        load_fail("out of memory");
    cycler->options = options;
    cycler->client = client;
    cycler->conn_count = count;
    for (size_t i = 0; i < count; i++) {
        struct cycle_conn *conn = &cycler->conns[i];
        conn->cycler = cycler;
        load_conn_open(&conn->conn, client, on_answered, conn);
        snprintf(name, sizeof(name), "%s-%zu", options->name, i);
        load_request_make(&conn->requests[STEP_ACQUIRE], &options->peer, STEP_ACQUIRE, name);
        load_request_make(&conn->requests[STEP_RELEASE], &options->peer, STEP_RELEASE, name);
    }
    return cycler;
}

void load_cycler_free(struct load_cycler *cycler)
{
    for (size_t i = 0; i < cycler->conn_count; i++)
        load_conn_close(&cycler->conns[i].conn);
    for (int step = 0; step < STEP_COUNT; step++)
        load_samples_release(&cycler->samples[step]);
    free(cycler);
}

void load_cycler_start(struct load_cycler *cycler, long cycles_max)
{
    cycler->stopping = false;
    cycler->cycles_max = cycles_max > 0 ? cycler->started + (size_t)cycles_max : SIZE_MAX;
    for (size_t i = 0; i < cycler->conn_count; i++)
        start_cycle(&cycler->conns[i]);
}

void load_cycler_stop(struct load_cycler *cycler)
{
    cycler->stopping = true;
    while (cycler->busy > 0)
        load_client_poll(cycler->client, 1000);
}

void load_cycler_measure(struct load_cycler *cycler)
{
    for (int step = 0; step < STEP_COUNT; step++)
        cycler->samples[step].count = 0;
}

void load_cycler_run(struct load_cycler *cycler, double seconds)
{
    int64_t end_ns = load_now_ns() + (int64_t)(seconds * 1e9);

    while (load_now_ns() < end_ns && cycler->busy > 0)
        load_client_poll(cycler->client, 10);
}

size_t load_cycler_cycles(const struct load_cycler *cycler)
{
    return cycler->ended;
}

struct load_samples *load_cycler_samples(struct load_cycler *cycler, enum load_step step)
{
    return &cycler->samples[step];
}

void load_cycle(struct load_options *options)
{
    struct load_client client;

    load_client_init(&client, options->port, options->tls);
    struct load_cycler *cycler = load_cycler_new(options, &client);
    load_cycler_start(cycler, options->cycles);
    load_cycler_run(cycler, options->cycles > 0 ? 0 : options->warmup_s);
    load_cycler_measure(cycler);
    load_processes_start(&options->processes);
    int64_t started_ns = load_now_ns();
    load_cycler_run(cycler, options->cycles > 0 ? 600 : options->seconds);
    double took_s = (double)(load_now_ns() - started_ns) / 1e9;
    load_processes_stop(&options->processes);
    size_t requests = cycler->samples[STEP_ACQUIRE].count + cycler->samples[STEP_RELEASE].count;
    printf(", \"requests\": %zu, \"cycles_per_s\": %.1f", requests,
           (double)requests / 2 / took_s);
    load_samples_print(&cycler->samples[STEP_ACQUIRE], "acquire");
    load_samples_print(&cycler->samples[STEP_RELEASE], "release");
    load_processes_print(&options->processes);
    load_cycler_stop(cycler);
    printf(", \"cycles_in_all\": %zu", load_cycler_cycles(cycler));
    load_cycler_free(cycler);
    load_client_release(&client);
}

/* --- holding ------------------------------------------------------------------------------ */

struct holder {
    const struct load_options *options;
    long started, ended;
};

struct hold_conn {
    struct load_conn conn;
    struct holder *holder;
    struct load_request request;
};

static void hold_next(struct hold_conn *conn)
{
    struct holder *holder = conn->holder;
    char name[64], token[LOAD_TOKEN_LEN + 1];

    if (holder->started == holder->options->cycles)
        return;
    snprintf(name, sizeof(name), "%s-%ld", holder->options->name, holder->started++);
    load_request_make(&conn->request, &holder->options->peer, STEP_ACQUIRE, name);
    load_token_next(token);
    load_request_set_token(&conn->request, token);
    load_conn_send(&conn->conn, conn->request.text, conn->request.len);
}

static void on_held(struct load_conn *load_conn, const struct load_answer *answer)
{
    struct hold_conn *conn = load_conn->arg;

    load_check(&conn->holder->options->peer, &conn->request, answer);
    conn->holder->ended++;
    hold_next(conn);
}

void load_hold(struct load_options *options)
{
    struct load_client client;
    struct holder holder = {.options = options};
    struct hold_conn *conns = calloc(options->connections, sizeof(*conns));

    if (conns == NULL)
        load_fail("out of memory");
    load_client_init(&client, options->port, options->tls);
    for (size_t i = 0; i < options->connections; i++) {
        conns[i].holder = &holder;
        load_conn_open(&conns[i].conn, &client, on_held, &conns[i]);
        hold_next(&conns[i]);
    }
    while (holder.ended < options->cycles)
        load_client_poll(&client, 1000);
    for (size_t i = 0; i < options->connections; i++)
        load_conn_close(&conns[i].conn);
    free(conns);
    load_client_release(&client);
    printf(", \"held\": %ld", holder.ended);
}
