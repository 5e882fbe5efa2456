/* The simulated network between front ends and Redis, and its troubles. */
#include "tests/sim/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

/* Descriptors of ours begin here: the kernel's do not come as far. */
enum { FD_FIRST = 1 << 20, WIRES_MAX = 16384 };
/* In every third run messages are fast, and their time is much the same. */
enum { NEAR_EVERY = 3 };

/* After so long Redis' end of a connection into a black hole is taken for dead. */
#define SILENCE_NS (5 * CLOCK_NS_PER_S)

static struct chance chance;
static struct wire *wires, *by_fd[WIRES_MAX];
static int fd_count;
static bool is_near;

int64_t latency_ns(struct chance *of)
{
    int64_t us = is_near ? chance_between(of, 20, 60) : chance_between(of, 40, 250);

    return (chance_percent(of, 1) ? 20 * us : us) * 1000;
}

void sockets_init(uint64_t seed)
{
    chance = chance_make(seed, "sockets");
    is_near = seed % NEAR_EVERY == 0;
}

struct wire *wire_of(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + fd_count ? by_fd[fd - FD_FIRST] : NULL;
}

static void drop_chunks(struct pipe *pipe)
{
    struct chunk *chunk;

    while ((chunk = pipe->chunks) != NULL) {
        pipe->chunks = chunk->next;
        free(chunk);
    }
    schedule_cancel(&pipe->timer);
}

static void free_if_closed(struct wire *wire)
{
    if (wire->front != NULL || wire->client != NULL || wire->to_redis.chunks != NULL)
        return;
    drop_chunks(&wire->to_front);
    schedule_cancel(&wire->connect);
    schedule_cancel(&wire->killed);
    buffer_release(&wire->inbox);
    DL_DELETE(wires, wire);
    free(wire);
}

/* --- sending ---------------------------------------------------------------------------------
 */

static struct net *net_of(const struct wire *wire)
{
    return wire->own->trouble != TROUBLE_NONE ? wire->own : wire->net;
}

void wire_send(struct pipe *pipe, enum sign sign, const char *text, size_t len)
{
    struct chunk *chunk = zalloc(sizeof(*chunk) + len);
    struct net *net = net_of(pipe->wire);
    int64_t at_ns = now_ns() + latency_ns(&chance);

    if (net->trouble == TROUBLE_DELAY) {
        at_ns += net->delay_ns;
        net->touched++;
    }
    if (at_ns <= pipe->last_ns)
        at_ns = pipe->last_ns + 1;
    chunk->at_ns = pipe->last_ns = at_ns;
    chunk->sign = sign;
    chunk->len = len;
    memcpy(chunk->text, text, len);
    LL_APPEND(pipe->chunks, chunk);
    if (!timer_is_armed(&pipe->timer))
        schedule_at(&pipe->timer, pipe->chunks->at_ns);
}

static void reset_front_end(struct wire *wire)
{
    drop_chunks(&wire->to_front);
    wire->inbox.len = 0;
    wire->state = WIRE_RESET;
    if (wire->front != NULL)
        thread_poke(wire->thread);
}

static void close_redis_end(struct wire *wire)
{
    if (wire->client == NULL)
        return;
    redis_disconnect(wire->client);
    wire->client = NULL;
    drop_chunks(&wire->to_redis);
}

/* As a device in the middle does: both ends learn of it at once. */
static void reset(struct wire *wire)
{
    close_redis_end(wire);
    drop_chunks(&wire->to_redis);
    if (wire->state == WIRE_UP)
        reset_front_end(wire);
}

/* --- what comes through
 * ------------------------------------------------------------------------ */

