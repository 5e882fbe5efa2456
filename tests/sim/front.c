/* The life of a front end: its start, turns, clock, pause and end. */
#include "tests/sim/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/http.h"
#include "tests/sim/sockets.h"

struct front *running_front;

static void on_turn(void *arg);

void front_init(struct front *front, int number, uint64_t seed, const struct config *config)
{
    char name[16], error[256];

    snprintf(name, sizeof(name), "front %d", number);
    *front = (struct front){.number = number, .config = *config};
    front->chance = chance_make(seed, name);
    front->turn = (struct timer){.fire = on_turn, .arg = front};
    front->clock_from_ns = now_ns();
    front->clock_ns = (500 + 100 * number) * CLOCK_NS_PER_S;
    if (redis_url_parse(&front->redis_url, "unix:///simulated", error, sizeof(error)) != 0)
        abort();
    front->shared = (struct worker_shared){.config = &front->config,
                                           .redis_url = &front->redis_url,
                                           .metrics = front->metrics,
                                           .worker_count = 1};
}

/* --- its clock
 * --------------------------------------------------------------------------------- */

int64_t front_clock_ns(const struct front *front)
{
    int64_t passed_ns = now_ns() - front->clock_from_ns;

    return front->clock_ns + passed_ns + passed_ns / 1000000 * front->clock_ppm;
}

void front_set_drift(struct front *front, int64_t ppm)
{
    front->clock_ns = front_clock_ns(front);
    front->clock_from_ns = now_ns();
    front->clock_ppm = ppm;
}

/* --- its turns
 * ---------------------------------------------------------------------------------- */

static void turn_in(struct front *front, int64_t in_ns)
{
    int64_t at_ns = now_ns() + in_ns;

    if (!front->is_alive || front->is_paused ||
        (timer_is_armed(&front->turn) && front->turn.at_ns <= at_ns))
        return;
    schedule_at(&front->turn, at_ns);
}

void front_poke(struct front *front)
{
    turn_in(front, chance_between(&front->chance, 5, 60) * 1000);
}

static void await_turn(struct front *front)
{
    int64_t next_ns = loop_next_ns(front->loop);
    int64_t left_ns = next_ns - front_clock_ns(front);

    if (next_ns < 0)
        return;
    if (left_ns <= 0)
        front_poke(front);
    else /* rounded up as epoll_wait() does */
        turn_in(front, (left_ns / CLOCK_NS_PER_MS + 1) * CLOCK_NS_PER_MS);
}

static void leave(struct front *front)
{
    front->is_alive = false;
    schedule_cancel(&front->turn);
}

static void on_turn(void *arg)
{
    struct front *front = arg;

    running_front = front;
    loop_turn(front->loop);
    if (loop_is_stopped(front->loop)) {
        worker_free(front->worker);
        leave(front);
        front->has_ended = true;
        sockets_close_all(front);
    } else {
        await_turn(front);
    }
    running_front = NULL;
}

void front_start(struct front *front)
{
    front->is_alive = true;
    front->is_paused = front->has_ended = front->is_closed = false;
    front->lives++;
    atomic_store(&front->shared.ready_workers, 0);
    running_front = front;
    front->worker = worker_new(&front->shared, -1);
    if (front->worker == NULL)
        abort();
    front->metrics[0] = worker_metrics(front->worker);
    running_front = NULL;
    front_poke(front);
}

void front_kill(struct front *front)
{
    leave(front); /* its memory is lost with it */
    http_lose_all(front);
    sockets_close_all(front);
}

void front_stop(struct front *front)
{
    running_front = front;
    worker_drain(front->worker);
    running_front = NULL;
}

void front_pause(struct front *front, bool is_paused)
{
    front->is_paused = is_paused;
    if (is_paused)
        schedule_cancel(&front->turn);
    else
        front_poke(front);
}
