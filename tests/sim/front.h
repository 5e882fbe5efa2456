/* The front ends: processes with whole workers of the product, each process with its own clock,
 * each worker with its own thread, run by the schedule. */
#ifndef RLOCKD_TESTS_SIM_FRONT_H
#define RLOCKD_TESTS_SIM_FRONT_H

#include "server/base/config.h"
#include "server/worker.h"
#include "storage/redis/url.h"
#include "tests/sim/chance.h"
#include "tests/sim/schedule.h"
#include "tests/sim/servers.h"
#include "tests/sim/threads.h"

enum { FRONTS_MAX = 8, WORKERS_MAX = 3 };

/* What becomes of messages on the way, in both directions unless said otherwise. */
enum trouble {
    TROUBLE_NONE,
    TROUBLE_DELAY,        /* late, by `delay_ns` */
    TROUBLE_HOLD,         /* late, until the trouble is over */
    TROUBLE_BLACKHOLE,    /* lost, and with them all that follow on the same connection */
    TROUBLE_DROP_REPLIES, /* those of the asked side are lost, for good */
    TROUBLE_CUT,          /* so many bytes pass, then the connection is reset, in their midst */
    TROUBLE_REFUSE        /* no new connections */
};

struct net {
    enum trouble trouble;
    int64_t delay_ns, budget, touched;
};

struct front {
    int number;
    bool is_alive, has_ended;
    int64_t lives; /* how often it was started */
    int worker_count;
    struct thread threads[WORKERS_MAX];
    struct worker_shared shared;
    struct config config;
    struct redis_url redis_url;
    struct metrics *metrics[WORKERS_MAX];
    struct chance chance;
    struct threads_plan plan;
    struct net to_redis, to_clients;
    struct net to_server[SERVERS_MAX]; /* what is wrong with the way to one server alone */
    size_t strangers;                  /* each of which always has a next request */
    int64_t strangers_served;          /* their requests */
    int64_t clock_from_ns, clock_ns, clock_ppm; /* runs so much faster */
};

/* The one whose code runs now; NULL: none. */
extern struct front *running_front;

/* With as many workers as `config` says: at most WORKERS_MAX. */
void front_init(struct front *front, int number, uint64_t seed, const struct config *config);
void front_start(struct front *front);
/* As SIGKILL does. */
void front_kill(struct front *front);
/* Of a task: as SIGTERM does; `has_ended` says when it has. */
void front_stop(struct front *front);
void front_pause(struct front *front, bool is_paused);
bool front_is_paused(const struct front *front);
int64_t front_clock_ns(const struct front *front);
void front_set_drift(struct front *front, int64_t ppm);

#endif