/* False: it waits until the trouble is over. `*len`: so many bytes of it come through. */
static bool passes(struct pipe *pipe, size_t *len, bool *is_cut)
{
    struct wire *wire = pipe->wire;
    struct net *net = net_of(wire);

    if (pipe == &wire->to_redis && wire->server->is_paused)
        return false;
    if (pipe->is_lost)
        *len = 0;
    switch (net->trouble) {
    case TROUBLE_HOLD:
        net->touched++;
        return false;
    case TROUBLE_BLACKHOLE:
        net->touched++;
        wire->to_redis.is_lost = wire->to_front.is_lost = true;
        *len = 0;
        break;
    case TROUBLE_DROP_REPLIES:
        if (pipe == &wire->to_front) {
            net->touched++;
            pipe->is_lost = true;
            *len = 0;
        }
        break;
    case TROUBLE_CUT:
        if (net->budget < (int64_t)*len) {
            net->touched++;
            *len = net->budget > 0 ? (size_t)net->budget : 0;
            *is_cut = true;
        }
        net->budget -= (int64_t)*len;
        break;
    case TROUBLE_NONE:
    case TROUBLE_DELAY:
    case TROUBLE_REFUSE:
        break;
    }
    return true;
}

static void come_to_redis(struct wire *wire, const struct chunk *chunk, size_t len)
{
    if (wire->client == NULL)
        return;
    if (len > 0)
        redis_receive(wire->client, chunk->text, len);
    if (chunk->sign == SIGN_BYTES)
        return;
    if (wire->to_redis.is_lost)
        schedule_in(&wire->killed, SILENCE_NS);
    else
        close_redis_end(wire);
}

static void come_to_front(struct wire *wire, const struct chunk *chunk, size_t len)
{
    if (wire->front == NULL || wire->state != WIRE_UP)
        return;
    buffer_add(&wire->inbox, chunk->text, len);
    if (chunk->sign == SIGN_END && !wire->to_front.is_lost)
        wire->state = WIRE_ENDED;
    else if (chunk->sign == SIGN_RESET && !wire->to_front.is_lost)
        reset_front_end(wire);
    thread_poke(wire->thread);
}

static void on_chunk(void *arg)
{
    struct pipe *pipe = arg;
    struct wire *wire = pipe->wire;
    struct chunk *chunk = pipe->chunks;
    size_t len = chunk->len;
    bool is_cut = false;

    if (!passes(pipe, &len, &is_cut))
        return;
    pipe->chunks = chunk->next;
    if (pipe->chunks != NULL)
        schedule_at(&pipe->timer, pipe->chunks->at_ns);
    if (pipe == &wire->to_redis)
        come_to_redis(wire, chunk, len);
    else
        come_to_front(wire, chunk, len);
    free(chunk);
    if (is_cut)
        reset(wire);
    free_if_closed(wire);
}

static void go_on(struct pipe *pipe)
{
    /* cppcheck-suppress ctuuninitvar */
    if (pipe->chunks != NULL && !timer_is_armed(&pipe->timer))
        schedule_at(&pipe->timer, pipe->chunks->at_ns);
}

void sockets_heal(struct front *front)
{
    struct wire *wire;

    DL_FOREACH(wires, wire) {
        if (wire->net != &front->to_redis)
            continue;
        go_on(&wire->to_redis);
        go_on(&wire->to_front);
    }
}

void sockets_pause(struct server *server, bool is_paused)
{
    struct wire *wire;

    server->is_paused = is_paused;
    DL_FOREACH(wires, wire) {
        if (!is_paused && wire->server == server)
            go_on(&wire->to_redis);
    }
}

/* --- Redis' end
 * --------------------------------------------------------------------------------- */

/* Outside of Redis' own code, which may walk its connections. */
static void on_killed(void *arg)
{
    struct wire *wire = arg;

    close_redis_end(wire);
    wire_send(&wire->to_front, SIGN_RESET, "", 0);
    free_if_closed(wire);
}

static void on_output(void *arg)
{
    struct wire *wire = arg;
    struct redis_client *client = wire->client;

    if (client->is_killed) {
        schedule_in(&wire->killed, 0);
        return;
    }
    wire_send(&wire->to_front, SIGN_BYTES, client->output.text, client->output.len);
    client->output.len = 0;
}

