/* In place of server/http/http.c and http_stage.c: requests come from simulated clients instead
 * of libmicrohttpd. Everything from the route on is the product's own. */
#include "tests/sim/http.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/http/http_internal.h"
#include "tests/sim/sockets.h"

/* After so long the product suspends a connection, and sees its hang-up at once. */
#define UNPARKED_NS (5 * CLOCK_NS_PER_MS)

/* Of the processor, for a request in a flood: more than nearly any real request needs, so that
 * a thousand strangers are a flood. */
#define REQUEST_NS (100 * CLOCK_NS_PER_US)

/* Messages of one exchange, on their way. */
enum message { MESSAGE_REQUEST, MESSAGE_HANG_UP, MESSAGE_ANSWER, MESSAGE_RESET, MESSAGES };

struct exchange;

struct way {
    struct exchange *exchange;
    struct timer timer;
    bool is_held;
};

/* One request on a connection of its own. */
struct exchange {
    struct exchange *prev, *next; /* of those of its front end */
    struct front *front;
    struct thread *thread; /* of the front end, that took the connection; NULL: none yet */
    int64_t life;          /* of the front end that has it */
    struct request request;
    int64_t arrived_ns; /* by the clock of the front end; 0: not yet */
    uint64_t round;
    struct task *asker; /* NULL: nobody waits for the answer any more */
    struct http_request *handled;
    bool has_come, is_answered, has_hung_up, is_closed, is_lost;
    bool is_served; /* right now: the turn of the thread may have stopped half way */
    struct way ways[MESSAGES];
    struct answer *answer;
    int status;
    bool is_problem;
    char *text;
};

static struct chance chance, spread;
static struct exchange *exchanges;

void http_init(uint64_t seed)
{
    chance = chance_make(seed, "http");
    spread = chance_make(seed, "connections");
}

static void drop_if_over(struct exchange *exchange)
{
    if (exchange->asker != NULL || exchange->handled != NULL || exchange->is_served)
        return;
    for (int i = 0; i < MESSAGES; i++)
        if (timer_is_armed(&exchange->ways[i].timer) || exchange->ways[i].is_held)
            return;
    DL_DELETE(exchanges, exchange);
    free(exchange->text);
    free(exchange);
}

static void send_message(struct exchange *exchange, enum message message)
{
    struct net *net = &exchange->front->to_clients;
    int64_t ns = latency_ns(&chance);

    if (net->trouble == TROUBLE_DELAY) {
        ns += net->delay_ns;
        net->touched++;
    }
    schedule_in(&exchange->ways[message].timer, ns);
}

/* --- the client's end
 * -------------------------------------------------------------------------- */

static void tell_asker(struct exchange *exchange, int status)
{
    struct task *asker = exchange->asker;

    if (asker == NULL)
        return;
    exchange->asker = NULL;
    exchange->answer->status = status;
    if (status != 0) {
        exchange->answer->body = json_loads(exchange->text, 0, NULL);
        exchange->answer->is_problem = exchange->is_problem;
    }
    task_wake(asker);
}

/* --- on the way
 * ---------------------------------------------------------------------------------- */

static bool is_there(const struct exchange *exchange)
{
    return exchange->front->is_alive && exchange->life == exchange->front->lives;
}

static void reset(struct exchange *exchange)
{
    exchange->has_hung_up = true;
    exchange->is_lost |= !exchange->has_come;
    if (is_there(exchange))
        thread_poke(exchange->thread);
    tell_asker(exchange, 0);
}

