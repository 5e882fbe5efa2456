/* The life of a front end: its start, clock, pause and end. */
#include "tests/sim/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/origin.h"
#include "storage/wait/neighbours.h"
#include "tests/sim/http.h"
#include "tests/sim/sockets.h"

struct front *running_front;

void front_init(struct front *front, int number, uint64_t seed, const struct config *config)
{
    static const struct origin_rules origins = {
        .cors_origins = "", .server_names = "", .listen_host = ""};
    char name[16], error[256];

    snprintf(name, sizeof(name), "front %d", number);
    *front = (struct front){
        .number = number, .config = *config, .worker_count = config->workers};
    front->chance = chance_make(seed, name);
    threads_init(front, seed);
    front->clock_from_ns = now_ns();
    front->clock_ns = (500 + 100 * number) * CLOCK_NS_PER_S;
    if (redis_url_parse(&front->redis_url, servers_url(), error, sizeof(error)) != 0)
        abort();
    front->shared = (struct worker_shared){.config = &front->config,
                                           .redis_url = &front->redis_url,
                                           .origins = &origins,
                                           .metrics = front->metrics,
                                           .worker_count = (size_t)front->worker_count};
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

/* --- its life
 * ---------------------------------------------------------------------------------- */

static void leave(struct front *front)
{
    front->is_alive = false;
    for (int i = 0; i < front->worker_count; i++)
        thread_lose(&front->threads[i]);
}

/* Frees the workers, as server/main.c does when their threads have ended. */
static void end(struct front *front)
{
    struct worker *workers[WORKERS_MAX];

    for (int i = 0; i < front->worker_count; i++)
        workers[i] = front->threads[i].worker;
    workers_free(workers, (size_t)front->worker_count);
    if (front->shared.neighbours != NULL)
        neighbours_free(front->shared.neighbours);
    leave(front);
    front->has_ended = true;
    sockets_close_all(front);
}

void front_thread_ended(struct thread *thread)
{
    struct front *front = thread->front;

    thread->has_ended = true;
    for (int i = 0; i < front->worker_count; i++)
        if (!front->threads[i].has_ended)
            return;
    end(front);
}

/* Makes the workers, as server/main.c does before it starts their threads. */
static void make_workers(struct front *front)
{
    front->shared.neighbours = front->worker_count > 1 ? neighbours_new() : NULL;
    for (int i = 0; i < front->worker_count; i++) {
        struct thread *thread = &front->threads[i];
        thread_begin(thread);
        running_thread = thread; /* its sockets and its loop are the thread's */
        thread->worker = worker_new(&front->shared, (size_t)i, -1);
        running_thread = NULL;
        if (thread->worker == NULL)
            abort();
        front->metrics[i] = worker_metrics(thread->worker);
    }
}

void front_start(struct front *front)
{
    front->is_alive = true;
    front->has_ended = false;
    front->lives++;
    atomic_store(&front->shared.ready_workers, 0);
    running_front = front;
    make_workers(front);
    running_front = NULL;
    for (int i = 0; i < front->worker_count; i++)
        thread_poke(&front->threads[i]);
}

void front_kill(struct front *front)
{
    leave(front); /* its memory is lost with it */
    http_lose_all(front);
    sockets_close_all(front);
}

void front_stop(struct front *front)
{
    for (int i = 0; i < front->worker_count; i++) {
        running_front = front;
        worker_drain(front->threads[i].worker);
        running_front = NULL;
        if (front->worker_count > 1) /* the main thread has to wait for a processor, too */
            task_sleep(chance_between(&front->plan.chance, 0, 100) * CLOCK_NS_PER_US);
    }
}

void front_pause(struct front *front, bool is_paused)
{
    for (int i = 0; i < front->worker_count; i++)
        thread_pause(&front->threads[i], is_paused);
}

bool front_is_paused(const struct front *front)
{
    return front->threads[0].is_paused;
}