static void on_connect(void *arg)
{
    struct wire *wire = arg;
    struct net *net = net_of(wire);

    if (net->trouble == TROUBLE_BLACKHOLE || net->trouble == TROUBLE_HOLD ||
        wire->server->is_paused) {
        net->touched++;
        if (wire->server->is_paused || net->trouble == TROUBLE_HOLD)
            schedule_in(&wire->connect, 20 * CLOCK_NS_PER_MS);
        return; /* asks, and nobody answers */
    }
    if (net->trouble == TROUBLE_REFUSE || wire->server->is_stopped) {
        net->touched++;
        wire->state = WIRE_REFUSED;
    } else {
        wire->state = WIRE_UP;
        wire->client = redis_connect(&wire->server->redis, on_output, wire);
    }
    thread_poke(wire->thread);
}

int64_t sockets_kill(bool subscribers)
{
    struct wire *wire;
    int64_t count = 0;

    DL_FOREACH(wires, wire) {
        if (wire->client == NULL || wire->client->is_killed ||
            (wire->client->channel_count > 0) != subscribers)
            continue;
        wire->client->is_killed = true;
        schedule_in(&wire->killed, 0);
        count++;
    }
    return count;
}

int64_t sockets_reset_all(struct front *front)
{
    return sockets_reset(front, NULL);
}

int64_t sockets_reset(struct front *front, const struct server *server)
{
    struct wire *wire, *next;
    int64_t count = 0;

    DL_FOREACH_SAFE(wires, wire, next) {
        if (wire->front != front || wire->state != WIRE_UP ||
            (server != NULL && wire->server != server))
            continue;
        reset(wire);
        count++;
    }
    return count;
}

/* --- the front end's end
 * -------------------------------------------------------------------------- */

uint32_t socket_events(int fd)
{
    const struct wire *wire = wire_of(fd);

    if (wire == NULL)
        return 0;
    switch (wire->state) {
    case WIRE_NEW:
    case WIRE_CONNECTING:
        return 0;
    case WIRE_UP:
        return EPOLLOUT | (wire->inbox.len > 0 ? EPOLLIN : 0);
    case WIRE_ENDED:
        return EPOLLOUT | EPOLLIN;
    case WIRE_REFUSED:
    case WIRE_RESET:
        break;
    }
    return EPOLLOUT | EPOLLIN | EPOLLERR | EPOLLHUP;
}

struct wire *wire_new(void)
{
    struct wire *wire = zalloc(sizeof(*wire));

    if (fd_count == WIRES_MAX || running_thread == NULL)
        abort();
    wire->front = running_front;
    wire->thread = running_thread;
    wire->net = &running_front->to_redis;
    wire->fd = FD_FIRST + fd_count;
    by_fd[fd_count++] = wire;
    wire->connect = (struct timer){.fire = on_connect, .arg = wire};
    wire->killed = (struct timer){.fire = on_killed, .arg = wire};
    wire->to_redis = (struct pipe){.wire = wire,
                                   .timer = {.fire = on_chunk, .arg = &wire->to_redis}};
    wire->to_front = (struct pipe){.wire = wire,
                                   .timer = {.fire = on_chunk, .arg = &wire->to_front}};
    DL_APPEND(wires, wire);
    return wire;
}

void wire_connect(struct wire *wire, struct server *server)
{
    wire->server = server;
    wire->own = &wire->front->to_server[server->number];
    wire->state = WIRE_CONNECTING;
    schedule_in(&wire->connect, 2 * latency_ns(&chance));
}

void wire_close(struct wire *wire)
{
    by_fd[wire->fd - FD_FIRST] = NULL;
    if (wire->client != NULL)
        wire_send(&wire->to_redis, SIGN_END, "", 0);
    schedule_cancel(&wire->connect);
    wire->front = NULL;
    go_on(&wire->to_redis); /* what was on the way still comes */
    free_if_closed(wire);
}

void sockets_close_all(struct front *front)
{
    struct wire *wire, *next;

    DL_FOREACH_SAFE(wires, wire, next) {
        if (wire->front == front)
            wire_close(wire);
    }
}