/* False: it does not come through, now or ever. */
static bool passes(struct way *way, enum message message)
{
    struct exchange *exchange = way->exchange;
    struct net *net = &exchange->front->to_clients;

    switch (net->trouble) {
    case TROUBLE_HOLD:
        way->is_held = true;
        break;
    case TROUBLE_BLACKHOLE:
        exchange->is_lost = true;
        break;
    case TROUBLE_DROP_REPLIES:
        if (message != MESSAGE_ANSWER)
            return !exchange->is_lost;
        break;
    case TROUBLE_CUT:
        net->budget -= message == MESSAGE_ANSWER ? 300 : 200;
        if (net->budget >= 0)
            return !exchange->is_lost;
        reset(exchange);
        break;
    case TROUBLE_REFUSE:
    case TROUBLE_DELAY:
    case TROUBLE_NONE:
        return !exchange->is_lost;
    }
    net->touched++;
    return false;
}

/* The kernel gives a connection to one of the listeners that the workers share a port by
 * (SO_REUSEPORT), by a hash of the connection's addresses: the client's port is another one for
 * each connection. NULL: nobody listens. */
static struct thread *accept_at(struct front *front)
{
    struct thread *open[WORKERS_MAX];
    size_t count = 0;

    for (int i = 0; front->is_alive && i < front->worker_count; i++)
        if (!front->threads[i].is_closed)
            open[count++] = &front->threads[i];
    return count > 0 ? open[chance_below(&spread, count)] : NULL;
}

static void come(struct exchange *exchange, enum message message)
{
    switch (message) {
    case MESSAGE_REQUEST:
        exchange->thread = accept_at(exchange->front);
        if (exchange->thread == NULL) {
            if (exchange->answer != NULL && exchange->asker != NULL)
                exchange->answer->is_sent = false;
            tell_asker(exchange, 0);
            return;
        }
        exchange->life = exchange->front->lives;
        exchange->has_come = true;
        thread_poke(exchange->thread);
        return;
    case MESSAGE_HANG_UP:
        exchange->has_hung_up = true;
        if (is_there(exchange))
            thread_poke(exchange->thread);
        return;
    case MESSAGE_ANSWER:
        tell_asker(exchange, exchange->status);
        return;
    case MESSAGE_RESET:
        tell_asker(exchange, 0);
        return;
    case MESSAGES:
        return;
    }
}

static void on_way(void *arg)
{
    struct way *way = arg;
    struct exchange *exchange = way->exchange;
    enum message message = (enum message)(way - exchange->ways);

    way->is_held = false;
    if (passes(way, message))
        come(exchange, message);
    drop_if_over(exchange);
}

static struct exchange *send_request(struct front *front, const struct request *request)
{
    struct exchange *exchange = zalloc(sizeof(*exchange));

    exchange->front = front;
    exchange->request = *request;
    for (int i = 0; i < MESSAGES; i++)
        exchange->ways[i] = (struct way){.exchange = exchange,
                                         .timer = {.fire = on_way, .arg = &exchange->ways[i]}};
    DL_APPEND(exchanges, exchange);
    send_message(exchange, MESSAGE_REQUEST);
    return exchange;
}

struct answer http_ask(struct front *front, const struct request *request)
{
    struct answer answer = {.is_sent = true};
    struct exchange *exchange = send_request(front, request);

    exchange->asker = task_current();
    exchange->answer = &answer;
    bool abandons = request->abandon_ns != 0 && request->abandon_ns < request->timeout_ns;
    if (task_wait(abandons ? request->abandon_ns : request->timeout_ns))
        return answer;
    exchange->asker = NULL;
    answer.is_abandoned = abandons;
    send_message(exchange, MESSAGE_HANG_UP);
    return answer;
}

int64_t http_reset_all(struct front *front)
{
    struct exchange *exchange, *next;
    int64_t count = 0;

    DL_FOREACH_SAFE(exchanges, exchange, next) {
        if (exchange->front != front || exchange->asker == NULL || exchange->has_hung_up)
            continue;
        reset(exchange);
        count++;
    }
    return count;
}

void http_heal(struct front *front)
{
    struct exchange *exchange;

    DL_FOREACH(exchanges, exchange) {
        for (int i = 0; i < MESSAGES; i++) {
            struct way *way = &exchange->ways[i];
            if (exchange->front != front || !way->is_held)
                continue;
            way->is_held = false;
            schedule_in(&way->timer, latency_ns(&chance));
        }
    }
}

