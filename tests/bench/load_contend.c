/* Contention: every connection takes and releases the same lock as fast as the server lets it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

enum {
    WAIT_MS = 20000,
    END_TIMEOUT_S = 20,
    FAIR_TURN_S = 5, /* within it each contender for a fair lock has a turn */
    WRITE_EVERY = 5  /* mix: of so many turns one writes */
};

enum contender_state { CONTENDER_IDLE, CONTENDER_WAITS, CONTENDER_HOLDS };

struct contender {
    struct load_conn conn;
    struct contest *contest;
    enum contender_state state;
    struct load_request take[2]; /* mix: the second takes the lock to write */
    struct load_request give;
    const struct load_request *under_way;
    size_t index, turns_in_all;
    size_t turns;     /* since the window began */
    int64_t asked_ns; /* when the wait began, over every answer that the wait is over */
};

struct contest {
    const struct load_options *options;
    bool stopping, is_mix;
    size_t busy; /* contenders that wait or hold */
    struct load_samples waits;
    struct contender contenders[];
};

static void send_request(struct contender *contender, const struct load_request *request)
{
    contender->under_way = request;
    load_conn_send(&contender->conn, request->text, request->len);
}

static void start_turn(struct contender *contender)
{
    struct contest *contest = contender->contest;
    bool writes = contest->is_mix &&
                  (contender->turns_in_all + contender->index) % WRITE_EVERY == 0;
    struct load_request *take = &contender->take[writes];
    char token[LOAD_TOKEN_LEN + 1];

    contender->state = CONTENDER_IDLE;
    if (contest->stopping)
        return;
    load_token_next(token);
    load_request_set_token(take, token);
    load_request_set_token(&contender->give, token);
    contender->state = CONTENDER_WAITS;
    contender->asked_ns = load_now_ns();
    contender->turns_in_all++;
    contest->busy++;
    send_request(contender, take);
}

static void on_answered(struct load_conn *conn, const struct load_answer *answer)
{
    struct contender *contender = conn->arg;
    struct contest *contest = contender->contest;

    if (contender->state == CONTENDER_WAITS && answer->status == 423) {
        send_request(contender, contender->under_way);
        return;
    }
    load_check(&contest->options->peer, contender->under_way, answer);
    if (contender->state == CONTENDER_WAITS) {
        load_samples_add(&contest->waits, load_now_ns() - contender->asked_ns);
        contender->turns++;
        contender->state = CONTENDER_HOLDS;
        send_request(contender, &contender->give);
        return;
    }
    contest->busy--;
    start_turn(contender);
}

/* --- the contest -------------------------------------------------------------------------- */

static void make_requests(struct contender *contender, const char *kind_name, const char *name)
{
    static const struct {
        const char *name;
        enum load_kind first, second;
    } kinds[] = {{"plain", LOAD_LOCK, LOAD_LOCK},
                 {"fair", LOAD_FAIR, LOAD_FAIR},
                 {"write", LOAD_WRITE, LOAD_WRITE},
                 {"mix", LOAD_READ, LOAD_WRITE},
                 {"permit", LOAD_PERMIT, LOAD_PERMIT}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind_name) != 0)
            continue;
        load_request_take(&contender->take[0], kinds[i].first, name, WAIT_MS);
        load_request_take(&contender->take[1], kinds[i].second, name, WAIT_MS);
        load_request_give(&contender->give, kinds[i].first, name);
        return;
    }
    load_fail("--kind: plain, fair, write, mix or permit");
}

static struct contest *contest_new(const struct load_options *options,
                                   struct load_client clients[2])
{
    size_t count = options->connections;
    struct contest *contest = calloc(1,
                                     sizeof(*contest) + count * sizeof(contest->contenders[0]));

    if (contest == NULL)
        load_fail("out of memory");
    contest->options = options;
    contest->is_mix = strcmp(options->kind, "mix") == 0;
    for (size_t i = 0; i < count; i++) {
        struct contender *contender = &contest->contenders[i];
        contender->contest = contest;
        contender->index = i;
        make_requests(contender, options->kind, options->name);
        load_conn_open(&contender->conn, &clients[i % 2], on_answered, contender);
    }
    return contest;
}

static void run_for(struct load_client *client, double seconds)
{
    int64_t end_ns = load_now_ns() + (int64_t)(seconds * 1e9);

    while (load_now_ns() < end_ns)
        load_client_poll(client, 10);
}

static void begin_window(struct contest *contest)
{
    contest->waits.count = 0;
    for (size_t i = 0; i < contest->options->connections; i++)
        contest->contenders[i].turns = 0;
}

/* A wait that is not over counts with its length so far: a contender that never gets a turn
 * must not be missing among the waits. */
static void end_window(struct contest *contest)
{
    int64_t now_ns = load_now_ns();

    for (size_t i = 0; i < contest->options->connections; i++)
        if (contest->contenders[i].state == CONTENDER_WAITS)
            load_samples_add(&contest->waits, now_ns - contest->contenders[i].asked_ns);
}

/* Jain's index: 1 when all have the same number of turns, 1/n when one contender has them all.
 */
static void print_turns(const struct contest *contest, double took_s)
{
    size_t count = contest->options->connections;
    double sum = 0, squares = 0, least = 1e18, most = 0;

    for (size_t i = 0; i < count; i++) {
        double turns = (double)contest->contenders[i].turns;
        sum += turns;
        squares += turns * turns;
        least = turns < least ? turns : least;
        most = turns > most ? turns : most;
    }
    printf(", \"turns\": %.0f, \"turns_per_s\": %.1f, \"jain\": %.4f, \"least_turns\": %.0f, "
           "\"most_turns\": %.0f",
           sum, sum / took_s, squares > 0 ? sum * sum / ((double)count * squares) : 0, least,
           most);
    if (least < 1 && took_s >= FAIR_TURN_S && strcmp(contest->options->kind, "fair") == 0)
        load_fail("a contender for a fair lock had no turn in %.1f s", took_s);
}

/* The last turns end, so that the lock is free when this process ends. */
static void contest_end(struct contest *contest, struct load_client *client)
{
    int64_t deadline_ns = load_now_ns() + END_TIMEOUT_S * 1000000000LL;

    contest->stopping = true;
    while (contest->busy > 0 && load_now_ns() < deadline_ns)
        load_client_poll(client, 100);
    if (contest->busy > 0)
        load_fail("%zu contenders had not ended their turns after %d s", contest->busy,
                  END_TIMEOUT_S);
    for (size_t i = 0; i < contest->options->connections; i++)
        load_conn_close(&contest->contenders[i].conn);
    load_samples_release(&contest->waits);
    free(contest);
}

void load_contend(struct load_options *options)
{
    struct load_client clients[2];

    load_client_init(&clients[0], options->port, options->tls);
    clients[1] = clients[0]; /* the same epoll, so that one poll serves both */
    clients[1].port = options->second_port;
    struct contest *contest = contest_new(options, clients);
    for (size_t i = 0; i < options->connections; i++)
        start_turn(&contest->contenders[i]);
    run_for(&clients[0], options->warmup_s);
    begin_window(contest);
    load_processes_start(&options->processes);
    int64_t started_ns = load_now_ns();
    run_for(&clients[0], options->seconds);
    double took_s = (double)(load_now_ns() - started_ns) / 1e9;
    load_processes_stop(&options->processes);
    end_window(contest);
    print_turns(contest, took_s);
    load_samples_print(&contest->waits, "wait");
    load_processes_print(&options->processes);
    contest_end(contest, &clients[0]);
    load_client_release(&clients[0]);
}