static void lose_all(const struct thread *thread)
{
    struct exchange *exchange, *next;

    DL_FOREACH_SAFE(exchanges, exchange, next) {
        if (exchange->thread != thread)
            continue;
        exchange->is_served = false;
        exchange->handled = NULL;
        if (!exchange->is_closed && !exchange->is_answered && !exchange->is_lost)
            send_message(exchange, MESSAGE_RESET);
        exchange->is_closed = true;
        drop_if_over(exchange);
    }
}

void http_lose_all(struct front *front)
{
    for (int i = 0; i < front->worker_count; i++)
        lose_all(&front->threads[i]);
}

/* --- the front end's end: what those two files give the others
 * --------------------------------- */

void http_set_stage(struct http_request *request, enum http_stage stage)
{
    struct http_server *server = request->server;
    bool was_busy = request->stage >= HTTP_STAGE_HANDLED && request->stage <= HTTP_STAGE_QUEUED;

    request->stage = stage;
    bool is_busy = stage >= HTTP_STAGE_HANDLED && stage <= HTTP_STAGE_QUEUED;
    server->busy += (size_t)is_busy - (size_t)was_busy;
}

static struct exchange *exchange_of(const struct http_request *request)
{
    return (struct exchange *)request->mhd;
}

static void end(struct http_request *request, bool delivered)
{
    if (request->end != NULL)
        request->end(request->arg, delivered);
    http_set_stage(request, HTTP_STAGE_DROPPED);
    http_request_free(request);
}

void http_answered(struct http_request *request)
{
    const struct exchange *exchange = exchange_of(request);

    if (exchange == NULL) { /* nobody is there to take it */
        end(request, false);
        return;
    }
    bool gone = request->suspended && exchange->has_hung_up;
    http_set_stage(request, gone ? HTTP_STAGE_DROPPED : HTTP_STAGE_ANSWERED);
    loop_again(request->server->options.loop);
}

void http_drop(struct http_request *request)
{
    if (request->mhd == NULL) {
        http_answered(request);
        return;
    }
    http_set_stage(request, HTTP_STAGE_DROPPED);
    loop_again(request->server->options.loop);
}

static void take_request(struct http_server *server, struct exchange *exchange)
{
    struct http_request *request = http_request_new(server, exchange->request.uri);

    exchange->handled = request;
    request->mhd = (struct MHD_Connection *)exchange;
    request->method = exchange->request.method;
    request->stage = HTTP_STAGE_BODY;
    request->received_ns = exchange->arrived_ns;
    if (exchange->request.lease_token[0] != '\0')
        request->headers[HTTP_LEASE_TOKEN] = exchange->request.lease_token;
    if (exchange->request.session_token[0] != '\0')
        request->headers[HTTP_SESSION_TOKEN] = exchange->request.session_token;
    if (exchange->request.idempotency_key[0] != '\0')
        request->headers[HTTP_IDEMPOTENCY_KEY] = exchange->request.idempotency_key;
    http_dispatch(request);
}

/* libmicrohttpd lets go of the request. */
static void let_go(struct exchange *exchange, bool delivered)
{
    struct http_request *request = exchange->handled;

    exchange->handled = NULL;
    exchange->is_closed = true;
    request->mhd = NULL;
    memset(request->headers, 0, sizeof(request->headers));
    if (request->stage != HTTP_STAGE_HANDLED) {
        end(request, delivered);
    } else if (request->gone != NULL && !request->gone_reported) {
        request->gone_reported = true;
        request->gone(request->arg);
    }
}

static void send_answer(struct exchange *exchange)
{
    struct http_request *request = exchange->handled;
    const struct http_reply *reply = &request->reply;

    exchange->status = request->status;
    exchange->is_problem = reply->content_type != NULL &&
                           strcmp(reply->content_type, "application/problem+json") == 0;
    exchange->text = strndup(reply->text, reply->len);
    exchange->is_answered = true;
    metrics_request(request->server->options.metrics, request->route, request->status);
    send_message(exchange, MESSAGE_ANSWER);
    http_set_stage(request, HTTP_STAGE_QUEUED);
    let_go(exchange, true);
}

static void serve(struct http_server *server, struct exchange *exchange)
{
    struct http_request *request = exchange->handled;

    if (request == NULL && !exchange->is_answered) {
        if (exchange->has_hung_up) { /* before it was read */
            exchange->is_closed = true;
            return;
        }
        if (exchange->arrived_ns == 0)
            exchange->arrived_ns = clock_ns();
        if (!budget_takes_request(&server->budget, &exchange->round, 0))
            return;
        if (exchange->front->strangers > 0)
            thread_spend(exchange->thread, REQUEST_NS);
        take_request(server, exchange);
        request = exchange->handled;
    }
    if (request->stage == HTTP_STAGE_HANDLED && exchange->has_hung_up) {
        let_go(exchange, false);
    } else if (request->stage == HTTP_STAGE_ANSWERED) {
        if (budget_takes_answer(&server->budget))
            send_answer(exchange);
    } else if (request->stage == HTTP_STAGE_DROPPED) {
        if (!exchange->has_hung_up)
            send_message(exchange, MESSAGE_RESET);
        let_go(exchange, false);
    } else if (request->suspend_wanted ||
               loop_now_ns(server->options.loop) - request->received_ns > UNPARKED_NS) {
        request->suspended = true;
    }
}

/* A flood: strangers who have been ready for longer than anybody else, and are so again as soon
 * as they are answered. Their requests need no Redis and no network; what counts is the time
 * that they take. */
static void serve_strangers(struct http_server *server, struct thread *thread)
{
    for (size_t i = 0; i < thread->front->strangers; i++) {
        if (!budget_takes_request(&server->budget, &thread->rounds[i], 0))
            continue;
        thread_spend(thread, REQUEST_NS);
        thread->front->strangers_served++;
    }
}

static void on_turn(void *arg)
{
    struct http_server *server = arg;
    struct thread *thread = loop_thread(server->options.loop);
    struct exchange *exchange, *next;

    if (!server->is_open)
        return;
    budget_begin_turn(&server->budget, clock_ns());
    serve_strangers(server, thread);
    for (exchange = exchanges; exchange != NULL; exchange = next) {
        bool is_ours = exchange->thread == thread && !exchange->is_closed;
        exchange->is_served = is_ours;
        if (is_ours)
            serve(server, exchange);
        next = exchange->next;
        exchange->is_served = false;
        if (is_ours)
            drop_if_over(exchange);
    }
    if (budget_has_put_off(&server->budget))
        loop_again(server->options.loop);
}

struct http_server *http_start(const struct http_options *options)
{
    struct http_server *server = zalloc(sizeof(*server));

    server->options = *options;
    http_pools_init(server);
    budget_init(&server->budget);
    server->turn = (struct loop_hook){.run = on_turn, .arg = server};
    loop_hook_add(options->loop, &server->turn);
    return server;
}

void http_open(struct http_server *server)
{
    server->is_open = true;
    loop_again(server->options.loop);
}

void http_close_door(struct http_server *server)
{
    loop_thread(server->options.loop)->is_closed = true;
}

void http_drain(struct http_server *server)
{
    server->draining = true;
}

size_t http_busy(const struct http_server *server)
{
    return server->busy;
}

void http_stop(struct http_server *server)
{
    server->stopping = true;
    on_turn(server);
    lose_all(loop_thread(server->options.loop));
    loop_hook_remove(server->options.loop, &server->turn);
    http_pools_release(server);
    free(server);
}
